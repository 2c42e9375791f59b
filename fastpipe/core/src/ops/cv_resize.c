/* cv_resize.c: FPC_OP_CV_RESIZE. */
#include "cv_resize.h"

#include <math.h>

#include "operations.h"

#define LARGEST_SIDE (1 << 22)

typedef struct cv_resize {
    fpc_stage stage;
    fpc_cv_tap *taps; /* one for each column of the result */
    int16_t *rows[2]; /* input rows of even and of odd number, after the pass along them */
    uint8_t *input;
    int32_t held[2]; /* the numbers of these rows; -1 for none */
} cv_resize;

/* The place of a row or column of the result: between `first` and the one after it, at the ends outside the input. */
static int32_t place_of(int32_t at, int32_t inputs, int32_t outputs, int16_t weights[2]) {
    const double scale = 1.0 / ((double)outputs / inputs); /* as OpenCV, which rounds twice */
    float place = (float)((at + 0.5) * scale - 0.5);
    const float first = floorf(place);
    place -= first;
    weights[0] = (int16_t)lrintf((1.0f - place) * FPC_CV_ONE);
    weights[1] = (int16_t)lrintf(place * FPC_CV_ONE);
    return (int32_t)first;
}

static fpc_cv_tap tap_of(int32_t column, int32_t inputs, int32_t outputs, int32_t channels) {
    fpc_cv_tap tap;
    int32_t first = place_of(column, inputs, outputs, tap.weights);
    if (first < 0 || first >= inputs - 1) {
        first = first < 0 ? 0 : inputs - 1;
        tap.weights[0] = FPC_CV_ONE;
        tap.weights[1] = 0;
    }
    tap.offset = first * channels;
    return tap;
}

static int32_t clamped(int32_t row, int32_t rows) { return row < 0 ? 0 : row < rows ? row : rows - 1; }

/* Reads input row `row`, unless it is held. */
static int hold(cv_resize *self, int32_t row) {
    fpc_stage *stage = &self->stage, *from = stage->from;
    if (self->held[row & 1] == row) return FPC_OK;
    if (from->memory && from->given < row) from->given = row; /* rows in memory needn't be read to skip them */
    while (from->given < row) {
        const int status = fpc_pull_row(from, self->input);
        if (status != FPC_OK) return status;
    }
    const uint8_t *in = NULL;
    const int status = fpc_borrow_row(from, self->input, &in);
    if (status != FPC_OK) return status;
    stage->kernels->cv_resize_row(in, self->taps, stage->width, stage->channels, self->rows[row & 1]);
    self->held[row & 1] = row;
    return FPC_OK;
}

static int next_cv_resized(fpc_stage *stage, uint8_t *out) {
    cv_resize *self = (cv_resize *)stage;
    const int32_t rows = stage->from->height;
    int16_t weights[2];
    const int32_t place = place_of(stage->given, rows, stage->height, weights);
    const int32_t first = clamped(place, rows), second = clamped(place + 1, rows);
    int status = hold(self, first);
    if (status == FPC_OK) status = hold(self, second);
    if (status != FPC_OK) return status;
    stage->kernels->cv_mix_rows(self->rows[first & 1], self->rows[second & 1], weights,
                                (int64_t)stage->width * stage->channels, out);
    return FPC_OK;
}

int fpc_add_cv_resize(fpc_chain *chain, const fpc_operation *operation) {
    const int32_t height = operation->cv_resize.height, width = operation->cv_resize.width;
    const int32_t in_height = chain->last->height, in_width = chain->last->width;
    if (height < 1 || width < 1 || height >= LARGEST_SIDE || width >= LARGEST_SIDE) return FPC_BAD_OPERATION;
    if (in_height == 2 * height && in_width == 2 * width) return FPC_BAD_OPERATION;
    cv_resize *self = fpc_chain_add(chain, sizeof *self, next_cv_resized);
    if (!self) return FPC_NO_MEMORY;
    fpc_stage *stage = &self->stage;
    stage->height = height;
    stage->width = width;
    const int64_t in_bytes = fpc_row_bytes(in_width, stage->channels);
    const int64_t out_bytes = 2 * fpc_row_bytes(width, stage->channels);
    const int64_t tap_bytes = ((int64_t)width * (int64_t)sizeof(fpc_cv_tap) + 63) / 64 * 64;
    const int64_t bytes = tap_bytes + 2 * out_bytes + in_bytes;
    if ((chain->max_bytes > 0 && bytes > chain->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *memory = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    if (!memory) return FPC_NO_MEMORY;
    self->taps = (fpc_cv_tap *)(void *)memory;
    self->rows[0] = (int16_t *)(void *)(memory + tap_bytes);
    self->rows[1] = (int16_t *)(void *)(memory + tap_bytes + out_bytes);
    self->input = memory + tap_bytes + 2 * out_bytes;
    self->held[0] = self->held[1] = -1;
    for (int32_t x = 0; x < width; x++) self->taps[x] = tap_of(x, in_width, width, stage->channels);
    return FPC_OK;
}
