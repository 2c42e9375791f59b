/* idct_simd.h: dequantization and the inverse DCT of two blocks at once, one in each half of a vec: jpeg_idct_islow of
 * libjpeg's jidctint.c, bit for bit. Each pass rounds only at its end, so it is computed as a matrix product: products
 * of 16-bit pairs, added up by v_madd16. */
#ifndef FPC_IDCT_SIMD_H
#define FPC_IDCT_SIMD_H

/* The odd part's factors: each is the sum of the factors between a coefficient and an odd value in jidctint.c. */
enum {
    IDCT_ODD0_1 = FIX_1_175875602 - FIX_0_899976223,
    IDCT_ODD0_3 = FIX_1_175875602 - FIX_1_961570560,
    IDCT_ODD0_5 = FIX_1_175875602,
    IDCT_ODD0_7 = FIX_1_175875602 - FIX_1_961570560 - FIX_0_899976223 + FIX_0_298631336,
    IDCT_ODD1_1 = FIX_1_175875602 - FIX_0_390180644,
    IDCT_ODD1_3 = FIX_1_175875602 - FIX_2_562915447,
    IDCT_ODD1_5 = FIX_1_175875602 - FIX_0_390180644 - FIX_2_562915447 + FIX_2_053119869,
    IDCT_ODD1_7 = FIX_1_175875602,
    IDCT_ODD2_1 = FIX_1_175875602,
    IDCT_ODD2_3 = FIX_1_175875602 - FIX_1_961570560 - FIX_2_562915447 + FIX_3_072711026,
    IDCT_ODD2_5 = FIX_1_175875602 - FIX_2_562915447,
    IDCT_ODD2_7 = FIX_1_175875602 - FIX_1_961570560,
    IDCT_ODD3_1 = FIX_1_175875602 - FIX_0_390180644 - FIX_0_899976223 + FIX_1_501321110,
    IDCT_ODD3_3 = FIX_1_175875602,
    IDCT_ODD3_5 = FIX_1_175875602 - FIX_0_390180644,
    IDCT_ODD3_7 = FIX_1_175875602 - FIX_0_899976223,
    /* The even part's factors. */
    IDCT_EVEN_0 = 1 << 13,
    IDCT_EVEN0_2 = FIX_0_541196100 + FIX_0_765366865,
    IDCT_EVEN0_6 = FIX_0_541196100,
    IDCT_EVEN1_2 = FIX_0_541196100,
    IDCT_EVEN1_6 = FIX_0_541196100 - FIX_1_847759065
};

SIMD vec idct_unpack(vec a, vec b, int high) { return high ? v_unpack_high16(a, b) : v_unpack_low16(a, b); }

/* Multiplies pairs (a, b) by factors: x * a + y * b. */
SIMD vec idct_product(vec pairs, int x, int y) { return v_madd16(pairs, v_all32(V_PAIR16(x, y))); }

/* sum + idct_product(pairs, x, y) */
SIMD vec idct_more(vec sum, vec pairs, int x, int y) { return v_add_madd16(sum, pairs, v_all32(V_PAIR16(x, y))); }

/* Four columns (half a vec) before the last rounding: row k is even[k] + odd[k], row 7 - k is even[k] - odd[k]. */
typedef struct idct_sums {
    vec even[4], odd[4];
} idct_sums;

SIMD idct_sums idct_sum(const vec *v, const int32_t round, int high) {
    const vec rounding = v_all32(round);
    const vec c04 = idct_unpack(v[0], v[4], high), c26 = idct_unpack(v[2], v[6], high);
    const vec c13 = idct_unpack(v[1], v[3], high), c57 = idct_unpack(v[5], v[7], high);
    const vec a = idct_more(rounding, c04, IDCT_EVEN_0, IDCT_EVEN_0);
    const vec b = idct_more(rounding, c04, IDCT_EVEN_0, -IDCT_EVEN_0);
    const vec c = idct_product(c26, IDCT_EVEN0_2, IDCT_EVEN0_6), d = idct_product(c26, IDCT_EVEN1_2, IDCT_EVEN1_6);
    const idct_sums sums = {{v_add32(a, c), v_add32(b, d), v_sub32(b, d), v_sub32(a, c)},
                            {idct_more(idct_product(c13, IDCT_ODD3_1, IDCT_ODD3_3), c57, IDCT_ODD3_5, IDCT_ODD3_7),
                             idct_more(idct_product(c13, IDCT_ODD2_1, IDCT_ODD2_3), c57, IDCT_ODD2_5, IDCT_ODD2_7),
                             idct_more(idct_product(c13, IDCT_ODD1_1, IDCT_ODD1_3), c57, IDCT_ODD1_5, IDCT_ODD1_7),
                             idct_more(idct_product(c13, IDCT_ODD0_1, IDCT_ODD0_3), c57, IDCT_ODD0_5, IDCT_ODD0_7)}};
    return sums;
}

/* idct_sums of a block whose rows 4 to 7 are 0: only the corner has coefficients. */
SIMD idct_sums idct_sum_corner(const vec *v, const int32_t round, int high) {
    const vec rounding = v_all32(round);
    const vec c02 = idct_unpack(v[0], v[2], high), c13 = idct_unpack(v[1], v[3], high);
    const idct_sums sums = {
        {idct_more(rounding, c02, IDCT_EVEN_0, IDCT_EVEN0_2), idct_more(rounding, c02, IDCT_EVEN_0, IDCT_EVEN1_2),
         idct_more(rounding, c02, IDCT_EVEN_0, -IDCT_EVEN1_2), idct_more(rounding, c02, IDCT_EVEN_0, -IDCT_EVEN0_2)},
        {idct_product(c13, IDCT_ODD3_1, IDCT_ODD3_3), idct_product(c13, IDCT_ODD2_1, IDCT_ODD2_3),
         idct_product(c13, IDCT_ODD1_1, IDCT_ODD1_3), idct_product(c13, IDCT_ODD0_1, IDCT_ODD0_3)}};
    return sums;
}

/* One pass: v[k] is row k of eight columns, before and after. The second pass adds 128 to its results. */
#define IDCT_PASS_SIMD(name, shift, more)                                                                              \
    SIMD void name(vec *v, const int corner) {                                                                         \
        enum { round = (1 << (shift - 1)) + (more) * (1 << shift) };                                                   \
        const idct_sums low = corner ? idct_sum_corner(v, round, 0) : idct_sum(v, round, 0);                           \
        const idct_sums high = corner ? idct_sum_corner(v, round, 1) : idct_sum(v, round, 1);                          \
        for (int k = 0; k < 4; k++) {                                                                                  \
            v[k] = v_pack_s32(v_shift_right_s32(v_add32(low.even[k], low.odd[k]), shift),                              \
                              v_shift_right_s32(v_add32(high.even[k], high.odd[k]), shift));                           \
            v[7 - k] = v_pack_s32(v_shift_right_s32(v_sub32(low.even[k], low.odd[k]), shift),                          \
                                  v_shift_right_s32(v_sub32(high.even[k], high.odd[k]), shift));                       \
        }                                                                                                              \
    }

IDCT_PASS_SIMD(idct_columns, 11, 0)
IDCT_PASS_SIMD(idct_rows, 18, 128)

/* Transposes each half; if `corner` isn't 0, the last four rows of the result are 0, and not computed. */
SIMD void idct_transpose(vec *v, const int corner) {
    const vec a0 = v_unpack_low16(v[0], v[1]), a1 = v_unpack_low16(v[2], v[3]);
    const vec a2 = v_unpack_low16(v[4], v[5]), a3 = v_unpack_low16(v[6], v[7]);
    const vec b0 = v_unpack_low32(a0, a1), b1 = v_unpack_high32(a0, a1);
    const vec b2 = v_unpack_low32(a2, a3), b3 = v_unpack_high32(a2, a3);
    if (!corner) {
        const vec c0 = v_unpack_high16(v[0], v[1]), c1 = v_unpack_high16(v[2], v[3]);
        const vec c2 = v_unpack_high16(v[4], v[5]), c3 = v_unpack_high16(v[6], v[7]);
        const vec d0 = v_unpack_low32(c0, c1), d1 = v_unpack_high32(c0, c1);
        const vec d2 = v_unpack_low32(c2, c3), d3 = v_unpack_high32(c2, c3);
        v[4] = v_unpack_low64(d0, d2);
        v[5] = v_unpack_high64(d0, d2);
        v[6] = v_unpack_low64(d1, d3);
        v[7] = v_unpack_high64(d1, d3);
    }
    v[0] = v_unpack_low64(b0, b2);
    v[1] = v_unpack_high64(b0, b2);
    v[2] = v_unpack_low64(b1, b3);
    v[3] = v_unpack_high64(b1, b3);
}

/* v[x] has the samples of column x; packs them to bytes, and stores the rows of both blocks side by side. */
SIMD void idct_store(const vec *v, uint8_t *out, size_t out_stride) {
    /* In each half p0 has columns 0 and 4, row after row; then a has columns 0 and 1 of each row, b 2 and 3, c 4 and 5,
     * d 6 and 7. */
    const vec p0 = v_pack_us16(v[0], v[4]), p1 = v_pack_us16(v[1], v[5]);
    const vec p2 = v_pack_us16(v[2], v[6]), p3 = v_pack_us16(v[3], v[7]);
    const vec a = v_unpack_low8(p0, p1), b = v_unpack_low8(p2, p3);
    const vec c = v_unpack_high8(p0, p1), d = v_unpack_high8(p2, p3);
    const vec left0 = v_unpack_low16(a, b), left1 = v_unpack_high16(a, b);
    const vec right0 = v_unpack_low16(c, d), right1 = v_unpack_high16(c, d);
    const vec rows[4] = {v_unpack_low32(left0, right0), v_unpack_high32(left0, right0), v_unpack_low32(left1, right1),
                         v_unpack_high32(left1, right1)}; /* each half has two rows of a block */
    for (size_t i = 0; i < 4; i++) {
        const vec w = v_swap_middle64(rows[i]);
        v_store_low(out + 2 * i * out_stride, w);
        v_store_high(out + (2 * i + 1) * out_stride, w);
    }
}

/* Writes two blocks, whose rows and columns 4 to 7 are 0 if `corner` isn't 0. Returns other than 0 if one is out of
 * range. */
SIMD int idct_pair(const int16_t *first, const int16_t *second, const fpc_dequantizer *dequantizer, uint8_t *out,
                   size_t out_stride, const int corner) {
    vec v[8], alarm = v_zero();
    for (int k = 0; k < (corner ? 4 : 8); k++) {
        const vec c = v_load_halves(first + 8 * k, second + 8 * k);
        alarm = v_or(alarm, v_mul_round16(c, v_load(dequantizer->alarm_pair + 16 * k)));
        v[k] = v_mul16(c, v_load(dequantizer->step_pair + 16 * k));
    }
    if (!v_is_zero(alarm) && !(idct_is_in_range(first, dequantizer) && idct_is_in_range(second, dequantizer))) return 1;
    idct_columns(v, corner);
    idct_transpose(v, corner);
    idct_rows(v, corner);
    idct_store(v, out, out_stride);
    return 0;
}

/* These are two functions so that each gets its own allocation of registers. */
static int idct_pair_full(const int16_t *first, const int16_t *second, const fpc_dequantizer *dequantizer, uint8_t *out,
                          size_t out_stride) {
    return idct_pair(first, second, dequantizer, out, out_stride, 0);
}

static int idct_pair_corner(const int16_t *first, const int16_t *second, const fpc_dequantizer *dequantizer,
                            uint8_t *out, size_t out_stride) {
    return idct_pair(first, second, dequantizer, out, out_stride, 1);
}

static int idct_blocks(const int16_t *coefficients, const uint8_t *last, int count, const fpc_dequantizer *dequantizer,
                       uint8_t *out, size_t out_stride) {
    int bad = 0;
    for (int i = 0; i < count; i += 2) {
        /* A last block without a neighbour is computed twice, side by side. */
        const int other = i + 1 < count ? i + 1 : i;
        const int16_t *first = coefficients + 64 * (size_t)i, *second = coefficients + 64 * (size_t)other;
        const int longest = last[i] > last[other] ? last[i] : last[other];
        uint8_t *to = out + 8 * (size_t)i;
        if (longest > 9)
            bad |= idct_pair_full(first, second, dequantizer, to, out_stride);
        else if (longest > 0)
            bad |= idct_pair_corner(first, second, dequantizer, to, out_stride);
        else
            bad |= idct_flat(*first, dequantizer, to, out_stride) | idct_flat(*second, dequantizer, to + 8, out_stride);
    }
    return bad;
}

#endif
