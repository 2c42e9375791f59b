/* arrow.c: the pixels of Pillow's images, which Pillow exports as arrays of Arrow's C data interface.
 * https://arrow.apache.org/docs/format/CDataInterface.html */
#include "fastpipe_core.h"

#include <stdbool.h>

typedef struct arrow_array {
    int64_t length, null_count, offset, buffer_count, child_count;
    const void **buffers;
    struct arrow_array **children, *dictionary;
    void (*release)(struct arrow_array *array);
    void *private_data;
} arrow_array;

static const void *bytes_of(const arrow_array *array, int64_t length) {
    if (array->length != length || array->offset != 0 || array->null_count > 0) return NULL;
    if (array->buffer_count != 2 || array->child_count != 0 || array->dictionary || !array->buffers) return NULL;
    return array->buffers[1];
}

const void *fpc_arrow_pixels(const void *const *capsule, int64_t count, int32_t bytes) {
    const arrow_array *array = *capsule;
    if (!array || !array->release || count < 1 || count > INT64_MAX / 4) return NULL;
    if (bytes == 1) return bytes_of(array, count);
    if (bytes != 4 || array->length != count || array->offset != 0 || array->null_count > 0) return NULL;
    if (array->child_count != 1 || !array->children || !array->children[0]) return NULL;
    return bytes_of(array->children[0], 4 * count);
}

/* True if the pixels, starting `offset` bytes after the image's first, lie inside an image of `count` pixels. */
static bool lie_inside(const fpc_pixels *pixels, int64_t count, int64_t offset) {
    const int64_t bytes = pixels->channels, row = pixels->row_stride;
    if (count < 1 || count > INT64_MAX / 4 || offset < 0 || pixels->height < 1 || pixels->width < 1) return false;
    if (pixels->column_stride != bytes || pixels->channel_stride != 1 || row < bytes * pixels->width) return false;
    if (offset > count * bytes || row > count * bytes) return false;
    return pixels->height - 1 <= (count * bytes - offset) / row &&
           (pixels->height - 1) * row + pixels->width * bytes <= count * bytes - offset;
}

/* True if a sink has the layout of an image's memory. */
static bool is_image(const fpc_sink *sink) {
    const int64_t bytes = sink->channels;
    return sink->dtype == FPC_UINT8 && (bytes == 1 || bytes == 4) && sink->height > 0 && sink->width > 0 &&
           sink->column_stride == bytes && sink->channel_stride == 1 && sink->row_stride == bytes * sink->width;
}

int fpc_run_on_image(fpc_context *context, const fpc_job *job, int64_t count, int64_t offset, const void *const *source,
                     const void *const *sink, void *out) {
    if (!job || !job->pixels || !source) return FPC_BAD_OPERATION;
    fpc_job own = *job;
    fpc_pixels pixels = *job->pixels;
    if (pixels.channels != 1 && pixels.channels != 4) return FPC_BAD_OPERATION;
    if (!lie_inside(&pixels, count, offset) || (sink && !is_image(&own.sink))) return FPC_BAD_OPERATION;
    const uint8_t *from = fpc_arrow_pixels(source, count, pixels.channels);
    if (!from) return FPC_UNSUPPORTED_MODE;
    pixels.data = from + offset;
    own.pixels = &pixels;
    if (sink) {
        const int64_t made = (int64_t)own.sink.height * own.sink.width;
        own.sink.data = (void *)(uintptr_t)fpc_arrow_pixels(sink, made, own.sink.channels);
        if (!own.sink.data) return FPC_UNSUPPORTED_MODE;
    } else if (out) {
        own.sink.data = out;
    }
    return fpc_run(context, &own);
}
