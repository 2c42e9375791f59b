/* direct.c: calls without a job: operations that are faster than a job around them, and samples of 16 bits, which no
 * operation takes. */
#include "context.h"
#include "png.h"

void fpc_look_up(const fpc_context *context, const uint8_t *in, size_t count, const uint8_t *table, uint8_t *out) {
    context->kernels->look_up(in, (int64_t)count, table, out);
}

void fpc_flip_rgb(const fpc_context *context, const uint8_t *in, int32_t height, int32_t width, uint8_t *out) {
    const int64_t stride = 3 * (int64_t)width;
    for (int32_t y = 0; y < height; y++) context->kernels->flip_rgb(in + y * stride, width, out + y * stride);
}

int fpc_decode_uint16(fpc_context *context, const uint8_t *data, size_t length, const fpc_box *box, int32_t channels,
                      int64_t max_bytes, uint16_t *out, int64_t row_stride) {
    if (!context) return FPC_NO_MEMORY;
    if (!data || !box || !out || row_stride % (int64_t)sizeof *out) return FPC_BAD_OPERATION;
    if (fpc_format_of(data, length) != FPC_FORMAT_PNG) return FPC_UNSUPPORTED_MODE;
    void *decoder = fpc_context_decoder(context, FPC_FORMAT_PNG);
    if (!decoder) return FPC_NO_MEMORY;
    const int status =
        fpc_png_decode_uint16(decoder, data, length, box, channels, max_bytes, (uint8_t *)out, row_stride);
    fpc_context_trim(context);
    return status;
}
