/* context.h: the scratch memory of one thread. */
#ifndef FPC_CONTEXT_H
#define FPC_CONTEXT_H

#include "png.h"
#include "stage.h"

struct fpc_context {
    int isa;
    const fpc_kernels *kernels;
    fpc_jpeg *jpeg; /* made for the first JPEG */
    fpc_jpeg_rows *rows;
    fpc_png *png;    /* made for the first PNG */
    bool is_png;     /* what the job's file is */
    fpc_buffer file; /* its bytes */
    fpc_stage stages[FPC_MOST_STAGES];
    fpc_images images;
    fpc_buffer row; /* of the sink */
    fpc_normalizer normalizer;
};

/* The decoders' parts; FPC_NO_MEMORY where they can't be made. */
int fpc_context_need_jpeg(fpc_context *context);
int fpc_context_need_png(fpc_context *context);

/* Gives memory back where the last job took very much. */
void fpc_context_trim(fpc_context *context);

#endif
