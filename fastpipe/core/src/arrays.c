/* arrays.c: reads windows of raw arrays in files straight to their destination. */
#include <stdbool.h>
#include <string.h>

#include "context.h"
#include "files.h"

/* Bytes of one read: whole rows, also beside the window; rows longer than this are read one at a time. */
#define AT_ONCE ((int64_t)256 << 10)
#define LARGEST (INT64_MAX / 8)

/* a * b; -1 if the product exceeds LARGEST, or a factor is negative. */
static int64_t product(int64_t a, int64_t b) {
    if (a < 0 || b < 0) return -1;
    return b != 0 && a > LARGEST / b ? -1 : a * b;
}

static bool within(int64_t start, int64_t size, int64_t whole) {
    return start >= 0 && size >= 0 && size <= whole - start;
}

static int check(const fpc_array *array) {
    if (!array->path || (array->header_size > 0 && !array->header)) return FPC_BAD_OPERATION;
    if (array->header_size < 0 || array->header_size > FPC_LONGEST_HEADER) return FPC_BAD_OPERATION;
    if (array->offset < 0 || array->length < 0 || array->offset > LARGEST || array->length > LARGEST) {
        return FPC_BAD_OPERATION;
    }
    if (product(product(array->planes, array->height), array->width) < 0) return FPC_TOO_LARGE;
    if (!within(array->top, array->rows, array->height)) return FPC_BAD_REGION;
    if (!within(array->left, array->columns, array->width)) return FPC_BAD_REGION;
    const int32_t item = array->item;
    if ((item != 1 && item != 2 && item != 4 && item != 8) || array->columns % item != 0) return FPC_BAD_OPERATION;
    if (array->rows > 0 && array->columns > 0 && array->planes > 0) {
        if (!array->out) return FPC_BAD_OPERATION;
        if ((uint64_t)product(product(array->planes, array->rows), array->columns) > SIZE_MAX) return FPC_TOO_LARGE;
    }
    return FPC_OK;
}

static int compare_header(fpc_context *context, const fpc_opened *file, fpc_array *array) {
    const size_t size = (size_t)array->header_size;
    if (size == 0) return FPC_OK;
    uint8_t *found = fpc_buffer_need(&context->file, size);
    if (!found) return FPC_NO_MEMORY;
    const int status = fpc_read_part(file, found, size, array->offset, &array->os_error);
    if (status != FPC_OK) return status;
    return memcmp(found, array->header, size) == 0 ? FPC_OK : FPC_UNUSUAL_HEADER;
}

/* Reads `rows` rows of the window; the first begins at position `at` in the file. */
static int read_rows(fpc_context *context, const fpc_opened *file, fpc_array *array, int64_t rows, int64_t at,
                     uint8_t *out) {
    const size_t columns = (size_t)array->columns;
    if (rows == 1 || array->columns == array->width) {
        return fpc_read_part(file, out, (size_t)rows * columns, at, &array->os_error);
    }
    const size_t size = (size_t)((rows - 1) * array->width) + columns;
    uint8_t *block = fpc_buffer_need(&context->file, size);
    if (!block) return FPC_NO_MEMORY;
    const int status = fpc_read_part(file, block, size, at, &array->os_error);
    if (status != FPC_OK) return status;
    for (int64_t row = 0; row < rows; row++) {
        memcpy(out + (size_t)row * columns, block + (size_t)(row * array->width), columns);
    }
    return FPC_OK;
}

static int read_window(fpc_context *context, const fpc_opened *file, fpc_array *array) {
    uint8_t *out = array->out;
    const int64_t start = array->offset + array->header_size;
    const int64_t plane_bytes = array->height * array->width;
    if (array->columns == array->width && array->rows == array->height) {
        return fpc_read_part(file, out, (size_t)(array->planes * plane_bytes), start, &array->os_error);
    }
    int64_t at_once = array->columns == array->width ? array->rows : AT_ONCE / array->width;
    if (at_once < 1) at_once = 1;
    for (int64_t plane = 0; plane < array->planes; plane++) {
        for (int64_t row = 0; row < array->rows;) {
            const int64_t left = array->rows - row, rows = left < at_once ? left : at_once;
            const int64_t at = start + plane * plane_bytes + (array->top + row) * array->width + array->left;
            const int status = read_rows(context, file, array, rows, at, out);
            if (status != FPC_OK) return status;
            out += (size_t)(rows * array->columns);
            row += rows;
        }
    }
    return FPC_OK;
}

/* Reverses each item's bytes. Items may be unaligned, so memcpy reads them; compilers turn it into a load. */
#define REVERSE(bits, swap)                                                                                            \
    for (size_t i = 0; i + sizeof(uint##bits##_t) <= size; i += sizeof(uint##bits##_t)) {                              \
        uint##bits##_t value;                                                                                          \
        memcpy(&value, data + i, sizeof value);                                                                        \
        value = swap(value);                                                                                           \
        memcpy(data + i, &value, sizeof value);                                                                        \
    }

static uint16_t swap16(uint16_t v) { return (uint16_t)(v >> 8 | v << 8); }

static uint32_t swap32(uint32_t v) { return v >> 24 | (v >> 8 & 0xff00u) | (v << 8 & 0xff0000u) | v << 24; }

static uint64_t swap64(uint64_t v) { return (uint64_t)swap32((uint32_t)v) << 32 | swap32((uint32_t)(v >> 32)); }

static void reverse_items(uint8_t *data, size_t size, int32_t item) {
    if (item == 2) {
        REVERSE(16, swap16)
    } else if (item == 4) {
        REVERSE(32, swap32)
    } else if (item == 8) {
        REVERSE(64, swap64)
    }
}

static int read_checked(fpc_context *context, fpc_array *array) {
    fpc_opened file;
    int status = fpc_open(array->path, &file, &array->os_error);
    if (status != FPC_OK) return status;
    int64_t there = file.there > array->offset ? file.there - array->offset : 0;
    if (array->length > 0 && array->length < there) there = array->length;
    const int64_t bytes = array->planes * array->height * array->width;
    status = compare_header(context, &file, array);
    if (status == FPC_OK && there - array->header_size < bytes) status = FPC_TRUNCATED;
    const bool wanted = array->rows > 0 && array->columns > 0 && array->planes > 0;
    if (status == FPC_OK && wanted) status = read_window(context, &file, array);
    fpc_close(&file);
    if (status == FPC_OK && wanted) {
        reverse_items(array->out, (size_t)(array->planes * array->rows * array->columns), array->item);
    }
    return status;
}

void fpc_read_array(fpc_context *context, fpc_array *array) {
    array->os_error = 0;
    array->reserved = 0;
    array->status = check(array);
    if (array->status == FPC_OK) array->status = read_checked(context, array);
}
