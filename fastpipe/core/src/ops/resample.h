/* resample.h: FPC_OP_RESIZE in two steps, so that its source can be told beforehand what will be read of it. */
#ifndef FPC_RESAMPLE_H
#define FPC_RESAMPLE_H

#include "stage.h"

/* A resize whose tables are made. */
typedef struct fpc_resize {
    fpc_axis *horizontal, *vertical;     /* a slot's */
    int32_t height, width, channels;     /* of the output */
    bool nearest;                        /* FPC_NEAREST, whose passes are one */
    bool vertical_first;                 /* where both passes are needed */
    bool need_horizontal, need_vertical; /* the passes that change anything */
    int32_t column;                      /* the first column that is read */
} fpc_resize;

/* Flips from left to right just before and just after a resize, which cost nothing there. */
typedef struct fpc_resize_flips {
    bool inputs, outputs;
} fpc_resize_flips;

/* Makes the tables, in the slot, for an input of this size. */
int fpc_resize_prepare(fpc_resize *resize, fpc_chain *chain, fpc_slot *slot, const fpc_op_resize *operation,
                       fpc_resize_flips flips, int32_t height, int32_t width, int32_t channels);

/* Makes the input's box smaller: to the rows and columns that are read. The resize then expects an input of them
 * alone. */
void fpc_resize_narrow(fpc_resize *resize, fpc_box *box);

/* Adds the stage. */
int fpc_add_resize(fpc_chain *chain, const fpc_resize *resize);

#endif
