/* torch_blur.h: the convolution of torchvision's gaussian_blur, to the last bit of the bytes that it is rounded to.
 *
 * torch adds up the products of a kernel in float32, row by row of it, each product and sum rounded once. Any other
 * order gives the same up to a bound that is known, and the same byte wherever no half lies within that bound: so two
 * passes come first, and where they leave a doubt (a value in a thousand) torch's order decides. */
#ifndef FPC_TORCH_BLUR_H
#define FPC_TORCH_BLUR_H

#include <stdint.h>

/* Values of a row that are rounded, or left as doubtful, at once. */
#define FPC_DOUBT_GROUP 8
/* Groups whose exact sums are made at once. */
#define FPC_DOUBT_GROUPS 4
/* Floats of a group: kernels write whole groups. */
#define FPC_WEIGH_GROUP 32

/* Weighted sums of rows of floats: of `taps` rows, value by value. */
typedef struct fpc_weighing {
    const float *const *rows;
    const float *weights;
    int32_t taps;
    int64_t count; /* values of a row */
} fpc_weighing;

/* The kernel with all its weights, and the rows that it reads for one row of the result. */
typedef struct fpc_exact_weighing {
    const float *const *rows; /* the kernel's: each begins with what its first column reads for value 0 */
    const float *weights;     /* row by row */
    int32_t height, width;
    int32_t step; /* values from one column of the kernel to the next */
} fpc_exact_weighing;

#endif
