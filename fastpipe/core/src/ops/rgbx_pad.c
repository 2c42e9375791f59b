/* rgbx_pad.c: what Pillow's functions write to the fourth byte of RGB. Image.resize writes 0 (Resample.c:
 * MAKE_UINT32(..., 0)), and convert 255 (Convert.c: l2rgb). point leaves the 0 of a new image (Point.c:
 * im_point_3x8_3x8). crop and transpose copy the byte; blend and the box blur treat it as a channel.
 * tests/core/test_pillow.py compares all of them with Pillow. */
#include "rgbx_pad.h"

#include <math.h>
#include <string.h>

#include "blend.h"

/* ---- an operation's rules ---- */

/* True if Pillow's resize only crops. */
static bool only_crops(const fpc_op_resize *resize, int32_t height, int32_t width) {
    const bool all = resize->in_height == 0 && resize->in_width == 0;
    const double x1 = all ? width : resize->x1, y1 = all ? height : resize->y1;
    return resize->x0 == floor(resize->x0) && resize->y0 == floor(resize->y0) && x1 - resize->x0 == resize->out_width &&
           y1 - resize->y0 == resize->out_height;
}

/* The fourth byte after an operation on an image of this size, if it doesn't depend on the byte before; else -1. */
static int32_t constant_of(const fpc_operation *operation, int32_t height, int32_t width) {
    switch (operation->kind) {
    case FPC_OP_RESIZE:
        return operation->resize.filter == FPC_NEAREST || only_crops(&operation->resize, height, width) ? -1 : 0;
    case FPC_OP_LUT: return operation->lut.rgbx_pad;
    case FPC_OP_GRAY:
    case FPC_OP_TENSOR_GRAY: /* also for tensors, which have no such byte */
    case FPC_OP_TENSOR_SATURATION:
    case FPC_OP_TENSOR_CONTRAST:
    case FPC_OP_TENSOR_SHARPNESS:
    case FPC_OP_TENSOR_HUE:
    case FPC_OP_TENSOR_AUTOCONTRAST:
    case FPC_OP_TENSOR_SAMPLE:
    case FPC_OP_TORCH_BLUR:
    case FPC_OP_CV_RESIZE:
    case FPC_OP_PERMUTE: return 255;
    case FPC_OP_PAD: return operation->pad.mode == FPC_CONSTANT ? -1 : 255; /* torchvision pads by way of numpy */
    case FPC_OP_HUE:
    case FPC_OP_AUTOCONTRAST:
    case FPC_OP_EQUALIZE: return 0;
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: return operation->warp.filter == FPC_NEAREST ? -1 : operation->warp.fill[3];
    default: return -1;
    }
}

bool fpc_carries_rgbx_pad(const fpc_operation *operation) {
    switch (operation->kind) {
    case FPC_OP_CROP:
    case FPC_OP_HFLIP:
    case FPC_OP_VFLIP:
    case FPC_OP_TRANSPOSE:
    case FPC_OP_PAD: return true;
    case FPC_OP_RESIZE: return operation->resize.filter == FPC_NEAREST;
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: return operation->warp.filter == FPC_NEAREST;
    default: return false;
    }
}

/* Fills the table of what a blend makes of the fourth byte. The other image's fourth byte is 255 if it comes from
 * convert("RGB"), and 0 if it comes from a filter or is black. */
static void blend_table(const fpc_kernels *kernels, const fpc_operation *operation, uint8_t *table) {
    uint8_t other[256 + FPC_ROW_SLACK], every[256 + FPC_ROW_SLACK], blended[256 + FPC_ROW_SLACK];
    memset(other, operation->kind == FPC_OP_SHARPNESS ? 0 : 255, sizeof other);
    for (int i = 0; i < 256 + FPC_ROW_SLACK; i++) every[i] = (uint8_t)i;
    float factor;
    if (!fpc_blend_factor(&operation->blend, &factor)) factor = 1.0f; /* refused elsewhere */
    kernels->blend_rows(other, every, factor, 256, blended);
    memcpy(table, blended, 256);
}

/* What an operation makes of a fourth byte that all pixels share; FPC_RGBX_PAD_PLANE if they then differ. */
static int32_t result_of(const fpc_kernels *kernels, const fpc_operation *operation, uint8_t value) {
    uint8_t table[256];
    switch (operation->kind) {
    case FPC_OP_PAD: return operation->pad.fill[3] == value ? value : FPC_RGBX_PAD_PLANE;
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: return operation->warp.fill[3] == value ? value : FPC_RGBX_PAD_PLANE;
    case FPC_OP_LUT: return operation->lut.table ? operation->lut.table[value] : value;
    case FPC_OP_SATURATION:
    case FPC_OP_CONTRAST: blend_table(kernels, operation, table); return table[value];
    case FPC_OP_SHARPNESS: /* the outermost pixels keep it */
        blend_table(kernels, operation, table);
        return table[value] == value ? value : FPC_RGBX_PAD_PLANE;
    default: return value;
    }
}

static void change_size(const fpc_operation *operation, int32_t *height, int32_t *width) {
    const int64_t rows = *height, columns = *width;
    switch (operation->kind) {
    case FPC_OP_CROP: *height = operation->crop.height, *width = operation->crop.width; break;
    case FPC_OP_RESIZE: *height = operation->resize.window.height, *width = operation->resize.window.width; break;
    case FPC_OP_TRANSPOSE: *height = (int32_t)columns, *width = (int32_t)rows; break;
    case FPC_OP_PAD: /* too large an image is refused elsewhere */
        *height = (int32_t)(rows + operation->pad.top + operation->pad.bottom);
        *width = (int32_t)(columns + operation->pad.left + operation->pad.right);
        break;
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: *height = operation->warp.height, *width = operation->warp.width; break;
    default: break;
    }
}

/* ---- a job's rules ---- */

int32_t fpc_rgbx_pad_of(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width, int32_t from) {
    int32_t value = from;
    for (int32_t i = 0; i < job->operation_count; i++) {
        const fpc_operation *operation = &job->operations[i];
        const int32_t constant = constant_of(operation, height, width);
        if (constant >= 0) {
            value = constant & 255;
        } else if (value >= 0) {
            value = result_of(kernels, operation, (uint8_t)value);
        } else if (!fpc_carries_rgbx_pad(operation)) {
            value = FPC_RGBX_PAD_PLANE;
        }
        change_size(operation, &height, &width);
    }
    return value;
}

int32_t fpc_common_rgbx_pad(const fpc_kernels *kernels, const fpc_pixels *pixels, const fpc_box *box) {
    const uint8_t *rows = pixels->data + box->top * pixels->row_stride + box->left * pixels->column_stride;
    const uint8_t value = rows[3 * pixels->channel_stride];
    if (pixels->column_stride != 4 || pixels->channel_stride != 1) return FPC_RGBX_PAD_PLANE;
    for (int32_t y = 0; y < box->height; y++) {
        if (!kernels->same_rgbx_pad(rows + y * pixels->row_stride, box->width, value)) return FPC_RGBX_PAD_PLANE;
    }
    return value;
}

/* ---- the image of all fourth bytes ---- */

/* Adds a look-up, and returns its table for the caller to fill. */
static uint8_t *add_table(fpc_plane_operations *plane) {
    uint8_t *table = plane->tables[plane->count];
    plane->operations[plane->count++] =
        (fpc_operation){.kind = FPC_OP_LUT, .lut = {.table = table, .rgbx_pad = FPC_LOOK_UP_RGBX_PAD}};
    return table;
}

/* Adds what an operation does to the image of the fourth bytes. The caller handles operations that leave a constant. */
static void add_moved(const fpc_kernels *kernels, const fpc_operation *given, fpc_plane_operations *plane) {
    switch (given->kind) {
    case FPC_OP_RESIZE: /* these move pixels, also if they leave a constant */
    case FPC_OP_PAD:
    case FPC_OP_AFFINE:
    case FPC_OP_PERSPECTIVE: break;
    case FPC_OP_SATURATION:
    case FPC_OP_CONTRAST: blend_table(kernels, given, add_table(plane)); return;
    default:
        if (constant_of(given, 0, 0) >= 0) return; /* of these the size doesn't matter */
    }
    fpc_operation *operation = &plane->operations[plane->count++];
    *operation = *given;
    if (given->kind == FPC_OP_PAD) operation->pad.fill[0] = given->pad.fill[3];
    if (given->kind == FPC_OP_AFFINE || given->kind == FPC_OP_PERSPECTIVE)
        operation->warp.fill[0] = given->warp.fill[3];
    if (given->kind == FPC_OP_SHARPNESS) operation->flags = FPC_SMOOTHED_TO_ZERO;
}

bool fpc_make_plane_operations(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width,
                               fpc_plane_operations *plane) {
    int32_t last = -1, value = 0; /* the last operation that leaves a constant; earlier ones don't matter */
    int32_t rows = height, columns = width;
    for (int32_t i = 0; i < job->operation_count; i++) {
        const int32_t constant = constant_of(&job->operations[i], rows, columns);
        if (constant >= 0) last = i, value = constant;
        change_size(&job->operations[i], &rows, &columns);
    }
    plane->count = 0;
    for (int32_t i = 0; i < job->operation_count; i++) {
        if (plane->count + 2 > FPC_MOST_PLANE_OPERATIONS) return false;
        add_moved(kernels, &job->operations[i], plane);
        if (i == last) memset(add_table(plane), value, 256);
    }
    return true;
}
