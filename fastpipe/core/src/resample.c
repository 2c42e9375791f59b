/* resample.c: FPC_OP_RESIZE: Pillow's two passes (Resample.c: ImagingResampleInner), each rounded to whole numbers,
 * row by row. Between the passes there are only the rows that one output needs. */
#include "stage.h"

#include <string.h>

static uint8_t *ring_row(const fpc_stage *stage, int32_t row) {
    return stage->ring + (row & (stage->ring_rows - 1)) * stage->ring_bytes;
}

/* The ring's rows into output row y: `width` pixels, from column `column` of the ring's rows on. */
static void run_vertical(const fpc_stage *stage, int32_t y, int32_t column, int32_t width, uint8_t *out) {
    const int32_t start = stage->vertical.starts[y], count = stage->vertical.counts[y];
    const int64_t offset = (int64_t)column * stage->channels;
    for (int32_t i = 0; i < count; i++) stage->taps[i] = ring_row(stage, start + i) + offset;
    stage->taps[count] = stage->taps[count - 1]; /* read in pairs; its weight is 0 */
    stage->kernels->resample_vertical(stage->taps, &stage->vertical, y, (int64_t)width * stage->channels, out);
}

/* The input's next row into `row`; its first column that is read is at row + stage->column * channels. */
static int take(fpc_stage *stage, uint8_t *row) {
    stage->taken++;
    return fpc_pull_row(stage->from, row);
}

/* Passes over rows that nothing reads. */
static int skip_to(fpc_stage *stage, int32_t row) {
    while (stage->taken < row) {
        const int status = take(stage, stage->pair[0]);
        if (status != FPC_OK) return status;
    }
    return FPC_OK;
}

/* Along the rows first: the ring holds rows that are as wide as the output. */
static int next_horizontal_first(fpc_stage *stage, uint8_t *out) {
    const int32_t y = stage->given;
    const int32_t need = stage->vertical.starts[y] + stage->vertical.counts[y];
    int status = skip_to(stage, stage->vertical.first);
    const int64_t offset = (int64_t)stage->column * stage->channels;
    while (status == FPC_OK && stage->taken < need) {
        const int32_t row = stage->taken;
        const bool two = row + 1 < stage->vertical.end;
        const uint8_t *given[2] = {NULL, NULL};
        for (int i = 0; i <= two && status == FPC_OK; i++, stage->taken++) {
            status = fpc_borrow_row(stage->from, stage->pair[i], &given[i]);
        }
        if (status != FPC_OK) break;
        const uint8_t *const in[2] = {given[0] + offset, given[two] + offset};
        uint8_t *const rows[2] = {ring_row(stage, row), ring_row(stage, row + two)};
        stage->kernels->resample_horizontal(in, &stage->horizontal, stage->channels, rows);
    }
    if (status == FPC_OK) run_vertical(stage, y, 0, stage->width, out);
    return status;
}

/* Output row y of the pass down the columns, where that is the first one: the ring holds rows of the input. */
static int vertical_from_input(fpc_stage *stage, int32_t y, uint8_t *out) {
    const int32_t need = stage->vertical.starts[y] + stage->vertical.counts[y];
    int status = skip_to(stage, stage->vertical.first);
    while (status == FPC_OK && stage->taken < need) {
        status = take(stage, ring_row(stage, stage->taken));
    }
    if (status == FPC_OK) run_vertical(stage, y, stage->column, stage->horizontal.end, out);
    return status;
}

/* Input row of output row y where nothing happens down the columns, without the columns that aren't read. */
static int row_from_input(fpc_stage *stage, int32_t y, uint8_t *row) {
    const int status = skip_to(stage, stage->vertical.starts[y]);
    return status == FPC_OK ? take(stage, row) : status;
}

/* Down the columns first, or along the rows alone: rows are made in twos. */
static int next_horizontal_last(fpc_stage *stage, uint8_t *out) {
    const int32_t y = stage->given;
    const int64_t bytes = (int64_t)stage->width * stage->channels;
    if (y & 1) {
        memcpy(out, stage->kept, (size_t)bytes);
        return FPC_OK;
    }
    const bool two = y + 1 < stage->height;
    const int64_t offset = stage->need_vertical ? 0 : (int64_t)stage->column * stage->channels;
    int status = FPC_OK;
    for (int i = 0; i <= two && status == FPC_OK; i++) {
        status = stage->need_vertical ? vertical_from_input(stage, y + i, stage->pair[i])
                                      : row_from_input(stage, y + i, stage->pair[i]);
    }
    if (status != FPC_OK) return status;
    const uint8_t *const in[2] = {stage->pair[0] + offset, stage->pair[two] + offset};
    uint8_t *const rows[2] = {out, two ? stage->kept : out};
    stage->kernels->resample_horizontal(in, &stage->horizontal, stage->channels, rows);
    return FPC_OK;
}

static int next_vertical_alone(fpc_stage *stage, uint8_t *out) { return vertical_from_input(stage, stage->given, out); }

static int next_window(fpc_stage *stage, uint8_t *out) {
    const int status = row_from_input(stage, stage->given, stage->pair[0]);
    if (status != FPC_OK) return status;
    const int64_t offset = (int64_t)stage->column * stage->channels;
    memcpy(out, stage->pair[0] + offset, (size_t)stage->width * (size_t)stage->channels);
    return FPC_OK;
}

/* Where FPC_NEAREST finds each output's pixel in a row of the input, and which of them lie so near each other that an
 * instruction can pick them all. */
static void make_picks(fpc_picks *picks, const fpc_axis *axis, int32_t channels) {
    const int32_t step = channels, count = axis->outputs;
    for (int32_t x = 0; x < count; x++) picks->offsets[x] = axis->starts[x] * step;
    picks->count = count;
    picks->channels = channels;
    picks->group_count = 0;
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
    const int32_t y = stage->given, row = stage->vertical.starts[y];
    const size_t bytes = (size_t)stage->width * (size_t)stage->channels;
    if (stage->taken > row) { /* the row before is this row, too */
        memcpy(out, stage->kept, bytes);
        return FPC_OK;
    }
    const uint8_t *in = NULL;
    for (; stage->taken <= row; stage->taken++) {
        const int status = fpc_borrow_row(stage->from, stage->pair[0], &in);
        if (status != FPC_OK) return status;
    }
    stage->kernels->pick_pixels(in + (int64_t)stage->column * stage->channels, &stage->picks, out);
    if (y + 1 < stage->height && stage->vertical.starts[y + 1] == row) memcpy(stage->kept, out, bytes);
    return FPC_OK;
}

int fpc_resize_prepare(fpc_stage *stage, const fpc_operation *operation, int32_t height, int32_t width,
                       int32_t channels, bool mirrored_inputs, bool mirrored_outputs, int64_t max_bytes) {
    const int32_t *i = operation->i;
    const bool all = i[0] == 0 && i[1] == 0; /* the whole input is what is there */
    const int32_t rows = all ? height : i[0], columns = all ? width : i[1];
    fpc_axis_request horizontal = {.filter = i[10],
                                   .inputs = columns,
                                   .outputs = i[5],
                                   .box_start = operation->d[0],
                                   .box_end = all ? columns : operation->d[2],
                                   .window_start = i[7],
                                   .window = i[9],
                                   .there_start = i[3],
                                   .there = width,
                                   .mirrored_inputs = mirrored_inputs,
                                   .mirrored_outputs = mirrored_outputs};
    fpc_axis_request vertical = {.filter = i[10],
                                 .inputs = rows,
                                 .outputs = i[4],
                                 .box_start = operation->d[1],
                                 .box_end = all ? rows : operation->d[3],
                                 .window_start = i[6],
                                 .window = i[8],
                                 .there_start = i[2],
                                 .there = height};
    int status = fpc_axis_build(&stage->horizontal, &horizontal, max_bytes);
    if (status == FPC_OK) status = fpc_axis_build(&stage->vertical, &vertical, max_bytes);
    if (status != FPC_OK) return status;
    stage->operation = operation;
    stage->height = i[8];
    stage->width = i[9];
    stage->channels = channels;
    const int64_t rows_less = (int64_t)rows - i[4], columns_less = (int64_t)columns - i[5];
    const bool pillow_13 = rows_less > 0 && rows_less > 2 * columns_less;
    stage->vertical_first = i[11] == 1 || (i[11] == 2 && pillow_13);
    stage->need_horizontal = !stage->horizontal.identity || mirrored_inputs != mirrored_outputs;
    stage->need_vertical = !stage->vertical.identity;
    stage->column = stage->horizontal.first;
    if (channels == 3 && !stage->horizontal.has_lanes) stage->kernels->arrange_horizontal(&stage->horizontal);
    fpc_axis_shift(&stage->horizontal, stage->column);
    return FPC_OK;
}

void fpc_resize_narrow(fpc_stage *stage, int32_t *top, int32_t *left, int32_t *height, int32_t *width) {
    *top += stage->vertical.first;
    *left += stage->column;
    *height = stage->vertical.end - stage->vertical.first;
    *width = stage->horizontal.end;
    fpc_axis_shift(&stage->vertical, stage->vertical.first);
    stage->column = 0;
}

int fpc_resize_start(fpc_stage *stage, fpc_stage *from, int64_t max_bytes) {
    const int32_t channels = stage->channels;
    stage->from = from;
    stage->given = 0;
    stage->taken = 0;
    const bool nearest = stage->operation->i[10] == FPC_NEAREST;
    const bool horizontal_first = stage->need_horizontal && stage->need_vertical && !stage->vertical_first && !nearest;
    if (nearest) {
        stage->next = next_nearest;
    } else if (horizontal_first) {
        stage->next = next_horizontal_first;
    } else if (stage->need_horizontal) {
        stage->next = next_horizontal_last;
    } else {
        stage->next = stage->need_vertical ? next_vertical_alone : next_window;
    }

    const int64_t in_bytes = fpc_row_bytes(from->width, channels), out_bytes = fpc_row_bytes(stage->width, channels);
    stage->row_bytes = in_bytes;
    stage->ring_bytes = horizontal_first ? out_bytes : in_bytes;
    stage->ring_rows = 2;
    if (stage->need_vertical && !nearest) {
        while (stage->ring_rows < stage->vertical.most_taps + 2) stage->ring_rows *= 2;
    } else {
        stage->ring_rows = 0;
    }
    const int64_t tap_bytes = nearest ? stage->width * (int64_t)(sizeof(int32_t) + sizeof(fpc_pick_group))
                                      : ((int64_t)stage->vertical.most_taps + 2) * (int64_t)sizeof(uint8_t *);
    const int64_t taps_room = (tap_bytes + 63) / 64 * 64;
    const int64_t ring_room = stage->ring_rows * stage->ring_bytes;
    /* the pointers or picks, two rows of input, a row of outputs, the ring */
    const int64_t bytes = taps_room + 2 * in_bytes + out_bytes + ring_room;
    if ((max_bytes > 0 && bytes > max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *memory = fpc_buffer_need(&stage->rows, (size_t)bytes);
    if (!memory) return FPC_NO_MEMORY;
    if (nearest) {
        stage->picks.offsets = (int32_t *)(void *)memory;
        stage->picks.groups = (fpc_pick_group *)(void *)(stage->picks.offsets + stage->width);
        make_picks(&stage->picks, &stage->horizontal, channels);
    }
    stage->taps = (const uint8_t **)(void *)memory;
    stage->pair[0] = memory + taps_room;
    stage->pair[1] = stage->pair[0] + in_bytes;
    stage->kept = stage->pair[1] + in_bytes;
    stage->ring = stage->kept + out_bytes;
    return FPC_OK;
}
