/* resample.c: FPC_OP_RESIZE: Pillow's two passes (Resample.c: ImagingResampleInner), each rounded to integers, row by
 * row. Between the passes, only the rows for one output row are kept. */
#include "resample.h"

#include <string.h>

enum { AT_ONCE = 2, GRAY_AT_ONCE = 6 /* rows per call of the horizontal pass */ };

typedef struct resize_stage {
    fpc_stage stage;
    fpc_resize resize;
    int32_t at_once;
    uint8_t *inputs[GRAY_AT_ONCE]; /* rows of the input */
    uint8_t *kept[GRAY_AT_ONCE];   /* output rows made ahead of their request: the second and later ones */
    uint8_t *mixed[2], *made[2];   /* three gray rows as the channels of one row, before and after the pass */
    uint8_t *ring;                 /* the rows that the vertical pass reads */
    int32_t ring_rows;             /* a power of two */
    int64_t ring_bytes;            /* from one row to the next, with slack */
    const uint8_t **taps;          /* the rows for one output row */
    fpc_picks picks;               /* for FPC_NEAREST, in the memory of the taps */
} resize_stage;

static uint8_t *ring_row(const resize_stage *self, int32_t row) {
    return self->ring + (row & (self->ring_rows - 1)) * self->ring_bytes;
}

/* The offset in a row of the first column that is read. */
static int64_t column_offset(const resize_stage *self) { return (int64_t)self->resize.column * self->stage.channels; }

/* Computes output row y from the ring's rows: `width` pixels, from `offset` on. */
static void run_vertical(const resize_stage *self, int32_t y, int64_t offset, int32_t width, uint8_t *out) {
    const fpc_axis *vertical = self->resize.vertical;
    const int32_t start = vertical->starts[y], count = vertical->counts[y];
    for (int32_t i = 0; i < count; i++) self->taps[i] = ring_row(self, start + i) + offset;
    self->taps[count] = self->taps[count - 1]; /* rows are read in pairs; this one's weight is 0 */
    self->stage.kernels->resample_vertical(self->taps, vertical, y, (int64_t)width * self->stage.channels, out);
}

/* Runs the horizontal pass over `count` rows. Gray rows go through it three at a time, as the channels of one row. */
static void run_horizontal(const resize_stage *self, const uint8_t *const *in, int32_t count, uint8_t *const *rows) {
    const fpc_kernels *kernels = self->stage.kernels;
    const fpc_axis *axis = self->resize.horizontal;
    if (self->stage.channels == 3) {
        const uint8_t *const two[2] = {in[0], in[count - 1]};
        uint8_t *const made[2] = {rows[0], rows[count - 1]};
        kernels->resample_horizontal(two, axis, 3, made);
        return;
    }
    const int last = count > 3; /* index of the last group of three */
    const int32_t end = count - 1;
    for (int i = 0; i <= last; i++) {
        const int32_t first = 3 * i, second = first < end ? first + 1 : end, third = second < end ? second + 1 : end;
        kernels->planes_to_rgb(in[first], in[second], in[third], self->mixed[i], axis->end);
    }
    const uint8_t *const mixed[2] = {self->mixed[0], self->mixed[last]};
    uint8_t *const made[2] = {self->made[0], self->made[last]};
    kernels->resample_horizontal(mixed, axis, 3, made);
    for (int i = 0; i <= last; i++) {
        const int32_t first = 3 * i, second = first < end ? first + 1 : end, third = second < end ? second + 1 : end;
        uint8_t *const out[3] = {rows[first], rows[second], rows[third]}; /* a row that is there twice is written twice,
                                                                           * with the same bytes */
        kernels->split_channels(self->made[i], axis->outputs, out);
    }
}

/* Skips input rows that aren't needed. */
static int skip_to(const resize_stage *self, int32_t row) {
    fpc_stage *from = self->stage.from;
    int status = FPC_OK;
    while (status == FPC_OK && from->given < row) status = fpc_pull_row(from, self->inputs[0]);
    return status;
}

/* With the horizontal pass first, the ring holds rows of the output's width. */
static int next_horizontal_first(fpc_stage *stage, uint8_t *out) {
    resize_stage *self = (resize_stage *)stage;
    const fpc_axis *vertical = self->resize.vertical;
    fpc_stage *from = stage->from;
    const int32_t y = stage->given, need = vertical->starts[y] + vertical->counts[y];
    const int64_t offset = column_offset(self);
    int status = skip_to(self, vertical->first);
    while (status == FPC_OK && from->given < need) {
        const int32_t row = from->given, left = vertical->end - row;
        const int32_t count = left < self->at_once ? left : self->at_once;
        const uint8_t *in[GRAY_AT_ONCE] = {NULL};
        uint8_t *rows[GRAY_AT_ONCE] = {NULL};
        for (int32_t i = 0; i < count && status == FPC_OK; i++) {
            status = fpc_borrow_row(from, self->inputs[i], &in[i]);
            in[i] += offset;
            rows[i] = ring_row(self, row + i);
        }
        if (status != FPC_OK) break;
        run_horizontal(self, in, count, rows);
    }
    if (status == FPC_OK) run_vertical(self, y, 0, stage->width, out);
    return status;
}

/* Computes output row y of the vertical pass from input rows in the ring, if that pass is first. */
static int vertical_from_input(resize_stage *self, int32_t y, uint8_t *out) {
    const fpc_axis *vertical = self->resize.vertical;
    fpc_stage *from = self->stage.from;
    const int32_t need = vertical->starts[y] + vertical->counts[y];
    int status = skip_to(self, vertical->first);
    while (status == FPC_OK && from->given < need) status = fpc_pull_row(from, ring_row(self, from->given));
    if (status == FPC_OK) run_vertical(self, y, column_offset(self), self->resize.horizontal->end, out);
    return status;
}

/* Reads the input row for output row y, if there is no vertical pass. */
static int row_from_input(const resize_stage *self, int32_t y, uint8_t *row) {
    const int status = skip_to(self, self->resize.vertical->starts[y]);
    return status == FPC_OK ? fpc_pull_row(self->stage.from, row) : status;
}

/* With the horizontal pass last, or alone, several rows are made per call. */
static int next_horizontal_last(fpc_stage *stage, uint8_t *out) {
    resize_stage *self = (resize_stage *)stage;
    const bool need_vertical = self->resize.need_vertical;
    const int32_t y = stage->given, place = y % self->at_once, left = stage->height - y;
    if (place) {
        memcpy(out, self->kept[place], (size_t)stage->width * (size_t)stage->channels);
        return FPC_OK;
    }
    const int32_t count = left < self->at_once ? left : self->at_once;
    const int64_t offset = need_vertical ? 0 : column_offset(self);
    const uint8_t *in[GRAY_AT_ONCE] = {NULL};
    uint8_t *rows[GRAY_AT_ONCE] = {NULL};
    for (int32_t i = 0; i < count; i++) {
        uint8_t *row = self->inputs[i];
        const int status = need_vertical ? vertical_from_input(self, y + i, row) : row_from_input(self, y + i, row);
        if (status != FPC_OK) return status;
        in[i] = row + offset;
        rows[i] = i ? self->kept[i] : out;
    }
    run_horizontal(self, in, count, rows);
    return FPC_OK;
}

static int next_vertical_alone(fpc_stage *stage, uint8_t *out) {
    return vertical_from_input((resize_stage *)stage, stage->given, out);
}

static int next_window(fpc_stage *stage, uint8_t *out) {
    const resize_stage *self = (const resize_stage *)stage;
    const int status = row_from_input(self, stage->given, self->inputs[0]);
    if (status != FPC_OK) return status;
    memcpy(out, self->inputs[0] + column_offset(self), (size_t)stage->width * (size_t)stage->channels);
    return FPC_OK;
}

#define LEAST_PICKED 4 /* pixels per group: fewer are copied faster one by one */

/* Finds each output's input pixel for FPC_NEAREST, and groups so near that one instruction can pick their pixels. */
static void make_picks(fpc_picks *picks, const fpc_axis *axis, int32_t channels) {
    const int32_t step = channels, count = axis->outputs;
    for (int32_t x = 0; x < count; x++) picks->offsets[x] = axis->starts[x] * step;
    picks->count = count;
    picks->channels = channels;
    picks->group_count = 0;
    const int64_t span = picks->offsets[count - 1] - picks->offsets[0]; /* negative for a mirrored row */
    if ((span < 0 ? -span : span) * LEAST_PICKED > (int64_t)count * FPC_PICK_BYTES) return;
    for (int32_t x = 0; x < count;) {
        fpc_pick_group *group = &picks->groups[picks->group_count++];
        int32_t low = picks->offsets[x], high = low, end = x + 1;
        for (; end < count && (end + 1 - x) * step <= FPC_PICK_BYTES; end++) {
            const int32_t next = picks->offsets[end], least = next < low ? next : low, most = next > high ? next : high;
            if (most - least + step > FPC_PICK_BYTES) break;
            low = least;
            high = most;
        }
        group->in = low;
        group->out = x * step;
        uint8_t *order = group->order;
        for (; x < end; x++) {
            for (int32_t c = 0; c < step; c++) *order++ = (uint8_t)(picks->offsets[x] - low + c);
        }
        while (order < group->order + FPC_PICK_BYTES) *order++ = 0;
    }
}

static int next_nearest(fpc_stage *stage, uint8_t *out) {
    const resize_stage *self = (const resize_stage *)stage;
    const int32_t *starts = self->resize.vertical->starts, y = stage->given, row = starts[y];
    const size_t bytes = (size_t)stage->width * (size_t)stage->channels;
    fpc_stage *from = stage->from;
    if (from->given > row) { /* the row given last is needed again */
        memcpy(out, self->kept[1], bytes);
        return FPC_OK;
    }
    if (from->memory) from->given = row; /* rows in memory needn't be read to skip them */
    const uint8_t *in = NULL;
    while (from->given <= row) {
        const int status = fpc_borrow_row(from, self->inputs[0], &in);
        if (status != FPC_OK) return status;
    }
    stage->kernels->pick_pixels(in + column_offset(self), &self->picks, out);
    if (y + 1 < stage->height && starts[y + 1] == row) memcpy(self->kept[1], out, bytes);
    return FPC_OK;
}

static bool takes_vertical_first(int32_t pass_order, int64_t rows_less, int64_t columns_less) {
    if (pass_order != FPC_FEWER_ROWS_FIRST) return pass_order == FPC_VERTICAL_FIRST;
    return rows_less > 0 && rows_less > 2 * columns_less;
}

int fpc_resize_prepare(fpc_resize *resize, fpc_chain *chain, fpc_slot *slot, const fpc_op_resize *operation,
                       fpc_resize_flips flips, int32_t height, int32_t width, int32_t channels) {
    const bool all = operation->in_height == 0 && operation->in_width == 0; /* the whole input is there */
    const int32_t rows = all ? height : operation->in_height, columns = all ? width : operation->in_width;
    const fpc_axis_request x_request = {.filter = operation->filter,
                                        .inputs = columns,
                                        .outputs = operation->out_width,
                                        .box_start = operation->x0,
                                        .box_end = all ? columns : operation->x1,
                                        .window_start = operation->window.left,
                                        .window = operation->window.width,
                                        .there_start = operation->in_left,
                                        .there = width,
                                        .mirrored_inputs = flips.inputs,
                                        .mirrored_outputs = flips.outputs,
                                        .torch = operation->pass_order == FPC_TORCH_PASSES};
    const fpc_axis_request y_request = {.filter = operation->filter,
                                        .inputs = rows,
                                        .outputs = operation->out_height,
                                        .box_start = operation->y0,
                                        .box_end = all ? rows : operation->y1,
                                        .window_start = operation->window.top,
                                        .window = operation->window.height,
                                        .there_start = operation->in_top,
                                        .there = height,
                                        .torch = operation->pass_order == FPC_TORCH_PASSES};
    fpc_axis *horizontal = &slot->horizontal, *vertical = &slot->vertical;
    int status = fpc_axis_build(horizontal, &x_request, chain->max_bytes);
    if (status == FPC_OK) status = fpc_axis_build(vertical, &y_request, chain->max_bytes);
    if (status != FPC_OK) return status;
    const int64_t rows_less = (int64_t)rows - operation->out_height;
    const int64_t columns_less = (int64_t)columns - operation->out_width;
    *resize = (fpc_resize){.horizontal = horizontal,
                           .vertical = vertical,
                           .height = operation->window.height,
                           .width = operation->window.width,
                           .channels = channels,
                           .nearest = operation->filter == FPC_NEAREST,
                           .vertical_first = takes_vertical_first(operation->pass_order, rows_less, columns_less),
                           .need_horizontal = !horizontal->identity || flips.inputs != flips.outputs,
                           .need_vertical = !vertical->identity,
                           .column = horizontal->first};
    if (!horizontal->has_lanes) chain->kernels->arrange_horizontal(horizontal);
    fpc_axis_shift(horizontal, resize->column);
    return FPC_OK;
}

void fpc_resize_narrow(fpc_resize *resize, fpc_box *box) {
    fpc_axis *vertical = resize->vertical;
    box->top += vertical->first;
    box->left += resize->column;
    box->height = vertical->end - vertical->first;
    box->width = resize->horizontal->end;
    fpc_axis_shift(vertical, vertical->first);
    resize->column = 0;
}

static fpc_next_row *choose_way(const fpc_resize *resize) {
    if (resize->nearest) return next_nearest;
    if (!resize->need_horizontal) return resize->need_vertical ? next_vertical_alone : next_window;
    return resize->need_vertical && !resize->vertical_first ? next_horizontal_first : next_horizontal_last;
}

int fpc_add_resize(fpc_chain *chain, const fpc_resize *resize) {
    resize_stage *self = fpc_chain_add(chain, sizeof *self, choose_way(resize));
    if (!self) return FPC_NO_MEMORY;
    fpc_stage *stage = &self->stage;
    stage->height = resize->height;
    stage->width = resize->width;
    self->resize = *resize;
    const fpc_axis *vertical = resize->vertical;
    const int32_t channels = resize->channels;
    self->at_once = channels == 1 ? GRAY_AT_ONCE : AT_ONCE;
    const int64_t in_bytes = fpc_row_bytes(stage->from->width, channels);
    const int64_t out_bytes = fpc_row_bytes(resize->width, channels);
    self->ring_bytes = stage->next == next_horizontal_first ? out_bytes : in_bytes;
    if (resize->need_vertical && !resize->nearest) {
        self->ring_rows = 2;
        while (self->ring_rows < vertical->most_taps + self->at_once) self->ring_rows *= 2;
    }
    const int64_t tap_bytes = resize->nearest ? resize->width * (int64_t)(sizeof(int32_t) + sizeof(fpc_pick_group))
                                              : ((int64_t)vertical->most_taps + 2) * (int64_t)sizeof(uint8_t *);
    const int64_t taps_room = (tap_bytes + 63) / 64 * 64;
    const int64_t ring_room = self->ring_rows * self->ring_bytes;
    const bool mixes = channels == 1 && !resize->nearest && resize->need_horizontal;
    const int64_t mixed_bytes = mixes ? fpc_row_bytes(stage->from->width, 3) : 0;
    const int64_t made_bytes = mixes ? fpc_row_bytes(resize->width, 3) : 0;
    /* pointers or picks, input and output rows, rows of three channels, the ring */
    const int64_t bytes =
        taps_room + self->at_once * (in_bytes + out_bytes) + 2 * (mixed_bytes + made_bytes) + ring_room;
    if ((chain->max_bytes > 0 && bytes > chain->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *memory = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    if (!memory) return FPC_NO_MEMORY;
    if (resize->nearest) {
        self->picks.offsets = (int32_t *)(void *)memory;
        self->picks.groups = (fpc_pick_group *)(void *)(self->picks.offsets + resize->width);
        make_picks(&self->picks, resize->horizontal, channels);
    }
    self->taps = (const uint8_t **)(void *)memory;
    memory += taps_room;
    for (int32_t i = 0; i < self->at_once; i++, memory += in_bytes) self->inputs[i] = memory;
    for (int32_t i = 0; i < self->at_once; i++, memory += out_bytes) self->kept[i] = memory;
    for (int i = 0; i < 2; i++, memory += mixed_bytes) self->mixed[i] = memory;
    for (int i = 0; i < 2; i++, memory += made_bytes) self->made[i] = memory;
    self->ring = memory;
    return FPC_OK;
}
