/* sequential_plain.h: the loops over the blocks of baseline and extended sequential scans, one body that is compiled
 * for each machine.
 *
 * A look-up takes up to two symbols (three when skipping). Three things keep it fast. Lengths have their own array of
 * bytes, as the next symbol depends only on them. The index is taken before the bits are refilled, so that the next
 * symbol doesn't wait for the refill. And all rare cases, including the end of a block, share one exit. */
#include <string.h>

#include "mcu.h"

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* Decodes the difference of a DC. (jdhuff.c, decode_mcu_slow) */
static FPC_INLINE int32_t sequential_dc(fpc_reader *reader, const fpc_dc_table *table, const fpc_huffman_spec *spec,
                                        uint32_t *bad) {
    uint64_t index = FPC_DC_INDEX(reader->bits);
    uint32_t length = table->lengths[index], size = table->entries[index].size, shift = table->entries[index].shift;
    fpc_refill(reader);
    if (FPC_UNLIKELY(!length)) {
        uint32_t found = (uint32_t)fpc_huffman_spec_find(spec, FPC_NEXT_16(reader->bits));
        *bad |= !found;
        size = found & 15;
        length = (found >> 8) + size;
        shift = length ? 64 - length : 0;
    }
    int32_t difference = fpc_extend(reader->bits >> (shift & 63), size);
    fpc_drop(reader, length);
    return difference;
}

/* Stores the values of an entry's symbols: the first symbol's is in the table, the last one's follows in the data. */
static FPC_INLINE uint64_t sequential_store(fpc_reader *reader, const fpc_ac_entry *entry, uint32_t length,
                                            int16_t *block, uint64_t position) {
    block[fpc_natural_order[position + entry->first_advance]] = entry->value;
    position += entry->advance;
    block[fpc_natural_order[position]] = (int16_t)fpc_extend(reader->bits >> ((0u - length) & 63), entry->size);
    fpc_drop(reader, length);
    return position;
}

/* Decodes a block's AC coefficients; returns the zigzag index of the last one, 0 for none. At most 45 bits may have
 * been taken since the reader's last refill. */
static FPC_INLINE uint32_t sequential_ac(fpc_reader *reader, const fpc_ac_table *table, const fpc_huffman_spec *spec,
                                         int16_t *block, uint32_t *bad) {
    uint64_t position = 1, index, before; /* of the next coefficient; the bits before the last look-up */
    const fpc_ac_entry *entry;
    uint32_t length;
    for (;;) {
        /* One refill is enough for two look-ups of up to 21 bits each. */
        index = FPC_AC_INDEX(reader->bits);
        entry = &table->entries[index];
        length = table->lengths[index];
        fpc_refill(reader);
        before = reader->bits;
        position = sequential_store(reader, entry, length, block, position);
        if (position < 64) {
            index = FPC_AC_INDEX(reader->bits);
            entry = &table->entries[index];
            length = table->lengths[index];
            before = reader->bits;
            position = sequential_store(reader, entry, length, block, position);
            if (position < 64) continue;
        }
        uint32_t advance = entry->advance, first = entry->first_advance, start = (uint32_t)position - advance;
        if (FPC_UNLIKELY(advance == FPC_NO_SYMBOL)) {
            position = start;
            fpc_refill(reader);
            uint32_t found = (uint32_t)fpc_huffman_spec_find(spec, FPC_NEXT_16(reader->bits));
            *bad |= !found;
            uint32_t size = found & 15, run = found >> 4 & 15;
            fpc_drop(reader, found >> 8);
            if (!found || (!size && run != 15)) return start - 1;
            position += run + 1;
            if (position > 64) {
                *bad |= 1;
                return 63;
            }
            if (size) block[fpc_natural_order[position]] = (int16_t)fpc_extend(reader->bits >> (64 - size), size);
            fpc_drop(reader, size);
            if (position == 64) return 63;
            continue;
        }
        /* `first != advance` isn't tested first: whether an entry holds only the end of the block is unpredictable. */
        if (FPC_UNLIKELY(start + first == 64 && first != advance)) {
            /* The first of two symbols ended the block; the second one belongs to the next block. */
            uint32_t found = (uint32_t)fpc_huffman_spec_find(spec, FPC_NEXT_16(before));
            uint32_t taken = (found >> 8) + (found & 15);
            reader->bits = before << (taken & 63);
            reader->count += length - taken;
            return 63;
        }
        uint32_t last = advance >= FPC_END_OF_BLOCK ? start - 1 + (first & 63) : (uint32_t)position - 1;
        *bad |= last > 63;
        return last;
    }
}

/* Skips the AC coefficients of a block. */
static FPC_INLINE void sequential_skip(fpc_reader *reader, const fpc_skip_table *table, const fpc_huffman_spec *spec,
                                       uint32_t *bad) {
    uint64_t position = 1, index, before;
    uint32_t length, advance;
    for (;;) {
        index = FPC_SKIP_INDEX(reader->bits);
        length = table->lengths[index];
        advance = table->advances[index];
        fpc_refill(reader);
        before = reader->bits;
        position += advance;
        fpc_drop(reader, length);
        if (position < 64) {
            index = FPC_SKIP_INDEX(reader->bits);
            length = table->lengths[index];
            advance = table->advances[index];
            before = reader->bits;
            position += advance;
            fpc_drop(reader, length);
            if (position < 64) continue;
        }
        /* An end of block adds 128, so these are the valid ends; 192 is an end of block after the last coefficient. */
        if (position == 64 || (position > 128 && position < 192)) return;
        /* There is no symbol, or the symbols exceed the block: takes a single symbol instead. */
        position -= advance;
        reader->bits = before;
        reader->count += length;
        fpc_refill(reader);
        uint32_t found = (uint32_t)fpc_huffman_spec_find(spec, FPC_NEXT_16(reader->bits));
        uint32_t size = found & 15, run = found >> 4 & 15;
        *bad |= !found;
        fpc_drop(reader, (found >> 8) + size);
        if (!found || (!size && run != 15)) return;
        position += run + 1;
        *bad |= position > 64;
        if (position >= 64) return;
    }
}

/* ---- MCUs ------------------------------------------------------------------------------------------------------ */

/* Decodes or skips up to `count` MCUs, as long as there is data; returns how many. */
static FPC_INLINE uint32_t sequential_mcus(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                           uint32_t *bad, int skip) {
    fpc_reader reader = *shared;
    uint32_t done = 0, broken = 0;
    const fpc_block *end = mcu->blocks + mcu->count;
    fpc_refill(&reader);
    for (; done < count && reader.next <= limit; done++) {
        for (fpc_block *block = mcu->blocks; block != end; block++) {
            uint32_t *prediction = block->prediction;
            uint32_t dc = *prediction + (uint32_t)sequential_dc(&reader, block->dc, block->dc_spec, &broken);
            *prediction = dc;
            if (skip) {
                sequential_skip(&reader, block->skip, block->ac_spec, &broken);
                continue;
            }
            int16_t *output = block->output;
            block->output = output + block->step * 64;
            fpc_clear_block(output);
            output[0] = (int16_t)dc;
            *block->last = (uint8_t)sequential_ac(&reader, block->ac, block->ac_spec, output, &broken);
            block->last += block->step;
        }
    }
    *shared = reader;
    *bad |= broken;
    return done;
}

static uint32_t decode_mcus(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad) {
    return sequential_mcus(shared, limit, mcu, count, bad, 0);
}

static uint32_t skip_mcus(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad) {
    return sequential_mcus(shared, limit, mcu, count, bad, 1);
}
