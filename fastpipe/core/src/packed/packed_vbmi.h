/* packed_vbmi.h: packed_simd.h's loops, for machines whose instructions spread bytes over a register by a mask
 * (AVX512-VBMI2) and select any of 64 (AVX512-VBMI). */
#ifndef FPC_PACKED_VBMI_H
#define FPC_PACKED_VBMI_H

static void packed_values(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values) {
    (void)tables;
    const __m512i small_values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, -2, -3, -4, -5, -6, -7, -8, -9));
    const __m512i fifteen = _mm512_set1_epi8(15), ones = _mm512_set1_epi8(1), minus = _mm512_set1_epi8(-1);
    for (size_t i = 0; i < row->smalls; i += 64) {
        const __m512i pairs = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(row->small + i / 2)));
        const __m512i nibbles = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)), fifteen);
        _mm512_storeu_si512(smalls + i, _mm512_shuffle_epi8(small_values, nibbles));
    }
    const int8_t *small = smalls;
    const uint8_t *large = row->large;
    for (size_t i = 0; i < row->coefficients; i += 64) {
        uint64_t kinds = packed_load(row->kinds + i / 8), signs = packed_load(row->signs + i / 8);
        const size_t left = row->coefficients - i;
        kinds = _bzhi_u64(kinds, left < 64 ? (unsigned)left : 64);
        const uint64_t is_small = kinds & ~signs, is_large = kinds & signs;
        __m512i value = _mm512_mask_mov_epi8(ones, signs, minus);
        value = _mm512_mask_expand_epi8(value, is_small, _mm512_loadu_si512(small));
        value = _mm512_mask_expand_epi8(value, is_large, _mm512_loadu_si512(large));
        _mm512_storeu_si512(values + i, value);
        small += packed_popcount(is_small);
        large += packed_popcount(is_large);
    }
}

static void packed_blocks(fpc_packed_cursor *cursor, size_t count, int16_t *coefficients, uint8_t *last) {
    packed_place place = packed_begin(cursor);
    const uint8_t *lengths = cursor->lengths;
    const int8_t *wide = cursor->wide;
    uint8_t places[64];
    for (int k = 0; k < 64; k++) places[fpc_natural_order[k + 1]] = (uint8_t)k;
    const __m512i order = _mm512_loadu_si512(places);
    for (size_t i = 0, block = cursor->block; i < count; i++, block++, coefficients += 64) {
        const uint64_t mask = packed_next_mask(&place, lengths, block) << 1;
        const int8_t *values = place.values;
        const __m512i zigzag = _mm512_maskz_expand_epi8(mask, _mm512_loadu_si512(values));
        const __m512i natural = _mm512_permutexvar_epi8(order, zigzag);
        _mm512_storeu_si512(coefficients, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(natural)));
        _mm512_storeu_si512(coefficients + 32, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(natural, 1)));
        last[i] = packed_highest(mask | 1);
        place.values += packed_popcount(mask);
        if (FPC_UNLIKELY(wide < place.values)) wide = packed_widen(cursor, mask, values, place.values, coefficients);
    }
    packed_end(cursor, &place, count);
}

#endif
