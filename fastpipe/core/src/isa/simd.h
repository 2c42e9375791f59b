/* simd.h: the operations that SIMD kernels consist of, for AVX2 and for NEON.
 *
 * A `vec` is 32 bytes in two halves of 16. As in AVX2, operations that move bytes (pack, unpack, shuffle) work within
 * each half. The number in a name is the width of an element in bits; `s` means signed saturation, `us` unsigned. Loads
 * and stores need no alignment. Only isa_avx2.c, isa_avx512.c and isa_neon.c use this file; other machines use the
 * plain bodies. If an operation is missing here, add it in both forms.
 */
#ifndef FPC_SIMD_H
#define FPC_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define SIMD static __forceinline
#else
#define SIMD static inline __attribute__((always_inline, unused))
#endif

/* Two 16-bit numbers as one of 32 bits, the first one lower in memory: a pair of factors for v_madd16. */
#define V_PAIR16(a, b) ((int32_t)((uint32_t)(uint16_t)(a) | (uint32_t)(uint16_t)(b) << 16))

#if defined(FPC_SIMD_AVX2)

#include <immintrin.h>

typedef __m256i vec;

/* memory */
SIMD vec v_load(const void *from) { return _mm256_loadu_si256((const __m256i *)from); }
SIMD void v_store(void *to, vec a) { _mm256_storeu_si256((__m256i *)to, a); }
SIMD void v_store_low(void *to, vec a) { _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(a)); }
SIMD void v_store_high(void *to, vec a) { _mm_storeu_si128((__m128i *)to, _mm256_extracti128_si256(a, 1)); }
/* Loads each half from its own address. */
SIMD vec v_load_halves(const void *low, const void *high) {
    const __m256i a = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));
    return _mm256_inserti128_si256(a, _mm_loadu_si128((const __m128i *)high), 1);
}
/* Loads the same 16 bytes into both halves. */
SIMD vec v_load_twice(const void *from) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)from)); }
/* Loads 8 bytes from each of four addresses; the first two go to the low half. */
SIMD vec v_load_quarters(const void *a, const void *b, const void *c, const void *d) {
    const __m128i low = _mm_loadl_epi64((const __m128i *)a), high = _mm_loadl_epi64((const __m128i *)c);
    int64_t second, fourth;
    memcpy(&second, b, 8), memcpy(&fourth, d, 8);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_insert_epi64(low, second, 1)),
                                   _mm_insert_epi64(high, fourth, 1), 1);
}
/* Loads 16 bytes as 16 numbers of 16 bits. */
SIMD vec v_load_widened(const uint8_t *from) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)from)); }

/* Loads four bytes from each of four addresses as 16-bit numbers; each address fills a quarter (8 bytes). */
SIMD vec v_gather4(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    int32_t words[4];
    memcpy(&words[0], a, 4), memcpy(&words[1], b, 4), memcpy(&words[2], c, 4), memcpy(&words[3], d, 4);
    return _mm256_cvtepu8_epi16(_mm_set_epi32(words[3], words[2], words[1], words[0]));
}
/* Stores each quarter's four numbers, which are at most 255, as four bytes. */
SIMD void v_scatter4(uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *d, vec numbers16) {
    const __m256i packed = _mm256_packus_epi16(numbers16, numbers16);
    const __m128i low = _mm256_castsi256_si128(packed), high = _mm256_extracti128_si256(packed, 1);
    const int32_t words[4] = {_mm_cvtsi128_si32(low), _mm_extract_epi32(low, 1), _mm_cvtsi128_si32(high),
                              _mm_extract_epi32(high, 1)};
    memcpy(a, &words[0], 4), memcpy(b, &words[1], 4), memcpy(c, &words[2], 4), memcpy(d, &words[3], 4);
}
/* Moves each quarter to the next one; the first is loaded with four bytes, as 16-bit numbers. */
SIMD vec v_quarters_up(const uint8_t *first, vec a) {
    int32_t word;
    memcpy(&word, first, 4);
    const __m256i widened = _mm256_castsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(word)));
    return _mm256_blend_epi32(_mm256_permute4x64_epi64(a, 0x90), widened, 3);
}

/* constants */
SIMD vec v_zero(void) { return _mm256_setzero_si256(); }
SIMD vec v_all8(int x) { return _mm256_set1_epi8((char)x); }
SIMD vec v_all16(int x) { return _mm256_set1_epi16((short)x); }
SIMD vec v_all32(int32_t x) { return _mm256_set1_epi32(x); }

/* bits */
SIMD vec v_and(vec a, vec b) { return _mm256_and_si256(a, b); }
SIMD vec v_or(vec a, vec b) { return _mm256_or_si256(a, b); }
SIMD vec v_xor(vec a, vec b) { return _mm256_xor_si256(a, b); }
SIMD vec v_and_not(vec not_these, vec a) { return _mm256_andnot_si256(not_these, a); }
/* Makes a byte of 255 or 0 for each bit, from the lowest on. */
SIMD vec v_bits(uint32_t bits) {
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                           3, 3, 3, 3, 3, 3);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bits), bytes);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}
SIMD int v_is_zero(vec a) { return _mm256_testz_si256(a, a); }
#define v_shift_right_u16(a, bits) _mm256_srli_epi16(a, bits)
#define v_shift_right_s32(a, bits) _mm256_srai_epi32(a, bits)
#define v_shift_right_u32(a, bits) _mm256_srli_epi32(a, bits)
#define v_shift_left32(a, bits) _mm256_slli_epi32(a, bits)

/* arithmetic */
SIMD vec v_sub_s8(vec a, vec b) { return _mm256_subs_epi8(a, b); }
SIMD vec v_add8(vec a, vec b) { return _mm256_add_epi8(a, b); }
SIMD vec v_sub8(vec a, vec b) { return _mm256_sub_epi8(a, b); }
SIMD vec v_add_us8(vec a, vec b) { return _mm256_adds_epu8(a, b); }
SIMD vec v_add16(vec a, vec b) { return _mm256_add_epi16(a, b); }
SIMD vec v_abs16(vec a) { return _mm256_abs_epi16(a); }
SIMD vec v_min_s16(vec a, vec b) { return _mm256_min_epi16(a, b); }
/* v_equal16: a mask with all bits set where a and b are equal. v_select: a where the mask is set, else b. */
SIMD vec v_equal16(vec a, vec b) { return _mm256_cmpeq_epi16(a, b); }
SIMD vec v_select(vec mask, vec a, vec b) { return _mm256_blendv_epi8(b, a, mask); }
/* The sum of 32 bytes, spread over eight 32-bit sums. */
SIMD vec v_sum8(vec a) { return _mm256_sad_epu8(a, _mm256_setzero_si256()); }
/* Multiplies bytes by weights of 0 to 127, and adds neighbours: 16 sums, which must fit in 16 bits. */
SIMD vec v_weigh8(vec a, vec weights) { return _mm256_maddubs_epi16(a, weights); }
SIMD vec v_sub16(vec a, vec b) { return _mm256_sub_epi16(a, b); }
SIMD vec v_add32(vec a, vec b) { return _mm256_add_epi32(a, b); }
SIMD vec v_sub32(vec a, vec b) { return _mm256_sub_epi32(a, b); }
/* The lower 16 bits of the products. */
SIMD vec v_mul16(vec a, vec b) { return _mm256_mullo_epi16(a, b); }
/* (a * b + 2**14) >> 15 */
SIMD vec v_mul_round16(vec a, vec b) { return _mm256_mulhrs_epi16(a, b); }
/* The upper 16 bits of the unsigned products. */
SIMD vec v_mul_high_u16(vec a, vec b) { return _mm256_mulhi_epu16(a, b); }
/* Multiplies signed numbers, and adds neighbours: 8 sums of 32 bits. */
SIMD vec v_madd16(vec a, vec b) { return _mm256_madd_epi16(a, b); }
/* sum + v_madd16(a, b) */
#if defined(FPC_SIMD_VNNI)
SIMD vec v_add_madd16(vec sum, vec a, vec b) { return _mm256_dpwssd_epi32(sum, a, b); }
#else
SIMD vec v_add_madd16(vec sum, vec a, vec b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
#endif

/* order: in each half by itself */
SIMD vec v_unpack_low8(vec a, vec b) { return _mm256_unpacklo_epi8(a, b); }
SIMD vec v_unpack_high8(vec a, vec b) { return _mm256_unpackhi_epi8(a, b); }
SIMD vec v_unpack_low16(vec a, vec b) { return _mm256_unpacklo_epi16(a, b); }
SIMD vec v_unpack_high16(vec a, vec b) { return _mm256_unpackhi_epi16(a, b); }
SIMD vec v_unpack_low32(vec a, vec b) { return _mm256_unpacklo_epi32(a, b); }
SIMD vec v_unpack_high32(vec a, vec b) { return _mm256_unpackhi_epi32(a, b); }
SIMD vec v_unpack_low64(vec a, vec b) { return _mm256_unpacklo_epi64(a, b); }
SIMD vec v_unpack_high64(vec a, vec b) { return _mm256_unpackhi_epi64(a, b); }
SIMD vec v_pack_s32(vec a, vec b) { return _mm256_packs_epi32(a, b); }
SIMD vec v_pack_s16(vec a, vec b) { return _mm256_packs_epi16(a, b); }
SIMD vec v_pack_us16(vec a, vec b) { return _mm256_packus_epi16(a, b); }
/* Byte i of a half becomes the half's byte index[i], or 0 if index[i] is negative. No index exceeds 15. */
SIMD vec v_shuffle8(vec a, vec index) { return _mm256_shuffle_epi8(a, index); }
/* As v_shuffle8, but with only the lower four bits of an index. */
SIMD vec v_shuffle_low8(vec a, vec index) { return _mm256_shuffle_epi8(a, index); }
/* order: across the halves. Reorders the quarters (8 bytes each) to 0 2 1 3. */
SIMD vec v_swap_middle64(vec a) { return _mm256_permute4x64_epi64(a, 0xD8); }
/* Widen a half's signed bytes to 16 numbers of 16 bits. */
SIMD vec v_widen_low_s8(vec a) { return _mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)); }
SIMD vec v_widen_high_s8(vec a) { return _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1)); }

/* eight floats */
typedef __m256 vecf;
SIMD vec v_load_widened32(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)); /* 8 bytes as 8 numbers of 32 bits */
}
SIMD vecf v_float(vec numbers32) { return _mm256_cvtepi32_ps(numbers32); }
SIMD vecf v_all_float(float x) { return _mm256_set1_ps(x); }
SIMD vecf v_load_float(const float *from) { return _mm256_loadu_ps(from); }
SIMD vecf v_mul_float(vecf a, vecf b) { return _mm256_mul_ps(a, b); }
SIMD vecf v_add_float(vecf a, vecf b) { return _mm256_add_ps(a, b); }
SIMD vecf v_sub_float(vecf a, vecf b) { return _mm256_sub_ps(a, b); }
SIMD vecf v_min_float(vecf a, vecf b) { return _mm256_min_ps(a, b); }
/* Truncates to 32-bit integers; numbers below -2**31 become any negative number. */
SIMD vec v_cut_float(vecf a) { return _mm256_cvttps_epi32(a); }
/* a * b + c, rounded once */
SIMD vecf v_fma_float(vecf a, vecf b, vecf c) { return _mm256_fmadd_ps(a, b, c); }
SIMD void v_store_float(float *to, vecf a) { _mm256_storeu_ps(to, a); }
/* Rounds to nearest, ties to even; not for NaN. */
SIMD void v_store_float16(uint16_t *to, vecf a) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SIMD void v_store_bfloat16(uint16_t *to, vecf a) {
    const __m256i bits = _mm256_castps_si256(a),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), odd));
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(rounded, 16), _mm256_setzero_si256());
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xD8)));
}

#elif defined(FPC_SIMD_NEON)

#include <arm_neon.h>

typedef struct vec {
    uint8x16_t low, high;
} vec;

/* An operation on both halves, whose elements are of a kind. */
#define V_BOTH(kind, expression_low, expression_high)                                                                  \
    ((vec){vreinterpretq_u8_##kind(expression_low), vreinterpretq_u8_##kind(expression_high)})
#define V_AS(kind, a) vreinterpretq_##kind##_u8(a)
#define V_TWO(kind, function, a, b)                                                                                    \
    V_BOTH(kind, function(V_AS(kind, (a).low), V_AS(kind, (b).low)),                                                   \
           function(V_AS(kind, (a).high), V_AS(kind, (b).high)))

/* memory */
SIMD vec v_load(const void *from) {
    return (vec){vld1q_u8((const uint8_t *)from), vld1q_u8((const uint8_t *)from + 16)};
}
SIMD void v_store_low(void *to, vec a) { vst1q_u8((uint8_t *)to, a.low); }
SIMD void v_store_high(void *to, vec a) { vst1q_u8((uint8_t *)to, a.high); }
SIMD void v_store(void *to, vec a) {
    v_store_low(to, a);
    vst1q_u8((uint8_t *)to + 16, a.high);
}
SIMD vec v_load_halves(const void *low, const void *high) {
    return (vec){vld1q_u8((const uint8_t *)low), vld1q_u8((const uint8_t *)high)};
}
SIMD vec v_load_twice(const void *from) { return v_load_halves(from, from); }
SIMD vec v_load_quarters(const void *a, const void *b, const void *c, const void *d) {
    return (vec){vcombine_u8(vld1_u8((const uint8_t *)a), vld1_u8((const uint8_t *)b)),
                 vcombine_u8(vld1_u8((const uint8_t *)c), vld1_u8((const uint8_t *)d))};
}
SIMD vec v_load_widened(const uint8_t *from) {
    const uint8x16_t a = vld1q_u8(from);
    return V_BOTH(u16, vmovl_u8(vget_low_u8(a)), vmovl_high_u8(a));
}

SIMD uint32_t v_word(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, from, 4);
    return word;
}
SIMD vec v_gather4(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    const uint32x4_t words = {v_word(a), v_word(b), v_word(c), v_word(d)};
    const uint8x16_t bytes = vreinterpretq_u8_u32(words);
    return V_BOTH(u16, vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
}
SIMD void v_scatter4(uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *d, vec numbers16) {
    const uint32x4_t words =
        vreinterpretq_u32_u8(vmovn_high_u16(vmovn_u16(V_AS(u16, numbers16.low)), V_AS(u16, numbers16.high)));
    const uint32_t four[4] = {vgetq_lane_u32(words, 0), vgetq_lane_u32(words, 1), vgetq_lane_u32(words, 2),
                              vgetq_lane_u32(words, 3)};
    memcpy(a, &four[0], 4), memcpy(b, &four[1], 4), memcpy(c, &four[2], 4), memcpy(d, &four[3], 4);
}
SIMD vec v_quarters_up(const uint8_t *first, vec a) {
    const uint16x8_t widened = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(v_word(first))));
    return (vec){vcombine_u8(vreinterpret_u8_u16(vget_low_u16(widened)), vget_low_u8(a.low)),
                 vcombine_u8(vget_high_u8(a.low), vget_low_u8(a.high))};
}

/* constants */
SIMD vec v_zero(void) { return (vec){vdupq_n_u8(0), vdupq_n_u8(0)}; }
SIMD vec v_all8(int x) { return (vec){vdupq_n_u8((uint8_t)x), vdupq_n_u8((uint8_t)x)}; }
SIMD vec v_all16(int x) { return V_BOTH(s16, vdupq_n_s16((int16_t)x), vdupq_n_s16((int16_t)x)); }
SIMD vec v_all32(int32_t x) { return V_BOTH(s32, vdupq_n_s32(x), vdupq_n_s32(x)); }

/* bits */
SIMD vec v_and(vec a, vec b) { return (vec){vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)}; }
SIMD vec v_or(vec a, vec b) { return (vec){vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)}; }
SIMD vec v_xor(vec a, vec b) { return (vec){veorq_u8(a.low, b.low), veorq_u8(a.high, b.high)}; }
SIMD vec v_and_not(vec not_these, vec a) {
    return (vec){vbicq_u8(a.low, not_these.low), vbicq_u8(a.high, not_these.high)};
}
SIMD uint8x16_t v_bits_half(uint32_t bits) {
    const uint8x16_t spread = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    return vtstq_u8(spread, vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u)));
}
SIMD vec v_bits(uint32_t bits) { return (vec){v_bits_half(bits), v_bits_half(bits >> 16)}; }
SIMD int v_is_zero(vec a) { return vmaxvq_u8(vorrq_u8(a.low, a.high)) == 0; }
#define v_shift_right_u16(a, bits)                                                                                     \
    V_BOTH(u16, vshrq_n_u16(V_AS(u16, (a).low), bits), vshrq_n_u16(V_AS(u16, (a).high), bits))
#define v_shift_right_s32(a, bits)                                                                                     \
    V_BOTH(s32, vshrq_n_s32(V_AS(s32, (a).low), bits), vshrq_n_s32(V_AS(s32, (a).high), bits))
#define v_shift_right_u32(a, bits)                                                                                     \
    V_BOTH(u32, vshrq_n_u32(V_AS(u32, (a).low), bits), vshrq_n_u32(V_AS(u32, (a).high), bits))
#define v_shift_left32(a, bits)                                                                                        \
    V_BOTH(s32, vshlq_n_s32(V_AS(s32, (a).low), bits), vshlq_n_s32(V_AS(s32, (a).high), bits))

/* arithmetic */
SIMD vec v_sub_s8(vec a, vec b) { return V_TWO(s8, vqsubq_s8, a, b); }
SIMD vec v_add8(vec a, vec b) { return (vec){vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)}; }
SIMD vec v_sub8(vec a, vec b) { return (vec){vsubq_u8(a.low, b.low), vsubq_u8(a.high, b.high)}; }
SIMD vec v_add_us8(vec a, vec b) { return (vec){vqaddq_u8(a.low, b.low), vqaddq_u8(a.high, b.high)}; }
SIMD vec v_add16(vec a, vec b) { return V_TWO(s16, vaddq_s16, a, b); }
SIMD vec v_abs16(vec a) { return V_BOTH(s16, vabsq_s16(V_AS(s16, a.low)), vabsq_s16(V_AS(s16, a.high))); }
SIMD vec v_min_s16(vec a, vec b) { return V_TWO(s16, vminq_s16, a, b); }
SIMD vec v_equal16(vec a, vec b) { return V_TWO(u16, vceqq_u16, a, b); }
SIMD vec v_select(vec mask, vec a, vec b) {
    return (vec){vbslq_u8(mask.low, a.low, b.low), vbslq_u8(mask.high, a.high, b.high)};
}
SIMD vec v_sum8(vec a) { return V_BOTH(u32, vpaddlq_u16(vpaddlq_u8(a.low)), vpaddlq_u16(vpaddlq_u8(a.high))); }
SIMD int16x8_t v_weigh_half(uint8x16_t a, uint8x16_t weights) { /* weights up to 127 */
    return vreinterpretq_s16_u16(vpaddq_u16(vmull_u8(vget_low_u8(a), vget_low_u8(weights)), vmull_high_u8(a, weights)));
}
SIMD vec v_weigh8(vec a, vec weights) {
    return V_BOTH(s16, v_weigh_half(a.low, weights.low), v_weigh_half(a.high, weights.high));
}
SIMD vec v_sub16(vec a, vec b) { return V_TWO(s16, vsubq_s16, a, b); }
SIMD vec v_add32(vec a, vec b) { return V_TWO(s32, vaddq_s32, a, b); }
SIMD vec v_sub32(vec a, vec b) { return V_TWO(s32, vsubq_s32, a, b); }
SIMD vec v_mul16(vec a, vec b) { return V_TWO(s16, vmulq_s16, a, b); }
SIMD vec v_mul_round16(vec a, vec b) {
    return V_TWO(s16, vqrdmulhq_s16, a, b);
} /* saturates only for the square of -2**15 */
SIMD uint16x8_t v_mul_high_half(uint8x16_t a, uint8x16_t b) {
    const uint16x8_t x = V_AS(u16, a), y = V_AS(u16, b);
    return vuzp2q_u16(vreinterpretq_u16_u32(vmull_u16(vget_low_u16(x), vget_low_u16(y))),
                      vreinterpretq_u16_u32(vmull_high_u16(x, y)));
}
SIMD vec v_mul_high_u16(vec a, vec b) {
    return V_BOTH(u16, v_mul_high_half(a.low, b.low), v_mul_high_half(a.high, b.high));
}
SIMD int32x4_t v_madd_half(uint8x16_t a, uint8x16_t b) {
    const int16x8_t x = V_AS(s16, a), y = V_AS(s16, b);
    return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
SIMD vec v_madd16(vec a, vec b) { return V_BOTH(s32, v_madd_half(a.low, b.low), v_madd_half(a.high, b.high)); }
SIMD vec v_add_madd16(vec sum, vec a, vec b) { return v_add32(sum, v_madd16(a, b)); }

/* order */
SIMD vec v_unpack_low8(vec a, vec b) { return (vec){vzip1q_u8(a.low, b.low), vzip1q_u8(a.high, b.high)}; }
SIMD vec v_unpack_high8(vec a, vec b) { return (vec){vzip2q_u8(a.low, b.low), vzip2q_u8(a.high, b.high)}; }
SIMD vec v_unpack_low16(vec a, vec b) { return V_TWO(u16, vzip1q_u16, a, b); }
SIMD vec v_unpack_high16(vec a, vec b) { return V_TWO(u16, vzip2q_u16, a, b); }
SIMD vec v_unpack_low32(vec a, vec b) { return V_TWO(u32, vzip1q_u32, a, b); }
SIMD vec v_unpack_high32(vec a, vec b) { return V_TWO(u32, vzip2q_u32, a, b); }
SIMD vec v_unpack_low64(vec a, vec b) { return V_TWO(u64, vzip1q_u64, a, b); }
SIMD vec v_unpack_high64(vec a, vec b) { return V_TWO(u64, vzip2q_u64, a, b); }
SIMD int16x8_t v_pack_half_s32(uint8x16_t a, uint8x16_t b) {
    return vqmovn_high_s32(vqmovn_s32(V_AS(s32, a)), V_AS(s32, b));
}
SIMD vec v_pack_s32(vec a, vec b) {
    return V_BOTH(s16, v_pack_half_s32(a.low, b.low), v_pack_half_s32(a.high, b.high));
}
SIMD int8x16_t v_pack_half_s16(uint8x16_t a, uint8x16_t b) {
    return vqmovn_high_s16(vqmovn_s16(V_AS(s16, a)), V_AS(s16, b));
}
SIMD vec v_pack_s16(vec a, vec b) { return V_BOTH(s8, v_pack_half_s16(a.low, b.low), v_pack_half_s16(a.high, b.high)); }
SIMD uint8x16_t v_pack_half_us16(uint8x16_t a, uint8x16_t b) {
    return vqmovun_high_s16(vqmovun_s16(V_AS(s16, a)), V_AS(s16, b));
}
SIMD vec v_pack_us16(vec a, vec b) { return (vec){v_pack_half_us16(a.low, b.low), v_pack_half_us16(a.high, b.high)}; }
SIMD vec v_shuffle8(vec a, vec index) { return (vec){vqtbl1q_u8(a.low, index.low), vqtbl1q_u8(a.high, index.high)}; }
SIMD vec v_shuffle_low8(vec a, vec index) { return v_shuffle8(a, v_and(index, v_all8(0x8F))); }
SIMD vec v_swap_middle64(vec a) {
    const uint64x2_t x = V_AS(u64, a.low), y = V_AS(u64, a.high);
    return V_BOTH(u64, vzip1q_u64(x, y), vzip2q_u64(x, y));
}

SIMD vec v_widen_low_s8(vec a) {
    const int8x16_t bytes = V_AS(s8, a.low);
    return V_BOTH(s16, vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
SIMD vec v_widen_high_s8(vec a) {
    const int8x16_t bytes = V_AS(s8, a.high);
    return V_BOTH(s16, vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}

/* eight floats */
typedef struct vecf {
    float32x4_t low, high;
} vecf;
SIMD vec v_load_widened32(const uint8_t *from) {
    const uint16x8_t a = vmovl_u8(vld1_u8(from));
    return V_BOTH(u32, vmovl_u16(vget_low_u16(a)), vmovl_high_u16(a));
}
SIMD vecf v_float(vec numbers32) {
    return (vecf){vcvtq_f32_s32(V_AS(s32, numbers32.low)), vcvtq_f32_s32(V_AS(s32, numbers32.high))};
}
SIMD vecf v_all_float(float x) { return (vecf){vdupq_n_f32(x), vdupq_n_f32(x)}; }
SIMD vecf v_load_float(const float *from) { return (vecf){vld1q_f32(from), vld1q_f32(from + 4)}; }
SIMD vecf v_mul_float(vecf a, vecf b) { return (vecf){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
SIMD vecf v_add_float(vecf a, vecf b) { return (vecf){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
SIMD vecf v_min_float(vecf a, vecf b) { return (vecf){vminq_f32(a.low, b.low), vminq_f32(a.high, b.high)}; }
SIMD vec v_cut_float(vecf a) { return V_BOTH(s32, vcvtq_s32_f32(a.low), vcvtq_s32_f32(a.high)); }
SIMD vecf v_sub_float(vecf a, vecf b) { return (vecf){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
SIMD vecf v_fma_float(vecf a, vecf b, vecf c) {
    return (vecf){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
SIMD void v_store_float(float *to, vecf a) {
    vst1q_f32(to, a.low);
    vst1q_f32(to + 4, a.high);
}
SIMD void v_store_float16(uint16_t *to, vecf a) {
    vst1q_u16(to, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.low), a.high)));
}
SIMD uint32x4_t v_round_bfloat16(float32x4_t a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(bits, vaddq_u32(vdupq_n_u32(0x7FFF), odd));
}
SIMD void v_store_bfloat16(uint16_t *to, vecf a) {
    vst1q_u16(to, vshrn_high_n_u32(vshrn_n_u32(v_round_bfloat16(a.low), 16), v_round_bfloat16(a.high), 16));
}

#else
#error "simd.h is for isa_avx2.c and isa_neon.c"
#endif
#endif
