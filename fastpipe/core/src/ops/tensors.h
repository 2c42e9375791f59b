/* tensors.h: parts of torchvision's arithmetic on uint8 tensors that several files need. */
#ifndef FPC_TENSORS_H
#define FPC_TENSORS_H

#include "kernels.h"

/* A blend: `by` times the image plus `rest` times the other image. */
typedef struct fpc_tensor_blend {
    float by, rest;
    bool fused, v1; /* FPC_FUSED, FPC_V1 */
} fpc_tensor_blend;

/* Sets a blend's factors; false if float32 can't represent the factor, or for unknown flags. */
bool fpc_tensor_factors(const fpc_operation *operation, fpc_tensor_blend *blend);

/* adjust_contrast's table for an image whose gray has this mean. FPC_UNSURE if fused and separate rounding give
 * different bytes: torch's loop over such a tensor uses both, the latter for the last elements of a part. */
int fpc_tensor_contrast_table(const fpc_tensor_blend *blend, float mean, uint8_t *table);
/* autocontrast's table for values from `least` to `most`. */
void fpc_tensor_autocontrast_table(uint8_t least, uint8_t most, bool v1, uint8_t *table);

/* FPC_OK if grid_sample's positions and points can represent the sizes, else FPC_TOO_LARGE. */
int fpc_grid_sample_check(const fpc_grid_sample *sample);

#endif
