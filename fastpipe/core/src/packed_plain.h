/* packed_plain.h: the loops over a packed row in plain C.
 *
 * A coefficient's kind and sign, a bit each:
 *   kind 0: 1, or -1 with the sign
 *   kind 1: in the stream of small ones, with the sign in that of large ones */
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

/* Compilers have an instruction for it where the file that includes this one is compiled for it. */
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

/* The number of the lowest bit that is set, and of the highest. */
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

/* Coefficients of kind 1: those without a sign are small, the others large. */
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

/* The bytes of the masks; more than there can be where a length is impossible. */
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
    return *lengths > 8 ? SIZE_MAX / 2 : sum + *lengths; /* the upper half is 0 */
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

/* Goes on to the next value that is an escape. */
static FPC_NOINLINE void packed_find_wide(fpc_packed_cursor *cursor, const int8_t *from) {
    const int8_t *found = memchr(from, FPC_PACKED_ESCAPE & 255, (size_t)(cursor->end - from));
    cursor->wide = found ? found : cursor->end;
}

/* Puts coefficients of 16 bits where there are escapes, in a block whose mask (bit k: zigzag index k) and values these
 * are. */
static FPC_NOINLINE void packed_widen(fpc_packed_cursor *cursor, uint64_t mask, const int8_t *values, int16_t *block) {
    for (; mask; mask &= mask - 1, values++) {
        if (*values != FPC_PACKED_ESCAPE) continue;
        block[fpc_natural_order[packed_lowest(mask) + 1]] = packed_int16(cursor->wide_values);
        cursor->wide_values += 2;
    }
    packed_find_wide(cursor, values);
}

/* The next block's mask, as its bits come in the file. */
static FPC_INLINE uint64_t packed_next_mask(fpc_packed_cursor *cursor) {
    const uint32_t bytes = cursor->lengths[cursor->block / 2] >> (cursor->block % 2 * 4) & 15;
    const uint64_t loaded = packed_load(cursor->masks);
    const uint64_t mask = bytes < 8 ? loaded & (((uint64_t)1 << (8 * bytes & 63)) - 1) : loaded;
    cursor->block++;
    cursor->masks += bytes;
    cursor->seen |= mask;
    return mask;
}

static void packed_skip(fpc_packed_cursor *shared, size_t count) {
    fpc_packed_cursor cursor = *shared;
    for (; count; count--) cursor.values += packed_popcount(packed_next_mask(&cursor));
    while (cursor.wide < cursor.values) {
        cursor.wide_values += 2;
        packed_find_wide(&cursor, cursor.wide + 1);
    }
    *shared = cursor;
}

#if defined(FPC_PORTABLE)
static void packed_values(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values) {
    (void)tables;
    for (size_t i = 0; i < row->smalls; i++) {
        const int nibble = row->small[i / 2] >> (i % 2 * 4) & 15;
        const int value = (nibble & 7) + FPC_PACKED_SMALLEST;
        smalls[i] = (int8_t)(nibble & 8 ? -value : value);
    }
    const int8_t *small = smalls;
    const uint8_t *large = row->large;
    for (size_t i = 0; i < row->coefficients; i += 8) {
        const uint32_t kinds = row->kinds[i / 8], signs = row->signs[i / 8];
        for (int k = 0; k < 8; k++) { /* without branches: all three are read, and one is taken */
            const int kind = kinds >> k & 1, sign = signs >> k & 1;
            const int one = 1 - 2 * sign, other = sign ? (int8_t)*large : *small;
            values[i + (size_t)k] = (int8_t)(kind ? other : one);
            large += kind & sign;
            small += kind & ~sign;
        }
    }
}

static void packed_blocks(fpc_packed_cursor *shared, size_t count, int16_t *coefficients, uint8_t *last) {
    fpc_packed_cursor cursor = *shared;
    for (; count; count--, coefficients += 64) {
        const uint64_t mask = packed_next_mask(&cursor) << 1;
        const int8_t *values = cursor.values;
        *last++ = packed_highest(mask | 1);
        memset(coefficients, 0, 64 * sizeof *coefficients);
        for (uint64_t left = mask; left; left &= left - 1)
            coefficients[fpc_natural_order[packed_lowest(left) + 1]] = *cursor.values++;
        if (FPC_UNLIKELY(cursor.wide < cursor.values)) packed_widen(&cursor, mask, values, coefficients);
    }
    *shared = cursor;
}
#endif

#endif
