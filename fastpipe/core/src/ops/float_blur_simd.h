/* float_blur_simd.h: float_blur_plain.h's function. The sums of some vectors of some rows stay in registers. */
#include "float_blur_plain.h"

enum { CONVOLVE_VECTORS = FPC_CONVOLVE_GROUP / 8 };

/* Adds a row of the input, times the kernel's row before the one of the row of sums before. */
SIMD void convolve_row(const float *in, const float *weights, int32_t columns, int rows, int vectors,
                       vecf sums[][CONVOLVE_VECTORS]) {
    for (int32_t column = 0; column < columns; column++) {
        vecf weight[FPC_CONVOLVE_ROWS];
        for (int y = 0; y < rows; y++) weight[y] = v_all_float(weights[column - (int64_t)y * columns]);
        for (int i = 0; i < vectors; i++) {
            const vecf values = v_load_float(in + column + 8 * i);
            for (int y = 0; y < rows; y++) sums[y][i] = v_fma_float(values, weight[y], sums[y][i]);
        }
    }
}

/* Makes `rows` rows of 8 * `vectors` values, both known to the compiler, from column x on. */
SIMD void convolve_block(const fpc_convolution *convolution, int64_t x, int rows, int vectors,
                         float out[][FPC_CONVOLVE_GROUP]) {
    const int32_t height = convolution->rows, columns = convolution->columns;
    vecf sums[FPC_CONVOLVE_ROWS][CONVOLVE_VECTORS];
    for (int y = 0; y < rows; y++) {
        for (int i = 0; i < vectors; i++) sums[y][i] = v_all_float(0.0f);
    }
    /* At its beginning and end the input is of a part of the rows alone. */
    for (int32_t row = 0; row < height + rows - 1; row++) {
        const float *const in = convolution->in + row * convolution->in_stride + x;
        const float *const weights = convolution->weights + (int64_t)row * columns;
        if (row >= rows - 1 && row < height) {
            convolve_row(in, weights, columns, rows, vectors, sums);
            continue;
        }
        for (int y = 0; y < rows; y++) {
            if (row < y || row - y >= height) continue;
            convolve_row(in, weights - (int64_t)y * columns, columns, 1, vectors, sums + y);
        }
    }
    for (int y = 0; y < rows; y++) {
        for (int i = 0; i < vectors; i++) v_store_float(out[y] + 8 * i, sums[y][i]);
    }
}

SIMD void convolve_some(const fpc_convolution *convolution, int rows) {
    float block[FPC_CONVOLVE_ROWS][FPC_CONVOLVE_GROUP];
    const int64_t width = convolution->width;
    for (int64_t x = 0; x < width; x += FPC_CONVOLVE_GROUP) {
        const int64_t left = width - x, count = left < FPC_CONVOLVE_GROUP ? left : FPC_CONVOLVE_GROUP;
        if (left > 16) {
            convolve_block(convolution, x, rows, CONVOLVE_VECTORS, block);
        } else {
            convolve_block(convolution, x, rows, CONVOLVE_VECTORS / 2, block);
        }
        for (int y = 0; y < rows; y++) {
            memcpy(convolution->out + y * width + x, block[y], (size_t)count * sizeof(float));
        }
    }
}

static void convolve_rows(const fpc_convolution *convolution, int32_t count) {
    switch (count) {
    case 1: convolve_some(convolution, 1); break;
    case 2: convolve_some(convolution, 2); break;
    default: convolve_some(convolution, FPC_CONVOLVE_ROWS); break;
    }
}
