/* source.c: the first stages of chains. */
#include "source.h"

#include <string.h>

/* ---- pixels in memory ---- */

typedef struct pixels_stage {
    fpc_stage stage;
    fpc_pixels pixels; /* only the box's pixels */
    uint8_t *room;     /* room for the three planes of a row that can't be read in whole groups */
} pixels_stage;

static int next_dense_row(fpc_stage *stage, uint8_t *row) {
    memcpy(row, stage->memory + stage->given * stage->stride, (size_t)stage->width * (size_t)stage->channels);
    return FPC_OK;
}

static int next_strided_row(fpc_stage *stage, uint8_t *row) {
    const fpc_pixels *pixels = &((pixels_stage *)stage)->pixels;
    const uint8_t *in = pixels->data + stage->given * pixels->row_stride;
    const int64_t channels = stage->channels;
    for (int64_t c = 0; c < channels; c++) {
        const uint8_t *from = in + c * pixels->channel_stride;
        for (int64_t x = 0; x < stage->width; x++) row[x * channels + c] = from[x * pixels->column_stride];
    }
    return FPC_OK;
}

/* Gives the next row of pixels of four bytes, without the fourth. */
static int next_rgb_row(fpc_stage *stage, uint8_t *row) {
    const fpc_pixels *pixels = &((pixels_stage *)stage)->pixels;
    stage->kernels->drop_rgbx_pad(pixels->data + stage->given * pixels->row_stride, stage->width, row);
    return FPC_OK;
}

/* Gives the next row of the fourth bytes of pixels of four bytes. */
static int next_rgbx_pad_row(fpc_stage *stage, uint8_t *row) {
    const fpc_pixels *pixels = &((pixels_stage *)stage)->pixels;
    stage->kernels->take_rgbx_pad(pixels->data + stage->given * pixels->row_stride, stage->width, row);
    return FPC_OK;
}

/* Gives the next row of three planes, the layout of tensors. */
static int next_planar_row(fpc_stage *stage, uint8_t *row) {
    const pixels_stage *source = (const pixels_stage *)stage;
    const fpc_pixels *pixels = &source->pixels;
    const uint8_t *in = pixels->data + stage->given * pixels->row_stride, *planes[3];
    /* Kernels read whole groups: the bytes after a row's end must lie inside the rows below. */
    const bool within = pixels->row_stride >= FPC_ROW_SLACK && stage->given < stage->height - 1;
    const int64_t room_bytes = fpc_row_bytes(stage->width, 1);
    for (int c = 0; c < 3; c++) {
        planes[c] = in + c * pixels->channel_stride;
        if (within) continue;
        memcpy(source->room + c * room_bytes, planes[c], (size_t)stage->width);
        planes[c] = source->room + c * room_bytes;
    }
    stage->kernels->planes_to_rgb(planes[0], planes[1], planes[2], row, stage->width);
    return FPC_OK;
}

static fpc_next_row *choose_way(const fpc_pixels *pixels, int32_t channels) {
    const bool together = pixels->channels == 1 || pixels->channel_stride == 1;
    if (together && pixels->column_stride == channels && pixels->channels == channels) return next_dense_row;
    if (together && pixels->column_stride == 4 && channels == 3) return next_rgb_row;
    if (together && pixels->column_stride == 4 && channels < pixels->channels) return next_rgbx_pad_row;
    return channels == 3 && pixels->column_stride == 1 ? next_planar_row : next_strided_row;
}

int fpc_add_pixels(fpc_chain *chain, const fpc_pixels *pixels, const fpc_box *box, int32_t channels) {
    fpc_next_row *const next = choose_way(pixels, channels);
    pixels_stage *source = fpc_chain_add(chain, sizeof *source, next);
    if (!source) return FPC_NO_MEMORY;
    source->pixels = *pixels;
    source->pixels.data += box->top * pixels->row_stride + box->left * pixels->column_stride;
    fpc_stage *stage = &source->stage;
    stage->height = box->height;
    stage->width = box->width;
    stage->channels = channels;
    if (next == next_dense_row) {
        stage->memory = source->pixels.data;
        stage->stride = pixels->row_stride;
    } else if (next == next_strided_row && channels == 1 && pixels->channels == 4) {
        source->pixels.data += 3 * pixels->channel_stride;
    } else if (next == next_planar_row) {
        source->room = fpc_buffer_need(&stage->slot->rows, 3 * (size_t)fpc_row_bytes(stage->width, 1));
        if (!source->room) return FPC_NO_MEMORY;
    }
    return FPC_OK;
}

/* ---- images of one value ---- */

typedef struct constant_stage {
    fpc_stage stage;
    uint8_t value;
} constant_stage;

static int next_constant_row(fpc_stage *stage, uint8_t *row) {
    memset(row, ((constant_stage *)stage)->value, (size_t)stage->width);
    return FPC_OK;
}

int fpc_add_constant(fpc_chain *chain, const fpc_box *box, uint8_t value) {
    constant_stage *source = fpc_chain_add(chain, sizeof *source, next_constant_row);
    if (!source) return FPC_NO_MEMORY;
    source->value = value;
    source->stage.height = box->height;
    source->stage.width = box->width;
    source->stage.channels = 1;
    return FPC_OK;
}

/* ---- decoded pixels ---- */

typedef struct decoder_stage {
    fpc_stage stage;
    const fpc_codec *codec;
    void *decoder;
} decoder_stage;

static int next_decoded_row(fpc_stage *stage, uint8_t *row) {
    const decoder_stage *source = (const decoder_stage *)stage;
    return source->codec->next(source->decoder, row);
}

int fpc_add_decoder(fpc_chain *chain, const fpc_codec *codec, void *decoder, const fpc_box *box, int32_t channels) {
    decoder_stage *source = fpc_chain_add(chain, sizeof *source, next_decoded_row);
    if (!source) return FPC_NO_MEMORY;
    source->codec = codec;
    source->decoder = decoder;
    source->stage.height = box->height;
    source->stage.width = box->width;
    source->stage.channels = channels;
    return codec->start(decoder, box, chain->max_bytes);
}
