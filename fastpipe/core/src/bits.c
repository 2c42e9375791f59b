#include "bits.h"

#include "entropy.h"

#if FPC_HAS_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Up to this many bytes behind the limit of `unstuff` may be written. */
#define SLACK 32

_Static_assert(SLACK <= 64, "the buffer has 64 bytes behind the margin");

typedef struct fpc_copy {
    const uint8_t *from, *end;
    uint8_t *to, *limit;
    int marker;
} fpc_copy;

/* At a byte of 0xFF: one data byte where 0 follows, else a marker, before which any number of 0xFF may stand. With
 * several of them before a 0, libjpeg's two ways of decoding disagree, and the faster one leaves something behind:
 * that is 0xFF as a marker here, which nobody takes. Returns 0 where the data ends. */
static int take_marked(fpc_copy *copy) {
    const uint8_t *code = copy->from + 1;
    while (code < copy->end && *code == 0xFF) code++;
    if (code == copy->end) {
        copy->marker = FPC_END_OF_DATA;
        return 0;
    }
    if (*code || code > copy->from + 1) {
        copy->marker = *code ? *code : 0xFF;
        copy->from = code - 1;
        return 0;
    }
    *copy->to++ = 0xFF;
    copy->from = code + 1;
    return 1;
}

/* The last bytes of the file, one by one; or those up to the next 0xFF, where one is known to be near. */
static int take_byte(fpc_copy *copy) {
    if (copy->from == copy->end) {
        copy->marker = FPC_END_OF_DATA;
        return 0;
    }
    if (*copy->from == 0xFF) return take_marked(copy);
    *copy->to++ = *copy->from++;
    return 1;
}

static void unstuff_portable(fpc_copy *copy) {
    while (copy->to < copy->limit) {
#if defined(__ARM_NEON) && defined(__aarch64__)
        if (copy->end - copy->from >= 16) {
            uint8x16_t bytes = vld1q_u8(copy->from);
            if (vmaxvq_u8(bytes) != 0xFF) {
                vst1q_u8(copy->to, bytes);
                copy->from += 16;
                copy->to += 16;
                continue;
            }
        }
#endif
        if (copy->end - copy->from >= 8) {
            uint64_t word, low = UINT64_C(0x0101010101010101);
            memcpy(&word, copy->from, sizeof word);
            memcpy(copy->to, &word, sizeof word);
            /* A byte of 0xFF is one that is 0 when all bits are turned; the well-known test for those. */
            if (!((~word - low) & word & low << 7)) {
                copy->from += 8;
                copy->to += 8;
                continue;
            }
            while (*copy->from != 0xFF) *copy->to++ = *copy->from++;
        }
        if (!take_byte(copy)) return;
    }
}

#if FPC_HAS_AVX2
FPC_AVX2 static void unstuff_avx2(fpc_copy *copy) {
    const __m256i marked = _mm256_set1_epi8(-1);
    while (copy->to < copy->limit) {
        if (copy->end - copy->from >= 32) {
            __m256i bytes = _mm256_loadu_si256((const __m256i *)copy->from);
            uint32_t found = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, marked));
            _mm256_storeu_si256((__m256i *)copy->to, bytes);
            uint32_t plain = found ? (uint32_t)__builtin_ctz(found) : 32;
            copy->from += plain;
            copy->to += plain;
            if (!found) continue;
        }
        if (!take_byte(copy)) return;
    }
}
#endif

/* Unstuffed bytes behind `filled` up to `to`; fewer where a marker comes. */
static void unstuff(fpc_bits *bits, uint8_t *from, uint8_t *to) {
    fpc_copy copy = {bits->input, bits->end, from, to, 0};
#if FPC_HAS_AVX2
    if (FPC_USES_AVX2(bits->isa))
        unstuff_avx2(&copy);
    else
#endif
        unstuff_portable(&copy);
    bits->input = copy.from;
    bits->marker = copy.marker;
    bits->filled = copy.to;
    if (copy.marker) {
        memset(copy.to, 0, FPC_MARGIN);
        bits->limit = copy.to + 8; /* the reader is up to seven bytes ahead of what it used */
    } else {
        bits->limit = copy.to - FPC_MARGIN;
    }
}

void fpc_bits_start(fpc_bits *bits, const uint8_t *input, const uint8_t *end) {
    bits->input = input;
    bits->end = end;
    bits->marker = 0;
    bits->reader = (fpc_reader){bits->buffer, 0, 0};
    /* A first piece that is short: restart intervals are. */
    unstuff(bits, bits->buffer, bits->buffer + FPC_MARGIN + FPC_CHUNK / 4);
}

int fpc_bits_fill(fpc_bits *bits) {
    if (bits->marker) return FPC_TRUNCATED;
    size_t kept = (size_t)(bits->filled - bits->reader.next);
    memmove(bits->buffer, bits->reader.next, kept);
    bits->reader.next = bits->buffer;
    unstuff(bits, bits->buffer + kept, bits->buffer + FPC_MARGIN + FPC_CHUNK);
    return FPC_OK;
}

int fpc_bits_overrun(const fpc_bits *bits) {
    return bits->marker && (bits->reader.next - bits->filled) * 8 > (ptrdiff_t)bits->reader.count;
}

int fpc_bits_marker(fpc_bits *bits) {
    while (!bits->marker) unstuff(bits, bits->buffer, bits->buffer + FPC_MARGIN + FPC_CHUNK);
    return bits->marker;
}

int fpc_bits_restart(fpc_bits *bits, int number) {
    if (fpc_bits_overrun(bits)) return FPC_TRUNCATED;
    int marker = fpc_bits_marker(bits);
    if (marker == FPC_END_OF_DATA) return FPC_TRUNCATED;
    if (marker != 0xD0 + number) return FPC_BAD_MARKER;
    fpc_bits_start(bits, bits->input + 2, bits->end);
    return FPC_OK;
}
