/* blur.h: one pass of Pillow's extended box blur: each line becomes a weighted mean of itself and its neighbours. */
#ifndef FPC_BLUR_H
#define FPC_BLUR_H

#include <stdint.h>

/* The bytes of a line that kernels blur at once; lines are read and written in whole groups. */
#define FPC_BLUR_GROUP 32

/* For passes along rows of one byte per pixel: FPC_BLUR_ROWS rows are transposed to lines of FPC_BLUR_ROWS bytes,
 * FPC_BLUR_COLUMNS columns at a time. */
#define FPC_BLUR_ROWS 32
#define FPC_BLUR_COLUMNS 16

/* Lines `stride` bytes apart; the first and the last line are repeated beyond the image. */
typedef struct fpc_blur_pass {
    int32_t lines, bytes; /* of a line */
    int64_t stride;
    int32_t radius; /* lines on each side with `weight`; the next one on each side has `edge`, in units of 1 / 2**24 */
    uint32_t weight, edge;
} fpc_blur_pass;

#endif
