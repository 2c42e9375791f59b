/* jpeg.h: the coefficients of a JPEG, or of an image packed from one. Entropy decoding (jpeg_coefficients.c, markers.c,
 * huffman.c, sequential.c, scans.c, progressive.c) or packed.c fills planes with one MCU row after the other;
 * jpeg_rows.c turns them into rows of RGB. */
#ifndef FPC_JPEG_H
#define FPC_JPEG_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "memory.h"

/* One component's coefficients in the MCU row decoded last; only the blocks of the box. */
typedef struct fpc_plane {
    int horizontal, vertical;     /* sampling factors; both 1 if there is only one component */
    int blocks_wide, blocks_high; /* of the whole component, without the blocks that fill up the last MCUs */
    int width, height;            /* samples of the whole component: ceil(image * factor / largest factor) */
    int first_block;              /* the block column at which the rows of `coefficients` start */
    int stride;                   /* blocks per row of `coefficients`; at least one more than requested */
    const int16_t *coefficients;  /* `vertical` rows of `stride` blocks of 64, natural order, not dequantized */
    const uint8_t *last;       /* a zigzag index per block after which all are 0: may be too large, never too small */
    uint16_t quantization[64]; /* natural order */
} fpc_plane;

typedef struct fpc_jpeg fpc_jpeg; /* defined in entropy.h, only for the entropy decoder's files */

/* What jpeg_rows.c needs to know of the image; set by fpc_jpeg_open and fpc_jpeg_start. */
typedef struct fpc_frame {
    fpc_header header;
    int largest_horizontal, largest_vertical; /* sampling factors */
    int mcu_columns, mcu_rows;
    fpc_plane planes[3];
} fpc_frame;

/* Computes the sizes that follow from the header's size and the sampling factors of header.components planes. FPC_OK,
 * or FPC_UNSUPPORTED_COLOR for unsupported factors. (frame.c) */
int fpc_frame_layout(fpc_frame *frame);

struct fpc_kernels;

/* A file that is read in parts on demand; `read` returns an fpc_status. */
typedef struct fpc_parts {
    int (*read)(void *owner, uint64_t offset, size_t size, uint8_t *to);
    void *owner;
    uint64_t length; /* of the file */
} fpc_parts;

/* A source of coefficients for jpeg_rows.c: the functions below, or packed.c's. */
typedef struct fpc_coefficients {
    void *(*create)(const struct fpc_kernels *kernels);
    void (*destroy)(void *source);
    size_t (*bytes)(const void *source);
    /* Opens a file; the frame belongs to the source. */
    int (*open)(void *source, const uint8_t *data, size_t length, const fpc_frame **frame);
    /* Opens a file that is read in parts; `parts` must stay valid until `start` returns. NULL if the source can't. */
    int (*open_parts)(void *source, const fpc_parts *parts, int64_t max_bytes, const fpc_frame **frame);
    int (*start)(void *source, int column, int column_end, int row, int row_end, int64_t max_bytes);
    int (*next_row)(void *source);
    int (*finish)(void *source);
    int32_t (*row)(const void *source); /* the next row of MCUs; NULL if it isn't needed */
    bool (*warned)(const void *source); /* as in fpc_job; NULL if it is always false */
} fpc_coefficients;

extern const fpc_coefficients fpc_jpeg_coefficients;   /* jpeg_coefficients.c */
extern const fpc_coefficients fpc_packed_coefficients; /* packed.c */

/* fpc_read_header of a JPEG. (markers.c) */
int fpc_jpeg_read_header(const uint8_t *data, size_t length, fpc_header *header);

fpc_jpeg *fpc_jpeg_new(const struct fpc_kernels *kernels);
void fpc_jpeg_free(fpc_jpeg *jpeg);
size_t fpc_jpeg_bytes(const fpc_jpeg *jpeg);

/* Walks the segments up to the first scan; an fpc_status. The data must stay valid until the last call for this
 * image. */
int fpc_jpeg_open(fpc_jpeg *jpeg, const uint8_t *data, size_t length);
const fpc_frame *fpc_jpeg_frame(const fpc_jpeg *jpeg);

/* Prepares the MCUs of columns [column, column_end) and rows [row, row_end). max_bytes limits scratch memory (0: no
 * limit). Of a progressive file, all scans are decoded here. */
int fpc_jpeg_start(fpc_jpeg *jpeg, int column, int column_end, int row, int row_end, int64_t max_bytes);

/* Decodes the next MCU row of the box into the frame's planes. */
int fpc_jpeg_next_row(fpc_jpeg *jpeg);

/* Checks that Pillow would accept the rest of the file; to be called after the last row. FPC_OK, or a refusal. */
int fpc_jpeg_finish(fpc_jpeg *jpeg);

#endif
