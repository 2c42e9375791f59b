/* context.c: makes, measures, trims and frees contexts. */
#include "context.h"

#include <stdlib.h>

#include "process.h"

/* The memory that a context keeps from job to job: enough for photos, not for posters. */
#define KEPT_BYTES ((size_t)64 << 20)

fpc_context *fpc_context_new(int isa) {
    const fpc_kernels *kernels = fpc_kernels_of(isa);
    if (!kernels) return NULL;
    fpc_context *context = calloc(1, sizeof *context);
    if (!context) return NULL;
    context->kernels = context->chain.kernels = kernels;
    context->process = fpc_process();
    return context;
}

void *fpc_context_decoder(fpc_context *context, fpc_format format) {
    void **decoder = &context->decoders[format];
    if (!*decoder) *decoder = fpc_codec_of(format)->create(context->kernels);
    return *decoder;
}

static void free_scratch(fpc_context *context) {
    for (int format = 0; format < FPC_FORMAT_COUNT; format++) {
        if (context->decoders[format]) fpc_codec_of((fpc_format)format)->destroy(context->decoders[format]);
        context->decoders[format] = NULL;
    }
    fpc_buffer_free(&context->file);
    fpc_buffer_free(&context->row);
    fpc_chain_free(&context->chain);
}

void fpc_context_destroy(fpc_context *context) {
    if (!context) return;
    free_scratch(context);
    free(context);
}

void fpc_context_free(fpc_context *context) {
    /* In a child of fork: another thread may have been using it, so that it may be in any state. */
    if (context && context->process == fpc_process()) fpc_context_destroy(context);
}

size_t fpc_context_bytes(const fpc_context *context) {
    if (!context) return 0;
    size_t bytes = sizeof *context + context->file.size + context->row.size + fpc_chain_bytes(&context->chain);
    for (int format = 0; format < FPC_FORMAT_COUNT; format++) {
        const void *decoder = context->decoders[format];
        if (decoder) bytes += fpc_codec_of((fpc_format)format)->bytes(decoder);
    }
    return bytes;
}

void fpc_context_trim(fpc_context *context) {
    if (fpc_context_bytes(context) > KEPT_BYTES) free_scratch(context);
}
