/* operations.c: the operations on uint8 images that only move or look up values. What can go row by row does; the others
 * take the whole image into scratch memory before their first row. */
#include "stage.h"

#include <string.h>

static int64_t stride_of(const fpc_stage *from) { return (int64_t)from->width * from->channels; }

int fpc_materialize_image(fpc_stage *stage, fpc_images *images) {
    const fpc_stage *from = stage->from;
    const int64_t stride = stride_of(from);
    const int64_t bytes = stride * from->height + FPC_ROW_SLACK;
    if ((images->max_bytes > 0 && bytes > images->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *image = fpc_buffer_need(&images->buffers[images->turn], (size_t)bytes);
    if (!image) return FPC_NO_MEMORY;
    images->turn ^= 1;
    for (int32_t y = 0; y < from->height; y++) { /* a row's slack is where the next one comes */
        const int status = fpc_pull_row(stage->from, image + y * stride);
        if (status != FPC_OK) return status;
    }
    stage->image = image;
    return FPC_OK;
}

int fpc_borrow_image(fpc_stage *stage, fpc_images *images) {
    fpc_stage *from = stage->from;
    const int64_t stride = stride_of(from);
    if (stride < FPC_ROW_SLACK)
        return fpc_materialize_image(stage, images); /* more than a row were behind a row's end */
    const uint8_t *image = fpc_stage_whole(from);
    if (!image) return fpc_materialize_image(stage, images);
    uint8_t *last = fpc_buffer_need(&images->buffers[images->turn], (size_t)(stride + FPC_ROW_SLACK));
    if (!last) return FPC_NO_MEMORY;
    images->turn ^= 1;
    memcpy(last, image + (from->height - 1) * stride, (size_t)stride);
    stage->image = image;
    stage->last = last;
    return FPC_OK;
}

const uint8_t *fpc_image_row(const fpc_stage *stage, int32_t y) {
    if (stage->last && y == stage->from->height - 1) return stage->last;
    return stage->image + y * stride_of(stage->from);
}

uint8_t *fpc_need_rows(fpc_stage *stage, int32_t count) {
    stage->row_bytes = fpc_row_bytes(stage->from->width, stage->from->channels);
    return fpc_buffer_need(&stage->rows, (size_t)stage->row_bytes * (size_t)count);
}

/* ---- crop ---- */

static int next_crop(fpc_stage *stage, uint8_t *row) {
    const int32_t *i = stage->operation->i;
    const uint8_t *in = NULL;
    while (stage->taken <= i[0] + stage->given) {
        stage->taken++;
        const int status = fpc_borrow_row(stage->from, stage->rows.data, &in);
        if (status != FPC_OK) return status;
    }
    memcpy(row, in + (int64_t)i[1] * stage->channels, (size_t)stride_of(stage));
    return FPC_OK;
}

static int start_crop(fpc_stage *stage) {
    const int32_t *i = stage->operation->i;
    if (i[0] < 0 || i[1] < 0 || i[2] < 1 || i[3] < 1) return FPC_BAD_OPERATION;
    if (i[2] > stage->height - i[0] || i[3] > stage->width - i[1]) return FPC_BAD_OPERATION;
    stage->height = i[2];
    stage->width = i[3];
    stage->next = next_crop;
    return fpc_need_rows(stage, 1) ? FPC_OK : FPC_NO_MEMORY;
}

/* ---- flips, transposed ---- */

static int next_hflip(fpc_stage *stage, uint8_t *row) {
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, stage->rows.data, &in);
    if (status != FPC_OK) return status;
    if (stage->channels == 3) {
        stage->kernels->flip_rgb(in, stage->width, row);
    } else {
        for (int32_t x = 0; x < stage->width; x++) row[x] = in[stage->width - 1 - x];
    }
    return FPC_OK;
}

static int start_hflip(fpc_stage *stage) {
    stage->next = next_hflip;
    return fpc_need_rows(stage, 1) ? FPC_OK : FPC_NO_MEMORY;
}

static int next_vflip(fpc_stage *stage, uint8_t *row) {
    memcpy(row, fpc_image_row(stage, stage->height - 1 - stage->given), (size_t)stride_of(stage));
    return FPC_OK;
}

static int start_vflip(fpc_stage *stage, fpc_images *images) {
    stage->next = next_vflip;
    return fpc_borrow_image(stage, images);
}

#define TRANSPOSED_AT_ONCE 16 /* columns of the input, so that each cache line is read once */

static int next_transposed(fpc_stage *stage, uint8_t *row) {
    const int64_t in_stride = (int64_t)stage->height * stage->channels, channels = stage->channels;
    const int32_t part = stage->given % TRANSPOSED_AT_ONCE;
    if (part == 0) {
        const int32_t left = stage->height - stage->given;
        const int32_t count = left < TRANSPOSED_AT_ONCE ? left : TRANSPOSED_AT_ONCE;
        for (int32_t x = 0; x < stage->width; x++) {
            const uint8_t *in = stage->image + x * in_stride + stage->given * channels;
            uint8_t *out = stage->rows.data + x * channels;
            if (channels == 1) {
                for (int32_t y = 0; y < count; y++, out += stage->row_bytes) *out = *in++;
            } else { /* four bytes at once: the next pixel, or slack, comes behind both */
                for (int32_t y = 0; y < count; y++, in += 3, out += stage->row_bytes) memcpy(out, in, 4);
            }
        }
    }
    memcpy(row, stage->rows.data + part * stage->row_bytes, (size_t)stride_of(stage));
    return FPC_OK;
}

static int start_transposed(fpc_stage *stage, fpc_images *images) {
    stage->height = stage->from->width;
    stage->width = stage->from->height;
    stage->next = next_transposed;
    stage->row_bytes = fpc_row_bytes(stage->width, stage->channels);
    const int64_t bytes = stage->row_bytes * TRANSPOSED_AT_ONCE;
    if (images->max_bytes > 0 && bytes > images->max_bytes) return FPC_TOO_LARGE;
    if (!fpc_buffer_need(&stage->rows, (size_t)bytes)) return FPC_NO_MEMORY;
    return fpc_materialize_image(stage, images);
}

/* ---- padding ---- */

/* Where position `i` of an axis of `size` comes from, as numpy.pad has it; -1 for the constant. Reflections go on
 * beyond the image's size: reflect has period 2 * size - 2 (the edge once), symmetric 2 * size (the edge twice). */
static int64_t padded_from(int64_t i, int64_t size, int32_t padding) {
    if (i >= 0 && i < size) return i;
    if (padding == FPC_CONSTANT) return -1;
    if (padding == FPC_EDGE) return i < 0 ? 0 : size - 1;
    if (size == 1) return 0;
    const int64_t period = padding == FPC_REFLECT ? 2 * size - 2 : 2 * size;
    int64_t at = i % period;
    if (at < 0) at += period;
    if (at < size) return at;
    return padding == FPC_REFLECT ? period - at : period - 1 - at;
}

static void fill_pixel(const fpc_stage *stage, uint8_t *pixel) {
    for (int32_t c = 0; c < stage->channels; c++) pixel[c] = (uint8_t)stage->operation->i[5 + c];
}

static int next_padded(fpc_stage *stage, uint8_t *row) {
    const int32_t *i = stage->operation->i;
    const int64_t channels = stage->channels, in_width = stage->from->width;
    const int64_t y = padded_from((int64_t)stage->given - i[1], stage->from->height, i[4]);
    if (y < 0) {
        for (int64_t x = 0; x < stage->width; x++) fill_pixel(stage, row + x * channels);
        return FPC_OK;
    }
    const uint8_t *in = fpc_image_row(stage, (int32_t)y);
    memcpy(row + i[0] * channels, in, (size_t)(in_width * channels));
    for (int64_t x = 0; x < stage->width; x++) {
        if (x == i[0]) x += in_width; /* the middle is there */
        if (x >= stage->width) break;
        const int64_t from = padded_from(x - i[0], in_width, i[4]);
        if (from < 0) {
            fill_pixel(stage, row + x * channels);
        } else {
            memcpy(row + x * channels, in + from * channels, (size_t)channels);
        }
    }
    return FPC_OK;
}

static int start_padded(fpc_stage *stage, fpc_images *images) {
    const int32_t *i = stage->operation->i;
    for (int k = 0; k < 4; k++) {
        if (i[k] < 0 || i[k] > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
    }
    if (i[4] < FPC_CONSTANT || i[4] > FPC_SYMMETRIC) return FPC_BAD_OPERATION;
    for (int32_t c = 0; c < stage->channels && i[4] == FPC_CONSTANT; c++) {
        if (i[5 + c] < 0 || i[5 + c] > 255) return FPC_BAD_OPERATION;
    }
    const int64_t height = (int64_t)stage->height + i[1] + i[3], width = (int64_t)stage->width + i[0] + i[2];
    if (height > FPC_LARGEST_SIDE || width > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
    stage->height = (int32_t)height;
    stage->width = (int32_t)width;
    stage->next = next_padded;
    return fpc_borrow_image(stage, images);
}

/* ---- values ---- */

static int next_table(fpc_stage *stage, uint8_t *row) {
    const int64_t stride = stride_of(stage);
    const uint8_t *in = row, *table = stage->table;
    if (stage->image) {
        in = fpc_image_row(stage, stage->given);
    } else {
        const int status = fpc_borrow_row(stage->from, row, &in);
        if (status != FPC_OK) return status;
    }
    if (stage->plain_table) {
        if (in != row) memcpy(row, in, (size_t)stride);
    } else if (stage->one_table) {
        stage->kernels->look_up(in, stride, table, row);
    } else {
        stage->kernels->look_up_rgb(in, stage->width, table, row);
    }
    return FPC_OK;
}

int fpc_stage_table(fpc_stage *stage, const uint8_t *table) {
    stage->next = next_table;
    stage->table = table;
    if (!table) return FPC_BAD_OPERATION;
    stage->one_table = stage->channels == 1 || (!memcmp(table, table + 256, 256) && !memcmp(table, table + 512, 256));
    stage->plain_table = true;
    for (int i = 0; i < 256 * stage->channels; i++) stage->plain_table &= table[i] == (i & 255);
    return FPC_OK;
}

/* A gray image stays what it is; three channels are one, three times. */
static int next_gray(fpc_stage *stage, uint8_t *row) {
    const fpc_kernels *kernels = stage->kernels;
    uint8_t *room = stage->rows.data, *gray = stage->channels == 1 ? row : room + stage->row_bytes;
    const bool colored = stage->from->channels == 3;
    const uint8_t *in = NULL;
    const int status = colored ? fpc_borrow_row(stage->from, room, &in) : fpc_pull_row(stage->from, gray);
    if (status != FPC_OK) return status;
    if (colored) kernels->rgb_to_gray(in, stage->width, gray);
    if (stage->channels == 3) kernels->planes_to_rgb(gray, gray, gray, row, stage->width);
    return FPC_OK;
}

static int start_gray(fpc_stage *stage) {
    const int32_t channels = stage->operation->i[0];
    if (channels != 1 && channels != 3) return FPC_BAD_OPERATION;
    stage->channels = channels;
    stage->next = next_gray;
    return fpc_need_rows(stage, 2) ? FPC_OK : FPC_NO_MEMORY;
}

int fpc_stage_operation(fpc_stage *stage, fpc_stage *from, const fpc_operation *operation, fpc_images *images) {
    stage->from = from;
    stage->operation = operation;
    stage->height = from->height;
    stage->width = from->width;
    stage->channels = from->channels;
    stage->given = 0;
    stage->taken = 0;
    stage->image = NULL;
    stage->last = NULL;
    switch (operation->kind) {
    case FPC_OP_CROP: return start_crop(stage);
    case FPC_OP_HFLIP: return start_hflip(stage);
    case FPC_OP_VFLIP: return start_vflip(stage, images);
    case FPC_OP_TRANSPOSE: return start_transposed(stage, images);
    case FPC_OP_PAD: return start_padded(stage, images);
    case FPC_OP_LUT: return fpc_stage_table(stage, operation->table);
    case FPC_OP_GRAY: return start_gray(stage);
    case FPC_OP_SATURATION:
    case FPC_OP_CONTRAST:
    case FPC_OP_SHARPNESS:
    case FPC_OP_HUE:
    case FPC_OP_AUTOCONTRAST:
    case FPC_OP_EQUALIZE: return fpc_stage_adjust(stage, images);
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: return fpc_stage_warp(stage, images);
    default: return FPC_BAD_OPERATION;
    }
}
