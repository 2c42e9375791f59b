/* inflate_plain.h: the loop over a block's codes, one body that is compiled for each machine. */
#include <string.h>

#include "fastpipe_core.h"
#include "inflate.h"

static inline uint64_t inflate_load(const uint8_t *from) {
    return (uint64_t)from[0] | (uint64_t)from[1] << 8 | (uint64_t)from[2] << 16 | (uint64_t)from[3] << 24 |
           (uint64_t)from[4] << 32 | (uint64_t)from[5] << 40 | (uint64_t)from[6] << 48 | (uint64_t)from[7] << 56;
}

/* Fills the bits to at least 56. Bits that were already loaded are loaded again to the same place. */
#define INFLATE_REFILL()                                                                                               \
    do {                                                                                                               \
        bits |= inflate_load(in) << count;                                                                             \
        in += (63 - count) >> 3;                                                                                       \
        count |= 56;                                                                                                   \
    } while (0)

#define INFLATE_DROP(number) (bits >>= (number), count -= (number))

/* Copies a match; may write up to 16 bytes after it. */
static inline void inflate_copy(uint8_t *out, uint32_t distance, uint32_t length) {
    const uint8_t *from = out - distance;
    uint8_t *const end = out + length;
    if (distance >= 16) {
        do {
            memcpy(out, from, 16);
            out += 16, from += 16;
        } while (out < end);
    } else if (distance >= 8) {
        do {
            memcpy(out, from, 8);
            out += 8, from += 8;
        } while (out < end);
    } else if (distance == 1) {
        memset(out, *from, length);
    } else { /* each turn makes `distance` correct bytes */
        do {
            uint64_t word;
            memcpy(&word, from, 8);
            memcpy(out, &word, 8);
            out += distance, from += distance;
        } while (out < end);
    }
}

/* As fpc_inflate_run, up to the block's end at most. `in` isn't past `end` at the loop's head, so two loads stay within
 * FPC_INFLATE_IN_SLACK. */
static int inflate_codes(fpc_inflate *inflate, const uint8_t *first, uint8_t **place, uint8_t *target) {
    const uint32_t *const literals = inflate->literals, *const distances = inflate->distances;
    const uint8_t *in = inflate->in, *const end = inflate->end;
    uint64_t bits = inflate->bits;
    uint32_t count = inflate->count;
    uint8_t *out = *place;
    int status = FPC_OK;
    while (out < target) {
        if (in > end) { /* gives back whole bytes that aren't needed yet */
            in -= count >> 3;
            count &= 7;
            bits &= (1u << count) - 1;
            if (in > end) break;
        }
        INFLATE_REFILL();
        uint32_t entry = literals[bits & ((1u << FPC_LITERAL_BITS) - 1)];
        if (entry & FPC_DEFLATE_LITERAL) { /* there are always bits for 4 entries of at most 11 bits */
            for (int i = 0; i < 3; i++) {
                INFLATE_DROP(entry & 63);
                out[0] = (uint8_t)(entry >> 8);
                out[1] = (uint8_t)(entry >> 16);
                out += 1 + (entry >> 24 & 1);
                entry = literals[bits & ((1u << FPC_LITERAL_BITS) - 1)];
                if (!(entry & FPC_DEFLATE_LITERAL)) break;
            }
            if (entry & FPC_DEFLATE_LITERAL) {
                INFLATE_DROP(entry & 63);
                out[0] = (uint8_t)(entry >> 8);
                out[1] = (uint8_t)(entry >> 16);
                out += 1 + (entry >> 24 & 1);
                continue;
            }
            INFLATE_REFILL();
        }
        if (entry & FPC_DEFLATE_FURTHER) {
            if (!(entry & (FPC_DEFLATE_END | FPC_DEFLATE_BAD))) {
                INFLATE_DROP(FPC_LITERAL_BITS);
                entry = literals[(entry >> 12 & 0xFFFF) + (bits & ((1u << (entry >> 8 & 15)) - 1))];
            }
            if (entry & FPC_DEFLATE_LITERAL) {
                INFLATE_DROP(entry & 63);
                *out++ = (uint8_t)(entry >> 8);
                continue;
            }
            if (entry & FPC_DEFLATE_BAD) {
                status = FPC_BAD_CODE;
                break;
            }
            if (entry & FPC_DEFLATE_END) {
                INFLATE_DROP(entry & 63);
                inflate->state = inflate->last ? FPC_INFLATE_DONE : FPC_INFLATE_HEADER;
                break;
            }
        }
        /* At most 20 bits of the length and 28 of the distance. */
        const uint32_t length = (entry >> 16) + (uint32_t)((bits & ((1u << (entry & 63)) - 1)) >> (entry >> 8 & 15));
        INFLATE_DROP(entry & 63);
        entry = distances[bits & ((1u << FPC_DISTANCE_BITS) - 1)];
        if (entry & FPC_DISTANCE_FURTHER) {
            if (!(entry & FPC_DISTANCE_BAD)) {
                INFLATE_DROP(FPC_DISTANCE_BITS);
                entry = distances[(entry >> 16 & 0x7FFF) + (bits & ((1u << (entry >> 8 & 15)) - 1))];
            }
            if (entry & FPC_DISTANCE_BAD) {
                status = FPC_BAD_CODE;
                break;
            }
        }
        const uint32_t distance = (entry >> 16) + (uint32_t)((bits & ((1u << (entry & 63)) - 1)) >> (entry >> 8 & 15));
        INFLATE_DROP(entry & 63);
        if (distance > (size_t)(out - first)) {
            status = FPC_BAD_CODE;
            break;
        }
        inflate_copy(out, distance, length);
        out += length;
    }
    inflate->in = in;
    inflate->bits = bits;
    inflate->count = count;
    *place = out;
    return status == FPC_OK && in - (count >> 3) > end ? FPC_TRUNCATED : status;
}

#undef INFLATE_REFILL
#undef INFLATE_DROP
