/* stage.c: what all stages share, and where rows come from. */
#include "stage.h"

#include <string.h>

int64_t fpc_row_bytes(int32_t width, int32_t channels) {
    return ((int64_t)width * channels + FPC_ROW_SLACK + 63) / 64 * 64;
}

int fpc_pull_row(fpc_stage *stage, uint8_t *row) {
    if (stage->given >= stage->height) return FPC_BAD_REGION;
    const int status = stage->next(stage, row);
    stage->given++;
    return status;
}

/* Whether pixels lie as rows on their way do. */
static bool together(const fpc_pixels *pixels) {
    return pixels->column_stride == pixels->channels && (pixels->channels == 1 || pixels->channel_stride == 1);
}

static int next_pixels(fpc_stage *stage, uint8_t *row) {
    const fpc_pixels *pixels = &stage->pixels;
    const uint8_t *in = pixels->data + stage->given * pixels->row_stride;
    const int64_t channels = stage->channels;
    if (together(pixels)) {
        memcpy(row, in, (size_t)stage->width * (size_t)channels);
        return FPC_OK;
    }
    for (int64_t c = 0; c < channels; c++) {
        const uint8_t *from = in + c * pixels->channel_stride;
        for (int64_t x = 0; x < stage->width; x++) row[x * channels + c] = from[x * pixels->column_stride];
    }
    return FPC_OK;
}

int fpc_borrow_row(fpc_stage *stage, uint8_t *room, const uint8_t **row) {
    const fpc_pixels *pixels = &stage->pixels;
    *row = room;
    /* What lies behind a row is read, too: it has to be of the rows below. */
    if (stage->next == next_pixels && stage->given < stage->height && together(pixels) &&
        pixels->row_stride >= FPC_ROW_SLACK && stage->given < stage->height - 1) {
        *row = pixels->data + stage->given++ * pixels->row_stride;
        return FPC_OK;
    }
    return fpc_pull_row(stage, room);
}

const uint8_t *fpc_stage_whole(fpc_stage *stage) {
    const fpc_pixels *pixels = &stage->pixels;
    if (stage->next != next_pixels || stage->given > 0 || !together(pixels)) return NULL;
    if (pixels->row_stride != (int64_t)stage->width * stage->channels) return NULL;
    stage->given = stage->height;
    return pixels->data;
}

void fpc_stage_pixels(fpc_stage *stage, const fpc_pixels *pixels) {
    stage->height = pixels->height;
    stage->width = pixels->width;
    stage->channels = pixels->channels;
    stage->given = 0;
    stage->pixels = *pixels;
    stage->next = next_pixels;
}

static int next_jpeg(fpc_stage *stage, uint8_t *row) { return fpc_jpeg_rows_next(stage->jpeg, row); }

void fpc_stage_jpeg(fpc_stage *stage, fpc_jpeg_rows *rows, int32_t height, int32_t width) {
    stage->height = height;
    stage->width = width;
    stage->channels = 3;
    stage->given = 0;
    stage->jpeg = rows;
    stage->next = next_jpeg;
}

static int next_png(fpc_stage *stage, uint8_t *row) { return fpc_png_next(stage->png, row); }

void fpc_stage_png(fpc_stage *stage, fpc_png *png, int32_t height, int32_t width, int32_t channels) {
    stage->height = height;
    stage->width = width;
    stage->channels = channels;
    stage->given = 0;
    stage->png = png;
    stage->next = next_png;
}
