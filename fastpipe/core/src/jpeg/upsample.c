/* upsample.c: jdsample.c's methods of upsampling; the fast ones, which include the color conversion, are kernels. */
#include "upsample.h"

/* jdsample.c, jinit_upsampler, with do_fancy_upsampling as it is by default. */
static fpc_upsampling choose(int horizontal, int vertical, int width) {
    if (horizontal == 1 && vertical == 1) return FPC_UP_NONE;
    if (horizontal == 1 && vertical == 2) return FPC_UP_VERTICAL;
    if (horizontal == 2 && vertical <= 2 && width > 2) return vertical == 1 ? FPC_UP_HORIZONTAL : FPC_UP_BOTH;
    return FPC_UP_REPEAT;
}

void fpc_sampled_make(fpc_sampled *sampled, int horizontal, int vertical, int width, int height, int top, int left,
                      int box_height, int box_width) {
    sampled->how = choose(horizontal, vertical, width);
    sampled->horizontal = horizontal;
    sampled->vertical = vertical;
    sampled->width = width;
    sampled->height = height;
    const int margin = sampled->how == FPC_UP_HORIZONTAL || sampled->how == FPC_UP_BOTH;
    sampled->first_column = fpc_clamp(left / horizontal - margin, width);
    sampled->last_column = fpc_clamp((left + box_width - 1) / horizontal + margin, width);
    sampled->origin = sampled->first_column / 8 * 8;
    const int bottom = top + box_height - 1;
    const int above = fpc_sampled_neighbour(sampled, top), below = fpc_sampled_neighbour(sampled, bottom);
    sampled->first_row = fpc_sampled_row(sampled, top);
    sampled->last_row = fpc_sampled_row(sampled, bottom);
    if (above < sampled->first_row) sampled->first_row = above;
    if (below > sampled->last_row) sampled->last_row = below;
    /* For a single row, the neighbour may be on the other side. */
    if (below < sampled->first_row) sampled->first_row = below;
    if (above > sampled->last_row) sampled->last_row = above;
}

void fpc_upsample_widen(const fpc_kernels *kernels, const fpc_sampled *sampled, const uint8_t *row,
                        const uint8_t *neighbour, uint16_t *wide) {
    const int first = sampled->first_column - sampled->origin, last = sampled->last_column - sampled->origin;
    if (sampled->how == FPC_UP_BOTH)
        kernels->mix_rows(row + first, neighbour + first, wide + first, last - first + 1);
    else
        kernels->widen_row(row + first, wide + first, last - first + 1);
    /* Repeats the outermost sample beside it: the general formula then gives the sample itself, as in jdsample.c. */
    if (sampled->first_column == 0) wide[-1] = wide[0];
    if (sampled->last_column == sampled->width - 1) wide[last + 1] = wide[last];
}

/* h2v1_fancy_upsample: (3 * nearer + farther + 1 or 2) >> 2; for sums, h2v2_fancy_upsample: (... + 8 or 7) >> 4. */
static void mix_columns(const fpc_sampled *sampled, const uint16_t *wide, int left, int width, uint8_t *restrict out) {
    const int sums = sampled->how == FPC_UP_BOTH;
    const int shift = sums ? 4 : 2, even = sums ? 8 : 1, odd = sums ? 7 : 2;
    for (int x = left; x < left + width; x++) {
        const int column = x / 2 - sampled->origin, is_odd = x & 1;
        const int farther = wide[is_odd ? column + 1 : column - 1];
        out[x - left] = (uint8_t)((3 * wide[column] + farther + (is_odd ? odd : even)) >> shift);
    }
}

void fpc_upsample_row(const fpc_sampled *sampled, const uint8_t *row, const uint8_t *neighbour, const uint16_t *wide,
                      int y, int left, int width, uint8_t *restrict out) {
    const int start = left - sampled->origin; /* for methods that keep the columns */
    switch (sampled->how) {
    case FPC_UP_NONE: break;
    case FPC_UP_HORIZONTAL:
    case FPC_UP_BOTH: mix_columns(sampled, wide, left, width, out); break;
    case FPC_UP_VERTICAL: { /* h1v2_fancy_upsample: rounded down in the upper and up in the lower row of two */
        const int bias = y & 1 ? 2 : 1;
        for (int i = 0; i < width; i++) out[i] = (uint8_t)((3 * row[start + i] + neighbour[start + i] + bias) >> 2);
        break;
    }
    case FPC_UP_REPEAT:
        for (int i = 0; i < width; i++) out[i] = row[(left + i) / sampled->horizontal - sampled->origin];
        break;
    }
}
