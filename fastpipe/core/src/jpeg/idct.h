/* idct.h: a component's quantization table, prepared for the inverse DCT. */
#ifndef FPC_IDCT_H
#define FPC_IDCT_H

#include <stdint.h>

typedef struct fpc_dequantizer {
    uint16_t step[64];       /* natural order */
    int16_t largest[64];     /* a block with no coefficient beyond these is in range without a test: see idct.c */
    int16_t step_pair[128];  /* for two blocks side by side: each row of 8 is there twice */
    int16_t alarm_pair[128]; /* (coefficient * alarm + 2**14) >> 15 is 0 only for coefficients up to `largest` */
} fpc_dequantizer;

void fpc_dequantizer_make(fpc_dequantizer *dequantizer, const uint16_t step[64]);

#endif
