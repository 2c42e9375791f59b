/* source.c: where a chain's rows come from. */
#include "source.h"

#include <string.h>

/* ---- pixels in memory ---- */

typedef struct pixels_stage {
    fpc_stage stage;
    fpc_pixels pixels; /* the box of them */
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

int fpc_add_pixels(fpc_chain *chain, const fpc_pixels *pixels, const fpc_box *box) {
    pixels_stage *source = fpc_chain_add(chain, sizeof *source, next_strided_row);
    if (!source) return FPC_NO_MEMORY;
    source->pixels = *pixels;
    source->pixels.data += box->top * pixels->row_stride + box->left * pixels->column_stride;
    fpc_stage *stage = &source->stage;
    stage->height = box->height;
    stage->width = box->width;
    stage->channels = pixels->channels;
    if (pixels->column_stride == pixels->channels && (pixels->channels == 1 || pixels->channel_stride == 1)) {
        stage->next = next_dense_row;
        stage->memory = source->pixels.data;
        stage->stride = pixels->row_stride;
    }
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
