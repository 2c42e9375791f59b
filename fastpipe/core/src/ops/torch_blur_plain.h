/* torch_blur_plain.h: adds up weighted rows of floats, and rounds the values that aren't in doubt. */
#include <math.h>

static inline void weigh_exactly_group(const fpc_exact_weighing *exact, int64_t at, uint8_t *out) {
    float sums[FPC_DOUBT_GROUP] = {0};
    const float *weight = exact->weights;
    for (int32_t y = 0; y < exact->height; y++) {
        const float *in = exact->rows[y] + at;
        for (int32_t x = 0; x < exact->width; x++, in += exact->step, weight++) {
            for (int i = 0; i < FPC_DOUBT_GROUP; i++) sums[i] = fmaf(in[i], *weight, sums[i]);
        }
    }
    for (int i = 0; i < FPC_DOUBT_GROUP; i++) out[at + i] = (uint8_t)rintf(sums[i]);
}

static void bytes_to_floats(const uint8_t *in, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = in[i];
}

static void round_floats(const float *in, int64_t count, uint8_t *out) {
    const float whole = 0x1.8p23f; /* floats of this size have no bits after the point */
    for (int64_t i = 0; i < count; i++) out[i] = (uint8_t)(int32_t)((in[i] + whole) - whole);
}

/* The columns from `first` on of the transposition of FPC_WEIGH_GROUP rows, and back. */
static inline void some_to_columns(const float *const *rows, int64_t first, int64_t count, float *columns) {
    for (int64_t x = first; x < count; x++) {
        for (int y = 0; y < FPC_WEIGH_GROUP; y++) columns[x * FPC_WEIGH_GROUP + y] = rows[y][x];
    }
}

static inline void some_to_floats(const float *columns, int64_t first, int64_t count, float *rows, int64_t stride) {
    for (int64_t x = first; x < count; x++) {
        for (int y = 0; y < FPC_WEIGH_GROUP; y++) rows[y * stride + x] = columns[x * FPC_WEIGH_GROUP + y];
    }
}

#ifndef FPC_SIMD_H
static void floats_to_columns(const float *const *rows, int64_t count, float *columns) {
    some_to_columns(rows, 0, count, columns);
}

static void columns_to_floats(const float *columns, int64_t count, float *rows, int64_t stride) {
    some_to_floats(columns, 0, count, rows, stride);
}

static void weigh_rows(const fpc_weighing *weighing, float *out) {
    for (int64_t i = 0; i < weighing->count; i++) out[i] = weighing->rows[0][i] * weighing->weights[0];
    for (int32_t tap = 1; tap < weighing->taps; tap++) {
        const float *in = weighing->rows[tap], weight = weighing->weights[tap];
        for (int64_t i = 0; i < weighing->count; i++) out[i] += in[i] * weight;
    }
}

static void weigh_in_order(const fpc_weighing *weighing, int32_t apart, float *out) {
    for (int64_t i = 0; i < weighing->count; i++) {
        float sum = weighing->rows[0][i] * weighing->weights[0];
        for (int32_t tap = 1; tap <= apart; tap++) sum += weighing->rows[tap][i] * weighing->weights[tap];
        for (int32_t tap = apart + 1; tap < weighing->taps; tap++) {
            sum = fmaf(weighing->rows[tap][i], weighing->weights[tap], sum);
        }
        out[i] = sum;
    }
}

static int32_t weigh_to_bytes(const fpc_weighing *weighing, float margin, float *sums, uint8_t *out,
                              int32_t *doubtful) {
    int32_t count = 0;
    weigh_rows(weighing, sums);
    for (int64_t i = 0; i < weighing->count; i += FPC_DOUBT_GROUP) {
        int doubt = 0;
        for (int64_t k = i; k < i + FPC_DOUBT_GROUP; k++) {
            const int32_t low = (int32_t)(sums[k] + (0.5f - margin)), high = (int32_t)(sums[k] + (0.5f + margin));
            out[k] = (uint8_t)low;
            doubt |= low ^ high;
        }
        if (doubt) doubtful[count++] = (int32_t)i;
    }
    return count;
}

static void weigh_exactly(const fpc_exact_weighing *exact, const int32_t *groups, int32_t count, uint8_t *out) {
    for (int32_t i = 0; i < count; i++) weigh_exactly_group(exact, groups[i], out);
}
#endif
