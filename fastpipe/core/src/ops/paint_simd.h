/* paint_simd.h: paint_plain.h's function with simd.h: looks up palettes of few colors, as of masks, by shuffles. */
#ifndef FPC_PAINT_SIMD_H
#define FPC_PAINT_SIMD_H

#include "color_simd.h"
#include "paint_plain.h"

#define PAINT_COLORS 16 /* colors per shuffle */
#define PAINT_SHUFFLES 3

SIMD void paint_some(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb,
                     const int shuffles) {
    vec planes[PAINT_SHUFFLES][3];
    for (int i = 0; i < shuffles; i++) {
        for (int c = 0; c < 3; c++) planes[i][c] = v_load_twice(palette->planes[c] + PAINT_COLORS * i);
    }
    for (int32_t x = 0; x < count; x += 32) {
        const vec all = v_shuffle8(v_load(samples + x), v_load(color_even_first));
        vec colors[3] = {v_zero(), v_zero(), v_zero()};
        for (int i = 0; i < shuffles; i++) {
            /* Indices of this table's colors become 112 to 127; all others become negative. */
            const vec index = v_add_us8(v_sub8(all, v_all8(PAINT_COLORS * i)), v_all8(128 - PAINT_COLORS));
            for (int c = 0; c < 3; c++) colors[c] = v_or(colors[c], v_shuffle_low8(planes[i][c], index));
        }
        color_store(colors[0], colors[1], colors[2], rgb + 3 * (size_t)x);
    }
}

static void paint(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb) {
    if (palette->count <= PAINT_COLORS)
        paint_some(samples, count, palette, rgb, 1);
    else if (palette->count <= 2 * PAINT_COLORS)
        paint_some(samples, count, palette, rgb, 2);
    else if (palette->count <= 3 * PAINT_COLORS)
        paint_some(samples, count, palette, rgb, 3);
    else
        plain_paint(samples, count, palette, rgb);
}

#endif
