/* png.h: the data that the parts of the PNG decoder share. */
#ifndef FPC_PNG_H
#define FPC_PNG_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "kernels.h"
#include "memory.h"

/* The kinds of pixels in IHDR. */
enum { FPC_PNG_GRAY = 0, FPC_PNG_RGB = 2, FPC_PNG_PALETTE = 3, FPC_PNG_GRAY_ALPHA = 4, FPC_PNG_RGBA = 6 };

/* A chunk: four bytes of length, four of name, its data, and its checksum. */
typedef struct fpc_chunk {
    uint32_t name;
    const uint8_t *data;
    uint32_t size;
} fpc_chunk;

#define FPC_CHUNK_BYTES 12
#define FPC_PNG_SIGNATURE_BYTES 8
#define FPC_NAME(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* ---- chunks (png_chunks.c) ---- */

/* True if the data begins as a PNG. */
bool fpc_is_png(const uint8_t *data, size_t length);

/* Reads the header from the chunks before the first IDAT; `kind` is IHDR's. Checksums aren't checked. */
int fpc_png_read_header(const uint8_t *data, size_t length, fpc_header *header, int *kind);

/* The parts of a file that determine its pixels. */
typedef struct fpc_png_parts {
    const uint8_t *palette; /* NULL if there is none */
    uint32_t colors;        /* entries of the palette */
    const uint8_t *stream;  /* the IDAT chunks' data; FPC_INFLATE_IN_SLACK bytes after it may be read */
    size_t stream_length;
    size_t inflated; /* inflated bytes of texts and profiles */
} fpc_png_parts;

typedef struct fpc_png fpc_png;

/* Reads all chunks up to IEND, and checks that they are ones that change no pixel in Pillow, and their checksums.
 * Several IDAT chunks are joined in the decoder's memory. */
int fpc_png_read_chunks(fpc_png *png, const uint8_t *data, size_t length, int64_t max_bytes);

/* ---- pixels (png.c) ---- */

/* What the decoder gives: RGB; a palette's indices or gray levels, one byte each; samples of 16 bits. */
typedef enum fpc_png_form { FPC_PNG_AS_RGB, FPC_PNG_AS_INDICES, FPC_PNG_AS_UINT16 } fpc_png_form;

/* fpc_decode_uint16 with a PNG decoder. */
int fpc_png_decode_uint16(void *decoder, const uint8_t *data, size_t length, const fpc_box *box, int32_t channels,
                          int64_t max_bytes, uint8_t *out, int64_t row_stride);

struct fpc_png {
    const fpc_kernels *kernels;
    fpc_header header;
    int kind;
    fpc_png_parts parts;
    fpc_inflate inflate;
    fpc_buffer joined, window, rows;

    fpc_png_form form;
    bool whole;        /* the box includes the last row */
    int32_t y, bottom; /* the next row to give, and the end */
    int32_t left, width;
    int32_t group; /* the first of the rows unfiltered last; their number is `ready` */
    int32_t ready;
    int step;                  /* bytes per pixel, at least 1 */
    int32_t pixels;            /* units of `step` bytes per row that are unfiltered */
    size_t row_bytes;          /* in the stream, with the filter */
    size_t wanted;             /* bytes of the stream still to be inflated */
    uint8_t *read, *out, *end; /* in the window: inflated and unread bytes, and the room after them */
    uint32_t checksum;         /* Adler-32 of what was inflated, if the whole image is wanted */
    uint8_t *lines[2 * FPC_FILTERED_ROWS];
    uint8_t *samples;    /* a row, one byte per sample */
    int half;            /* the half of `lines` that was written last */
    fpc_palette palette; /* or gray levels */
};

#endif
