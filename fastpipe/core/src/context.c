/* context.c: contexts are made, measured, trimmed and freed. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

/* What a context keeps from one job to the next: enough for photos, not for posters. */
#define KEPT_BYTES ((size_t)64 << 20)

fpc_context *fpc_context_new(int isa) {
    const fpc_kernels *kernels = fpc_kernels_of(isa);
    if (!kernels) return NULL;
    fpc_context *context = calloc(1, sizeof *context);
    if (!context) return NULL;
    context->isa = isa == FPC_ISA_BEST ? fpc_best_isa() : isa;
    context->kernels = kernels;
    for (int i = 0; i < FPC_MOST_STAGES; i++) context->stages[i].kernels = kernels;
    return context;
}

int fpc_context_need_jpeg(fpc_context *context) {
    if (!context->jpeg) context->jpeg = fpc_jpeg_new(context->isa);
    if (!context->rows) context->rows = fpc_jpeg_rows_new(context->isa);
    return context->jpeg && context->rows ? FPC_OK : FPC_NO_MEMORY;
}

int fpc_context_need_png(fpc_context *context) {
    if (!context->png) context->png = fpc_png_new(context->kernels);
    return context->png ? FPC_OK : FPC_NO_MEMORY;
}

static void free_scratch(fpc_context *context) {
    if (context->jpeg) fpc_jpeg_free(context->jpeg);
    if (context->rows) fpc_jpeg_rows_free(context->rows);
    context->jpeg = NULL;
    context->rows = NULL;
    fpc_png_free(context->png);
    context->png = NULL;
    fpc_buffer_free(&context->file);
    fpc_buffer_free(&context->row);
    for (int i = 0; i < 2; i++) fpc_buffer_free(&context->images.buffers[i]);
    for (int i = 0; i < FPC_MOST_STAGES; i++) {
        fpc_buffer_free(&context->stages[i].rows);
        fpc_axis_free(&context->stages[i].horizontal);
        fpc_axis_free(&context->stages[i].vertical);
    }
}

void fpc_context_free(fpc_context *context) {
    if (!context) return;
    free_scratch(context);
    free(context);
}

size_t fpc_context_bytes(const fpc_context *context) {
    if (!context) return 0;
    size_t bytes = sizeof *context + context->file.size + context->row.size;
    if (context->jpeg) bytes += fpc_jpeg_bytes(context->jpeg);
    if (context->rows) bytes += fpc_jpeg_rows_bytes(context->rows);
    bytes += fpc_png_bytes(context->png);
    for (int i = 0; i < 2; i++) bytes += context->images.buffers[i].size;
    for (int i = 0; i < FPC_MOST_STAGES; i++) {
        const fpc_stage *stage = &context->stages[i];
        bytes += stage->rows.size + stage->horizontal.memory.size + stage->vertical.memory.size;
    }
    return bytes;
}

void fpc_context_trim(fpc_context *context) {
    if (fpc_context_bytes(context) > KEPT_BYTES) free_scratch(context);
}
