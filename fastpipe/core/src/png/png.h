/* png.h: what the parts of the PNG decoder hand to each other. */
#ifndef FPC_PNG_H
#define FPC_PNG_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "kernels.h"
#include "memory.h"

/* IHDR's kinds of pixels. */
enum { FPC_PNG_GRAY = 0, FPC_PNG_RGB = 2, FPC_PNG_PALETTE = 3, FPC_PNG_GRAY_ALPHA = 4, FPC_PNG_RGBA = 6 };

/* A chunk: four bytes of length and four of name, its data, and its checksum. */
typedef struct fpc_chunk {
    uint32_t name;
    const uint8_t *data;
    uint32_t size;
} fpc_chunk;

#define FPC_CHUNK_BYTES 12
#define FPC_PNG_SIGNATURE_BYTES 8
#define FPC_NAME(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* ---- chunks (png_chunks.c) ---- */

/* Whether the first bytes are a PNG's. */
bool fpc_is_png(const uint8_t *data, size_t length);

/* The header, from the chunks before the first IDAT; `kind` is IHDR's. Checksums aren't looked at. */
int fpc_png_read_header(const uint8_t *data, size_t length, fpc_header *header, int *kind);

/* The parts of a file that its pixels are made of. */
typedef struct fpc_png_parts {
    const uint8_t *palette; /* NULL where there is none */
    uint32_t colors;        /* entries that it has */
    const uint8_t *stream;  /* the IDAT chunks' data, with FPC_INFLATE_IN_SLACK readable bytes after it */
    size_t stream_length;
    size_t inflated; /* bytes of texts and profiles */
} fpc_png_parts;

typedef struct fpc_png fpc_png;

/* Reads all chunks up to IEND: whether they are ones that change no pixel in Pillow, with their right checksums.
 * Several IDAT chunks are joined in memory of the decoder's. */
int fpc_png_read_chunks(fpc_png *png, const uint8_t *data, size_t length, int64_t max_bytes);

/* ---- pixels (png.c) ---- */

struct fpc_png {
    const fpc_kernels *kernels;
    fpc_header header;
    int kind;
    fpc_png_parts parts;
    fpc_inflate inflate;
    fpc_buffer joined, window, rows;

    bool indices;      /* samples as they are, in one channel, in place of RGB */
    bool whole;        /* the box goes down to the last row */
    int32_t y, bottom; /* the next row that is given, and the end */
    int32_t left, width;
    int32_t group; /* the first of the rows that were unfiltered last; their number is `ready` */
    int32_t ready;
    int step;                  /* bytes a pixel, at least 1 */
    int32_t pixels;            /* of `step` bytes that are unfiltered in a row */
    size_t row_bytes;          /* in the stream, the filter's included */
    size_t wanted;             /* bytes of the stream that aren't inflated yet */
    uint8_t *read, *out, *end; /* in the window: what is inflated and not read, and the room after it */
    uint32_t checksum;         /* Adler-32 of what was inflated, where all of it is wanted */
    uint8_t *lines[2 * FPC_FILTERED_ROWS];
    uint8_t *samples;    /* a row, a byte for each */
    int half;            /* which of the lines were made last */
    fpc_palette palette; /* or levels of gray */
};

#endif
