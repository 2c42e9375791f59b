/* color_plain.h: converts rows of samples to rows of RGB, in plain C. color_simd.h does the same with simd.h. All
 * functions process `count` pixels up to the next multiple of 32; rows are long enough for that. */
#ifndef FPC_COLOR_PLAIN_H
#define FPC_COLOR_PLAIN_H

#include <string.h>

#include "plain.h"

#define COLOR_GROUP 32
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define COLOR_BIG_ENDIAN 1
#else
#define COLOR_BIG_ENDIAN 0
#endif

/* Interleaves 32 pixels of three planes. Each pixel is one store of four bytes, the fourth of which the next pixel
 * overwrites; so one byte after the last pixel is written. */
static inline void color_interleave(const uint8_t *restrict red, const uint8_t *restrict green,
                                    const uint8_t *restrict blue, uint8_t *restrict rgb) {
    uint32_t words[COLOR_GROUP];
    for (int i = 0; i < COLOR_GROUP; i++) {
        const uint32_t r = red[i], g = green[i], b = blue[i];
        words[i] = COLOR_BIG_ENDIAN ? r << 24 | g << 16 | b << 8 : r | g << 8 | b << 16;
    }
    for (int i = 0; i < COLOR_GROUP; i++) memcpy(rgb + 3 * i, words + i, 4);
}

/* jdcolor.c, build_ycc_rgb_table and ycc_rgb_convert, with u = Cb - 128, v = Cr - 128:
 *     R = Y + ((91881 v + 32768) >> 16), B = Y + ((116130 u + 32768) >> 16),
 *     G = Y + ((-22554 u - 46802 v + 32768) >> 16)
 * Multiples of 65536 are subtracted from the factors, so that they fit 16 bits. (x + 32768) >> 16 is computed as
 * ((2 x >> 16) + 1) >> 1, each step of which fits 16 bits. */
static inline void color_convert(const uint8_t *restrict y, const uint8_t *restrict cb, const uint8_t *restrict cr,
                                 uint8_t *restrict rgb) {
    uint8_t red[COLOR_GROUP], green[COLOR_GROUP], blue[COLOR_GROUP];
    for (int i = 0; i < COLOR_GROUP; i++) {
        const int16_t u = (int16_t)(cb[i] - 128), v = (int16_t)(cr[i] - 128);
        const int16_t v2 = (int16_t)(2 * v), u2 = (int16_t)(2 * u);
        const int16_t r2 = (int16_t)((v2 * (91881 - 65536)) >> 16);
        const int16_t b2 = (int16_t)((u2 * (116130 - 2 * 65536)) >> 16);
        const int16_t g1 = (int16_t)((u * -22554 + v * (65536 - 46802) + 32768) >> 16);
        red[i] = plain_clamp((int16_t)(y[i] + v + (int16_t)((int16_t)(r2 + 1) >> 1)));
        blue[i] = plain_clamp((int16_t)(y[i] + u2 + (int16_t)((int16_t)(b2 + 1) >> 1)));
        green[i] = plain_clamp((int16_t)(y[i] - v + g1));
    }
    color_interleave(red, green, blue, rgb);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, int count) {
    for (int x = 0; x < count; x += COLOR_GROUP) color_convert(y + x, cb + x, cr + x, rgb + 3 * (size_t)x);
}

static void planes_to_rgb(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *rgb, int count) {
    for (int x = 0; x < count; x += COLOR_GROUP) color_interleave(red + x, green + x, blue + x, rgb + 3 * (size_t)x);
}

/* jdsample.c: h2v1_fancy_upsample, and with `sums` (3 times the nearer row plus the farther one) h2v2_fancy_upsample.
 * Each sample is 3/4 of the nearer and 1/4 of the farther input. Reads wide[-1] and one after the last, too. */
static inline void color_upsample_half(const uint16_t *restrict wide, const int sums, uint8_t *restrict out) {
    const int shift = sums ? 4 : 2, round_even = sums ? 8 : 1, round_odd = sums ? 7 : 2;
    uint16_t pairs[COLOR_GROUP / 2];
    for (int i = 0; i < COLOR_GROUP / 2; i++) {
        const uint16_t nearer = (uint16_t)(3 * wide[i]);
        const uint16_t even = (uint16_t)(nearer + wide[i - 1] + round_even) >> shift;
        const uint16_t odd = (uint16_t)(nearer + wide[i + 1] + round_odd) >> shift;
        pairs[i] = (uint16_t)(COLOR_BIG_ENDIAN ? even << 8 | odd : even | odd << 8);
    }
    memcpy(out, pairs, COLOR_GROUP);
}

static void ycc_half_to_rgb(const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int sums, uint8_t *rgb,
                            int count) {
    uint8_t full_cb[COLOR_GROUP], full_cr[COLOR_GROUP];
    for (int x = 0; x < count; x += COLOR_GROUP) {
        if (sums) {
            color_upsample_half(cb + x / 2, 1, full_cb);
            color_upsample_half(cr + x / 2, 1, full_cr);
        } else {
            color_upsample_half(cb + x / 2, 0, full_cb);
            color_upsample_half(cr + x / 2, 0, full_cr);
        }
        color_convert(y + x, full_cb, full_cr, rgb + 3 * (size_t)x);
    }
}

/* jdsample.c, h2v2_fancy_upsample: the sum of each column. */
static void mix_rows(const uint8_t *nearer, const uint8_t *farther, uint16_t *sums, int count) {
    for (int x = 0; x < count; x++) sums[x] = (uint16_t)(3 * nearer[x] + farther[x]);
}

static void widen_row(const uint8_t *row, uint16_t *wide, int count) {
    for (int x = 0; x < count; x++) wide[x] = row[x];
}

#endif
