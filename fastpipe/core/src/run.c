/* run.c: runs one job: its source, its operations and its sink. */
#include "context.h"
#include "files.h"
#include "rgbx_pad.h"
#include "operations.h"
#include "resample.h"
#include "sink.h"
#include "source.h"

static bool inside(int32_t start, int32_t size, int32_t whole) {
    return start >= 0 && size >= 1 && size <= whole - start;
}

/* A job's source, before the operations. */
typedef struct opened {
    const fpc_codec *codec; /* the codec whose decoder is open; NULL for pixels */
    void *decoder;
    fpc_box box;      /* the part to read */
    int32_t channels; /* channels to read */
    int32_t constant; /* without a codec: the value of all pixels; negative if they are read from memory */
} opened;

/* Sets *box to the box that the job reads of an image of this size, and checks it. */
static int choose_box(const fpc_job *job, int32_t height, int32_t width, fpc_box *box) {
    if ((job->expected_height && job->expected_height != height) ||
        (job->expected_width && job->expected_width != width)) {
        return FPC_UNUSUAL_HEADER;
    }
    if (job->max_pixels > 0 && (int64_t)height * width > job->max_pixels) return FPC_TOO_LARGE;
    *box = (fpc_box){0, 0, height, width};
    if (job->box.height == 0) return FPC_OK;
    if (!inside(job->box.top, job->box.height, height)) return FPC_BAD_REGION;
    if (!inside(job->box.left, job->box.width, width)) return FPC_BAD_REGION;
    *box = job->box;
    return FPC_OK;
}

static bool is_side(int32_t side) { return side >= 1 && side <= FPC_LARGEST_SIDE; }

static int open_pixels(const fpc_job *job, opened *image) {
    const fpc_pixels *pixels = job->pixels;
    const int32_t channels = pixels->channels;
    if (!pixels->data || (channels != 1 && channels != 3 && channels != 4)) return FPC_BAD_OPERATION;
    if (!is_side(pixels->height) || !is_side(pixels->width)) return FPC_BAD_OPERATION;
    image->channels = channels;
    image->constant = -1;
    return choose_box(job, pixels->height, pixels->width, &image->box);
}

/* ---- files that are read in parts ---- */

/* An open file, or a part of one that is a file by itself. */
typedef struct part_file {
    fpc_opened file;
    bool is_open;
    int64_t offset;
    int32_t *os_error;
    fpc_parts parts;
} part_file;

static int read_part(void *owner, uint64_t offset, size_t size, uint8_t *to) {
    const part_file *member = owner;
    return fpc_read_part(&member->file, to, size, member->offset + (int64_t)offset, member->os_error);
}

static void close_parts(part_file *member) {
    if (member->is_open) fpc_close(&member->file);
    member->is_open = false;
}

/* Opens a job's file if it is a packed image; for other files *member is closed again. */
static int open_parts(fpc_context *context, fpc_job *job, part_file *member, opened *image, const fpc_header **header) {
    int status = fpc_open(job->path, &member->file, &job->os_error);
    if (status != FPC_OK) return status;
    member->is_open = true;
    member->offset = job->offset;
    member->os_error = &job->os_error;
    int64_t length = member->file.there > job->offset ? member->file.there - job->offset : 0;
    if (job->length > 0 && job->length < length) length = job->length;
    member->parts = (fpc_parts){read_part, member, (uint64_t)length};
    image->codec = fpc_codec_of(FPC_FORMAT_PACKED);
    image->decoder = fpc_context_decoder(context, FPC_FORMAT_PACKED);
    if (!image->decoder) return FPC_NO_MEMORY;
    status = image->codec->open_parts(image->decoder, &member->parts, job->max_bytes, header);
    if (status != FPC_UNKNOWN_FORMAT) return status;
    close_parts(member);
    return FPC_OK;
}

static int open_file(fpc_context *context, fpc_job *job, part_file *member, opened *image) {
    if (job->length < 0 || job->offset < 0 || job->offset > INT64_MAX - job->length) return FPC_BAD_OPERATION;
    const uint8_t *data = job->data;
    size_t length = (size_t)job->length;
    const fpc_header *header = NULL;
    int status = FPC_OK;
    image->channels = job->indices ? 1 : 3;
    if (job->path) {
        status = open_parts(context, job, member, image, &header);
        if (status != FPC_OK) return status;
        if (member->is_open)
            return job->indices ? FPC_UNSUPPORTED_COLOR : choose_box(job, header->height, header->width, &image->box);
        status = fpc_read_file(job->path, job->offset, job->length, job->max_bytes, fpc_buffer_place(&context->file),
                               &data, &length, &job->os_error);
        if (status != FPC_OK) return status;
    } else if ((uint64_t)job->length > SIZE_MAX) {
        return FPC_TOO_LARGE;
    }
    const fpc_format format = fpc_format_of(data, length);
    image->codec = fpc_codec_of(format);
    image->decoder = fpc_context_decoder(context, format);
    if (!image->decoder) return FPC_NO_MEMORY;
    status = image->codec->open(image->decoder, data, length, job->indices, job->max_bytes, &header);
    return status == FPC_OK ? choose_box(job, header->height, header->width, &image->box) : status;
}

/* Shrinks the box by the crops that the operations begin with; *done is the number of these crops. */
static int fold_crops(const fpc_job *job, fpc_box *box, int32_t *done) {
    for (*done = 0; *done < job->operation_count && job->operations[*done].kind == FPC_OP_CROP; ++*done) {
        const fpc_box *crop = &job->operations[*done].crop;
        if (!inside(crop->top, crop->height, box->height)) return FPC_BAD_OPERATION;
        if (!inside(crop->left, crop->width, box->width)) return FPC_BAD_OPERATION;
        *box = (fpc_box){box->top + crop->top, box->left + crop->left, crop->height, crop->width};
    }
    return FPC_OK;
}

/* The resize at operation `at`, or right after a flip at `at`, with the flips around it. */
typedef struct resize_group {
    const fpc_operation *operation; /* NULL if there is no resize */
    fpc_resize_flips flips;
    int32_t count; /* operations in the group */
} resize_group;

static resize_group find_resize(const fpc_job *job, int32_t at) {
    const fpc_operation *operations = job->operations;
    const int32_t end = job->operation_count;
    resize_group group = {0};
    int32_t next = at;
    if (next + 1 < end && operations[next].kind == FPC_OP_HFLIP && operations[next + 1].kind == FPC_OP_RESIZE) {
        group.flips.inputs = true;
        next++;
    }
    if (next >= end || operations[next].kind != FPC_OP_RESIZE) return group;
    group.operation = &operations[next++];
    if (next < end && operations[next].kind == FPC_OP_HFLIP) {
        group.flips.outputs = true;
        next++;
    }
    group.count = next - at;
    return group;
}

static int prepare_resize(fpc_resize *resize, fpc_chain *chain, fpc_slot *slot, const resize_group *group,
                          int32_t height, int32_t width, int32_t channels) {
    return fpc_resize_prepare(resize, chain, slot, &group->operation->resize, group->flips, height, width, channels);
}

static int add_source(fpc_chain *chain, const fpc_job *job, const opened *image, const fpc_box *box) {
    if (image->codec) return fpc_add_decoder(chain, image->codec, image->decoder, box, image->channels);
    if (image->constant >= 0) return fpc_add_constant(chain, box, (uint8_t)image->constant);
    return fpc_add_pixels(chain, job->pixels, box, image->channels);
}

/* Adds a stage for the source and for each operation; the sink reads the last stage. */
static int build_chain(fpc_chain *chain, const fpc_job *job, const opened *image) {
    fpc_box box = image->box;
    int32_t at = 0;
    int status = fold_crops(job, &box, &at);
    if (status != FPC_OK) return status;
    const resize_group first = find_resize(job, at);
    fpc_resize resize;
    if (first.operation) { /* read only what the resize needs of the source; its stage will be the second one */
        status = prepare_resize(&resize, chain, &chain->slots[1], &first, box.height, box.width, image->channels);
        if (status != FPC_OK) return status;
        fpc_resize_narrow(&resize, &box);
    }
    status = add_source(chain, job, image, &box);
    while (status == FPC_OK && at < job->operation_count) {
        if (chain->count == FPC_MOST_STAGES || chain->last->gives_floats) return FPC_BAD_OPERATION;
        const resize_group group = find_resize(job, at);
        if (!group.operation) {
            status = fpc_add_operation(chain, &job->operations[at++]);
            continue;
        }
        if (group.operation != first.operation) {
            const fpc_stage *from = chain->last;
            fpc_slot *slot = &chain->slots[chain->count];
            status = prepare_resize(&resize, chain, slot, &group, from->height, from->width, from->channels);
        }
        if (status == FPC_OK) status = fpc_add_resize(chain, &resize);
        at += group.count;
    }
    return status;
}

/* Runs the operations from an open image to the sink; `rgbx_pad` is as in fpc_sink_fill. */
static int run_chain(fpc_context *context, const fpc_job *job, const opened *image, int32_t rgbx_pad) {
    fpc_chain *chain = &context->chain;
    fpc_chain_start(chain, job->max_bytes);
    int status = build_chain(chain, job, image);
    if (status != FPC_OK) return status;
    status = fpc_sink_fill(&job->sink, chain->last, rgbx_pad, &context->normalizer, &context->row);
    if (status == FPC_OK && image->codec) status = image->codec->finish(image->decoder);
    return status;
}

/* ---- the fourth byte ---- */

/* Writes only the fourth bytes: an image of one channel with its own operations. `from` is the value of the fourth
 * bytes before the operations; if negative, they are the source's. */
static int run_plane(fpc_context *context, const fpc_job *given, const fpc_box *box, int32_t from) {
    fpc_plane_operations operations;
    fpc_job job = *given;
    const opened plane = {.box = *box, .channels = 1, .constant = from};
    if (!fpc_make_plane_operations(context->kernels, given, box->height, box->width, &operations)) {
        return FPC_BAD_OPERATION;
    }
    job.operations = operations.operations;
    job.operation_count = operations.count;
    return run_chain(context, &job, &plane, FPC_RGBX_PAD_PLANE);
}

/* Runs a job with a sink of four channels. */
static int run_with_rgbx_pad(fpc_context *context, const fpc_job *job, opened *image) {
    const fpc_kernels *kernels = context->kernels;
    const fpc_box *box = &image->box;
    int32_t from = image->channels == 4 ? FPC_RGBX_PAD_ALONG : 255; /* files and arrays are opaque */
    int32_t rgbx_pad = fpc_rgbx_pad_of(kernels, job, box->height, box->width, from);
    if (rgbx_pad == FPC_RGBX_PAD_ALONG) return run_chain(context, job, image, 0);
    if (rgbx_pad == FPC_RGBX_PAD_PLANE && image->channels == 4) {
        from = fpc_common_rgbx_pad(kernels, job->pixels, box);
        if (from >= 0) rgbx_pad = fpc_rgbx_pad_of(kernels, job, box->height, box->width, from);
    }
    if (image->channels == 4) image->channels = 3;
    const int status = run_chain(context, job, image, rgbx_pad >= 0 ? rgbx_pad : 0);
    return status == FPC_OK && rgbx_pad == FPC_RGBX_PAD_PLANE ? run_plane(context, job, box, from) : status;
}

static int run_opened(fpc_context *context, fpc_job *job, opened *image) {
    if (job->sink.channels == 4) return run_with_rgbx_pad(context, job, image);
    if (image->channels == 4) image->channels = 3;
    return run_chain(context, job, image, 0);
}

static int run(fpc_context *context, fpc_job *job) {
    if (job->operation_count < 0 || (job->operation_count > 0 && !job->operations)) return FPC_BAD_OPERATION;
    if (job->indices != 0 && (job->indices != 1 || job->pixels)) return FPC_BAD_OPERATION;
    if ((job->path != NULL) + (job->data != NULL) + (job->pixels != NULL) != 1) return FPC_BAD_OPERATION;
    int status = fpc_sink_check(&job->sink);
    if (status != FPC_OK) return status;
    opened image = {0};
    part_file member = {0};
    status = job->pixels ? open_pixels(job, &image) : open_file(context, job, &member, &image);
    if (status == FPC_OK) status = run_opened(context, job, &image);
    if (status != FPC_OK && image.codec && image.codec->row) job->row = image.codec->row(image.decoder);
    job->warned = status == FPC_OK && image.codec && image.codec->warned && image.codec->warned(image.decoder);
    close_parts(&member);
    return status;
}

int fpc_run(fpc_context *context, fpc_job *job) {
    if (!job) return FPC_BAD_OPERATION;
    job->os_error = 0;
    job->row = -1;
    job->warned = 0;
    job->status = context ? run(context, job) : FPC_NO_MEMORY;
    if (context) fpc_context_trim(context);
    return job->status;
}

int fpc_run_series(fpc_context *context, fpc_job *job, size_t count, int64_t in_step, int64_t out_step) {
    if (!job || !job->pixels) return FPC_BAD_OPERATION;
    const fpc_pixels *const first = job->pixels;
    void *const out = job->sink.data;
    fpc_pixels pixels = *first;
    job->pixels = &pixels;
    int status = FPC_OK;
    for (size_t i = 0; i < count && status == FPC_OK; i++) {
        status = fpc_run(context, job);
        pixels.data += in_step;
        job->sink.data = (uint8_t *)job->sink.data + out_step;
    }
    job->pixels = first;
    job->sink.data = out;
    return status;
}
