/* core_fuzzer.c: any bytes through the core, in all its instruction sets, under sanitizers.
 *
 * An input is a file followed by TAIL bytes that choose box, operations and sink. Of most PNGs and packed images the
 * checksums are made right first, or nothing would come past them. For each: the header is read, the job runs in an
 * instruction set of this machine and in the portable form, and both have to end alike, with the same pixels; what the
 * whole file gives, a box of it has to give too.
 *
 * For clang's libFuzzer (scripts/fuzz-core), or, with FPC_MAIN, a program of its own:
 *     core_fuzzer [-runs=N] [-seed=N] FILE...     each file as it is with some tails, then N mutations of them
 * which prints how many ran, how many were decoded, and a sum of all pixels, the same on every machine.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastpipe_core.h"
#include "fastpipe_core_tensors.h"

#define TAIL 16
#define MOST_OPERATIONS 5
#define MOST_PIXELS (1 << 17)

/* The two that have to agree; where the best instruction set is more than AVX2, half of all inputs have AVX2 first. */
static fpc_context *contexts[2], *best[2];
static uint64_t decoded, sum = 14695981039346656037u;

/* ---- numbers from the tail -------------------------------------------------------------------------------------- */

typedef struct source {
    uint64_t state;
} source;

static uint32_t next(source *from) {
    from->state = from->state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = from->state;
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    return (uint32_t)(x >> 32);
}

/* A number from 0 to count - 1. */
static int below(source *from, int count) { return count < 1 ? 0 : (int)(next(from) % (uint32_t)count); }

static bool one_in(source *from, int count) { return below(from, count) == 0; }

static int odd_number(source *from) {
    static const int numbers[] = {0, -1, 1, 7, 255, 256, 65535, 65536, 1 << 30, 0x7fffffff, -0x7fffffff - 1};
    return numbers[below(from, (int)(sizeof numbers / sizeof *numbers))];
}

/* ---- jobs ------------------------------------------------------------------------------------------------------- */

static uint8_t tables[768];

/* The memory sanitizer takes lanes of a vector that nobody looks at for uninitialised bytes that somebody uses. */
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define BEST_ISA FPC_ISA_PORTABLE
#endif
#endif
#ifndef BEST_ISA
#define BEST_ISA FPC_ISA_BEST
#endif
#define MOST_WEIGHTS 64
static float blur_weights[MOST_WEIGHTS];

typedef struct shape {
    int height, width, channels;
} shape;

static void add_resize(source *from, fpc_op_resize *resize, shape *now) {
    const int height = now->height, width = now->width;
    const int out_height = 1 + below(from, one_in(from, 8) ? 400 : 70), out_width = 1 + below(from, 70);
    fpc_box *window = &resize->window;
    resize->in_height = height;
    resize->in_width = width;
    resize->out_height = out_height;
    resize->out_width = out_width;
    window->top = one_in(from, 2) ? 0 : below(from, out_height);
    window->left = one_in(from, 2) ? 0 : below(from, out_width);
    window->height = window->top == 0 ? out_height : 1 + below(from, out_height - window->top);
    window->width = window->left == 0 ? out_width : 1 + below(from, out_width - window->left);
    resize->filter = below(from, 6);
    resize->pass_order = below(from, 4);
    resize->x1 = width;
    resize->y1 = height;
    if (one_in(from, 3)) {
        resize->x0 = below(from, width * 16) / 16.0;
        resize->y0 = below(from, height * 16) / 16.0;
        resize->x1 = resize->x0 + (1 + below(from, (int)((width - resize->x0) * 16))) / 16.0;
        resize->y1 = resize->y0 + (1 + below(from, (int)((height - resize->y0) * 16))) / 16.0;
    }
    if (one_in(from, 6)) { /* a part of a larger image */
        resize->in_top = below(from, 50);
        resize->in_left = below(from, 50);
        resize->in_height += resize->in_top + below(from, 50);
        resize->in_width += resize->in_left + below(from, 50);
        if (one_in(from, 2)) {
            resize->x0 = resize->in_left;
            resize->y0 = resize->in_top;
            resize->x1 = resize->in_left + width;
            resize->y1 = resize->in_top + height;
        }
    }
    now->height = window->height;
    now->width = window->width;
}

/* A coefficient of a warp that turns, scales and shifts by some fraction, or any number. */
static double odd_factor(source *from) {
    if (one_in(from, 30)) return (double)odd_number(from) * (one_in(from, 2) ? 1.0 : 1e20);
    return (below(from, 4097) - 2048) / (one_in(from, 2) ? 1024.0 : 999.0);
}

static void add_warp(source *from, fpc_op_warp *warp, shape *now) {
    now->height = warp->height = 1 + below(from, 90);
    now->width = warp->width = 1 + below(from, 90);
    static const int filters[] = {FPC_NEAREST, FPC_BILINEAR, FPC_BICUBIC};
    warp->filter = filters[below(from, 3)];
    for (int channel = 0; channel < 4; channel++) warp->fill[channel] = below(from, 256);
    double *c = warp->coefficients;
    for (int k = 0; k < 8; k++) c[k] = odd_factor(from);
    c[2] *= 40;
    c[5] *= 40;
    c[6] /= 60;
    c[7] /= 60;
    if (one_in(from, 3)) c[1] = c[3] = 0;
    if (one_in(from, 4)) c[0] = c[4] = 1;
}

static void add_pad(source *from, fpc_op_pad *pad, shape *now) {
    int32_t *const sides[] = {&pad->left, &pad->top, &pad->right, &pad->bottom};
    for (int side = 0; side < 4; side++) *sides[side] = one_in(from, 2) ? 0 : below(from, 40);
    pad->mode = below(from, 4);
    for (int channel = 0; channel < 4; channel++) pad->fill[channel] = below(from, 256);
    now->width += pad->left + pad->right;
    now->height += pad->top + pad->bottom;
}

static double blur_radius(source *from) {
    static const int most[] = {1, 3, 60, 70, 300};
    const int whole = below(from, most[below(from, 5)]);
    return one_in(from, 2) ? whole : whole + below(from, 1000) / 1000.0;
}

/* Makes one of the arguments, whatever it is, another number. */
static void spoil_argument(source *from, fpc_operation *operation) {
    if (operation->kind == FPC_OP_LUT || operation->kind == FPC_OP_TORCH_BLUR) return; /* an address has to be one */
    uint8_t *arguments = (uint8_t *)&operation->crop;
    if (one_in(from, 2)) {
        const double number = one_in(from, 2) ? 1e300 : -0.5;
        memcpy(arguments + sizeof number * (size_t)below(from, sizeof(fpc_op_warp) / sizeof number), &number,
               sizeof number);
    } else {
        const int32_t number = odd_number(from);
        memcpy(arguments + sizeof number * (size_t)below(from, sizeof(fpc_op_warp) / sizeof number), &number,
               sizeof number);
    }
}

static void add_operation(source *from, fpc_operation *operation, shape *now) {
    operation->kind = 1 + below(from, FPC_OP_COUNT - 1);
    switch (operation->kind) {
    case FPC_OP_CROP: {
        fpc_box *box = &operation->crop;
        box->top = below(from, now->height);
        box->left = below(from, now->width);
        now->height = box->height = 1 + below(from, now->height - box->top);
        now->width = box->width = 1 + below(from, now->width - box->left);
        break;
    }
    case FPC_OP_RESIZE: add_resize(from, &operation->resize, now); break;
    case FPC_OP_FLOAT_RESIZE: {
        static const int flags[] = {FPC_RESIZE_FUSED, FPC_RESIZE_FUSED_REST, FPC_RESIZE_HFLIP, FPC_RESIZE_VFLIP,
                                    FPC_RESIZE_MULTIPLY};
        add_resize(from, &operation->resize, now);
        operation->flags = flags[below(from, 5)] | flags[below(from, 5)];
        break;
    }
    case FPC_OP_CV_RESIZE:
        now->height = operation->cv_resize.height = 1 + below(from, 300);
        now->width = operation->cv_resize.width = 1 + below(from, 300);
        break;
    case FPC_OP_TRANSPOSE: {
        const int height = now->height;
        now->height = now->width;
        now->width = height;
        break;
    }
    case FPC_OP_PAD: add_pad(from, &operation->pad, now); break;
    case FPC_OP_LUT:
        operation->lut.table = tables;
        operation->lut.rgbx_pad = one_in(from, 2) ? FPC_LOOK_UP_RGBX_PAD : below(from, 256);
        break;
    case FPC_OP_GRAY: now->channels = operation->gray.channels = one_in(from, 2) ? 1 : 3; break;
    case FPC_OP_PERMUTE: {
        int32_t *channels = operation->permutation;
        const int turn = below(from, 3);
        for (int c = 0; c < 3; c++) channels[c] = (c + turn) % 3;
        if (one_in(from, 2)) channels[0] ^= channels[1], channels[1] ^= channels[0], channels[0] ^= channels[1];
        break;
    }
    case FPC_OP_SATURATION:
    case FPC_OP_CONTRAST:
    case FPC_OP_SHARPNESS: operation->blend.factor = odd_factor(from); break;
    case FPC_OP_HUE: operation->hue.shift = below(from, 256); break;
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: add_warp(from, &operation->warp, now); break;
    case FPC_OP_BOX_BLUR:
    case FPC_OP_GAUSSIAN_BLUR:
        operation->blur.x = blur_radius(from);
        operation->blur.y = one_in(from, 2) ? operation->blur.x : blur_radius(from);
        break;
    case FPC_OP_TORCH_BLUR: {
        fpc_op_torch_blur *blur = &operation->torch_blur;
        blur->weights = blur_weights;
        blur->columns = 2 * below(from, MOST_WEIGHTS / 4) + 1;
        blur->rows = one_in(from, 2) ? 1 : blur->columns;
        const float even = 1.0f / (float)blur->columns, down = 1.0f / (float)blur->rows;
        for (int i = 0; i < blur->columns; i++) blur_weights[i] = even;
        for (int i = 0; i < blur->rows; i++) blur_weights[blur->columns + i] = down;
        if (one_in(from, 8)) blur_weights[below(from, MOST_WEIGHTS)] = (float)odd_factor(from);
        break;
    }
    case FPC_OP_TENSOR_GRAY:
        now->channels = operation->gray.channels = one_in(from, 2) ? 1 : 3;
        operation->flags = below(from, 4);
        break;
    case FPC_OP_TENSOR_SATURATION:
    case FPC_OP_TENSOR_CONTRAST:
    case FPC_OP_TENSOR_SHARPNESS:
        operation->blend.factor = odd_factor(from);
        operation->flags = below(from, 4);
        break;
    case FPC_OP_TENSOR_HUE: operation->tensor_hue.by = (float)(below(from, 1025) - 512) / 1024; break;
    case FPC_OP_TENSOR_AUTOCONTRAST: operation->flags = below(from, 4); break;
    case FPC_OP_TENSOR_SAMPLE: {
        fpc_op_sample *sample = &operation->sample;
        now->height = sample->height = 1 + below(from, 60);
        now->width = sample->width = 1 + below(from, 90);
        sample->filter = one_in(from, 2) ? FPC_NEAREST : FPC_BILINEAR;
        sample->filled = one_in(from, 2);
        for (int k = 0; k < 6; k++)
            sample->theta[k] = ((float)below(from, 2001) - 1000.0f) / (k < 4 ? 20000.0f : 500.0f);
        for (int c = 0; c < 3; c++) sample->fill[c] = (float)below(from, 511) * 0.5f;
        operation->flags = below(from, 4);
        break;
    }
    default: break;
    }
    if (one_in(from, 24)) spoil_argument(from, operation);
    const int kind = odd_number(from);
    /* An address would be whatever stands there. */
    if (one_in(from, 60) && kind != FPC_OP_LUT && kind != FPC_OP_TORCH_BLUR) {
        if (operation->kind == FPC_OP_LUT) operation->lut.table = NULL;
        if (operation->kind == FPC_OP_TORCH_BLUR) operation->torch_blur.weights = NULL;
        operation->kind = kind;
    }
}

/* Memory for the sink that ends with its last byte, so that a sanitizer sees what is written after it. */
static uint8_t *add_sink(source *from, fpc_sink *sink, shape now, size_t *size) {
    static const int sizes[] = {0, 1, 4, 2, 2};
    sink->dtype = 1 + below(from, 4);
    const int64_t element = sizes[sink->dtype];
    sink->height = now.height;
    sink->width = now.width;
    sink->channels = now.channels;
    static const int rules[] = {0, FPC_NORMALIZE, FPC_MULTIPLY, FPC_NORMALIZE | FPC_MULTIPLY,
                                FPC_NORMALIZE | FPC_BY_FACTOR};
    sink->flags = sink->dtype != FPC_UINT8 ? rules[below(from, 5)] : 0;
    for (int channel = 0; channel < 3; channel++) {
        sink->mean[channel] = (float)below(from, 256) / 256;
        sink->std[channel] = (float)(1 + below(from, 256)) / 256;
    }
    const int64_t height = now.height, width = now.width, channels = now.channels;
    const int64_t gap = one_in(from, 3) ? element * below(from, 9) : 0;
    *size = (size_t)(height * width * channels * element + gap * height * channels);
    if (channels == 3 && one_in(from, 3)) { /* as Pillow's images have it */
        const int64_t apart = one_in(from, 3) ? below(from, 9) : 0;
        sink->channels = 4;
        sink->dtype = FPC_UINT8;
        sink->flags = 0;
        sink->channel_stride = 1;
        sink->column_stride = 4;
        sink->row_stride = 4 * width + apart;
        *size = (size_t)(sink->row_stride * (height - 1) + 4 * width);
        return *size > (size_t)MOST_PIXELS * 16 ? NULL : malloc(*size);
    }
    switch (below(from, 3)) {
    case 0: /* (H, W, C) */
        sink->channel_stride = element;
        sink->column_stride = element * channels;
        sink->row_stride = element * channels * width + gap;
        break;
    case 1: /* (C, H, W) */
        sink->column_stride = element;
        sink->row_stride = element * width + gap;
        sink->channel_stride = sink->row_stride * height;
        break;
    default: /* (W, H, C) */
        *size = (size_t)(height * width * channels * element);
        sink->channel_stride = element;
        sink->row_stride = element * channels;
        sink->column_stride = element * channels * height;
        break;
    }
    if (*size == 0 || *size > (size_t)MOST_PIXELS * 16) return NULL;
    return malloc(*size);
}

static void flip_sink(fpc_sink *sink, uint8_t *memory, bool rows, bool columns) {
    sink->data = memory;
    if (rows) {
        sink->data = (uint8_t *)sink->data + sink->row_stride * (sink->height - 1);
        sink->row_stride = -sink->row_stride;
    }
    if (columns && sink->channels != 4) {
        sink->data = (uint8_t *)sink->data + sink->column_stride * (sink->width - 1);
        sink->column_stride = -sink->column_stride;
    }
}

static void fail(const char *text, int one, int other) {
    fprintf(stderr, "core_fuzzer: %s: %s / %s\n", text, fpc_status_text(one), fpc_status_text(other));
    abort();
}

static void add_to_sum(const uint8_t *bytes, size_t size) {
    for (size_t k = 0; k < size; k++) sum = (sum ^ bytes[k]) * 1099511628211u;
}

/* The bytes as pixels of one, three or four channels, also of three with a byte between pixels that isn't there after
 * the last one. False where there are too few bytes. */
static bool add_pixels(source *from, uint8_t *data, size_t length, fpc_pixels *pixels, fpc_job *job, shape *now) {
    static const int kinds[][2] = {{1, 1}, {3, 3}, {3, 4}, {4, 4}, {4, 4}, {4, 5}};
    const int *kind = kinds[below(from, 6)], channels = kind[0], step = kind[1];
    const int width = 1 + below(from, length < 300 ? (int)length : 300) / step;
    const int64_t stride = (int64_t)width * step + (one_in(from, 3) ? below(from, 9) : 0);
    const int64_t last = (int64_t)width * step - (step - channels); /* bytes of the last row */
    if ((int64_t)length < last) return false;
    int64_t height = ((int64_t)length - last) / stride + 1;
    if (height > 200) height = 200;
    const int64_t start = (int64_t)length - (stride * (height - 1) + last); /* they end with the last byte */
    if (step == 4 && channels == 4 && one_in(from, 2)) {
        for (int64_t y = 0; y < height; y++) {
            for (int64_t x = 0; x < width; x++) data[start + y * stride + 4 * x + 3] = data[start + 3];
        }
    }
    *pixels = (fpc_pixels){data + start, stride, step, 1, (int32_t)height, width, channels};
    *now = (shape){(int)height, width, channels == 1 ? 1 : 3};
    job->pixels = pixels;
    job->data = NULL;
    job->length = 0;
    if (one_in(from, 2)) {
        job->box.top = below(from, now->height);
        job->box.left = below(from, now->width);
        job->box.height = now->height = 1 + below(from, now->height - job->box.top);
        job->box.width = now->width = 1 + below(from, now->width - job->box.left);
        if (one_in(from, 20)) job->box.left = odd_number(from);
    }
    return true;
}

/* Runs the job in both instruction sets, and the whole file where a box of it was decoded. */
static void run(fpc_job *job, source *from, shape now) {
    fpc_sink sink = {0};
    size_t size;
    uint8_t *memory[2] = {add_sink(from, &sink, now, &size), NULL};
    if (memory[0] == NULL) return;
    memory[1] = malloc(size);
    if (memory[1] == NULL) abort();
    memset(memory[0], 0xA5, size);
    memset(memory[1], 0xA5, size);
    const bool rows = one_in(from, 4), columns = one_in(from, 4);
    if (one_in(from, 30)) sink.height += one_in(from, 2) ? 1 : -1;
    if (one_in(from, 30)) sink.width += one_in(from, 2) ? 1 : -1;
    const bool same_size = sink.height == now.height && sink.width == now.width;
    int statuses[2];
    for (int k = 0; k < 2; k++) {
        job->sink = sink;
        flip_sink(&job->sink, memory[k], rows && same_size, columns && same_size);
        statuses[k] = fpc_run(contexts[k], job);
        if (statuses[k] != job->status) fail("the status returned isn't the job's", statuses[k], job->status);
        if (statuses[k] < 0 || statuses[k] >= FPC_STATUS_COUNT) fail("no status", statuses[k], 0);
    }
    if (statuses[0] != statuses[1]) fail("the instruction sets end differently", statuses[0], statuses[1]);
    sum = (sum ^ (uint64_t)statuses[0]) * 1099511628211u;
    if (statuses[0] == FPC_OK) {
        if (memcmp(memory[0], memory[1], size) != 0) fail("the instruction sets' pixels differ", 0, 0);
        if (!same_size) fail("a sink of another size was filled", 0, 0);
        add_to_sum(memory[0], size);
        decoded++;
    }
    free(memory[0]);
    free(memory[1]);
}

/* Where the whole file is decoded, so is any box of it, with the same pixels. (Where it isn't, a box above the damage
 * may be: tests/fuzz/core.py compares that with Pillow.) */
static void compare_with_whole(const fpc_job *boxed, const fpc_header *header) {
    const size_t row = (size_t)header->width * 3, box_row = (size_t)boxed->box.width * 3;
    uint8_t *whole = malloc(row * (size_t)header->height), *part = malloc(box_row * (size_t)boxed->box.height);
    if (whole == NULL || part == NULL) abort();
    fpc_job job = *boxed;
    job.operation_count = 0;
    job.operations = NULL;
    job.sink = (fpc_sink){.data = part,
                          .row_stride = (int64_t)box_row,
                          .column_stride = 3,
                          .channel_stride = 1,
                          .height = boxed->box.height,
                          .width = boxed->box.width,
                          .channels = 3,
                          .dtype = FPC_UINT8};
    const int box_status = fpc_run(contexts[0], &job);
    job.box.top = job.box.left = job.box.height = job.box.width = 0;
    job.sink.data = whole;
    job.sink.row_stride = (int64_t)row;
    job.sink.height = header->height;
    job.sink.width = header->width;
    const int status = fpc_run(contexts[0], &job);
    if (status == FPC_OK && box_status != FPC_OK) fail("a box ends otherwise than its file", box_status, status);
    if (status == FPC_OK) {
        for (int y = 0; y < boxed->box.height; y++) {
            const uint8_t *in_whole = whole + row * (size_t)(boxed->box.top + y) + (size_t)boxed->box.left * 3;
            if (memcmp(in_whole, part + box_row * (size_t)y, box_row) != 0) fail("a box has other pixels", 0, 0);
        }
    }
    free(whole);
    free(part);
}

/* Makes each chunk's checksum right. */
static void mend_checksums(uint8_t *data, size_t length) {
    for (size_t at = 8; length - at >= 12;) {
        const size_t size =
            (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (size > length - at - 12) return;
        uint32_t crc = ~0u;
        for (size_t i = at + 4; i < at + 8 + size; i++) {
            crc ^= data[i];
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        }
        crc = ~crc;
        for (int i = 0; i < 4; i++) data[at + 8 + size + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + size;
    }
}

/* Finds any points, of numbers or NaN, in planes of any size, and changes and mixes planes, by all instruction sets
 * alike. What is read and written ends with its memory. */
static void change_planes(source *from, const uint8_t *input, size_t size) {
    const int32_t channels = one_in(from, 2) ? 1 : 3, height = 1 + below(from, 40), width = 1 + below(from, 70);
    const int32_t rows = below(from, 20), columns = below(from, 300);
    const size_t count = (size_t)(channels * height * width), points = (size_t)(rows * columns);
    uint8_t *image = malloc(count), *out[2] = {malloc(count), malloc(count)};
    float *grid = malloc(2 * points * sizeof *grid + 1), theta[6], fill[3];
    uint8_t *found[2] = {malloc((size_t)channels * points + 1), malloc((size_t)channels * points + 1)};
    if (!image || !out[0] || !out[1] || !grid || !found[0] || !found[1]) abort();
    for (size_t k = 0; k < count; k++) image[k] = size ? input[k % size] : 0;
    const bool wild = one_in(from, 8);
    for (size_t k = 0; k < 2 * points; k++) grid[k] = (float)below(from, 4001) / 1600.0f - 1.25f;
    if (wild && size) {
        for (size_t k = 0; k < 2 * points * sizeof *grid; k++) ((uint8_t *)grid)[k] = input[k % size];
    }
    for (int k = 0; k < 6; k++) theta[k] = ((float)below(from, 2001) - 1000.0f) / (k < 4 ? 20000.0f : 500.0f);
    for (int c = 0; c < 3; c++) fill[c] = (float)below(from, 511) * 0.5f;
    const int32_t shape[6] = {1, channels, height, width, rows, columns};
    const int flags = below(from, 4) | (one_in(from, 2) ? FPC_GRID_SAMPLE_V2 : 0);
    const float *const points_of = one_in(from, 2) ? grid : NULL, *const fills = one_in(from, 2) ? fill : NULL;
    for (int k = 0; k < 2; k++) {
        if (fpc_grid_sample_planes(contexts[k], image, shape, theta, points_of, fills, flags, found[k]) != FPC_OK)
            abort();
    }
    if (memcmp(found[0], found[1], (size_t)channels * points)) fail("points are sampled otherwise", 0, 0);
    fpc_operation operation = {.kind = FPC_OP_EQUALIZE + below(from, FPC_OP_COUNT - FPC_OP_EQUALIZE),
                               .flags = below(from, 4)};
    operation.blend.factor = below(from, 200) / 64.0;
    memset(out[0], 0, count), memset(out[1], 0, count);
    for (int k = 0; k < 2; k++) (void)fpc_change_planes(contexts[k], &operation, image, shape, out[k]);
    if (memcmp(out[0], out[1], count)) fail("planes are changed otherwise", 0, 0);
    const uint8_t *const images[3] = {image, out[0], image};
    const float weights[3] = {0.25f, 0.5f, 0.125f + (float)below(from, 1000) / 8000.0f};
    if (fpc_mix_planes(contexts[0], images, weights, 3, (int64_t)count, out[1]) != FPC_OK) abort();
    if (fpc_mix_planes(contexts[1], images, weights, 3, (int64_t)count, image) != FPC_OK) abort(); /* in place */
    if (memcmp(out[1], image, count)) fail("images are mixed otherwise", 0, 0);
    free(image), free(out[0]), free(out[1]), free(grid), free(found[0]), free(found[1]);
}

/* Resizes floats of any layout and size, by all instruction sets alike. Memory ends with the image and the result. */
static void resize_floats(source *from) {
    const int32_t channels = 1 + below(from, 4), height = 1 + below(from, 70), width = 1 + below(from, 70);
    const int32_t rows = 1 + below(from, 90), columns = 1 + below(from, 90);
    const size_t count = (size_t)(channels * height * width), results = (size_t)(channels * rows * columns);
    float *image = malloc(count * sizeof *image), *out[2];
    for (int k = 0; k < 2; k++) out[k] = malloc(results * sizeof *image);
    if (!image || !out[0] || !out[1]) abort();
    for (size_t k = 0; k < count; k++) image[k] = (float)(below(from, 4001) - 2000) / 77.0f;
    const bool pixels = channels > 1 && one_in(from, 2);
    const int64_t strides[3] = {pixels ? 1 : (int64_t)height * width, pixels ? (int64_t)channels * width : width,
                                pixels ? channels : 1};
    const int32_t shape[5] = {channels, height, width, rows, columns};
    const int of_cubic[] = {0, FPC_RESIZE_CUBIC, FPC_RESIZE_CUBIC | FPC_RESIZE_FUSED_WEIGHTS}, cubic = below(from, 3);
    const int flags = below(from, cubic ? 16 : 32) | of_cubic[cubic]; /* no cubic result is of bytes */
    memset(out[0], 0, results * sizeof *image), memset(out[1], 0, results * sizeof *image);
    for (int k = 0; k < 2; k++) {
        if (fpc_resize_floats(contexts[k], image, strides, shape, flags, out[k]) != FPC_OK) abort();
    }
    if (memcmp(out[0], out[1], results * sizeof *image)) fail("floats are resized otherwise", 0, 0);
    free(image), free(out[0]), free(out[1]);
}

/* Turns the hues of floats or bytes of any layout, by all instruction sets alike. */
static void adjust_hues(source *from) {
    const int32_t shape[3] = {below(from, 3), 1 + below(from, 40), 1 + below(from, 300)};
    const int flags = below(from, 16);
    const size_t size = flags & FPC_HUE_FLOATS ? sizeof(float) : 1,
                 count = (size_t)(3 * shape[0] * shape[1] * shape[2]);
    uint8_t *image = malloc(count * size + 1), *out[2] = {malloc(count * size + 1), malloc(count * size + 1)};
    if (!image || !out[0] || !out[1]) abort();
    const int most = one_in(from, 4) ? 257 : 256;
    for (size_t k = 0; k < count; k++) {
        const float value = (float)below(from, most) / 255.0f;
        if (size == 1) image[k] = (uint8_t)below(from, 256);
        if (size > 1) memcpy(image + k * size, &value, size);
    }
    const float by = (float)(below(from, 1025) - 512) / 1024;
    int found[2];
    for (int k = 0; k < 2; k++) found[k] = fpc_adjust_hue(contexts[k], image, shape, flags, by, out[k]);
    if (found[0] != found[1] || (most == 256 && found[0] != FPC_OK))
        fail("hues are refused otherwise", found[0], found[1]);
    if (found[0] == FPC_OK && memcmp(out[0], out[1], count * size)) fail("hues are turned otherwise", 0, 0);
    free(image), free(out[0]), free(out[1]);
}

/* Blurs floats of any size by any kernel, by all instruction sets alike. Memory ends with the image and the result. */
static void blur_floats(source *from) {
    const int32_t shape[3] = {below(from, 4), 1 + below(from, 40), 1 + below(from, 90)};
    const int32_t kernel[2] = {1 + below(from, 12), 1 + below(from, 12)};
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]), weights = (size_t)(kernel[0] + kernel[1]);
    float *image = malloc(count * sizeof *image + 1), *factors = malloc(weights * sizeof *factors), *out[2];
    for (int k = 0; k < 2; k++) out[k] = malloc(count * sizeof *image + 1);
    if (!image || !factors || !out[0] || !out[1]) abort();
    for (size_t k = 0; k < count; k++) image[k] = (float)(below(from, 4001) - 2000) / 77.0f;
    for (size_t k = 0; k < weights; k++) factors[k] = (float)below(from, 1000) / 1777.0f;
    const bool fits = kernel[0] / 2 < shape[2] && kernel[1] / 2 < shape[1] && kernel[0] & kernel[1] & 1;
    for (int k = 0; k < 2; k++) {
        const int status = fpc_blur_floats(contexts[k], image, shape, factors, kernel, out[k]);
        if (status != (fits ? FPC_OK : FPC_BAD_OPERATION)) fail("floats are refused otherwise", status, fits);
    }
    if (fits && memcmp(out[0], out[1], count * sizeof *image)) fail("floats are blurred otherwise", 0, 0);
    free(image), free(factors), free(out[0]), free(out[1]);
}

/* Draws any bytes, or any of COCO's characters, as run lengths, and turns planes by all instruction sets alike. */
static void draw_masks(source *from, const uint8_t *input, size_t size) {
    const int32_t planes = 1 + below(from, 3), height = 1 + below(from, 90), width = 1 + below(from, 90);
    const int any = below(from, 2);
    const size_t length = (size_t)below(from, size < 200 ? (int)size + 1 : 200);
    const size_t count = (size_t)(planes * height * width), turned = any ? (size_t)(height * width) : count;
    uint8_t *text = malloc(length + 1), *mask = malloc(count), *out[2] = {malloc(turned), malloc(turned)};
    if (!text || !mask || !out[0] || !out[1]) abort();
    uint8_t *end = text + 1; /* so that the text ends with its memory */
    memcpy(end, input, length);
    if (one_in(from, 2)) {
        for (size_t k = 0; k < length; k++) end[k] = (uint8_t)('0' + end[k] % 64);
    }
    memset(mask, 7, count);
    const int status = fpc_draw_runs(end, length, mask, (size_t)below(from, (int)count + 1));
    if (status < 0 || status >= FPC_STATUS_COUNT) fail("no status", status, 0);
    const int32_t shape[3] = {planes, height, width};
    for (int k = 0; k < 2; k++) {
        if (fpc_turn_planes(contexts[k], mask, shape, any, out[k]) != FPC_OK) abort();
    }
    if (memcmp(out[0], out[1], turned)) fail("planes are turned otherwise", 0, 0);
    free(text), free(mask), free(out[0]), free(out[1]);
}

/* The file, or a box of it, as samples of 16 bits, in memory that ends with its last sample. */
static void decode_samples(source *from, const uint8_t *data, size_t length, const fpc_header *header) {
    fpc_box box = {0, 0, header->height, header->width};
    if (one_in(from, 2)) {
        box.top = below(from, header->height);
        box.left = below(from, header->width);
        box.height = 1 + below(from, header->height - box.top);
        box.width = 1 + below(from, header->width - box.left);
    }
    if (one_in(from, 50)) box.left = odd_number(from);
    const int channels = one_in(from, 8) ? below(from, 5) : header->components == 3 ? 3 : 1;
    const int64_t gap = one_in(from, 4) ? 2 * below(from, 5) : 0;
    const int64_t row = 2 * (int64_t)box.width * channels + gap;
    const size_t size = (size_t)(row * box.height - gap);
    const int64_t max_bytes = one_in(from, 20) ? 1 + below(from, 100000) : 64 << 20;
    uint16_t *out[2];
    int statuses[2];
    for (int k = 0; k < 2; k++) {
        out[k] = malloc(size ? size : 1);
        if (out[k] == NULL) abort();
        memset(out[k], 0xA5, size);
        statuses[k] = fpc_decode_uint16(contexts[k], data, length, &box, channels, max_bytes, out[k], row);
    }
    if (statuses[0] != statuses[1]) fail("the instruction sets end differently", statuses[0], statuses[1]);
    sum = (sum ^ (uint64_t)statuses[0]) * 1099511628211u;
    if (statuses[0] == FPC_OK) {
        if (memcmp(out[0], out[1], size)) fail("the instruction sets' samples differ", 0, 0);
        add_to_sum((const uint8_t *)out[0], size);
        decoded++;
    }
    free(out[0]), free(out[1]);
}

#include "packed_fuzzer.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (contexts[1] == NULL) {
        best[0] = fpc_context_new(BEST_ISA);
        best[1] =
            BEST_ISA == FPC_ISA_BEST && fpc_best_isa() == FPC_ISA_AVX512 ? fpc_context_new(FPC_ISA_AVX2) : best[0];
        contexts[1] = fpc_context_new(FPC_ISA_PORTABLE);
        if (best[0] == NULL || best[1] == NULL || contexts[1] == NULL) abort();
        for (int k = 0; k < 768; k++) tables[k] = (uint8_t)(k * 167 + 13);
    }
    if (size < TAIL) return 0;
    source from = {0};
    for (int k = 0; k < TAIL; k++) from.state = (from.state << 5 | from.state >> 59) ^ input[size - TAIL + (size_t)k];
    contexts[0] = best[from.state & 1];
    source other = from; /* the jobs below stay the same ones */
    source masks = from, hues = from, blurs = from;
    if (one_in(&masks, 4)) draw_masks(&masks, input, size);
    if (one_in(&other, 4)) change_planes(&other, input, size);
    if (one_in(&other, 8)) resize_floats(&other);
    if (one_in(&hues, 16)) adjust_hues(&hues);
    if (one_in(&blurs, 16)) blur_floats(&blurs);
    /* A copy that ends with the file's last byte, so that a sanitizer sees what is read after it. */
    size_t length = size - TAIL;
    const bool is_packed = length >= 4 && memcmp(input,
                                                 "\x89"
                                                 "FPJ",
                                                 4) == 0,
               made_up = one_in(&other, is_packed ? 2 : 16);
    static uint8_t packed[PACKED_ROOM];
    if (made_up) length = make_packed(&other, packed);
    uint8_t *data = malloc(length == 0 ? 1 : length);
    if (data == NULL) abort();
    memcpy(data, made_up ? packed : input, length);
    if (length > 20 && memcmp(data, "\x89PNG", 4) == 0 && !one_in(&from, 8)) mend_checksums(data, length);
    if (is_packed && !made_up && !one_in(&from, 8)) mend_packed(data, length);
    if (made_up || is_packed || one_in(&other, 4)) pack_and_unpack(&other, data, length);
    if ((made_up || is_packed) && one_in(&other, 4)) read_by_parts(&other, data, length);

    fpc_header header;
    const int status = fpc_read_header(data, length, &header);
    if (fpc_jpeg_end(data, length) > (int64_t)length) abort();
    const bool is_small = status == FPC_OK && (int64_t)header.height * header.width <= MOST_PIXELS;
    if (is_small && (header.bit_depth == 16 || one_in(&other, 16))) decode_samples(&other, data, length, &header);
    fpc_job job = {.data = data, .length = (int64_t)length, .max_pixels = MOST_PIXELS, .max_bytes = 64 << 20};
    fpc_operation operations[MOST_OPERATIONS] = {{0}};
    fpc_pixels pixels;
    shape now = {16, 16, 3};
    bool boxed = false;
    if (one_in(&from, 4) && length > 0) {
        if (!add_pixels(&from, data, length, &pixels, &job, &now)) goto end;
    } else {
        if (status == FPC_OK && (int64_t)header.height * header.width <= MOST_PIXELS && header.height > 0) {
            now.height = header.height;
            now.width = header.width;
            if (!one_in(&from, 3)) {
                job.box.top = below(&from, now.height);
                job.box.left = below(&from, now.width);
                job.box.height = now.height = 1 + below(&from, now.height - job.box.top);
                job.box.width = now.width = 1 + below(&from, now.width - job.box.left);
                boxed = one_in(&from, 2);
            }
            if (one_in(&from, 50)) job.box.top = odd_number(&from), boxed = false;
            if (one_in(&from, 50)) {
                job.box.width = odd_number(&from), boxed = false;
                if (job.box.height > 0 && (job.box.width == 1 || job.box.width == 7 || job.box.width == 255))
                    now.width = job.box.width; /* it may be inside */
            }
        }
        if (one_in(&from, 6)) job.indices = now.channels = 1, boxed = false;
        if (one_in(&from, 30)) job.max_bytes = 1 + below(&from, 100000), boxed = false;
        if (one_in(&from, 50)) job.length = below(&from, (int)length + 1), boxed = false;
    }
    job.operations = operations;
    job.operation_count = one_in(&from, 2) ? 0 : below(&from, MOST_OPERATIONS + 1);
    for (int k = 0; k < job.operation_count; k++) {
        add_operation(&from, &operations[k], &now);
        if (now.height < 1 || now.width < 1 || (int64_t)now.height * now.width > MOST_PIXELS) goto end;
    }
    run(&job, &from, now);
    if (boxed) compare_with_whole(&job, &header);
end:
    free(data);
    return 0;
}

/* ---- a program of its own --------------------------------------------------------------------------------------- */

#ifdef FPC_MAIN

typedef struct file {
    uint8_t *data;
    size_t size;
} file;

static file read_file(const char *path) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fprintf(stderr, "core_fuzzer: can't open %s\n", path);
        exit(2);
    }
    fseek(stream, 0, SEEK_END);
    const size_t size = (size_t)ftell(stream);
    rewind(stream);
    file found = {malloc(size + 1), size};
    if (found.data == NULL || fread(found.data, 1, size, stream) != size) abort();
    fclose(stream);
    return found;
}

static void run_with_tail(source *from, uint8_t *data, size_t size) {
    for (int k = 0; k < TAIL; k++) data[size + (size_t)k] = (uint8_t)next(from);
    LLVMFuzzerTestOneInput(data, size + TAIL);
}

/* Writes a mutation of a file to `to`, which has room for twice the file. */
static size_t mutate(source *from, const file *base, uint8_t *to) {
    size_t size = base->size;
    memcpy(to, base->data, size);
    for (int count = 1 + below(from, 3); count > 0 && size > 8; count--) {
        /* Half of them at the front, where the segments are. */
        const size_t at = (size_t)below(from, (int)(one_in(from, 2) && size > 700 ? 700 : size));
        const size_t left = size - at;
        const size_t length = 1 + (size_t)below(from, (int)(left < 64 ? left : 64)) % left;
        switch (below(from, 7)) {
        case 0: to[at] ^= (uint8_t)(1u << below(from, 8)); break;
        case 1: to[at] = (uint8_t)next(from); break;
        case 2: to[at] = one_in(from, 2) ? 0xff : (uint8_t)(0xc0 + below(from, 0x40)); break;
        case 3: /* cut out */
            memmove(to + at, to + at + length, left - length);
            size -= length;
            break;
        case 4: /* twice */
            if (size + length > base->size * 2) break;
            memmove(to + at + length, to + at, left);
            size += length;
            break;
        case 5:
            for (size_t k = 0; k < length; k++) to[at + k] = (uint8_t)next(from);
            break;
        default: size = one_in(from, 4) ? at : size; break;
        }
    }
    return size;
}

int main(int count, char **arguments) {
    long runs = 1000;
    source from = {1};
    file *files = malloc(sizeof *files * (size_t)(count + 1));
    int file_count = 0;
    if (files == NULL) abort();
    for (int k = 1; k < count; k++) {
        if (strncmp(arguments[k], "-runs=", 6) == 0) {
            runs = strtol(arguments[k] + 6, NULL, 10);
        } else if (strncmp(arguments[k], "-seed=", 6) == 0) {
            from.state = strtoull(arguments[k] + 6, NULL, 10);
        } else {
            files[file_count++] = read_file(arguments[k]);
        }
    }
    size_t largest = 0;
    for (int k = 0; k < file_count; k++) largest = files[k].size > largest ? files[k].size : largest;
    uint8_t *input = malloc(largest * 2 + TAIL + 64);
    if (input == NULL || file_count == 0) return 2;
    for (int k = 0; k < file_count; k++) {
        memcpy(input, files[k].data, files[k].size);
        for (int tail = 0; tail < 20; tail++) run_with_tail(&from, input, files[k].size);
    }
    const uint64_t whole = decoded;
    for (long k = 0; k < runs; k++) run_with_tail(&from, input, mutate(&from, &files[below(&from, file_count)], input));
    printf("%d files with 20 jobs each, %llu of them done; %ld mutations, %llu done; sum %016llx; best %d\n",
           file_count, (unsigned long long)whole, runs, (unsigned long long)(decoded - whole), (unsigned long long)sum,
           fpc_best_isa());
    for (int k = 0; k < file_count; k++) free(files[k].data);
    free(files);
    free(input);
    if (best[1] != best[0]) fpc_context_free(best[1]);
    fpc_context_free(best[0]);
    fpc_context_free(contexts[1]);
    for (int k = 0; k < 2; k++) fpc_packer_free(packers[k]);
    return 0;
}
#endif
