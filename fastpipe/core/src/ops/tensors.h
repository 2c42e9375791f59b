/* tensors.h: parts of torchvision's arithmetic on uint8 tensors that several files need. */
#ifndef FPC_TENSORS_H
#define FPC_TENSORS_H

#include "kernels.h"

/* A blend: `by` times the image plus `rest` times the other. */
typedef struct fpc_tensor_blend {
    float by, rest;
    bool fused, v1; /* FPC_FUSED, FPC_V1 */
} fpc_tensor_blend;

/* False where float32 has no such factor, or for unknown flags. */
bool fpc_tensor_factors(const fpc_operation *operation, fpc_tensor_blend *blend);

/* adjust_contrast's table, of an image whose gray one has that mean; FPC_UNSURE where a fused sum and one that isn't
 * give other bytes: torch has both in its loop over such a tensor, the latter in the last elements of a part. */
int fpc_tensor_contrast_table(const fpc_tensor_blend *blend, float mean, uint8_t *table);
/* autocontrast's table for values from `least` to `most`. */
void fpc_tensor_autocontrast_table(uint8_t least, uint8_t most, bool v1, uint8_t *table);

/* adjust_hue of planes (3, H, W), `by` from -0.5 to 0.5: `count` pixels, whose red, green and blue are `in_plane` bytes
 * apart in `in`, and `out_plane` bytes in `out`, which may be the same memory. */
void fpc_hue(const uint8_t *in, uint8_t *out, size_t count, size_t in_plane, size_t out_plane, float by);

/* Whether the sizes are ones that grid_sample's places and points can have: FPC_OK, or FPC_TOO_LARGE. */
int fpc_grid_sample_check(const fpc_grid_sample *sample);

#endif
