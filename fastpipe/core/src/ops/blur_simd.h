/* blur_simd.h: box blurs with 16-bit multiplications, if the sums are small enough. Weights are split into two parts of
 * 12 bits, so that the result is 2**12 times one sum of two products plus another. */
#include "blur_plain.h"

#define BLUR_MOST_RADIUS 63 /* 255 * (2 * 63 + 1) fits a signed 16-bit number */

typedef struct blur_weights {
    vec high, low; /* pairs: the weight of a line, and that of an edge */
} blur_weights;

/* Rounded means of eight sums and edges, as 32-bit numbers. */
SIMD vec blur_mean(vec pairs, const blur_weights *weights) {
    const vec high = v_shift_left32(v_madd16(pairs, weights->high), 12);
    return v_shift_right_u32(v_add32(high, v_add_madd16(v_all32(1 << 23), pairs, weights->low)), 24);
}

SIMD vec blur_means(vec sums, vec edges, const blur_weights *weights) {
    return v_pack_s32(blur_mean(v_unpack_low16(sums, edges), weights),
                      blur_mean(v_unpack_high16(sums, edges), weights));
}

SIMD void blur_group(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out) {
    const int64_t last = pass->lines - 1, radius = pass->radius, stride = pass->stride;
    const blur_weights weights = {v_all32(V_PAIR16(pass->weight >> 12, pass->edge >> 12)),
                                  v_all32(V_PAIR16(pass->weight & 4095, pass->edge & 4095))};
    uint32_t start[FPC_BLUR_GROUP];
    uint16_t narrow[FPC_BLUR_GROUP];
    blur_start(pass, in, start);
    for (int k = 0; k < FPC_BLUR_GROUP; k++) narrow[k] = (uint16_t)start[k];
    vec sums[2] = {v_load(narrow), v_load(narrow + 16)};
    for (int64_t line = 0; line <= last; line++, out += stride) {
        const uint8_t *lefts = in + blur_within(line - radius - 1, last) * stride;
        const uint8_t *entering = in + blur_within(line + radius, last) * stride;
        const uint8_t *rights = in + blur_within(line + radius + 1, last) * stride;
        vec means[2];
        for (int i = 0; i < 2; i++) {
            const vec left = v_load_widened(lefts + 16 * i);
            sums[i] = v_add16(sums[i], v_sub16(v_load_widened(entering + 16 * i), left));
            means[i] = blur_means(sums[i], v_add16(left, v_load_widened(rights + 16 * i)), &weights);
        }
        v_store(out, v_swap_middle64(v_pack_us16(means[0], means[1])));
    }
}

static void blur_lines(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out) {
    const bool narrow = pass->radius <= BLUR_MOST_RADIUS && pass->edge < 1u << 24;
    for (int64_t at = 0; at < pass->bytes; at += FPC_BLUR_GROUP) {
        if (narrow) {
            blur_group(pass, in + at, out + at);
        } else {
            blur_group_plain(pass, in + at, out + at);
        }
    }
}
#undef BLUR_MOST_RADIUS

/* Transposes 16 by 16 bytes in each half. */
SIMD void blur_transpose(vec square[16]) {
    vec turned[16];
    for (int i = 0; i < 8; i++) {
        turned[2 * i] = v_unpack_low8(square[i], square[i + 8]);
        turned[2 * i + 1] = v_unpack_high8(square[i], square[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        square[2 * i] = v_unpack_low8(turned[i], turned[i + 8]);
        square[2 * i + 1] = v_unpack_high8(turned[i], turned[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        turned[2 * i] = v_unpack_low8(square[i], square[i + 8]);
        turned[2 * i + 1] = v_unpack_high8(square[i], square[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
        square[2 * i] = v_unpack_low8(turned[i], turned[i + 8]);
        square[2 * i + 1] = v_unpack_high8(turned[i], turned[i + 8]);
    }
}

static void blur_to_lines(const uint8_t *rows, int64_t stride, int32_t columns, uint8_t *lines) {
    for (int64_t x = 0; x < columns; x += FPC_BLUR_COLUMNS) {
        vec square[16];
        for (int y = 0; y < 16; y++) square[y] = v_load_halves(rows + y * stride + x, rows + (y + 16) * stride + x);
        blur_transpose(square);
        for (int i = 0; i < 16; i++) v_store(lines + (x + i) * FPC_BLUR_ROWS, square[i]);
    }
}

static void blur_to_rows(const uint8_t *lines, int32_t columns, uint8_t *rows, int64_t stride) {
    for (int64_t x = 0; x < columns; x += FPC_BLUR_COLUMNS) {
        vec square[16];
        for (int i = 0; i < 16; i++) square[i] = v_load(lines + (x + i) * FPC_BLUR_ROWS);
        blur_transpose(square);
        for (int y = 0; y < 16; y++) {
            v_store_low(rows + y * stride + x, square[y]);
            v_store_high(rows + (y + 16) * stride + x, square[y]);
        }
    }
}
