/* packer.c: makes packers, prepares them for an image, and frees them. */
#include "packer.h"

#include <stdlib.h>

#include "process.h"

/* The memory that a packer keeps from image to image. */
#define KEPT_BYTES ((size_t)64 << 20)

fpc_packer *fpc_packer_new(int isa) {
    const fpc_kernels *kernels = fpc_kernels_of(isa);
    fpc_packer *packer = kernels ? calloc(1, sizeof *packer) : NULL;
    if (!packer) return NULL;
    packer->kernels = kernels;
    packer->process = fpc_process();
    fpc_row_writer_make(&packer->writer, kernels);
    return packer;
}

static void free_scratch(fpc_packer *packer) {
    if (packer->jpeg) fpc_jpeg_coefficients.destroy(packer->jpeg);
    if (packer->packed) fpc_packed_coefficients.destroy(packer->packed);
    free(packer->restorer);
    packer->jpeg = packer->packed = packer->restorer = NULL;
    fpc_bytes *const bytes[] = {&packer->segments, &packer->outline, &packer->dummies, &packer->tokens};
    for (int i = 0; i < 4; i++) fpc_bytes_free(bytes[i]);
    fpc_buffer_free(&packer->writer.memory);
    fpc_buffer_free(&packer->samples);
    fpc_buffer_free(&packer->dummy_blocks);
}

void fpc_packer_free(fpc_packer *packer) {
    /* In a child of fork: another thread may have been using it, so that it may be in any state. */
    if (!packer || packer->process != fpc_process()) return;
    free_scratch(packer);
    fpc_bytes_free(&packer->out);
    fpc_bytes_free(&packer->restored);
    free(packer);
}

void fpc_packer_begin(fpc_packer *packer) {
    fpc_bytes *const all[] = {&packer->segments, &packer->outline, &packer->dummies,
                              &packer->tokens,   &packer->out,     &packer->restored};
    size_t bytes = packer->writer.memory.size + packer->samples.size + packer->dummy_blocks.size;
    for (int i = 0; i < 4; i++) bytes += all[i]->room;
    if (packer->jpeg) bytes += fpc_jpeg_coefficients.bytes(packer->jpeg);
    if (packer->packed) bytes += fpc_packed_coefficients.bytes(packer->packed);
    if (bytes > KEPT_BYTES) free_scratch(packer);
    for (int i = 4; i < 6; i++)
        if (all[i]->room > KEPT_BYTES) fpc_bytes_free(all[i]);
    for (int i = 0; i < 6; i++) fpc_bytes_clear(all[i]);
}

void *fpc_packer_jpeg(fpc_packer *packer) {
    if (!packer->jpeg) packer->jpeg = fpc_jpeg_coefficients.create(packer->kernels);
    return packer->jpeg;
}

void *fpc_packer_packed(fpc_packer *packer) {
    if (!packer->packed) packer->packed = fpc_packed_coefficients.create(packer->kernels);
    return packer->packed;
}
