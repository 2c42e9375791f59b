/* idct_plain.h: dequantization and the inverse DCT in plain C: jpeg_idct_islow of libjpeg's jidctint.c, bit for bit.
 * The loops take eight columns at a time, which compilers vectorise. */
#ifndef FPC_IDCT_PLAIN_H
#define FPC_IDCT_PLAIN_H

#include <string.h>

#include "idct.h"
#include "plain.h"

/* jidctint.c's factors, with 13 bits after the binary point. */
enum {
    FIX_0_298631336 = 2446,
    FIX_0_390180644 = 3196,
    FIX_0_541196100 = 4433,
    FIX_0_765366865 = 6270,
    FIX_0_899976223 = 7373,
    FIX_1_175875602 = 9633,
    FIX_1_501321110 = 12299,
    FIX_1_847759065 = 15137,
    FIX_1_961570560 = 16069,
    FIX_2_053119869 = 16819,
    FIX_2_562915447 = 20995,
    FIX_3_072711026 = 25172
};

/* Values of the first pass lie in [-IDCT_RANGE, IDCT_RANGE): see idct.c. */
#define IDCT_RANGE 16384

/* One pass over eight columns, from in[k][x] to out[k][x], both 8 by 8. Each odd value is a sum of products, in which
 * all factors of a coefficient are added up (as in libjpeg-turbo's SIMD): the result is the same integer, and products
 * are 16 by 16 bits. Rows from `rows` (4 or 8) on are 0. `Value` is the type of the output. */
#define IDCT_PASS(name, Value, shift, rows)                                                                            \
    static void name(const int16_t *restrict in, Value *restrict out) {                                                \
        for (int x = 0; x < 8; x++) {                                                                                  \
            const int16_t c0 = in[x], c1 = in[8 + x], c2 = in[16 + x], c3 = in[24 + x];                                \
            const int16_t c4 = rows > 4 ? in[32 + x] : 0, c5 = rows > 4 ? in[40 + x] : 0;                              \
            const int16_t c6 = rows > 4 ? in[48 + x] : 0, c7 = rows > 4 ? in[56 + x] : 0;                              \
            const int32_t round = 1 << (shift - 1);                                                                    \
            const int16_t sum = (int16_t)(c0 + c4), difference = (int16_t)(c0 - c4);                                   \
            const int32_t e0 = sum * 8192 + round, e1 = difference * 8192 + round;                                     \
            const int32_t e2 = c2 * FIX_0_541196100 + c6 * (FIX_0_541196100 - FIX_1_847759065);                        \
            const int32_t e3 = c2 * (FIX_0_541196100 + FIX_0_765366865) + c6 * FIX_0_541196100;                        \
            const int32_t even0 = e0 + e3, even3 = e0 - e3, even1 = e1 + e2, even2 = e1 - e2;                          \
            const int16_t z3 = (int16_t)(c7 + c3), z4 = (int16_t)(c5 + c1);                                            \
            const int32_t o3 = z3 * (FIX_1_175875602 - FIX_1_961570560) + z4 * FIX_1_175875602;                        \
            const int32_t o4 = z3 * FIX_1_175875602 + z4 * (FIX_1_175875602 - FIX_0_390180644);                        \
            const int32_t odd0 = c7 * (FIX_0_298631336 - FIX_0_899976223) - c1 * FIX_0_899976223 + o3;                 \
            const int32_t odd1 = c5 * (FIX_2_053119869 - FIX_2_562915447) - c3 * FIX_2_562915447 + o4;                 \
            const int32_t odd2 = c3 * (FIX_3_072711026 - FIX_2_562915447) - c5 * FIX_2_562915447 + o3;                 \
            const int32_t odd3 = c1 * (FIX_1_501321110 - FIX_0_899976223) - c7 * FIX_0_899976223 + o4;                 \
            out[x] = (Value)((even0 + odd3) >> shift);                                                                 \
            out[8 + x] = (Value)((even1 + odd2) >> shift);                                                             \
            out[16 + x] = (Value)((even2 + odd1) >> shift);                                                            \
            out[24 + x] = (Value)((even3 + odd0) >> shift);                                                            \
            out[32 + x] = (Value)((even3 - odd0) >> shift);                                                            \
            out[40 + x] = (Value)((even2 - odd1) >> shift);                                                            \
            out[48 + x] = (Value)((even1 - odd2) >> shift);                                                            \
            out[56 + x] = (Value)((even0 - odd3) >> shift);                                                            \
        }                                                                                                              \
    }

IDCT_PASS(idct_columns_wide, int32_t, 11, 8)

/* Returns 1 if the first pass's values of a block are in range, by computing them. */
static int idct_is_in_range(const int16_t *coefficients, const fpc_dequantizer *dequantizer) {
    int16_t values[64];
    int32_t wide[64];
    /* A coefficient of 2**12 brings a value of its column out of range (the sum of a column's squares is at least 16 *
     * c * c); for smaller ones everything here fits. */
    for (int k = 0; k < 64; k++) {
        const int32_t value = coefficients[k] * (int32_t)dequantizer->step[k];
        if (value <= -4096 || value >= 4096) return 0;
        values[k] = (int16_t)value;
    }
    idct_columns_wide(values, wide);
    for (int k = 0; k < 64; k++)
        if (wide[k] < -IDCT_RANGE || wide[k] >= IDCT_RANGE) return 0;
    return 1;
}

static inline uint8_t idct_sample(int value) {
    value += 128;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Writes a block that has only a DC, so that all samples are equal. */
static inline int idct_flat(int16_t coefficient, const fpc_dequantizer *dequantizer, uint8_t *out, size_t out_stride) {
    const int32_t mean = coefficient * (int32_t)dequantizer->step[0];
    const int sample = idct_sample((mean + 4) >> 3);
    for (size_t y = 0; y < 8; y++) memset(out + y * out_stride, sample, 8);
    return mean < -IDCT_RANGE / 4 || mean >= IDCT_RANGE / 4;
}

/* The kernel of kernels.h. The SIMD body has its own kernel, and uses the rest of this file. */
#if defined(FPC_PORTABLE)
IDCT_PASS(idct_columns_plain, int16_t, 11, 8)
IDCT_PASS(idct_corner_columns, int16_t, 11, 4)
IDCT_PASS(idct_rows_plain, int16_t, 18, 8)
IDCT_PASS(idct_corner_rows, int16_t, 18, 4)

/* Transposes an 8 by 8 array: rotates the six bits of an element's index by three, by one each time that the array's
 * halves are interleaved, as vector instructions do. `spare` has the array's size. */
#define IDCT_TRANSPOSE(name, Element)                                                                                  \
    static inline void name##_interleave(const Element *restrict in, Element *restrict out) {                          \
        for (int i = 0; i < 32; i++) {                                                                                 \
            out[2 * i] = in[i];                                                                                        \
            out[2 * i + 1] = in[32 + i];                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static inline void name(const Element *restrict in, Element *restrict out, Element *restrict spare) {              \
        name##_interleave(in, out);                                                                                    \
        name##_interleave(out, spare);                                                                                 \
        name##_interleave(spare, out);                                                                                 \
    }

IDCT_TRANSPOSE(idct_transpose_values, int16_t)
IDCT_TRANSPOSE(idct_transpose_samples, uint8_t)

/* Writes a block whose rows and columns from `size` (4 or 8) on are 0; returns other than 0 if it is out of range. */
static inline int idct_block_sized(const int16_t *restrict coefficients, const fpc_dequantizer *restrict dequantizer,
                                   uint8_t *restrict out, size_t out_stride, const int size) {
    int16_t a[64], b[64], spare[64];
    uint8_t samples[64], turned[64], spare_samples[64];
    int16_t suspect = 0;
    for (int k = 0; k < 8 * size; k++) {
        const int16_t c = coefficients[k], largest = dequantizer->largest[k];
        suspect |= (int16_t)(c > largest) | (int16_t)(c < -largest);
        a[k] = (int16_t)(uint16_t)((uint16_t)c * (uint32_t)dequantizer->step[k]);
    }
    if (suspect && !idct_is_in_range(coefficients, dequantizer)) return 1;
    if (size == 8)
        idct_columns_plain(a, b);
    else
        idct_corner_columns(a, b);
    idct_transpose_values(b, a, spare);
    if (size == 8)
        idct_rows_plain(a, b);
    else
        idct_corner_rows(a, b);
    for (int k = 0; k < 64; k++) samples[k] = plain_clamp((int16_t)(b[k] + 128));
    idct_transpose_samples(samples, turned, spare_samples);
    for (size_t y = 0; y < 8; y++) memcpy(out + y * out_stride, turned + 8 * y, 8);
    return 0;
}

static int idct_block(const int16_t *coefficients, int last, const fpc_dequantizer *dequantizer, uint8_t *out,
                      size_t out_stride) {
    if (last == 0) return idct_flat(*coefficients, dequantizer, out, out_stride);
    /* Up to index 9, the zigzag stays within rows and columns 0 to 3. */
    if (last <= 9) return idct_block_sized(coefficients, dequantizer, out, out_stride, 4);
    return idct_block_sized(coefficients, dequantizer, out, out_stride, 8);
}

static int idct_blocks(const int16_t *coefficients, const uint8_t *last, int count, const fpc_dequantizer *dequantizer,
                       uint8_t *out, size_t out_stride) {
    int bad = 0;
    for (int i = 0; i < count; i++)
        bad |= idct_block(coefficients + 64 * (size_t)i, last[i], dequantizer, out + 8 * (size_t)i, out_stride);
    return bad;
}
#endif

#endif
