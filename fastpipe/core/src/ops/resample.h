/* resample.h: FPC_OP_RESIZE in two steps, so that the source can learn first what is read of it. */
#ifndef FPC_RESAMPLE_H
#define FPC_RESAMPLE_H

#include "stage.h"

/* A resize whose tables have been made. */
typedef struct fpc_resize {
    fpc_axis *horizontal, *vertical;     /* in a slot */
    int32_t height, width, channels;     /* of the output */
    bool nearest;                        /* FPC_NEAREST, which has only one pass */
    bool vertical_first;                 /* if both passes are needed */
    bool need_horizontal, need_vertical; /* passes that change the image */
    int32_t column;                      /* the first column that is read */
} fpc_resize;

/* Left-to-right flips directly before and after a resize, which it makes at no cost. */
typedef struct fpc_resize_flips {
    bool inputs, outputs;
} fpc_resize_flips;

/* Makes the tables in the slot, for an input of this size. */
int fpc_resize_prepare(fpc_resize *resize, fpc_chain *chain, fpc_slot *slot, const fpc_op_resize *operation,
                       fpc_resize_flips flips, int32_t height, int32_t width, int32_t channels);

/* Shrinks the input's box to the rows and columns that are read. The resize then expects an input of only these. */
void fpc_resize_narrow(fpc_resize *resize, fpc_box *box);

/* Adds the stage. */
int fpc_add_resize(fpc_chain *chain, const fpc_resize *resize);

#endif
