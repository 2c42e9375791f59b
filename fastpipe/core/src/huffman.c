#include "huffman.h"

#include <string.h>

#include "entropy.h"

#if FPC_HAS_AVX2
#include <immintrin.h>
#endif

_Static_assert(FPC_AC_BITS == FPC_SKIP_BITS, "the two builders share the words of symbols");
_Static_assert(sizeof(fpc_ac_entry) == 4, "the vector builder writes entries as words");

#define ENTRIES (1u << FPC_AC_BITS)

size_t fpc_huffman_spec_read(fpc_huffman_spec *code, const uint8_t *data, size_t length) {
    if (length < FPC_LONGEST_CODE) return 0;
    uint32_t total = 0, next = 0;
    code->counts[0] = 0;
    code->end[0] = 0;
    code->first[0] = 0;
    for (int bits = 1; bits <= FPC_LONGEST_CODE; bits++) {
        uint32_t count = data[bits - 1];
        code->counts[bits] = (uint8_t)count;
        /* T.81, figures C.1 and C.2: codes of a length follow one another, and those of the next length follow them. */
        code->first[bits] = (int32_t)total - (int32_t)next;
        total += count;
        next += count;
        /* No code is all ones (jdhuff.c): one more than the last code still has to fit. */
        if (next >= 1u << bits || total > 256) return 0;
        code->end[bits] = next << (FPC_LONGEST_CODE - bits);
        next <<= 1;
    }
    if (length - FPC_LONGEST_CODE < total) return 0;
    memcpy(code->symbols, data + FPC_LONGEST_CODE, total);
    memset(code->symbols + total, 0, 256 - total);
    return FPC_LONGEST_CODE + total;
}

int fpc_huffman_spec_equal(const fpc_huffman_spec *one, const fpc_huffman_spec *other) {
    return !memcmp(one->counts + 1, other->counts + 1, FPC_LONGEST_CODE) &&
           !memcmp(one->symbols, other->symbols, sizeof one->symbols);
}

int fpc_huffman_spec_is_dc(const fpc_huffman_spec *code) {
    for (int i = 0; i < 256; i++) /* unused symbols are 0 */
        if (code->symbols[i] > 15) return 0;
    return 1;
}

int fpc_huffman_spec_find(const fpc_huffman_spec *code, uint32_t next) {
    /* The ends rise with the length, so that no branch is needed to find the first one behind it. */
    int bits = 1;
    for (int shorter = 1; shorter <= FPC_LONGEST_CODE; shorter++) bits += next >= code->end[shorter];
    if (bits > FPC_LONGEST_CODE) return 0;
    int32_t index = (int32_t)(next >> (FPC_LONGEST_CODE - bits)) + code->first[bits];
    return bits << 8 | code->symbols[index & 255];
}

void fpc_build_dc(fpc_dc_table *table, const fpc_huffman_spec *code) {
    uint32_t at = 0;
    int symbol = 0;
    for (int bits = 1; bits <= FPC_DC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_DC_BITS - bits);
        for (int i = 0; i < code->counts[bits]; i++, symbol++) {
            uint32_t size = code->symbols[symbol], length = (uint32_t)bits + size;
            fpc_dc_entry entry = {(uint8_t)(64 - length), (uint8_t)size};
            memset(table->lengths + at, (int)length, copies);
            for (uint32_t j = 0; j < copies; j++) table->entries[at + j] = entry;
            at += copies;
        }
    }
    memset(table->lengths + at, 0, (1u << FPC_DC_BITS) - at);
    for (; at < 1u << FPC_DC_BITS; at++) table->entries[at] = (fpc_dc_entry){1, 0};
}

/* `count` is a power of 2. */
static FPC_INLINE void fill(uint32_t *to, uint32_t word, uint32_t count) {
    if (count >= 4) {
        uint32_t four[4] = {word, word, word, word};
        for (uint32_t i = 0; i < count; i += 4) memcpy(to + i, four, sizeof four);
    } else {
        to[0] = word;
        if (count == 2) to[1] = word;
    }
}

void fpc_build_symbols(fpc_symbol_words *table, const fpc_huffman_spec *code) {
    uint32_t at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < code->counts[bits]; i++, symbol++) {
            fill(table->words + at, bits << 8 | code->symbols[symbol], copies);
            at += copies;
        }
    }
    memset(table->words + at, 0, (ENTRIES - at) * sizeof *table->words);
}

/* ---- one symbol for each index --------------------------------------------------------------------------------- */

/* A word for each index: length of the code | size << 8 | advance << 16; 0 where there is no short symbol. */

static uint32_t symbol_word(uint32_t bits, uint32_t symbol, int progressive) {
    uint32_t size = symbol & 15, run = symbol >> 4;
    if (size > FPC_LARGEST_FAST_SIZE) return 0;
    if (size) return bits | size << 8 | (run + 1) << 16;
    if (run == 15) return bits | 16 << 16;
    /* In a progressive scan these begin a run of ended blocks, whose length follows; in others they end the block,
     * which libjpeg holds of any run but 15. */
    return progressive && run ? 0 : bits | FPC_END_OF_BLOCK << 16;
}

void fpc_build_words(fpc_symbol_words *scratch, const fpc_huffman_spec *code, int progressive) {
    uint32_t *words = scratch->words, at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < code->counts[bits]; i++, symbol++) {
            fill(words + at, symbol_word(bits, code->symbols[symbol], progressive), copies);
            at += copies;
        }
    }
    memset(words + at, 0, (ENTRIES - at) * sizeof *words);
}

/* The codes that begin a run of ended blocks. */
static void fill_runs(fpc_ac_table *table, const fpc_huffman_spec *code) {
    uint32_t at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < code->counts[bits]; i++, symbol++, at += copies) {
            uint32_t size = code->symbols[symbol] & 15, run = code->symbols[symbol] >> 4;
            if (size || !run || run == 15) continue;
            for (uint32_t j = 0; j < copies; j++) table->entries[at + j].value = (int8_t)(bits << 4 | run);
        }
    }
}

/* ---- portable builders ------------------------------------------------------------------------------------------ */

static void build_ac_portable(fpc_ac_table *table, const uint32_t *words) {
    static const fpc_ac_entry none = {0, FPC_NO_SYMBOL, FPC_NO_SYMBOL, 0};
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t bits = words[i] & 255, size = words[i] >> 8 & 255, advance = words[i] >> 16;
        if (!bits) {
            table->lengths[i] = 0;
            table->entries[i] = none;
            continue;
        }
        uint32_t length = bits + size, first_advance = advance;
        int32_t value = 0;
        if (length < FPC_AC_BITS && size <= FPC_LARGEST_KEPT_SIZE && advance < FPC_END_OF_BLOCK) {
            uint32_t rest = FPC_AC_BITS - length, second = words[i << length & (ENTRIES - 1)],
                     second_bits = second & 255;
            if (second_bits && second_bits <= rest) {
                /* T.81, figure F.12: values whose first bit is 0 are negative. */
                uint32_t raw = i >> rest & ((1u << size) - 1);
                value = (int32_t)raw - (raw < (1u << size) >> 1 ? (int32_t)(1u << size) - 1 : 0);
                size = second >> 8 & 255;
                length += second_bits + size;
                advance += second >> 16;
            }
        }
        table->lengths[i] = (uint8_t)length;
        table->entries[i] = (fpc_ac_entry){(uint8_t)size, (uint8_t)first_advance, (uint8_t)advance, (int8_t)value};
    }
}

/* After this many positions no third symbol is taken along: the sum has to stay below 128. */
#define LAST_CHAINED 47

static void build_skip_portable(fpc_skip_table *table, const uint32_t *words) {
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t bits = words[i] & 255, length = bits + (words[i] >> 8 & 255), advance = words[i] >> 16;
        advance = bits ? advance + (advance & FPC_END_OF_BLOCK) : 255;
        for (int more = 0; more < 2 && advance <= LAST_CHAINED && length < FPC_SKIP_BITS; more++) {
            uint32_t next = words[i << length & (ENTRIES - 1)], next_bits = next & 255;
            if (!next_bits || length + next_bits > FPC_SKIP_BITS) break;
            length += next_bits + (next >> 8 & 255);
            advance += (next >> 16) + (next >> 16 & FPC_END_OF_BLOCK);
        }
        table->lengths[i] = (uint8_t)length;
        table->advances[i] = (uint8_t)advance;
    }
}

/* ---- the same eight entries at a time --------------------------------------------------------------------------- */

#if FPC_HAS_AVX2

#define SET(x) _mm256_set1_epi32(x)
#define BYTE(x) _mm256_and_si256(x, SET(255))

/* The low bytes of eight words. */
FPC_AVX2 static inline void store_bytes(uint8_t *to, __m256i words) {
    words = _mm256_shuffle_epi8(words, SET(0x0c080400));
    uint32_t low = (uint32_t)_mm256_extract_epi32(words, 0), high = (uint32_t)_mm256_extract_epi32(words, 4);
    memcpy(to, &low, 4);
    memcpy(to + 4, &high, 4);
}

FPC_AVX2 static inline __m256i word_at(const uint32_t *words, __m256i index, __m256i skipped) {
    index = _mm256_and_si256(_mm256_sllv_epi32(index, skipped), SET(ENTRIES - 1));
    return _mm256_i32gather_epi32((const int *)words, index, 4);
}

FPC_AVX2 static void build_ac_avx2(fpc_ac_table *table, const uint32_t *words) {
    const __m256i zero = _mm256_setzero_si256(), one = SET(1);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (uint32_t i = 0; i < ENTRIES; i += 8, index = _mm256_add_epi32(index, SET(8))) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(words + i));
        __m256i bits = BYTE(first), size = BYTE(_mm256_srli_epi32(first, 8)), advance = _mm256_srli_epi32(first, 16);
        __m256i length = _mm256_add_epi32(bits, size), rest = _mm256_sub_epi32(SET(FPC_AC_BITS), length);
        __m256i second = word_at(words, index, length);
        __m256i second_bits = BYTE(second), second_size = BYTE(_mm256_srli_epi32(second, 8));
        __m256i none = _mm256_cmpeq_epi32(bits, zero);
        /* A code has a bit at least, so that a negative rest is too small as well. */
        __m256i alone = _mm256_or_si256(_mm256_cmpeq_epi32(second_bits, zero), _mm256_cmpgt_epi32(second_bits, rest));
        alone = _mm256_or_si256(alone, _mm256_cmpgt_epi32(size, SET(FPC_LARGEST_KEPT_SIZE)));
        alone = _mm256_or_si256(alone, _mm256_or_si256(none, _mm256_cmpgt_epi32(advance, SET(FPC_END_OF_BLOCK - 1))));

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
        entry = _mm256_blendv_epi8(entry, SET(FPC_NO_SYMBOL << 8 | FPC_NO_SYMBOL << 16), none);
        _mm256_storeu_si256((__m256i *)(table->entries + i), entry);
        store_bytes(table->lengths + i, length);
    }
}

FPC_AVX2 static void build_skip_avx2(fpc_skip_table *table, const uint32_t *words) {
    const __m256i zero = _mm256_setzero_si256(), end = SET(FPC_END_OF_BLOCK);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (uint32_t i = 0; i < ENTRIES; i += 8, index = _mm256_add_epi32(index, SET(8))) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(words + i)), bits = BYTE(first);
        __m256i length = _mm256_add_epi32(bits, BYTE(_mm256_srli_epi32(first, 8)));
        __m256i advance = _mm256_srli_epi32(first, 16);
        advance = _mm256_add_epi32(advance, _mm256_and_si256(advance, end));
        advance = _mm256_blendv_epi8(advance, SET(255), _mm256_cmpeq_epi32(bits, zero));
        for (int more = 0; more < 2; more++) {
            __m256i next = word_at(words, index, length), next_bits = BYTE(next),
                    next_advance = _mm256_srli_epi32(next, 16);
            __m256i stop = _mm256_cmpgt_epi32(_mm256_add_epi32(length, next_bits), SET(FPC_SKIP_BITS));
            stop = _mm256_or_si256(stop, _mm256_cmpeq_epi32(next_bits, zero));
            stop = _mm256_or_si256(stop, _mm256_cmpgt_epi32(advance, SET(LAST_CHAINED)));
            __m256i next_length = _mm256_add_epi32(next_bits, BYTE(_mm256_srli_epi32(next, 8)));
            next_advance = _mm256_add_epi32(next_advance, _mm256_and_si256(next_advance, end));
            length = _mm256_add_epi32(length, _mm256_andnot_si256(stop, next_length));
            advance = _mm256_add_epi32(advance, _mm256_andnot_si256(stop, next_advance));
        }
        store_bytes(table->lengths + i, length);
        store_bytes(table->advances + i, advance);
    }
}

#endif

void fpc_build_ac(fpc_ac_table *table, const fpc_huffman_spec *code, int progressive, const fpc_symbol_words *scratch,
                  int isa) {
#if FPC_HAS_AVX2
    if (FPC_USES_AVX2(isa))
        build_ac_avx2(table, scratch->words);
    else
#endif
        build_ac_portable(table, scratch->words);
    (void)isa;
    if (progressive) fill_runs(table, code);
}

void fpc_build_skip(fpc_skip_table *table, const fpc_symbol_words *scratch, int isa) {
#if FPC_HAS_AVX2
    if (FPC_USES_AVX2(isa))
        build_skip_avx2(table, scratch->words);
    else
#endif
        build_skip_portable(table, scratch->words);
    (void)isa;
}
