/* resample_plain.h: Pillow's sums (Resample.c: ImagingResampleHorizontal_8bpc, ImagingResampleVertical_8bpc) for any
 * weights. */
#include "resample_coeffs.h"

/* Pillow's clip8; the sum started at a half. */
static inline uint8_t resample_round(int32_t sum) {
    const int32_t value = sum >> FPC_WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline uint8_t resample_round_wide(int64_t sum) {
    const int64_t value = sum >> FPC_WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#define RESAMPLE_START (1 << (FPC_WEIGHT_BITS - 1))

static inline void resample_horizontal_rgb_plain(const uint8_t *in, const fpc_axis *axis, uint8_t *out) {
    for (int32_t x = 0; x < axis->outputs; x++, out += 3) {
        const uint8_t *from = in + (int64_t)axis->starts[x] * 3;
        const int32_t *weights = axis->weights + (int64_t)x * 2 * axis->pairs;
        int32_t red = RESAMPLE_START, green = RESAMPLE_START, blue = RESAMPLE_START;
        for (int32_t k = 0; k < axis->counts[x]; k++, from += 3) {
            red += from[0] * weights[k];
            green += from[1] * weights[k];
            blue += from[2] * weights[k];
        }
        out[0] = resample_round(red);
        out[1] = resample_round(green);
        out[2] = resample_round(blue);
    }
}

/* For any weights and numbers of channels. */
static inline void resample_horizontal_any(const uint8_t *in, const fpc_axis *axis, int32_t channels, uint8_t *out) {
    for (int32_t x = 0; x < axis->outputs; x++) {
        const uint8_t *from = in + (int64_t)axis->starts[x] * channels;
        const int32_t *weights = axis->weights + (int64_t)x * 2 * axis->pairs;
        for (int32_t c = 0; c < channels; c++) {
            int64_t sum = RESAMPLE_START;
            for (int32_t k = 0; k < axis->counts[x]; k++) sum += (int64_t)from[k * (int64_t)channels + c] * weights[k];
            out[(int64_t)x * channels + c] = resample_round_wide(sum);
        }
    }
}

static inline void resample_horizontal_plain(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                             uint8_t *const out[2]) {
    for (int row = 0; row < 2; row++) {
        if (row && out[1] == out[0]) break;
        if (channels == 3 && axis->split) {
            resample_horizontal_rgb_plain(in[row], axis, out[row]);
        } else {
            resample_horizontal_any(in[row], axis, channels, out[row]);
        }
    }
}

static inline void resample_vertical_plain(const uint8_t *const *rows, const fpc_axis *axis, int32_t y, int64_t bytes,
                                           uint8_t *out) {
    const int32_t *weights = axis->weights + (int64_t)y * 2 * axis->pairs;
    const int32_t count = axis->counts[y];
    if (!axis->split) {
        for (int64_t at = 0; at < bytes; at++) {
            int64_t sum = RESAMPLE_START;
            for (int32_t k = 0; k < count; k++) sum += (int64_t)rows[k][at] * weights[k];
            out[at] = resample_round_wide(sum);
        }
        return;
    }
    for (int64_t at = 0; at < bytes; at += 32) { /* 32 bytes are whole vectors on every machine */
        int32_t sums[32];
        for (int i = 0; i < 32; i++) sums[i] = RESAMPLE_START;
        for (int32_t k = 0; k < count; k++) {
            const uint8_t *row = rows[k] + at;
            const int32_t weight = weights[k];
            for (int i = 0; i < 32; i++) sums[i] += row[i] * weight;
        }
        for (int i = 0; i < 32; i++) out[at + i] = resample_round(sums[i]);
    }
}

#ifndef FPC_SIMD_H
static void arrange_horizontal(fpc_axis *axis) { (void)axis; }

static void resample_horizontal(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                uint8_t *const out[2]) {
    resample_horizontal_plain(in, axis, channels, out);
}

static void resample_vertical(const uint8_t *const *rows, const fpc_axis *axis, int32_t y, int64_t bytes,
                              uint8_t *out) {
    resample_vertical_plain(rows, axis, y, bytes, out);
}
#endif
