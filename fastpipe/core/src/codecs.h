/* codecs.h: the compressed formats as jobs see them, one fpc_codec each. A new one is an fpc_format, its files, and a
 * row in codecs.c. */
#ifndef FPC_CODECS_H
#define FPC_CODECS_H

#include <stdbool.h>

#include "jpeg.h"
#include "kernels.h"

/* A format: how its files are recognized, and a decoder, which a context makes once for all of its files. Statuses are
 * fpc_status. The order of the calls for a file is open, start, next for each row that is wanted, finish. */
typedef struct fpc_codec {
    /* Whether the first bytes are such a file's. */
    bool (*recognize)(const uint8_t *data, size_t length);
    /* fpc_read_header for such a file. */
    int (*read_header)(const uint8_t *data, size_t length, fpc_header *header);
    void *(*create)(const fpc_kernels *kernels); /* NULL where there is no memory */
    void (*destroy)(void *decoder);
    size_t (*bytes)(const void *decoder); /* of memory */
    /* Opens a file, and checks what needs no pixels. The data must stay until the last call; `indices` as in fpc_job;
     * *header points into the decoder. */
    int (*open)(void *decoder, const uint8_t *data, size_t length, bool indices, int64_t max_bytes,
                const fpc_header **header);
    /* Opens a file that is read by parts, which must stay until `start` returns; NULL where the format can't be. */
    int (*open_parts)(void *decoder, const fpc_parts *parts, int64_t max_bytes, const fpc_header **header);
    /* Prepares the rows of a box. */
    int (*start)(void *decoder, const fpc_box *box, int64_t max_bytes);
    /* Gives the box's next row: 3 bytes a pixel, with `indices` 1; up to FPC_ROW_SLACK bytes more may be written. */
    int (*next)(void *decoder, uint8_t *row);
    /* Checks the rest of the file, wherever the rows ended: whether Pillow would read it. */
    int (*finish)(void *decoder);
    /* The row of MCUs that was read last, for fpc_job.row; NULL where the format has no such number. */
    int32_t (*row)(const void *decoder);
    /* Whether libjpeg may warn about the file: to be asked after `finish`; NULL where it never does. */
    bool (*warned)(const void *decoder);
} fpc_codec;

extern const fpc_codec fpc_jpeg_codec;   /* jpeg_rows.c */
extern const fpc_codec fpc_png_codec;    /* png.c */
extern const fpc_codec fpc_packed_codec; /* jpeg_rows.c */

enum { FPC_FORMAT_COUNT = FPC_FORMAT_PACKED + 1 };

/* Whether a box, which has to have pixels, lies inside of an image of that header. */
static inline bool fpc_box_within(const fpc_box *box, const fpc_header *header) {
    if (box->top < 0 || box->left < 0 || box->height < 1 || box->width < 1) return false;
    if (box->height > header->height || box->width > header->width) return false;
    return box->top <= header->height - box->height && box->left <= header->width - box->width;
}

/* The format of a file by its first bytes. FPC_FORMAT_JPEG for an unknown one: its reader says so. */
fpc_format fpc_format_of(const uint8_t *data, size_t length);

const fpc_codec *fpc_codec_of(fpc_format format);

#endif
