/* upsample.h: a component with fewer samples than the image has pixels, brought to the image's size as jdsample.c does
 * it. */
#ifndef FPC_UPSAMPLE_H
#define FPC_UPSAMPLE_H

#include <stdint.h>

#include "kernels.h"

typedef enum fpc_upsampling {
    FPC_UP_NONE = 0,   /* fullsize_upsample */
    FPC_UP_HORIZONTAL, /* h2v1_fancy_upsample: half the columns */
    FPC_UP_VERTICAL,   /* h1v2_fancy_upsample: half the rows */
    FPC_UP_BOTH,       /* h2v2_fancy_upsample */
    FPC_UP_REPEAT      /* int_upsample, h2v1_upsample, h2v2_upsample: each sample several times */
} fpc_upsampling;

/* One component of a box of the image: what is needed of it, and how its pixels are made. */
typedef struct fpc_sampled {
    fpc_upsampling how;
    int horizontal, vertical;      /* pixels a sample in each direction */
    int width, height;             /* samples of the whole component */
    int first_column, last_column; /* samples that the box needs, its neighbours included; inside the component */
    int first_row, last_row;
    int origin; /* the column that rows in memory start with: where first_column's block begins */
} fpc_sampled;

/* Fills `sampled` by the factors (largest / own: whole numbers), for a box inside the image. */
void fpc_sampled_make(fpc_sampled *sampled, int horizontal, int vertical, int width, int height, int top, int left,
                      int box_height, int box_width);

static inline int fpc_clamp(int value, int end) { return value < 0 ? 0 : value >= end ? end - 1 : value; }

/* The sample rows that pixel row y is made of: its own, and the neighbour that it is mixed with (its own again where
 * the component ends, or where none is). Asked for each row, so it stands here. */
static inline int fpc_sampled_row(const fpc_sampled *sampled, int y) {
    const int vertical = sampled->vertical; /* a division is needed only for others than 1 and 2, which are rare */
    return fpc_clamp(vertical == 1 ? y : vertical == 2 ? y / 2 : y / vertical, sampled->height);
}

/* The neighbour's row: above the first row the first again, and below the last one the last, as in jdmainct.c. */
static inline int fpc_sampled_neighbour(const fpc_sampled *sampled, int y) {
    const int row = fpc_sampled_row(sampled, y);
    if (sampled->how != FPC_UP_VERTICAL && sampled->how != FPC_UP_BOTH) return row;
    return fpc_clamp(y & 1 ? row + 1 : row - 1, sampled->height);
}

/* Widens, for FPC_UP_HORIZONTAL and FPC_UP_BOTH, the row (and, for the second, its neighbour) as 16-bit numbers before
 * columns are mixed: columns first_column to last_column, in whole groups of 16, and one on each side where the
 * component ends there. wide[-1] has to be there. */
void fpc_upsample_widen(const fpc_kernels *kernels, const fpc_sampled *sampled, const uint8_t *row,
                        const uint8_t *neighbour, uint16_t *wide);

/* Pixels [left, left + width) of row y into `out`, in plain C, for every way but FPC_UP_NONE. `wide` is needed
 * for the two ways above alone. */
void fpc_upsample_row(const fpc_sampled *sampled, const uint8_t *row, const uint8_t *neighbour, const uint16_t *wide,
                      int y, int left, int width, uint8_t *restrict out);

#endif
