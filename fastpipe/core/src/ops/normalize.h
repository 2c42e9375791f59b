/* normalize.h: tables of the number that each value of a byte becomes in a sink of floats. */
#ifndef FPC_NORMALIZE_H
#define FPC_NORMALIZE_H

#include <stdbool.h>

#include "fastpipe_core.h"

/* ToTensor and Normalize as torch computes them: x / 255, minus mean, by deviation, each rounded to float32. */
typedef struct fpc_normalizer {
    int32_t dtype, flags;
    float mean[3], std[3];   /* as in the sink */
    float values[3][256];    /* by plain divisions */
    uint16_t halves[3][256]; /* the same as bits of dtype, if it has 16 bits */
    /* SIMD multiplies by these factors and doesn't divide: x / 255 = fma(x, by_255[0], x * by_255[1]); the reciprocal
     * of a deviation is by_std[0] + by_std[1]. */
    bool exact; /* the factors give exactly `values`, for all 256 */
    float by_255[2], offset[3], by_std[2][3];
} fpc_normalizer;

struct fpc_kernels;

/* Sets `normalizer` for the sink; does nothing if it is already set for the same arguments. Starts as {0}. */
void fpc_normalizer_make(fpc_normalizer *normalizer, const fpc_sink *sink, const struct fpc_kernels *kernels);

/* The bits of a value, rounded to nearest, ties to even, as by torch's .to(); all NaNs give the same bits. */
uint16_t fpc_float16_bits(float value);
uint16_t fpc_bfloat16_bits(float value);

#endif
