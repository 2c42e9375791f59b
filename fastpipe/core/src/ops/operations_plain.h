/* operations_plain.h: picks, flips and grays rows of pixels. */
#include <string.h>

/* Writes pixels [first, end) of the result, which has `count` pixels. */
static inline void flip_rgb_plain(const uint8_t *in, int32_t first, int32_t end, int32_t count, uint8_t *out) {
    for (int32_t x = first; x < end; x++) {
        const uint8_t *pixel = in + 3 * (int64_t)(count - 1 - x);
        for (int c = 0; c < 3; c++) out[3 * (int64_t)x + c] = pixel[c];
    }
}

/* Compilers vectorise both. */
static void flip_rgbx(const uint8_t *in, int32_t count, uint8_t *out) {
    for (int64_t x = 0; x < count; x++) memcpy(out + 4 * x, in + 4 * (count - 1 - x), 4);
}

static void flip_gray(const uint8_t *in, int32_t count, uint8_t *out) {
    for (int64_t x = 0; x < count; x++) out[x] = in[count - 1 - x];
}

/* Copies pixels of three bytes, four bytes at once. */
static void pick_each(const uint8_t *in, const fpc_picks *picks, uint8_t *out) {
    const int32_t *const offsets = picks->offsets; /* a copy, as compilers can't know that `out` isn't in `picks` */
    const int32_t count = picks->count;
    if (picks->channels == 1) {
        for (int32_t x = 0; x < count; x++) out[x] = in[offsets[x]];
    } else if (picks->channels == 4) {
        int32_t x = 0;
        for (; x + 4 <= count; x += 4, out += 16) {
            uint32_t pixels[4];
            for (int k = 0; k < 4; k++) memcpy(&pixels[k], in + offsets[x + k], 4);
            memcpy(out, pixels, 16);
        }
        for (; x < count; x++, out += 4) memcpy(out, in + offsets[x], 4);
    } else {
        int32_t x = 0;
        for (; x + 4 <= count; x += 4, out += 12) {
            for (int k = 0; k < 4; k++) memcpy(out + 3 * k, in + offsets[x + k], 4);
        }
        for (; x < count; x++, out += 3) memcpy(out, in + offsets[x], 4);
    }
}

#if !defined(FPC_SIMD_VBMI)
static void pick_pixels(const uint8_t *in, const fpc_picks *picks, uint8_t *out) { pick_each(in, picks, out); }
#endif

#ifndef FPC_SIMD_H
static void flip_rgb(const uint8_t *in, int32_t count, uint8_t *out) { flip_rgb_plain(in, 0, count, count, out); }

/* Pillow's L24 in Convert.c: ITU-R 601-2 luma in units of 1 / 2**16. */
static void rgb_to_gray(const uint8_t *in, int32_t count, uint8_t *out) {
    for (int32_t x = 0; x < count; x++, in += 3) {
        out[x] = (uint8_t)((in[0] * 19595u + in[1] * 38470u + in[2] * 7471u + 0x8000u) >> 16);
    }
}
#endif
