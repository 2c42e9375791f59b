/* planes_plain.h: torchvision's arithmetic on uint8 tensors, by way of float32: one product, sum or quotient for each
 * of torch's operations. Compilers make vectors of most of it. */
#include <stdint.h>

/* rgb_to_grayscale */
static void planes_gray(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int64_t count, uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        const float two = 0.2989f * (float)red[k] + 0.587f * (float)green[k];
        out[k] = (uint8_t)(int32_t)(two + 0.114f * (float)blue[k]);
    }
}

/* `by` times the first plus `rest` times the second, clamped to 0 to 255 and cut off. */
static void planes_blend(const uint8_t *first, const uint8_t *second, float by, float rest, int64_t count,
                         uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        const float sum = by * (float)first[k] + rest * (float)second[k];
        const float least = sum > 0.0f ? sum : 0.0f;
        out[k] = (uint8_t)(int32_t)(least < 255.0f ? least : 255.0f);
    }
}

/* adjust_plain.h's smooth_row of one channel, and nothing else is read: torch's convolution rounds to the same. */
static void planes_smooth(const uint8_t *above, const uint8_t *row, const uint8_t *below, int64_t count, uint8_t *out) {
    for (int64_t k = 0; k < count; k++) {
        const uint16_t upper = (uint16_t)(above[k - 1] + above[k] + above[k + 1]);
        const uint16_t lower = (uint16_t)(below[k - 1] + below[k] + below[k + 1]);
        const uint16_t sum = (uint16_t)(upper + lower + row[k - 1] + 5 * row[k] + row[k + 1] + 6);
        out[k] = (uint8_t)((uint32_t)sum * 5042u >> 16); /* by 13 */
    }
}

/* Images times their weights, added up from the first on and cut off; no sum is as large as 256. */
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
