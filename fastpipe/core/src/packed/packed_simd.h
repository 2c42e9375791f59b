/* packed_simd.h: the loops over a packed row, with vectors. */
#ifndef FPC_PACKED_SIMD_H
#define FPC_PACKED_SIMD_H

#include "packed_plain.h"

#if defined(FPC_SIMD_VBMI)
#include "packed_vbmi.h"
#else

/* Moves the next bytes of a stream to the positions of the set bits among 32. */
SIMD vec packed_spread(const fpc_packed_tables *tables, uint32_t bits, const uint8_t **stream) {
    const uint8_t a = (uint8_t)bits, b = (uint8_t)(bits >> 8), c = (uint8_t)(bits >> 16), d = (uint8_t)(bits >> 24);
    const uint8_t *first = *stream, *second = first + tables->counts[a], *third = second + tables->counts[b],
                  *rgbx_pad = third + tables->counts[c];
    *stream = rgbx_pad + tables->counts[d];
    const uint64_t *low = tables->spread[0], *high = tables->spread[1];
    return v_shuffle8(v_load_quarters(first, second, third, rgbx_pad),
                      v_load_quarters(low + a, high + b, low + c, high + d));
}

static void packed_values(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values) {
    static const int8_t small_values[16] = {2, 3, 4, 5, 6, 7, 8, 9, -2, -3, -4, -5, -6, -7, -8, -9};
    const vec by_nibble = v_load_twice(small_values), fifteen = v_all8(15), ones = v_all8(1);
    for (size_t i = 0; i < row->smalls; i += 32) {
        const vec pairs = v_load_widened(row->small + i / 2);
        const vec nibbles = v_and(v_or(pairs, v_shift_left32(pairs, 4)), fifteen);
        v_store(smalls + i, v_shuffle8(by_nibble, nibbles));
    }
    const uint8_t *small = (const uint8_t *)smalls, *large = row->large;
    for (size_t i = 0; i < row->coefficients; i += 32) {
        const size_t left = row->coefficients - i;
        const uint32_t signs = (uint32_t)packed_load(row->signs + i / 8);
        uint32_t kinds = (uint32_t)packed_load(row->kinds + i / 8);
        if (left < 32) kinds &= (1u << left) - 1;
        /* 1, or all bits set if it has a sign; 0 if it is of the other kind. */
        const vec one = v_and_not(v_bits(kinds), v_or(v_bits(signs), ones));
        const vec both =
            v_or(packed_spread(tables, kinds & ~signs, &small), packed_spread(tables, kinds & signs, &large));
        v_store(values + i, v_or(one, both));
    }
}

static void packed_blocks(fpc_packed_cursor *cursor, size_t count, int16_t *coefficients, uint8_t *last) {
    packed_place place = packed_begin(cursor);
    const fpc_packed_tables *tables = cursor->tables;
    const uint8_t *lengths = cursor->lengths;
    const int8_t *wide = cursor->wide;
    for (size_t i = 0, block = cursor->block; i < count; i++, block++, coefficients += 64) {
        const uint64_t mask = packed_next_mask(&place, lengths, block) << 1;
        const int8_t *values = place.values;
        const uint8_t *next = (const uint8_t *)values;
        uint8_t zigzag[64];
        v_store(zigzag, packed_spread(tables, (uint32_t)mask, &next));
        v_store(zigzag + 32, packed_spread(tables, (uint32_t)(mask >> 32), &next));
        const vec a = v_load_twice(zigzag), b = v_load_twice(zigzag + 16);
        const vec c = v_load_twice(zigzag + 32), d = v_load_twice(zigzag + 48);
        for (int half = 0; half < 2; half++) {
            const uint8_t (*order)[32] = tables->orders[half];
            const vec rows = v_or(v_or(v_shuffle8(a, v_load(order[0])), v_shuffle8(b, v_load(order[1]))),
                                  v_or(v_shuffle8(c, v_load(order[2])), v_shuffle8(d, v_load(order[3]))));
            v_store(coefficients + 32 * half, v_widen_low_s8(rows));
            v_store(coefficients + 32 * half + 16, v_widen_high_s8(rows));
        }
        last[i] = packed_highest(mask | 1);
        place.values = (const int8_t *)next;
        if (FPC_UNLIKELY(wide < place.values)) wide = packed_widen(cursor, mask, values, place.values, coefficients);
    }
    packed_end(cursor, &place, count);
}
#endif

#endif
