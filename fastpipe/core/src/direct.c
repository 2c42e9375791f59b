/* direct.c: operations so fast that a job around them would take longer than they do. */
#include "context.h"

void fpc_look_up(const fpc_context *context, const uint8_t *in, size_t count, const uint8_t *table, uint8_t *out) {
    context->kernels->look_up(in, (int64_t)count, table, out);
}

void fpc_flip_rgb(const fpc_context *context, const uint8_t *in, int32_t height, int32_t width, uint8_t *out) {
    const int64_t stride = 3 * (int64_t)width;
    for (int32_t y = 0; y < height; y++) context->kernels->flip_rgb(in + y * stride, width, out + y * stride);
}
