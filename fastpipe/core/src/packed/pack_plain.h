/* pack_plain.h: the loop over a block's coefficients when it is packed, one body that is compiled for each machine. */
#ifndef FPC_PACK_PLAIN_H
#define FPC_PACK_PLAIN_H

#include "encode_plain.h"
#include "packed_row.h"

static uint64_t pack_block(fpc_packed_writer *to, const int16_t *block, int last) {
    const uint64_t mask = last ? nonzero_of(block, last) >> 1 : 0;
    uint8_t *small = to->smalls, *large = to->large;
    uint64_t kinds = 0, signs = 0;
    int count = 0;
    for (uint64_t left = mask; left; left &= left - 1, count++) {
        int value = block[fpc_natural_order[encode_lowest_bit(left) + 2]];
        if (FPC_UNLIKELY(value < -127 || value > 127)) {
            to->wide[0] = (uint8_t)value;
            to->wide[1] = (uint8_t)((uint32_t)value >> 8);
            to->wide += 2;
            value = FPC_PACKED_ESCAPE;
        }
        const fpc_packed_value written = to->values[value & 255];
        kinds |= (uint64_t)written.kind << count;
        signs |= (uint64_t)written.sign << count;
        *small = written.nibble;
        small += written.kind ^ written.large;
        *large = (uint8_t)value;
        large += written.large;
    }
    to->smalls = small;
    to->large = large;
    to->kinds = kinds;
    to->signs = signs;
    to->count = count;
    return mask;
}

#endif
