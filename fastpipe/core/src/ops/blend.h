/* blend.h: the factor of a blend, as Pillow takes it. */
#ifndef FPC_BLEND_H
#define FPC_BLEND_H

#include <stdbool.h>

#include "fastpipe_core.h"

/* Sets *factor to a blend's factor in float32, as in Pillow; false if float32 has no such number. */
static inline bool fpc_blend_factor(const fpc_op_blend *blend, float *factor) {
    if (!(blend->factor >= -3.0e38 && blend->factor <= 3.0e38)) return false; /* NaN, too */
    *factor = (float)blend->factor;
    return true;
}

#endif
