/* huffman.c: Huffman codes as files define them, and the first step to their look-up tables; huffman_plain.h and
 * huffman_simd.h do the second. */
#include "huffman.h"

#include <string.h>

#include "bitstream.h"

size_t fpc_huffman_spec_read(fpc_huffman_spec *spec, const uint8_t *data, size_t length) {
    if (length < FPC_LONGEST_CODE) return 0;
    uint32_t total = 0, next = 0;
    spec->counts[0] = 0;
    spec->end[0] = 0;
    spec->first[0] = 0;
    for (int bits = 1; bits <= FPC_LONGEST_CODE; bits++) {
        uint32_t count = data[bits - 1];
        spec->counts[bits] = (uint8_t)count;
        /* T.81, figures C.1 and C.2: codes of one length are consecutive, and those of the next length follow them. */
        spec->first[bits] = (int32_t)total - (int32_t)next;
        total += count;
        next += count;
        /* No code is all ones (jdhuff.c), so there must be room for one more after the last code. */
        if (next >= 1u << bits || total > 256) return 0;
        spec->end[bits] = next << (FPC_LONGEST_CODE - bits);
        next <<= 1;
    }
    if (length - FPC_LONGEST_CODE < total) return 0;
    memcpy(spec->symbols, data + FPC_LONGEST_CODE, total);
    memset(spec->symbols + total, 0, 256 - total);
    return FPC_LONGEST_CODE + total;
}

int fpc_huffman_spec_equal(const fpc_huffman_spec *one, const fpc_huffman_spec *other) {
    return !memcmp(one->counts + 1, other->counts + 1, FPC_LONGEST_CODE) &&
           !memcmp(one->symbols, other->symbols, sizeof one->symbols);
}

int fpc_huffman_spec_is_dc(const fpc_huffman_spec *spec) {
    for (int i = 0; i < 256; i++) /* the 256 entries include unused symbols, which are 0 */
        if (spec->symbols[i] > 15) return 0;
    return 1;
}

int fpc_huffman_spec_find(const fpc_huffman_spec *spec, uint32_t next) {
    /* `end` rises with the length, so counting finds the first end above `next` without a branch. */
    int bits = 1;
    for (int shorter = 1; shorter <= FPC_LONGEST_CODE; shorter++) bits += next >= spec->end[shorter];
    if (bits > FPC_LONGEST_CODE) return 0;
    int32_t index = (int32_t)(next >> (FPC_LONGEST_CODE - bits)) + spec->first[bits];
    return bits << 8 | spec->symbols[index & 255];
}

void fpc_build_dc(fpc_dc_table *table, const fpc_huffman_spec *spec) {
    uint32_t at = 0;
    int symbol = 0;
    for (int bits = 1; bits <= FPC_DC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_DC_BITS - bits);
        for (int i = 0; i < spec->counts[bits]; i++, symbol++) {
            uint32_t size = spec->symbols[symbol], length = (uint32_t)bits + size;
            fpc_dc_entry entry = {(uint8_t)(64 - length), (uint8_t)size};
            memset(table->lengths + at, (int)length, copies);
            for (uint32_t j = 0; j < copies; j++) table->entries[at + j] = entry;
            at += copies;
        }
    }
    memset(table->lengths + at, 0, (1u << FPC_DC_BITS) - at);
    for (; at < 1u << FPC_DC_BITS; at++) table->entries[at] = (fpc_dc_entry){1, 0};
}

/* Stores `word` `count` times; `count` is a power of 2. */
static FPC_INLINE void fill(uint32_t *to, uint32_t word, uint32_t count) {
    if (count >= 4) {
        uint32_t four[4] = {word, word, word, word};
        for (uint32_t i = 0; i < count; i += 4) memcpy(to + i, four, sizeof four);
    } else {
        to[0] = word;
        if (count == 2) to[1] = word;
    }
}

void fpc_build_symbols(fpc_symbol_words *table, const fpc_huffman_spec *spec) {
    uint32_t at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < spec->counts[bits]; i++, symbol++) {
            fill(table->words + at, bits << 8 | spec->symbols[symbol], copies);
            at += copies;
        }
    }
    memset(table->words + at, 0, (FPC_TABLE_ENTRIES - at) * sizeof *table->words);
}

/* ---- one symbol for each index --------------------------------------------------------------------------------- */

/* A word per index: length of the code | size << 8 | advance << 16; 0 if there is no short symbol. */

static uint32_t symbol_word(uint32_t bits, uint32_t symbol, int progressive) {
    uint32_t size = symbol & 15, run = symbol >> 4;
    if (size > FPC_LARGEST_FAST_SIZE) return 0;
    if (size) return bits | size << 8 | (run + 1) << 16;
    if (run == 15) return bits | 16 << 16;
    /* A size of 0: in a progressive scan a nonzero run begins a run of ended blocks, whose length follows. In a
     * sequential scan every run but 15 ends the block, as libjpeg has it. */
    return progressive && run ? 0 : bits | FPC_END_OF_BLOCK << 16;
}

void fpc_build_words(fpc_symbol_words *scratch, const fpc_huffman_spec *spec, int progressive) {
    uint32_t *words = scratch->words, at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < spec->counts[bits]; i++, symbol++) {
            fill(words + at, symbol_word(bits, spec->symbols[symbol], progressive), copies);
            at += copies;
        }
    }
    memset(words + at, 0, (FPC_TABLE_ENTRIES - at) * sizeof *words);
}

void fpc_add_runs(fpc_ac_table *table, const fpc_huffman_spec *spec) {
    uint32_t at = 0;
    int symbol = 0;
    for (uint32_t bits = 1; bits <= FPC_AC_BITS; bits++) {
        uint32_t copies = 1u << (FPC_AC_BITS - bits);
        for (int i = 0; i < spec->counts[bits]; i++, symbol++, at += copies) {
            uint32_t size = spec->symbols[symbol] & 15, run = spec->symbols[symbol] >> 4;
            if (size || !run || run == 15) continue;
            for (uint32_t j = 0; j < copies; j++) table->entries[at + j].value = (int8_t)(bits << 4 | run);
        }
    }
}
