/* adjust_plain.h: looks values up, blends and smooths rows, turns hues. */
#include <stdint.h>

/* ---- hue: Pillow's rgb2hsv_row and hsv2rgb in Convert.c; all products, sums and quotients have the same types ---- */

/* Rounds a nonnegative number as C's round(): to nearest, halves up. */
static inline uint8_t adjust_rounded(double value) { return (uint8_t)(value + 0.5); }

static inline void turn_hue_pixel(const uint8_t *in, int32_t shift, uint8_t *out) {
    const uint8_t red = in[0], green = in[1], blue = in[2];
    const uint8_t more = red > green ? red : green, less = red < green ? red : green;
    const uint8_t most = more > blue ? more : blue, least = less < blue ? less : blue;
    if (most == least) { /* gray has no saturation: its hue doesn't matter */
        out[0] = out[1] = out[2] = most;
        return;
    }
    const float range = (float)(most - least), saturation = range / (float)most;
    const float r = (float)(most - red) / range, g = (float)(most - green) / range, b = (float)(most - blue) / range;
    float hue; /* in sixths of a turn */
    if (red == most) {
        hue = b - g;
    } else if (green == most) {
        hue = (float)(2.0 + (double)r - (double)b);
    } else {
        hue = (float)(4.0 + (double)g - (double)r);
    }
    const double turned = (double)hue / 6.0 + 1.0; /* fmod(turned, 1.0), as `turned` is below 2 */
    hue = (float)(turned < 1.0 ? turned : turned - 1.0);
    const int h = ((int)((double)hue * 255.0) + shift) & 255, s = (int)((double)saturation * 255.0);

    const double sixths = (double)h * 6.0 / 255.0;
    const int sector = (int)sixths;
    const float part = (float)(sixths - (double)sector), gray = (float)((double)s / 255.0);
    const double v = (double)most;
    const uint8_t p = adjust_rounded(v * (1.0 - (double)gray));
    const uint8_t q = adjust_rounded(v * (1.0 - (double)(gray * part)));
    const uint8_t t = adjust_rounded(v * (1.0 - (double)gray * (1.0 - (double)part)));
    switch (sector) {
    case 1: out[0] = q, out[1] = most, out[2] = p; break;
    case 2: out[0] = p, out[1] = most, out[2] = t; break;
    case 3: out[0] = p, out[1] = q, out[2] = most; break;
    case 4: out[0] = t, out[1] = p, out[2] = most; break;
    case 5: out[0] = most, out[1] = p, out[2] = q; break;
    default: out[0] = most, out[1] = t, out[2] = p; break; /* 0, and 6 for a hue of 255 */
    }
}

static inline void turn_hue_plain(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out) {
    for (int32_t x = 0; x < count; x++) turn_hue_pixel(in + 3 * (int64_t)x, shift, out + 3 * (int64_t)x);
}

#ifndef FPC_SIMD_H
static void look_up(const uint8_t *in, int64_t count, const uint8_t *table, uint8_t *out) {
    for (int64_t x = 0; x < count; x++) out[x] = table[in[x]];
}

static void look_up_rgb(const uint8_t *in, int32_t count, const uint8_t *tables, uint8_t *out) {
    for (int32_t x = 0; x < count; x++, in += 3, out += 3) {
        const uint8_t red = tables[in[0]], green = tables[256 + in[1]], blue = tables[512 + in[2]];
        out[0] = red;
        out[1] = green;
        out[2] = blue;
    }
}

/* Pillow's Blend.c in float32, truncated and clamped. With a factor from 0 to 1 no value leaves 0 to 255. */
static void blend_rows(const uint8_t *first, const uint8_t *second, float factor, int64_t count, uint8_t *out) {
    for (int64_t x = 0; x < count; x++) {
        const float mixed = (float)first[x] + factor * (float)(second[x] - first[x]);
        out[x] = mixed <= 0.0f ? 0 : mixed >= 255.0f ? 255 : (uint8_t)mixed;
    }
}

/* ImageFilter.SMOOTH: (the sum of eight neighbours and five times the middle) / 13, to nearest. Pillow's Filter.c adds
 * up in float32 and truncates; no sum is nearer to a half than 1/26, so integers give the same result. */
static void smooth_row(const uint8_t *above, const uint8_t *row, const uint8_t *below, int64_t count, int32_t step,
                       uint8_t *out) {
    for (int64_t x = 0; x < count; x++) {
        const int sum = above[x - step] + above[x] + above[x + step] + row[x - step] + 5 * row[x] + row[x + step] +
                        below[x - step] + below[x] + below[x + step];
        out[x] = (uint8_t)((sum + 6) / 13);
    }
}

static void turn_hue(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out) {
    turn_hue_plain(in, count, shift, out);
}
#endif
