/* resample_simd.h: Pillow's sums with 16-bit multiplications. A weight is high * 256 + low, so a sum of products is 256
 * times the sum with `high` plus the sum with `low`: the same integer, while v_madd16 adds two products at once. */
#include "resample_plain.h"

#define RESAMPLE_HALF (1 << (FPC_WEIGHT_BITS - 1))

/* (256 * high + low) / 2**22, rounded down; `low` already includes a half. */
SIMD vec resample_finish(vec high, vec low) {
    return v_shift_right_s32(v_add32(v_shift_left32(high, 8), low), FPC_WEIGHT_BITS);
}

/* Spread four pixels of three bytes: pixels 0 and 1 as three pairs of 16-bit numbers, R R G G B B 0 0; pixels 2 and 3
 * likewise; and the fifth pixel alone. */
#define NONE 255
static const uint8_t resample_pairs01[16] = {0, NONE, 3, NONE, 1,    NONE, 4,    NONE,
                                             2, NONE, 5, NONE, NONE, NONE, NONE, NONE};
static const uint8_t resample_pairs23[16] = {6, NONE, 9,  NONE, 7,    NONE, 10,   NONE,
                                             8, NONE, 11, NONE, NONE, NONE, NONE, NONE};
static const uint8_t resample_fifth[16] = {12, NONE, NONE, NONE, 13,   NONE, NONE, NONE,
                                           14, NONE, NONE, NONE, NONE, NONE, NONE, NONE};
/* Packs four times R G B 0 to twelve bytes. */
static const uint8_t resample_compact[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, NONE, NONE, NONE, NONE};
#undef NONE

/* One output pixel of two rows, one row per half, as 32-bit R G B 0. `five`: there are three pairs, the last with only
 * one pixel, which is in the first 16 bytes. */
SIMD vec resample_pixel(const uint8_t *a, const uint8_t *b, const int32_t *high, const int32_t *low, const int pairs,
                        const int five) {
    const vec shuffle01 = v_load_twice(resample_pairs01), shuffle23 = v_load_twice(resample_pairs23);
    vec bytes = v_load_halves(a, b);
    vec pair = v_shuffle8(bytes, shuffle01);
    vec sum_high = v_madd16(pair, v_all32(high[0]));
    vec sum_low = v_add_madd16(v_all32(RESAMPLE_HALF), pair, v_all32(low[0]));
    for (int p = 1; p < pairs; p++) {
        if (five && p == 2) {
            pair = v_shuffle8(bytes, v_load_twice(resample_fifth));
        } else if (p & 1) {
            pair = v_shuffle8(bytes, shuffle23);
        } else {
            a += 12;
            b += 12;
            bytes = v_load_halves(a, b);
            pair = v_shuffle8(bytes, shuffle01);
        }
        sum_high = v_add_madd16(sum_high, pair, v_all32(high[p]));
        sum_low = v_add_madd16(sum_low, pair, v_all32(low[p]));
    }
    return resample_finish(sum_high, sum_low);
}

/* Four outputs from x on (the last one repeated if there are fewer) of two rows, one row per half: twelve bytes. If
 * `pairs` is 0, each output has its own number. */
SIMD vec resample_four(const uint8_t *a, const uint8_t *b, const fpc_axis *axis, int32_t x, const int pairs,
                       const int five, const int at_end) {
    vec pixel[4];
    for (int i = 0; i < 4; i++) {
        const int32_t output = at_end && x + i >= axis->outputs ? axis->outputs - 1 : x + i;
        const int64_t from = 3 * (int64_t)axis->starts[output], at = (int64_t)output * (pairs ? pairs : axis->pairs);
        pixel[i] = resample_pixel(a + from, b + from, axis->high + at, axis->low + at,
                                  pairs ? pairs : (axis->counts[output] + 1) / 2, five);
    }
    const vec packed = v_pack_us16(v_pack_s32(pixel[0], pixel[1]), v_pack_s32(pixel[2], pixel[3]));
    return v_shuffle8(packed, v_load_twice(resample_compact));
}

SIMD void resample_horizontal_rgb(const uint8_t *const in[2], const fpc_axis *axis, uint8_t *const out[2],
                                  const int pairs, const int five) {
    const uint8_t *a = in[0], *b = in[1];
    uint8_t *out_a = out[0], *out_b = out[1];
    const int32_t outputs = axis->outputs;
    int32_t x = 0;
    for (; x + 4 <= outputs; x += 4, out_a += 12, out_b += 12) {
        const vec four = resample_four(a, b, axis, x, pairs, five, 0);
        v_store_low(out_a, four); /* the last four bytes are overwritten by the next pixels, or are slack */
        v_store_high(out_b, four);
    }
    if (x < outputs) {
        const vec four = resample_four(a, b, axis, x, pairs, five, 1);
        v_store_low(out_a, four);
        v_store_high(out_b, four);
    }
}

static void resample_horizontal_pairs(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                      uint8_t *const out[2]) {
    if (channels != 3 || !axis->split) {
        resample_horizontal_plain(in, axis, channels, out);
        return;
    }
    switch (axis->pairs) { /* a constant unrolls the loop over the pairs */
    case 1: resample_horizontal_rgb(in, axis, out, 1, 0); break;
    case 2: resample_horizontal_rgb(in, axis, out, 2, 0); break;
    case 3:
        if (axis->most_taps == 5) {
            resample_horizontal_rgb(in, axis, out, 3, 1);
        } else {
            resample_horizontal_rgb(in, axis, out, 3, 0);
        }
        break;
    case 4: resample_horizontal_rgb(in, axis, out, 4, 0); break;
    case 5: resample_horizontal_rgb(in, axis, out, 5, 0); break;
    case 6: resample_horizontal_rgb(in, axis, out, 6, 0); break;
    default: resample_horizontal_rgb(in, axis, out, 0, 0); break;
    }
}

#if defined(FPC_SIMD_VBMI)
#include "resample_vbmi.h"
#else
static void arrange_horizontal(fpc_axis *axis) { (void)axis; }

static void resample_horizontal(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                uint8_t *const out[2]) {
    resample_horizontal_pairs(in, axis, channels, out);
}
#endif

SIMD void resample_vertical_pairs(const uint8_t *const *rows, const int32_t *high, const int32_t *low, const int pairs,
                                  int64_t bytes, uint8_t *out) {
    const vec zero = v_zero(), half = v_all32(RESAMPLE_HALF);
    for (int64_t at = 0; at < bytes; at += 32) {
        vec sum_low[4] = {half, half, half, half}, sum_high[4] = {zero, zero, zero, zero};
        for (int p = 0; p < pairs; p++) {
            const vec a = v_load(rows[2 * p] + at), b = v_load(rows[2 * p + 1] + at);
            const vec first = v_unpack_low8(a, b), second = v_unpack_high8(a, b);
            const vec pair[4] = {v_unpack_low8(first, zero), v_unpack_high8(first, zero), v_unpack_low8(second, zero),
                                 v_unpack_high8(second, zero)};
            const vec by_high = v_all32(high[p]), by_low = v_all32(low[p]);
            for (int i = 0; i < 4; i++) {
                sum_high[i] = v_add_madd16(sum_high[i], pair[i], by_high);
                sum_low[i] = v_add_madd16(sum_low[i], pair[i], by_low);
            }
        }
        for (int i = 0; i < 4; i++) sum_low[i] = resample_finish(sum_high[i], sum_low[i]);
        /* packing restores the order that unpacking changed */
        v_store(out + at, v_pack_us16(v_pack_s32(sum_low[0], sum_low[1]), v_pack_s32(sum_low[2], sum_low[3])));
    }
}

static void resample_vertical(const uint8_t *const *rows, const fpc_axis *axis, int32_t y, int64_t bytes,
                              uint8_t *out) {
    if (!axis->split) {
        resample_vertical_plain(rows, axis, y, bytes, out);
        return;
    }
    const int64_t at = (int64_t)y * axis->pairs;
    const int32_t *high = axis->high + at, *low = axis->low + at;
    const int32_t pairs = (axis->counts[y] + 1) / 2;
    switch (pairs) {
    case 1: resample_vertical_pairs(rows, high, low, 1, bytes, out); break;
    case 2: resample_vertical_pairs(rows, high, low, 2, bytes, out); break;
    case 3: resample_vertical_pairs(rows, high, low, 3, bytes, out); break;
    case 4: resample_vertical_pairs(rows, high, low, 4, bytes, out); break;
    case 5: resample_vertical_pairs(rows, high, low, 5, bytes, out); break;
    case 6: resample_vertical_pairs(rows, high, low, 6, bytes, out); break;
    default: resample_vertical_pairs(rows, high, low, pairs, bytes, out); break;
    }
}
#undef RESAMPLE_HALF
