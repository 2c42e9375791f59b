/* geometry.c: crop, flips, transpose and padding: pixels move without changing. */
#include "operations.h"

#include <string.h>

static size_t row_size(const fpc_stage *stage) { return (size_t)stage->width * (size_t)stage->channels; }

/* ---- crop ---- */

typedef struct crop_stage {
    fpc_stage stage;
    fpc_box box;
    uint8_t *room;
} crop_stage;

static int next_cropped(fpc_stage *stage, uint8_t *row) {
    const crop_stage *crop = (const crop_stage *)stage;
    const uint8_t *in = NULL;
    while (stage->from->given <= crop->box.top + stage->given) {
        const int status = fpc_borrow_row(stage->from, crop->room, &in);
        if (status != FPC_OK) return status;
    }
    memcpy(row, in + (int64_t)crop->box.left * stage->channels, row_size(stage));
    return FPC_OK;
}

int fpc_add_crop(fpc_chain *chain, const fpc_operation *operation) {
    crop_stage *crop = fpc_chain_add(chain, sizeof *crop, next_cropped);
    if (!crop) return FPC_NO_MEMORY;
    const fpc_box *box = &operation->crop;
    fpc_stage *stage = &crop->stage;
    if (box->top < 0 || box->left < 0 || box->height < 1 || box->width < 1) return FPC_BAD_OPERATION;
    if (box->height > stage->height - box->top || box->width > stage->width - box->left) return FPC_BAD_OPERATION;
    crop->box = *box;
    stage->height = box->height;
    stage->width = box->width;
    crop->room = fpc_need_rows(stage, 1);
    return crop->room ? FPC_OK : FPC_NO_MEMORY;
}

/* ---- flips ---- */

typedef struct hflip_stage {
    fpc_stage stage;
    uint8_t *room;
} hflip_stage;

static int next_hflipped(fpc_stage *stage, uint8_t *row) {
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, ((hflip_stage *)stage)->room, &in);
    if (status != FPC_OK) return status;
    const fpc_kernels *kernels = stage->kernels;
    (stage->channels == 1   ? kernels->flip_gray
     : stage->channels == 3 ? kernels->flip_rgb
                            : kernels->flip_rgbx)(in, stage->width, row);
    return FPC_OK;
}

int fpc_add_hflip(fpc_chain *chain, const fpc_operation *operation) {
    (void)operation;
    hflip_stage *flip = fpc_chain_add(chain, sizeof *flip, next_hflipped);
    if (!flip) return FPC_NO_MEMORY;
    flip->room = fpc_need_rows(&flip->stage, 1);
    return flip->room ? FPC_OK : FPC_NO_MEMORY;
}

typedef struct vflip_stage {
    fpc_stage stage;
    fpc_image image;
} vflip_stage;

static int next_vflipped(fpc_stage *stage, uint8_t *row) {
    const fpc_image *image = &((vflip_stage *)stage)->image;
    memcpy(row, fpc_image_row(image, stage->height - 1 - stage->given), row_size(stage));
    return FPC_OK;
}

int fpc_add_vflip(fpc_chain *chain, const fpc_operation *operation) {
    (void)operation;
    vflip_stage *flip = fpc_chain_add(chain, sizeof *flip, next_vflipped);
    return flip ? fpc_borrow_image(chain, &flip->stage, &flip->image) : FPC_NO_MEMORY;
}

/* ---- transpose ---- */

#define AT_ONCE 16 /* columns of the input, so that each cache line is read once */

typedef struct transpose_stage {
    fpc_stage stage;
    fpc_image image;
    uint8_t *rows; /* of the output, AT_ONCE of them */
    int64_t row_bytes;
} transpose_stage;

static int next_transposed(fpc_stage *stage, uint8_t *row) {
    const transpose_stage *transpose = (const transpose_stage *)stage;
    const int64_t row_bytes = transpose->row_bytes, channels = stage->channels;
    const int32_t part = stage->given % AT_ONCE;
    if (part == 0) {
        const int32_t left = stage->height - stage->given, count = left < AT_ONCE ? left : AT_ONCE;
        for (int32_t x = 0; x < stage->width; x++) {
            const uint8_t *in = transpose->image.rows + x * transpose->image.stride + stage->given * channels;
            uint8_t *out = transpose->rows + x * channels;
            if (channels == 1) {
                for (int32_t y = 0; y < count; y++, out += row_bytes) *out = *in++;
            } else { /* four bytes at once: after both comes the next pixel, or slack */
                for (int32_t y = 0; y < count; y++, in += channels, out += row_bytes) memcpy(out, in, 4);
            }
        }
    }
    memcpy(row, transpose->rows + part * row_bytes, row_size(stage));
    return FPC_OK;
}

int fpc_add_transpose(fpc_chain *chain, const fpc_operation *operation) {
    (void)operation;
    transpose_stage *transpose = fpc_chain_add(chain, sizeof *transpose, next_transposed);
    if (!transpose) return FPC_NO_MEMORY;
    fpc_stage *stage = &transpose->stage;
    stage->height = stage->from->width;
    stage->width = stage->from->height;
    transpose->row_bytes = fpc_row_bytes(stage->width, stage->channels);
    const int64_t bytes = transpose->row_bytes * AT_ONCE;
    if (chain->max_bytes > 0 && bytes > chain->max_bytes) return FPC_TOO_LARGE;
    transpose->rows = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    return transpose->rows ? fpc_materialize_image(chain, stage, &transpose->image) : FPC_NO_MEMORY;
}

/* ---- padding ---- */

typedef struct pad_stage {
    fpc_stage stage;
    fpc_image image;
    fpc_op_pad pad;
    uint8_t *fill; /* a row with the constant value */
} pad_stage;

/* The source of position `i` on an axis of `size`, as in numpy.pad; -1 for the constant. Reflections continue beyond
 * the image's size: `reflect` has the period 2 * size - 2 (each edge once), `symmetric` 2 * size (each edge twice). */
static int64_t padded_from(int64_t i, int64_t size, int32_t mode) {
    if (i >= 0 && i < size) return i;
    if (mode == FPC_CONSTANT) return -1;
    if (mode == FPC_EDGE) return i < 0 ? 0 : size - 1;
    if (size == 1) return 0;
    const int64_t period = mode == FPC_REFLECT ? 2 * size - 2 : 2 * size;
    int64_t at = i % period;
    if (at < 0) at += period;
    if (at < size) return at;
    return mode == FPC_REFLECT ? period - at : period - 1 - at;
}

/* Fills pixels [first, end) of a row, beside the pixels of the image's row `in`. */
static void pad_beside(const pad_stage *padding, const uint8_t *in, int64_t first, int64_t end, uint8_t *row) {
    const int64_t channels = padding->stage.channels, width = padding->stage.from->width;
    if (padding->pad.mode == FPC_CONSTANT) {
        memcpy(row + first * channels, padding->fill, (size_t)((end - first) * channels));
        return;
    }
    for (int64_t x = first; x < end; x++) {
        const int64_t from = padded_from(x - padding->pad.left, width, padding->pad.mode);
        memcpy(row + x * channels, in + from * channels, (size_t)channels);
    }
}

static int next_padded(fpc_stage *stage, uint8_t *row) {
    const pad_stage *padding = (const pad_stage *)stage;
    const fpc_op_pad *pad = &padding->pad;
    const int64_t channels = stage->channels, in_width = stage->from->width;
    const int64_t y = padded_from((int64_t)stage->given - pad->top, stage->from->height, pad->mode);
    if (y < 0) {
        memcpy(row, padding->fill, row_size(stage));
        return FPC_OK;
    }
    const uint8_t *in = fpc_image_row(&padding->image, (int32_t)y);
    pad_beside(padding, in, 0, pad->left, row);
    memcpy(row + pad->left * channels, in, (size_t)(in_width * channels));
    pad_beside(padding, in, pad->left + in_width, stage->width, row);
    return FPC_OK;
}

static bool is_margin(int32_t margin) { return margin >= 0 && margin <= FPC_LARGEST_SIDE; }

int fpc_add_pad(fpc_chain *chain, const fpc_operation *operation) {
    pad_stage *padding = fpc_chain_add(chain, sizeof *padding, next_padded);
    if (!padding) return FPC_NO_MEMORY;
    const fpc_op_pad *pad = &operation->pad;
    fpc_stage *stage = &padding->stage;
    if (!is_margin(pad->left) || !is_margin(pad->top) || !is_margin(pad->right) || !is_margin(pad->bottom)) {
        return FPC_BAD_OPERATION;
    }
    if (pad->mode < FPC_CONSTANT || pad->mode > FPC_SYMMETRIC) return FPC_BAD_OPERATION;
    for (int c = 0; c < (stage->channels == 1 ? 1 : 4) && pad->mode == FPC_CONSTANT; c++) {
        if (pad->fill[c] < 0 || pad->fill[c] > 255) return FPC_BAD_OPERATION;
    }
    const int64_t height = (int64_t)stage->height + pad->top + pad->bottom;
    const int64_t width = (int64_t)stage->width + pad->left + pad->right;
    if (height > FPC_LARGEST_SIDE || width > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
    padding->pad = *pad;
    stage->height = (int32_t)height;
    stage->width = (int32_t)width;
    if (pad->mode == FPC_CONSTANT) {
        padding->fill = fpc_buffer_need(&stage->slot->rows, row_size(stage));
        if (!padding->fill) return FPC_NO_MEMORY;
        for (int64_t x = 0, c = 0; x < (int64_t)row_size(stage); x++, c = c + 1 < stage->channels ? c + 1 : 0) {
            padding->fill[x] = (uint8_t)pad->fill[c];
        }
    }
    return fpc_borrow_image(chain, stage, &padding->image);
}
