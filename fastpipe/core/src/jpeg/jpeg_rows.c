/* jpeg_rows.c: makes rows of RGB, or of the luma alone, from the MCU rows of coefficients.
 *
 * Each component has a ring of sample rows with room for two MCU rows: the current one, and the one before or after it,
 * whose nearest row is mixed in by upsampling. Rows and columns that the box doesn't need aren't computed. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codecs.h"
#include "jpeg.h"
#include "packed_head.h"
#include "upsample.h"

/* Bytes before a row, where one 16-bit number is written, and after it, because kernels process groups of 32. */
#define MARGIN 64
#define BLOCK 8

typedef struct component {
    fpc_sampled sampled;
    fpc_dequantizer dequantizer;
    int first_block, block_end; /* columns of blocks; the first one begins at sampled.origin */
    int vertical;               /* rows of blocks per MCU row */
    int ring_rows;              /* a power of two */
    fpc_buffer ring, wide, full;
    size_t ring_stride;
} component;

/* A decoder of rows, with its source of coefficients. */
typedef struct jpeg_rows {
    const fpc_kernels *kernels;
    const fpc_coefficients *kind;
    void *source; /* of this kind */
    const fpc_frame *frame;
    component components[3];
    int component_count;
    int color;
    bool luma;
    int fused; /* Cb and Cr have half the columns, and are upsampled together with the color conversion */
    int y, bottom, left, width;
    int next_mcu_row;
    int status;
    fpc_buffer edge; /* the first group of pixels, if the box begins at an odd column */
} jpeg_rows;

static void destroy(void *decoder) {
    jpeg_rows *rows = decoder;
    for (int c = 0; c < 3; c++) {
        fpc_buffer_free(&rows->components[c].ring);
        fpc_buffer_free(&rows->components[c].wide);
        fpc_buffer_free(&rows->components[c].full);
    }
    fpc_buffer_free(&rows->edge);
    if (rows->source) rows->kind->destroy(rows->source);
    free(rows);
}

static void *create(const fpc_kernels *kernels, const fpc_coefficients *kind) {
    jpeg_rows *rows = calloc(1, sizeof *rows);
    if (!rows) return NULL;
    rows->kernels = kernels;
    rows->kind = kind;
    rows->source = kind->create(kernels);
    if (rows->source) return rows;
    destroy(rows);
    return NULL;
}

static void *create_jpeg(const fpc_kernels *kernels) { return create(kernels, &fpc_jpeg_coefficients); }
static void *create_packed(const fpc_kernels *kernels) { return create(kernels, &fpc_packed_coefficients); }

static size_t bytes_of(const void *decoder) {
    const jpeg_rows *rows = decoder;
    size_t bytes = sizeof *rows + rows->edge.size + rows->kind->bytes(rows->source);
    for (int c = 0; c < 3; c++) {
        const component *one = &rows->components[c];
        bytes += one->ring.size + one->wide.size + one->full.size;
    }
    return bytes;
}

static int open_file(void *decoder, const uint8_t *data, size_t length, bool indices, int64_t max_bytes,
                     const fpc_header **header) {
    jpeg_rows *rows = decoder;
    (void)max_bytes;
    rows->status = FPC_BAD_REGION; /* not started */
    rows->luma = indices;
    const int status = rows->kind->open(rows->source, data, length, &rows->frame);
    if (status != FPC_OK) return status;
    *header = &rows->frame->header;
    return rows->luma && (*header)->color == FPC_RGB ? FPC_UNSUPPORTED_COLOR : FPC_OK;
}

static int open_parts(void *decoder, const fpc_parts *parts, int64_t max_bytes, const fpc_header **header) {
    jpeg_rows *rows = decoder;
    rows->status = FPC_BAD_REGION; /* not started */
    rows->luma = false;
    const int status = rows->kind->open_parts(rows->source, parts, max_bytes, &rows->frame);
    if (status == FPC_OK) *header = &rows->frame->header;
    return status;
}

/* Works out which part of the component the box needs, and how it is upsampled. */
static int start_component(component *one, const fpc_frame *frame, const fpc_plane *plane, int top, int left,
                           int height, int width) {
    const int alone = frame->header.components == 1;
    if (plane->horizontal < 1 || plane->vertical < 1 || plane->vertical > 4) return FPC_UNSUPPORTED_COLOR;
    /* jdsample.c: "Fractional sampling not implemented". */
    if (!alone && (frame->largest_horizontal % plane->horizontal || frame->largest_vertical % plane->vertical))
        return FPC_UNSUPPORTED_COLOR;
    const int horizontal = alone ? 1 : frame->largest_horizontal / plane->horizontal;
    const int vertical = alone ? 1 : frame->largest_vertical / plane->vertical;
    fpc_sampled_make(&one->sampled, horizontal, vertical, plane->width, plane->height, top, left, height, width);
    one->first_block = one->sampled.origin / BLOCK;
    one->block_end = one->sampled.last_column / BLOCK + 1;
    one->vertical = plane->vertical;
    for (one->ring_rows = 2 * BLOCK; one->ring_rows < 2 * BLOCK * plane->vertical;) one->ring_rows *= 2;
    fpc_dequantizer_make(&one->dequantizer, plane->quantization);
    one->ring_stride = (size_t)(one->block_end - one->first_block) * BLOCK + 2 * MARGIN;
    /* Rows whose distance is a multiple of 512 bytes would share a few lines of the first-level cache. */
    if (one->ring_stride % 512 == 0) one->ring_stride += 64;
    return FPC_OK;
}

/* Returns 1 if the two components with half the columns can be upsampled together with the color conversion. */
static int can_fuse(const jpeg_rows *rows) {
    const fpc_upsampling how = rows->components[1].sampled.how;
    return rows->color == FPC_YCBCR && rows->components[0].sampled.how == FPC_UP_NONE &&
           (how == FPC_UP_HORIZONTAL || how == FPC_UP_BOTH) && rows->components[2].sampled.how == how;
}

static size_t wide_bytes(const component *one) { return one->sampled.horizontal == 2 ? 2 * one->ring_stride : 0; }

static size_t full_bytes(const jpeg_rows *rows, const component *one) {
    return one->sampled.how == FPC_UP_NONE || rows->fused ? 0 : (size_t)rows->width + MARGIN;
}

static int allocate(jpeg_rows *rows, int64_t max_bytes, int64_t *left_over) {
    size_t bytes = 0;
    for (int c = 0; c < rows->component_count; c++) {
        const component *one = &rows->components[c];
        bytes += (size_t)one->ring_rows * one->ring_stride + wide_bytes(one) + full_bytes(rows, one);
    }
    *left_over = 0;
    if (max_bytes > 0) {
        if (bytes >= (uint64_t)max_bytes) return FPC_TOO_LARGE;
        *left_over = max_bytes - (int64_t)bytes;
    }
    for (int c = 0; c < rows->component_count; c++) {
        component *one = &rows->components[c];
        if (!fpc_buffer_need(&one->ring, (size_t)one->ring_rows * one->ring_stride)) return FPC_NO_MEMORY;
        if (wide_bytes(one) && !fpc_buffer_need(&one->wide, wide_bytes(one))) return FPC_NO_MEMORY;
        if (full_bytes(rows, one) && !fpc_buffer_need(&one->full, full_bytes(rows, one))) return FPC_NO_MEMORY;
    }
    return fpc_buffer_need(&rows->edge, 3 * 32 + FPC_ROW_SLACK) ? FPC_OK : FPC_NO_MEMORY;
}

static int prepare(jpeg_rows *rows, const fpc_box *box, int64_t max_bytes) {
    const int top = box->top, left = box->left, height = box->height, width = box->width;
    const fpc_frame *frame = rows->frame;
    const fpc_header *header = &frame->header;
    const int three = header->components == 3 && (header->color == FPC_YCBCR || header->color == FPC_RGB);
    if (!three && !(header->components == 1 && header->color == FPC_GRAY)) return FPC_UNSUPPORTED_COLOR;
    if (!fpc_box_within(box, header)) return FPC_BAD_REGION;
    rows->component_count = rows->luma ? 1 : header->components;
    rows->color = header->color;
    rows->y = top;
    rows->bottom = top + height;
    rows->left = left;
    rows->width = width;
    int column = frame->mcu_columns, column_end = 0, row = frame->mcu_rows, row_end = 0;
    for (int c = 0; c < rows->component_count; c++) {
        const fpc_plane *plane = &frame->planes[c];
        component *one = &rows->components[c];
        const int status = start_component(one, frame, plane, top, left, height, width);
        if (status) return status;
        const int mcu = one->first_block / plane->horizontal, mcu_end = (one->block_end - 1) / plane->horizontal + 1;
        const int mcu_row = one->sampled.first_row / (BLOCK * plane->vertical);
        const int mcu_row_end = one->sampled.last_row / (BLOCK * plane->vertical) + 1;
        if (mcu < column) column = mcu;
        if (mcu_end > column_end) column_end = mcu_end;
        if (mcu_row < row) row = mcu_row;
        if (mcu_row_end > row_end) row_end = mcu_row_end;
    }
    rows->fused = rows->component_count == 3 && can_fuse(rows);
    rows->next_mcu_row = row;
    int64_t left_over;
    const int status = allocate(rows, max_bytes, &left_over);
    return status ? status : rows->kind->start(rows->source, column, column_end, row, row_end, left_over);
}

static int start_box(void *decoder, const fpc_box *box, int64_t max_bytes) {
    jpeg_rows *rows = decoder;
    rows->status = prepare(rows, box, max_bytes);
    return rows->status;
}

/* A row of samples in the ring, starting at sampled.origin. */
static uint8_t *ring_row(const component *one, int row) {
    return one->ring.data + (size_t)(row & (one->ring_rows - 1)) * one->ring_stride + MARGIN;
}

/* Decodes the next MCU row into the rings. */
static int decode_mcu_row(jpeg_rows *rows) {
    const int status = rows->kind->next_row(rows->source);
    if (status) return status;
    const fpc_frame *frame = rows->frame;
    int bad = 0;
    for (int c = 0; c < rows->component_count; c++) {
        const component *one = &rows->components[c];
        const fpc_plane *plane = &frame->planes[c];
        for (int i = 0; i < one->vertical; i++) {
            const int row = (rows->next_mcu_row * one->vertical + i) * BLOCK; /* the first row of samples */
            if (row + BLOCK <= one->sampled.first_row || row > one->sampled.last_row) continue;
            const size_t block = (size_t)i * (size_t)plane->stride + (size_t)(one->first_block - plane->first_block);
            bad |= rows->kernels->idct_blocks(plane->coefficients + 64 * block, plane->last + block,
                                              one->block_end - one->first_block, &one->dequantizer, ring_row(one, row),
                                              one->ring_stride);
        }
    }
    rows->next_mcu_row++;
    return bad ? FPC_BAD_CODE : FPC_OK;
}

/* A row of a component with half the columns, from sampled.origin on, as 16-bit numbers before columns are mixed. */
static const uint16_t *wide_row(const jpeg_rows *rows, const component *one, int y) {
    uint16_t *wide = (uint16_t *)(void *)one->wide.data + MARGIN / 2;
    fpc_upsample_widen(rows->kernels, &one->sampled, ring_row(one, fpc_sampled_row(&one->sampled, y)),
                       ring_row(one, fpc_sampled_neighbour(&one->sampled, y)), wide);
    return wide;
}

/* The component's pixels of row y, starting at the box's first column. */
static const uint8_t *full_row(const jpeg_rows *rows, const component *one, int y) {
    const fpc_sampled *sampled = &one->sampled;
    const uint8_t *row = ring_row(one, fpc_sampled_row(sampled, y));
    const uint8_t *neighbour = ring_row(one, fpc_sampled_neighbour(sampled, y));
    if (sampled->how == FPC_UP_NONE) return row + (rows->left - sampled->origin);
    const int mixes_columns = sampled->how == FPC_UP_HORIZONTAL || sampled->how == FPC_UP_BOTH;
    const uint16_t *wide = mixes_columns ? wide_row(rows, one, y) : NULL;
    fpc_upsample_row(sampled, row, neighbour, wide, y, rows->left, rows->width, one->full.data);
    return one->full.data;
}

/* Kernels take pairs of columns. If the box begins with the second column of a pair, the first 32 pixels are written to
 * a separate buffer, and 31 of them copied. */
static void fused_row(jpeg_rows *rows, int y, uint8_t *rgb) {
    const component *components = rows->components;
    const int sums = components[1].sampled.how == FPC_UP_BOTH;
    const uint16_t *cb = wide_row(rows, &components[1], y), *cr = wide_row(rows, &components[2], y);
    int x = rows->left & ~1, count = rows->left + rows->width - x;
    const uint8_t *luma = ring_row(&components[0], y) + (x - components[0].sampled.origin);
    cb += x / 2 - components[1].sampled.origin;
    cr += x / 2 - components[2].sampled.origin;
    if (rows->left & 1) {
        rows->kernels->ycc_half_to_rgb(luma, cb, cr, sums, rows->edge.data, 32);
        memcpy(rgb, rows->edge.data + 3, 3 * 31);
        if (count <= 32) return;
        rgb += 3 * 31, luma += 32, cb += 16, cr += 16, count -= 32;
    }
    rows->kernels->ycc_half_to_rgb(luma, cb, cr, sums, rgb, count);
}

static void make_row(jpeg_rows *rows, int y, uint8_t *rgb) {
    const component *components = rows->components;
    if (rows->fused) {
        fused_row(rows, y, rgb);
        return;
    }
    const uint8_t *first = full_row(rows, &components[0], y);
    if (rows->luma) {
        memcpy(rgb, first, (size_t)rows->width);
        return;
    }
    if (rows->component_count == 1) {
        rows->kernels->planes_to_rgb(first, first, first, rgb, rows->width);
        return;
    }
    const uint8_t *second = full_row(rows, &components[1], y), *third = full_row(rows, &components[2], y);
    if (rows->color == FPC_RGB)
        rows->kernels->planes_to_rgb(first, second, third, rgb, rows->width);
    else
        rows->kernels->ycc_to_rgb(first, second, third, rgb, rows->width);
}

/* Returns 1 if pixel row y needs samples of MCU rows that aren't decoded yet. */
static int needs_more(const jpeg_rows *rows, int y) {
    for (int c = 0; c < rows->component_count; c++) {
        const component *one = &rows->components[c];
        const int row = fpc_sampled_row(&one->sampled, y), neighbour = fpc_sampled_neighbour(&one->sampled, y);
        if ((row > neighbour ? row : neighbour) >= rows->next_mcu_row * one->vertical * BLOCK) return 1;
    }
    return 0;
}

/* Decodes all MCU rows that row y needs. */
static int decode_up_to(jpeg_rows *rows, int y) {
    while (rows->status == FPC_OK && needs_more(rows, y)) rows->status = decode_mcu_row(rows);
    return rows->status;
}

static int next_row(void *decoder, uint8_t *rgb) {
    jpeg_rows *rows = decoder;
    if (rows->status == FPC_OK && rows->y >= rows->bottom) rows->status = FPC_BAD_REGION;
    const int status = decode_up_to(rows, rows->y);
    if (status == FPC_OK) make_row(rows, rows->y++, rgb);
    return status;
}

/* Decodes the box's rows that nobody has read, too: they show whether the file is sound. */
static int finish_file(void *decoder) {
    jpeg_rows *rows = decoder;
    const int status = decode_up_to(rows, rows->bottom - 1);
    return status == FPC_OK ? rows->kind->finish(rows->source) : status;
}

static int32_t row_of(const void *decoder) {
    const jpeg_rows *rows = decoder;
    return rows->kind->row(rows->source);
}

static bool warned(const void *decoder) {
    const jpeg_rows *rows = decoder;
    return rows->kind->warned(rows->source);
}

static bool recognize(const uint8_t *data, size_t length) {
    return length >= 3 && data[0] == 0xFF && data[1] == 0xD8 && data[2] == 0xFF;
}

const fpc_codec fpc_jpeg_codec = {
    .recognize = recognize,
    .read_header = fpc_jpeg_read_header,
    .create = create_jpeg,
    .destroy = destroy,
    .bytes = bytes_of,
    .open = open_file,
    .start = start_box,
    .next = next_row,
    .finish = finish_file,
    .warned = warned,
};

const fpc_codec fpc_packed_codec = {
    .recognize = fpc_is_packed,
    .read_header = fpc_packed_read_header,
    .create = create_packed,
    .destroy = destroy,
    .bytes = bytes_of,
    .open = open_file,
    .open_parts = open_parts,
    .start = start_box,
    .next = next_row,
    .finish = finish_file,
    .row = row_of,
};
