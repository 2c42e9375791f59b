/* tensors.c: torchvision's operations on uint8 tensors, row by row, in torch's arithmetic. What is a table, once the
 * image is known, is in lut.c. */
#include "tensors.h"

#include <math.h>
#include <string.h>

#include "operations.h"

bool fpc_tensor_factors(const fpc_operation *operation, fpc_tensor_blend *blend) {
    const double factor = operation->blend.factor;
    if (!(factor >= -3.0e38 && factor <= 3.0e38) || operation->reserved & ~(FPC_FUSED | FPC_V1)) return false;
    blend->by = (float)factor;
    blend->rest = (float)(1.0 - factor);
    blend->fused = operation->reserved & FPC_FUSED;
    blend->v1 = operation->reserved & FPC_V1;
    return true;
}

/* ---- tables ---- */

static uint8_t byte_of(float value) { return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value; }

void fpc_tensor_contrast_table(const fpc_tensor_blend *blend, float mean, uint8_t *table) {
    for (int i = 0; i < 256; i++) {
        const float scaled = blend->by * (float)i;
        table[i] = byte_of(blend->fused ? fmaf(mean, blend->rest, scaled) : scaled + mean * blend->rest);
    }
}

/* The least value becomes 0 and the greatest 255; v1's `255 / range` is torch's reciprocal times 255. */
void fpc_tensor_autocontrast_table(uint8_t least, uint8_t most, bool v1, uint8_t *table) {
    const bool flat = most <= least;
    const float range = (float)(most - least), low = flat ? 0.0f : (float)least;
    const float scale = flat ? 1.0f : v1 ? 1.0f / range * 255.0f : range * (float)(1.0 / 255);
    for (int i = 0; i < 256; i++) table[i] = byte_of(v1 ? ((float)i - low) * scale : ((float)i - low) / scale);
}

/* ---- gray and saturation, a blend with it ---- */

typedef struct gray_stage {
    fpc_stage stage;
    fpc_tensor_blend blend;
    uint8_t *room, *planes[3]; /* rows: the input, and its channels; the gray one takes the first one's place */
} gray_stage;

/* Where the next row is in gray; `in`: the row. */
static int next_gray_plane(const gray_stage *made, const uint8_t **in) {
    const fpc_stage *stage = &made->stage;
    const int status = fpc_borrow_row(stage->from, made->room, in);
    if (status != FPC_OK) return status;
    uint8_t *const *planes = made->planes;
    stage->kernels->split_channels(*in, stage->width, planes);
    stage->kernels->planes_gray(planes[0], planes[1], planes[2], stage->width, made->blend.fused, planes[0]);
    return FPC_OK;
}

static int next_gray(fpc_stage *stage, uint8_t *row) {
    const gray_stage *made = (const gray_stage *)stage;
    uint8_t *gray = made->planes[0];
    const uint8_t *in;
    const int status =
        stage->from->channels == 3 ? next_gray_plane(made, &in) : fpc_pull_row(stage->from, made->planes[0]);
    if (status != FPC_OK) return status;
    if (stage->channels == 3) {
        stage->kernels->planes_to_rgb(gray, gray, gray, row, stage->width);
    } else {
        memcpy(row, gray, (size_t)stage->width);
    }
    return FPC_OK;
}

static int next_saturated(fpc_stage *stage, uint8_t *row) {
    const gray_stage *made = (const gray_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row);
    const uint8_t *in;
    const int status = next_gray_plane(made, &in);
    if (status != FPC_OK) return status;
    const fpc_tensor_blend *blend = &made->blend;
    uint8_t *gray = made->planes[0];
    uint8_t *grays = made->planes[1]; /* three rows are one of three channels */
    stage->kernels->planes_to_rgb(gray, gray, gray, grays, stage->width);
    stage->kernels->planes_blend(in, grays, blend->by, blend->rest, (int64_t)stage->width * 3, blend->fused, row);
    return FPC_OK;
}

static int add_gray(fpc_chain *chain, fpc_next_row *next, const fpc_tensor_blend *blend, int32_t channels) {
    gray_stage *made = fpc_chain_add(chain, sizeof *made, next);
    if (!made) return FPC_NO_MEMORY;
    fpc_stage *stage = &made->stage;
    made->blend = *blend;
    /* a row of the input, and room for four planes: the second one may be a row of three channels */
    const int64_t row_bytes = fpc_row_bytes(stage->width, 3), plane_bytes = fpc_row_bytes(stage->width, 1);
    made->room = fpc_buffer_need(&stage->slot->rows, (size_t)(2 * row_bytes + 3 * plane_bytes));
    if (!made->room) return FPC_NO_MEMORY;
    made->planes[0] = made->room + row_bytes;
    made->planes[1] = made->planes[0] + plane_bytes;
    made->planes[2] = made->planes[1] + plane_bytes;
    if (channels) stage->channels = channels;
    return FPC_OK;
}

int fpc_add_tensor_gray(fpc_chain *chain, const fpc_operation *operation) {
    const int32_t channels = operation->gray.channels;
    if ((channels != 1 && channels != 3) || operation->reserved & ~(FPC_FUSED | FPC_V1)) return FPC_BAD_OPERATION;
    const fpc_tensor_blend blend = {.fused = operation->reserved & FPC_FUSED};
    return add_gray(chain, next_gray, &blend, channels);
}

int fpc_add_tensor_saturation(fpc_chain *chain, const fpc_operation *operation) {
    fpc_tensor_blend blend;
    if (!fpc_tensor_factors(operation, &blend)) return FPC_BAD_OPERATION;
    return add_gray(chain, next_saturated, &blend, 0);
}

/* ---- sharpness: a blend with the smoothed image, whose outermost pixels are the image's ---- */

typedef struct sharpness_stage {
    fpc_stage stage;
    fpc_tensor_blend blend;
    uint8_t *ring, *smooth; /* three rows of the input, and one of the smoothed image */
    int64_t row_bytes;
} sharpness_stage;

static uint8_t *ring_row(const sharpness_stage *sharpness, int32_t y) {
    return sharpness->ring + y % 3 * sharpness->row_bytes;
}

static int next_sharpened(fpc_stage *stage, uint8_t *row) {
    const sharpness_stage *sharpness = (const sharpness_stage *)stage;
    const fpc_kernels *kernels = stage->kernels;
    const fpc_tensor_blend *blend = &sharpness->blend;
    fpc_stage *from = stage->from;
    const int32_t y = stage->given, last = stage->height - 1, step = stage->channels;
    if (last < 2 || stage->width < 3) return fpc_pull_row(from, row);
    while (from->given <= (y < last ? y + 1 : last)) {
        const int status = fpc_pull_row(from, ring_row(sharpness, from->given));
        if (status != FPC_OK) return status;
    }
    const int64_t bytes = (int64_t)stage->width * step;
    const uint8_t *in = ring_row(sharpness, y);
    uint8_t *smooth = sharpness->smooth;
    if (y == 0 || y == last) {
        memcpy(smooth, in, (size_t)bytes);
    } else {
        const uint8_t *above = ring_row(sharpness, y - 1), *below = ring_row(sharpness, y + 1);
        kernels->smooth_row(above + step, in + step, below + step, bytes - 2 * step, step, smooth + step);
        memcpy(smooth, in, (size_t)step);
        memcpy(smooth + bytes - step, in + bytes - step, (size_t)step);
    }
    if (blend->v1) {
        kernels->planes_blend(in, smooth, blend->by, blend->rest, bytes, blend->fused, row);
    } else {
        kernels->planes_shift(in, smooth, blend->rest, bytes, blend->fused, row);
    }
    return FPC_OK;
}

int fpc_add_tensor_sharpness(fpc_chain *chain, const fpc_operation *operation) {
    sharpness_stage *sharpness = fpc_chain_add(chain, sizeof *sharpness, next_sharpened);
    if (!sharpness) return FPC_NO_MEMORY;
    if (!fpc_tensor_factors(operation, &sharpness->blend)) return FPC_BAD_OPERATION;
    sharpness->row_bytes = fpc_row_bytes(sharpness->stage.width, sharpness->stage.channels);
    sharpness->ring = fpc_need_rows(&sharpness->stage, 4);
    if (!sharpness->ring) return FPC_NO_MEMORY;
    sharpness->smooth = sharpness->ring + 3 * sharpness->row_bytes;
    return FPC_OK;
}

/* ---- hue ---- */

typedef struct hue_stage {
    fpc_stage stage;
    float by;
    uint8_t *room, *planes[3];
} hue_stage;

static int next_turned(fpc_stage *stage, uint8_t *row) {
    const hue_stage *hue = (const hue_stage *)stage;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray has no hue */
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, hue->room, &in);
    if (status != FPC_OK) return status;
    uint8_t *const *planes = hue->planes;
    const size_t plane = (size_t)(planes[1] - planes[0]);
    stage->kernels->split_channels(in, stage->width, planes);
    fpc_hue(planes[0], planes[0], (size_t)stage->width, plane, plane, hue->by);
    stage->kernels->planes_to_rgb(planes[0], planes[1], planes[2], row, stage->width);
    return FPC_OK;
}

int fpc_add_tensor_hue(fpc_chain *chain, const fpc_operation *operation) {
    hue_stage *hue = fpc_chain_add(chain, sizeof *hue, next_turned);
    if (!hue) return FPC_NO_MEMORY;
    hue->by = operation->turn.by;
    if (!(hue->by >= -0.5f && hue->by <= 0.5f) || operation->reserved) return FPC_BAD_OPERATION;
    const int64_t row_bytes = fpc_row_bytes(hue->stage.width, 3), plane_bytes = fpc_row_bytes(hue->stage.width, 1);
    hue->room = fpc_buffer_need(&hue->stage.slot->rows, (size_t)(row_bytes + 3 * plane_bytes));
    if (!hue->room) return FPC_NO_MEMORY;
    for (int c = 0; c < 3; c++) hue->planes[c] = hue->room + row_bytes + c * plane_bytes;
    return FPC_OK;
}

/* ---- affine and rotate ---- */

typedef struct sample_stage {
    fpc_stage stage;
    fpc_grid_sample sample;
    float theta[6], fill[3];
    uint8_t *plane; /* a row's channels, one behind the other */
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

/* The rows of the stage before, as fpc_grid_sample has them. */
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
    if (!is_sample(given, operation->reserved)) return FPC_BAD_OPERATION;
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
                                     .v2 = !(operation->reserved & FPC_V1),
                                     .fused = operation->reserved & FPC_FUSED};
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
