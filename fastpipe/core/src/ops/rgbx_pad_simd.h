/* rgbx_pad_simd.h: rows of pixels of three bytes and of four, by shuffles. If a row isn't a whole number of vectors,
 * the last vector begins earlier and repeats some pixels: nothing outside of the row is read or written. */
#include "rgbx_pad_plain.h"

#if defined(FPC_SIMD_VBMI)
#define RGBX_PAD_AT_ONCE 16
#define C3(first) first, first + 1, first + 2
#define C4(first) first, first + 1, first + 2, 63
static const uint8_t rgbx_pad_drop[64] = {C3(0),  C3(4),  C3(8),  C3(12), C3(16), C3(20), C3(24), C3(28),
                                          C3(32), C3(36), C3(40), C3(44), C3(48), C3(52), C3(56), C3(60)};
static const uint8_t rgbx_pad_add[64] = {C4(0),  C4(3),  C4(6),  C4(9),  C4(12), C4(15), C4(18), C4(21),
                                         C4(24), C4(27), C4(30), C4(33), C4(36), C4(39), C4(42), C4(45)};
#undef C3
#undef C4

SIMD void rgbx_pad_drop_some(const uint8_t *rgbx, uint8_t *rgb) {
    const __m512i order = _mm512_loadu_si512(rgbx_pad_drop);
    _mm512_storeu_si512(rgb, _mm512_permutexvar_epi8(order, _mm512_loadu_si512(rgbx)));
}

SIMD void rgbx_pad_add_some(const uint8_t *rgb, uint8_t rgbx_pad, uint8_t *rgbx) {
    const __mmask64 rgbx_pads = UINT64_C(0x8888888888888888);
    const __m512i order = _mm512_loadu_si512(rgbx_pad_add), last = _mm512_set1_epi8((char)rgbx_pad);
    const __m512i pixels = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(rgb));
    _mm512_storeu_si512(rgbx, _mm512_mask_blend_epi8(rgbx_pads, pixels, last));
}
#else
#define RGBX_PAD_AT_ONCE 8
#define NONE 255
static const uint8_t rgbx_pad_drop[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, NONE, NONE, NONE, NONE};
static const uint8_t rgbx_pad_add[16] = {0, 1, 2, NONE, 3, 4, 5, NONE, 6, 7, 8, NONE, 9, 10, 11, NONE};
#undef NONE

SIMD void rgbx_pad_drop_some(const uint8_t *rgbx, uint8_t *rgb) {
    const vec pixels = v_shuffle8(v_load(rgbx), v_load_twice(rgbx_pad_drop));
    v_store_low(rgb, pixels); /* the last four bytes are overwritten by the next pixels, or are slack */
    v_store_high(rgb + 12, pixels);
}

SIMD void rgbx_pad_add_some(const uint8_t *rgb, uint8_t rgbx_pad, uint8_t *rgbx) {
    const vec pixels = v_shuffle8(v_load_halves(rgb, rgb + 12), v_load_twice(rgbx_pad_add));
    v_store(rgbx, v_or(pixels, v_all32((int32_t)((uint32_t)rgbx_pad << 24))));
}
#endif

static void drop_rgbx_pad(const uint8_t *rgbx, int32_t count, uint8_t *rgb) {
    const int32_t some = count - 1; /* the last pixel's fourth byte isn't read */
    if (some < RGBX_PAD_AT_ONCE) {
        drop_rgbx_pad_plain(rgbx, 0, count, rgb);
        return;
    }
    int64_t x = 0;
    for (; x + RGBX_PAD_AT_ONCE <= some; x += RGBX_PAD_AT_ONCE) rgbx_pad_drop_some(rgbx + 4 * x, rgb + 3 * x);
    x = some - RGBX_PAD_AT_ONCE;
    rgbx_pad_drop_some(rgbx + 4 * x, rgb + 3 * x);
    drop_rgbx_pad_plain(rgbx, some, count, rgb);
}

static void add_rgbx_pad(const uint8_t *rgb, int32_t count, uint8_t rgbx_pad, uint8_t *rgbx) {
    if (count < RGBX_PAD_AT_ONCE) {
        add_rgbx_pad_plain(rgb, 0, count, rgbx_pad, rgbx);
        return;
    }
    int64_t x = 0;
    for (; x + RGBX_PAD_AT_ONCE <= count; x += RGBX_PAD_AT_ONCE) rgbx_pad_add_some(rgb + 3 * x, rgbx_pad, rgbx + 4 * x);
    x = count - RGBX_PAD_AT_ONCE;
    rgbx_pad_add_some(rgb + 3 * x, rgbx_pad, rgbx + 4 * x);
}
#undef RGBX_PAD_AT_ONCE
