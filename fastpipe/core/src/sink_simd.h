/* sink_simd.h: writes rows of bytes to the caller's memory, eight or more at once. If normalizer->exact is true
 * (normalize.c: fast_way_is_exact), multiplying by a reciprocal in two terms gives the same as the division, and
 * replaces it. */
#include "sink_plain.h"

#define NONE 255
/* Spreads channel c of four 3-byte pixels to four 32-bit numbers. */
static const uint8_t sink_spread[3][16] = {
    {0, NONE, NONE, NONE, 3, NONE, NONE, NONE, 6, NONE, NONE, NONE, 9, NONE, NONE, NONE},
    {1, NONE, NONE, NONE, 4, NONE, NONE, NONE, 7, NONE, NONE, NONE, 10, NONE, NONE, NONE},
    {2, NONE, NONE, NONE, 5, NONE, NONE, NONE, 8, NONE, NONE, NONE, 11, NONE, NONE, NONE},
};
/* Gathers each channel's four bytes of four 3-byte pixels. */
static const uint8_t sink_gather[16] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, NONE, NONE, NONE, NONE};
/* Reverses the channels of each of four 3-byte pixels. */
static const uint8_t sink_reverse[16] = {2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, NONE, NONE, NONE, NONE};
#undef NONE

typedef struct sink_factors {
    vecf offset, by_std, by_std_rest;
} sink_factors;

SIMD vecf sink_value(vec bytes32, vecf by_255, vecf by_255_rest, const sink_factors *factors, const int normalize) {
    const vecf x = v_float(bytes32);
    vecf value = v_fma_float(x, by_255, v_mul_float(x, by_255_rest));
    if (normalize) {
        value = v_sub_float(value, factors->offset);
        value = v_fma_float(value, factors->by_std, v_mul_float(value, factors->by_std_rest));
    }
    return value;
}

SIMD void sink_store(void *out, int64_t at, vecf value, const int dtype) {
    if (dtype == FPC_FLOAT16) {
        v_store_float16((uint16_t *)out + at, value);
    } else if (dtype == FPC_BFLOAT16) {
        v_store_bfloat16((uint16_t *)out + at, value);
    } else {
        v_store_float((float *)out + at, value);
    }
}

/* Returns the number of pixels written: a multiple of eight. */
SIMD int32_t sink_planar(const uint8_t *rgb, int32_t count, const fpc_normalizer *normalizer, void *const out[3],
                         const int dtype, const int normalize) {
    const vecf by_255 = v_all_float(normalizer->by_255[0]), by_255_rest = v_all_float(normalizer->by_255[1]);
    const vec spread[3] = {v_load_twice(sink_spread[0]), v_load_twice(sink_spread[1]), v_load_twice(sink_spread[2])};
    sink_factors factors[3];
    for (int c = 0; c < 3; c++) {
        factors[c].offset = v_all_float(normalizer->offset[c]);
        factors[c].by_std = v_all_float(normalizer->by_std[0][c]);
        factors[c].by_std_rest = v_all_float(normalizer->by_std[1][c]);
    }
    const int32_t whole = count & ~7;
    for (int32_t x = 0; x < whole; x += 8) {
        const vec bytes = v_load_halves(rgb + 3 * (int64_t)x, rgb + 3 * (int64_t)x + 12);
        for (int c = 0; c < 3; c++) {
            const vecf value = sink_value(v_shuffle8(bytes, spread[c]), by_255, by_255_rest, &factors[c], normalize);
            sink_store(out[c], x, value, dtype);
        }
    }
    return whole;
}

static void normalize_planar(const uint8_t *rgb, int32_t count, const fpc_normalizer *normalizer, void *const out[3]) {
    int32_t done = 0;
    if (normalizer->exact) {
        const int normalize = (normalizer->flags & FPC_NORMALIZE) != 0;
        if (normalizer->dtype == FPC_FLOAT16) {
            done = sink_planar(rgb, count, normalizer, out, FPC_FLOAT16, normalize);
        } else if (normalizer->dtype == FPC_BFLOAT16) {
            done = sink_planar(rgb, count, normalizer, out, FPC_BFLOAT16, normalize);
        } else {
            done = normalize ? sink_planar(rgb, count, normalizer, out, FPC_FLOAT32, 1)
                             : sink_planar(rgb, count, normalizer, out, FPC_FLOAT32, 0);
        }
    }
    normalize_planar_plain(rgb, done, count, normalizer, out);
}

/* Returns the number of elements written: whole groups of 24, so that each channel has equally many. */
SIMD int64_t sink_interleaved(const uint8_t *row, int64_t count, const fpc_normalizer *normalizer, int32_t channels,
                              void *out, const int dtype) {
    const vecf by_255 = v_all_float(normalizer->by_255[0]), by_255_rest = v_all_float(normalizer->by_255[1]);
    float terms[3][24];
    for (int i = 0; i < 24; i++) {
        const int c = channels == 3 ? i % 3 : 0;
        terms[0][i] = normalizer->offset[c];
        terms[1][i] = normalizer->by_std[0][c];
        terms[2][i] = normalizer->by_std[1][c];
    }
    sink_factors factors[3];
    for (int i = 0; i < 3; i++) {
        factors[i].offset = v_load_float(terms[0] + 8 * i);
        factors[i].by_std = v_load_float(terms[1] + 8 * i);
        factors[i].by_std_rest = v_load_float(terms[2] + 8 * i);
    }
    const int64_t whole = count - count % 24;
    for (int64_t at = 0; at < whole; at += 24) {
        for (int i = 0; i < 3; i++) {
            const vec bytes = v_load_widened32(row + at + 8 * i);
            sink_store(out, at + 8 * i, sink_value(bytes, by_255, by_255_rest, &factors[i], 1), dtype);
        }
    }
    return whole;
}

static void normalize_interleaved(const uint8_t *row, int64_t count, const fpc_normalizer *normalizer, int32_t channels,
                                  void *out) {
    int64_t done = 0;
    /* Without a mean and deviation the numbers are 0, 1 and 0, which change nothing. */
    if (normalizer->exact) {
        if (normalizer->dtype == FPC_FLOAT16) {
            done = sink_interleaved(row, count, normalizer, channels, out, FPC_FLOAT16);
        } else if (normalizer->dtype == FPC_BFLOAT16) {
            done = sink_interleaved(row, count, normalizer, channels, out, FPC_BFLOAT16);
        } else {
            done = sink_interleaved(row, count, normalizer, channels, out, FPC_FLOAT32);
        }
    }
    normalize_interleaved_plain(row, done, count, normalizer, channels, out);
}

static void split_channels(const uint8_t *rgb, int32_t count, uint8_t *const out[3]) {
    const vec gather = v_load_twice(sink_gather);
    const int32_t whole = count & ~15;
    for (int32_t x = 0; x < whole; x += 16) {
        const uint8_t *from = rgb + 3 * (int64_t)x;
        const vec even = v_shuffle8(v_load_halves(from, from + 24), gather);     /* pixels 0 to 3, 8 to 11 */
        const vec odd = v_shuffle8(v_load_halves(from + 12, from + 36), gather); /* 4 to 7, 12 to 15 */
        const vec red_green = v_swap_middle64(v_unpack_low32(even, odd)),
                  blue = v_swap_middle64(v_unpack_high32(even, odd));
        v_store_low(out[0] + x, red_green);
        v_store_high(out[1] + x, red_green);
        v_store_low(out[2] + x, blue);
    }
    split_channels_plain(rgb, whole, count, out);
}

static void reverse_channels(const uint8_t *rgb, int32_t count, uint8_t *bgr) {
    const vec order = v_load_twice(sink_reverse);
    int32_t x = 0;
    for (; x + 10 <= count; x += 8) { /* each turn of eight pixels also writes the four bytes after them */
        const uint8_t *from = rgb + 3 * (int64_t)x;
        const vec reversed = v_shuffle8(v_load_halves(from, from + 12), order);
        v_store_low(bgr + 3 * (int64_t)x, reversed);
        v_store_high(bgr + 3 * (int64_t)x + 12, reversed);
    }
    reverse_channels_plain(rgb, x, count, bgr);
}
