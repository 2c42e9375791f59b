/* packed_head.h: the head of packed images: a JPEG's coefficients in a form for vectors.
 * core/packed_format.md has the format. */
#ifndef FPC_PACKED_HEAD_H
#define FPC_PACKED_HEAD_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "jpeg.h"
#include "kernels.h"
#include "memory.h"

extern const uint8_t fpc_packed_signature[8];
#define FPC_PACKED_VERSION 1
/* The head: a fixed part, the quantization tables, two numbers per row, and its checksum. */
#define FPC_PACKED_FIXED 72
#define FPC_PACKED_TABLE 128
#define FPC_PACKED_ENTRY 8
#define FPC_PACKED_SUM 4
/* Offsets in the fixed part. */
enum {
    FPC_PACKED_AT_VERSION = 8,
    FPC_PACKED_AT_COMPONENTS = 10,
    FPC_PACKED_AT_COLOR = 11,
    FPC_PACKED_AT_HEIGHT = 12,
    FPC_PACKED_AT_WIDTH = 16,
    FPC_PACKED_AT_ORIENTATION = 20,
    FPC_PACKED_AT_PROCESS = 21,
    FPC_PACKED_AT_TABLES = 22,
    FPC_PACKED_AT_RESERVED = 23,
    FPC_PACKED_AT_PLANES = 24, /* per plane: its identifier in the JPEG, its factors, and the number of its table */
    FPC_PACKED_AT_SIZE = 36,   /* of the head, in bytes */
    FPC_PACKED_AT_ROWS = 40,   /* of all rows, in bytes */
    FPC_PACKED_AT_SEGMENTS = 48,
    FPC_PACKED_AT_TRAILER = 56,
    FPC_PACKED_AT_REST_SUM = 64, /* the checksum of everything after the rows */
    FPC_PACKED_AT_ORIGINAL = 68  /* bytes of the section for the JPEG's own bytes; 0 if there is none */
};

/* The head, as read. */
typedef struct fpc_packed_head {
    fpc_frame frame; /* with its quantization tables */
    uint8_t ids[3];
    int process;          /* the JPEG's frame marker: FPC_SOF0 to FPC_SOF2 */
    size_t size;          /* of the head */
    const uint8_t *index; /* each row's length and checksum, 4 bytes each; points into the data */
    uint64_t rows_size, segments_size, trailer_size, original_size;
    uint32_t rest_sum;
} fpc_packed_head;

static inline uint32_t fpc_packed_u32(const uint8_t *data) {
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static inline uint64_t fpc_packed_u64(const uint8_t *data) {
    return fpc_packed_u32(data) | (uint64_t)fpc_packed_u32(data + 4) << 32;
}

/* Reads the head from a file's first bytes: FPC_OK, FPC_TRUNCATED if more are needed, or why it is invalid. */
int fpc_packed_read_head(const uint8_t *data, size_t length, fpc_packed_head *head);

/* Checks that the segments give the colors and orientation that the head gives; returns an fpc_status. */
int fpc_packed_check_metadata(const fpc_packed_head *head, const uint8_t *data, size_t length);

/* fpc_codec's functions with these names. */
bool fpc_is_packed(const uint8_t *data, size_t length);
int fpc_packed_read_header(const uint8_t *data, size_t length, fpc_header *header);

/* The number of blocks in a row of MCUs. */
size_t fpc_packed_row_blocks(const fpc_frame *frame, int row);
/* The number of a plane's rows of blocks in a row of MCUs. */
int fpc_packed_block_rows(const fpc_plane *plane, int row);

#endif
