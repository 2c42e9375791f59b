/* resample_coeffs.h: which inputs make an output, and with what weights: Pillow's resampling along one axis. */
#ifndef FPC_FILTERS_H
#define FPC_FILTERS_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "memory.h"

/* Pillow gets a box as float32: up to here each whole number is one, so that whole boxes stay exact. */
#define FPC_LARGEST_SIDE (1 << 24)

/* Weights are whole numbers of these parts of 1: PRECISION_BITS in Pillow's Resample.c. */
#define FPC_WEIGHT_BITS 22

/* Lanes: FPC_LANE_OUTPUTS outputs at a time, of each FPC_LANE_TAPS weights in one part, and at most FPC_LANE_MOST_PARTS
 * parts; vectors of FPC_LANE_VECTOR bytes. */
enum { FPC_LANE_OUTPUTS = 5, FPC_LANE_TAPS = 4, FPC_LANE_MOST_PARTS = 4, FPC_LANE_VECTOR = 64 };

/* The resize of one axis. */
typedef struct fpc_axis_request {
    int32_t filter;               /* fpc_filter */
    int32_t inputs, outputs;      /* sizes of the whole image, before and after */
    double box_start, box_end;    /* what is resized, in inputs */
    int32_t window_start, window; /* the outputs that are wanted */
    int32_t there_start, there;   /* the inputs that are in memory */
    bool mirrored_inputs;         /* the inputs lie in memory in reversed order */
    bool mirrored_outputs;        /* the outputs are wanted in reversed order */
    bool torch;                   /* weights as for torch's uint8 tensors: 16 bits, the most after the point that fit */
} fpc_axis_request;

/* One axis's tables. Positions count from the first input that is at hand, in memory's order. */
typedef struct fpc_axis {
    bool identity; /* output i is input starts[i]: the pass may be skipped */
    bool split;    /* the weights fit into `high` and `low`, and sums of 255 times them into 32 bits */
    int32_t outputs;
    int32_t most_taps;  /* of any output */
    int32_t pairs;      /* (most_taps + 1) / 2 */
    int32_t first, end; /* the inputs that all outputs together read: [first, end) */
    int32_t *starts;    /* for each output its first input, */
    int32_t *counts;    /* how many inputs it reads from there, at least 1, */
    int32_t *weights;   /* and `2 * pairs` weights, with zeros after the last */
    /* The same weights by pairs, two 16-bit numbers each, the first in the lower half: weight = high * 256 + low with
     * low in 0..255, for instructions that multiply 16 bits and add neighbours. `pairs` for each output. */
    int32_t *high, *low;
    /* Memory for the weights as the kernel arrange_horizontal arranges them, and whether it did. */
    uint8_t *lanes;
    bool has_lanes;
    fpc_buffer memory;
    /* The request that the tables were made for, and the inputs dropped since: images of one size share them. */
    fpc_axis_request made;
    int64_t made_within;
    int32_t dropped;
} fpc_axis;

/* Fills the tables, of FPC_NEAREST `starts` alone; FPC_OK, FPC_BAD_OPERATION where the request doesn't fit,
 * FPC_TOO_LARGE above `max_bytes` (0: no limit), FPC_NO_MEMORY. Nothing is done where they are filled for the same
 * already. An axis starts as {0}. */
int fpc_axis_build(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes);

/* Drops the inputs before `first`: positions count from there. */
void fpc_axis_shift(fpc_axis *axis, int32_t first);

void fpc_axis_free(fpc_axis *axis);

#endif
