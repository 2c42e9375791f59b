/* sink.c: writes rows, as bytes or as floats, to the sink's memory with its strides. */
#include "sink.h"

#include <string.h>

#include "rgbx_pad.h"

static int64_t element_size(const fpc_sink *sink) {
    return sink->dtype == FPC_UINT8 ? 1 : sink->dtype == FPC_FLOAT32 ? 4 : 2;
}

int fpc_sink_check(const fpc_sink *sink) {
    if (!sink->data || sink->dtype < FPC_UINT8 || sink->dtype > FPC_BFLOAT16) return FPC_BAD_OPERATION;
    if (sink->channels == 4) {
        if (sink->dtype != FPC_UINT8 || sink->column_stride != 4 || sink->channel_stride != 1) return FPC_BAD_OPERATION;
    } else if (sink->channels != 1 && sink->channels != 3) {
        return FPC_BAD_OPERATION;
    }
    const int32_t known = FPC_NORMALIZE | FPC_MULTIPLY | FPC_BY_FACTOR;
    const int32_t by_factor = FPC_NORMALIZE | FPC_BY_FACTOR;
    if (sink->flags & FPC_BY_FACTOR && sink->flags != by_factor) return FPC_BAD_OPERATION;
    if (sink->flags & ~known || (sink->flags && sink->dtype == FPC_UINT8)) return FPC_BAD_OPERATION;
    const int64_t size = element_size(sink); /* elements have to be aligned */
    if ((uintptr_t)sink->data % (uintptr_t)size || sink->row_stride % size || sink->column_stride % size ||
        sink->channel_stride % size) {
        return FPC_BAD_OPERATION;
    }
    return FPC_OK;
}

/* True if the elements follow each other without gaps, the channels of a pixel together. */
static bool channels_together(const fpc_sink *sink) {
    const int64_t size = element_size(sink);
    return sink->column_stride == sink->channels * size && (sink->channels == 1 || sink->channel_stride == size);
}

/* True if the elements of each channel follow each other without gaps. */
static bool channels_apart(const fpc_sink *sink) {
    return sink->channels == 3 && sink->column_stride == element_size(sink);
}

/* True if the channels are in the order blue, green, red, as in OpenCV. */
static bool channels_reversed(const fpc_sink *sink) {
    return sink->channels == 3 && sink->column_stride == 3 && sink->channel_stride == -1;
}

/* Writes contiguous elements to their places in the sink. */
static void scatter(const fpc_sink *sink, const uint8_t *elements, uint8_t *out) {
    const size_t size = (size_t)element_size(sink);
    for (int64_t x = 0; x < sink->width; x++) {
        for (int64_t c = 0; c < sink->channels; c++, elements += size) {
            memcpy(out + x * sink->column_stride + c * sink->channel_stride, elements, size);
        }
    }
}

static int fill_bytes(const fpc_sink *sink, fpc_stage *from, uint8_t *row) {
    const int64_t bytes = (int64_t)sink->width * sink->channels;
    const bool together = channels_together(sink), apart = channels_apart(sink);
    const bool reversed = channels_reversed(sink);
    /* Rows whose slack lies inside later rows are written straight to their place. */
    const bool dense = together && sink->row_stride == bytes;
    for (int64_t y = 0; y < sink->height; y++) {
        uint8_t *out = (uint8_t *)sink->data + y * sink->row_stride;
        const bool straight = dense && (sink->height - 1 - y) * bytes >= FPC_ROW_SLACK;
        const int status = fpc_pull_row(from, straight ? out : row);
        if (status != FPC_OK) return status;
        if (straight) continue;
        if (together) {
            memcpy(out, row, (size_t)bytes);
        } else if (apart) {
            uint8_t *const planes[3] = {out, out + sink->channel_stride, out + 2 * sink->channel_stride};
            from->kernels->split_channels(row, sink->width, planes);
        } else if (reversed) {
            from->kernels->reverse_channels(row, sink->width, out - 2); /* `out` points to the first pixel's red */
        } else {
            scatter(sink, row, out);
        }
    }
    return FPC_OK;
}

/* Writes rows of three channels followed by a fourth byte, or only the fourth bytes. */
static int fill_rgbx(const fpc_sink *sink, fpc_stage *from, int32_t rgbx_pad, uint8_t *room) {
    for (int64_t y = 0; y < sink->height; y++) {
        uint8_t *out = (uint8_t *)sink->data + y * sink->row_stride;
        const uint8_t *row;
        const int status = fpc_borrow_row(from, room, &row);
        if (status != FPC_OK) return status;
        if (rgbx_pad == FPC_RGBX_PAD_PLANE) {
            from->kernels->set_rgbx_pad(row, sink->width, out);
        } else {
            from->kernels->add_rgbx_pad(row, sink->width, (uint8_t)rgbx_pad, out);
        }
    }
    return FPC_OK;
}

static int fill_floats(const fpc_sink *sink, fpc_stage *from, const fpc_normalizer *normalizer, uint8_t *row,
                       uint8_t *elements) {
    const fpc_kernels *kernels = from->kernels;
    const int64_t count = (int64_t)sink->width * sink->channels;
    const bool together = channels_together(sink), apart = channels_apart(sink);
    int status = FPC_OK;
    for (int64_t y = 0; y < sink->height; y++) {
        status = fpc_pull_row(from, row);
        if (status != FPC_OK) break;
        uint8_t *out = (uint8_t *)sink->data + y * sink->row_stride;
        if (apart) {
            void *const planes[3] = {out, out + sink->channel_stride, out + 2 * sink->channel_stride};
            kernels->normalize_planar(row, sink->width, normalizer, planes);
        } else if (together) {
            kernels->normalize_interleaved(row, count, normalizer, sink->channels, out);
        } else {
            kernels->normalize_interleaved(row, count, normalizer, sink->channels, elements);
            scatter(sink, elements, out);
        }
    }
    return status;
}

/* Writes one element in the sink's type. */
static void put_float(const fpc_sink *sink, float value, uint8_t *out) {
    if (sink->dtype == FPC_FLOAT32) {
        memcpy(out, &value, sizeof value);
        return;
    }
    const uint16_t half = sink->dtype == FPC_FLOAT16 ? fpc_float16_bits(value) : fpc_bfloat16_bits(value);
    memcpy(out, &half, sizeof half);
}

/* Writes the rows of a stage that gives floats from 0 to 1; `row` is scratch memory. */
static int fill_from_floats(const fpc_sink *sink, fpc_stage *from, uint8_t *row) {
    const bool normalizes = sink->flags & FPC_NORMALIZE, dense = sink->column_stride == (int64_t)sizeof(float);
    for (int64_t y = 0; y < sink->height; y++) {
        const int status = fpc_pull_row(from, row);
        if (status != FPC_OK) return status;
        for (int64_t c = 0; c < sink->channels; c++) {
            float *const values = (float *)(void *)row + c * sink->width;
            const float mean = sink->mean[c], std = sink->std[c];
            for (int64_t x = 0; normalizes && x < sink->width; x++) values[x] = (values[x] - mean) / std;
            uint8_t *const out = (uint8_t *)sink->data + y * sink->row_stride + c * sink->channel_stride;
            if (dense && sink->dtype == FPC_FLOAT32) {
                memcpy(out, values, (size_t)sink->width * sizeof *values);
                continue;
            }
            for (int64_t x = 0; x < sink->width; x++) put_float(sink, values[x], out + x * sink->column_stride);
        }
    }
    return FPC_OK;
}

int fpc_sink_fill(const fpc_sink *sink, fpc_stage *from, int32_t rgbx_pad, fpc_normalizer *normalizer,
                  fpc_buffer *row) {
    if (sink->height != from->height || sink->width != from->width) return FPC_BAD_OPERATION;
    const bool rgbx = sink->channels == 4 && from->channels == (rgbx_pad == FPC_RGBX_PAD_PLANE ? 1 : 3);
    if (sink->channels != from->channels && !rgbx) return FPC_BAD_OPERATION;
    if (from->gives_floats && (rgbx || sink->dtype == FPC_UINT8 || sink->flags & FPC_BY_FACTOR)) {
        return FPC_BAD_OPERATION;
    }
    const int64_t row_bytes = fpc_row_bytes(sink->width, sink->channels);
    const int64_t of_floats = from->gives_floats ? (int64_t)sizeof(float) : 0;
    const int64_t bytes = row_bytes * (1 + (sink->dtype == FPC_UINT8 ? 0 : element_size(sink)) + of_floats);
    if ((uint64_t)bytes > SIZE_MAX || !fpc_buffer_need(row, (size_t)bytes)) return FPC_NO_MEMORY;
    if (rgbx) return fill_rgbx(sink, from, rgbx_pad, row->data);
    if (sink->dtype == FPC_UINT8) return fill_bytes(sink, from, row->data);
    if (from->gives_floats) return fill_from_floats(sink, from, row->data);
    fpc_normalizer_make(normalizer, sink, from->kernels);
    return fill_floats(sink, from, normalizer, row->data, row->data + row_bytes);
}
