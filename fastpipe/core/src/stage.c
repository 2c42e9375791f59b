/* stage.c: chains of stages, each of which gets its rows from the one before. */
#include "stage.h"

#include <string.h>

/* ---- chains ---- */

void fpc_chain_start(fpc_chain *chain, int64_t max_bytes) {
    chain->max_bytes = max_bytes;
    chain->count = 0;
    chain->last = NULL;
    chain->turn = 0;
}

void *fpc_chain_add(fpc_chain *chain, size_t size, fpc_next_row *next) {
    if (chain->count == FPC_MOST_STAGES) return NULL;
    fpc_slot *slot = &chain->slots[chain->count];
    fpc_stage *stage = (fpc_stage *)(void *)fpc_buffer_need(&slot->state, size);
    if (!stage) return NULL;
    memset(stage, 0, size);
    stage->next = next;
    stage->slot = slot;
    stage->kernels = chain->kernels;
    stage->from = chain->last;
    if (stage->from) {
        stage->height = stage->from->height;
        stage->width = stage->from->width;
        stage->channels = stage->from->channels;
    }
    chain->last = stage;
    chain->count++;
    return stage;
}

void fpc_chain_free(fpc_chain *chain) {
    for (int i = 0; i < FPC_MOST_STAGES; i++) {
        fpc_buffer_free(&chain->slots[i].state);
        fpc_buffer_free(&chain->slots[i].rows);
        fpc_axis_free(&chain->slots[i].horizontal);
        fpc_axis_free(&chain->slots[i].vertical);
    }
    for (int i = 0; i < 2; i++) fpc_buffer_free(&chain->images[i]);
}

size_t fpc_chain_bytes(const fpc_chain *chain) {
    size_t bytes = chain->images[0].size + chain->images[1].size;
    for (int i = 0; i < FPC_MOST_STAGES; i++) {
        const fpc_slot *slot = &chain->slots[i];
        bytes += slot->state.size + slot->rows.size + slot->horizontal.memory.size + slot->vertical.memory.size;
    }
    return bytes;
}

/* ---- rows ---- */

int64_t fpc_row_bytes(int32_t width, int32_t channels) {
    return ((int64_t)width * channels + FPC_ROW_SLACK + 63) / 64 * 64;
}

uint8_t *fpc_need_rows(fpc_stage *stage, int32_t count) {
    const int64_t row_bytes = fpc_row_bytes(stage->from->width, stage->from->channels);
    return fpc_buffer_need(&stage->slot->rows, (size_t)row_bytes * (size_t)count);
}

int fpc_pull_row(fpc_stage *stage, uint8_t *row) {
    if (stage->given >= stage->height) return FPC_BAD_REGION;
    const int status = stage->next(stage, row);
    stage->given++;
    return status;
}

int fpc_borrow_row(fpc_stage *stage, uint8_t *room, const uint8_t **row) {
    /* Borrowed rows must have slack that lies inside the rows below. */
    if (stage->memory && stage->stride >= FPC_ROW_SLACK && stage->given < stage->height - 1) {
        *row = stage->memory + stage->given++ * stage->stride;
        return FPC_OK;
    }
    *row = room;
    return fpc_pull_row(stage, room);
}

/* ---- whole images ---- */

int fpc_take_image(fpc_chain *chain, int64_t bytes, uint8_t **data) {
    if ((chain->max_bytes > 0 && bytes > chain->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    *data = fpc_buffer_need(&chain->images[chain->turn], (size_t)bytes);
    if (!*data) return FPC_NO_MEMORY;
    chain->turn ^= 1;
    return FPC_OK;
}

int fpc_materialize_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image) {
    fpc_stage *from = stage->from;
    const int64_t stride = (int64_t)from->width * from->channels;
    const int64_t bytes = stride * from->height + FPC_ROW_SLACK;
    uint8_t *rows;
    const int taken = fpc_take_image(chain, bytes, &rows);
    if (taken != FPC_OK) return taken;
    for (int32_t y = 0; y < from->height; y++) { /* each row's slack is overwritten by the next row */
        const int status = fpc_pull_row(from, rows + y * stride);
        if (status != FPC_OK) return status;
    }
    *image = (fpc_image){.rows = rows, .stride = stride, .height = from->height};
    return FPC_OK;
}

int fpc_borrow_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image) {
    fpc_stage *from = stage->from;
    const int64_t stride = (int64_t)from->width * from->channels;
    const bool dense = from->memory && from->given == 0 && from->stride == stride;
    /* In narrower images a row's slack would extend beyond the next row. */
    if (!dense || stride < FPC_ROW_SLACK) return fpc_materialize_image(chain, stage, image);
    uint8_t *last_row;
    const int status = fpc_take_image(chain, stride + FPC_ROW_SLACK, &last_row);
    if (status != FPC_OK) return status;
    memcpy(last_row, from->memory + (from->height - 1) * stride, (size_t)stride);
    *image = (fpc_image){from->memory, last_row, stride, from->height};
    from->given = from->height;
    return FPC_OK;
}
