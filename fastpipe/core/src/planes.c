/* planes.c: changes of colour as torchvision's tensor backend does them, on uint8 tensors (C, H, W). */
#include "context.h"
#include "histogram.h"

#include <string.h>

/* autocontrast: the least value becomes 0 and the greatest 255; `255 / range` is torch's reciprocal times 255. */
static void autocontrast_table(const uint8_t *plane, int64_t count, uint8_t *table) {
    uint8_t least = 255, most = 0;
    for (int64_t k = 0; k < count; k++) {
        least = plane[k] < least ? plane[k] : least;
        most = plane[k] > most ? plane[k] : most;
    }
    const float scale = most > least ? 1.0f / (float)(most - least) * 255.0f : 1.0f;
    const float low = most > least ? (float)least : 0.0f;
    for (int i = 0; i < 256; i++) {
        const float value = ((float)i - low) * scale;
        table[i] = value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
    }
}

static void equalize_table(const uint8_t *plane, int64_t count, uint8_t *table) {
    int64_t counts[3][256] = {{0}};
    fpc_count_values(plane, count, 1, counts);
    fpc_equalize_table(counts[0], table);
}

static void saturate(const fpc_kernels *kernels, const uint8_t *in, int64_t count, const float factors[2],
                     uint8_t *out) {
    enum { BLOCK = 4096 };
    uint8_t gray[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int64_t some = count - start < BLOCK ? count - start : BLOCK;
        const uint8_t *from = in + start;
        kernels->planes_gray(from, from + count, from + 2 * count, some, gray);
        for (int c = 0; c < 3; c++) {
            const int64_t at = start + c * count;
            kernels->planes_blend(in + at, gray, factors[0], factors[1], some, out + at);
        }
    }
}

static void sharpen(const fpc_kernels *kernels, const uint8_t *plane, int32_t height, int32_t width,
                    const float factors[2], uint8_t *smooth, uint8_t *out) {
    for (int32_t y = 0; y < height; y++) {
        const uint8_t *row = plane + (int64_t)y * width;
        if (y == 0 || y == height - 1) {
            memcpy(smooth, row, (size_t)width);
        } else {
            smooth[0] = row[0];
            kernels->planes_smooth(row - width + 1, row + 1, row + width + 1, width - 2, smooth + 1);
            smooth[width - 1] = row[width - 1];
        }
        kernels->planes_blend(row, smooth, factors[0], factors[1], width, out + (int64_t)y * width);
    }
}

int fpc_change_planes(fpc_context *context, int kind, const uint8_t *in, const int32_t shape[3], const float *factors,
                      uint8_t *out) {
    const fpc_kernels *kernels = context->kernels;
    const int32_t channels = shape[0], height = shape[1], width = shape[2];
    if ((channels != 1 && channels != 3) || height < 1 || width < 1) return FPC_BAD_OPERATION;
    const int64_t count = (int64_t)height * width;
    uint8_t table[256];
    switch (kind) {
    case FPC_OP_GRAY:
        if (channels != 3) return FPC_BAD_OPERATION;
        kernels->planes_gray(in, in + count, in + 2 * count, count, out);
        return FPC_OK;
    case FPC_OP_SATURATION:
        if (channels != 3) return FPC_BAD_OPERATION;
        saturate(kernels, in, count, factors, out);
        return FPC_OK;
    case FPC_OP_SHARPNESS: {
        uint8_t *smooth = fpc_buffer_need(&context->row, (size_t)width);
        if (!smooth) return FPC_NO_MEMORY;
        if (height < 3 || width < 3) return FPC_BAD_OPERATION;
        for (int c = 0; c < channels; c++) {
            sharpen(kernels, in + c * count, height, width, factors, smooth, out + c * count);
        }
        return FPC_OK;
    }
    case FPC_OP_AUTOCONTRAST:
    case FPC_OP_EQUALIZE:
        for (int c = 0; c < channels; c++) {
            const uint8_t *plane = in + c * count;
            (kind == FPC_OP_EQUALIZE ? equalize_table : autocontrast_table)(plane, count, table);
            kernels->look_up(plane, count, table, out + c * count);
        }
        return FPC_OK;
    default: return FPC_BAD_OPERATION;
    }
}

int fpc_mix_planes(const fpc_context *context, const uint8_t *const *images, const float *weights, int image_count,
                   int64_t count, uint8_t *out) {
    float sum = 0.0f;
    for (int i = 0; i < image_count; i++) {
        if (!(weights[i] >= 0.0f && weights[i] <= 1.0f)) return FPC_BAD_OPERATION;
        sum += weights[i];
    }
    if (image_count < 1 || sum > 1.001f) return FPC_BAD_OPERATION; /* a value might not be a byte's */
    context->kernels->planes_mix(images, weights, image_count, count, out);
    return FPC_OK;
}
