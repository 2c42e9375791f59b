/* packed.c: gives a packed image's coefficients, one row of MCUs at a time. */
#include "packed_head.h"

#include <stdlib.h>
#include <string.h>

#include "mcu.h"

typedef struct packed {
    const fpc_kernels *kernels;
    const fpc_parts *parts; /* NULL if the file is in memory */
    const uint8_t *data;    /* the file's bytes from `begin` on, `length` of them */
    uint64_t begin, length;
    fpc_buffer head_bytes, row_bytes; /* of a file that is read in parts */
    fpc_packed_head head;
    bool is_open;
    int column, column_end, next, row_end;
    uint64_t offset; /* the next row's position in the file */
    fpc_buffer coefficients[3], last[3];
    fpc_buffer copy; /* of a row that is followed by too few bytes in memory */
    fpc_buffer smalls, values;
    fpc_packed_tables tables;
} packed;

static int packed_u16(const uint8_t *data) { return data[0] | data[1] << 8; }

static void make_tables(fpc_packed_tables *tables) {
    for (int byte = 0; byte < 256; byte++) {
        uint64_t low = 0, high = 0;
        uint8_t count = 0;
        for (int bit = 0; bit < 8; bit++) {
            const bool set = byte >> bit & 1;
            low |= (uint64_t)(set ? count : 0x80) << (8 * bit);
            high |= (uint64_t)(set ? count + 8 : 0x80) << (8 * bit);
            count = (uint8_t)(count + set);
        }
        tables->spread[0][byte] = low;
        tables->spread[1][byte] = high;
        tables->counts[byte] = count;
        for (int half = 0; half < 2; half++) {
            const int value = (byte >> (4 * half) & 7) + FPC_PACKED_SMALLEST;
            tables->smalls[byte][half] = (int8_t)(byte >> (4 * half) & 8 ? -value : value);
        }
    }
    memset(tables->orders, 0x80, sizeof tables->orders);
    for (int k = 0; k < 64; k++) {
        const int natural = fpc_natural_order[k + 1];
        tables->orders[natural / 32][k / 16][natural % 32] = (uint8_t)(k % 16);
    }
}

static void *create(const fpc_kernels *kernels) {
    packed *source = calloc(1, sizeof *source);
    if (!source) return NULL;
    source->kernels = kernels;
    make_tables(&source->tables);
    return source;
}

static void destroy(void *decoder) {
    packed *source = decoder;
    for (int i = 0; i < 3; i++) {
        fpc_buffer_free(&source->coefficients[i]);
        fpc_buffer_free(&source->last[i]);
    }
    fpc_buffer_free(&source->head_bytes);
    fpc_buffer_free(&source->row_bytes);
    fpc_buffer_free(&source->copy);
    fpc_buffer_free(&source->smalls);
    fpc_buffer_free(&source->values);
    free(source);
}

static size_t bytes_of(const void *decoder) {
    const packed *source = decoder;
    size_t bytes = sizeof *source + source->copy.size + source->smalls.size + source->values.size +
                   source->head_bytes.size + source->row_bytes.size;
    for (int i = 0; i < 3; i++) bytes += source->coefficients[i].size + source->last[i].size;
    return bytes;
}

/* Checks that the segments, which follow the rows, agree with the head. */
static int check_segments(packed *source, int64_t max_bytes) {
    const fpc_packed_head *head = &source->head;
    const uint64_t offset = head->size + head->rows_size, size = head->segments_size;
    if (!source->parts) return fpc_packed_check_metadata(head, source->data + offset, (size_t)size);
    if ((max_bytes && size > (uint64_t)max_bytes) || size > SIZE_MAX / 4) return FPC_TOO_LARGE;
    uint8_t *to = fpc_buffer_need(&source->row_bytes, (size_t)size + 1);
    if (!to) return FPC_NO_MEMORY;
    const int status = source->parts->read(source->parts->owner, offset, (size_t)size, to);
    return status ? status : fpc_packed_check_metadata(head, to, (size_t)size);
}

/* Checks that a file of `length` bytes has exactly the parts that the head lists, and that the segments agree with it;
 * then the file is open. */
static int check_parts(packed *source, uint64_t length, int64_t max_bytes, const fpc_frame **frame) {
    const fpc_packed_head *head = &source->head;
    uint64_t left = length - head->size;
    const uint64_t parts[] = {head->rows_size, head->segments_size, head->trailer_size, head->original_size};
    for (int i = 0; i < 4; i++) {
        if (parts[i] > left) return FPC_TRUNCATED;
        left -= parts[i];
    }
    if (left) return FPC_BAD_CODE;
    const int status = check_segments(source, max_bytes);
    if (status) return status;
    source->is_open = true;
    *frame = &head->frame;
    return FPC_OK;
}

static int open_file(void *decoder, const uint8_t *data, size_t length, const fpc_frame **frame) {
    packed *source = decoder;
    source->parts = NULL;
    source->data = data;
    source->begin = 0;
    source->length = length;
    source->is_open = false;
    source->next = -1;
    const int status = data ? fpc_packed_read_head(data, length, &source->head) : FPC_TRUNCATED;
    return status ? status : check_parts(source, length, 0, frame);
}

/* Most heads are shorter. */
#define FIRST 4096

static int open_parts(void *decoder, const fpc_parts *parts, int64_t max_bytes, const fpc_frame **frame) {
    packed *source = decoder;
    source->parts = parts;
    source->is_open = false;
    source->next = -1;
    size_t size = parts->length < FIRST ? (size_t)parts->length : FIRST;
    for (;;) {
        uint8_t *to = fpc_buffer_need(&source->head_bytes, size);
        if (!to) return FPC_NO_MEMORY;
        int status = parts->read(parts->owner, 0, size, to);
        if (!status) status = fpc_packed_read_head(to, size, &source->head);
        if (!status) return check_parts(source, parts->length, max_bytes, frame);
        /* A longer head is read again; its size is among the bytes read, and has been checked. */
        if (status != FPC_TRUNCATED || size < FPC_PACKED_FIXED) return status;
        const size_t wanted = fpc_packed_u32(to + FPC_PACKED_AT_SIZE);
        if (wanted <= size || wanted > parts->length) return FPC_TRUNCATED;
        if (max_bytes && wanted > (uint64_t)max_bytes) return FPC_TOO_LARGE;
        size = wanted;
    }
}

static uint32_t row_size(const fpc_packed_head *head, int row) {
    return fpc_packed_u32(head->index + FPC_PACKED_ENTRY * (size_t)row);
}

/* Reads the rows of the box. */
static int read_rows(packed *source, int64_t max_bytes, size_t *total) {
    uint64_t size = 0;
    for (int i = source->next; i < source->row_end; i++) size += row_size(&source->head, i);
    if ((max_bytes && size > (uint64_t)max_bytes) || size > SIZE_MAX / 4) return FPC_TOO_LARGE;
    uint8_t *to = fpc_buffer_need(&source->row_bytes, (size_t)size + FPC_PACKED_SLACK);
    if (!to) return FPC_NO_MEMORY;
    source->data = to;
    source->begin = source->offset;
    source->length = size + FPC_PACKED_SLACK;
    *total = (size_t)size;
    return source->parts->read(source->parts->owner, source->offset, (size_t)size, to);
}

static int start(void *decoder, int column, int column_end, int row, int row_end, int64_t max_bytes) {
    packed *source = decoder;
    fpc_frame *frame = &source->head.frame;
    if (!source->is_open) return FPC_BAD_OPERATION;
    if (column < 0 || row < 0 || column >= column_end || row >= row_end) return FPC_BAD_REGION;
    if (column_end > frame->mcu_columns || row_end > frame->mcu_rows) return FPC_BAD_REGION;
    source->column = column;
    source->column_end = column_end;
    source->next = row;
    source->row_end = row_end;
    source->offset = source->head.size;
    for (int i = 0; i < row; i++) source->offset += row_size(&source->head, i);
    size_t total = 0;
    const int status = source->parts ? read_rows(source, max_bytes, &total) : FPC_OK;
    if (status) return status;
    for (int i = 0; i < frame->header.components; i++) {
        fpc_plane *plane = &frame->planes[i];
        plane->first_block = column * plane->horizontal;
        plane->stride = (column_end - column) * plane->horizontal + 2;
        const size_t blocks = (size_t)plane->stride * (size_t)plane->vertical + 2;
        total += blocks * (64 * sizeof(int16_t) + 1);
        if (max_bytes && total > (uint64_t)max_bytes) return FPC_TOO_LARGE;
        if (!fpc_buffer_need(&source->coefficients[i], blocks * 64 * sizeof(int16_t))) return FPC_NO_MEMORY;
        if (!fpc_buffer_need(&source->last[i], blocks)) return FPC_NO_MEMORY;
        plane->coefficients = (const int16_t *)(const void *)source->coefficients[i].data;
        plane->last = source->last[i].data;
    }
    return FPC_OK;
}

/* ---- a row ---- */

/* Finds the next row's bytes, copied if no slack follows them, and its streams. */
static int find_streams(packed *source, fpc_packed_row *row) {
    const fpc_kernels *kernels = source->kernels;
    const size_t size = row_size(&source->head, source->next);
    const uint64_t at = source->offset - source->begin;
    if (at > source->length || size > source->length - at) return FPC_TRUNCATED;
    const uint8_t *data = source->data + at;
    const uint32_t sum = fpc_packed_u32(source->head.index + FPC_PACKED_ENTRY * (size_t)source->next + 4);
    if (kernels->crc32(0, data, size) != sum) return FPC_BAD_CHECKSUM;
    if (source->length - at - size < FPC_PACKED_SLACK) {
        uint8_t *copy = fpc_buffer_need(&source->copy, size + FPC_PACKED_SLACK);
        if (!copy) return FPC_NO_MEMORY;
        memcpy(copy, data, size);
        data = copy;
    }
    row->blocks = fpc_packed_row_blocks(&source->head.frame, source->next);
    return kernels->packed_layout(data, size, row);
}

/* The next DCs of a row of MCUs. */
typedef struct dc_cursor {
    const uint8_t *next, *wide;
} dc_cursor;

/* The DC after `dc`; it wraps around, as libjpeg's does in practice. */
static FPC_INLINE uint16_t next_dc(dc_cursor *cursor, uint16_t dc) {
    int difference = (int8_t)*cursor->next++;
    if (FPC_UNLIKELY(difference == FPC_PACKED_ESCAPE)) {
        difference = packed_u16(cursor->wide);
        cursor->wide += 2;
    }
    return (uint16_t)(dc + difference);
}

/* Decodes the DCs of `count` blocks side by side, and stores those from `first` to `end`, a block apart. *above is the
 * first DC in the row above; it is set to this row's. */
static void decode_dc(dc_cursor *shared, uint16_t *above, int first, int end, int count, int16_t *coefficients) {
    dc_cursor cursor = *shared;
    uint16_t dc = *above = next_dc(&cursor, *above);
    for (int i = 0;;) {
        if (i >= first && i < end) coefficients[64 * (size_t)(i - first)] = (int16_t)dc;
        if (++i == count) break;
        dc = next_dc(&cursor, dc);
    }
    *shared = cursor;
}

/* Decodes one row of a plane's blocks; skips the blocks before and after the box. */
static void decode_blocks(packed *source, fpc_packed_cursor *cursor, dc_cursor *dcs, uint16_t *above, int plane_index,
                          int row) {
    const fpc_kernels *kernels = source->kernels;
    const fpc_plane *plane = &source->head.frame.planes[plane_index];
    const int wide = plane->blocks_wide, first = plane->first_block;
    const int box_end = source->column_end * plane->horizontal, end = box_end < wide ? box_end : wide;
    const size_t at = (size_t)row * (size_t)plane->stride;
    int16_t *coefficients = (int16_t *)(void *)source->coefficients[plane_index].data + 64 * at;
    kernels->packed_skip(cursor, (size_t)first);
    kernels->packed_blocks(cursor, (size_t)(end - first), coefficients, source->last[plane_index].data + at);
    kernels->packed_skip(cursor, (size_t)(wide - end));
    decode_dc(dcs, above, first, end, wide, coefficients);
}

static int next_row(void *decoder) {
    packed *source = decoder;
    const fpc_frame *frame = &source->head.frame;
    if (!source->is_open || source->next >= source->row_end) return FPC_BAD_OPERATION;
    fpc_packed_row row;
    const int status = find_streams(source, &row);
    if (status) return status;
    if (!fpc_buffer_need(&source->smalls, row.smalls + 2 * FPC_PACKED_SLACK)) return FPC_NO_MEMORY;
    if (!fpc_buffer_need(&source->values, row.coefficients + 2 * FPC_PACKED_SLACK)) return FPC_NO_MEMORY;
    int8_t *values = (int8_t *)source->values.data;
    source->kernels->packed_values(&row, &source->tables, (int8_t *)source->smalls.data, values);
    const int8_t *end = values + row.coefficients;
    const int8_t *wide = row.wide ? memchr(values, FPC_PACKED_ESCAPE & 255, row.coefficients) : NULL;
    fpc_packed_cursor cursor = {&source->tables,   row.lengths,     0, row.masks, values, end,
                                wide ? wide : end, row.wide_values, 0};
    dc_cursor dcs = {row.dc, row.wide_dc_values};
    for (int i = 0; i < frame->header.components; i++) {
        const int rows = fpc_packed_block_rows(&frame->planes[i], source->next);
        uint16_t above = 0;
        for (int y = 0; y < rows; y++) decode_blocks(source, &cursor, &dcs, &above, i, y);
    }
    if (cursor.seen >> 63) return FPC_BAD_CODE; /* a coefficient after the last index */
    source->offset += row_size(&source->head, source->next++);
    return FPC_OK;
}

static int finish(void *decoder) { return ((packed *)decoder)->is_open ? FPC_OK : FPC_BAD_OPERATION; }

static int32_t row_of(const void *decoder) { return ((const packed *)decoder)->next; }

const fpc_coefficients fpc_packed_coefficients = {
    .create = create,
    .destroy = destroy,
    .bytes = bytes_of,
    .open = open_file,
    .open_parts = open_parts,
    .start = start,
    .next_row = next_row,
    .finish = finish,
    .row = row_of,
};
