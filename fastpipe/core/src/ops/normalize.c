/* normalize.c: tables of 256 values for sinks of floats, and the test if the fast path gives the same values. */
#include "normalize.h"

#include "kernels.h"

#include <string.h>

uint16_t fpc_bfloat16_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

uint16_t fpc_float16_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
    if (bits >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and above round to infinity */
    if (bits < 0x38800000u) {                                   /* below 2**-14: subnormal, in steps of 2**-24 */
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        const float shifted = magnitude + 0.5f; /* the last bit is 2**-24: the addition rounds */
        uint32_t rounded;
        memcpy(&rounded, &shifted, sizeof rounded);
        return (uint16_t)(sign | (rounded - 0x3F000000u));
    }
    /* changes the exponent's bias from 127 to 15, and rounds away 13 bits */
    const uint32_t rounded = bits - 0x38000000u + 0xFFFu + (bits >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
}

/* 1 / divisor as the sum of two floats: the nearest float, and the difference from it. */
static void reciprocal(float divisor, float *first, float *rest) {
    *first = (float)(1.0 / (double)divisor);
    *rest = (float)(1.0 / (double)divisor - (double)*first);
}

/* True if the kernel's fast path gives exactly the tables' values. */
static bool fast_way_is_exact(fpc_normalizer *normalizer, const fpc_kernels *kernels) {
    uint8_t ramp[3 * 256 + 64];
    float rows[3][256]; /* or 16-bit numbers, in half of the memory */
    memset(ramp, 0, sizeof ramp);
    for (int i = 0; i < 3 * 256; i++) ramp[i] = (uint8_t)(i / 3);
    void *const out[3] = {rows[0], rows[1], rows[2]};
    normalizer->exact = true;
    kernels->normalize_planar(ramp, 256, normalizer, out);
    for (int channel = 0; channel < 3; channel++) {
        const bool equal =
            normalizer->dtype == FPC_FLOAT32
                ? !memcmp(rows[channel], normalizer->values[channel], sizeof normalizer->values[channel])
                : !memcmp(rows[channel], normalizer->halves[channel], sizeof normalizer->halves[channel]);
        if (!equal) return false;
    }
    return true;
}

void fpc_normalizer_make(fpc_normalizer *normalizer, const fpc_sink *sink, const fpc_kernels *kernels) {
    const size_t three = sizeof normalizer->mean;
    if (normalizer->dtype == sink->dtype && normalizer->flags == sink->flags &&
        (!(sink->flags & FPC_NORMALIZE) ||
         (!memcmp(normalizer->mean, sink->mean, three) && !memcmp(normalizer->std, sink->std, three)))) {
        return;
    }
    memset(normalizer, 0, sizeof *normalizer);
    normalizer->dtype = sink->dtype;
    normalizer->flags = sink->flags;
    const bool normalize = sink->flags & FPC_NORMALIZE, multiply = sink->flags & FPC_MULTIPLY;
    const bool by_factor = sink->flags & FPC_BY_FACTOR;
    reciprocal(255.0f, &normalizer->by_255[0], &normalizer->by_255[1]);
    if (by_factor) normalizer->by_255[0] = 1.0f;             /* x itself */
    if (multiply || by_factor) normalizer->by_255[1] = 0.0f; /* x * (1 / 255), with the factor in float32 */
    if (normalize) {
        memcpy(normalizer->mean, sink->mean, three);
        memcpy(normalizer->std, sink->std, three);
        memcpy(normalizer->offset, sink->mean, three);
    }
    for (int channel = 0; channel < 3; channel++) {
        normalizer->by_std[0][channel] = 1.0f;
        if (by_factor) {
            normalizer->by_std[0][channel] = sink->std[channel];
        } else if (normalize) {
            reciprocal(sink->std[channel], &normalizer->by_std[0][channel], &normalizer->by_std[1][channel]);
        }
        for (int x = 0; x < 256; x++) {
            float value = multiply || by_factor ? (float)x * normalizer->by_255[0] : (float)x / 255.0f;
            if (normalize) {
                value = value - sink->mean[channel];
                value = by_factor ? value * sink->std[channel] : value / sink->std[channel];
            }
            normalizer->values[channel][x] = value;
            normalizer->halves[channel][x] =
                sink->dtype == FPC_FLOAT16 ? fpc_float16_bits(value) : fpc_bfloat16_bits(value);
        }
    }
    normalizer->exact = fast_way_is_exact(normalizer, kernels);
}
