/* unstuff_simd.h: unstuff_plain.h's copying, for a run of bytes without 0xFF at once, or with AVX512-VBMI2 a whole
 * register. */
#include "unstuff_plain.h"

#if defined(FPC_SIMD_NEON)
static void unstuff(fpc_copy *copy) {
    while (copy->to < copy->limit) {
        if (copy->end - copy->from >= 16) {
            const uint8x16_t bytes = vld1q_u8(copy->from);
            vst1q_u8(copy->to, bytes);
            if (vmaxvq_u8(bytes) != 0xFF) {
                copy->from += 16;
                copy->to += 16;
                continue;
            }
            while (*copy->from != 0xFF) *copy->to++ = *copy->from++;
        }
        if (!take_byte(copy)) return;
    }
}
#else
#if defined(FPC_SIMD_VBMI)
/* Copies whole registers as long as each 0xFF is followed by a zero; the zeros are compressed out. */
static void unstuff_many(fpc_copy *copy) {
    const uint8_t *from = copy->from;
    uint8_t *to = copy->to;
    while (to < copy->limit && copy->end - from >= 64) {
        const __m512i bytes = _mm512_loadu_si512(from);
        const uint64_t marked = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(-1)), behind = marked << 1;
        uint64_t kept = ~behind;
        if (behind & _mm512_test_epi8_mask(bytes, bytes)) break;
        from += 64;
        if (marked >> 63) { /* the byte after it isn't in the register */
            kept &= ~((uint64_t)1 << 63);
            from--;
        }
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(kept, bytes));
        to += _mm_popcnt_u64(kept);
    }
    copy->from = from;
    copy->to = to;
}
#endif

static void unstuff(fpc_copy *copy) {
#if defined(FPC_SIMD_VBMI)
    unstuff_many(copy);
#endif
    const __m256i marked = _mm256_set1_epi8(-1);
    while (copy->to < copy->limit) {
        if (copy->end - copy->from >= 32) {
            const __m256i bytes = _mm256_loadu_si256((const __m256i *)copy->from);
            const uint32_t found = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, marked));
            _mm256_storeu_si256((__m256i *)copy->to, bytes);
            /* A branch, not a count, so that the next bytes needn't wait for the result. */
            if (!found) {
                copy->from += 32;
                copy->to += 32;
                continue;
            }
            copy->from += _tzcnt_u32(found);
            copy->to += _tzcnt_u32(found);
        }
        if (!take_byte(copy)) return;
    }
}
#endif
