/* huffman_simd.h: makes huffman_plain.h's tables, eight entries at a time, with AVX2's gather; NEON has none. */
#if defined(FPC_SIMD_AVX2)
#include <string.h>

#include "huffman.h"

#define HUFFMAN_SET(x) _mm256_set1_epi32(x)
#define HUFFMAN_BYTE(x) _mm256_and_si256(x, HUFFMAN_SET(255))

/* Stores the low bytes of eight words. */
SIMD void huffman_store_bytes(uint8_t *to, __m256i words) {
    words = _mm256_shuffle_epi8(words, HUFFMAN_SET(0x0c080400));
    uint32_t low = (uint32_t)_mm256_extract_epi32(words, 0), high = (uint32_t)_mm256_extract_epi32(words, 4);
    memcpy(to, &low, 4);
    memcpy(to + 4, &high, 4);
}

SIMD __m256i huffman_word_at(const uint32_t *words, __m256i index, __m256i skipped) {
    index = _mm256_and_si256(_mm256_sllv_epi32(index, skipped), HUFFMAN_SET(FPC_TABLE_ENTRIES - 1));
    return _mm256_i32gather_epi32((const int *)words, index, 4);
}

static void build_ac(fpc_ac_table *table, const fpc_symbol_words *symbols) {
    const uint32_t *words = symbols->words;
    const __m256i zero = _mm256_setzero_si256(), one = HUFFMAN_SET(1);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (uint32_t i = 0; i < FPC_TABLE_ENTRIES; i += 8, index = _mm256_add_epi32(index, HUFFMAN_SET(8))) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(words + i));
        __m256i bits = HUFFMAN_BYTE(first), size = HUFFMAN_BYTE(_mm256_srli_epi32(first, 8)),
                advance = _mm256_srli_epi32(first, 16);
        __m256i length = _mm256_add_epi32(bits, size), rest = _mm256_sub_epi32(HUFFMAN_SET(FPC_AC_BITS), length);
        __m256i second = huffman_word_at(words, index, length);
        __m256i second_bits = HUFFMAN_BYTE(second), second_size = HUFFMAN_BYTE(_mm256_srli_epi32(second, 8));
        __m256i none = _mm256_cmpeq_epi32(bits, zero);
        /* Codes have at least one bit, so a negative rest is too small as well. */
        __m256i alone = _mm256_or_si256(_mm256_cmpeq_epi32(second_bits, zero), _mm256_cmpgt_epi32(second_bits, rest));
        alone = _mm256_or_si256(alone, _mm256_cmpgt_epi32(size, HUFFMAN_SET(FPC_LARGEST_KEPT_SIZE)));
        alone = _mm256_or_si256(alone,
                                _mm256_or_si256(none, _mm256_cmpgt_epi32(advance, HUFFMAN_SET(FPC_END_OF_BLOCK - 1))));

        __m256i power = _mm256_sllv_epi32(one, size), mask = _mm256_sub_epi32(power, one);
        __m256i value = _mm256_and_si256(_mm256_srlv_epi32(index, rest), mask);
        __m256i negative = _mm256_cmpgt_epi32(_mm256_srli_epi32(power, 1), value);
        value = _mm256_andnot_si256(alone, _mm256_sub_epi32(value, _mm256_and_si256(negative, mask)));

        __m256i more = _mm256_andnot_si256(alone, _mm256_add_epi32(second_bits, second_size));
        length = _mm256_andnot_si256(none, _mm256_add_epi32(length, more));
        size = _mm256_blendv_epi8(second_size, size, alone);
        __m256i last = _mm256_add_epi32(advance, _mm256_andnot_si256(alone, _mm256_srli_epi32(second, 16)));

        __m256i entry = _mm256_or_si256(size, _mm256_slli_epi32(advance, 8));
        entry = _mm256_or_si256(entry, _mm256_or_si256(_mm256_slli_epi32(last, 16), _mm256_slli_epi32(value, 24)));
        entry = _mm256_blendv_epi8(entry, HUFFMAN_SET(FPC_NO_SYMBOL << 8 | FPC_NO_SYMBOL << 16), none);
        _mm256_storeu_si256((__m256i *)(table->entries + i), entry);
        huffman_store_bytes(table->lengths + i, length);
    }
}

static void build_skip(fpc_skip_table *table, const fpc_symbol_words *symbols) {
    const uint32_t *words = symbols->words;
    const __m256i zero = _mm256_setzero_si256(), end = HUFFMAN_SET(FPC_END_OF_BLOCK);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (uint32_t i = 0; i < FPC_TABLE_ENTRIES; i += 8, index = _mm256_add_epi32(index, HUFFMAN_SET(8))) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(words + i)), bits = HUFFMAN_BYTE(first);
        __m256i length = _mm256_add_epi32(bits, HUFFMAN_BYTE(_mm256_srli_epi32(first, 8)));
        __m256i advance = _mm256_srli_epi32(first, 16);
        advance = _mm256_add_epi32(advance, _mm256_and_si256(advance, end));
        advance = _mm256_blendv_epi8(advance, HUFFMAN_SET(255), _mm256_cmpeq_epi32(bits, zero));
        for (int more = 0; more < 2; more++) {
            __m256i next = huffman_word_at(words, index, length), next_bits = HUFFMAN_BYTE(next),
                    next_advance = _mm256_srli_epi32(next, 16);
            __m256i stop = _mm256_cmpgt_epi32(_mm256_add_epi32(length, next_bits), HUFFMAN_SET(FPC_SKIP_BITS));
            stop = _mm256_or_si256(stop, _mm256_cmpeq_epi32(next_bits, zero));
            stop = _mm256_or_si256(stop, _mm256_cmpgt_epi32(advance, HUFFMAN_SET(FPC_LAST_CHAINED)));
            __m256i next_length = _mm256_add_epi32(next_bits, HUFFMAN_BYTE(_mm256_srli_epi32(next, 8)));
            next_advance = _mm256_add_epi32(next_advance, _mm256_and_si256(next_advance, end));
            length = _mm256_add_epi32(length, _mm256_andnot_si256(stop, next_length));
            advance = _mm256_add_epi32(advance, _mm256_andnot_si256(stop, next_advance));
        }
        huffman_store_bytes(table->lengths + i, length);
        huffman_store_bytes(table->advances + i, advance);
    }
}

#undef HUFFMAN_SET
#undef HUFFMAN_BYTE
#else
#include "huffman_plain.h"
#endif
