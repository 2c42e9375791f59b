/* unfilter_simd.h: unfilter_plain.h's functions with simd.h.
 *
 * A pixel depends on the one to its left, so that in a single row each sum waits for the last one. Here four rows are
 * processed together, each two pixels behind the row above it: a quarter of a vec (four 16-bit numbers) is a pixel of
 * one row, and the pixel above was computed two turns before. Two filters are special cases of Paeth's: with zeros
 * above it gives the pixel to the left, with zeros at the left the one above. */
#ifndef FPC_UNFILTER_SIMD_H
#define FPC_UNFILTER_SIMD_H

#include "unfilter_plain.h"

#define UNFILTER_BEHIND 2
#define UNFILTER_BEFORE (UNFILTER_BEHIND * (FPC_FILTERED_ROWS - 1)) /* turns until all rows have begun */

typedef struct unfilter_wave {
    vec has_left, has_above, has_corner, averages; /* per row: all bits or none */
    vec left, earlier, corner;                     /* results of the last turn and the one before; the pixels above the
                                                    * last ones */
} unfilter_wave;

SIMD vec unfilter_mask(const fpc_filtered *rows, unsigned filters) {
    int16_t mask[16];
    for (int i = 0; i < 16; i++) mask[i] = filters >> rows->filters[i / 4] & 1 ? -1 : 0;
    return v_load(mask);
}

SIMD vec unfilter_turn(unfilter_wave *wave, vec raw, const uint8_t *first_above, const int averages) {
    const vec all_above = v_quarters_up(first_above, wave->earlier);
    const vec left = v_and(wave->left, wave->has_left), above = v_and(all_above, wave->has_above),
              corner = v_and(wave->corner, wave->has_corner);
    const vec from_above = v_sub16(above, corner), from_left = v_sub16(left, corner);
    const vec by_left = v_abs16(from_above), by_above = v_abs16(from_left),
              by_corner = v_abs16(v_add16(from_above, from_left));
    const vec nearest = v_min_s16(v_min_s16(by_left, by_above), by_corner);
    vec guess = v_select(v_equal16(by_above, nearest), above, corner);
    guess = v_select(v_equal16(by_left, nearest), left, guess);
    if (averages) guess = v_select(wave->averages, v_shift_right_u16(v_add16(left, above), 1), guess);
    const vec made = v_add8(raw, guess);
    wave->corner = all_above;
    wave->earlier = wave->left;
    wave->left = made;
    return made;
}

SIMD void unfilter_together(const fpc_filtered *rows, int32_t pixels, int step, const int averages) {
    unfilter_wave wave;
    wave.has_left = unfilter_mask(rows, 1u << FPC_FILTER_SUB | 1u << FPC_FILTER_AVERAGE | 1u << FPC_FILTER_PAETH);
    wave.has_above = unfilter_mask(rows, 1u << FPC_FILTER_UP | 1u << FPC_FILTER_AVERAGE | 1u << FPC_FILTER_PAETH);
    wave.has_corner = unfilter_mask(rows, 1u << FPC_FILTER_PAETH);
    wave.averages = unfilter_mask(rows, 1u << FPC_FILTER_AVERAGE);
    wave.left = wave.earlier = wave.corner = v_zero();
    static const uint8_t nothing[4] = {0};
    uint8_t nowhere[4];
    const uint8_t *above = rows->above, *raw[FPC_FILTERED_ROWS];
    uint8_t *out[FPC_FILTERED_ROWS];
    memcpy(raw, rows->raw, sizeof raw);
    memcpy(out, rows->out, sizeof out);
    for (int turn = 0; turn < UNFILTER_BEFORE; turn++, above += step) {
        const int begun = turn / UNFILTER_BEHIND + 1; /* at most three of the rows */
        const vec made =
            unfilter_turn(&wave, v_gather4(raw[0], begun > 1 ? raw[1] : nothing, begun > 2 ? raw[2] : nothing, nothing),
                          above, averages);
        v_scatter4(out[0], begun > 1 ? out[1] : nowhere, begun > 2 ? out[2] : nowhere, nowhere, made);
        for (int i = 0; i < begun; i++) raw[i] += step, out[i] += step;
    }
    for (int32_t x = 0; x < pixels; x++, above += step) {
        const vec made = unfilter_turn(&wave, v_gather4(raw[0], raw[1], raw[2], raw[3]), above, averages);
        v_scatter4(out[0], out[1], out[2], out[3], made);
        for (int i = 0; i < FPC_FILTERED_ROWS; i++) raw[i] += step, out[i] += step;
    }
}

static void unfilter(const fpc_filtered *rows, int count, int32_t pixels, int step) {
    unsigned filters = 0;
    for (int i = 0; i < count; i++) filters |= 1u << rows->filters[i];
    const unsigned sideways = 1u << FPC_FILTER_SUB | 1u << FPC_FILTER_AVERAGE | 1u << FPC_FILTER_PAETH;
    if (count < FPC_FILTERED_ROWS || step > 4 || !(filters & sideways)) /* a quarter holds 4 bytes */
        plain_unfilter(rows, count, pixels, step);
    else if (filters & 1u << FPC_FILTER_AVERAGE)
        unfilter_together(rows, pixels, step, 1);
    else
        unfilter_together(rows, pixels, step, 0);
}

#endif
