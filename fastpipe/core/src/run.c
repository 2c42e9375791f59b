/* run.c: one job, from its source over its operations to its sink. */
#include "context.h"
#include "files.h"
#include "sink.h"

/* The pixels that a job starts from: a box of the source. */
typedef struct region {
    int32_t top, left, height, width, channels;
} region;

static bool inside(int32_t start, int32_t size, int32_t whole) {
    return start >= 0 && size >= 1 && size <= whole - start;
}

/* What is read of an image of this size; checked. */
static int choose_region(const fpc_job *job, int32_t height, int32_t width, int32_t channels, region *box) {
    if ((job->expected_height && job->expected_height != height) ||
        (job->expected_width && job->expected_width != width)) {
        return FPC_UNUSUAL_HEADER;
    }
    if (job->max_pixels > 0 && (int64_t)height * width > job->max_pixels) return FPC_TOO_LARGE;
    const region whole = {0, 0, height, width, channels};
    *box = whole;
    if (job->height == 0) return FPC_OK;
    if (!inside(job->top, job->height, height) || !inside(job->left, job->width, width)) return FPC_BAD_REGION;
    box->top = job->top;
    box->left = job->left;
    box->height = job->height;
    box->width = job->width;
    return FPC_OK;
}

/* Opens the source and says which box of it is wanted. */
static int open_source(fpc_context *context, fpc_job *job, region *box) {
    if ((job->path != NULL) + (job->data != NULL) + (job->pixels != NULL) != 1) return FPC_BAD_OPERATION;
    if (job->pixels) {
        const fpc_pixels *pixels = job->pixels;
        if (!pixels->data || (pixels->channels != 1 && pixels->channels != 3)) return FPC_BAD_OPERATION;
        if (pixels->height < 1 || pixels->height > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
        if (pixels->width < 1 || pixels->width > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
        return choose_region(job, pixels->height, pixels->width, pixels->channels, box);
    }
    if (job->length < 0 || job->offset < 0 || job->offset > INT64_MAX - job->length) return FPC_BAD_OPERATION;
    const uint8_t *data = job->data;
    size_t length = (size_t)job->length;
    int status = FPC_OK;
    if (job->path) {
        status = fpc_read_file(job->path, job->offset, job->length, job->max_bytes, fpc_buffer_place(&context->file),
                               &data, &length, &job->os_error);
        if (status != FPC_OK) return status;
    } else if ((uint64_t)job->length > SIZE_MAX) {
        return FPC_TOO_LARGE;
    }
    const fpc_header *header;
    context->is_png = fpc_is_png(data, length);
    if (context->is_png) {
        status = fpc_context_need_png(context);
        if (status == FPC_OK) status = fpc_png_open(context->png, data, length, job->max_bytes);
        if (status != FPC_OK) return status;
        header = &context->png->header;
    } else {
        status = fpc_context_need_jpeg(context);
        if (status == FPC_OK) status = fpc_jpeg_open(context->jpeg, data, length);
        if (status == FPC_OK && job->indices) status = FPC_UNSUPPORTED_COLOR;
        if (status != FPC_OK) return status;
        header = &fpc_jpeg_frame(context->jpeg)->header;
    }
    return choose_region(job, header->height, header->width, job->indices ? 1 : 3, box);
}

static int start_source(fpc_context *context, const fpc_job *job, const region *box) {
    fpc_stage *stage = &context->stages[0];
    if (job->pixels) {
        fpc_pixels part = *job->pixels;
        part.data += box->top * part.row_stride + box->left * part.column_stride;
        part.height = box->height;
        part.width = box->width;
        fpc_stage_pixels(stage, &part);
        return FPC_OK;
    }
    if (context->is_png) {
        fpc_stage_png(stage, context->png, box->height, box->width, box->channels);
        return fpc_png_start(context->png, box->top, box->left, box->height, box->width, job->indices, job->max_bytes);
    }
    fpc_stage_jpeg(stage, context->rows, box->height, box->width);
    return fpc_jpeg_rows_start(context->rows, context->jpeg, box->top, box->left, box->height, box->width,
                               job->max_bytes);
}

/* Crops that come first only make the box smaller: how many operations are done by that. */
static int fold_crops(const fpc_job *job, region *box, int32_t *done) {
    for (*done = 0; *done < job->operation_count && job->operations[*done].kind == FPC_OP_CROP; ++*done) {
        const int32_t *i = job->operations[*done].i;
        if (!inside(i[0], i[2], box->height) || !inside(i[1], i[3], box->width)) return FPC_BAD_OPERATION;
        box->top += i[0];
        box->left += i[1];
        box->height = i[2];
        box->width = i[3];
    }
    return FPC_OK;
}

/* The resize at or right behind operation `at`, with the flips around it, which cost nothing there. */
typedef struct resize_group {
    const fpc_operation *operation; /* NULL: there is none */
    bool mirrored_inputs, mirrored_outputs;
    int32_t count; /* operations in it */
} resize_group;

static resize_group find_resize(const fpc_job *job, int32_t at) {
    const fpc_operation *operations = job->operations;
    const int32_t end = job->operation_count;
    resize_group group = {0};
    int32_t next = at;
    if (next + 1 < end && operations[next].kind == FPC_OP_HFLIP && operations[next + 1].kind == FPC_OP_RESIZE) {
        group.mirrored_inputs = true;
        next++;
    }
    if (next >= end || operations[next].kind != FPC_OP_RESIZE) return group;
    group.operation = &operations[next++];
    if (next < end && operations[next].kind == FPC_OP_HFLIP) {
        group.mirrored_outputs = true;
        next++;
    }
    group.count = next - at;
    return group;
}

static int prepare_resize(fpc_stage *stage, const resize_group *group, int32_t height, int32_t width, int32_t channels,
                          int64_t max_bytes) {
    return fpc_resize_prepare(stage, group->operation, height, width, channels, group->mirrored_inputs,
                              group->mirrored_outputs, max_bytes);
}

/* The stages from the source on; *last is the one that the sink reads. */
static int build_stages(fpc_context *context, const fpc_job *job, region box, fpc_stage **last) {
    int32_t at = 0, used = 1;
    int status = fold_crops(job, &box, &at);
    if (status != FPC_OK) return status;
    fpc_stage *stages = context->stages;
    const resize_group first = find_resize(job, at);
    if (first.operation) { /* of the source only what the resize reads */
        status = prepare_resize(&stages[1], &first, box.height, box.width, box.channels, job->max_bytes);
        if (status != FPC_OK) return status;
        fpc_resize_narrow(&stages[1], &box.top, &box.left, &box.height, &box.width);
    }
    status = start_source(context, job, &box);
    while (status == FPC_OK && at < job->operation_count) {
        if (used == FPC_MOST_STAGES) return FPC_BAD_OPERATION;
        fpc_stage *from = &stages[used - 1], *stage = &stages[used];
        const resize_group group = find_resize(job, at);
        if (group.operation) {
            if (used > 1 || group.operation != first.operation) {
                status = prepare_resize(stage, &group, from->height, from->width, from->channels, job->max_bytes);
            }
            if (status == FPC_OK) status = fpc_resize_start(stage, from, job->max_bytes);
            at += group.count;
        } else {
            status = fpc_stage_operation(stage, from, &job->operations[at], &context->images);
            at++;
        }
        used++;
    }
    *last = &stages[used - 1];
    return status;
}

/* A JPEG's rows that no operation wanted, and what follows them: whether Pillow would read the file. */
static int finish_jpeg(fpc_context *context) {
    fpc_stage *source = &context->stages[0];
    int status = FPC_OK;
    if (source->given < source->height) {
        uint8_t *row = fpc_buffer_need(&context->row, (size_t)fpc_row_bytes(source->width, source->channels));
        if (!row) return FPC_NO_MEMORY;
        while (status == FPC_OK && source->given < source->height) status = fpc_pull_row(source, row);
    }
    return status == FPC_OK ? fpc_jpeg_finish(context->jpeg) : status;
}

static int run(fpc_context *context, fpc_job *job) {
    if (job->operation_count < 0 || (job->operation_count > 0 && !job->operations)) return FPC_BAD_OPERATION;
    if (job->indices != 0 && (job->indices != 1 || job->pixels)) return FPC_BAD_OPERATION;
    int status = fpc_sink_check(&job->sink);
    if (status != FPC_OK) return status;
    region box = {0};
    status = open_source(context, job, &box);
    if (status != FPC_OK) return status;
    context->images.turn = 0;
    context->images.max_bytes = job->max_bytes;
    fpc_stage *last = NULL;
    status = build_stages(context, job, box, &last);
    if (status == FPC_OK) status = fpc_sink_fill(&job->sink, last, &context->normalizer, &context->row);
    if (status == FPC_OK && !job->pixels)
        status = context->is_png ? fpc_png_finish(context->png) : finish_jpeg(context);
    return status;
}

int fpc_run(fpc_context *context, fpc_job *job) {
    if (!job) return FPC_BAD_OPERATION;
    job->os_error = 0;
    job->status = context ? run(context, job) : FPC_NO_MEMORY;
    if (context) fpc_context_trim(context);
    return job->status;
}
