/* inflate.c: blocks, their headers and tables (RFC 1951); inflate_plain.h has the loop over codes. Refuses what zlib
 * refuses: over-subscribed and incomplete codes, symbols that don't exist, matches from before the beginning. */
#include "inflate.h"

#include <string.h>

#include "kernels.h"

#define LONGEST 15
#define LITERALS 288
#define DISTANCES 32

static const uint16_t LENGTH_BASE[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t LENGTH_EXTRA[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t DISTANCE_BASE[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                           33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

/* ---- bits ------------------------------------------------------------------------------------------------------- */

/* Gives back whole bytes that were loaded but not used; less than a byte remains. */
static int give_back(fpc_inflate *inflate) {
    inflate->in -= inflate->count >> 3;
    inflate->count &= 7;
    inflate->bits &= (1u << inflate->count) - 1;
    return inflate->in > inflate->end ? FPC_TRUNCATED : FPC_OK;
}

/* Fills the bits to at least 32, from the remaining data and what follows it. give_back finds out how much was data. */
static int refill(fpc_inflate *inflate) {
    if (inflate->count >= 32) return FPC_OK;
    if (give_back(inflate)) return FPC_TRUNCATED;
    for (; inflate->count < 56; inflate->count += 8) inflate->bits |= (uint64_t)*inflate->in++ << inflate->count;
    return FPC_OK;
}

/* Takes `number` of the 32 bits that refill has loaded. */
static uint32_t take(fpc_inflate *inflate, uint32_t number) {
    const uint32_t value = (uint32_t)inflate->bits & ((1u << number) - 1);
    inflate->bits >>= number;
    inflate->count -= number;
    return value;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* The entry of a literal or a length, without the bits of its code. */
static uint32_t literal_entry(uint32_t symbol) {
    if (symbol < 256) return FPC_DEFLATE_LITERAL | symbol << 8;
    if (symbol == 256) return FPC_DEFLATE_FURTHER | FPC_DEFLATE_END;
    if (symbol > 285) return FPC_DEFLATE_FURTHER | FPC_DEFLATE_BAD;
    return (uint32_t)LENGTH_BASE[symbol - 257] << 16 | LENGTH_EXTRA[symbol - 257];
}

static uint32_t distance_entry(uint32_t symbol) {
    if (symbol > 29) return FPC_DISTANCE_FURTHER | FPC_DISTANCE_BAD;
    return (uint32_t)DISTANCE_BASE[symbol] << 16 | (symbol < 4 ? 0 : symbol / 2 - 1);
}

/* The entry in a table that looks up `length` bits of its code. */
static uint32_t with_bits(uint32_t entry, uint32_t length, bool distance) {
    const bool number =
        distance ? !(entry & FPC_DISTANCE_FURTHER) : !(entry & (FPC_DEFLATE_LITERAL | FPC_DEFLATE_FURTHER));
    return entry + length + (number ? length << 8 : 0);
}

static uint32_t reversed(uint32_t code, uint32_t length) {
    uint32_t result = 0;
    for (; length; length--, code >>= 1) result = result << 1 | (code & 1);
    return result;
}

/* Makes the table of a code of `count` symbols. Refuses over-subscribed and incomplete codes; one or no distance is
 * fine. */
static int make_table(uint32_t *table, uint32_t table_bits, const uint8_t *lengths, uint32_t count, bool distance) {
    uint32_t number[LONGEST + 1] = {0}, next[LONGEST + 1];
    uint16_t sorted[LITERALS];
    for (uint32_t i = 0; i < count; i++) number[lengths[i]]++;
    const uint32_t used = count - number[0];
    number[0] = 0;
    uint32_t space = 0, start = 0;
    for (uint32_t length = 1; length <= LONGEST; length++) {
        space += number[length] << (LONGEST - length);
        next[length] = start;
        start += number[length];
    }
    if (space > 1u << LONGEST) return FPC_BAD_TABLE;
    if (space < 1u << LONGEST) {
        if (!distance || used > 1 || used != number[1]) return FPC_BAD_TABLE;
        for (uint32_t i = 0; i < 1u << table_bits; i++) table[i] = FPC_DISTANCE_FURTHER | FPC_DISTANCE_BAD;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (lengths[i]) sorted[next[lengths[i]]++] = (uint16_t)i;
    }
    uint32_t code = 0, end = 1u << table_bits, sub_start = 0, sub_bits = 0, sub_prefix = UINT32_MAX;
    for (uint32_t i = 0, length = 1; i < used; i++, code++) {
        for (; !number[length]; length++) code <<= 1;
        number[length]--;
        const uint32_t symbol = sorted[i], entry = distance ? distance_entry(symbol) : literal_entry(symbol);
        const uint32_t place = reversed(code, length);
        if (length <= table_bits) {
            const uint32_t whole = with_bits(entry, length, distance);
            for (uint32_t at = place; at < 1u << table_bits; at += 1u << length) table[at] = whole;
        } else {
            const uint32_t prefix = place & ((1u << table_bits) - 1), rest = length - table_bits;
            if (prefix != sub_prefix) { /* as many bits as the codes with this prefix have */
                sub_prefix = prefix;
                sub_bits = rest;
                for (uint32_t filled = number[length] + 1; filled < 1u << sub_bits;) {
                    sub_bits++;
                    filled = 2 * filled + number[table_bits + sub_bits];
                }
                sub_start = end;
                end += 1u << sub_bits;
                table[prefix] =
                    sub_bits << 8 | table_bits |
                    (distance ? FPC_DISTANCE_FURTHER | sub_start << 16 : FPC_DEFLATE_FURTHER | sub_start << 12);
            }
            const uint32_t whole = with_bits(entry, rest, distance);
            for (uint32_t at = place >> table_bits; at < 1u << sub_bits; at += 1u << rest)
                table[sub_start + at] = whole;
        }
    }
    return FPC_OK;
}

/* Joins two literals to one entry if both codes fit one look-up. Goes downwards: the second literal is looked up at a
 * lower index, where entries are still single. */
static void join_literals(uint32_t *table) {
    for (uint32_t i = 1u << FPC_LITERAL_BITS; i-- > 0;) {
        const uint32_t entry = table[i];
        if (!(entry & FPC_DEFLATE_LITERAL)) continue;
        const uint32_t following = table[i >> (uint8_t)entry];
        const uint32_t length = (uint8_t)entry + (uint8_t)following;
        if (!(following & FPC_DEFLATE_LITERAL) || length > FPC_LITERAL_BITS) continue;
        table[i] = FPC_DEFLATE_LITERAL | FPC_DEFLATE_TWO | (following << 8 & 0xFF0000) | (entry & 0xFF00) | length;
    }
}

static int make_tables(fpc_inflate *inflate, const uint8_t *literals, uint32_t count, const uint8_t *distances,
                       uint32_t distance_count) {
    if (!literals[256]) return FPC_BAD_TABLE; /* the block could never end */
    int status = make_table(inflate->literals, FPC_LITERAL_BITS, literals, count, false);
    if (status == FPC_OK) status = make_table(inflate->distances, FPC_DISTANCE_BITS, distances, distance_count, true);
    if (status == FPC_OK) join_literals(inflate->literals);
    return status;
}

static int fixed_tables(fpc_inflate *inflate) {
    uint8_t lengths[LITERALS], distances[DISTANCES];
    for (int i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(distances, 5, sizeof distances);
    return make_tables(inflate, lengths, LITERALS, distances, DISTANCES);
}

/* RFC 1951, 3.2.7. */
static int read_tables(fpc_inflate *inflate) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + DISTANCES] = {0}, small[19] = {0}, by_code[128];
    if (refill(inflate)) return FPC_TRUNCATED;
    const uint32_t literals = 257 + take(inflate, 5), distances = 1 + take(inflate, 5), count = 4 + take(inflate, 4);
    if (literals > 286 || distances > 30) return FPC_BAD_TABLE;
    for (uint32_t i = 0; i < count; i++) {
        if (refill(inflate)) return FPC_TRUNCATED;
        small[order[i]] = (uint8_t)take(inflate, 3);
    }
    uint32_t code = 0;
    for (uint32_t length = 1; length <= 7; length++, code <<= 1) {
        for (uint32_t symbol = 0; symbol < 19; symbol++) {
            if (small[symbol] != length) continue;
            if (code >= 1u << length) return FPC_BAD_TABLE;
            for (uint32_t at = reversed(code, length); at < 128; at += 1u << length) by_code[at] = (uint8_t)symbol;
            code++;
        }
    }
    if (code != 256) return FPC_BAD_TABLE; /* codes are missing */
    const uint32_t all = literals + distances;
    for (uint32_t i = 0; i < all;) {
        if (refill(inflate)) return FPC_TRUNCATED;
        const uint32_t symbol = by_code[inflate->bits & 127];
        take(inflate, small[symbol]);
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && !i) return FPC_BAD_TABLE;
        const uint32_t times = symbol == 16   ? 3 + take(inflate, 2)
                               : symbol == 17 ? 3 + take(inflate, 3)
                                              : 11 + take(inflate, 7);
        if (times > all - i) return FPC_BAD_TABLE;
        memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, times);
        i += times;
    }
    return make_tables(inflate, lengths, literals, lengths + literals, distances);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static int start_block(fpc_inflate *inflate) {
    if (refill(inflate)) return FPC_TRUNCATED;
    inflate->last = take(inflate, 1);
    const uint32_t kind = take(inflate, 2);
    int status = FPC_OK;
    if (kind == 0) {
        take(inflate, inflate->count & 7);
        if (give_back(inflate) || inflate->end - inflate->in < 4) return FPC_TRUNCATED;
        const uint32_t size = inflate->in[0] | (uint32_t)inflate->in[1] << 8;
        if (size != ((inflate->in[2] | (uint32_t)inflate->in[3] << 8) ^ 0xFFFF)) return FPC_BAD_CODE;
        inflate->in += 4;
        inflate->stored = size;
        inflate->state = FPC_INFLATE_STORED;
        return FPC_OK;
    }
    if (kind == 3) return FPC_BAD_CODE;
    if (kind == 2) {
        inflate->fixed_tables = false;
        status = read_tables(inflate);
    } else if (!inflate->fixed_tables) {
        status = fixed_tables(inflate);
        inflate->fixed_tables = status == FPC_OK;
    }
    inflate->state = FPC_INFLATE_CODES;
    return status;
}

static int copy_stored(fpc_inflate *inflate, uint8_t **out, const uint8_t *target) {
    size_t size = inflate->stored;
    if (size > (size_t)(inflate->end - inflate->in)) return FPC_TRUNCATED;
    if (size > (size_t)(target - *out)) size = (size_t)(target - *out);
    memcpy(*out, inflate->in, size);
    *out += size;
    inflate->in += size;
    inflate->stored -= (uint32_t)size;
    if (!inflate->stored) inflate->state = inflate->last ? FPC_INFLATE_DONE : FPC_INFLATE_HEADER;
    return FPC_OK;
}

int fpc_inflate_start(fpc_inflate *inflate, const uint8_t *data, size_t length) {
    if (length < 2) return FPC_TRUNCATED;
    /* The method is 8, the window not above 32 KiB, and there is no dictionary (RFC 1950). */
    if ((data[0] & 15) != 8 || data[0] >> 4 > 7 || data[1] & 0x20 || (data[0] << 8 | data[1]) % 31) return FPC_BAD_CODE;
    inflate->in = data + 2;
    inflate->end = data + length;
    inflate->bits = 0;
    inflate->count = inflate->stored = 0;
    inflate->state = FPC_INFLATE_HEADER;
    inflate->last = inflate->fixed_tables = false;
    return FPC_OK;
}

int fpc_inflate_run(fpc_inflate *inflate, const fpc_kernels *kernels, const uint8_t *first, uint8_t **out,
                    uint8_t *target) {
    int status = FPC_OK;
    while (status == FPC_OK && *out < target && inflate->state != FPC_INFLATE_DONE) {
        if (inflate->state == FPC_INFLATE_HEADER)
            status = start_block(inflate);
        else if (inflate->state == FPC_INFLATE_STORED)
            status = copy_stored(inflate, out, target);
        else
            status = kernels->inflate_codes(inflate, first, out, target);
    }
    return status;
}

int fpc_inflate_finish(fpc_inflate *inflate, uint32_t *checksum) {
    if (give_back(inflate)) return FPC_TRUNCATED;
    const uint8_t *at = inflate->in;
    if (inflate->end - at < 4) return FPC_TRUNCATED;
    *checksum = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    return inflate->end - at == 4 ? FPC_OK : FPC_BAD_CODE;
}
