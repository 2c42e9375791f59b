/* hue.h: torchvision's adjust_hue of tensors. */
#ifndef FPC_HUE_H
#define FPC_HUE_H

#include <stdbool.h>
#include <stdint.h>

/* The pixels whose hue is turned. A channel is `plane` values after the one before it, and a pixel `step` values, 1
 * or 3, after the one before it. */
typedef struct fpc_hue_turn {
    const void *in;
    void *out; /* may be `in` if both are arranged alike */
    int64_t in_plane, out_plane;
    int32_t in_step, out_step;
    bool of_floats; /* from 0 to 1; else bytes */
    bool v1;        /* as torchvision.transforms, not as v2 */
    float by;       /* -0.5 to 0.5 turns */
} fpc_hue_turn;

#endif
