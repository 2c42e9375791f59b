/* codecs.h: the compressed formats as jobs see them, one fpc_codec each. A new format needs an fpc_format, its own
 * files, and a row in codecs.c. */
#ifndef FPC_CODECS_H
#define FPC_CODECS_H

#include <stdbool.h>

#include "jpeg.h"
#include "kernels.h"

/* A format: how its files are recognized, and a decoder, which a context makes once for all files. Functions that
 * return int return an fpc_status. The calls for a file are, in order: open, start, next for each wanted row,
 * finish. */
typedef struct fpc_codec {
    /* True if a file that begins with this data has the format. */
    bool (*recognize)(const uint8_t *data, size_t length);
    /* fpc_read_header for files of the format. */
    int (*read_header)(const uint8_t *data, size_t length, fpc_header *header);
    void *(*create)(const fpc_kernels *kernels); /* NULL if there is no memory */
    void (*destroy)(void *decoder);
    size_t (*bytes)(const void *decoder); /* of the decoder's memory */
    /* Opens a file, and checks what can be checked without pixels. The data must stay valid until the last call;
     * `indices` is as in fpc_job; *header points into the decoder. */
    int (*open)(void *decoder, const uint8_t *data, size_t length, bool indices, int64_t max_bytes,
                const fpc_header **header);
    /* Opens a file that is read in parts, which must stay valid until `start` returns. NULL if the format can't be. */
    int (*open_parts)(void *decoder, const fpc_parts *parts, int64_t max_bytes, const fpc_header **header);
    /* Prepares to give the rows of a box. */
    int (*start)(void *decoder, const fpc_box *box, int64_t max_bytes);
    /* Gives the box's next row: 3 bytes per pixel, 1 with `indices`; up to FPC_ROW_SLACK more bytes may be written. */
    int (*next)(void *decoder, uint8_t *row);
    /* Checks the rest of the file, wherever the rows ended, as Pillow would when it reads all of it. */
    int (*finish)(void *decoder);
    /* The row of MCUs that was read last, for fpc_job.row; NULL if the format has no such number. */
    int32_t (*row)(const void *decoder);
    /* True if libjpeg may warn about the file; to be called after `finish`. NULL if it never warns about the format. */
    bool (*warned)(const void *decoder);
} fpc_codec;

extern const fpc_codec fpc_jpeg_codec;   /* jpeg_rows.c */
extern const fpc_codec fpc_png_codec;    /* png.c */
extern const fpc_codec fpc_packed_codec; /* jpeg_rows.c */

enum { FPC_FORMAT_COUNT = FPC_FORMAT_PACKED + 1 };

/* True if a box has pixels and lies inside the header's image. */
static inline bool fpc_box_within(const fpc_box *box, const fpc_header *header) {
    if (box->top < 0 || box->left < 0 || box->height < 1 || box->width < 1) return false;
    if (box->height > header->height || box->width > header->width) return false;
    return box->top <= header->height - box->height && box->left <= header->width - box->width;
}

/* The format that a file's first bytes show. For an unknown one FPC_FORMAT_JPEG, whose reader reports the error. */
fpc_format fpc_format_of(const uint8_t *data, size_t length);

const fpc_codec *fpc_codec_of(fpc_format format);

#endif
