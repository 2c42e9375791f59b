/* fastpipe_draw.h: random crops and flips for batches, drawn as torch and torchvision draw them, and the jobs that they
 * lead to. No part of decoding: what draws in another way needs fastpipe_core.h alone. */
#ifndef FASTPIPE_DRAW_H
#define FASTPIPE_DRAW_H

#include "fastpipe_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range of floats for torch's uniform_. */
typedef struct fpc_range {
    double start, width; /* a number's fraction of the width, added to the start, has to be exact as a double */
    double end;          /* the start is taken in its place; NaN where it isn't */
} fpc_range;

/* The distribution of RandomResizedCrop and of the flips behind it. */
enum { FPC_MOST_CHANCES = 4 };
typedef struct fpc_crops {
    fpc_range scale, log_ratio;
    double chances[FPC_MOST_CHANCES]; /* of each flip: floats */
    int32_t chance_count;
    int32_t reserved;
} fpc_crops;

/* One image's crop and flips. */
typedef struct fpc_drawn {
    fpc_box box;
    int32_t flips; /* a bit for each, the first in the lowest */
} fpc_drawn;

/* Draws for images, one after the other, from the state of torch's CPU generator, and leaves it as torch would.
 * `shapes` has height, width and channels of each. Returns how many were drawn: it ends before one whose crop is only
 * known to who calls torch, and the state is at that. */
FPC_API size_t fpc_draw_crops(const fpc_crops *crops, uint8_t *state, const int32_t *shapes, size_t count,
                              fpc_drawn *drawn);

/* The same, each from a generator that is seeded for it; a box of height 0 where it is only known to who calls
 * torch. */
FPC_API void fpc_draw_seeded(const fpc_crops *crops, const uint64_t *seeds, const int32_t *shapes, size_t count,
                             fpc_drawn *drawn);

/* Makes the jobs that decode what was drawn of files that were read: each is the model of its flips, in which the file,
 * the box and where the sink begins are set: `step` bytes from one to the next. There is a model for all flips that
 * occur. */
FPC_API void fpc_fill_jobs(fpc_job *jobs, size_t count, const fpc_job *models, const fpc_file *files,
                           const fpc_drawn *drawn, uint8_t *out, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
