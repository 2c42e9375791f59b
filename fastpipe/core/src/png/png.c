/* png.c: makes rows of RGB from a PNG's stream. It is inflated as far as rows are needed, four rows are unfiltered at a
 * time, and pixels are converted as by Pillow's convert("RGB"). */
#include "png.h"

#include <stdlib.h>
#include <string.h>

#include "codecs.h"

#define PIECE (64 << 10)     /* the least to inflate at a time */
#define MOST_FOR_A_BYTE 1032 /* the most bytes that deflate makes of one: 258 for each 2 bits */

static void *create(const fpc_kernels *kernels) {
    fpc_png *png = calloc(1, sizeof *png);
    if (!png) return NULL;
    png->kernels = kernels;
    return png;
}

static void destroy(void *decoder) {
    fpc_png *png = decoder;
    fpc_buffer_free(&png->joined);
    fpc_buffer_free(&png->window);
    fpc_buffer_free(&png->rows);
    free(png);
}

static size_t bytes_of(const void *decoder) {
    const fpc_png *png = decoder;
    return sizeof *png + png->joined.size + png->window.size + png->rows.size;
}

/* True if the decoder gives files of this header in this form. */
static bool has_form(const fpc_header *header, int kind, fpc_png_form form) {
    if (form != FPC_PNG_AS_UINT16) return header->bit_depth <= 8;
    return header->bit_depth == 16 && (kind == FPC_PNG_GRAY || kind == FPC_PNG_RGB);
}

static int open_as(fpc_png *png, const uint8_t *data, size_t length, fpc_png_form form, int64_t max_bytes) {
    fpc_header *header = &png->header;
    png->form = form;
    int status = fpc_png_read_header(data, length, header, &png->kind);
    /* A header that Pillow has to read for its orientation is accepted: the pixels don't depend on the orientation. */
    if (status != FPC_OK && !(status == FPC_UNUSUAL_HEADER && header->data_offset)) return status;
    if (!has_form(header, png->kind, form) || header->progressive || header->animated) return FPC_UNSUPPORTED_MODE;
    if (header->height > FPC_LARGEST_SIDE || header->width > FPC_LARGEST_SIDE) return FPC_TOO_LARGE;
    status = fpc_png_read_chunks(png, data, length, max_bytes);
    if (status != FPC_OK) return status;
    png->step = header->bit_depth < 8 ? 1 : header->components * header->bit_depth / 8;
    png->row_bytes = 1 + ((size_t)header->width * (size_t)header->components * (size_t)header->bit_depth + 7) / 8;
    if ((uint64_t)png->row_bytes * (uint64_t)header->height / MOST_FOR_A_BYTE > png->parts.stream_length)
        return FPC_TRUNCATED;
    return FPC_OK;
}

static int open_file(void *decoder, const uint8_t *data, size_t length, bool indices, int64_t max_bytes,
                     const fpc_header **header) {
    fpc_png *png = decoder;
    *header = &png->header;
    return open_as(png, data, length, indices ? FPC_PNG_AS_INDICES : FPC_PNG_AS_RGB, max_bytes);
}

/* ---- inflating -------------------------------------------------------------------------------------------------- */

/* Inflates until there are at least `bytes` bytes after png->read, which must be part of the bytes wanted. */
static int need(fpc_png *png, size_t bytes) {
    while ((size_t)(png->out - png->read) < bytes) {
        uint8_t *const base = png->window.data;
        if (png->end - png->out < PIECE) { /* moves the unread bytes, and those within reach of matches, to the front */
            uint8_t *keep = png->read;
            if (png->out - keep < FPC_WINDOW) keep = png->out - base < FPC_WINDOW ? base : png->out - FPC_WINDOW;
            memmove(base, keep, (size_t)(png->out - keep));
            png->read -= keep - base;
            png->out -= keep - base;
        }
        uint8_t *const from = png->out;
        const size_t room = (size_t)(png->end - from);
        const int status = fpc_inflate_run(&png->inflate, png->kernels, base, &png->out,
                                           from + (room < png->wanted ? room : png->wanted));
        if (status != FPC_OK) return status;
        const size_t made = (size_t)(png->out - from);
        if (png->whole) {
            if (made > png->wanted) return FPC_BAD_CODE; /* more data than the image needs; Pillow ignores it */
            png->checksum = png->kernels->adler32(png->checksum, from, made);
        }
        png->wanted -= made < png->wanted ? made : png->wanted;
        if (png->inflate.state == FPC_INFLATE_DONE && png->wanted) return FPC_TRUNCATED;
    }
    return FPC_OK;
}

/* Unfilters the next rows. */
static int read_group(fpc_png *png) {
    const int32_t first = png->group + png->ready, left = png->bottom - first;
    const int count = left < FPC_FILTERED_ROWS ? (int)left : FPC_FILTERED_ROWS;
    const int status = need(png, (size_t)count * png->row_bytes);
    if (status != FPC_OK) return status;
    fpc_filtered rows = {.above = png->lines[png->half * FPC_FILTERED_ROWS + FPC_FILTERED_ROWS - 1]};
    png->half ^= 1;
    for (int i = 0; i < count; i++) {
        rows.filters[i] = png->read[0];
        if (rows.filters[i] > FPC_FILTER_PAETH) return FPC_BAD_CODE;
        rows.raw[i] = png->read + 1;
        rows.out[i] = png->lines[png->half * FPC_FILTERED_ROWS + i];
        png->read += png->row_bytes;
    }
    png->kernels->unfilter(&rows, count, png->pixels, png->step);
    png->group = first;
    png->ready = count;
    return FPC_OK;
}

/* ---- pixels ----------------------------------------------------------------------------------------------------- */

static void add_color(fpc_palette *palette, const uint8_t rgb[3]) {
    const uint32_t i = palette->count++;
    memcpy(palette->colors[i], rgb, 3);
    for (int c = 0; c < 3; c++) palette->planes[c][i] = rgb[c];
}

static void make_palette(fpc_png *png) {
    png->palette.count = 0;
    if (png->kind == FPC_PNG_PALETTE) {
        for (uint32_t i = 0; i < png->parts.colors; i++) add_color(&png->palette, png->parts.palette + 3 * i);
    } else if (png->kind == FPC_PNG_GRAY && png->header.bit_depth < 8) { /* Pillow's modes "1", "L;2" and "L;4" */
        const int most = (1 << png->header.bit_depth) - 1;
        for (int i = 0; i <= most; i++) {
            const uint8_t level = (uint8_t)(i * (255 / most)), rgb[3] = {level, level, level};
            add_color(&png->palette, rgb);
        }
    }
}

/* The box's samples of a gray image or one with a palette, one byte each; there is room after them. */
static const uint8_t *take_samples(fpc_png *png, const uint8_t *line) {
    const int depth = png->header.bit_depth;
    if (depth == 8) return line + png->left;
    const int32_t in_byte = 8 / depth, first = png->left % in_byte;
    const uint8_t mask = (uint8_t)((1 << depth) - 1);
    const uint8_t *in = line + png->left / in_byte;
    uint8_t *out = png->samples;
    for (int32_t x = 0; x < first + png->width; x += in_byte, in++) {
        for (int shift = 8 - depth; shift >= 0; shift -= depth) *out++ = *in >> shift & mask;
    }
    return png->samples + first;
}

static int give_colors(const fpc_png *png, const uint8_t *samples, uint8_t *row) {
    uint8_t largest = 0;
    for (int32_t x = 0; x < png->width; x++) largest = samples[x] > largest ? samples[x] : largest;
    if (largest >= png->palette.count) return FPC_BAD_TABLE; /* the index of no color: decoders disagree */
    png->kernels->paint(samples, png->width, &png->palette, row);
    return FPC_OK;
}

static void give_indices(const fpc_png *png, const uint8_t *samples, uint8_t *row) {
    if (png->kind == FPC_PNG_PALETTE || png->header.bit_depth == 8) {
        memcpy(row, samples, (size_t)png->width);
    } else {
        const int step = 255 / ((1 << png->header.bit_depth) - 1);
        for (int32_t x = 0; x < png->width; x++) row[x] = (uint8_t)(samples[x] * step);
    }
}

/* The box's samples, which are big-endian in the file, in the machine's order. */
static void give_uint16(const fpc_png *png, const uint8_t *line, uint8_t *row) {
    const size_t count = (size_t)png->width * (size_t)png->header.components;
    line += (size_t)png->left * (size_t)png->step;
    for (size_t i = 0; i < count; i++) {
        const uint16_t sample = (uint16_t)(line[2 * i] << 8 | line[2 * i + 1]);
        memcpy(row + 2 * i, &sample, sizeof sample);
    }
}

static int give(fpc_png *png, const uint8_t *line, uint8_t *row) {
    const size_t width = (size_t)png->width;
    if (png->form == FPC_PNG_AS_UINT16) {
        give_uint16(png, line, row);
        return FPC_OK;
    }
    switch (png->kind) {
    case FPC_PNG_RGB: memcpy(row, line + 3 * (size_t)png->left, 3 * width); return FPC_OK;
    case FPC_PNG_RGBA:
        line += 4 * (size_t)png->left;
        for (size_t x = 0; x < width; x++) memcpy(row + 3 * x, line + 4 * x, 4); /* the next pixel overwrites the 4th */
        return FPC_OK;
    case FPC_PNG_GRAY_ALPHA:
        line += 2 * (size_t)png->left;
        for (size_t x = 0; x < width; x++) {
            const uint32_t color = line[2 * x] * 0x01010101u;
            memcpy(row + 3 * x, &color, 4);
        }
        return FPC_OK;
    default: break;
    }
    const uint8_t *samples = take_samples(png, line);
    if (png->form == FPC_PNG_AS_INDICES) {
        give_indices(png, samples, row);
        return FPC_OK;
    }
    if (png->kind == FPC_PNG_GRAY && png->header.bit_depth == 8) {
        png->kernels->planes_to_rgb(samples, samples, samples, row, png->width);
        return FPC_OK;
    }
    return give_colors(png, samples, row);
}

/* ---- a box ------------------------------------------------------------------------------------------------------ */

static int start_box(void *decoder, const fpc_box *box, int64_t max_bytes) {
    fpc_png *png = decoder;
    const int32_t top = box->top, left = box->left, height = box->height, width = box->width;
    const fpc_header *header = &png->header;
    if (!fpc_box_within(box, header)) return FPC_BAD_REGION;
    /* Pillow reads black and white images in another mode. */
    const bool has_indices = png->kind == FPC_PNG_PALETTE || (png->kind == FPC_PNG_GRAY && header->bit_depth > 1);
    if (png->form == FPC_PNG_AS_INDICES && !has_indices) return FPC_UNSUPPORTED_COLOR;
    png->y = top;
    png->bottom = top + height;
    png->whole = png->bottom == header->height;
    png->left = left;
    png->width = width;
    png->group = png->ready = 0;
    png->half = 1;
    png->pixels =
        header->bit_depth >= 8 ? left + width : (int32_t)(((int64_t)(left + width) * header->bit_depth + 7) / 8);
    const size_t line = ((size_t)png->pixels * (size_t)png->step + FPC_ROW_SLACK + 63) / 64 * 64;
    const size_t samples = (size_t)width + 16 + FPC_ROW_SLACK;
    const size_t rows = 2 * FPC_FILTERED_ROWS * line + samples;
    const size_t room = FPC_WINDOW + PIECE + FPC_FILTERED_ROWS * png->row_bytes;
    const size_t joined = png->parts.stream == png->joined.data ? png->joined.size : 0;
    if (max_bytes > 0 && rows + room + joined > (uint64_t)max_bytes) return FPC_TOO_LARGE;
    uint8_t *lines = fpc_buffer_need(&png->rows, rows);
    uint8_t *window = fpc_buffer_need(&png->window, room + FPC_INFLATE_OUT_SLACK);
    if (!lines || !window) return FPC_NO_MEMORY;
    for (int i = 0; i < 2 * FPC_FILTERED_ROWS; i++) png->lines[i] = lines + (size_t)i * line;
    memset(png->lines[2 * FPC_FILTERED_ROWS - 1], 0, line); /* the row above the first one */
    png->samples = lines + 2 * FPC_FILTERED_ROWS * line;
    png->read = png->out = window;
    png->end = window + room;
    png->wanted = png->row_bytes * (size_t)png->bottom;
    png->checksum = 1;
    make_palette(png);
    return fpc_inflate_start(&png->inflate, png->parts.stream, png->parts.stream_length);
}

static int next_row(void *decoder, uint8_t *row) {
    fpc_png *png = decoder;
    if (png->y >= png->bottom) return FPC_BAD_REGION;
    while (png->y >= png->group + png->ready) {
        const int status = read_group(png);
        if (status != FPC_OK) return status;
    }
    const int line = png->half * FPC_FILTERED_ROWS + (png->y++ - png->group);
    return give(png, png->lines[line], row);
}

/* If the box includes the image's last row, the stream must end there, with the right checksum. */
static int finish_file(void *decoder) {
    fpc_png *png = decoder;
    if (!png->whole || png->y < png->bottom) return FPC_OK; /* relies on the chunks' checksums */
    uint8_t *out = png->out;
    int status = FPC_OK;
    if (png->inflate.state != FPC_INFLATE_DONE) /* the end of the last block, and possibly empty blocks */
        status = fpc_inflate_run(&png->inflate, png->kernels, png->window.data, &out, out + 1);
    if (status != FPC_OK) return status;
    if (png->inflate.state != FPC_INFLATE_DONE || out != png->out) return FPC_BAD_CODE;
    uint32_t checksum = 0;
    status = fpc_inflate_finish(&png->inflate, &checksum);
    if (status != FPC_OK) return status;
    return checksum == png->checksum ? FPC_OK : FPC_BAD_CHECKSUM;
}

int fpc_png_decode_uint16(void *decoder, const uint8_t *data, size_t length, const fpc_box *box, int32_t channels,
                          int64_t max_bytes, uint8_t *out, int64_t row_stride) {
    fpc_png *png = decoder;
    int status = open_as(png, data, length, FPC_PNG_AS_UINT16, max_bytes);
    if (status != FPC_OK) return status;
    if (png->header.components != channels) return FPC_UNSUPPORTED_COLOR;
    status = start_box(png, box, max_bytes);
    for (int32_t y = 0; y < box->height && status == FPC_OK; y++) status = next_row(png, out + y * row_stride);
    return status == FPC_OK ? finish_file(png) : status;
}

static int read_header(const uint8_t *data, size_t length, fpc_header *header) {
    fpc_header found;
    int kind = 0;
    const int status = fpc_png_read_header(data, length, &found, &kind);
    if (status == FPC_OK) *header = found;
    return status;
}

const fpc_codec fpc_png_codec = {
    .recognize = fpc_is_png,
    .read_header = read_header,
    .create = create,
    .destroy = destroy,
    .bytes = bytes_of,
    .open = open_file,
    .start = start_box,
    .next = next_row,
    .finish = finish_file,
};
