/* planes_plain.h: torchvision's arithmetic on uint8 tensors, by way of float32: one product, sum or quotient for each
 * of torch's operations. Compilers vectorise most of it. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* a * b + c, rounded once if torch's loops have FMA. */
static inline float planes_sum(float a, float b, float c, bool fused) { return fused ? fmaf(a, b, c) : a * b + c; }

/* Clamps to 0 to 255, and truncates. */
static inline uint8_t planes_byte(float value) {
    const float least = value > 0.0f ? value : 0.0f;
    return (uint8_t)(int32_t)(least < 255.0f ? least : 255.0f);
}

static inline void planes_gray_loop(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int64_t count,
                                    bool fused, uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        const float two = planes_sum((float)green[k], 0.587f, 0.2989f * (float)red[k], fused);
        out[k] = (uint8_t)(int32_t)planes_sum((float)blue[k], 0.114f, two, fused);
    }
}

static inline void planes_blend_loop(const uint8_t *first, const uint8_t *second, float by, float rest, int64_t count,
                                     bool fused, uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        out[k] = planes_byte(planes_sum((float)second[k], rest, by * (float)first[k], fused));
    }
}

static inline void planes_shift_loop(const uint8_t *first, const uint8_t *second, float rest, int64_t count, bool fused,
                                     uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        const float x = (float)first[k];
        out[k] = planes_byte(planes_sum((float)second[k] - x, rest, x, fused));
    }
}

/* rgb_to_grayscale */
static void planes_gray(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int64_t count, bool fused,
                        uint8_t *out) {
    if (fused) { /* so that it is a constant in each loop */
        planes_gray_loop(red, green, blue, count, true, out);
    } else {
        planes_gray_loop(red, green, blue, count, false, out);
    }
}

/* by * first + rest * second. */
static void planes_blend(const uint8_t *first, const uint8_t *second, float by, float rest, int64_t count, bool fused,
                         uint8_t *out) {
    if (fused) {
        planes_blend_loop(first, second, by, rest, count, true, out);
    } else {
        planes_blend_loop(first, second, by, rest, count, false, out);
    }
}

/* first + rest * (second - first). */
static void planes_shift(const uint8_t *first, const uint8_t *second, float rest, int64_t count, bool fused,
                         uint8_t *out) {
    if (fused) {
        planes_shift_loop(first, second, rest, count, true, out);
    } else {
        planes_shift_loop(first, second, rest, count, false, out);
    }
}

/* Adds up images times their weights, in order, and truncates; every sum is below 256. */
static void planes_mix_plain(const uint8_t *const *images, const float *weights, int image_count, int64_t start,
                             int64_t count, uint8_t *out) {
    for (int64_t k = start; k < count; k++) {
        float sum = weights[0] * (float)images[0][k];
        for (int i = 1; i < image_count; i++) sum = sum + weights[i] * (float)images[i][k];
        out[k] = (uint8_t)(int32_t)sum;
    }
}

#ifndef FPC_SIMD_H
static void planes_mix(const uint8_t *const *images, const float *weights, int image_count, int64_t count,
                       uint8_t *out) {
    planes_mix_plain(images, weights, image_count, 0, count, out);
}
#endif
