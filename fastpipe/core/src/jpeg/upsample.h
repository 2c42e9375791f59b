/* upsample.h: enlarges a component that has fewer samples than the image has pixels, as jdsample.c does. */
#ifndef FPC_UPSAMPLE_H
#define FPC_UPSAMPLE_H

#include <stdint.h>

#include "kernels.h"

typedef enum fpc_upsampling {
    FPC_UP_NONE = 0,   /* fullsize_upsample */
    FPC_UP_HORIZONTAL, /* h2v1_fancy_upsample: half the columns */
    FPC_UP_VERTICAL,   /* h1v2_fancy_upsample: half the rows */
    FPC_UP_BOTH,       /* h2v2_fancy_upsample */
    FPC_UP_REPEAT      /* int_upsample, h2v1_upsample, h2v2_upsample: repeats each sample */
} fpc_upsampling;

/* One component of a box of the image: the samples that it needs, and how they become pixels. */
typedef struct fpc_sampled {
    fpc_upsampling how;
    int horizontal, vertical;      /* pixels per sample in each direction */
    int width, height;             /* samples of the whole component */
    int first_column, last_column; /* the samples that the box needs, with neighbours, inside the component */
    int first_row, last_row;
    int origin; /* the column at which rows in memory start: the start of first_column's block */
} fpc_sampled;

/* Sets `sampled` for a box inside the image; the factors (largest / own) are whole numbers. */
void fpc_sampled_make(fpc_sampled *sampled, int horizontal, int vertical, int width, int height, int top, int left,
                      int box_height, int box_width);

static inline int fpc_clamp(int value, int end) { return value < 0 ? 0 : value >= end ? end - 1 : value; }

/* The sample row that contains pixel row y. It is called for each row, so it is inline. */
static inline int fpc_sampled_row(const fpc_sampled *sampled, int y) {
    const int vertical = sampled->vertical; /* only factors other than 1 and 2, which are rare, need a division */
    return fpc_clamp(vertical == 1 ? y : vertical == 2 ? y / 2 : y / vertical, sampled->height);
}

/* The sample row that is mixed in for pixel row y; the row itself at the component's edges, as in jdmainct.c, and if
 * none is mixed in. */
static inline int fpc_sampled_neighbour(const fpc_sampled *sampled, int y) {
    const int row = fpc_sampled_row(sampled, y);
    if (sampled->how != FPC_UP_VERTICAL && sampled->how != FPC_UP_BOTH) return row;
    return fpc_clamp(y & 1 ? row + 1 : row - 1, sampled->height);
}

/* For FPC_UP_HORIZONTAL and FPC_UP_BOTH: converts the row (for the latter, with its neighbour) to 16-bit numbers,
 * before columns are mixed. Writes columns first_column to last_column in whole groups of 16, and one more on a side
 * where the component ends, so wide[-1] must be writable. */
void fpc_upsample_widen(const fpc_kernels *kernels, const fpc_sampled *sampled, const uint8_t *row,
                        const uint8_t *neighbour, uint16_t *wide);

/* Writes pixels [left, left + width) of row y to `out`, in plain C, for all methods but FPC_UP_NONE. `wide` is only
 * needed for FPC_UP_HORIZONTAL and FPC_UP_BOTH. */
void fpc_upsample_row(const fpc_sampled *sampled, const uint8_t *row, const uint8_t *neighbour, const uint16_t *wide,
                      int y, int left, int width, uint8_t *restrict out);

#endif
