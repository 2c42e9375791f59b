/* stage.h: a job is a chain of stages. Each gives the rows of an image, from the top, one at a time, and asks the stage
 * before it for the rows that it needs: what can go row by row needs no image in memory. Every kind of stage has a
 * struct of its own, which begins with an fpc_stage and is known to its file alone. */
#ifndef FPC_STAGE_H
#define FPC_STAGE_H

#include "resample_coeffs.h"
#include "kernels.h"
#include "memory.h"

/* Stages of a job, its source among them; more are refused. */
#define FPC_MOST_STAGES 32

typedef struct fpc_stage fpc_stage;

/* Gives the next row: width * channels bytes; up to FPC_ROW_SLACK bytes after them may be written, too. An
 * fpc_status. */
typedef int fpc_next_row(fpc_stage *stage, uint8_t *row);

/* The scratch memory of one place in the chain, kept from job to job. */
typedef struct fpc_slot {
    fpc_buffer state;              /* the stage's struct */
    fpc_buffer rows;               /* rows on their way */
    fpc_axis horizontal, vertical; /* a resize's tables: images of one size share them */
} fpc_slot;

/* The part that all kinds of stages have. */
struct fpc_stage {
    int32_t height, width, channels; /* of the image that it gives */
    int32_t given;                   /* rows that were given already */
    fpc_next_row *next;
    fpc_stage *from; /* the stage before this one; NULL for a source */
    fpc_slot *slot;
    const fpc_kernels *kernels;
    /* All rows, `stride` bytes apart, where they lie in memory before they are asked for; else NULL. */
    const uint8_t *memory;
    int64_t stride;
};

typedef struct fpc_chain {
    const fpc_kernels *kernels;
    int64_t max_bytes; /* of scratch memory that the job may take; 0 for no limit */
    int32_t count;     /* stages of the job so far */
    fpc_stage *last;   /* of them; NULL where there is none */
    fpc_slot slots[FPC_MOST_STAGES];
    fpc_buffer images[2]; /* images of stages that need one, in turn: at no time more than two are read */
    int32_t turn;
} fpc_chain;

/* ---- chains ---- */

/* Begins a job's chain, without stages. */
void fpc_chain_start(fpc_chain *chain, int64_t max_bytes);
/* Adds a stage whose struct takes `size` bytes, with zeros after the fpc_stage: it reads from the last one and has
 * that one's size, which its kind may change. NULL where there is no memory, or the chain is full. */
void *fpc_chain_add(fpc_chain *chain, size_t size, fpc_next_row *next);
/* Frees the scratch memory. */
void fpc_chain_free(fpc_chain *chain);
/* Bytes of scratch memory. */
size_t fpc_chain_bytes(const fpc_chain *chain);

/* ---- rows ---- */

/* Bytes from row to row in scratch memory: a multiple of 64, with slack. */
int64_t fpc_row_bytes(int32_t width, int32_t channels);
/* Room for `count` rows of the stage before; NULL where there is no memory. */
uint8_t *fpc_need_rows(fpc_stage *stage, int32_t count);

/* Asks a stage for its next row: FPC_BAD_REGION after the last one. */
int fpc_pull_row(fpc_stage *stage, uint8_t *row);
/* Asks for the next row without a copy where the stage has its rows in memory: *row is there, or else `room`, filled.
 * Up to FPC_ROW_SLACK bytes after it may be read. */
int fpc_borrow_row(fpc_stage *stage, uint8_t *room, const uint8_t **row);

/* ---- whole images ---- */

/* All rows of a stage, one after the other. */
typedef struct fpc_image {
    const uint8_t *rows;
    const uint8_t *last_row; /* the last one once more, with slack after it; NULL where there is slack after `rows` */
    int64_t stride;
    int32_t height;
} fpc_image;

/* Room for `bytes`, until two more images have been taken. */
int fpc_take_image(fpc_chain *chain, int64_t bytes, uint8_t **data);
/* Copies all rows of the stage before, with FPC_ROW_SLACK bytes after the last. */
int fpc_materialize_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image);
/* As fpc_materialize_image, for readers that go row by row: without a copy where the rows are in memory already. */
int fpc_borrow_image(fpc_chain *chain, fpc_stage *stage, fpc_image *image);
/* Row y, with FPC_ROW_SLACK bytes after it that may be read. */
static inline const uint8_t *fpc_image_row(const fpc_image *image, int32_t y) {
    return image->last_row && y == image->height - 1 ? image->last_row : image->rows + y * image->stride;
}

#endif
