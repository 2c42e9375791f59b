/* grid_sample_plain.h: the points of a grid and the pixels there, as torch's affine_grid and grid_sample compute them
 * in float32 (aten/src/ATen/native/cpu/GridSamplerKernel.cpp; align_corners=False, zeros outside). `fused`: as torch's
 * loops for AVX2 and AVX-512, which round a product and a sum once. */
#include <math.h>
#include <string.h>

/* a * b + c */
static inline float sample_sum(float a, float b, float c, bool fused) { return fused ? fmaf(a, b, c) : a * b + c; }

/* Positions in the image of `count` points from (row, column) on; the first pixel's middle is 0. Beyond the border of
 * zeros all positions are the same. */
static inline void sample_points(const fpc_grid_sample *sample, int32_t row, int32_t column, int32_t count, bool fused,
                                 float *xs, float *ys) {
    const float *grid = sample->grid, *theta = sample->theta;
    if (grid) {
        grid += 2 * ((int64_t)row * sample->out_width + column);
        for (int32_t k = 0; k < count; k++) {
            xs[k] = grid[2 * k];
            ys[k] = grid[2 * k + 1];
        }
    } else {
        const float y = (float)row - (float)(sample->out_height - 1) * 0.5f;
        const float left = (float)column - (float)(sample->out_width - 1) * 0.5f;
        const float x_start = y * theta[2], y_start = y * theta[3];
        for (int32_t k = 0; k < count; k++) {
            const float x = left + (float)k;
            xs[k] = x * theta[0] + x_start + theta[4];
            ys[k] = x * theta[1] + y_start + theta[5];
        }
    }
    const float width = (float)sample->width, height = (float)sample->height;
    for (int32_t k = 0; k < count; k++) {
        const float x = sample_sum(xs[k] + 1.0f, width * 0.5f, -0.5f, fused);
        const float y = sample_sum(ys[k] + 1.0f, height * 0.5f, -0.5f, fused);
        xs[k] = x > -2.0f ? (x < width ? x : width) : -2.0f; /* NaN becomes -2, too */
        ys[k] = y > -2.0f ? (y < height ? y : height) : -2.0f;
    }
}

/* The floor of a number that isn't below -2. */
static inline int32_t sample_floor(float x) { return (int32_t)(x + 2.0f) - 2 - ((float)((int32_t)(x + 2.0f) - 2) > x); }

/* Rounds a number between -2**22 and 2**22 to nearest, ties to even. */
static inline float sample_round(float x) { return x + 12582912.0f - 12582912.0f; }

static inline void sample_run_plain(const fpc_grid_sample *sample, const float *xs, const float *ys, int32_t count,
                                    bool fused, float (*rows)[FPC_GRID_SAMPLE_BLOCK]) {
    const int32_t stride = sample->width + 4, planes = sample->channels + sample->filled;
    for (int32_t k = 0; k < count; k++) {
        const int32_t left = sample_floor(xs[k]), top = sample_floor(ys[k]);
        const float w = xs[k] - (float)left, n = ys[k] - (float)top, e = 1.0f - w, s = 1.0f - n;
        const float nw = e * s, ne = w * s, sw = e * n, se = w * n;
        const uint32_t *at = sample->pixels + (int64_t)(top + 2) * stride + left + 2;
        for (int plane = 0; plane < planes; plane++) {
            const int bits = plane < sample->channels ? 8 * plane : 24, to = plane < sample->channels ? plane : 3;
            const float a = (float)(at[0] >> bits & 255), b = (float)(at[1] >> bits & 255);
            const float c = (float)(at[stride] >> bits & 255), d = (float)(at[stride + 1] >> bits & 255);
            rows[to][k] = sample_sum(d, se, sample_sum(c, sw, sample_sum(b, ne, a * nw, fused), fused), fused);
        }
    }
}

static inline void sample_nearest(const fpc_grid_sample *sample, const float *xs, const float *ys, int32_t count,
                                  float (*rows)[FPC_GRID_SAMPLE_BLOCK]) {
    const int32_t stride = sample->width + 4;
    for (int32_t k = 0; k < count; k++) {
        const int32_t x = (int32_t)sample_round(xs[k]), y = (int32_t)sample_round(ys[k]);
        const uint32_t pixel = sample->pixels[(int64_t)(y + 2) * stride + x + 2];
        for (int c = 0; c < sample->channels; c++) {
            rows[c][k] = sample->filled && !(pixel >> 24) ? sample->fill[c] : (float)(pixel >> 8 * c & 255);
        }
    }
}

typedef void sample_run(const fpc_grid_sample *sample, const float *xs, const float *ys, int32_t count, bool fused,
                        float (*rows)[FPC_GRID_SAMPLE_BLOCK]);

/* Samples one block of a row. */
static inline void sample_block(const fpc_grid_sample *sample, int32_t row, int32_t column, int32_t count, bool fused,
                                sample_run *run) {
    float xs[FPC_GRID_SAMPLE_BLOCK], ys[FPC_GRID_SAMPLE_BLOCK], rows[4][FPC_GRID_SAMPLE_BLOCK];
    sample_points(sample, row, column, count, fused, xs, ys);
    for (int32_t k = count; k % 8; k++) xs[k] = ys[k] = 0.0f; /* for kernels that take eight at once */
    if (sample->bilinear) {
        run(sample, xs, ys, count, fused, rows);
    } else {
        sample_nearest(sample, xs, ys, count, rows);
    }
    const float *inside = rows[3];
    for (int c = 0; c < sample->channels; c++) {
        const int64_t at = c * sample->plane + (int64_t)(row - sample->first_row) * sample->out_width + column;
        float *values = rows[c];
        if (sample->bilinear && sample->filled) {
            const float fill = sample->fill[c];
            if (sample->v2) {
                for (int32_t k = 0; k < count; k++) values[k] = (values[k] - fill) * inside[k] + fill;
            } else {
                for (int32_t k = 0; k < count; k++) values[k] = values[k] * inside[k] + (1.0f - inside[k]) * fill;
            }
        }
        if (sample->floats) {
            memcpy((float *)sample->out + at, values, (size_t)count * sizeof *values);
        } else {
            uint8_t *out = (uint8_t *)sample->out + at;
            for (int32_t k = 0; k < count; k++) out[k] = (uint8_t)(int32_t)sample_round(values[k]);
        }
    }
}

static inline void sample_rows(const fpc_grid_sample *sample, sample_run *run) {
    for (int32_t row = sample->first_row; row < sample->end_row; row++) {
        for (int32_t column = 0; column < sample->out_width; column += FPC_GRID_SAMPLE_BLOCK) {
            const int32_t rest = sample->out_width - column;
            const int32_t count = rest < FPC_GRID_SAMPLE_BLOCK ? rest : FPC_GRID_SAMPLE_BLOCK;
            if (sample->fused) {
                sample_block(sample, row, column, count, true, run);
            } else {
                sample_block(sample, row, column, count, false, run);
            }
        }
    }
}

#ifndef FPC_SIMD_AVX2
static void grid_sample(const fpc_grid_sample *sample) { sample_rows(sample, sample_run_plain); }
#endif
