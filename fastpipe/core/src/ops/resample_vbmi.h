/* resample_vbmi.h: resample_simd.h's pass along rows of three channels, for machines with an instruction that selects
 * any of 64 bytes, and one that multiplies bytes and adds four products. It computes five outputs of a row at once,
 * with a sum in each of fifteen 32-bit lanes. A weight is first + 256 * (second + 256 * third) with signed bytes, so
 * the result is the same integer. */

/* Splits the signed low byte off each of four weights; returns the bytes, and leaves the rest in *weights. */
static __m128i lane_part(__m128i *weights) {
    const __m128i low_bytes = _mm_set1_epi32(0x0C080400), bytes = _mm_shuffle_epi8(*weights, low_bytes);
    *weights = _mm_srai_epi32(_mm_add_epi32(*weights, _mm_set1_epi32(128)), 8);
    return bytes;
}

/* Makes lanes: for every five outputs a vector with the positions of their inputs' bytes, and for every four weights
 * of the outputs three vectors with the weights' bytes, the highest first. Stores of 16 bytes overlap; 12 of each
 * remain. */
static void arrange_horizontal(fpc_axis *axis) {
    const int32_t parts = (axis->most_taps + FPC_LANE_TAPS - 1) / FPC_LANE_TAPS, width = 2 * axis->pairs;
    if (!axis->split || parts > FPC_LANE_MOST_PARTS) return;
    const __m128i first_order = _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 2, 5, 8, 11);
    uint8_t *to = axis->lanes;
    __m128i left = _mm_setzero_si128(); /* what is left of weights that exceed three bytes */
    for (int32_t x = 0; x < axis->outputs; x += FPC_LANE_OUTPUTS, to += FPC_LANE_VECTOR * (1 + 3 * parts)) {
        const int32_t last = x + FPC_LANE_OUTPUTS < axis->outputs ? x + FPC_LANE_OUTPUTS - 1 : axis->outputs - 1;
        const int32_t base = axis->starts[x] < axis->starts[last] ? axis->starts[x] : axis->starts[last];
        for (int32_t i = 0; i < FPC_LANE_OUTPUTS; i++) {
            const int32_t output = x + i < last ? x + i : last, offset = 3 * (axis->starts[output] - base);
            if (offset < 0 || offset > FPC_LANE_VECTOR - 3 * FPC_LANE_TAPS) return;
            _mm_storeu_si128((__m128i *)(to + 12 * i), _mm_add_epi8(first_order, _mm_set1_epi8((char)offset)));
            for (int32_t part = 0; part < parts; part++) {
                const int32_t at = FPC_LANE_TAPS * part, count = width - at;
                __m128i weights = _mm_maskz_loadu_epi32(count < FPC_LANE_TAPS ? (__mmask8)((1 << count) - 1) : 15,
                                                        axis->weights + (int64_t)output * width + at);
                for (int32_t plane = 2; plane >= 0; plane--) {
                    uint8_t *vector = to + FPC_LANE_VECTOR * (1 + plane * parts + part);
                    _mm_storeu_si128((__m128i *)(vector + 12 * i), lane_part(&weights));
                }
                left = _mm_or_si128(left, weights);
            }
        }
    }
    axis->has_lanes = _mm_testz_si128(left, left);
}

SIMD void resample_lanes(const uint8_t *const in[2], const fpc_axis *axis, uint8_t *const out[2], const int32_t parts) {
    const __m512i half = _mm512_set1_epi32(1 << (FPC_WEIGHT_BITS - 1 - 16));
    const uint8_t *from = axis->lanes;
    for (int32_t x = 0; x < axis->outputs; x += FPC_LANE_OUTPUTS) {
        const int32_t last = x + FPC_LANE_OUTPUTS < axis->outputs ? x + FPC_LANE_OUTPUTS - 1 : axis->outputs - 1;
        const int32_t base = axis->starts[x] < axis->starts[last] ? axis->starts[x] : axis->starts[last];
        const __m512i order = _mm512_loadu_si512(from);
        __m512i bytes[2][FPC_LANE_MOST_PARTS], sums[2] = {half, half};
        for (int row = 0; row < 2; row++) {
            const uint8_t *inputs = in[row] + 3 * (int64_t)base;
            for (int32_t part = 0; part < parts; part++) {
                bytes[row][part] =
                    _mm512_permutexvar_epi8(order, _mm512_loadu_si512(inputs + 3 * FPC_LANE_TAPS * (int64_t)part));
            }
        }
        from += FPC_LANE_VECTOR;
        for (int plane = 0; plane < 3; plane++) {
            for (int32_t part = 0; part < parts; part++, from += FPC_LANE_VECTOR) {
                const __m512i weights = _mm512_loadu_si512(from);
                sums[0] = _mm512_dpbusd_epi32(sums[0], bytes[0][part], weights);
                sums[1] = _mm512_dpbusd_epi32(sums[1], bytes[1][part], weights);
            }
            for (int row = 0; row < 2 && plane < 2; row++) sums[row] = _mm512_slli_epi32(sums[row], 8);
        }
        for (int row = 0; row < 2; row++) {
            const __m512i whole =
                _mm512_max_epi32(_mm512_srai_epi32(sums[row], FPC_WEIGHT_BITS), _mm512_setzero_si512());
            /* the sixteenth byte belongs to the next output, or is slack */
            _mm_storeu_si128((__m128i *)(out[row] + 3 * (int64_t)x), _mm512_cvtusepi32_epi8(whole));
        }
    }
}

static void resample_horizontal(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                uint8_t *const out[2]) {
    if (channels != 3 || !axis->has_lanes) {
        resample_horizontal_pairs(in, axis, channels, out);
        return;
    }
    switch ((axis->most_taps + FPC_LANE_TAPS - 1) / FPC_LANE_TAPS) { /* a constant unrolls the loops */
    case 1: resample_lanes(in, axis, out, 1); break;
    case 2: resample_lanes(in, axis, out, 2); break;
    case 3: resample_lanes(in, axis, out, 3); break;
    default: resample_lanes(in, axis, out, 4); break;
    }
}
