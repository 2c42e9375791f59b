/* packer.h: the scratch memory for packing and unpacking images. */
#ifndef FPC_PACKER_H
#define FPC_PACKER_H

#include <stdbool.h>

#include "bytes.h"
#include "jpeg.h"
#include "kernels.h"
#include "memory.h"

/* The streams of a row while it is written. (pack_row.c) */
typedef struct fpc_row_writer {
    const fpc_kernels *kernels;
    fpc_buffer memory;
    size_t blocks, coefficients;
    uint8_t *lengths, *dc, *masks, *kinds, *signs, *small, *wide_dc; /* where the next value is written */
    fpc_packed_writer values;
    uint8_t *starts[9];
    uint8_t *smalls; /* a byte each, before they are packed */
} fpc_row_writer;

void fpc_row_writer_make(fpc_row_writer *writer, const fpc_kernels *kernels);
/* Begins a row of `blocks` blocks; false if there is no memory. */
bool fpc_row_start(fpc_row_writer *writer, size_t blocks);
/* Adds the next block; its coefficients after zigzag index `last` are 0. *dc, the DC of the block before, becomes its
 * own. */
void fpc_row_add(fpc_row_writer *writer, const int16_t *block, int last, int16_t *dc);
/* Appends the row's bytes to `to`; returns their number. */
size_t fpc_row_finish(fpc_row_writer *writer, fpc_bytes *to);

struct fpc_packer {
    const fpc_kernels *kernels;
    long process;        /* number of the process that made it */
    void *jpeg, *packed; /* sources of coefficients, each made when first needed */
    void *restorer;      /* restore.c's, made when first needed */
    fpc_bytes out, segments, outline, dummies, tokens, restored;
    fpc_row_writer writer;
    fpc_buffer samples, dummy_blocks; /* of a row of blocks; of a row of MCUs */
};

/* Prepares for an image: discards the last one, and frees the memory of a very large one. */
void fpc_packer_begin(fpc_packer *packer);
/* The packer's source of coefficients of JPEGs, or of packed images; NULL if there is no memory. */
void *fpc_packer_jpeg(fpc_packer *packer);
void *fpc_packer_packed(fpc_packer *packer);

#endif
