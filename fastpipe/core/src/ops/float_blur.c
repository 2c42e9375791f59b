/* float_blur.c: fpc_blur_floats: torchvision's gaussian_blur of floats: torch's convolution of an image mirrored at its
 * edges. Every value has to be the sum in torch's order, which two passes aren't. */
#include <string.h>

#include "context.h"
#include "fastpipe_core_tensors.h"

/* Copies a plane, and mirrors it at its edges, which aren't repeated. */
static void mirror(const float *in, int32_t height, int32_t width, int32_t above, int32_t before, int64_t stride,
                   float *out) {
    for (int32_t y = 0; y < height; y++) {
        float *const row = out + (y + above) * stride + before;
        memcpy(row, in + (int64_t)y * width, (size_t)width * sizeof(float));
        for (int32_t x = 1; x <= before; x++) {
            row[-x] = row[x];
            row[width - 1 + x] = row[width - 1 - x];
        }
    }
    const size_t bytes = (size_t)stride * sizeof(float);
    for (int32_t y = 1; y <= above; y++) {
        memcpy(out + (above - y) * stride, out + (above + y) * stride, bytes);
        memcpy(out + (above + height - 1 + y) * stride, out + (above + height - 1 - y) * stride, bytes);
    }
}

int fpc_blur_floats(fpc_context *context, const float *in, const int32_t shape[3], const float *weights,
                    const int32_t kernel[2], float *out) {
    const int32_t planes = shape[0], height = shape[1], width = shape[2], columns = kernel[0], rows = kernel[1];
    if (planes < 0 || height < 1 || width < 1 || height > FPC_LARGEST_SIDE || width > FPC_LARGEST_SIDE)
        return FPC_BAD_OPERATION;
    if (!fpc_kernel_fits(columns, rows, width, height)) return FPC_BAD_OPERATION;
    const int64_t stride = ((int64_t)width + columns - 1 + FPC_CONVOLVE_GROUP + 15) & ~(int64_t)15;
    const int64_t padded = ((int64_t)height + rows - 1) * stride, products = (int64_t)columns * rows;
    if ((uint64_t)(padded + products) > SIZE_MAX / sizeof(float)) return FPC_TOO_LARGE;
    float *const memory =
        (float *)(void *)fpc_buffer_need(&context->chain.images[0], (size_t)(padded + products) * sizeof(float));
    if (!memory) return FPC_NO_MEMORY;
    float *const image = memory, *const factors = memory + padded;
    fpc_kernel_weights(weights, columns, rows, factors);
    memset(image, 0, (size_t)padded * sizeof(float)); /* what is after a row is read, too */
    for (int32_t plane = 0; plane < planes; plane++) {
        const int64_t at = (int64_t)plane * height * width;
        mirror(in + at, height, width, rows / 2, columns / 2, stride, image);
        for (int32_t y = 0; y < height; y += FPC_CONVOLVE_ROWS) {
            const int32_t count = height - y < FPC_CONVOLVE_ROWS ? height - y : FPC_CONVOLVE_ROWS;
            const fpc_convolution convolution = {
                image + y * stride, stride, factors, rows, columns, out + at + (int64_t)y * width, width};
            context->kernels->convolve_rows(&convolution, count);
        }
    }
    fpc_context_trim(context);
    return FPC_OK;
}
