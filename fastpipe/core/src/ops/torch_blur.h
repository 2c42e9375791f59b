/* torch_blur.h: the convolution of torchvision's gaussian_blur, with the same bytes after rounding.
 *
 * torch adds up the products of a kernel in float32, row by row, and rounds each product and sum once. Any other order
 * gives the same sum up to a known bound, and the same byte unless a half lies within that bound. So two passes come
 * first, and torch's order decides the values that they leave in doubt (one in a thousand). */
#ifndef FPC_TORCH_BLUR_H
#define FPC_TORCH_BLUR_H

#include <stdbool.h>
#include <stdint.h>

#define FPC_LARGEST_KERNEL 1023

/* True if a kernel's sides are odd, and half of each is less than the image's, which is mirrored at its edges. */
static inline bool fpc_kernel_fits(int32_t columns, int32_t rows, int32_t width, int32_t height) {
    if (columns < 1 || rows < 1 || columns % 2 == 0 || rows % 2 == 0) return false;
    if (columns > FPC_LARGEST_KERNEL || rows > FPC_LARGEST_KERNEL) return false;
    return columns / 2 < width && rows / 2 < height;
}

/* All weights of a kernel, row by row. factors: those along rows, then those down columns. */
static inline void fpc_kernel_weights(const float *factors, int32_t columns, int32_t rows, float *weights) {
    for (int32_t y = 0; y < rows; y++) {
        for (int32_t x = 0; x < columns; x++) weights[(int64_t)y * columns + x] = factors[columns + y] * factors[x];
    }
}

/* The values of a row that are rounded, or left in doubt, together. */
#define FPC_DOUBT_GROUP 8
/* The groups whose exact sums are computed at once. */
#define FPC_DOUBT_GROUPS 4
/* The floats of a group; kernels write whole groups. */
#define FPC_WEIGH_GROUP 32

/* A weighted sum of `taps` rows of floats, value by value. */
typedef struct fpc_weighing {
    const float *const *rows;
    const float *weights;
    int32_t taps;
    int64_t count; /* values per row */
} fpc_weighing;

/* A kernel with all of its weights, and the rows that it reads for one row of the result. */
typedef struct fpc_exact_weighing {
    const float *const *rows; /* a row per row of the kernel; each begins with the value that the kernel's first column
                               * reads for value 0 */
    const float *weights;     /* row by row */
    int32_t height, width;
    int32_t step; /* values from one column of the kernel to the next */
} fpc_exact_weighing;

#endif
