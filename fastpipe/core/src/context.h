/* context.h: the scratch memory of one thread. */
#ifndef FPC_CONTEXT_H
#define FPC_CONTEXT_H

#include "codecs.h"
#include "stage.h"

struct fpc_context {
    const fpc_kernels *kernels;
    long process;                     /* number of the process that made it */
    void *decoders[FPC_FORMAT_COUNT]; /* each made when the first file of its format comes */
    fpc_buffer file;                  /* a file's bytes */
    fpc_chain chain;
    fpc_buffer row; /* one row of the sink */
    fpc_normalizer normalizer;
};

/* Frees a context that no thread has been using, in any process. */
void fpc_context_destroy(fpc_context *context);

/* The decoder for a format; NULL if there is no memory. */
void *fpc_context_decoder(fpc_context *context, fpc_format format);

/* Frees memory if the last job took very much. */
void fpc_context_trim(fpc_context *context);

#endif
