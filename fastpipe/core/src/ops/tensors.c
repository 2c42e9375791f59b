/* tensors.c: torchvision's operations on uint8 tensors, row by row, in torch's arithmetic. lut.c has the operations
 * that are a table once the image is known. */
#include "tensors.h"

#include <math.h>
#include <string.h>

#include "operations.h"

bool fpc_tensor_factors(const fpc_operation *operation, fpc_tensor_blend *blend) {
    const double factor = operation->blend.factor;
    if (!(factor >= -3.0e38 && factor <= 3.0e38) || operation->flags & ~(FPC_FUSED | FPC_V1)) return false;
    blend->by = (float)factor;
    blend->rest = (float)(1.0 - factor);
    blend->fused = operation->flags & FPC_FUSED;
    blend->v1 = operation->flags & FPC_V1;
    return true;
}

/* ---- tables ---- */

static uint8_t byte_of(float value) { return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value; }

int fpc_tensor_contrast_table(const fpc_tensor_blend *blend, float mean, uint8_t *table) {
    const float rest = mean * blend->rest;
    for (int i = 0; i < 256; i++) {
        const float scaled = blend->by * (float)i;
        table[i] = byte_of(scaled + rest);
        if (blend->fused && table[i] != byte_of(fmaf(mean, blend->rest, scaled))) return FPC_UNSURE;
    }
    return FPC_OK;
}

/* Maps the least value to 0 and the greatest to 255; v1's `255 / range` is torch's reciprocal times 255. */
void fpc_tensor_autocontrast_table(uint8_t least, uint8_t most, bool v1, uint8_t *table) {
    const bool flat = most <= least;
    const float range = (float)(most - least), low = flat ? 0.0f : (float)least;
    const float scale = flat ? 1.0f : v1 ? 1.0f / range * 255.0f : range * (float)(1.0 / 255);
    for (int i = 0; i < 256; i++) table[i] = byte_of(v1 ? ((float)i - low) * scale : ((float)i - low) / scale);
}

/* ---- gray and saturation (a blend with gray), on the separate channels ---- */

typedef struct planes_stage {
    fpc_stage stage;
    uint8_t *room, *planes[3]; /* a row of the input, and its channels; after them there is room for another row */
} planes_stage;

typedef struct gray_stage {
    planes_stage split;
    fpc_tensor_blend blend;
} gray_stage;

/* Adds a stage that begins with a planes_stage; NULL if there is no memory. */
static void *add_planes(fpc_chain *chain, size_t size, fpc_next_row *next) {
    planes_stage *split = fpc_chain_add(chain, size, next);
    if (!split) return NULL;
    fpc_stage *stage = &split->stage;
    const int64_t row_bytes = fpc_row_bytes(stage->width, 3), plane_bytes = fpc_row_bytes(stage->width, 1);
    split->room = fpc_buffer_need(&stage->slot->rows, (size_t)(2 * row_bytes + 3 * plane_bytes));
    if (!split->room) return NULL;
    for (int c = 0; c < 3; c++) split->planes[c] = split->room + row_bytes + c * plane_bytes;
    return split;
}

/* Reads the next row, sets *in to it, and splits it into its channels. */
static int split_row(const planes_stage *split, const uint8_t **in) {
    const fpc_stage *stage = &split->stage;
    const int status = fpc_borrow_row(stage->from, split->room, in);
    if (status == FPC_OK) stage->kernels->split_channels(*in, stage->width, split->planes);
    return status;
}

/* Reads the next row, and replaces its first channel by its gray. */
static int next_gray_plane(const gray_stage *made, const uint8_t **in) {
    const int status = split_row(&made->split, in);
    if (status != FPC_OK) return status;
    uint8_t *const *planes = made->split.planes;
    const fpc_stage *stage = &made->split.stage;
    stage->kernels->planes_gray(planes[0], planes[1], planes[2], stage->width, made->blend.fused, planes[0]);
    return FPC_OK;
}

static int next_gray(fpc_stage *stage, uint8_t *row) {
    const gray_stage *made = (const gray_stage *)stage;
    uint8_t *gray = made->split.planes[0];
    const uint8_t *in;
    const int status = stage->from->channels == 3 ? next_gray_plane(made, &in) : fpc_pull_row(stage->from, gray);
    if (status != FPC_OK) return status;
    if (stage->channels == 3) {
        stage->kernels->planes_to_rgb(gray, gray, gray, row, stage->width);
    } else {
        memcpy(row, gray, (size_t)stage->width);
    }
    return FPC_OK;
}

int fpc_add_tensor_gray(fpc_chain *chain, const fpc_operation *operation) {
    const int32_t channels = operation->gray.channels;
    if ((channels != 1 && channels != 3) || operation->flags & ~(FPC_FUSED | FPC_V1)) return FPC_BAD_OPERATION;
    gray_stage *made = add_planes(chain, sizeof *made, next_gray);
    if (!made) return FPC_NO_MEMORY;
    made->blend.fused = operation->flags & FPC_FUSED;
    made->split.stage.channels = channels;
    return FPC_OK;
}

static int next_saturated(fpc_stage *stage, uint8_t *row) {
    const gray_stage *made = (const gray_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row);
    const uint8_t *in;
    const int status = next_gray_plane(made, &in);
    if (status != FPC_OK) return status;
    const fpc_tensor_blend *blend = &made->blend;
    uint8_t *gray = made->split.planes[0];
    uint8_t *grays = made->split.planes[1]; /* from here on there is room for a row of three channels */
    stage->kernels->planes_to_rgb(gray, gray, gray, grays, stage->width);
    stage->kernels->planes_blend(in, grays, blend->by, blend->rest, (int64_t)stage->width * 3, blend->fused, row);
    return FPC_OK;
}

int fpc_add_tensor_saturation(fpc_chain *chain, const fpc_operation *operation) {
    fpc_tensor_blend blend;
    if (!fpc_tensor_factors(operation, &blend)) return FPC_BAD_OPERATION;
    gray_stage *made = add_planes(chain, sizeof *made, next_saturated);
    if (!made) return FPC_NO_MEMORY;
    made->blend = blend;
    return FPC_OK;
}

/* ---- hue ---- */

typedef struct hue_stage {
    fpc_stage stage;
    uint8_t *room; /* a row of the input */
    float by;
} hue_stage;

static int next_turned(fpc_stage *stage, uint8_t *row) {
    const hue_stage *hue = (const hue_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray has no hue */
    fpc_hue_turn turn = {.out = row, .in_plane = 1, .out_plane = 1, .in_step = 3, .out_step = 3, .by = hue->by};
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, hue->room, &in);
    if (status != FPC_OK) return status;
    turn.in = in;
    stage->kernels->adjust_tensor_hue(&turn, stage->width);
    return FPC_OK;
}

int fpc_add_tensor_hue(fpc_chain *chain, const fpc_operation *operation) {
    const float by = operation->tensor_hue.by;
    if (!(by >= -0.5f && by <= 0.5f) || operation->flags) return FPC_BAD_OPERATION;
    hue_stage *hue = fpc_chain_add(chain, sizeof *hue, next_turned);
    if (!hue) return FPC_NO_MEMORY;
    hue->by = by;
    hue->room = fpc_buffer_need(&hue->stage.slot->rows, (size_t)fpc_row_bytes(hue->stage.width, 3));
    return hue->room ? FPC_OK : FPC_NO_MEMORY;
}

/* ---- affine and rotate ---- */

typedef struct sample_stage {
    fpc_stage stage;
    fpc_grid_sample sample;
    float theta[6], fill[3];
    uint8_t *plane; /* a row's channels, one after the other */
    int64_t plane_bytes;
} sample_stage;

static int next_sampled(fpc_stage *stage, uint8_t *row) {
    sample_stage *self = (sample_stage *)stage;
    fpc_grid_sample *sample = &self->sample;
    const int64_t plane = self->plane_bytes;
    sample->first_row = stage->given;
    sample->end_row = stage->given + 1;
    sample->out = stage->channels == 1 ? row : self->plane;
    stage->kernels->grid_sample(sample);
    if (stage->channels == 3) {
        stage->kernels->planes_to_rgb(self->plane, self->plane + plane, self->plane + 2 * plane, row, stage->width);
    }
    return FPC_OK;
}

/* Reads all rows of the stage before as pixels of an fpc_grid_sample. */
static int read_pixels(fpc_stage *stage, uint32_t *pixels, uint8_t *room) {
    fpc_stage *from = stage->from;
    const int64_t stride = (int64_t)from->width + 4;
    memset(pixels, 0, 2 * (size_t)stride * sizeof *pixels);
    for (int32_t y = 0; y < from->height; y++) {
        uint32_t *to = pixels + (y + 2) * stride;
        const uint8_t *in;
        const int status = fpc_borrow_row(from, room, &in);
        if (status != FPC_OK) return status;
        to[0] = to[1] = to[stride - 2] = to[stride - 1] = 0;
        to += 2;
        if (from->channels == 3) {
            for (int32_t x = 0; x < from->width; x++, in += 3) {
                to[x] = (uint32_t)1 << 24 | (uint32_t)in[2] << 16 | (uint32_t)in[1] << 8 | in[0];
            }
        } else {
            for (int32_t x = 0; x < from->width; x++) to[x] = (uint32_t)1 << 24 | in[x];
        }
    }
    memset(pixels + (from->height + 2) * stride, 0, 2 * (size_t)stride * sizeof *pixels);
    return FPC_OK;
}

static bool is_sample(const fpc_op_sample *sample, int32_t flags) {
    if (flags & ~(FPC_FUSED | FPC_V1) || (sample->filter != FPC_NEAREST && sample->filter != FPC_BILINEAR))
        return false;
    if (sample->height < 1 || sample->width < 1) return false;
    for (int i = 0; i < 6; i++) {
        if (!isfinite(sample->theta[i])) return false;
    }
    for (int c = 0; c < 3 && sample->filled; c++) {
        if (!(sample->fill[c] >= 0.0f && sample->fill[c] <= 255.0f)) return false;
    }
    return true;
}

int fpc_add_tensor_sample(fpc_chain *chain, const fpc_operation *operation) {
    const fpc_op_sample *given = &operation->sample;
    sample_stage *self = fpc_chain_add(chain, sizeof *self, next_sampled);
    if (!self) return FPC_NO_MEMORY;
    if (!is_sample(given, operation->flags)) return FPC_BAD_OPERATION;
    fpc_stage *stage = &self->stage;
    memcpy(self->theta, given->theta, sizeof self->theta);
    memcpy(self->fill, given->fill, sizeof self->fill);
    self->plane_bytes = fpc_row_bytes(given->width, 1);
    self->sample = (fpc_grid_sample){.channels = stage->channels,
                                     .height = stage->height,
                                     .width = stage->width,
                                     .out_height = given->height,
                                     .out_width = given->width,
                                     .plane = self->plane_bytes,
                                     .theta = self->theta,
                                     .fill = self->fill,
                                     .filled = given->filled,
                                     .bilinear = given->filter == FPC_BILINEAR,
                                     .v2 = !(operation->flags & FPC_V1),
                                     .fused = operation->flags & FPC_FUSED};
    int status = fpc_grid_sample_check(&self->sample);
    if (status != FPC_OK) return status;
    uint32_t *pixels;
    status = fpc_take_image(chain, ((int64_t)stage->height + 4) * (stage->width + 4) * (int64_t)sizeof *pixels,
                            (uint8_t **)&pixels);
    if (status != FPC_OK) return status;
    const int64_t row_bytes = fpc_row_bytes(stage->width, stage->channels);
    self->plane = fpc_buffer_need(&stage->slot->rows, (size_t)(row_bytes + 3 * self->plane_bytes));
    if (!self->plane) return FPC_NO_MEMORY;
    status = read_pixels(stage, pixels, self->plane + 3 * self->plane_bytes);
    self->sample.pixels = pixels;
    stage->height = given->height;
    stage->width = given->width;
    return status;
}
