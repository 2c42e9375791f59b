/* nonzero_plain.h: a bit mask of a block's nonzero coefficients, in zigzag order. */
#ifndef FPC_NONZERO_PLAIN_H
#define FPC_NONZERO_PLAIN_H

#include "mcu.h"

static FPC_INLINE uint64_t nonzero_of(const int16_t *block, int last) {
    uint64_t found = 0;
    for (int k = 0; k <= last; k++) /* without a branch on the values */
        found |= (uint64_t)(block[fpc_natural_order[k + 1]] != 0) << k;
    return found;
}

static uint64_t nonzero(const int16_t *block, int last) { return nonzero_of(block, last); }

#endif
