/* resample_coeffs.c: Pillow's filters and coefficients (Resample.c: the filters, precompute_coeffs,
 * normalize_coeffs_8bpc; Geometry.c: ImagingScaleAffine), with the same order of operations in double, so that the
 * integer weights are equal. It must be compiled without contraction of floating-point operations. */
#include "resample_coeffs.h"

#include <math.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define INLINED __forceinline
#else
#define INLINED inline __attribute__((always_inline))
#endif

static const double PI = 3.14159265358979323846;

static double box_filter(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

static double bilinear_filter(double x) {
    if (x < 0.0) x = -x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming_filter(double x) {
    if (x < 0.0) x = -x;
    if (x == 0.0) return 1.0;
    if (x >= 1.0) return 0.0;
    x = x * PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x)); /* Pillow's constants are float32 */
}

/* Keys' cubic with a = -1/2. */
static double bicubic_filter(double x) {
    const double a = -0.5;
    if (x < 0.0) x = -x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x) {
    if (x == 0.0) return 1.0;
    x = x * PI;
    return sin(x) / x;
}

static double lanczos_filter(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

/* The distance beyond which a filter is 0. */
static const double SUPPORT[] = {
    [FPC_BOX] = 0.5, [FPC_BILINEAR] = 1.0, [FPC_HAMMING] = 1.0, [FPC_BICUBIC] = 2.0, [FPC_LANCZOS] = 3.0};

/* True if the sizes are possible, the box lies in the image, and the window in the outputs. NaN fails, too. */
static bool fits(const fpc_axis_request *r) {
    return r->inputs >= 1 && r->inputs <= FPC_LARGEST_SIDE && r->outputs >= 1 && r->outputs <= FPC_LARGEST_SIDE &&
           r->box_start >= 0.0 && r->box_end <= r->inputs && (float)r->box_start < (float)r->box_end &&
           r->window_start >= 0 && r->window >= 1 && r->window <= r->outputs - r->window_start && r->there_start >= 0 &&
           r->there >= 1 && r->there <= r->inputs - r->there_start;
}

/* Sets where each table starts in the axis's memory, after `values` doubles. */
static void lay_out(fpc_axis *axis, int64_t values, int64_t pairs) {
    const int64_t outputs = axis->outputs;
    axis->starts = (int32_t *)(void *)(axis->memory.data + values * (int64_t)sizeof(double));
    axis->counts = axis->starts + outputs;
    axis->weights = axis->counts + outputs;
    axis->high = axis->weights + outputs * 2 * pairs;
    axis->low = axis->high + outputs * pairs;
    axis->lanes = (uint8_t *)(((uintptr_t)(axis->low + outputs * pairs) + FPC_LANE_VECTOR - 1) &
                              ~(uintptr_t)(FPC_LANE_VECTOR - 1));
    axis->pairs = (int32_t)pairs;
}

/* The bytes of the lanes: FPC_LANE_OUTPUTS outputs have a vector of positions, and three vectors of weights per part of
 * the taps. */
static int64_t lane_bytes(int64_t outputs, int64_t taps) {
    int64_t parts = (taps + FPC_LANE_TAPS - 1) / FPC_LANE_TAPS;
    if (parts > FPC_LANE_MOST_PARTS) parts = FPC_LANE_MOST_PARTS;
    return (outputs + FPC_LANE_OUTPUTS - 1) / FPC_LANE_OUTPUTS * FPC_LANE_VECTOR * (1 + 3 * parts) + FPC_LANE_VECTOR;
}

/* Allocates memory for outputs of at most `taps` weights each. Both are at most 2**24, so int64 suffices. */
static int reserve(fpc_axis *axis, int32_t outputs, int64_t taps, int64_t max_bytes) {
    const int64_t pairs = (taps + 1) / 2;
    const int64_t bytes = taps * (int64_t)sizeof(double) + outputs * (2 + 4 * pairs) * (int64_t)sizeof(int32_t) +
                          lane_bytes(outputs, taps);
    if ((max_bytes > 0 && bytes > max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    if (!fpc_buffer_need(&axis->memory, (size_t)bytes)) return FPC_NO_MEMORY;
    axis->outputs = outputs;
    lay_out(axis, taps, pairs);
    return FPC_OK;
}

/* Converts positions in the whole input to ones in memory; FPC_BAD_OPERATION if an input that is read isn't there. */
static int locate(fpc_axis *axis, const fpc_axis_request *request) {
    int32_t first = request->there, end = 0;
    for (int32_t i = 0; i < axis->outputs; i++) {
        int32_t start = axis->starts[i] - request->there_start;
        const int32_t count = axis->counts[i];
        if (start < 0 || count > request->there - start) return FPC_BAD_OPERATION;
        if (request->mirrored_inputs) start = request->there - (start + count);
        axis->starts[i] = start;
        if (start < first) first = start;
        if (start + count > end) end = start + count;
    }
    axis->first = first;
    axis->end = end;
    return FPC_OK;
}

/* True if output i is input offset + i, which changes nothing: all filters are 1 at 0, and 0 at other integers. Pillow
 * skips such a pass if nothing is cut off (need_horizontal, need_vertical); otherwise its pass has the same result. */
static bool changes_nothing(const fpc_axis_request *request) {
    const float start = (float)request->box_start, end = (float)request->box_end;
    return start == (float)(int32_t)start && end - start == (float)request->outputs;
}

/* Splits each weight for 16-bit multiplications. `split` also guarantees that an output's sum fits 32 bits. */
static void split_weights(fpc_axis *axis) {
    bool fit = true;
    const int32_t *weights = axis->weights;
    int64_t at = 0;
    for (int32_t i = 0; i < axis->outputs; i++) {
        int64_t magnitude = 0;
        for (int32_t p = 0; p < axis->pairs; p++, at++, weights += 2) {
            const int32_t a = weights[0], b = weights[1];
            const int32_t low_a = a & 255, low_b = b & 255;
            const int32_t high_a = (a - low_a) / 256, high_b = (b - low_b) / 256;
            fit = fit && high_a == (int16_t)high_a && high_b == (int16_t)high_b;
            magnitude += (a < 0 ? -(int64_t)a : a) + (b < 0 ? -(int64_t)b : b);
            axis->high[at] = (int32_t)((uint32_t)(uint16_t)high_a | (uint32_t)(uint16_t)high_b << 16);
            axis->low[at] = low_a | low_b << 16;
        }
        fit = fit && magnitude * 255 <= INT32_MAX - (1 << (FPC_WEIGHT_BITS - 1));
    }
    axis->split = fit;
}

/* Makes the tables of a pass that only moves the window. */
static int build_identity(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes) {
    const int status = reserve(axis, request->window, 1, max_bytes);
    if (status != FPC_OK) return status;
    for (int32_t i = 0; i < request->window; i++) {
        const int32_t place = request->mirrored_outputs ? request->window - 1 - i : i;
        axis->starts[place] = request->window_start + i + (int32_t)request->box_start;
        axis->counts[place] = 1;
        axis->weights[2 * (int64_t)place] = 1 << FPC_WEIGHT_BITS;
        axis->weights[2 * (int64_t)place + 1] = 0;
    }
    axis->most_taps = 1;
    return FPC_OK;
}

/* Finds the inputs of an output: sets *first, and returns their number. */
static int32_t find_inputs(const fpc_axis_request *request, double center, double support, int64_t bound,
                           int32_t *first) {
    *first = (int32_t)(center - support + 0.5);
    if (*first < 0) *first = 0;
    int32_t end = (int32_t)(center + support + 0.5);
    if (end > request->inputs) end = request->inputs;
    const int32_t count = end - *first;
    return request->torch && count > bound ? (int32_t)bound : count; /* torch drops inputs beyond the bound */
}

/* Computes the weights of one output in double; returns their sum. */
static INLINED double find_values(double (*value_at)(double), int32_t first, int32_t count, double center,
                                  double inverse, double *values) {
    double sum = 0.0;
    for (int32_t k = 0; k < count; k++) {
        values[k] = value_at((k + first - center + 0.5) * inverse);
        sum += values[k];
    }
    return sum;
}

/* The bits of torch's weights after the binary point: the most with which the largest weight of all outputs, also those
 * outside of the window, stays below 2**15 (UpSampleKernel.cpp: compute_index_ranges_int16_weights). */
static INLINED int torch_weight_bits(const fpc_axis *axis, const fpc_axis_request *request, double (*value_at)(double),
                                     double scale, double support, double inverse, int64_t bound) {
    double *values = (double *)(void *)axis->memory.data, most = 0.0;
    for (int32_t i = 0; i < request->outputs; i++) {
        const double center = (i + 0.5) * scale;
        int32_t first;
        const int32_t count = find_inputs(request, center, support, bound, &first);
        const double sum = find_values(value_at, first, count, center, inverse, values);
        for (int32_t k = 0; k < count && sum != 0.0; k++) {
            const double value = values[k] / sum;
            most = value > most ? value : most;
        }
    }
    int bits = 0;
    while (bits < FPC_WEIGHT_BITS && (int)(0.5 + most * (1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

/* Sets the weights of all outputs, whose starts and counts are known. torch's weights have fewer bits; zeros fill them
 * up to FPC_WEIGHT_BITS, so that adding a half to a sum and truncating gives torch's result. */
static INLINED void fill_weights(fpc_axis *axis, const fpc_axis_request *request, double (*value_at)(double),
                                 double scale, double support, double inverse, int64_t bound) {
    const float in0 = (float)request->box_start;
    const int bits =
        request->torch ? torch_weight_bits(axis, request, value_at, scale, support, inverse, bound) : FPC_WEIGHT_BITS;
    double *values = (double *)(void *)axis->memory.data;
    const int32_t width = 2 * axis->pairs;
    for (int32_t i = 0; i < request->window; i++) {
        const int32_t place = request->mirrored_outputs ? request->window - 1 - i : i;
        const int32_t first = axis->starts[place], count = axis->counts[place];
        const double center = in0 + (request->window_start + i + 0.5) * scale;
        const double sum = find_values(value_at, first, count, center, inverse, values);
        int32_t *weights = axis->weights + (int64_t)place * width;
        for (int32_t k = 0; k < count; k++) {
            double value = values[k];
            if (sum != 0.0) value /= sum;
            const double scaled = value * (1 << bits); /* normalize_coeffs_8bpc */
            const int32_t whole = (int32_t)(value < 0 ? -0.5 + scaled : 0.5 + scaled);
            weights[request->mirrored_inputs ? count - 1 - k : k] = whole * (1 << (FPC_WEIGHT_BITS - bits));
        }
        for (int32_t k = count; k < width; k++) weights[k] = 0;
    }
}

/* precompute_coeffs, literally, but only for the window's outputs. */
static int build_weights(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes) {
    const float in0 = (float)request->box_start, in1 = (float)request->box_end;
    const double scale = (double)(in1 - in0) / request->outputs;
    const double filter_scale = scale < 1.0 ? 1.0 : scale;
    const double support = SUPPORT[request->filter] * filter_scale;
    const double inverse = 1.0 / filter_scale;

    /* Pillow's bound of taps, and the number of inputs */
    int64_t bound = (int64_t)ceil(support) * 2 + 1;
    if (bound > request->inputs) bound = request->inputs;
    const int status = reserve(axis, request->window, bound, max_bytes);
    if (status != FPC_OK) return status;

    int32_t most = 1;
    for (int32_t i = 0; i < request->window; i++) {
        const double center = in0 + (request->window_start + i + 0.5) * scale;
        int32_t first;
        const int32_t count = find_inputs(request, center, support, bound, &first);
        if (count < 1 || count > bound) return FPC_BAD_OPERATION; /* should be impossible */
        const int32_t place = request->mirrored_outputs ? request->window - 1 - i : i;
        axis->starts[place] = first;
        axis->counts[place] = count;
        if (count > most) most = count;
    }
    axis->most_taps = most;
    lay_out(axis, bound, (most + 1) / 2);

    switch (request->filter) { /* a constant filter is compiled into its loop */
    case FPC_BOX: fill_weights(axis, request, box_filter, scale, support, inverse, bound); break;
    case FPC_BILINEAR: fill_weights(axis, request, bilinear_filter, scale, support, inverse, bound); break;
    case FPC_HAMMING: fill_weights(axis, request, hamming_filter, scale, support, inverse, bound); break;
    case FPC_BICUBIC: fill_weights(axis, request, bicubic_filter, scale, support, inverse, bound); break;
    default: fill_weights(axis, request, lanczos_filter, scale, support, inverse, bound); break;
    }
    return FPC_OK;
}

/* Pillow's nearest neighbour: one input per output. */
static int build_nearest(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes) {
    const int status = reserve(axis, request->window, 1, max_bytes);
    if (status != FPC_OK) return status;
    /* As _resize in Pillow's _imaging.c calls ImagingScaleAffine, which adds up the step in double. Pillow crops a
     * whole box of the outputs' size; the result is the same, as such sums are exact. */
    const float in0 = (float)request->box_start, in1 = (float)request->box_end;
    const double step = (double)(in1 - in0) / request->outputs;
    const int32_t end = request->window_start + request->window;
    double position = in0 + step * 0.5;
    for (int32_t output = 0; output < end; output++, position += step) {
        if (output < request->window_start) continue;
        const int32_t i = output - request->window_start;
        const int32_t place = request->mirrored_outputs ? request->window - 1 - i : i;
        axis->starts[place] = (int32_t)position;
        axis->counts[place] = 1;
    }
    axis->split = false;
    axis->most_taps = 1;
    /* Pillow leaves pixels outside of the image black; only sizes that are refused elsewhere could lead there */
    return FPC_OK;
}

static int build(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes) {
    axis->identity = changes_nothing(request);
    axis->has_lanes = false;
    if (request->filter == FPC_NEAREST) return build_nearest(axis, request, max_bytes);
    const int status =
        axis->identity ? build_identity(axis, request, max_bytes) : build_weights(axis, request, max_bytes);
    if (status == FPC_OK) split_weights(axis);
    return status;
}

static bool same(const fpc_axis_request *a, const fpc_axis_request *b) {
    return a->filter == b->filter && a->inputs == b->inputs && a->outputs == b->outputs &&
           a->box_start == b->box_start && a->box_end == b->box_end && a->window_start == b->window_start &&
           a->window == b->window && a->there_start == b->there_start && a->there == b->there &&
           a->mirrored_inputs == b->mirrored_inputs && a->mirrored_outputs == b->mirrored_outputs &&
           a->torch == b->torch;
}

int fpc_axis_build(fpc_axis *axis, const fpc_axis_request *request, int64_t max_bytes) {
    if (same(&axis->made, request) && axis->made_within == max_bytes) {
        fpc_axis_shift(axis, -axis->dropped);
        return FPC_OK;
    }
    axis->made = (fpc_axis_request){0}; /* equal to no request */
    if (!fits(request) || request->filter < FPC_NEAREST || request->filter > FPC_LANCZOS) return FPC_BAD_OPERATION;
    if (request->torch && request->filter != FPC_BILINEAR && request->filter != FPC_BICUBIC) return FPC_BAD_OPERATION;
    if (request->torch && (request->box_start != 0.0 || request->box_end != request->inputs)) return FPC_BAD_OPERATION;
    int status = build(axis, request, max_bytes);
    if (status == FPC_OK) status = locate(axis, request);
    if (status != FPC_OK) return status;
    axis->made = *request;
    axis->made_within = max_bytes;
    axis->dropped = 0;
    return FPC_OK;
}

void fpc_axis_shift(fpc_axis *axis, int32_t first) {
    for (int32_t i = 0; i < axis->outputs; i++) axis->starts[i] -= first;
    axis->first -= first;
    axis->end -= first;
    axis->dropped += first;
}

void fpc_axis_free(fpc_axis *axis) {
    fpc_buffer_free(&axis->memory);
    memset(axis, 0, sizeof *axis);
}
