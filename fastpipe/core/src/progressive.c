/* Progressive scans (T.81, annex G). Beside the coefficients, a word a block notes which of them aren't zero:
 * refinement goes from one to the next without looking at those between. */
#include <string.h>

#include "entropy.h"

#define AC_INDEX(bits) ((bits) >> (64 - FPC_AC_BITS))
#define NEXT_16(bits) ((uint32_t)((bits) >> 48))

/* Values times this must fit 16 bits; no sound file comes near. */
#define LARGEST_SHIFT (15 - FPC_LARGEST_FAST_SIZE)

/* What a scan of AC coefficients works on. Positions are moved up so that the band's last coefficient is the 63rd. */
typedef struct fpc_band {
    const fpc_ac_table *table;       /* for the first time */
    const fpc_symbol_words *symbols; /* for refinement */
    const fpc_huffman_spec *code;
    uint32_t first, shift; /* the first position; what positions are moved by */
    uint32_t low;
    uint32_t ended;     /* blocks that still belong to a run of ended ones */
    uint8_t order[256]; /* moved position + 1 → natural order */
    int16_t *block;
    uint64_t *nonzero; /* by zigzag index */
} fpc_band;

static FPC_INLINE uint32_t lowest_bit(uint64_t word) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_ctzll(word);
#else
    uint32_t index = 0;
    while (!(word >> index & 1)) index++;
    return index;
#endif
}

static FPC_INLINE uint32_t count_bits(uint64_t word) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_popcountll(word);
#else
    uint32_t count = 0;
    for (; word; word &= word - 1) count++;
    return count;
#endif
}

static FPC_INLINE int16_t shifted(int32_t value, uint32_t shift) {
    return (int16_t)(uint16_t)((uint32_t)value << shift);
}

/* ---- DC --------------------------------------------------------------------------------------------------------- */

/* The DC of `count` MCUs, or one more bit of each; returns how many were done. */
static FPC_INLINE uint32_t dc_mcus(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                                   uint32_t *bad, int refine) {
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
                uint32_t found = (uint32_t)fpc_huffman_spec_find(block->dc_code, NEXT_16(reader.bits));
                *bad |= !found;
                size = found & 15;
                length = (found >> 8) + size;
            }
            uint32_t shift = length ? 64 - length : 0;
            int32_t difference = fpc_extend(reader.bits >> shift, size);
            fpc_drop(&reader, length);
            uint32_t dc = *block->prediction + (uint32_t)difference;
            *block->prediction = dc;
            /* libjpeg raises where a sum leaves its int; none does that hasn't been out of these bounds. */
            *bad |= dc + (1u << 24) > 1u << 25;
            *output = shifted((int32_t)dc, low);
        }
    }
    *shared = reader;
    return done;
}

/* ---- AC for the first time -------------------------------------------------------------------------------------- */

/* The band of one block: which coefficients aren't zero, as moved positions. */
static FPC_INLINE uint64_t first_block(fpc_reader *reader, fpc_band *band, int16_t *block, uint32_t *bad) {
    const uint32_t low = band->low;
    const uint8_t *order = band->order;
    uint64_t position = band->first, nonzero = 0, known, index, before;
    for (;;) {
        index = AC_INDEX(reader->bits);
        const fpc_ac_entry *entry = &band->table->entries[index];
        uint32_t length = band->table->lengths[index];
        fpc_refill(reader);
        before = reader->bits;
        known = nonzero;
        uint64_t start = position;
        block[order[position + entry->first_advance]] = shifted(entry->value, low);
        nonzero |= (uint64_t)(entry->value != 0) << ((position + entry->first_advance - 1) & 63);
        position += entry->advance;
        block[order[position]] = shifted(fpc_extend(reader->bits >> ((0u - length) & 63), entry->size), low);
        nonzero |= (uint64_t)(entry->size != 0) << ((position - 1) & 63);
        fpc_drop(reader, length);
        if (position < 64) continue;

        uint32_t advance = entry->advance, first = entry->first_advance;
        if (FPC_UNLIKELY(advance == FPC_NO_SYMBOL)) {
            nonzero = known;
            position = start;
            uint32_t found = (uint8_t)entry->value, size = 0, run = found & 15;
            found >>= 4; /* the length of a code for a run of ended blocks */
            if (!found) {
                uint32_t symbol = (uint32_t)fpc_huffman_spec_find(band->code, NEXT_16(reader->bits));
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
                block[order[position]] = shifted(fpc_extend(reader->bits >> (64 - size), size), low);
                nonzero |= (uint64_t)1 << (position - 1);
                fpc_drop(reader, size);
            }
            fpc_refill(reader);
            if (position == 64) return nonzero;
            continue;
        }
        if (FPC_UNLIKELY(start + first == 64 && first != advance)) {
            /* The first of two symbols ended the block, and the second one belongs to the next. */
            uint32_t symbol = (uint32_t)fpc_huffman_spec_find(band->code, NEXT_16(before));
            uint32_t taken = (symbol >> 8) + (symbol & 15);
            reader->bits = before << (taken & 63);
            reader->count += length - taken;
            return known | (uint64_t)(entry->value != 0) << 63;
        }
        *bad |= (advance >= FPC_END_OF_BLOCK ? start + (first & 63) : position) > 64;
        return nonzero;
    }
}

static FPC_INLINE uint32_t first_blocks(fpc_reader *shared, const uint8_t *limit, fpc_band *band, uint32_t count,
                                        uint32_t *bad) {
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
        uint64_t nonzero = first_block(&reader, band, block, &broken);
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

/* One more bit for each of these coefficients: where it is set, they move away from 0 (T.81, G.1.2.3). They are
 * multiples of twice the step, as their higher bits came before. */
static FPC_INLINE void correct(fpc_reader *reader, int16_t *block, uint64_t which, int32_t step) {
    while (which) {
        uint32_t count = count_bits(which);
        fpc_refill(reader);
        if (count > 56) count = 56;
        uint64_t bits = reader->bits;
        fpc_drop(reader, count);
        for (; count; count--, which &= which - 1, bits <<= 1) {
            int16_t *coefficient = &block[fpc_natural_order[lowest_bit(which) + 1]];
            int32_t negative = -(*coefficient < 0), set = -(int32_t)(bits >> 63);
            *coefficient = (int16_t)(*coefficient + (((step ^ negative) - negative) & set));
        }
    }
}

/* (jdphuff.c, decode_mcu_AC_refine) */
static FPC_INLINE void refine_block(fpc_reader *reader, fpc_band *band, int16_t *block, uint64_t *nonzero,
                                    uint64_t inside, uint32_t *bad) {
    const int32_t step = (int32_t)(1u << band->low);
    const uint64_t old = *nonzero & inside; /* those are corrected; new ones come with all that is known of them */
    uint64_t left = inside;
    while (left) {
        fpc_refill(reader);
        uint32_t symbol = band->symbols->words[AC_INDEX(reader->bits)];
        if (FPC_UNLIKELY(!symbol)) {
            symbol = (uint32_t)fpc_huffman_spec_find(band->code, NEXT_16(reader->bits));
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
        correct(reader, block, old & left & before, step);
        if (size) {
            block[fpc_natural_order[lowest_bit(target) + 1]] = (int16_t)value;
            *nonzero |= target;
        }
        left &= ~(before | target);
    }
    if (band->ended) {
        band->ended--;
        correct(reader, block, old & left, step);
    }
}

static FPC_INLINE uint32_t refine_blocks(fpc_reader *shared, const uint8_t *limit, fpc_band *band, uint32_t count,
                                         uint32_t *bad) {
    fpc_reader reader = *shared;
    uint32_t done = 0, broken = 0;
    /* Zigzag indices of the band. */
    uint64_t inside = ~(uint64_t)0 >> band->shift & ~(uint64_t)0 << (band->first - band->shift);
    for (; done < count && reader.next <= limit; done++) {
        int16_t *block = band->block + (size_t)done * 64;
        uint64_t *nonzero = &band->nonzero[done];
        if (band->ended) {
            band->ended--;
            correct(&reader, block, *nonzero & inside, (int32_t)(1u << band->low));
        } else {
            refine_block(&reader, band, block, nonzero, inside, &broken);
        }
    }
    band->block += (size_t)done * 64;
    band->nonzero += done;
    *shared = reader;
    *bad |= broken;
    return done;
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

#define LOOPS(name, target)                                                                                            \
    target static FPC_NOINLINE uint32_t dc_##name(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu,              \
                                                  uint32_t count, uint32_t low, uint32_t *bad, int refine) {           \
        return refine ? dc_mcus(shared, limit, mcu, count, low, bad, 1)                                                \
                      : dc_mcus(shared, limit, mcu, count, low, bad, 0);                                               \
    }                                                                                                                  \
    target static FPC_NOINLINE uint32_t first_##name(fpc_reader *shared, const uint8_t *limit, fpc_band *band,         \
                                                     uint32_t count, uint32_t *bad) {                                  \
        return first_blocks(shared, limit, band, count, bad);                                                          \
    }                                                                                                                  \
    target static FPC_NOINLINE uint32_t refine_##name(fpc_reader *shared, const uint8_t *limit, fpc_band *band,        \
                                                      uint32_t count, uint32_t *bad) {                                 \
        return refine_blocks(shared, limit, band, count, bad);                                                         \
    }

#define ANY_TARGET
LOOPS(portable, ANY_TARGET)
#if FPC_HAS_AVX2
LOOPS(avx2, FPC_AVX2)
#define CHOOSE(isa, name) (FPC_USES_AVX2(isa) ? name##_avx2 : name##_portable)
#else
#define CHOOSE(isa, name) name##_portable
#endif

/* ---- scans ------------------------------------------------------------------------------------------------------ */

/* The blocks of an MCU in a scan of DC coefficients, and their tables; bits behind the highest come without one. */
static int set_blocks(fpc_jpeg *jpeg) {
    const fpc_scan *scan = &jpeg->scan;
    for (int i = 0; i < scan->count && !scan->high; i++) fpc_scan_make_dc(jpeg, scan->dc_table[i]);
    return fpc_scan_blocks(jpeg);
}

/* The scan's band, its tables, and where its positions lead. */
static int set_band(fpc_jpeg *jpeg, fpc_band *band) {
    const fpc_scan *scan = &jpeg->scan;
    if (scan->low > LARGEST_SHIFT) return FPC_BAD_SCAN;
    band->code = &jpeg->tables.ac[scan->ac_table[0]];
    band->table = &jpeg->ac[0];
    band->symbols = &jpeg->words;
    band->low = (uint32_t)scan->low;
    band->shift = 63 - (uint32_t)scan->last;
    band->first = (uint32_t)scan->first + band->shift;
    band->ended = 0;
    memset(band->order, FPC_DUMP, sizeof band->order);
    memcpy(band->order + band->first + 1, fpc_natural_order + scan->first + 1, (size_t)(scan->last - scan->first + 1));
    if (scan->high) {
        fpc_build_symbols(&jpeg->words, band->code);
    } else {
        fpc_build_words(&jpeg->words, band->code, 1);
        fpc_build_ac(&jpeg->ac[0], band->code, 1, &jpeg->words, jpeg->isa);
        jpeg->made_ac[0].made = 0; /* no sequential scan's */
    }
    return FPC_OK;
}

/* Where the blocks of a row of MCUs are. */
static void aim(fpc_jpeg *jpeg, fpc_band *band, int row) {
    const fpc_store *store = &jpeg->stores[jpeg->scan.component[0]];
    size_t at = (size_t)row * (size_t)store->stride;
    if (!jpeg->scan.first) {
        fpc_scan_aim(jpeg, row);
    } else {
        band->block = (int16_t *)(void *)store->coefficients.data + at * 64;
        band->nonzero = (uint64_t *)(void *)store->nonzero.data + at;
    }
}

/* A row of MCUs. */
static int decode_row(fpc_jpeg *jpeg, fpc_band *band, uint32_t count) {
    const fpc_scan *scan = &jpeg->scan;
    while (count) {
        if (!jpeg->until_restart) band->ended = 0;
        int status = fpc_scan_prepare(jpeg);
        if (status) return status;
        uint32_t some = count < jpeg->until_restart ? count : jpeg->until_restart, bad = 0;
        fpc_reader *reader = &jpeg->bits.reader;
        const uint8_t *limit = jpeg->bits.limit;
        if (!scan->first)
            some = CHOOSE(jpeg->isa, dc)(reader, limit, &jpeg->mcu, some, (uint32_t)scan->low, &bad, scan->high);
        else if (scan->high)
            some = CHOOSE(jpeg->isa, refine)(reader, limit, band, some, &bad);
        else
            some = CHOOSE(jpeg->isa, first)(reader, limit, band, some, &bad);
        if (bad) return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_BAD_CODE;
        jpeg->until_restart -= some;
        count -= some;
    }
    return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_OK;
}

int fpc_progressive_scan(fpc_jpeg *jpeg, const uint8_t *input) {
    fpc_band band;
    int columns, rows, status = jpeg->scan.first ? set_band(jpeg, &band) : set_blocks(jpeg);
    if (status) return status;
    fpc_scan_begin(jpeg, input);
    fpc_scan_size(jpeg, &columns, &rows);
    for (int row = 0; !status && row < rows; row++) {
        aim(jpeg, &band, row);
        status = decode_row(jpeg, &band, (uint32_t)columns);
    }
    return status;
}
