/* packer.h: the scratch memory with which packed images are written and undone. */
#ifndef FPC_PACKER_H
#define FPC_PACKER_H

#include <stdbool.h>

#include "bytes.h"
#include "jpeg.h"
#include "kernels.h"
#include "memory.h"

/* A row's streams as they are written. (pack_row.c) */
typedef struct fpc_row_writer {
    const fpc_kernels *kernels;
    fpc_buffer memory;
    size_t blocks, coefficients;
    uint8_t *lengths, *dc, *masks, *kinds, *signs, *small, *wide_dc; /* where the next goes */
    fpc_packed_writer values;
    uint8_t *starts[9];
    uint8_t *smalls; /* a byte each, before they are put together */
} fpc_row_writer;

void fpc_row_writer_make(fpc_row_writer *writer, const fpc_kernels *kernels);
/* Begins a row of `blocks` blocks; false where there is no memory. */
bool fpc_row_start(fpc_row_writer *writer, size_t blocks);
/* Adds the next block, whose coefficients after zigzag index `last` are 0; *dc is the DC of the block before, and
 * becomes this block's. */
void fpc_row_add(fpc_row_writer *writer, const int16_t *block, int last, int16_t *dc);
/* Adds the row's bytes to others; returns how many. */
size_t fpc_row_finish(fpc_row_writer *writer, fpc_bytes *to);

struct fpc_packer {
    const fpc_kernels *kernels;
    void *jpeg, *packed; /* sources of coefficients, each made when it is first needed */
    void *restorer;      /* restore.c's, likewise */
    fpc_bytes out, segments, outline, dummies, tokens, restored;
    fpc_row_writer writer;
    fpc_buffer samples, dummy_blocks; /* of a row of blocks, and of MCUs */
};

/* Begins with an image: nothing of the last one is needed, and of a very large one the memory isn't kept. */
void fpc_packer_begin(fpc_packer *packer);
/* The packer's source of JPEGs' or packed images' coefficients; NULL where there is no memory. */
void *fpc_packer_jpeg(fpc_packer *packer);
void *fpc_packer_packed(fpc_packer *packer);

#endif
