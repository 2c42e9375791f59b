/* float_blur_plain.h: convolves rows of floats. */
#include <math.h>

#ifndef FPC_SIMD_H
static void convolve_rows(const fpc_convolution *convolution, int32_t count) {
    for (int32_t y = 0; y < count; y++) {
        float *const out = convolution->out + y * convolution->width;
        const float *weight = convolution->weights;
        for (int64_t x = 0; x < convolution->width; x++) out[x] = 0.0f;
        for (int32_t row = 0; row < convolution->rows; row++) {
            const float *in = convolution->in + (y + row) * convolution->in_stride;
            for (int32_t column = 0; column < convolution->columns; column++, in++, weight++) {
                for (int64_t x = 0; x < convolution->width; x++) out[x] = fmaf(in[x], *weight, out[x]);
            }
        }
    }
}
#endif
