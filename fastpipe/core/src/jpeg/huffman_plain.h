/* huffman_plain.h: makes tables for AC coefficients in plain C; an entry has up to two symbols, or three to skip. */
#include "huffman.h"

static void build_ac(fpc_ac_table *table, const fpc_symbol_words *symbols) {
    const uint32_t *words = symbols->words;
    static const fpc_ac_entry none = {0, FPC_NO_SYMBOL, FPC_NO_SYMBOL, 0};
    for (uint32_t i = 0; i < FPC_TABLE_ENTRIES; i++) {
        uint32_t bits = words[i] & 255, size = words[i] >> 8 & 255, advance = words[i] >> 16;
        if (!bits) {
            table->lengths[i] = 0;
            table->entries[i] = none;
            continue;
        }
        uint32_t length = bits + size, first_advance = advance;
        int32_t value = 0;
        if (length < FPC_AC_BITS && size <= FPC_LARGEST_KEPT_SIZE && advance < FPC_END_OF_BLOCK) {
            uint32_t rest = FPC_AC_BITS - length, second = words[i << length & (FPC_TABLE_ENTRIES - 1)],
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

static void build_skip(fpc_skip_table *table, const fpc_symbol_words *symbols) {
    const uint32_t *words = symbols->words;
    for (uint32_t i = 0; i < FPC_TABLE_ENTRIES; i++) {
        uint32_t bits = words[i] & 255, length = bits + (words[i] >> 8 & 255), advance = words[i] >> 16;
        advance = bits ? advance + (advance & FPC_END_OF_BLOCK) : 255;
        for (int more = 0; more < 2 && advance <= FPC_LAST_CHAINED && length < FPC_SKIP_BITS; more++) {
            uint32_t next = words[i << length & (FPC_TABLE_ENTRIES - 1)], next_bits = next & 255;
            if (!next_bits || length + next_bits > FPC_SKIP_BITS) break;
            length += next_bits + (next >> 8 & 255);
            advance += (next >> 16) + (next >> 16 & FPC_END_OF_BLOCK);
        }
        table->lengths[i] = (uint8_t)length;
        table->advances[i] = (uint8_t)advance;
    }
}
