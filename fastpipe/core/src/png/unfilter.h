/* unfilter.h: arguments of PNG's kernels: rows as in the stream, palettes, tables of checksums. */
#ifndef FPC_UNFILTER_H
#define FPC_UNFILTER_H

#include <stdint.h>

enum { FPC_FILTER_NONE, FPC_FILTER_SUB, FPC_FILTER_UP, FPC_FILTER_AVERAGE, FPC_FILTER_PAETH };

#define FPC_FILTERED_ROWS 4

typedef struct fpc_filtered {
    const uint8_t *above; /* the row before the first one; zeros if there is none */
    const uint8_t *raw[FPC_FILTERED_ROWS];
    uint8_t *out[FPC_FILTERED_ROWS];
    uint8_t filters[FPC_FILTERED_ROWS];
} fpc_filtered;

/* The colors of a palette. */
typedef struct fpc_palette {
    uint32_t count;
    uint8_t colors[256][4]; /* the fourth byte is unused */
    uint8_t planes[3][256]; /* the same, one channel after the other */
} fpc_palette;

#endif
