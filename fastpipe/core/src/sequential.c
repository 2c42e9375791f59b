/* The blocks of baseline and extended sequential scans: decoded where they are wanted, else skipped.
 *
 * A look-up takes up to two symbols (skipping, three). Three things keep it fast: lengths stand in an array of bytes
 * of their own, as only they are on the way from one symbol to the next; the index is taken before the bits are
 * filled up, so that filling up isn't on that way; and all that is rare, the end of a block among it, has one exit. */
#include "entropy.h"

#include <string.h>

#define AC_INDEX(bits) ((bits) >> (64 - FPC_AC_BITS))
#define SKIP_INDEX(bits) ((bits) >> (64 - FPC_SKIP_BITS))
#define DC_INDEX(bits) ((bits) >> (64 - FPC_DC_BITS))
#define NEXT_16(bits) ((uint32_t)((bits) >> 48))

#define D FPC_DUMP
#define DUMP_16 D, D, D, D, D, D, D, D, D, D, D, D, D, D, D, D
/* T.81, figure 5. */
const uint8_t fpc_natural_order[256] = {
    D,  0,  1,       8,       16,      9,       2,       3,       10,      17,      24,      32,      25,
    18, 11, 4,       5,       12,      19,      26,      33,      40,      48,      41,      34,      27,
    20, 13, 6,       7,       14,      21,      28,      35,      42,      49,      56,      57,      50,
    43, 36, 29,      22,      15,      23,      30,      37,      44,      51,      58,      59,      52,
    45, 38, 31,      39,      46,      53,      60,      61,      54,      47,      55,      62,      63,
    D,  D,  D,       D,       D,       D,       D,       D,       D,       D,       D,       D,       D,
    D,  D,  DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16, DUMP_16};

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* The difference of a DC. (jdhuff.c, decode_mcu_slow) */
static FPC_INLINE int32_t read_dc(fpc_reader *reader, const fpc_dc_table *table, const fpc_huffman_spec *code,
                                  uint32_t *bad) {
    uint64_t index = DC_INDEX(reader->bits);
    uint32_t length = table->lengths[index], size = table->entries[index].size, shift = table->entries[index].shift;
    fpc_refill(reader);
    if (FPC_UNLIKELY(!length)) {
        uint32_t found = (uint32_t)fpc_huffman_spec_find(code, NEXT_16(reader->bits));
        *bad |= !found;
        size = found & 15;
        length = (found >> 8) + size;
        shift = length ? 64 - length : 0;
    }
    int32_t difference = fpc_extend(reader->bits >> (shift & 63), size);
    fpc_drop(reader, length);
    return difference;
}

/* The first symbol of an entry has its value in the table; the last one's follows in the data. */
static FPC_INLINE uint64_t store_symbols(fpc_reader *reader, const fpc_ac_entry *entry, uint32_t length, int16_t *block,
                                         uint64_t position) {
    block[fpc_natural_order[position + entry->first_advance]] = entry->value;
    position += entry->advance;
    block[fpc_natural_order[position]] = (int16_t)fpc_extend(reader->bits >> ((0u - length) & 63), entry->size);
    fpc_drop(reader, length);
    return position;
}

/* The AC coefficients of a block; returns the zigzag index of the last one, 0 for none. The reader must have been
 * filled up with at most 45 bits taken since then. */
static FPC_INLINE uint32_t read_ac(fpc_reader *reader, const fpc_ac_table *table, const fpc_huffman_spec *code,
                                   int16_t *block, uint32_t *bad) {
    uint64_t position = 1, index, before; /* of the next coefficient; what was left before the last look-up */
    const fpc_ac_entry *entry;
    uint32_t length;
    for (;;) {
        /* Two look-ups of up to 21 bits each for one filling up. */
        index = AC_INDEX(reader->bits);
        entry = &table->entries[index];
        length = table->lengths[index];
        fpc_refill(reader);
        before = reader->bits;
        position = store_symbols(reader, entry, length, block, position);
        if (position < 64) {
            index = AC_INDEX(reader->bits);
            entry = &table->entries[index];
            length = table->lengths[index];
            before = reader->bits;
            position = store_symbols(reader, entry, length, block, position);
            if (position < 64) continue;
        }
        uint32_t advance = entry->advance, first = entry->first_advance, start = (uint32_t)position - advance;
        if (FPC_UNLIKELY(advance == FPC_NO_SYMBOL)) {
            position = start;
            fpc_refill(reader);
            uint32_t found = (uint32_t)fpc_huffman_spec_find(code, NEXT_16(reader->bits));
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
        /* Not `first != advance` first: whether the end of the block comes alone in its entry is a coin's toss. */
        if (FPC_UNLIKELY(start + first == 64 && first != advance)) {
            /* The first of two symbols ended the block, and the second one belongs to the next. */
            uint32_t found = (uint32_t)fpc_huffman_spec_find(code, NEXT_16(before));
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

/* Goes over the AC coefficients of a block. */
static FPC_INLINE void skip_ac(fpc_reader *reader, const fpc_skip_table *table, const fpc_huffman_spec *code,
                               uint32_t *bad) {
    uint64_t position = 1, index, before;
    uint32_t length, advance;
    for (;;) {
        index = SKIP_INDEX(reader->bits);
        length = table->lengths[index];
        advance = table->advances[index];
        fpc_refill(reader);
        before = reader->bits;
        position += advance;
        fpc_drop(reader, length);
        if (position < 64) {
            index = SKIP_INDEX(reader->bits);
            length = table->lengths[index];
            advance = table->advances[index];
            before = reader->bits;
            position += advance;
            fpc_drop(reader, length);
            if (position < 64) continue;
        }
        /* An end of block adds 128, so that these are the sound ends; 192 is an end behind the last coefficient. */
        if (position == 64 || (position > 128 && position < 192)) return;
        /* No symbol, or symbols beyond the block's end: this time one alone. */
        position -= advance;
        reader->bits = before;
        reader->count += length;
        fpc_refill(reader);
        uint32_t found = (uint32_t)fpc_huffman_spec_find(code, NEXT_16(reader->bits));
        uint32_t size = found & 15, run = found >> 4 & 15;
        *bad |= !found;
        fpc_drop(reader, (found >> 8) + size);
        if (!found || (!size && run != 15)) return;
        position += run + 1;
        *bad |= position > 64;
        if (position >= 64) return;
    }
}

/* Zeros for a block. memset of 128 bytes becomes a slow instruction for strings with some compilers' general
 * settings. */
static FPC_INLINE void clear(int16_t *block) {
#if defined(__GNUC__) || defined(__clang__)
    typedef int16_t piece __attribute__((vector_size(32), aligned(2), may_alias));
    piece *pieces = (piece *)(void *)block;
    pieces[0] = pieces[1] = pieces[2] = pieces[3] = (piece){0};
#else
    memset(block, 0, 64 * sizeof *block);
#endif
}

/* ---- MCUs ------------------------------------------------------------------------------------------------------ */

typedef uint32_t decode_loop(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad);

/* Up to `count` MCUs, as long as the data reaches; returns how many. */
static FPC_INLINE uint32_t decode_mcus(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                       uint32_t *bad, int skip) {
    fpc_reader reader = *shared;
    uint32_t done = 0, broken = 0;
    const fpc_block *end = mcu->blocks + mcu->count;
    fpc_refill(&reader);
    for (; done < count && reader.next <= limit; done++) {
        for (fpc_block *block = mcu->blocks; block != end; block++) {
            uint32_t *prediction = block->prediction;
            uint32_t dc = *prediction + (uint32_t)read_dc(&reader, block->dc, block->dc_code, &broken);
            *prediction = dc;
            if (skip) {
                skip_ac(&reader, block->skip, block->ac_code, &broken);
                continue;
            }
            int16_t *output = block->output;
            block->output = output + block->step * 64;
            clear(output);
            output[0] = (int16_t)dc;
            *block->last = (uint8_t)read_ac(&reader, block->ac, block->ac_code, output, &broken);
            block->last += block->step;
        }
    }
    *shared = reader;
    *bad |= broken;
    return done;
}

static FPC_NOINLINE uint32_t decode_portable(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                             uint32_t *bad) {
    return decode_mcus(shared, limit, mcu, count, bad, 0);
}

static FPC_NOINLINE uint32_t skip_portable(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                           uint32_t *bad) {
    return decode_mcus(shared, limit, mcu, count, bad, 1);
}

#if FPC_HAS_AVX2
FPC_AVX2 static FPC_NOINLINE uint32_t decode_avx2(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu,
                                                  uint32_t count, uint32_t *bad) {
    return decode_mcus(shared, limit, mcu, count, bad, 0);
}

FPC_AVX2 static FPC_NOINLINE uint32_t skip_avx2(fpc_reader *shared, const uint8_t *limit, fpc_mcu *mcu, uint32_t count,
                                                uint32_t *bad) {
    return decode_mcus(shared, limit, mcu, count, bad, 1);
}
#endif

static decode_loop *loop_for(int isa, int skip) {
#if FPC_HAS_AVX2
    if (FPC_USES_AVX2(isa)) return skip ? skip_avx2 : decode_avx2;
#endif
    (void)isa;
    return skip ? skip_portable : decode_portable;
}

/* ---- scans ----------------------------------------------------------------------------------------------------- */

void fpc_scan_size(const fpc_jpeg *jpeg, int *columns, int *rows) {
    const fpc_component *only = &jpeg->components[jpeg->scan.component[0]];
    int alone = jpeg->scan.count == 1; /* its MCU is a block then, and none fills up (T.81, A.2.2) */
    *columns = alone ? only->blocks_wide : jpeg->frame.mcu_columns;
    *rows = alone ? only->blocks_high : jpeg->frame.mcu_rows;
}

int fpc_scan_blocks(fpc_jpeg *jpeg) {
    fpc_mcu *mcu = &jpeg->mcu;
    mcu->count = 0;
    for (int i = 0; i < jpeg->scan.count; i++) {
        const fpc_component *component = &jpeg->components[jpeg->scan.component[i]];
        int alone = jpeg->scan.count == 1, blocks = alone ? 1 : component->horizontal * component->vertical;
        int dc = jpeg->scan.dc_table[i], ac = jpeg->scan.ac_table[i];
        if (mcu->count + blocks > FPC_MAX_MCU_BLOCKS) return FPC_UNSUPPORTED_COLOR;
        for (int j = 0; j < blocks; j++) {
            mcu->blocks[mcu->count++] = (fpc_block){.dc = &jpeg->dc[dc],
                                                    .ac = &jpeg->ac[ac],
                                                    .skip = &jpeg->skip[ac],
                                                    .dc_code = &jpeg->tables.dc[dc],
                                                    .ac_code = &jpeg->tables.ac[ac],
                                                    .step = alone ? 1 : component->horizontal,
                                                    .prediction = &mcu->predictions[i]};
        }
    }
    return FPC_OK;
}

void fpc_scan_aim(fpc_jpeg *jpeg, int row) {
    fpc_block *block = jpeg->mcu.blocks;
    for (int i = 0; i < jpeg->scan.count; i++) {
        const fpc_component *component = &jpeg->components[jpeg->scan.component[i]];
        fpc_store *store = &jpeg->stores[jpeg->scan.component[i]];
        int alone = jpeg->scan.count == 1;
        int high = alone ? 1 : component->vertical, wide = alone ? 1 : component->horizontal;
        for (int y = 0; y < high; y++) {
            size_t at = ((size_t)row * (size_t)high + (size_t)y) * (size_t)store->stride;
            for (int x = 0; x < wide; x++, block++, at++) {
                block->output = (int16_t *)(void *)store->coefficients.data + at * 64;
                block->last = store->last.data + at;
            }
        }
    }
}

void fpc_scan_begin(fpc_jpeg *jpeg, const uint8_t *input) {
    memset(jpeg->mcu.predictions, 0, sizeof jpeg->mcu.predictions);
    jpeg->until_restart = jpeg->tables.restart_interval ? jpeg->tables.restart_interval : UINT32_MAX;
    jpeg->next_restart = 0;
    fpc_bitstream_start(&jpeg->bits, input, jpeg->data + jpeg->length);
}

/* Whether a table was made of this code; says so from now on. */
static int keep_code(fpc_made *made, const fpc_huffman_spec *code) {
    if (made->made && fpc_huffman_spec_equal(&made->code, code)) return 1;
    made->made = 1;
    made->code = *code;
    return 0;
}

void fpc_scan_make_dc(fpc_jpeg *jpeg, int number) {
    const fpc_huffman_spec *code = &jpeg->tables.dc[number];
    if (!keep_code(&jpeg->made_dc[number], code)) fpc_build_dc(&jpeg->dc[number], code);
}

static void make_ac(fpc_jpeg *jpeg, int number, int skips) {
    const fpc_huffman_spec *code = &jpeg->tables.ac[number];
    const int has_table = keep_code(&jpeg->made_ac[number], code);
    const int has_skip = !skips || keep_code(&jpeg->made_skip[number], code);
    if (!has_table || !has_skip) fpc_build_words(&jpeg->words, code, 0);
    if (!has_table) fpc_build_ac(&jpeg->ac[number], code, 0, &jpeg->words, jpeg->isa);
    if (!has_skip) fpc_build_skip(&jpeg->skip[number], &jpeg->words, jpeg->isa);
}

int fpc_scan_start(fpc_jpeg *jpeg, const uint8_t *input, int skips) {
    int status = fpc_scan_blocks(jpeg);
    if (status) return status;
    for (int i = 0; i < jpeg->scan.count; i++) {
        int dc = jpeg->scan.dc_table[i], ac = jpeg->scan.ac_table[i];
        if (!(jpeg->tables.has_dc >> dc & jpeg->tables.has_ac >> ac & 1)) return FPC_BAD_TABLE;
        fpc_scan_make_dc(jpeg, dc);
        make_ac(jpeg, ac, skips);
    }
    fpc_scan_begin(jpeg, input);
    return FPC_OK;
}

int fpc_scan_prepare(fpc_jpeg *jpeg) {
    if (!jpeg->until_restart) {
        int status = fpc_bitstream_restart(&jpeg->bits, jpeg->next_restart);
        if (status) return status;
        jpeg->next_restart = (jpeg->next_restart + 1) & 7;
        jpeg->until_restart = jpeg->tables.restart_interval;
        memset(jpeg->mcu.predictions, 0, sizeof jpeg->mcu.predictions);
    }
    return jpeg->bits.reader.next > jpeg->bits.limit ? fpc_bitstream_fill(&jpeg->bits) : FPC_OK;
}

int fpc_scan_decode(fpc_jpeg *jpeg, uint32_t count, int skip) {
    decode_loop *loop = loop_for(jpeg->isa, skip);
    while (count) {
        int status = fpc_scan_prepare(jpeg);
        if (status) return status;
        uint32_t some = count < jpeg->until_restart ? count : jpeg->until_restart, bad = 0;
        some = loop(&jpeg->bits.reader, jpeg->bits.limit, &jpeg->mcu, some, &bad);
        if (bad) return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_BAD_CODE;
        jpeg->until_restart -= some;
        count -= some;
    }
    return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_OK;
}
