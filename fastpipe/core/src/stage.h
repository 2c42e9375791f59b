/* stage.h: a job is a chain of stages. Each stage gives the rows of an image one at a time, from the top, and asks the
 * stage before it for the rows that it needs. Operations that can go row by row keep no image in memory. Every kind of
 * stage has its own struct, which begins with an fpc_stage and is private to one file. */
#ifndef FPC_STAGE_H
#define FPC_STAGE_H

#include "resample_coeffs.h"
#include "kernels.h"
#include "memory.h"

/* The most stages of a job, with its source; jobs with more are refused. */
#define FPC_MOST_STAGES 32

typedef struct fpc_stage fpc_stage;

/* Writes the next row, width * channels bytes, to `row`; may also write up to FPC_ROW_SLACK bytes after it. Returns an
 * fpc_status. */
typedef int fpc_next_row(fpc_stage *stage, uint8_t *row);

/* The scratch memory of one place in the chain, kept from job to job. */
typedef struct fpc_slot {
    fpc_buffer state;              /* the stage's struct */
    fpc_buffer rows;               /* rows that the stage works on */
    fpc_axis horizontal, vertical; /* a resize's tables, kept for images of the same size */
} fpc_slot;

/* The fields that all kinds of stages have. */
struct fpc_stage {
    int32_t height, width, channels; /* of the image that the stage gives */
    int32_t given;                   /* the number of rows given so far */
    bool gives_floats;               /* its rows are float32, channel after channel; only the sink reads them */
    fpc_next_row *next;
    fpc_stage *from; /* the stage before this one; NULL for a source */
    fpc_slot *slot;
    const fpc_kernels *kernels;
    /* All rows, `stride` bytes apart, if they are in memory from the start; else NULL. */
    const uint8_t *memory;
    int64_t stride;
};

typedef struct fpc_chain {
    const fpc_kernels *kernels;
    int64_t max_bytes; /* the most scratch memory for the job; 0 for no limit */
    int32_t count;     /* stages so far */
    fpc_stage *last;   /* the last stage; NULL if there is none */
    fpc_slot slots[FPC_MOST_STAGES];
    fpc_buffer images[2]; /* images for stages that need one, used in turn: at most two are read at a time */
    int32_t turn;
    fpc_normalizer to_floats; /* of FPC_OP_FLOAT_RESIZE */
} fpc_chain;

/* ---- chains ---- */

/* Begins a job's chain, with no stages. */
void fpc_chain_start(fpc_chain *chain, int64_t max_bytes);
/* Adds a stage that reads from the last one and starts with its size, which the caller may change. Its struct has
 * `size` bytes, zero after the fpc_stage. NULL if there is no memory, or the chain is full. */
void *fpc_chain_add(fpc_chain *chain, size_t size, fpc_next_row *next);
/* Frees the scratch memory. */
void fpc_chain_free(fpc_chain *chain);
/* Bytes of scratch memory that the chain holds. */
size_t fpc_chain_bytes(const fpc_chain *chain);

/* ---- rows ---- */

/* The distance of rows in scratch memory in bytes: a multiple of 64 that includes the slack. */
int64_t fpc_row_bytes(int32_t width, int32_t channels);
/* Room for `count` rows of the stage before this one; NULL if there is no memory. */
uint8_t *fpc_need_rows(fpc_stage *stage, int32_t count);

/* Asks a stage for its next row; FPC_BAD_REGION after the last one. */
int fpc_pull_row(fpc_stage *stage, uint8_t *row);
/* Asks for the next row, without a copy if the stage has its rows in memory: *row points there, or to `room`, which
 * then holds the row. Up to FPC_ROW_SLACK bytes after the row may be read. */
int fpc_borrow_row(fpc_stage *stage, uint8_t *room, const uint8_t **row);

/* ---- whole images ---- */

/* A whole image that a stage gave, row after row. */
typedef struct fpc_image {
    const uint8_t *rows;
    const uint8_t *last_row; /* a copy of the last row, with slack; NULL if `rows` has slack after its last row */
    int64_t stride;
    int32_t height;
} fpc_image;

/* Gives `bytes` bytes, valid until two more images have been taken. */
int fpc_take_image(fpc_chain *chain, int64_t bytes, uint8_t **data);
/* Copies all rows of the stage before `stage`, with FPC_ROW_SLACK bytes after the last. */
int fpc_materialize_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image);
/* As fpc_materialize_image, for readers that go row by row; doesn't copy rows that are already in memory. */
int fpc_borrow_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image);
/* Row y; FPC_ROW_SLACK bytes after it may be read. */
static inline const uint8_t *fpc_image_row(const fpc_image *image, int32_t y) {
    return image->last_row && y == image->height - 1 ? image->last_row : image->rows + y * image->stride;
}

#endif
