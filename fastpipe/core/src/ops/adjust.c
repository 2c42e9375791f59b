/* adjust.c: changes of color, row by row, as Pillow's convert and ImageEnhance make them, and torchvision's hue of PIL
 * images. */
#include <string.h>

#include "blend.h"
#include "operations.h"
#include "rgbx_pad.h"

static int64_t bytes_of(const fpc_stage *stage) { return (int64_t)stage->width * stage->channels; }

/* ---- gray ---- */

typedef struct gray_stage {
    fpc_stage stage;
    uint8_t *room, *gray; /* a row of the input, and the same in gray */
} gray_stage;

/* Gives the next row in gray, in one channel or three equal ones. A gray image is unchanged. */
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

/* ---- channels in another order ---- */

typedef struct permute_stage {
    fpc_stage stage;
    uint8_t *room, *planes[3], *ordered[3]; /* a row of the input, its channels, and the channels in the new order */
} permute_stage;

static int next_permuted(fpc_stage *stage, uint8_t *row) {
    permute_stage *permute = (permute_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row);
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, permute->room, &in);
    if (status != FPC_OK) return status;
    uint8_t *const *ordered = permute->ordered;
    stage->kernels->split_channels(in, stage->width, permute->planes);
    stage->kernels->planes_to_rgb(ordered[0], ordered[1], ordered[2], row, stage->width);
    return FPC_OK;
}

int fpc_add_permute(fpc_chain *chain, const fpc_operation *operation) {
    permute_stage *permute = fpc_chain_add(chain, sizeof *permute, next_permuted);
    if (!permute) return FPC_NO_MEMORY;
    fpc_stage *stage = &permute->stage;
    const int32_t *from = operation->permutation;
    int seen = 0;
    for (int c = 0; c < 3; c++) {
        if (from[c] < 0 || from[c] > 2) return FPC_BAD_OPERATION;
        seen |= 1 << from[c];
    }
    if (seen != 7) return FPC_BAD_OPERATION;
    const int64_t row_bytes = fpc_row_bytes(stage->width, stage->channels),
                  plane_bytes = fpc_row_bytes(stage->width, 1);
    permute->room = fpc_buffer_need(&stage->slot->rows, (size_t)(row_bytes + 3 * plane_bytes));
    if (!permute->room) return FPC_NO_MEMORY;
    for (int c = 0; c < 3; c++) permute->planes[c] = permute->room + row_bytes + c * plane_bytes;
    for (int c = 0; c < 3; c++) permute->ordered[c] = permute->planes[from[c]];
    return FPC_OK;
}

/* ---- saturation: a blend with the pixel's own gray ---- */

typedef struct saturation_stage {
    fpc_stage stage;
    float factor;
    uint8_t *room, *gray, *grays; /* rows: the input, its gray, and the gray in three channels */
} saturation_stage;

static int next_saturated(fpc_stage *stage, uint8_t *row) {
    const saturation_stage *saturation = (const saturation_stage *)stage;
    const fpc_kernels *kernels = stage->kernels;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* the gray of a gray image is itself */
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
