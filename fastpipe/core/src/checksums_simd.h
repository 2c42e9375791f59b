/* checksums_simd.h: faster versions of checksums_plain.h's functions. */
#ifndef FPC_CHECKSUMS_SIMD_H
#define FPC_CHECKSUMS_SIMD_H

#include "checksums_plain.h"

#if defined(FPC_SIMD_AVX2)
/* Multiplies without carries: V. Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ", Intel
 * 2009. The factors are from its section on bit-reflected CRC-32: x to the powers 4 * 128 + 64, 4 * 128, 128 + 64, 128
 * and 64. */
SIMD __m128i crc_fold(__m128i value, __m128i factors, const uint8_t *data) {
    const __m128i low = _mm_clmulepi64_si128(value, factors, 0x00), high = _mm_clmulepi64_si128(value, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)data));
}

static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size) {
    if (size < 64) return fpc_crc32(crc, data, size);
    const __m128i zero = _mm_setzero_si128(), low32 = _mm_set_epi32(0, -1, 0, -1);
    const __m128i by_four = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_one = _mm_set_epi64x(0xccaa009e, 0x1751997d0);
    const __m128i last = _mm_set_epi64x(0, 0x163cd6124), polynomial = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    __m128i a = _mm_xor_si128(_mm_loadu_si128((const __m128i *)data), _mm_cvtsi32_si128((int)~crc));
    __m128i b = _mm_loadu_si128((const __m128i *)(data + 16)), c = _mm_loadu_si128((const __m128i *)(data + 32)),
            d = _mm_loadu_si128((const __m128i *)(data + 48));
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        a = crc_fold(a, by_four, data);
        b = crc_fold(b, by_four, data + 16);
        c = crc_fold(c, by_four, data + 32);
        d = crc_fold(d, by_four, data + 48);
    }
    const uint8_t *const nothing = (const uint8_t *)&zero;
    a = _mm_xor_si128(crc_fold(a, by_one, nothing), b);
    a = _mm_xor_si128(crc_fold(a, by_one, nothing), c);
    a = _mm_xor_si128(crc_fold(a, by_one, nothing), d);
    for (; size >= 16; data += 16, size -= 16) a = crc_fold(a, by_one, data);
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_one, 0x10)); /* from 128 bits to 96, to 64 */
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low32), last, 0x00));
    b = _mm_clmulepi64_si128(_mm_and_si128(a, low32), polynomial, 0x10); /* Barrett's reduction to 32 bits */
    b = _mm_clmulepi64_si128(_mm_and_si128(b, low32), polynomial, 0x00);
    crc = (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, b), 1);
    return fpc_crc32(~crc, data, size);
}
#elif defined(__GNUC__) && defined(__AARCH64EL__)
/* An instruction for CRC-32, in assembly: compilers offer a function for it only with flags for the whole file. */
#define ARM_CRC(name, type, width)                                                                                     \
    SIMD uint32_t name(uint32_t crc, type data) {                                                                      \
        __asm__(".arch_extension crc\n\t" #name " %w0, %w1, %" width "2" : "=r"(crc) : "r"(crc), "r"(data));           \
        return crc;                                                                                                    \
    }
ARM_CRC(crc32x, uint64_t, "x")
ARM_CRC(crc32b, uint32_t, "w")

static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size) {
    if (!fpc_has_arm_crc()) return fpc_crc32(crc, data, size);
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t eight;
        memcpy(&eight, data, sizeof eight);
        crc = crc32x(crc, eight);
    }
    for (; size; size--, data++) crc = crc32b(crc, *data);
    return ~crc;
}
#else
static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size) { return fpc_crc32(crc, data, size); }
#endif

SIMD uint32_t adler_total(vec numbers32) {
    uint32_t numbers[8], total = 0;
    v_store(numbers, numbers32);
    for (int i = 0; i < 8; i++) total += numbers[i];
    return total;
}

/* Takes groups of 32 bytes: the second sum grows by 32 times the first sum before the group, and by 32, 31, ... times
 * the group's bytes. */
static uint32_t adler32(uint32_t adler, const uint8_t *data, size_t size) {
    static const int8_t weights[32] = {32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17,
                                       16, 15, 14, 13, 12, 11, 10, 9,  8,  7,  6,  5,  4,  3,  2,  1};
    const vec weight = v_load(weights), ones = v_all16(1);
    uint32_t sum = adler & 0xFFFF, sums = adler >> 16;
    while (size >= 32) {
        const size_t groups = (size < ADLER_MOST ? size : ADLER_MOST) / 32;
        vec bytes = v_zero(), before = v_zero(), weighed = v_zero();
        for (size_t i = 0; i < groups; i++, data += 32) {
            const vec group = v_load(data);
            before = v_add32(before, bytes);
            bytes = v_add32(bytes, v_sum8(group));
            weighed = v_add32(weighed, v_madd16(v_weigh8(group, weight), ones));
        }
        sums += 32 * (adler_total(before) + (uint32_t)groups * sum) + adler_total(weighed);
        sum += adler_total(bytes);
        sum %= ADLER_MODULUS;
        sums %= ADLER_MODULUS;
        size -= 32 * groups;
    }
    return plain_adler32(sums << 16 | sum, data, size);
}

#endif
