/* encode_plain.h: the loop over the coefficients of sequential blocks, one body that is compiled for each machine. */
#ifndef FPC_ENCODE_PLAIN_H
#define FPC_ENCODE_PLAIN_H

#include "bit_writer.h"
#include "mcu.h"

/* Adds a coefficient after `run` zeros. Then at most 23 more bits are waiting to be written, or fewer than 8 in all. */
static FPC_INLINE void add_coefficient(fpc_bit_writer *to, const fpc_codes *ac, uint32_t run, int value,
                                       uint32_t *missing) {
    const uint32_t moved = (uint32_t)(value + (1 << (FPC_SHORT_BITS - 1)));
    if (FPC_UNLIKELY((run > 15) | (moved >> FPC_SHORT_BITS))) {
        put_bytes(to);
        for (; run > 15; run -= 16) put_entry(to, ac->symbols[ZEROS_16], missing);
        put_symbol(to, ac, run, value, missing);
        return;
    }
    add_entry(to, ac->values[run << FPC_SHORT_BITS | ((uint32_t)value & ((1u << FPC_SHORT_BITS) - 1))], missing);
}

static uint32_t encode_block(fpc_bit_writer *shared, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block,
                             int last, int difference) {
    fpc_bit_writer to = *shared;
    uint32_t missing = 0, place = 0;
    uint64_t left = last ? nonzero_of(block, last) & ~UINT64_C(1) : 0;
    put_symbol(&to, dc, 0, difference, &missing);
    while (left) { /* two coefficients, then their bytes are written */
        uint32_t k = encode_lowest_bit(left);
        add_coefficient(&to, ac, k - place - 1, block[fpc_natural_order[k + 1]], &missing);
        place = k;
        if (!(left &= left - 1)) break;
        k = encode_lowest_bit(left);
        add_coefficient(&to, ac, k - place - 1, block[fpc_natural_order[k + 1]], &missing);
        place = k;
        left &= left - 1;
        put_bytes(&to);
    }
    if (place < 63) add_entry(&to, ac->symbols[0], &missing);
    put_bytes(&to);
    *shared = to;
    return missing;
}

#endif
