/* stage.h: a job is a chain of stages. Each gives the rows of an image, from the top, one at a time, and asks the stage
 * before it for the rows that it needs: what can go row by row needs no image in memory. */
#ifndef FPC_STAGE_H
#define FPC_STAGE_H

#include "filters.h"
#include "jpeg.h"
#include "kernels.h"
#include "png.h"

/* What is done to a job's pixels, at most; more are refused. */
#define FPC_MOST_STAGES 32

typedef struct fpc_stage fpc_stage;
struct fpc_stage {
    int32_t height, width, channels; /* of the image that it gives */
    int32_t given;                   /* rows that were given already */
    /* The next row into `row`: width * channels bytes, and up to FPC_ROW_SLACK behind them may be written, too. */
    int (*next)(fpc_stage *stage, uint8_t *row);
    fpc_stage *from; /* the stage before this one */
    const fpc_operation *operation;
    const fpc_kernels *kernels;
    fpc_buffer rows; /* rows on their way */

    fpc_jpeg_rows *jpeg;  /* fpc_stage_jpeg */
    fpc_png *png;         /* fpc_stage_png */
    fpc_pixels pixels;    /* fpc_stage_pixels: what is left of the image */
    const uint8_t *image; /* stages that need all rows before the first: those, one behind the other */
    const uint8_t *last;  /* the last of them, with slack behind it; NULL where that is the image's own */

    const uint8_t *table;         /* 256 bytes for each channel */
    uint8_t tables[3 * 256];      /* those that are worked out here */
    bool one_table;               /* they are the same for all channels */
    bool plain_table;             /* they change nothing */
    float factor;                 /* of a blend */
    fpc_warp warp;                /* warp.c */
    int32_t warp_first, warp_end; /* columns that show something of the image, in each row */

    /* fpc_stage_resize */
    bool mirrored_inputs, mirrored_outputs; /* flipped from left to right before, after */
    fpc_axis horizontal, vertical;
    bool vertical_first, need_horizontal, need_vertical;
    int32_t column;                /* the first column that is read */
    int32_t ring_rows;             /* a power of two */
    int32_t taken;                 /* rows that were taken from the stage before */
    int64_t row_bytes, ring_bytes; /* from one row to the next, slack included */
    uint8_t *pair[2], *ring;       /* two rows before the pass along the rows; rows before the pass down the columns */
    uint8_t *kept;                 /* rows are made in twos: the second one */
    const uint8_t **taps;          /* the rows of one output */
    fpc_picks picks;               /* of FPC_NEAREST, in the taps' place */
};

/* Bytes of a row on its way: a multiple of 64, with slack. */
int64_t fpc_row_bytes(int32_t width, int32_t channels);

/* The next row of the stage before, checked: FPC_BAD_REGION behind the last one. */
int fpc_pull_row(fpc_stage *stage, uint8_t *row);

/* The same, where the stage has such a row in memory already: `*row` is that, or `room`. Up to FPC_ROW_SLACK bytes behind
 * it may be read. */
int fpc_borrow_row(fpc_stage *stage, uint8_t *room, const uint8_t **row);

/* All of a stage's rows, one behind the other, where they are in memory already, without slack; else NULL. */
const uint8_t *fpc_stage_whole(fpc_stage *stage);

/* ---- sources: height, width and channels are the caller's to check ---- */
void fpc_stage_pixels(fpc_stage *stage, const fpc_pixels *pixels);
void fpc_stage_jpeg(fpc_stage *stage, fpc_jpeg_rows *rows, int32_t height, int32_t width);
void fpc_stage_png(fpc_stage *stage, fpc_png *png, int32_t height, int32_t width, int32_t channels);

/* ---- resample.c: FPC_OP_RESIZE, in three steps ---- */

/* Tables for an input of this size, whose pixels are flipped before (mirrored_inputs) and whose output is flipped
 * (mirrored_outputs) from left to right. */
int fpc_resize_prepare(fpc_stage *stage, const fpc_operation *operation, int32_t height, int32_t width,
                       int32_t channels, bool mirrored_inputs, bool mirrored_outputs, int64_t max_bytes);
/* Of the input's rows and columns those that are read; the stage then expects an input of them alone. */
void fpc_resize_narrow(fpc_stage *stage, int32_t *top, int32_t *left, int32_t *height, int32_t *width);
/* Reads from `from` from now on. */
int fpc_resize_start(fpc_stage *stage, fpc_stage *from, int64_t max_bytes);

/* ---- operations.c: the others ---- */

/* Room for images of stages that need one, in turn: at no time more than two are read. */
typedef struct fpc_images {
    fpc_buffer buffers[2];
    int32_t turn;
    int64_t max_bytes;
} fpc_images;

/* All rows of the stage before into one of the two images, one behind the other, with FPC_ROW_SLACK behind the last. */
int fpc_materialize_image(fpc_stage *stage, fpc_images *images);
/* The same for what reads row by row: without a copy where the rows are in memory already. */
int fpc_borrow_image(fpc_stage *stage, fpc_images *images);
/* Row y of such an image, with FPC_ROW_SLACK behind it that may be read. */
const uint8_t *fpc_image_row(const fpc_stage *stage, int32_t y);
/* Room for `count` rows of the input; NULL where there is no memory. */
uint8_t *fpc_need_rows(fpc_stage *stage, int32_t count);
/* From now on each channel's values are looked up in `table`, of the image that was taken, or of the stage before. */
int fpc_stage_table(fpc_stage *stage, const uint8_t *table);
/* adjust.c: FPC_OP_SATURATION to FPC_OP_EQUALIZE. */
int fpc_stage_adjust(fpc_stage *stage, fpc_images *images);
/* warp.c: FPC_OP_AFFINE and FPC_OP_PERSPECTIVE. */
int fpc_stage_warp(fpc_stage *stage, fpc_images *images);

/* Any operation but FPC_OP_RESIZE, on what `from` gives. */
int fpc_stage_operation(fpc_stage *stage, fpc_stage *from, const fpc_operation *operation, fpc_images *images);

#endif
