/* torch_blur.c: FPC_OP_TORCH_BLUR: torchvision's gaussian_blur. Its float sums are torch's wherever another order of
 * addition could round differently (torch_blur.h). */
#include "torch_blur.h"

#include <math.h>
#include <string.h>

#include "operations.h"

#define FLOAT_SLACK 64 /* floats after a row, which kernels read and write */
#define UNIT 0x1p-24   /* the largest relative change by rounding to float32 */
#define LARGEST_VALUE 255.0
#define MOST_WEIGHT 1.0005 /* the largest sum of weights: values to round stay below 255.5 */

typedef struct torch_blur {
    fpc_stage stage;
    int32_t columns, rows; /* of the kernel */
    int32_t pulled;        /* input rows read so far */
    float margin;
    float *along, *down, *weights; /* the kernel's factors, and their products */
    uint8_t *row;                  /* a row of the input, mirrored at its ends */
    float *sums;
    int32_t *doubtful;
    const float **taps;
    /* Rings with as many rows as the kernel: of the input as floats, and of the results of the pass along rows. */
    float *wide, *passed;
    int64_t wide_stride, passed_stride;
} torch_blur;

/* A position mirrored at the first and the last position, which aren't repeated. */
static int32_t mirrored(int32_t place, int32_t size) {
    if (place < 0) place = -place;
    return place < size ? place : 2 * (size - 1) - place;
}

/* The largest difference between torch's sum and that of two passes. A rounding changes a sum by at most half a unit of
 * the sum so far; if a product is added, as in torch's sums, by at most that product. Every weight may be multiplied by
 * the largest value. */
static float margin_of(const torch_blur *blur) {
    double exact = 0.0, added = 0.0;
    const int64_t count = (int64_t)blur->rows * blur->columns;
    for (int64_t i = 0; i < count; i++) {
        const double weight = (double)blur->weights[i];
        added += weight;
        exact += weight < added * UNIT ? weight : added * UNIT;
    }
    const double passes = UNIT * (blur->rows + blur->columns + 8); /* including the roundings of products */
    return (float)((exact + passes) * LARGEST_VALUE * 1.01);
}

/* True if the weights are those of a mean: from 0 to 1, with a sum of at most MOST_WEIGHT. */
static bool are_weights(const float *weights, int32_t count) {
    double sum = 0.0;
    for (int32_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0.0f && weights[i] <= 1.0f)) return false;
        sum += (double)weights[i];
    }
    return sum <= MOST_WEIGHT;
}

/* Reads one row, converts it to floats, and runs the pass along it. */
static int pull_input(torch_blur *blur) {
    fpc_stage *stage = &blur->stage;
    const int32_t channels = stage->channels, side = blur->columns / 2;
    const int64_t bytes = (int64_t)stage->width * channels, slot = blur->pulled % blur->rows;
    uint8_t *const row = blur->row + (int64_t)side * channels;
    float *const wide = blur->wide + slot * blur->wide_stride;
    const int status = fpc_pull_row(stage->from, row);
    if (status != FPC_OK) return status;
    for (int32_t x = 1; x <= side; x++) {
        const int64_t before = -(int64_t)x * channels, behind = bytes + (int64_t)(x - 1) * channels;
        for (int32_t c = 0; c < channels; c++) {
            row[before + c] = row[(int64_t)x * channels + c];
            row[behind + c] = row[(int64_t)(stage->width - 1 - x) * channels + c];
        }
    }
    stage->kernels->bytes_to_floats(blur->row, bytes + 2 * (int64_t)side * channels, wide);
    for (int32_t tap = 0; tap < blur->columns; tap++) blur->taps[tap] = wide + (int64_t)tap * channels;
    const fpc_weighing along = {blur->taps, blur->along, blur->columns, bytes};
    stage->kernels->weigh_rows(&along, blur->passed + slot * blur->passed_stride);
    blur->pulled++;
    return FPC_OK;
}

static void point_to(torch_blur *blur, const float *ring, int64_t stride) {
    const fpc_stage *stage = &blur->stage;
    for (int32_t i = 0; i < blur->rows; i++) {
        const int32_t y = mirrored(stage->given - blur->rows / 2 + i, stage->height);
        blur->taps[i] = ring + y % blur->rows * stride;
    }
}

static int next_torch_blurred(fpc_stage *stage, uint8_t *row) {
    torch_blur *blur = (torch_blur *)stage;
    const int64_t bytes = (int64_t)stage->width * stage->channels, last = (int64_t)stage->given + blur->rows / 2;
    while (blur->pulled < stage->height && blur->pulled <= last) {
        const int status = pull_input(blur);
        if (status != FPC_OK) return status;
    }
    point_to(blur, blur->passed, blur->passed_stride);
    const fpc_weighing down = {blur->taps, blur->down, blur->rows, bytes};
    const int32_t doubtful = stage->kernels->weigh_to_bytes(&down, blur->margin, blur->sums, row, blur->doubtful);
    if (doubtful == 0) return FPC_OK;
    point_to(blur, blur->wide, blur->wide_stride);
    const fpc_exact_weighing exact = {blur->taps, blur->weights, blur->rows, blur->columns, stage->channels};
    stage->kernels->weigh_exactly(&exact, blur->doubtful, doubtful, row);
    return FPC_OK;
}

/* Lays out the stage's rows in `memory`, which may be NULL; returns the bytes needed. */
static int64_t lay_out(torch_blur *blur, uint8_t *memory) {
    const fpc_stage *stage = &blur->stage;
    const int64_t values = (int64_t)stage->width * stage->channels, floats = sizeof(float);
    const int64_t wide = values + (int64_t)(blur->columns - 1) * stage->channels;
    const int64_t most_taps = blur->rows > blur->columns ? blur->rows : blur->columns;
    int64_t at = 0;
    blur->wide_stride = (wide + FLOAT_SLACK + 15) & ~(int64_t)15;
    blur->passed_stride = (values + FLOAT_SLACK + 15) & ~(int64_t)15;
    blur->taps = fpc_lay_out(memory, &at, most_taps * (int64_t)sizeof(float *));
    blur->along = fpc_lay_out(memory, &at, blur->columns * floats);
    blur->down = fpc_lay_out(memory, &at, blur->rows * floats);
    blur->weights = fpc_lay_out(memory, &at, (int64_t)blur->rows * blur->columns * floats);
    blur->row = fpc_lay_out(memory, &at, wide + FPC_ROW_SLACK);
    blur->sums = fpc_lay_out(memory, &at, (values + FLOAT_SLACK) * floats);
    blur->doubtful =
        fpc_lay_out(memory, &at, ((values + FLOAT_SLACK) / FPC_DOUBT_GROUP + 1) * (int64_t)sizeof(int32_t));
    blur->wide = fpc_lay_out(memory, &at, blur->rows * blur->wide_stride * floats);
    blur->passed = fpc_lay_out(memory, &at, blur->rows * blur->passed_stride * floats);
    return at;
}

int fpc_add_torch_blur(fpc_chain *chain, const fpc_operation *operation) {
    const fpc_op_torch_blur *given = &operation->torch_blur;
    torch_blur *blur = fpc_chain_add(chain, sizeof *blur, next_torch_blurred);
    if (!blur) return FPC_NO_MEMORY;
    fpc_stage *stage = &blur->stage;
    const int32_t columns = given->columns, rows = given->rows;
    if (!given->weights || !fpc_kernel_fits(columns, rows, stage->width, stage->height)) return FPC_BAD_OPERATION;
    if (!are_weights(given->weights, columns) || !are_weights(given->weights + columns, rows)) return FPC_BAD_OPERATION;
    blur->columns = columns;
    blur->rows = rows;
    const int64_t bytes = lay_out(blur, NULL);
    if ((chain->max_bytes > 0 && bytes > chain->max_bytes) || (uint64_t)bytes > SIZE_MAX) return FPC_TOO_LARGE;
    uint8_t *memory = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    if (!memory) return FPC_NO_MEMORY;
    memset(memory, 0, (size_t)bytes); /* the slack after a row is read and rounded as its values are */
    lay_out(blur, memory);
    memcpy(blur->along, given->weights, (size_t)columns * sizeof(float));
    memcpy(blur->down, given->weights + columns, (size_t)rows * sizeof(float));
    fpc_kernel_weights(given->weights, columns, rows, blur->weights);
    blur->margin = margin_of(blur);
    return FPC_OK;
}
