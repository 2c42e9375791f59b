/* nonzero_simd.h: a bit mask of a block's nonzero coefficients, in zigzag order, of all coefficients at once. */
#if !defined(FPC_SIMD_AVX2)
#include "nonzero_plain.h"
#else

/* For each of 32 zigzag indices, the coefficient's position in a quarter (16 in natural order), if it is in this
 * quarter. */
#define PLACE(natural, quarter) (natural) / 16 == (quarter) ? (natural) % 16 : 0x80
#define FIRST_HALF(q)                                                                                                  \
    {PLACE(0, q),  PLACE(1, q),  PLACE(8, q),  PLACE(16, q), PLACE(9, q),  PLACE(2, q),  PLACE(3, q),  PLACE(10, q),   \
     PLACE(17, q), PLACE(24, q), PLACE(32, q), PLACE(25, q), PLACE(18, q), PLACE(11, q), PLACE(4, q),  PLACE(5, q),    \
     PLACE(12, q), PLACE(19, q), PLACE(26, q), PLACE(33, q), PLACE(40, q), PLACE(48, q), PLACE(41, q), PLACE(34, q),   \
     PLACE(27, q), PLACE(20, q), PLACE(13, q), PLACE(6, q),  PLACE(7, q),  PLACE(14, q), PLACE(21, q), PLACE(28, q)}
#define SECOND_HALF(q)                                                                                                 \
    {PLACE(35, q), PLACE(42, q), PLACE(49, q), PLACE(56, q), PLACE(57, q), PLACE(50, q), PLACE(43, q), PLACE(36, q),   \
     PLACE(29, q), PLACE(22, q), PLACE(15, q), PLACE(23, q), PLACE(30, q), PLACE(37, q), PLACE(44, q), PLACE(51, q),   \
     PLACE(58, q), PLACE(59, q), PLACE(52, q), PLACE(45, q), PLACE(38, q), PLACE(31, q), PLACE(39, q), PLACE(46, q),   \
     PLACE(53, q), PLACE(60, q), PLACE(61, q), PLACE(54, q), PLACE(47, q), PLACE(55, q), PLACE(62, q), PLACE(63, q)}

/* 32 bytes for 32 coefficients: all ones for a coefficient of 0. */
SIMD __m256i nonzero_bytes(const int16_t *from) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)from), zero);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)(from + 16)), zero);
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
}

SIMD uint32_t nonzero_half(const __m256i quarters[4], const uint8_t order[4][32]) {
    __m256i bytes = _mm256_setzero_si256();
    for (int q = 0; q < 4; q++) {
        const __m256i places = _mm256_loadu_si256((const __m256i *)order[q]);
        bytes = _mm256_or_si256(bytes, _mm256_shuffle_epi8(quarters[q], places));
    }
    return ~(uint32_t)_mm256_movemask_epi8(bytes);
}

SIMD uint64_t nonzero_of(const int16_t *block, int last) {
    static const uint8_t order[2][4][32] = {{FIRST_HALF(0), FIRST_HALF(1), FIRST_HALF(2), FIRST_HALF(3)},
                                            {SECOND_HALF(0), SECOND_HALF(1), SECOND_HALF(2), SECOND_HALF(3)}};
    (void)last; /* all later coefficients are 0 */
    const __m256i low = nonzero_bytes(block), high = nonzero_bytes(block + 32);
    const __m256i quarters[4] = {_mm256_permute2x128_si256(low, low, 0x00), _mm256_permute2x128_si256(low, low, 0x11),
                                 _mm256_permute2x128_si256(high, high, 0x00),
                                 _mm256_permute2x128_si256(high, high, 0x11)};
    return nonzero_half(quarters, order[0]) | (uint64_t)nonzero_half(quarters, order[1]) << 32;
}

static uint64_t nonzero(const int16_t *block, int last) { return nonzero_of(block, last); }

#undef PLACE
#undef FIRST_HALF
#undef SECOND_HALF
#endif
