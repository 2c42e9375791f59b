/* operations_simd.h: picks, flips and grays rows of pixels. */
#include "operations_plain.h"

#define NONE 255
/* Reverses five pixels of three bytes. */
static const uint8_t operations_flip[16] = {12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, NONE};
/* Splits four pixels to pairs of 16-bit numbers: red and green, green and blue. */
static const uint8_t operations_red_green[16] = {0, NONE, 1, NONE, 3, NONE, 4,  NONE,
                                                 6, NONE, 7, NONE, 9, NONE, 10, NONE};
static const uint8_t operations_green_blue[16] = {1, NONE, 2, NONE, 4,  NONE, 5,  NONE,
                                                  7, NONE, 8, NONE, 10, NONE, 11, NONE};
#undef NONE

#if defined(FPC_SIMD_VBMI)
#define C3(first) first, first + 1, first + 2
static const uint8_t operations_flip21[64] = {C3(60), C3(57), C3(54), C3(51), C3(48), C3(45), C3(42), C3(39),
                                              C3(36), C3(33), C3(30), C3(27), C3(24), C3(21), C3(18), C3(15),
                                              C3(12), C3(9),  C3(6),  C3(3),  C3(0),  0};
#undef C3

/* Writes at most 21 pixels of the result, from x on. */
SIMD void operations_flip_some(const uint8_t *in, int32_t x, int32_t count, uint8_t *out) {
    const int32_t pixels = count - x < 21 ? count - x : 21;
    const __mmask64 there = (UINT64_C(1) << 3 * pixels) - 1;
    const __m512i order =
        _mm512_sub_epi8(_mm512_loadu_si512(operations_flip21), _mm512_set1_epi8((char)(3 * (21 - pixels))));
    const __m512i from = _mm512_maskz_loadu_epi8(there, in + 3 * (int64_t)(count - x - pixels));
    _mm512_mask_storeu_epi8(out + 3 * (int64_t)x, there, _mm512_permutexvar_epi8(order, from));
}

/* Masked loads and stores cost a third of the time, so they are only used where a byte would be outside of the rows. */
static void flip_rgb(const uint8_t *in, int32_t count, uint8_t *out) {
    const __m512i order = _mm512_loadu_si512(operations_flip21);
    operations_flip_some(in, 0, count, out);
    int32_t x = 21;
    for (; x + 22 <= count; x += 21) {
        const __m512i from = _mm512_loadu_si512(in + 3 * (int64_t)(count - x - 21));
        _mm512_storeu_si512(out + 3 * (int64_t)x, _mm512_permutexvar_epi8(order, from));
    }
    for (; x < count; x += 21) operations_flip_some(in, x, count, out);
}

static void pick_pixels(const uint8_t *in, const fpc_picks *picks, uint8_t *out) {
    const fpc_pick_group *const groups = picks->groups;
    const int32_t count = picks->group_count;
    if (!count) {
        pick_each(in, picks, out);
        return;
    }
    for (int32_t k = 0; k < count; k++) {
        const __m512i from = _mm512_loadu_si512(in + groups[k].in), order = _mm512_loadu_si512(groups[k].order);
        _mm512_storeu_si512(out + groups[k].out, _mm512_permutexvar_epi8(order, from));
    }
}
#else
static void flip_rgb(const uint8_t *in, int32_t count, uint8_t *out) {
    const vec order = v_load_twice(operations_flip);
    int32_t x = count < 1 ? count : 1; /* each turn accesses a byte after its five pixels: it must lie in the rows */
    flip_rgb_plain(in, 0, x, count, out);
    for (; x + 11 <= count; x += 10) {
        const uint8_t *from = in + 3 * (int64_t)(count - 5 - x);
        const vec flipped = v_shuffle8(v_load_halves(from, from - 15), order);
        v_store_low(out + 3 * (int64_t)x, flipped);
        v_store_high(out + 3 * (int64_t)x + 15, flipped);
    }
    flip_rgb_plain(in, x, count, count, out);
}
#endif

/* operations_plain.h's luma of eight pixels, four from each address, as 32-bit numbers. 38470 exceeds 16 bits, so green
 * is added twice with half of it. */
SIMD vec operations_luma(const uint8_t *first, const uint8_t *second) {
    const vec bytes = v_load_halves(first, second);
    const vec red_green = v_shuffle8(bytes, v_load_twice(operations_red_green));
    const vec green_blue = v_shuffle8(bytes, v_load_twice(operations_green_blue));
    const vec sum = v_add32(v_madd16(red_green, v_all32(V_PAIR16(19595, 19235))),
                            v_madd16(green_blue, v_all32(V_PAIR16(19235, 7471))));
    return v_shift_right_s32(v_add32(sum, v_all32(0x8000)), 16);
}

static void rgb_to_gray(const uint8_t *in, int32_t count, uint8_t *out) {
    for (int32_t x = 0; x < count; x += 32, in += 96) {
        const vec a = operations_luma(in, in + 48), b = operations_luma(in + 12, in + 60);
        const vec c = operations_luma(in + 24, in + 72), d = operations_luma(in + 36, in + 84);
        v_store(out + x, v_pack_us16(v_pack_s32(a, b), v_pack_s32(c, d)));
    }
}
