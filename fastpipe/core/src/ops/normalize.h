/* normalize.h: the float that each of a byte's 256 values becomes in a sink. */
#ifndef FPC_NORMALIZE_H
#define FPC_NORMALIZE_H

#include <stdbool.h>

#include "fastpipe_core.h"

/* ToTensor and Normalize as torch computes them: x / 255, minus the mean, by the deviation, each rounded to float32. */
typedef struct fpc_normalizer {
    int32_t dtype, flags;
    float mean[3], std[3];   /* as the sink has them */
    float values[3][256];    /* the truth, by plain divisions */
    uint16_t halves[3][256]; /* the same as bits of dtype, where that has 16 */
    /* Factors for SIMD, without a division: x / 255 = fma(x, by_255[0], x * by_255[1]), and a deviation's
     * reciprocal is `by_std[0] + by_std[1]`, too. */
    bool exact; /* these factors give `values`, to the bit, for all 256 */
    float by_255[2], offset[3], by_std[2][3];
} fpc_normalizer;

struct fpc_kernels;

/* Fills `normalizer` for the sink; nothing is done where it is filled for the same already. Starts as {0}. */
void fpc_normalizer_make(fpc_normalizer *normalizer, const fpc_sink *sink, const struct fpc_kernels *kernels);

/* The bits of a value rounded to nearest, ties to even, as torch's .to(); any NaN gives the same one. */
uint16_t fpc_float16_bits(float value);
uint16_t fpc_bfloat16_bits(float value);

#endif
