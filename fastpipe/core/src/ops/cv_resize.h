/* cv_resize.h: OpenCV's resize by INTER_LINEAR of bytes (resize.cpp: HResizeLinear, VResizeLinear): weights have 11
 * bits, rows are kept with 15, and sums are rounded once. */
#ifndef FPC_CV_RESIZE_H
#define FPC_CV_RESIZE_H

#include <stdint.h>

#define FPC_CV_ONE 2048 /* the sum of two weights */

/* Where a pixel of the result lies between two neighbours of the input. */
typedef struct fpc_cv_tap {
    int32_t offset;     /* of the first neighbour, in bytes */
    int16_t weights[2]; /* of both neighbours; the second is 0 where the first is the last of its row */
} fpc_cv_tap;

#endif
