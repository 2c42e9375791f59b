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

#ifndef FPC_SIMD_H
static void floats_of(const uint8_t *in, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = in[i];
}

static void weigh_rows(const fpc_weighing *weighing, float *out) {
    for (int64_t i = 0; i < weighing->count; i++) out[i] = weighing->rows[0][i] * weighing->weights[0];
    for (int32_t tap = 1; tap < weighing->taps; tap++) {
        const float *in = weighing->rows[tap], weight = weighing->weights[tap];
        for (int64_t i = 0; i < weighing->count; i++) out[i] += in[i] * weight;
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
