/* packed_plain.h: the loops over a packed row in plain C.
 *
 * A coefficient has a bit for its kind and one for its sign:
 *   kind 0: the coefficient is 1, or -1 if the sign is set
 *   kind 1: it is in the stream of small ones, or, if the sign is set, in that of large ones */
#ifndef FPC_PACKED_PLAIN_H
#define FPC_PACKED_PLAIN_H

#include <string.h>

#include "bitstream.h"
#include "fastpipe_core.h"
#include "mcu.h"
#include "packed_row.h"

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

static FPC_INLINE uint64_t packed_load(const uint8_t *from) {
    uint64_t word;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | from[i];
#else
    memcpy(&word, from, sizeof word);
#endif
    return word;
}

static FPC_INLINE int16_t packed_int16(const uint8_t *from) {
    return (int16_t)(uint16_t)((uint32_t)from[0] | (uint32_t)from[1] << 8);
}

/* Compilers use an instruction for this if the including file is compiled with it. */
static FPC_INLINE uint32_t packed_popcount(uint64_t bits) {
#if defined(FPC_SIMD_AVX2) && (defined(__GNUC__) || defined(__clang__))
    return (uint32_t)__builtin_popcountll(bits);
#else
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (uint32_t)(bits * 0x0101010101010101u >> 56);
#endif
}

/* The index of the lowest set bit, and of the highest. */
static FPC_INLINE uint32_t packed_lowest(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_ctzll(bits);
#else
    return packed_popcount((bits & (0 - bits)) - 1);
#endif
}

static FPC_INLINE uint8_t packed_highest(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint8_t)(63 - __builtin_clzll(bits));
#else
    for (int shift = 1; shift < 64; shift *= 2) bits |= bits >> shift;
    return (uint8_t)(packed_popcount(bits) - 1);
#endif
}

/* ---- the row's streams ---- */

static size_t packed_bits(const uint8_t *data, size_t size) {
    size_t count = 0;
    for (; size >= 8; size -= 8, data += 8) count += packed_popcount(packed_load(data));
    for (; size; size--, data++) count += packed_popcount(*data);
    return count;
}

static size_t packed_escapes(const uint8_t *data, size_t size) {
    size_t count = 0;
    while (size) {
        const size_t some = size < 255 ? size : 255;
        uint8_t found = 0;
        for (size_t i = 0; i < some; i++) found = (uint8_t)(found + (data[i] == (uint8_t)FPC_PACKED_ESCAPE));
        count += found;
        data += some;
        size -= some;
    }
    return count;
}

/* Counts coefficients of kind 1: those without the sign bit are small, the others large. */
static void packed_count_kinds(fpc_packed_row *row, size_t size) {
    size_t i = 0;
    row->smalls = row->larges = 0;
    for (; i + 8 <= size; i += 8) {
        const uint64_t kinds = packed_load(row->kinds + i), signs = packed_load(row->signs + i);
        row->smalls += packed_popcount(kinds & ~signs);
        row->larges += packed_popcount(kinds & signs);
    }
    for (; i < size; i++) {
        row->smalls += packed_popcount((uint64_t)(row->kinds[i] & ~row->signs[i]));
        row->larges += packed_popcount((uint64_t)(row->kinds[i] & row->signs[i]));
    }
}

/* The bytes of the masks; more than possible if a length is invalid. */
static size_t packed_mask_bytes(const uint8_t *lengths, size_t blocks) {
    size_t sum = 0;
    while (blocks >= 2) {
        const size_t pairs = blocks / 2 < 2048 ? blocks / 2 : 2048;
        uint16_t some = 0;
        uint8_t beyond = 0;
        for (size_t i = 0; i < pairs; i++) {
            const uint8_t low = lengths[i] & 15, high = lengths[i] >> 4;
            some = (uint16_t)(some + low + high);
            beyond |= (uint8_t)((low > 8) | (high > 8));
        }
        if (beyond) return SIZE_MAX / 2;
        sum += some;
        lengths += pairs;
        blocks -= 2 * pairs;
    }
    if (!blocks) return sum;
    return *lengths > 8 ? SIZE_MAX / 2 : sum + *lengths; /* the upper half must be 0 */
}

static int packed_layout(const uint8_t *data, size_t size, fpc_packed_row *row) {
    const uint8_t *at = data;
    size_t left = size;
#define PACKED_STREAM(stream, bytes)                                                                                   \
    do {                                                                                                               \
        const size_t wanted = (bytes);                                                                                 \
        if (wanted > left) return FPC_BAD_CODE;                                                                        \
        (stream) = at;                                                                                                 \
        at += wanted;                                                                                                  \
        left -= wanted;                                                                                                \
    } while (0)
    PACKED_STREAM(row->lengths, row->blocks / 2 + row->blocks % 2);
    PACKED_STREAM(row->dc, row->blocks);
    row->mask_bytes = packed_mask_bytes(row->lengths, row->blocks);
    PACKED_STREAM(row->masks, row->mask_bytes);
    row->coefficients = packed_bits(row->masks, row->mask_bytes);
    const size_t bytes = (row->coefficients + 7) / 8;
    PACKED_STREAM(row->kinds, bytes);
    PACKED_STREAM(row->signs, bytes);
    const uint32_t rest = row->coefficients % 8;
    if (rest && (row->kinds[bytes - 1] | row->signs[bytes - 1]) >> rest) return FPC_BAD_CODE;
    packed_count_kinds(row, bytes);
    PACKED_STREAM(row->small, row->smalls / 2 + row->smalls % 2);
    if (row->smalls % 2 && row->small[row->smalls / 2] >> 4) return FPC_BAD_CODE;
    PACKED_STREAM(row->large, row->larges);
    row->wide = packed_escapes(row->large, row->larges);
    PACKED_STREAM(row->wide_values, 2 * row->wide);
    row->wide_dc = packed_escapes(row->dc, row->blocks);
    PACKED_STREAM(row->wide_dc_values, 2 * row->wide_dc);
#undef PACKED_STREAM
    return left ? FPC_BAD_CODE : FPC_OK;
}

/* ---- blocks ---- */

/* The fields of a cursor that the loops over blocks keep in registers. */
typedef struct packed_place {
    const uint8_t *masks;
    const int8_t *values;
    uint64_t seen;
} packed_place;

static FPC_INLINE packed_place packed_begin(const fpc_packed_cursor *cursor) {
    return (packed_place){cursor->masks, cursor->values, cursor->seen};
}

static FPC_INLINE void packed_end(fpc_packed_cursor *cursor, const packed_place *place, size_t count) {
    cursor->masks = place->masks;
    cursor->values = place->values;
    cursor->seen = place->seen;
    cursor->block += count;
}

/* Reads a block's mask, whose bits are as in the file. */
static FPC_INLINE uint64_t packed_next_mask(packed_place *place, const uint8_t *lengths, size_t block) {
    const uint32_t bytes = lengths[block / 2] >> (block % 2 * 4) & 15;
    const uint64_t loaded = packed_load(place->masks);
    const uint64_t mask = bytes < 8 ? loaded & (((uint64_t)1 << (8 * bytes & 63)) - 1) : loaded;
    place->masks += bytes;
    place->seen |= mask;
    return mask;
}

/* Finds the next value that is an escape. */
static void packed_find_wide(fpc_packed_cursor *cursor) {
    const int8_t *from = cursor->wide + 1;
    const int8_t *found = memchr(from, FPC_PACKED_ESCAPE & 255, (size_t)(cursor->end - from));
    cursor->wide = found ? found : cursor->end;
    cursor->wide_values += 2;
}

/* Writes 16-bit coefficients in place of the escapes of a block, given its mask (bit k: zigzag index k) and values.
 * Returns the next escape's address. */
static FPC_NOINLINE const int8_t *packed_widen(fpc_packed_cursor *cursor, uint64_t mask, const int8_t *values,
                                               const int8_t *end, int16_t *block) {
    while (cursor->wide < end) {
        for (; values < cursor->wide; values++) mask &= mask - 1;
        block[fpc_natural_order[packed_lowest(mask) + 1]] = packed_int16(cursor->wide_values);
        packed_find_wide(cursor);
    }
    return cursor->wide;
}

static void packed_skip(fpc_packed_cursor *cursor, size_t count) {
    packed_place place = packed_begin(cursor);
    for (size_t i = 0; i < count; i++)
        place.values += packed_popcount(packed_next_mask(&place, cursor->lengths, cursor->block + i));
    packed_end(cursor, &place, count);
    while (cursor->wide < cursor->values) packed_find_wide(cursor);
}

#if defined(FPC_PORTABLE)
static void packed_values(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values) {
    const fpc_packed_row in = *row; /* a copy, as compilers can't know that the results don't lie in *row */
    for (size_t i = 0; i < in.smalls; i += 2) memcpy(smalls + i, tables->smalls[in.small[i / 2]], 2);
    const uint64_t every = 0x0101010101010101u;
    uint8_t from[130]; /* eight small values, eight large ones, and from 0x80 on 1 and -1 */
    from[0x80] = 1, from[0x81] = 0xFF;
    const uint8_t *small = (const uint8_t *)smalls, *large = in.large;
    for (size_t i = 0; i < in.coefficients; i += 8) {
        const uint32_t kinds = in.kinds[i / 8], signs = in.signs[i / 8];
        const uint32_t is_small = kinds & ~signs, is_large = kinds & signs, is_minus = signs & ~kinds;
        memcpy(from, small, 8);
        memcpy(from + 8, large, 8);
        /* A byte per bit: 1 if it is set. */
        const uint64_t minus = (((is_minus * every) & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu) >> 7 & every;
        uint64_t places = (tables->spread[0][is_small] ^ tables->spread[1][is_large] ^ 128 * every) + minus;
        for (size_t k = 0; k < 8; k++, places >>= 8) values[i + k] = (int8_t)from[places & 255];
        small += tables->counts[is_small];
        large += tables->counts[is_large];
    }
}

static void packed_blocks(fpc_packed_cursor *cursor, size_t count, int16_t *coefficients, uint8_t *last) {
    packed_place place = packed_begin(cursor);
    const uint8_t *lengths = cursor->lengths;
    const int8_t *wide = cursor->wide;
    const uint8_t *order = fpc_natural_order + 1;
    for (size_t i = 0, block = cursor->block; i < count; i++, block++, coefficients += 64) {
        const uint64_t mask = packed_next_mask(&place, lengths, block) << 1;
        const int8_t *values = place.values, *next = values;
        last[i] = packed_highest(mask | 1);
        fpc_clear_block(coefficients);
        for (uint64_t left = mask; left; left &= left - 1) coefficients[order[packed_lowest(left)]] = *next++;
        place.values = next;
        if (FPC_UNLIKELY(wide < place.values)) wide = packed_widen(cursor, mask, values, place.values, coefficients);
    }
    packed_end(cursor, &place, count);
}
#endif

#endif
