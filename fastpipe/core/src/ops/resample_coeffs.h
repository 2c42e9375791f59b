/* resample_coeffs.h: the inputs and weights of each output: Pillow's resampling along one axis. */
#ifndef FPC_FILTERS_H
#define FPC_FILTERS_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "memory.h"

/* Pillow gets a box in float32, which is exact for integers up to this one. */
#define FPC_LARGEST_SIDE (1 << 24)

/* Weights are integers in units of 1 / 2**FPC_WEIGHT_BITS: PRECISION_BITS in Pillow's Resample.c. */
#define FPC_WEIGHT_BITS 22

/* Lanes: FPC_LANE_OUTPUTS outputs at a time, with FPC_LANE_TAPS weights per part and at most FPC_LANE_MOST_PARTS parts,
 * in vectors of FPC_LANE_VECTOR bytes. */
enum { FPC_LANE_OUTPUTS = 5, FPC_LANE_TAPS = 4, FPC_LANE_MOST_PARTS = 4, FPC_LANE_VECTOR = 64 };

/* The resize of one axis. */
typedef struct fpc_axis_request {
    int32_t filter;               /* fpc_filter */
    int32_t inputs, outputs;      /* sizes of the whole image, before and after */
    double box_start, box_end;    /* the part that is resized, in inputs */
    int32_t window_start, window; /* the outputs to compute */
    int32_t there_start, there;   /* the inputs that are in memory */
    bool mirrored_inputs;         /* the inputs lie in memory in reversed order */
    bool mirrored_outputs;        /* the outputs are wanted in reversed order */
    bool torch;                   /* torch's weights for uint8 tensors: 16 bits, as many after the point as fit */
} fpc_axis_request;

/* One axis's tables. Positions count from the first input in memory, in memory's order. */
typedef struct fpc_axis {
    bool identity; /* output i is input starts[i]: the pass may be skipped */
    bool split;    /* the weights fit `high` and `low`, and sums of 255 times them fit 32 bits */
    int32_t outputs;
    int32_t most_taps;  /* the most inputs of an output */
    int32_t pairs;      /* (most_taps + 1) / 2 */
    int32_t first, end; /* all outputs together read the inputs [first, end) */
    int32_t *starts;    /* each output's first input, */
    int32_t *counts;    /* the number of inputs that it reads from there on, at least 1, */
    int32_t *weights;   /* and its `2 * pairs` weights, with zeros after the last */
    /* The same weights in pairs of 16-bit numbers, the first in the lower half: weight = high * 256 + low, with low in
     * 0..255. They are for instructions that multiply 16 bits and add neighbours. Each output has `pairs`. */
    int32_t *high, *low;
    /* Memory for the weights as arranged by the kernel arrange_horizontal, and whether it has arranged them. */
    uint8_t *lanes;
    bool has_lanes;
    fpc_buffer memory;
    /* The request for which the tables were made, and the inputs dropped since: images of one size share them. */
    fpc_axis_request made;
    int64_t made_within;
    int32_t dropped;
} fpc_axis;

/* Fills the tables (for FPC_NEAREST only `starts`), unless they are filled for the same request. FPC_OK;
 * FPC_BAD_OPERATION if the request doesn't fit; FPC_TOO_LARGE above `max_bytes` (0: no limit); FPC_NO_MEMORY. Starts as
 * {0}. */
int fpc_axis_build(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes);

/* Drops the inputs before `first`: positions then count from `first`. */
void fpc_axis_shift(fpc_axis *axis, int32_t first);

void fpc_axis_free(fpc_axis *axis);

#endif
