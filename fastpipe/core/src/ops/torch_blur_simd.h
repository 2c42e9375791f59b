/* torch_blur_simd.h: torch_blur_plain.h's functions with vectors of eight floats. The first sums round differently, for
 * which the margin allows. */
#include "torch_blur_plain.h"

/* Transposes four by four floats in each half. */
SIMD void weigh_transpose(vec square[4]) {
    const vec low = v_unpack_low32(square[0], square[1]), high = v_unpack_high32(square[0], square[1]);
    const vec low2 = v_unpack_low32(square[2], square[3]), high2 = v_unpack_high32(square[2], square[3]);
    square[0] = v_unpack_low64(low, low2);
    square[1] = v_unpack_high64(low, low2);
    square[2] = v_unpack_low64(high, high2);
    square[3] = v_unpack_high64(high, high2);
}

static void floats_to_columns(const float *const *rows, int64_t count, float *columns) {
    int64_t x = 0;
    for (; x + 4 <= count; x += 4) {
        for (int y = 0; y < FPC_WEIGH_GROUP; y += 8) {
            vec square[4];
            for (int i = 0; i < 4; i++) square[i] = v_load_halves(rows[y + i] + x, rows[y + i + 4] + x);
            weigh_transpose(square);
            for (int i = 0; i < 4; i++) v_store(columns + (x + i) * FPC_WEIGH_GROUP + y, square[i]);
        }
    }
    some_to_columns(rows, x, count, columns);
}

static void columns_to_floats(const float *columns, int64_t count, float *rows, int64_t stride) {
    int64_t x = 0;
    for (; x + 4 <= count; x += 4) {
        for (int y = 0; y < FPC_WEIGH_GROUP; y += 8) {
            vec square[4];
            for (int i = 0; i < 4; i++) square[i] = v_load(columns + (x + i) * FPC_WEIGH_GROUP + y);
            weigh_transpose(square);
            for (int i = 0; i < 4; i++) {
                v_store_low(rows + (y + i) * stride + x, square[i]);
                v_store_high(rows + (y + i + 4) * stride + x, square[i]);
            }
        }
    }
    some_to_floats(columns, x, count, rows, stride);
}

/* Adds up the next FPC_WEIGH_GROUP values. */
SIMD void weigh_group(const fpc_weighing *weighing, int64_t at, vecf sums[4]) {
    vecf weight = v_all_float(weighing->weights[0]);
    for (int i = 0; i < 4; i++) sums[i] = v_mul_float(v_load_float(weighing->rows[0] + at + 8 * i), weight);
    for (int32_t tap = 1; tap < weighing->taps; tap++) {
        const float *in = weighing->rows[tap] + at;
        weight = v_all_float(weighing->weights[tap]);
        for (int i = 0; i < 4; i++) sums[i] = v_fma_float(v_load_float(in + 8 * i), weight, sums[i]);
    }
}

static void weigh_rows(const fpc_weighing *weighing, float *out) {
    for (int64_t at = 0; at < weighing->count; at += FPC_WEIGH_GROUP) {
        vecf sums[4];
        weigh_group(weighing, at, sums);
        for (int i = 0; i < 4; i++) v_store_float(out + at + 8 * i, sums[i]);
    }
}

static void weigh_in_order(const fpc_weighing *weighing, int32_t apart, float *out) {
    for (int64_t at = 0; at < weighing->count; at += FPC_WEIGH_GROUP) {
        vecf sums[4], weight = v_all_float(weighing->weights[0]);
        int32_t tap = 1;
        for (int i = 0; i < 4; i++) sums[i] = v_mul_float(v_load_float(weighing->rows[0] + at + 8 * i), weight);
        for (; tap <= apart; tap++) {
            const float *in = weighing->rows[tap] + at;
            weight = v_all_float(weighing->weights[tap]);
            for (int i = 0; i < 4; i++) {
                sums[i] = v_add_float(sums[i], v_mul_float(v_load_float(in + 8 * i), weight));
            }
        }
        for (; tap < weighing->taps; tap++) {
            const float *in = weighing->rows[tap] + at;
            weight = v_all_float(weighing->weights[tap]);
            for (int i = 0; i < 4; i++) sums[i] = v_fma_float(v_load_float(in + 8 * i), weight, sums[i]);
        }
        for (int i = 0; i < 4; i++) v_store_float(out + at + 8 * i, sums[i]);
    }
}

/* Packs 32 numbers from 0 to 255 to bytes. */
SIMD vec weigh_packed(const vec numbers32[4]) {
    const vec low = v_swap_middle64(v_pack_s32(numbers32[0], numbers32[1]));
    const vec high = v_swap_middle64(v_pack_s32(numbers32[2], numbers32[3]));
    return v_swap_middle64(v_pack_us16(low, high));
}

static int32_t weigh_to_bytes(const fpc_weighing *weighing, float margin, float *unused, uint8_t *out,
                              int32_t *doubtful) {
    const vecf below = v_all_float(0.5f - margin), above = v_all_float(0.5f + margin);
    int32_t count = 0;
    (void)unused;
    for (int64_t at = 0; at < weighing->count; at += FPC_WEIGH_GROUP) {
        vecf sums[4];
        vec low[4];
        weigh_group(weighing, at, sums);
        for (int i = 0; i < 4; i++) {
            low[i] = v_cut_float(v_add_float(sums[i], below));
            const vec high = v_cut_float(v_add_float(sums[i], above));
            doubtful[count] = (int32_t)at + 8 * i;
            count += !v_is_zero(v_xor(low[i], high)) && at + 8 * i < weighing->count;
        }
        v_store(out + at, weigh_packed(low));
    }
    return count;
}

static void weigh_exactly(const fpc_exact_weighing *exact, const int32_t *groups, int32_t count, uint8_t *out) {
    int32_t done = 0;
    for (; done + FPC_DOUBT_GROUPS <= count; done += FPC_DOUBT_GROUPS) {
        vecf sums[FPC_DOUBT_GROUPS];
        const float *weight = exact->weights;
        for (int i = 0; i < FPC_DOUBT_GROUPS; i++) sums[i] = v_all_float(0.0f);
        for (int32_t y = 0; y < exact->height; y++) {
            const float *in = exact->rows[y];
            for (int32_t x = 0; x < exact->width; x++, in += exact->step, weight++) {
                const vecf w = v_all_float(*weight);
                for (int i = 0; i < FPC_DOUBT_GROUPS; i++) {
                    sums[i] = v_fma_float(v_load_float(in + groups[done + i]), w, sums[i]);
                }
            }
        }
        for (int i = 0; i < FPC_DOUBT_GROUPS; i++) {
            float values[FPC_DOUBT_GROUP];
            v_store_float(values, sums[i]);
            for (int k = 0; k < FPC_DOUBT_GROUP; k++) out[groups[done + i] + k] = (uint8_t)rintf(values[k]);
        }
    }
    for (; done < count; done++) weigh_exactly_group(exact, groups[done], out);
}
