/* float_blur.h: a convolution of floats, added up as torch does it: row by row of the kernel, each product with a fused
 * multiply-add, from 0 on. */
#ifndef FPC_FLOAT_BLUR_H
#define FPC_FLOAT_BLUR_H

#include <stdint.h>

/* The floats of a row that are added up together; up to as many are read after a row. */
#define FPC_CONVOLVE_GROUP 32
/* The rows of a result that are added up together: each value that is read is part of a sum in each of them. */
#define FPC_CONVOLVE_ROWS 3

typedef struct fpc_convolution {
    const float *in;      /* what the kernel's first value is multiplied by for the first value of the result */
    int64_t in_stride;    /* from one row to the next */
    const float *weights; /* row by row */
    int32_t rows, columns;
    float *out;
    int64_t width; /* of a row of the result; its rows follow each other */
} fpc_convolution;

#endif
