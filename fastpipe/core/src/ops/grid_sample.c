/* grid_sample.c: samples planes of bytes at a grid's points, as torch's grid_sample does. */
#include "context.h"
#include "fastpipe_core_tensors.h"
#include "tensors.h"

#include <string.h>

/* Copies the image to pixels of four bytes, the fourth of which is 1, with a border of two zero pixels on each side, so
 * that no point needs a check. */
static void spread(const uint8_t *in, const fpc_grid_sample *sample, uint32_t *pixels) {
    const int32_t width = sample->width, stride = width + 4;
    const int64_t plane = (int64_t)sample->height * width;
    memset(pixels, 0, 2 * (size_t)stride * sizeof *pixels);
    for (int32_t y = 0; y < sample->height; y++) {
        const uint8_t *row = in + (int64_t)y * width;
        uint32_t *to = pixels + (int64_t)(y + 2) * stride;
        to[0] = to[1] = to[stride - 2] = to[stride - 1] = 0;
        to += 2;
        if (sample->channels == 3) {
            for (int32_t x = 0; x < width; x++) {
                to[x] = (uint32_t)1 << 24 | (uint32_t)row[2 * plane + x] << 16 | (uint32_t)row[plane + x] << 8 | row[x];
            }
        } else {
            for (int32_t x = 0; x < width; x++) to[x] = (uint32_t)1 << 24 | row[x];
        }
    }
    memset(pixels + (int64_t)(sample->height + 2) * stride, 0, 2 * (size_t)stride * sizeof *pixels);
}

int fpc_grid_sample_check(const fpc_grid_sample *sample) {
    /* positions are 32-bit numbers, and a grid's numbers are exact in float32, with halves */
    if (((int64_t)sample->height + 4) * ((int64_t)sample->width + 4) > INT32_MAX) return FPC_TOO_LARGE;
    if (sample->width >= 1 << 22 || sample->height >= 1 << 22) return FPC_TOO_LARGE;
    return sample->out_width >= 1 << 22 || sample->out_height >= 1 << 22 ? FPC_TOO_LARGE : FPC_OK;
}

int fpc_grid_sample_planes(fpc_context *context, const uint8_t *in, const int32_t shape[6], const float *theta,
                           const float *grid, const float *fill, int flags, void *out) {
    const int64_t plane = (int64_t)shape[4] * shape[5];
    fpc_grid_sample sample = {.channels = shape[1],
                              .height = shape[2],
                              .width = shape[3],
                              .out_height = shape[4],
                              .out_width = shape[5],
                              .end_row = shape[4],
                              .plane = plane,
                              .theta = theta,
                              .grid = grid,
                              .fill = fill,
                              .filled = fill != NULL,
                              .bilinear = flags & FPC_GRID_SAMPLE_BILINEAR,
                              .fused = flags & FPC_GRID_SAMPLE_FUSED,
                              .floats = flags & FPC_GRID_SAMPLE_FLOATS,
                              .v2 = flags & FPC_GRID_SAMPLE_V2};
    if (shape[0] < 0 || (sample.channels != 1 && sample.channels != 3)) return FPC_BAD_OPERATION;
    if (sample.height < 1 || sample.width < 1 || sample.out_height < 0 || sample.out_width < 0 || (!theta && !grid)) {
        return FPC_BAD_OPERATION;
    }
    const int status = fpc_grid_sample_check(&sample);
    if (status != FPC_OK) return status;
    const size_t count = ((size_t)sample.height + 4) * ((size_t)sample.width + 4);
    uint32_t *pixels = (void *)fpc_buffer_need(&context->chain.images[0], count * sizeof *pixels);
    if (!pixels) return FPC_NO_MEMORY;
    sample.pixels = pixels;
    const int64_t in_size = (int64_t)sample.channels * sample.height * sample.width;
    const int64_t out_size = sample.channels * plane * (sample.floats ? (int64_t)sizeof(float) : 1);
    for (int64_t i = 0; i < shape[0]; i++) {
        spread(in + i * in_size, &sample, pixels);
        sample.out = (uint8_t *)out + i * out_size;
        context->kernels->grid_sample(&sample);
    }
    fpc_context_trim(context);
    return FPC_OK;
}
