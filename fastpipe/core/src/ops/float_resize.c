/* float_resize.c: torch's antialiased, bilinear resize by floats (UpSampleKernel.cpp: HelperInterpLinear,
 * separable_upsample_generic_Nd_kernel_impl): first along rows, then along columns. Products are added in the order of
 * the inputs; which of them are rounded before, torch's compiler has decided. FPC_WEIGH_GROUP rows are transposed for
 * the pass along them, so that both passes add up rows of values. It must be compiled without contraction of
 * floating-point operations. */
#include <math.h>
#include <string.h>

#include "context.h"

#define ROWS FPC_WEIGH_GROUP

/* The inputs and weights of one axis's outputs. */
typedef struct float_axis {
    int32_t *starts; /* each output's first input, */
    int32_t *counts; /* the number of inputs that it reads from there on, at least 1, */
    float *weights;  /* and its `most_taps` weights */
    int64_t most_taps;
} float_axis;

typedef struct float_resize {
    int32_t channels, height, width, out_height, out_width;
    int flags; /* FPC_RESIZE_... */
    const fpc_kernels *kernels;
    float_axis along, down;
    const float **taps;
    float *wide;    /* ROWS rows of bytes as floats */
    float *columns; /* ROWS rows of the input, transposed: each column's ROWS values follow each other */
    float *lines;   /* the same rows resized, transposed, in the order of a row of the result */
    float *passed;  /* all rows resized; a multiple of ROWS */
    float *row;     /* a row of the result */
    int64_t values; /* of a row of the result, all channels */
    int64_t stride; /* from one row in `passed` to the next */
} float_resize;

/* area_pixel_compute_scale: the size of an output, in inputs. */
static float scale_of(int32_t inputs, int32_t outputs) { return (float)inputs / (float)outputs; }

/* The distance beyond which the filter is 0. */
static float support_of(float scale) { return scale >= 1.0f ? scale : 1.0f; }

/* The most inputs of an output. */
static int64_t most_taps(int32_t inputs, int32_t outputs) {
    return (int64_t)ceilf(support_of(scale_of(inputs, outputs))) * 2 + 1;
}

/* _compute_indices_min_size_weights_aa, with its conversions between float and double. False if an output would read no
 * input, which should be impossible. */
static bool find_taps(float_axis *axis, int32_t inputs, int32_t outputs) {
    const float scale = scale_of(inputs, outputs), support = support_of(scale);
    const float inverse = scale >= 1.0f ? (float)(1.0 / (double)scale) : 1.0f;
    for (int32_t i = 0; i < outputs; i++) {
        const float center = (float)((double)scale * (i + 0.5));
        int64_t start = (int64_t)((double)(center - support) + 0.5), end = (int64_t)((double)(center + support) + 0.5);
        if (start < 0) start = 0;
        if (end > inputs) end = inputs;
        int64_t count = end - start;
        if (count > axis->most_taps) count = axis->most_taps;
        if (count < 1) return false;
        float *const weights = axis->weights + i * axis->most_taps;
        float total = 0.0f;
        for (int64_t k = 0; k < count; k++) {
            const float distance = fabsf((float)(((double)((float)(k + start) - center) + 0.5) * (double)inverse));
            weights[k] = distance < 1.0f ? 1.0f - distance : 0.0f;
            total += weights[k];
        }
        for (int64_t k = 0; k < count && total != 0.0f; k++) weights[k] /= total;
        axis->starts[i] = (int32_t)start;
        axis->counts[i] = (int32_t)count;
    }
    return true;
}

/* Adds up `count` values of each of the rows in `resize->taps`. */
static void weigh(const float_resize *resize, const float_axis *axis, int32_t output, int64_t count, float *out) {
    const int32_t taps = axis->counts[output];
    const fpc_weighing weighing = {resize->taps, axis->weights + output * axis->most_taps, taps, count};
    int32_t apart = taps - 1;
    if (resize->flags & FPC_RESIZE_FUSED) apart = 0;
    if (resize->flags & FPC_RESIZE_FUSED_REST) apart -= apart % 4;
    resize->kernels->weigh_in_order(&weighing, apart, out);
}

/* Resizes ROWS rows along themselves: one channel of them, or all of them if a pixel's channels follow each other. */
static void pass_along(const float_resize *resize, const float *const *rows, int32_t step, int32_t first, int32_t count,
                       int64_t out_step, int64_t out_channel) {
    resize->kernels->floats_to_columns(rows, (int64_t)resize->width * step, resize->columns);
    for (int32_t x = 0; x < resize->out_width; x++) {
        for (int32_t c = 0; c < count; c++) {
            for (int32_t k = 0; k < resize->along.counts[x]; k++) {
                resize->taps[k] = resize->columns + ((int64_t)(resize->along.starts[x] + k) * step + c) * ROWS;
            }
            float *line = resize->lines + (x * out_step + (first + c) * out_channel) * ROWS;
            weigh(resize, &resize->along, x, ROWS, line);
        }
    }
}

/* Lays out the buffers in `memory`, which may be NULL; returns the bytes needed. */
static int64_t lay_out(float_resize *resize, uint8_t *memory, int32_t step) {
    const int64_t floats = sizeof(float), ints = sizeof(int32_t);
    const int64_t padded_rows = ((int64_t)resize->height + ROWS - 1) / ROWS * ROWS;
    float_axis *const axes[] = {&resize->along, &resize->down};
    const int32_t outputs[] = {resize->out_width, resize->out_height};
    int64_t at = 0, most = 0;
    for (int i = 0; i < 2; i++) {
        axes[i]->starts = fpc_lay_out(memory, &at, outputs[i] * ints);
        axes[i]->counts = fpc_lay_out(memory, &at, outputs[i] * ints);
        axes[i]->weights = fpc_lay_out(memory, &at, outputs[i] * axes[i]->most_taps * floats);
        most = axes[i]->most_taps > most ? axes[i]->most_taps : most;
    }
    resize->values = (int64_t)resize->channels * resize->out_width;
    resize->stride = (resize->values + 2 * ROWS - 1) / ROWS * ROWS;
    resize->taps = fpc_lay_out(memory, &at, most * (int64_t)sizeof(float *));
    const int64_t row = (int64_t)resize->width * step;
    resize->wide = fpc_lay_out(memory, &at, resize->flags & FPC_RESIZE_FROM_BYTES ? row * ROWS * floats : 0);
    resize->columns = fpc_lay_out(memory, &at, (row + ROWS) * ROWS * floats);
    resize->lines = fpc_lay_out(memory, &at, (resize->values + ROWS) * ROWS * floats);
    resize->row = fpc_lay_out(memory, &at, resize->stride * floats);
    resize->passed = fpc_lay_out(memory, &at, padded_rows * resize->stride * floats);
    return at;
}

/* Points to ROWS rows of floats from row y on; the last row is repeated. */
static void find_rows(const float_resize *resize, const void *in, int64_t at, int64_t stride, int32_t y, int32_t step,
                      const float *rows[ROWS]) {
    const int64_t count = (int64_t)resize->width * step;
    for (int32_t i = 0; i < ROWS; i++) {
        const int64_t place = at + (y + i < resize->height ? y + i : resize->height - 1) * stride;
        if (!(resize->flags & FPC_RESIZE_FROM_BYTES)) {
            rows[i] = (const float *)in + place;
        } else if (i > 0 && y + i >= resize->height) {
            rows[i] = rows[i - 1];
        } else {
            float *const wide = resize->wide + i * count;
            resize->kernels->bytes_to_floats((const uint8_t *)in + place, count, wide);
            rows[i] = wide;
        }
    }
}

/* Writes `count` values of the result from `at` on. */
static void write_values(const float_resize *resize, const float *values, int64_t count, void *out, int64_t at) {
    if (resize->flags & FPC_RESIZE_TO_BYTES) {
        resize->kernels->round_floats(values, count, (uint8_t *)out + at);
    } else {
        memcpy((float *)out + at, values, (size_t)count * sizeof *values);
    }
}

static bool fits(const int32_t shape[5]) {
    for (int i = 0; i < 5; i++) {
        if (shape[i] < 1 || shape[i] > FPC_LARGEST_SIDE) return false;
    }
    return true;
}

int fpc_resize_floats(fpc_context *context, const void *in, const int64_t strides[3], const int32_t shape[5], int flags,
                      void *out) {
    float_resize resize = {.channels = shape[0],
                           .height = shape[1],
                           .width = shape[2],
                           .out_height = shape[3],
                           .out_width = shape[4],
                           .flags = flags,
                           .kernels = context->kernels};
    if (!fits(shape)) return FPC_BAD_OPERATION;
    const int32_t channels = resize.channels;
    const bool in_pixels = channels > 1 && strides[0] == 1 && strides[2] == channels;
    if (!in_pixels && strides[2] != 1) return FPC_BAD_OPERATION;
    const int32_t step = in_pixels ? channels : 1;
    resize.along.most_taps = most_taps(resize.width, resize.out_width);
    resize.down.most_taps = most_taps(resize.height, resize.out_height);
    if ((double)(resize.height + ROWS) * channels * resize.out_width > (double)(INT64_MAX >> 8)) return FPC_TOO_LARGE;
    uint8_t *memory = fpc_buffer_need(&context->chain.images[0], (size_t)lay_out(&resize, NULL, step));
    if (!memory) return FPC_NO_MEMORY;
    lay_out(&resize, memory, step);
    if (!find_taps(&resize.along, resize.width, resize.out_width)) return FPC_BAD_OPERATION;
    if (!find_taps(&resize.down, resize.height, resize.out_height)) return FPC_BAD_OPERATION;

    const bool out_pixels = flags & FPC_RESIZE_INTERLEAVED;
    const int64_t out_step = out_pixels ? channels : 1, out_channel = out_pixels ? 1 : resize.out_width;
    for (int32_t y = 0; y < resize.height; y += ROWS) {
        for (int32_t first = 0; first < channels; first += step) {
            const float *rows[ROWS];
            find_rows(&resize, in, first * strides[0], strides[1], y, step, rows);
            pass_along(&resize, rows, step, first, step, out_step, out_channel);
        }
        context->kernels->columns_to_floats(resize.lines, resize.values, resize.passed + y * resize.stride,
                                            resize.stride);
    }
    const int64_t width = resize.out_width, plane = width * resize.out_height;
    for (int32_t y = 0; y < resize.out_height; y++) {
        for (int32_t k = 0; k < resize.down.counts[y]; k++) {
            resize.taps[k] = resize.passed + (resize.down.starts[y] + k) * resize.stride;
        }
        weigh(&resize, &resize.down, y, resize.values, resize.row);
        if (out_pixels) {
            write_values(&resize, resize.row, resize.values, out, y * resize.values);
            continue;
        }
        for (int32_t c = 0; c < channels; c++) {
            write_values(&resize, resize.row + c * width, width, out, c * plane + y * width);
        }
    }
    fpc_context_trim(context);
    return FPC_OK;
}
