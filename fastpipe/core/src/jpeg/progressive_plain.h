/* progressive_plain.h: loops over the blocks of progressive scans (T.81, annex G); one body, compiled for each
 * machine. */
#include "mcu.h"

static FPC_INLINE uint32_t progressive_lowest_bit(uint64_t word) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_ctzll(word);
#else
    uint32_t index = 0;
    while (!(word >> index & 1)) index++;
    return index;
#endif
}

static FPC_INLINE uint32_t progressive_count_bits(uint64_t word) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_popcountll(word);
#else
    uint32_t count = 0;
    for (; word; word &= word - 1) count++;
    return count;
#endif
}

static FPC_INLINE int16_t progressive_shifted(int32_t value, uint32_t shift) {
    return (int16_t)(uint16_t)((uint32_t)value << shift);
}

/* ---- DC --------------------------------------------------------------------------------------------------------- */

/* Decodes the DC of `count` MCUs, or one more bit of each; returns how many were decoded. */
static FPC_INLINE uint32_t progressive_dc(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                          uint32_t low, uint32_t *bad, int refine) {
    fpc_reader reader = *shared;
    uint32_t done = 0;
    for (; done < count && reader.next <= limit; done++) {
        for (int i = 0; i < mcu->count; i++) {
            fpc_block *block = &mcu->blocks[i];
            int16_t *output = block->output;
            block->output += block->step * 64;
            fpc_refill(&reader);
            if (refine) {
                *output = (int16_t)(uint16_t)((uint16_t)*output | fpc_take(&reader, 1) << low);
                continue;
            }
            uint64_t index = reader.bits >> (64 - FPC_DC_BITS);
            uint32_t size = block->dc->entries[index].size, length = block->dc->lengths[index];
            if (FPC_UNLIKELY(!length)) {
                uint32_t found = (uint32_t)fpc_huffman_spec_find(block->dc_spec, FPC_NEXT_16(reader.bits));
                *bad |= !found;
                size = found & 15;
                length = (found >> 8) + size;
            }
            uint32_t shift = length ? 64 - length : 0;
            int32_t difference = fpc_extend(reader.bits >> shift, size);
            fpc_drop(&reader, length);
            uint32_t dc = *block->prediction + (uint32_t)difference;
            *block->prediction = dc;
            /* libjpeg raises an error if a sum exceeds its int; such a sum has exceeded these bounds before. */
            *bad |= dc + (1u << 24) > 1u << 25;
            *output = progressive_shifted((int32_t)dc, low);
        }
    }
    *shared = reader;
    return done;
}

/* ---- AC for the first time -------------------------------------------------------------------------------------- */

/* Decodes the band of one block; returns a bit mask of the nonzero coefficients, by shifted position. */
static FPC_INLINE uint64_t progressive_first_block(fpc_reader *reader, fpc_band *band, int16_t *block, uint32_t *bad) {
    const uint32_t low = band->low;
    const uint8_t *order = band->order;
    uint64_t position = band->first, nonzero = 0, known, index, before;
    for (;;) {
        index = FPC_AC_INDEX(reader->bits);
        const fpc_ac_entry *entry = &band->table->entries[index];
        uint32_t length = band->table->lengths[index];
        fpc_refill(reader);
        before = reader->bits;
        known = nonzero;
        uint64_t start = position;
        block[order[position + entry->first_advance]] = progressive_shifted(entry->value, low);
        nonzero |= (uint64_t)(entry->value != 0) << ((position + entry->first_advance - 1) & 63);
        position += entry->advance;
        block[order[position]] =
            progressive_shifted(fpc_extend(reader->bits >> ((0u - length) & 63), entry->size), low);
        nonzero |= (uint64_t)(entry->size != 0) << ((position - 1) & 63);
        fpc_drop(reader, length);
        if (position < 64) continue;

        uint32_t advance = entry->advance, first = entry->first_advance;
        if (FPC_UNLIKELY(advance == FPC_NO_SYMBOL)) {
            nonzero = known;
            position = start;
            uint32_t found = (uint8_t)entry->value, size = 0, run = found & 15;
            found >>= 4; /* the length of the code for a run of ended blocks */
            if (!found) {
                uint32_t symbol = (uint32_t)fpc_huffman_spec_find(band->spec, FPC_NEXT_16(reader->bits));
                *bad |= !symbol;
                if (!symbol) return nonzero;
                size = symbol & 15;
                run = symbol >> 4 & 15;
                found = symbol >> 8;
            }
            fpc_drop(reader, found);
            if (!size && run != 15) {
                band->ended = (1u << run) - 1 + fpc_take(reader, run);
                return nonzero;
            }
            position += run + 1;
            if (position > 64 || size + low > 15) {
                *bad |= 1;
                return nonzero;
            }
            if (size) {
                block[order[position]] = progressive_shifted(fpc_extend(reader->bits >> (64 - size), size), low);
                nonzero |= (uint64_t)1 << (position - 1);
                fpc_drop(reader, size);
            }
            fpc_refill(reader);
            if (position == 64) return nonzero;
            continue;
        }
        if (FPC_UNLIKELY(start + first == 64 && first != advance)) {
            /* The first of two symbols ended the block; the second one belongs to the next block. */
            uint32_t symbol = (uint32_t)fpc_huffman_spec_find(band->spec, FPC_NEXT_16(before));
            uint32_t taken = (symbol >> 8) + (symbol & 15);
            reader->bits = before << (taken & 63);
            reader->count += length - taken;
            return known | (uint64_t)(entry->value != 0) << 63;
        }
        *bad |= (advance >= FPC_END_OF_BLOCK ? start + (first & 63) : position) > 64;
        return nonzero;
    }
}

static FPC_INLINE uint32_t progressive_first_blocks(fpc_reader *shared, const uint8_t *limit, fpc_band *band,
                                                    uint32_t count, uint32_t *bad) {
    fpc_reader reader = *shared;
    uint32_t done = 0, broken = 0;
    fpc_refill(&reader);
    while (done < count && reader.next <= limit) {
        if (band->ended) {
            uint32_t some = band->ended < count - done ? band->ended : count - done;
            band->ended -= some;
            done += some;
            continue;
        }
        int16_t *block = band->block + (size_t)done * 64;
        int16_t behind = block[FPC_DUMP];
        uint64_t nonzero = progressive_first_block(&reader, band, block, &broken);
        block[FPC_DUMP] = behind;
        band->nonzero[done] |= nonzero >> band->shift;
        done++;
    }
    band->block += (size_t)done * 64;
    band->nonzero += done;
    *shared = reader;
    *bad |= broken;
    return done;
}

/* ---- AC refined ------------------------------------------------------------------------------------------------- */

/* Reads one more bit for each coefficient in `which`; if it is set, the coefficient moves away from 0 (T.81, G.1.2.3).
 * All are multiples of twice the step, as their higher bits are known. */
static FPC_INLINE void progressive_correct(fpc_reader *reader, int16_t *block, uint64_t which, int32_t step) {
    while (which) {
        uint32_t count = progressive_count_bits(which);
        fpc_refill(reader);
        if (count > 56) count = 56;
        uint64_t bits = reader->bits;
        fpc_drop(reader, count);
        for (; count; count--, which &= which - 1, bits <<= 1) {
            int16_t *coefficient = &block[fpc_natural_order[progressive_lowest_bit(which) + 1]];
            int32_t negative = -(*coefficient < 0), set = -(int32_t)(bits >> 63);
            *coefficient = (int16_t)(*coefficient + (((step ^ negative) - negative) & set));
        }
    }
}

/* (jdphuff.c, decode_mcu_AC_refine) */
static FPC_INLINE void progressive_refine_block(fpc_reader *reader, fpc_band *band, int16_t *block, uint64_t *nonzero,
                                                uint64_t inside, uint32_t *bad) {
    const int32_t step = (int32_t)(1u << band->low);
    const uint64_t old = *nonzero & inside; /* these get one more bit; new ones get all of their bits so far */
    uint64_t left = inside;
    while (left) {
        fpc_refill(reader);
        uint32_t symbol = band->symbols->words[FPC_AC_INDEX(reader->bits)];
        if (FPC_UNLIKELY(!symbol)) {
            symbol = (uint32_t)fpc_huffman_spec_find(band->spec, FPC_NEXT_16(reader->bits));
            *bad |= !symbol;
            if (!symbol) return;
        }
        uint32_t size = symbol & 15, run = symbol >> 4 & 15;
        fpc_drop(reader, symbol >> 8);
        if (!size && run != 15) {
            band->ended = (1u << run) + fpc_take(reader, run);
            break;
        }
        *bad |= size > 1;
        int32_t value = size && fpc_take(reader, 1) ? step : -step;
        uint64_t zeros = left & ~old;
        for (; run; run--) zeros &= zeros - 1;
        if (FPC_UNLIKELY(!zeros)) {
            *bad |= 1;
            return;
        }
        uint64_t target = zeros & (0 - zeros), before = target - 1;
        progressive_correct(reader, block, old & left & before, step);
        if (size) {
            block[fpc_natural_order[progressive_lowest_bit(target) + 1]] = (int16_t)value;
            *nonzero |= target;
        }
        left &= ~(before | target);
    }
    if (band->ended) {
        band->ended--;
        progressive_correct(reader, block, old & left, step);
    }
}

static FPC_INLINE uint32_t progressive_refine_blocks(fpc_reader *shared, const uint8_t *limit, fpc_band *band,
                                                     uint32_t count, uint32_t *bad) {
    fpc_reader reader = *shared;
    uint32_t done = 0, broken = 0;
    /* A mask of the band's zigzag indices. */
    uint64_t inside = ~(uint64_t)0 >> band->shift & ~(uint64_t)0 << (band->first - band->shift);
    for (; done < count && reader.next <= limit; done++) {
        int16_t *block = band->block + (size_t)done * 64;
        uint64_t *nonzero = &band->nonzero[done];
        if (band->ended) {
            band->ended--;
            progressive_correct(&reader, block, *nonzero & inside, (int32_t)(1u << band->low));
        } else {
            progressive_refine_block(&reader, band, block, nonzero, inside, &broken);
        }
    }
    band->block += (size_t)done * 64;
    band->nonzero += done;
    *shared = reader;
    *bad |= broken;
    return done;
}

/* ---- the kernels ------------------------------------------------------------------------------------------------ */

static uint32_t decode_dc(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad) {
    return progressive_dc(shared, limit, mcu, count, low, bad, 0);
}

static uint32_t refine_dc(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad) {
    return progressive_dc(shared, limit, mcu, count, low, bad, 1);
}

static uint32_t decode_band(fpc_reader *shared, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad) {
    return progressive_first_blocks(shared, limit, band, count, bad);
}

static uint32_t refine_band(fpc_reader *shared, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad) {
    return progressive_refine_blocks(shared, limit, band, count, bad);
}
