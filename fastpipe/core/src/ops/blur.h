/* blur.h: one pass of Pillow's extended box blur: each line of an image becomes a weighted mean of its neighbours. */
#ifndef FPC_BLUR_H
#define FPC_BLUR_H

#include <stdint.h>

/* Kernels do so many bytes of a line at once: lines are read and written in whole groups. */
#define FPC_BLUR_GROUP 32

/* For passes along rows of one byte a pixel: so many rows at once are turned into lines of as many bytes, by so many
 * columns at once. */
#define FPC_BLUR_ROWS 32
#define FPC_BLUR_COLUMNS 16

/* Lines `stride` bytes apart; those before the first and after the last count as equal to these. */
typedef struct fpc_blur_pass {
    int32_t lines, bytes; /* of a line */
    int64_t stride;
    int32_t radius; /* as many lines on each side weigh `weight`, the next one on each side `edge`, in parts of 2**24 */
    uint32_t weight, edge;
} fpc_blur_pass;

#endif
