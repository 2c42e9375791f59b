/* float_resize.c: FPC_OP_FLOAT_RESIZE and fpc_resize_floats: torch's antialiased resize by floats, bilinear or bicubic
 * (UpSampleKernel.cpp: HelperInterpLinear and HelperInterpCubic, separable_upsample_generic_Nd_kernel_impl): first
 * along rows, then along columns. Products are added in the order of the inputs; which of them are rounded before,
 * torch's compiler has decided. FPC_WEIGH_GROUP rows are transposed for the pass along them, so that both passes add up
 * rows of values. It must be compiled without contraction of floating-point operations. */
#include <math.h>
#include <string.h>

#include "context.h"
#include "fastpipe_core_tensors.h"
#include "operations.h"

#define ROWS FPC_WEIGH_GROUP

/* The inputs and weights of one axis's outputs. */
typedef struct float_axis {
    int32_t inputs, outputs; /* of the whole image */
    int32_t origin, there;   /* the first input that is there, and how many are */
    int32_t first, count;    /* the first output that is made, and how many are */
    int32_t *starts;         /* for each of them the first input, counted from `origin` on, */
    int32_t *counts;         /* the number of inputs that it reads from there on, at least 1, */
    float *weights;          /* and its `most_taps` weights */
    int64_t most_taps;
} float_axis;

typedef struct float_resize {
    int32_t channels;
    int flags; /* FPC_RESIZE_... */
    const fpc_kernels *kernels;
    float_axis along, down;
    const float **taps;
    uint8_t *bytes; /* room for a row of bytes, */
    float *wide;    /* and ROWS rows of bytes as floats */
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
static float support_of(float scale, int flags) {
    const float reach = flags & FPC_RESIZE_CUBIC ? 2.0f : 1.0f;
    return scale >= 1.0f ? reach * scale : reach;
}

/* The most inputs of an output. */
static int64_t most_taps(int32_t inputs, int32_t outputs, int flags) {
    return (int64_t)ceilf(support_of(scale_of(inputs, outputs), flags)) * 2 + 1;
}

/* x * y + z, in one rounding or in two. */
static float multiply_add(float x, float y, float z, int flags) {
    return flags & FPC_RESIZE_FUSED_WEIGHTS ? fmaf(x, y, z) : x * y + z;
}

/* cubic_convolution1 and cubic_convolution2, for a = -0.5. */
static float cubic(float x, int flags) {
    if (x < 1.0f) {
        const float inner = multiply_add(1.5f, x, -2.5f, flags);
        return multiply_add(inner * x, x, 1.0f, flags);
    }
    const float inner = multiply_add(multiply_add(-0.5f, x, 2.5f, flags), x, -4.0f, flags);
    return x < 2.0f ? multiply_add(inner, x, 2.0f, flags) : 0.0f;
}

/* _compute_indices_min_size_weights_aa, with its conversions between float and double. False if an output would read an
 * input that isn't there, or none, which should be impossible. */
static bool find_taps(float_axis *axis, int flags) {
    const float scale = scale_of(axis->inputs, axis->outputs), support = support_of(scale, flags);
    const float inverse = scale >= 1.0f ? (float)(1.0 / (double)scale) : 1.0f;
    for (int32_t i = 0; i < axis->count; i++) {
        const float center = (float)((double)scale * (axis->first + i + 0.5));
        int64_t start = (int64_t)((double)(center - support) + 0.5), end = (int64_t)((double)(center + support) + 0.5);
        if (start < 0) start = 0;
        if (end > axis->inputs) end = axis->inputs;
        int64_t count = end - start;
        if (count > axis->most_taps) count = axis->most_taps;
        if (count < 1 || start < axis->origin || start + count > (int64_t)axis->origin + axis->there) return false;
        float *const weights = axis->weights + i * axis->most_taps;
        float total = 0.0f;
        for (int64_t k = 0; k < count; k++) {
            const float distance = fabsf((float)(((double)((float)(k + start) - center) + 0.5) * (double)inverse));
            const float linear = distance < 1.0f ? 1.0f - distance : 0.0f;
            weights[k] = flags & FPC_RESIZE_CUBIC ? cubic(distance, flags) : linear;
            total += weights[k];
        }
        for (int64_t k = 0; k < count && total != 0.0f; k++) weights[k] /= total;
        axis->starts[i] = (int32_t)(start - axis->origin);
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
    const int32_t outputs = resize->along.count;
    resize->kernels->floats_to_columns(rows, (int64_t)resize->along.there * step, resize->columns);
    for (int32_t x = 0; x < outputs; x++) {
        const int32_t place = resize->flags & FPC_RESIZE_HFLIP ? outputs - 1 - x : x;
        for (int32_t c = 0; c < count; c++) {
            for (int32_t k = 0; k < resize->along.counts[x]; k++) {
                resize->taps[k] = resize->columns + ((int64_t)(resize->along.starts[x] + k) * step + c) * ROWS;
            }
            float *line = resize->lines + (place * out_step + (first + c) * out_channel) * ROWS;
            weigh(resize, &resize->along, x, ROWS, line);
        }
    }
}

/* Passes ROWS rows on to `passed`, from row y on. */
static void keep_lines(const float_resize *resize, int32_t y) {
    resize->kernels->columns_to_floats(resize->lines, resize->values, resize->passed + y * resize->stride,
                                       resize->stride);
}

/* Computes row y of the result from the rows in `passed`. */
static void pass_down(const float_resize *resize, int32_t y) {
    for (int32_t k = 0; k < resize->down.counts[y]; k++) {
        resize->taps[k] = resize->passed + (resize->down.starts[y] + k) * resize->stride;
    }
    weigh(resize, &resize->down, y, resize->values, resize->row);
}

/* Lays out the buffers in `memory`, which may be NULL; returns the bytes needed. */
static int64_t lay_out(float_resize *resize, uint8_t *memory, int32_t step, bool from_bytes) {
    const int64_t floats = sizeof(float), ints = sizeof(int32_t);
    const int64_t padded_rows = ((int64_t)resize->down.there + ROWS - 1) / ROWS * ROWS;
    float_axis *const axes[] = {&resize->along, &resize->down};
    int64_t at = 0, most = 0;
    for (int i = 0; i < 2; i++) {
        axes[i]->most_taps = most_taps(axes[i]->inputs, axes[i]->outputs, resize->flags);
        axes[i]->starts = fpc_lay_out(memory, &at, axes[i]->count * ints);
        axes[i]->counts = fpc_lay_out(memory, &at, axes[i]->count * ints);
        axes[i]->weights = fpc_lay_out(memory, &at, axes[i]->count * axes[i]->most_taps * floats);
        most = axes[i]->most_taps > most ? axes[i]->most_taps : most;
    }
    resize->values = (int64_t)resize->channels * resize->along.count;
    resize->stride = (resize->values + 2 * ROWS - 1) / ROWS * ROWS;
    resize->taps = fpc_lay_out(memory, &at, most * (int64_t)sizeof(float *));
    const int64_t row = (int64_t)resize->along.there * step;
    resize->bytes = fpc_lay_out(memory, &at, from_bytes ? row + FPC_ROW_SLACK : 0);
    resize->wide = fpc_lay_out(memory, &at, from_bytes ? row * ROWS * floats : 0);
    resize->columns = fpc_lay_out(memory, &at, (row + ROWS) * ROWS * floats);
    resize->lines = fpc_lay_out(memory, &at, (resize->values + ROWS) * ROWS * floats);
    resize->row = fpc_lay_out(memory, &at, resize->stride * floats);
    resize->passed = fpc_lay_out(memory, &at, padded_rows * resize->stride * floats);
    return at;
}

/* Lays out the buffers in `memory` and finds the taps; `max_bytes` is 0 for no limit. */
static int begin(float_resize *resize, fpc_buffer *memory, int32_t step, bool from_bytes, int64_t max_bytes) {
    const double rows = (double)resize->down.there + ROWS;
    if (rows * resize->channels * resize->along.count > (double)(INT64_MAX >> 8)) return FPC_TOO_LARGE;
    const int64_t bytes = lay_out(resize, NULL, step, from_bytes);
    if ((max_bytes > 0 && bytes > max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *const data = fpc_buffer_need(memory, (size_t)bytes);
    if (!data) return FPC_NO_MEMORY;
    lay_out(resize, data, step, from_bytes);
    const bool found = find_taps(&resize->along, resize->flags) && find_taps(&resize->down, resize->flags);
    return found ? FPC_OK : FPC_BAD_OPERATION;
}

/* ---- floats or bytes in memory ---- */

/* Points to ROWS rows of floats from row y on; the last row is repeated. */
static void find_rows(const float_resize *resize, const void *in, int64_t at, int64_t stride, int32_t y, int32_t step,
                      const float *rows[ROWS]) {
    const int64_t count = (int64_t)resize->along.there * step;
    const int32_t height = resize->down.there;
    for (int32_t i = 0; i < ROWS; i++) {
        const int64_t place = at + (y + i < height ? y + i : height - 1) * stride;
        if (!(resize->flags & FPC_RESIZE_FROM_BYTES)) {
            rows[i] = (const float *)in + place;
        } else if (i > 0 && y + i >= height) {
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

/* An axis all of whose inputs are there, and all of whose outputs are made. */
static float_axis whole_axis(int32_t inputs, int32_t outputs) {
    return (float_axis){.inputs = inputs, .outputs = outputs, .there = inputs, .count = outputs};
}

int fpc_resize_floats(fpc_context *context, const void *in, const int64_t strides[3], const int32_t shape[5], int flags,
                      void *out) {
    if (!fits(shape)) return FPC_BAD_OPERATION;
    if (flags & FPC_RESIZE_CUBIC && flags & FPC_RESIZE_TO_BYTES)
        return FPC_BAD_OPERATION; /* which may be out of range */
    float_resize resize = {.channels = shape[0],
                           .flags = flags & ~FPC_RESIZE_HFLIP,
                           .kernels = context->kernels,
                           .along = whole_axis(shape[2], shape[4]),
                           .down = whole_axis(shape[1], shape[3])};
    const int32_t channels = resize.channels;
    const bool in_pixels = channels > 1 && strides[0] == 1 && strides[2] == channels;
    if (!in_pixels && strides[2] != 1) return FPC_BAD_OPERATION;
    const int32_t step = in_pixels ? channels : 1;
    const int status = begin(&resize, &context->chain.images[0], step, flags & FPC_RESIZE_FROM_BYTES, 0);
    if (status != FPC_OK) return status;
    const bool out_pixels = flags & FPC_RESIZE_INTERLEAVED;
    const int64_t width = resize.along.count, plane = width * resize.down.count;
    const int64_t out_step = out_pixels ? channels : 1, out_channel = out_pixels ? 1 : width;
    for (int32_t y = 0; y < resize.down.there; y += ROWS) {
        for (int32_t first = 0; first < channels; first += step) {
            const float *rows[ROWS];
            find_rows(&resize, in, first * strides[0], strides[1], y, step, rows);
            pass_along(&resize, rows, step, first, step, out_step, out_channel);
        }
        keep_lines(&resize, y);
    }
    for (int32_t y = 0; y < resize.down.count; y++) {
        pass_down(&resize, y);
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

/* ---- the operation ---- */

typedef struct float_stage {
    fpc_stage stage;
    float_resize resize;
    const fpc_normalizer *to_floats;
    bool has_passed;
} float_stage;

/* Reads all rows and resizes them along themselves. */
static int pull_all(float_stage *self) {
    fpc_stage *from = self->stage.from;
    float_resize *resize = &self->resize;
    const int64_t count = (int64_t)from->width * from->channels;
    for (int32_t y = 0; y < from->height; y += ROWS) {
        const float *rows[ROWS];
        for (int32_t i = 0; i < ROWS; i++) {
            rows[i] = resize->wide + i * count;
            if (y + i >= from->height) {
                rows[i] = rows[i - 1];
                continue;
            }
            const uint8_t *row;
            const int status = fpc_borrow_row(from, resize->bytes, &row);
            if (status != FPC_OK) return status;
            resize->kernels->normalize_interleaved(row, count, self->to_floats, from->channels,
                                                   resize->wide + i * count);
        }
        pass_along(resize, rows, from->channels, 0, from->channels, 1, resize->along.count);
        keep_lines(resize, y);
    }
    self->has_passed = true;
    return FPC_OK;
}

static int next_row_of_floats(fpc_stage *stage, uint8_t *row) {
    float_stage *self = (float_stage *)stage;
    const float_resize *resize = &self->resize;
    const int status = self->has_passed ? FPC_OK : pull_all(self);
    if (status != FPC_OK) return status;
    pass_down(resize, resize->flags & FPC_RESIZE_VFLIP ? stage->height - 1 - stage->given : stage->given);
    memcpy(row, resize->row, (size_t)resize->values * sizeof(float));
    return FPC_OK;
}

/* Sets one axis from an operation's numbers; `there` inputs are there. False if they don't fit. */
static bool set_axis(float_axis *axis, int32_t inputs, int32_t origin, int32_t there, int32_t outputs, int32_t first,
                     int32_t count) {
    if (inputs == 0 && origin == 0) inputs = there;
    *axis = (float_axis){inputs, outputs, origin, there, first, count, NULL, NULL, NULL, 0};
    const bool has_sides = inputs >= 1 && inputs <= FPC_LARGEST_SIDE && outputs >= 1 && outputs <= FPC_LARGEST_SIDE;
    return has_sides && origin >= 0 && there <= inputs - origin && first >= 0 && count >= 1 && count <= outputs - first;
}

int fpc_add_float_resize(fpc_chain *chain, const fpc_operation *operation) {
    const fpc_op_resize *given = &operation->resize;
    const fpc_box *window = &given->window;
    const int32_t known = FPC_RESIZE_FUSED | FPC_RESIZE_FUSED_REST | FPC_RESIZE_HFLIP | FPC_RESIZE_VFLIP;
    if (operation->flags & ~(known | FPC_RESIZE_MULTIPLY)) return FPC_BAD_OPERATION;
    float_stage *self = fpc_chain_add(chain, sizeof *self, next_row_of_floats);
    if (!self) return FPC_NO_MEMORY;
    fpc_stage *stage = &self->stage;
    float_resize *resize = &self->resize;
    resize->channels = stage->channels;
    resize->flags = operation->flags;
    resize->kernels = chain->kernels;
    if (stage->channels != 1 && stage->channels != 3) return FPC_BAD_OPERATION;
    if (!set_axis(&resize->along, given->in_width, given->in_left, stage->width, given->out_width, window->left,
                  window->width) ||
        !set_axis(&resize->down, given->in_height, given->in_top, stage->height, given->out_height, window->top,
                  window->height)) {
        return FPC_BAD_OPERATION;
    }
    const int status = begin(resize, &stage->slot->rows, stage->channels, true, chain->max_bytes);
    if (status != FPC_OK) return status;
    const int32_t arithmetic = resize->flags & FPC_RESIZE_MULTIPLY ? FPC_MULTIPLY : 0;
    const fpc_sink floats = {.dtype = FPC_FLOAT32, .flags = arithmetic};
    fpc_normalizer_make(&chain->to_floats, &floats, chain->kernels);
    self->to_floats = &chain->to_floats;
    stage->height = window->height;
    stage->width = window->width;
    stage->gives_floats = true;
    return FPC_OK;
}
