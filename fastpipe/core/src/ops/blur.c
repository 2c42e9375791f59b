/* blur.c: FPC_OP_BOX_BLUR and FPC_OP_GAUSSIAN_BLUR: Pillow's BoxBlur.c, bit for bit. All passes along rows come before
 * those down columns, and each pass rounds to integers. A pass here goes down the columns of many bytes at once; for
 * passes along rows, some rows are transposed before and after. */
#include "blur.h"

#include <math.h>
#include <string.h>

#include "operations.h"

#define GAUSSIAN_PASSES 3
#define LARGEST_RADIUS (1 << 20) /* sums are 32-bit numbers */

/* _gaussian_blur_radius; each operation is rounded as with its types. */
static float box_radius(float sigma) {
    const float sigma2 = sigma * sigma / GAUSSIAN_PASSES;
    const float length = (float)sqrt(12.0 * sigma2 + 1.0);
    const float whole = (float)floor((length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * sigma2);
    part /= 6 * (sigma2 - (whole + 1) * (whole + 1));
    return whole + part;
}

/* Sets ImagingHorizontalBoxBlur's weights. */
static void weigh(fpc_blur_pass *pass, float radius) {
    pass->radius = (int32_t)radius;
    pass->weight = (uint32_t)((float)(1 << 24) / (radius * 2 + 1));
    pass->edge = ((1u << 24) - ((uint32_t)pass->radius * 2 + 1) * pass->weight) / 2;
}

/* Runs `count` passes, alternating between the two buffers; returns the one with the result. */
static uint8_t *run_passes(const fpc_stage *stage, const fpc_blur_pass *pass, int32_t count, uint8_t *from,
                           uint8_t *to) {
    for (int32_t i = 0; i < count; i++) {
        stage->kernels->blur_lines(pass, from, to);
        uint8_t *const last = from;
        from = to;
        to = last;
    }
    return from;
}

/* Transposes rows of three bytes per pixel to lines, one per column, and back. Pixels are moved as four bytes: after a
 * pixel comes the next one, or slack. */
static void to_lines(const uint8_t *rows, int64_t row_stride, int32_t columns, uint8_t *lines, int64_t stride) {
    for (int64_t x = 0; x < columns; x++) {
        const uint8_t *in = rows + 3 * x;
        uint8_t *out = lines + x * stride;
        for (int32_t y = 0; y < FPC_BLUR_ROWS; y++, in += row_stride, out += 3) memcpy(out, in, 4);
    }
}

static void to_rows(const uint8_t *lines, int64_t stride, int32_t columns, uint8_t *rows, int64_t row_stride) {
    for (int64_t y = 0; y < FPC_BLUR_ROWS; y++) {
        const uint8_t *in = lines + 3 * y;
        uint8_t *out = rows + y * row_stride;
        for (int32_t x = 0; x < columns; x++, in += stride, out += 3) memcpy(out, in, 4);
    }
}

static int next_blurred(fpc_stage *stage, uint8_t *row) {
    memcpy(row, stage->memory + stage->given * stage->stride, (size_t)stage->width * (size_t)stage->channels);
    return FPC_OK;
}

/* Blurs FPC_BLUR_ROWS rows along the rows. */
static void blur_along(const fpc_stage *stage, const fpc_blur_pass *pass, int32_t count, uint8_t *rows, int64_t stride,
                       uint8_t *scratch, int64_t scratch_bytes) {
    const fpc_kernels *kernels = stage->kernels;
    if (stage->channels == 1) {
        kernels->blur_to_lines(rows, stride, stage->width, scratch);
    } else {
        to_lines(rows, stride, stage->width, scratch, pass->stride);
    }
    const uint8_t *blurred = run_passes(stage, pass, count, scratch, scratch + scratch_bytes);
    if (stage->channels == 1) {
        kernels->blur_to_rows(blurred, stage->width, rows, stride);
    } else {
        to_rows(blurred, pass->stride, stage->width, rows, stride);
    }
}

/* Reads all rows of the stage before. */
static int pull_rows(fpc_stage *stage, uint8_t *image, int64_t stride) {
    int status = FPC_OK;
    for (int32_t y = 0; y < stage->height && status == FPC_OK; y++) {
        status = fpc_pull_row(stage->from, image + y * stride);
    }
    return status;
}

static bool is_radius(double radius) { return radius >= 0.0 && radius <= LARGEST_RADIUS; }

int fpc_add_blur(fpc_chain *chain, const fpc_operation *operation) {
    fpc_stage *stage = fpc_chain_add(chain, sizeof *stage, next_blurred);
    if (!stage) return FPC_NO_MEMORY;
    if (!is_radius(operation->blur.x) || !is_radius(operation->blur.y)) return FPC_BAD_OPERATION;
    const bool gaussian = operation->kind == FPC_OP_GAUSSIAN_BLUR;
    const int32_t passes = gaussian ? GAUSSIAN_PASSES : 1;
    float x = (float)operation->blur.x, y = (float)operation->blur.y;
    if (gaussian) {
        x = box_radius(x);
        y = box_radius(y);
    }
    const int32_t channels = stage->channels, blocks = (stage->height + FPC_BLUR_ROWS - 1) / FPC_BLUR_ROWS;
    const int64_t row_bytes = fpc_row_bytes(stage->width, channels);
    const int64_t stride = row_bytes % 512 ? row_bytes : row_bytes + 64; /* spreads a column over the cache's sets */
    fpc_blur_pass along = {
        .lines = stage->width, .bytes = FPC_BLUR_ROWS * channels, .stride = FPC_BLUR_ROWS * channels};
    fpc_blur_pass down = {.lines = stage->height, .bytes = stage->width * channels, .stride = stride};
    const int64_t image_bytes = stride * blocks * FPC_BLUR_ROWS; /* whole blocks; rows below the image hold anything */
    const int64_t scratch_bytes = along.stride * (stage->width + FPC_BLUR_COLUMNS) + FPC_ROW_SLACK;
    const int64_t bytes = 2 * image_bytes + 2 * scratch_bytes;
    if ((chain->max_bytes > 0 && bytes > chain->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *const image = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    if (!image) return FPC_NO_MEMORY;
    uint8_t *const other = image + image_bytes, *const scratch = other + image_bytes;
    const int status = pull_rows(stage, image, stride);
    if (status != FPC_OK) return status;
    if (x != 0.0f) {
        weigh(&along, x);
        for (int64_t block = 0; block < blocks; block++) {
            uint8_t *rows = image + block * FPC_BLUR_ROWS * stride;
            blur_along(stage, &along, passes, rows, stride, scratch, scratch_bytes);
        }
    }
    if (y != 0.0f) weigh(&down, y);
    stage->memory = y != 0.0f ? run_passes(stage, &down, passes, image, other) : image;
    stage->stride = stride;
    return FPC_OK;
}
