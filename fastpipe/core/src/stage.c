/* stage.c: what all stages share, and where rows come from. */
#include "stage.h"

#include <string.h>

int64_t fpc_row_bytes(int32_t width, int32_t channels) {
    return ((int64_t)width * channels + FPC_ROW_SLACK + 63) / 64 * 64;
}

int fpc_stage_pull(fpc_stage *stage, uint8_t *row) {
    if (stage->given >= stage->height) return FPC_BAD_REGION;
    const int status = stage->next(stage, row);
    stage->given++;
    return status;
}

static int next_pixels(fpc_stage *stage, uint8_t *row) {
    const fpc_pixels *pixels = &stage->pixels;
    const uint8_t *in = pixels->data + stage->given * pixels->row_stride;
    const int64_t channels = stage->channels;
    if (pixels->column_stride == channels && (channels == 1 || pixels->channel_stride == 1)) {
        memcpy(row, in, (size_t)stage->width * (size_t)channels);
        return FPC_OK;
    }
    for (int64_t c = 0; c < channels; c++) {
        const uint8_t *from = in + c * pixels->channel_stride;
        for (int64_t x = 0; x < stage->width; x++) row[x * channels + c] = from[x * pixels->column_stride];
    }
    return FPC_OK;
}

void fpc_stage_pixels(fpc_stage *stage, const fpc_pixels *pixels) {
    stage->height = pixels->height;
    stage->width = pixels->width;
    stage->channels = pixels->channels;
    stage->given = 0;
    stage->pixels = *pixels;
    stage->next = next_pixels;
}

static int next_jpeg(fpc_stage *stage, uint8_t *row) { return fpc_rows_next(stage->jpeg, row); }

void fpc_stage_jpeg(fpc_stage *stage, fpc_rows *rows, int32_t height, int32_t width) {
    stage->height = height;
    stage->width = width;
    stage->channels = 3;
    stage->given = 0;
    stage->jpeg = rows;
    stage->next = next_jpeg;
}
