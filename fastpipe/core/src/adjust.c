/* adjust.c: changes of colour, row by row, as Pillow's convert and ImageEnhance do them, and torchvision's hue on PIL
 * images. */
#include "fourth.h"
#include "operations.h"

#include <string.h>

static int64_t bytes_of(const fpc_stage *stage) { return (int64_t)stage->width * stage->channels; }

/* ---- gray ---- */

typedef struct gray_stage {
    fpc_stage stage;
    uint8_t *room, *gray; /* a row of the input, and one in gray */
} gray_stage;

/* A gray image stays what it is; three channels are one, three times. */
static int next_gray(fpc_stage *stage, uint8_t *row) {
    const gray_stage *made = (const gray_stage *)stage;
    const fpc_kernels *kernels = stage->kernels;
    uint8_t *gray = stage->channels == 1 ? row : made->gray;
    const bool colored = stage->from->channels == 3;
    const uint8_t *in = NULL;
    const int status = colored ? fpc_borrow_row(stage->from, made->room, &in) : fpc_pull_row(stage->from, gray);
    if (status != FPC_OK) return status;
    if (colored) kernels->rgb_to_gray(in, stage->width, gray);
    if (stage->channels == 3) kernels->planes_to_rgb(gray, gray, gray, row, stage->width);
    return FPC_OK;
}

int fpc_add_gray(fpc_chain *chain, const fpc_operation *operation) {
    gray_stage *made = fpc_chain_add(chain, sizeof *made, next_gray);
    if (!made) return FPC_NO_MEMORY;
    fpc_stage *stage = &made->stage;
    const int32_t channels = operation->gray.channels;
    if (channels != 1 && channels != 3) return FPC_BAD_OPERATION;
    stage->channels = channels;
    made->room = fpc_need_rows(stage, 2);
    if (!made->room) return FPC_NO_MEMORY;
    made->gray = made->room + fpc_row_bytes(stage->from->width, stage->from->channels);
    return FPC_OK;
}

/* ---- saturation: a blend with the pixel's own gray ---- */

typedef struct saturation_stage {
    fpc_stage stage;
    float factor;
    uint8_t *room, *gray, *grays; /* rows: the input, in gray, and that in three channels */
} saturation_stage;

static int next_saturated(fpc_stage *stage, uint8_t *row) {
    const saturation_stage *saturation = (const saturation_stage *)stage;
    const fpc_kernels *kernels = stage->kernels;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray is its own gray */
    uint8_t *gray = saturation->gray, *grays = saturation->grays;
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, saturation->room, &in);
    if (status != FPC_OK) return status;
    kernels->rgb_to_gray(in, stage->width, gray);
    kernels->planes_to_rgb(gray, gray, gray, grays, stage->width);
    kernels->blend_rows(grays, in, saturation->factor, bytes_of(stage), row);
    return FPC_OK;
}

int fpc_add_saturation(fpc_chain *chain, const fpc_operation *operation) {
    saturation_stage *saturation = fpc_chain_add(chain, sizeof *saturation, next_saturated);
    if (!saturation) return FPC_NO_MEMORY;
    if (!fpc_blend_factor(&operation->blend, &saturation->factor)) return FPC_BAD_OPERATION;
    const fpc_stage *stage = &saturation->stage;
    const int64_t row_bytes = fpc_row_bytes(stage->width, stage->channels);
    saturation->room = fpc_need_rows(&saturation->stage, 3);
    if (!saturation->room) return FPC_NO_MEMORY;
    saturation->gray = saturation->room + row_bytes;
    saturation->grays = saturation->gray + row_bytes;
    return FPC_OK;
}

/* ---- sharpness: a blend with the smoothed image, whose outermost pixels are the image's ---- */

typedef struct sharpness_stage {
    fpc_stage stage;
    float factor;
    bool to_zero;           /* the smoothed image is 0 */
    uint8_t *ring, *smooth; /* three rows of the input, and one of the smoothed image */
    int64_t row_bytes;
} sharpness_stage;

static uint8_t *ring_row(const sharpness_stage *sharpness, int32_t y) {
    return sharpness->ring + y % 3 * sharpness->row_bytes;
}

static int next_sharpened(fpc_stage *stage, uint8_t *row) {
    const sharpness_stage *sharpness = (const sharpness_stage *)stage;
    fpc_stage *from = stage->from;
    const int32_t y = stage->given, last = stage->height - 1, step = stage->channels;
    while (from->given <= (y < last ? y + 1 : last)) {
        const int status = fpc_pull_row(from, ring_row(sharpness, from->given));
        if (status != FPC_OK) return status;
    }
    const int64_t bytes = bytes_of(stage);
    const uint8_t *in = ring_row(sharpness, y);
    if (y == 0 || y == last || stage->width < 3) {
        memcpy(row, in, (size_t)bytes);
        return FPC_OK;
    }
    uint8_t *smooth = sharpness->smooth;
    const uint8_t *above = ring_row(sharpness, y - 1), *below = ring_row(sharpness, y + 1);
    if (sharpness->to_zero) {
        memset(smooth, 0, (size_t)bytes);
    } else {
        stage->kernels->smooth_row(above + step, in + step, below + step, bytes - 2 * step, step, smooth + step);
    }
    memcpy(smooth, in, (size_t)step);
    memcpy(smooth + bytes - step, in + bytes - step, (size_t)step);
    stage->kernels->blend_rows(smooth, in, sharpness->factor, bytes, row);
    return FPC_OK;
}

int fpc_add_sharpness(fpc_chain *chain, const fpc_operation *operation) {
    sharpness_stage *sharpness = fpc_chain_add(chain, sizeof *sharpness, next_sharpened);
    if (!sharpness) return FPC_NO_MEMORY;
    if (!fpc_blend_factor(&operation->blend, &sharpness->factor)) return FPC_BAD_OPERATION;
    sharpness->to_zero = operation->reserved == FPC_SMOOTHED_TO_ZERO;
    sharpness->row_bytes = fpc_row_bytes(sharpness->stage.width, sharpness->stage.channels);
    sharpness->ring = fpc_need_rows(&sharpness->stage, 4);
    if (!sharpness->ring) return FPC_NO_MEMORY;
    sharpness->smooth = sharpness->ring + 3 * sharpness->row_bytes;
    return FPC_OK;
}

/* ---- hue ---- */

typedef struct hue_stage {
    fpc_stage stage;
    int32_t shift;
    uint8_t *room;
} hue_stage;

static int next_turned(fpc_stage *stage, uint8_t *row) {
    const hue_stage *hue = (const hue_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray has no hue */
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, hue->room, &in);
    if (status != FPC_OK) return status;
    stage->kernels->turn_hue(in, stage->width, hue->shift, row);
    return FPC_OK;
}

int fpc_add_hue(fpc_chain *chain, const fpc_operation *operation) {
    hue_stage *hue = fpc_chain_add(chain, sizeof *hue, next_turned);
    if (!hue) return FPC_NO_MEMORY;
    hue->shift = operation->hue.shift;
    if (hue->shift < 0 || hue->shift > 255) return FPC_BAD_OPERATION;
    hue->room = fpc_need_rows(&hue->stage, 1);
    return hue->room ? FPC_OK : FPC_NO_MEMORY;
}
