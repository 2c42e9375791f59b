/* idct.h: a component's quantization table, made ready for the inverse DCT. */
#ifndef FPC_IDCT_H
#define FPC_IDCT_H

#include <stdint.h>

typedef struct fpc_dequantizer {
    uint16_t step[64];       /* natural order */
    int16_t largest[64];     /* a block with no coefficient beyond it is in range without a closer look: see idct.c */
    int16_t step_pair[128];  /* for two blocks side by side: each row of 8 twice */
    int16_t alarm_pair[128]; /* (coefficient * alarm + 2**14) >> 15 is 0 only where none is beyond it */
} fpc_dequantizer;

void fpc_dequantizer_make(fpc_dequantizer *dequantizer, const uint16_t step[64]);

#endif
