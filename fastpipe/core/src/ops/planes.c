/* planes.c: changes of color on uint8 tensors (C, H, W), as in torchvision's tensor backend. */
#include "context.h"
#include "fastpipe_core_tensors.h"
#include "histogram.h"
#include "tensors.h"

static void autocontrast_table(const uint8_t *plane, int64_t count, bool v1, uint8_t *table) {
    uint8_t least = 255, most = 0;
    for (int64_t k = 0; k < count; k++) {
        least = plane[k] < least ? plane[k] : least;
        most = plane[k] > most ? plane[k] : most;
    }
    fpc_tensor_autocontrast_table(least, most, v1, table);
}

static void equalize_table(const uint8_t *plane, int64_t count, uint8_t *table) {
    int64_t counts[3][256] = {{0}};
    fpc_count_values(plane, count, 1, counts);
    fpc_equalize_table(counts[0], table);
}

static void saturate(const fpc_kernels *kernels, const uint8_t *in, int64_t count, const fpc_tensor_blend *blend,
                     uint8_t *out) {
    enum { BLOCK = 4096 };
    uint8_t gray[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int64_t some = count - start < BLOCK ? count - start : BLOCK;
        const uint8_t *from = in + start;
        kernels->planes_gray(from, from + count, from + 2 * count, some, blend->fused, gray);
        for (int c = 0; c < 3; c++) {
            const int64_t at = start + c * count;
            kernels->planes_blend(in + at, gray, blend->by, blend->rest, some, blend->fused, out + at);
        }
    }
}

/* The sum of an image's gray values. */
static uint64_t gray_sum(const fpc_kernels *kernels, const uint8_t *in, int32_t channels, int64_t count, bool fused) {
    enum { BLOCK = 4096 };
    uint8_t gray[BLOCK];
    uint64_t sum = 0;
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int64_t some = count - start < BLOCK ? count - start : BLOCK;
        const uint8_t *from = in + start;
        if (channels == 3) {
            kernels->planes_gray(from, from + count, from + 2 * count, some, fused, gray);
            from = gray;
        }
        uint32_t part = 0;
        for (int64_t k = 0; k < some; k++) part += from[k];
        sum += part;
    }
    return sum;
}

/* Changes one image of a batch; the caller has checked its size. */
static int change_image(const fpc_kernels *kernels, const fpc_operation *operation, const fpc_tensor_blend *blend,
                        const uint8_t *in, int32_t channels, int64_t count, uint8_t *out) {
    uint8_t table[256];
    switch (operation->kind) {
    case FPC_OP_TENSOR_GRAY:
        if (channels != 3) return FPC_BAD_OPERATION;
        kernels->planes_gray(in, in + count, in + 2 * count, count, blend->fused, out);
        return FPC_OK;
    case FPC_OP_TENSOR_SATURATION:
        if (channels != 3) return FPC_BAD_OPERATION;
        saturate(kernels, in, count, blend, out);
        return FPC_OK;
    case FPC_OP_TENSOR_CONTRAST: {
        const uint64_t sum = gray_sum(kernels, in, channels, count, blend->fused);
        if (sum > 1 << 24) return FPC_BAD_OPERATION; /* as in lut.c */
        const int found = fpc_tensor_contrast_table(blend, (float)sum / (float)count, table);
        if (found != FPC_OK) return found;
        kernels->look_up(in, channels * count, table, out);
        return FPC_OK;
    }
    case FPC_OP_TENSOR_AUTOCONTRAST:
    case FPC_OP_EQUALIZE:
        for (int c = 0; c < channels; c++) {
            const uint8_t *plane = in + c * count;
            if (operation->kind == FPC_OP_EQUALIZE) {
                equalize_table(plane, count, table);
            } else {
                autocontrast_table(plane, count, blend->v1, table);
            }
            kernels->look_up(plane, count, table, out + c * count);
        }
        return FPC_OK;
    default: return FPC_BAD_OPERATION;
    }
}

int fpc_change_planes(const fpc_context *context, const fpc_operation *operation, const uint8_t *in,
                      const int32_t shape[4], uint8_t *out) {
    const int32_t images = shape[0], channels = shape[1], height = shape[2], width = shape[3];
    if (images < 0 || (channels != 1 && channels != 3) || height < 1 || width < 1) return FPC_BAD_OPERATION;
    fpc_tensor_blend blend = {.fused = operation->flags & FPC_FUSED, .v1 = operation->flags & FPC_V1};
    const int32_t kind = operation->kind;
    const bool blends = kind == FPC_OP_TENSOR_SATURATION || kind == FPC_OP_TENSOR_CONTRAST;
    if (operation->flags & ~(FPC_FUSED | FPC_V1)) return FPC_BAD_OPERATION;
    if (blends && !fpc_tensor_factors(operation, &blend)) return FPC_BAD_OPERATION;
    const int64_t count = (int64_t)height * width, in_size = channels * count;
    const int64_t out_size = kind == FPC_OP_TENSOR_GRAY ? count : in_size;
    int status = FPC_OK;
    for (int64_t i = 0; i < images && status == FPC_OK; i++) {
        status =
            change_image(context->kernels, operation, &blend, in + i * in_size, channels, count, out + i * out_size);
    }
    return status;
}

int fpc_mix_planes(const fpc_context *context, const uint8_t *const *images, const float *weights, int image_count,
                   int64_t count, uint8_t *out) {
    float sum = 0.0f;
    for (int i = 0; i < image_count; i++) {
        if (!(weights[i] >= 0.0f && weights[i] <= 1.0f)) return FPC_BAD_OPERATION;
        sum += weights[i];
    }
    if (image_count < 1 || sum > 1.001f) return FPC_BAD_OPERATION; /* a value might exceed a byte */
    context->kernels->planes_mix(images, weights, image_count, count, out);
    return FPC_OK;
}
