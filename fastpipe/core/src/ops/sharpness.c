/* sharpness.c: blends the image with its smoothed version, whose outermost pixels are the image's: Pillow's
 * ImageEnhance, and torchvision's sharpness of uint8 tensors. */
#include <string.h>

#include "blend.h"
#include "operations.h"
#include "rgbx_pad.h"
#include "tensors.h"

/* The fields that both stages share: the smoothed row and its neighbours. */
typedef struct smooth_stage {
    fpc_stage stage;
    uint8_t *ring, *smooth; /* three rows of the input, and one of the smoothed image */
    int64_t row_bytes;
} smooth_stage;

typedef struct pillow_stage {
    smooth_stage rows;
    float factor;
    bool to_zero; /* the smoothed image is 0 */
} pillow_stage;

typedef struct tensor_stage {
    smooth_stage rows;
    fpc_tensor_blend blend;
} tensor_stage;

/* Adds a stage that begins with a smooth_stage; NULL if there is no memory. */
static void *add_smooth(fpc_chain *chain, size_t size, fpc_next_row *next) {
    smooth_stage *rows = fpc_chain_add(chain, size, next);
    if (!rows) return NULL;
    rows->row_bytes = fpc_row_bytes(rows->stage.width, rows->stage.channels);
    rows->ring = fpc_need_rows(&rows->stage, 4);
    if (!rows->ring) return NULL;
    rows->smooth = rows->ring + 3 * rows->row_bytes;
    return rows;
}

static int64_t bytes_of(const fpc_stage *stage) { return (int64_t)stage->width * stage->channels; }

static bool is_outermost(const fpc_stage *stage) {
    return stage->given == 0 || stage->given == stage->height - 1 || stage->width < 3;
}

static uint8_t *ring_row(const smooth_stage *rows, int32_t y) { return rows->ring + y % 3 * rows->row_bytes; }

/* Reads the next row, and the rows that its smoothing needs. */
static int pull_rows(smooth_stage *rows, const uint8_t **in) {
    const int32_t y = rows->stage.given, last = rows->stage.height - 1;
    fpc_stage *from = rows->stage.from;
    while (from->given <= (y < last ? y + 1 : last)) {
        const int status = fpc_pull_row(from, ring_row(rows, from->given));
        if (status != FPC_OK) return status;
    }
    *in = ring_row(rows, y);
    return FPC_OK;
}

/* Smooths the middle one of the three rows, or sets it to 0; its first and last pixel are kept. */
static void smooth_middle(const smooth_stage *rows, bool to_zero) {
    const int32_t y = rows->stage.given, step = rows->stage.channels;
    const int64_t bytes = bytes_of(&rows->stage);
    const uint8_t *in = ring_row(rows, y), *above = ring_row(rows, y - 1), *below = ring_row(rows, y + 1);
    uint8_t *smooth = rows->smooth;
    if (to_zero) {
        memset(smooth, 0, (size_t)bytes);
    } else {
        rows->stage.kernels->smooth_row(above + step, in + step, below + step, bytes - 2 * step, step, smooth + step);
    }
    memcpy(smooth, in, (size_t)step);
    memcpy(smooth + bytes - step, in + bytes - step, (size_t)step);
}

static int next_of_pillow(fpc_stage *stage, uint8_t *row) {
    pillow_stage *made = (pillow_stage *)stage;
    const int64_t bytes = bytes_of(stage);
    const uint8_t *in;
    const int status = pull_rows(&made->rows, &in);
    if (status != FPC_OK) return status;
    if (is_outermost(stage)) {
        memcpy(row, in, (size_t)bytes);
    } else {
        smooth_middle(&made->rows, made->to_zero);
        stage->kernels->blend_rows(made->rows.smooth, in, made->factor, bytes, row);
    }
    return FPC_OK;
}

int fpc_add_sharpness(fpc_chain *chain, const fpc_operation *operation) {
    float factor;
    if (!fpc_blend_factor(&operation->blend, &factor)) return FPC_BAD_OPERATION;
    pillow_stage *made = add_smooth(chain, sizeof *made, next_of_pillow);
    if (!made) return FPC_NO_MEMORY;
    made->factor = factor;
    made->to_zero = operation->flags == FPC_SMOOTHED_TO_ZERO;
    return FPC_OK;
}

static int next_of_tensor(fpc_stage *stage, uint8_t *row) {
    tensor_stage *made = (tensor_stage *)stage;
    const fpc_kernels *kernels = stage->kernels;
    const fpc_tensor_blend *blend = &made->blend;
    if (stage->height < 3 || stage->width < 3) return fpc_pull_row(stage->from, row);
    const int64_t bytes = bytes_of(stage);
    const uint8_t *in, *smooth = made->rows.smooth;
    const int status = pull_rows(&made->rows, &in);
    if (status != FPC_OK) return status;
    if (is_outermost(stage)) {
        smooth = in;
    } else {
        smooth_middle(&made->rows, false);
    }
    if (blend->v1) {
        kernels->planes_blend(in, smooth, blend->by, blend->rest, bytes, blend->fused, row);
    } else {
        kernels->planes_shift(in, smooth, blend->rest, bytes, blend->fused, row);
    }
    return FPC_OK;
}

int fpc_add_tensor_sharpness(fpc_chain *chain, const fpc_operation *operation) {
    fpc_tensor_blend blend;
    if (!fpc_tensor_factors(operation, &blend)) return FPC_BAD_OPERATION;
    tensor_stage *made = add_smooth(chain, sizeof *made, next_of_tensor);
    if (!made) return FPC_NO_MEMORY;
    made->blend = blend;
    return FPC_OK;
}
