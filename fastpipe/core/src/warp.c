/* warp.c: affine and perspective warps, as Pillow's Geometry.c does them: each pixel of the result shows a point of the
 * image, or the fill where that is outside. With the nearest pixel an affine warp has three ways of its own, as there:
 * without turning and shearing (positions are added up in float64), in fixed point, and else in float64. */
#include "stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill_pixels(const fpc_stage *stage, uint8_t *row, int64_t first, int64_t end) {
    const uint8_t *fill = stage->warp.fill;
    if (stage->channels == 1 || (fill[0] == fill[1] && fill[0] == fill[2])) {
        if (end > first) memset(row + first * stage->channels, fill[0], (size_t)((end - first) * stage->channels));
        return;
    }
    for (int64_t x = first; x < end; x++) memcpy(row + 3 * x, fill, 3);
}

/* ---- points in float64 ---- */

/* The pixel under a point; 1 where there is one. COORD in Geometry.c. */
static bool pixel_at(const fpc_warp *warp, double x, double y, int64_t *at) {
    if (!(x >= 0.0 && x < (double)warp->width && y >= 0.0 && y < (double)warp->height)) return false;
    *at = ((int64_t)y * warp->width + (int64_t)x) * warp->channels;
    return true;
}

static void nearest_row(const fpc_stage *stage, const double *xs, const double *ys, uint8_t *row) {
    int64_t at;
    if (stage->channels == 1) {
        for (int32_t x = 0; x < stage->width; x++) {
            row[x] = pixel_at(&stage->warp, xs[x], ys[x], &at) ? stage->image[at] : stage->warp.fill[0];
        }
        return;
    }
    for (int32_t x = 0; x < stage->width;
         x++, row += 3) { /* four bytes at once: the next pixel comes behind, or slack */
        memcpy(row, pixel_at(&stage->warp, xs[x], ys[x], &at) ? stage->image + at : stage->warp.fill, 4);
    }
}

static int next_warped(fpc_stage *stage, uint8_t *row) {
    double *xs = (double *)(void *)stage->rows.data, *ys = xs + stage->width;
    const bool perspective = stage->operation->kind == FPC_OP_PERSPECTIVE;
    stage->kernels->warp_points(stage->operation->d, perspective, stage->given, stage->width, xs, ys);
    switch (stage->operation->i[2]) {
    case FPC_BILINEAR: stage->kernels->warp_bilinear(&stage->warp, xs, ys, stage->width, row); break;
    case FPC_BICUBIC: stage->kernels->warp_bicubic(&stage->warp, xs, ys, stage->width, row); break;
    default: nearest_row(stage, xs, ys, row);
    }
    return FPC_OK;
}

/* An affine warp too large for fixed point: the points are added up. */
static int next_added_up(fpc_stage *stage, uint8_t *row) {
    const double *c = stage->operation->d;
    double *starts = (double *)(void *)stage->rows.data, *xs = starts + 2, *ys = xs + stage->width;
    if (stage->given == 0) {
        starts[0] = c[2] + c[1] * 0.5 + c[0] * 0.5;
        starts[1] = c[5] + c[4] * 0.5 + c[3] * 0.5;
    }
    double x_at = starts[0], y_at = starts[1];
    for (int32_t x = 0; x < stage->width; x++) {
        xs[x] = x_at;
        ys[x] = y_at;
        x_at += c[0];
        y_at += c[3];
    }
    nearest_row(stage, xs, ys, row);
    starts[0] += c[1];
    starts[1] += c[4];
    return FPC_OK;
}

/* ---- without turning and shearing ---- */

/* For each of `count` pixels of an axis its source, -1 outside; [*first, *end) are the ones inside. */
static void scaled_sources(double step, double offset, int32_t size, int32_t count, int32_t *sources, int32_t *first,
                           int32_t *end) {
    double at = offset + step * 0.5;
    *first = count;
    *end = 0;
    for (int32_t i = 0; i < count; i++, at += step) {
        const bool inside = at >= 0.0 && at < (double)size;
        sources[i] = inside ? (int32_t)at : -1;
        if (!inside) continue;
        if (i < *first) *first = i;
        *end = i + 1;
    }
}

static int next_scaled(fpc_stage *stage, uint8_t *row) {
    const int32_t *columns = (const int32_t *)(const void *)stage->rows.data, *rows = columns + stage->width;
    const int32_t y = rows[stage->given], first = stage->warp_first, end = stage->warp_end;
    const int64_t channels = stage->channels;
    if (y < 0 || first >= end) {
        fill_pixels(stage, row, 0, stage->width);
        return FPC_OK;
    }
    fill_pixels(stage, row, 0, first);
    const uint8_t *in = fpc_image_row(stage, y);
    if (stage->operation->d[0] == 1.0 && columns[end - 1] - columns[first] == end - 1 - first) {
        memcpy(row + first * channels, in + columns[first] * channels, (size_t)((end - first) * channels));
    } else if (channels == 1) {
        for (int32_t x = first; x < end; x++) row[x] = in[columns[x]];
    } else { /* four bytes at once: the next pixel, or slack, comes behind both */
        for (int32_t x = first; x < end; x++) memcpy(row + 3 * (int64_t)x, in + 3 * (int64_t)columns[x], 4);
    }
    fill_pixels(stage, row, end, stage->width);
    return FPC_OK;
}

static void start_scaled(fpc_stage *stage) {
    const double *c = stage->operation->d;
    int32_t *columns = (int32_t *)(void *)stage->rows.data, first, end;
    scaled_sources(c[4], c[5], stage->warp.height, stage->height, columns + stage->width, &first, &end);
    scaled_sources(c[0], c[2], stage->warp.width, stage->width, columns, &stage->warp_first, &stage->warp_end);
    stage->next = next_scaled;
}

/* ---- fixed point ---- */

/* FIX in Geometry.c: parts of 2**16, halves up; what is too large becomes the least number, as on x86. */
static int32_t fixed(double value) {
    const double parts = floor(value * 65536.0 + 0.5);
    return parts >= -2147483648.0 && parts <= 2147483647.0 ? (int32_t)parts : INT32_MIN;
}

/* check_fixed of a corner */
static bool fits(const double *c, int32_t x, int32_t y) {
    return fabs(x * c[0] + y * c[1] + c[2]) < 32768.0 && fabs(x * c[3] + y * c[4] + c[5]) < 32768.0;
}

static bool inside(int32_t at, int32_t size) { return at >= 0 && at >> 16 < size; }

/* Narrows [*first, *end) to the steps for which 0 <= at + step * k < size in parts of 2**16. */
static void narrow(int64_t at, int64_t step, int64_t size, int64_t *first, int64_t *end) {
    const int64_t limit = size << 16;
    int64_t low = 0, high = INT32_MAX; /* steps */
    if (step > 0) {
        low = at >= 0 ? 0 : (-at + step - 1) / step;
        high = at >= limit ? 0 : (limit - at + step - 1) / step;
    } else if (step < 0) {
        low = at < limit ? 0 : (at - limit) / -step + 1;
        high = at < 0 ? 0 : at / -step + 1;
    } else if (at < 0 || at >= limit) {
        high = 0;
    }
    if (low > *first) *first = low;
    if (high < *end) *end = high;
    if (*first > *end) *first = *end;
}

/* Pixels of a row side by side, which go up or down by dy parts of 2**16: copied as far as they are of one row. */
static void copy_runs(const fpc_warp *warp, int64_t x, int64_t y, int64_t dy, int64_t count, uint8_t *out) {
    const int64_t channels = warp->channels, stride = warp->width * channels;
    const uint8_t *in = warp->image + (x >> 16) * channels;
    for (int64_t k = 0; k < count;) {
        const int64_t at = y + dy * k, rest = at & 65535;
        const int64_t left = dy > 0 ? (65535 - rest) / dy + 1 : dy < 0 ? rest / -dy + 1 : count;
        const int64_t run = left < count - k ? left : count - k;
        memcpy(out + k * channels, in + (at >> 16) * stride + k * channels, (size_t)(run * channels));
        k += run;
    }
}

#define SHORTEST_RUN 8 /* pixels: shorter ones are sooner gathered */

static int next_fixed(fpc_stage *stage, uint8_t *row) {
    const int32_t *steps = (const int32_t *)(const void *)stage->rows.data, width = stage->width;
    const fpc_warp *warp = &stage->warp;
    const int64_t channels = stage->channels, dx = steps[0], dy = steps[3];
    /* Sums that wrap around, as those that Pillow adds up. */
    const uint32_t down = (uint32_t)stage->given;
    const int32_t x0 = (int32_t)((uint32_t)steps[2] + (uint32_t)steps[1] * down);
    const int32_t y0 = (int32_t)((uint32_t)steps[5] + (uint32_t)steps[4] * down);
    if (llabs(x0 + dx * width) <= INT32_MAX && llabs(y0 + dy * width) <= INT32_MAX) {
        int64_t first = 0, end = width;
        narrow(x0, dx, warp->width, &first, &end);
        narrow(y0, dy, warp->height, &first, &end);
        fill_pixels(stage, row, 0, first);
        const int64_t x = x0 + dx * first, y = y0 + dy * first;
        uint8_t *out = row + first * channels;
        if (dx == 65536 && llabs(dy) * SHORTEST_RUN <= 65536) {
            copy_runs(warp, x, y, dy, end - first, out);
        } else {
            stage->kernels->warp_fixed(warp, (int32_t)x, (int32_t)y, steps[0], steps[3], (int32_t)(end - first), out);
        }
        fill_pixels(stage, row, end, width);
        return FPC_OK;
    }
    for (uint32_t x = 0; x < (uint32_t)width; x++) {
        const int32_t xs = (int32_t)((uint32_t)x0 + (uint32_t)dx * x), ys = (int32_t)((uint32_t)y0 + (uint32_t)dy * x);
        fill_pixels(stage, row, x, (int64_t)x + 1);
        if (!inside(xs, warp->width) || !inside(ys, warp->height)) continue;
        const int64_t at = ((int64_t)(ys >> 16) * warp->width + (xs >> 16)) * channels;
        memcpy(row + x * channels, stage->image + at, (size_t)channels);
    }
    return FPC_OK;
}

/* Reads the image once in its order: across rows, as it is read then, no processor sees what comes next. */
static void warm(const fpc_stage *stage) {
    const int64_t bytes = (int64_t)stage->warp.height * stage->warp.width * stage->warp.channels;
    uint8_t sum = 0;
    for (int64_t i = 0; i < bytes; i += 64) sum ^= stage->image[i];
    volatile uint8_t seen = sum;
    (void)seen;
}

static void start_fixed(fpc_stage *stage) {
    warm(stage);
    const double *c = stage->operation->d;
    int32_t *steps = (int32_t *)(void *)stage->rows.data;
    for (int i = 0; i < 6; i++) steps[i] = fixed(c[i]);
    steps[2] = fixed(c[2] + c[0] * 0.5 + c[1] * 0.5);
    steps[5] = fixed(c[5] + c[3] * 0.5 + c[4] * 0.5);
    stage->next = next_fixed;
}

int fpc_stage_warp(fpc_stage *stage, fpc_images *images) {
    const fpc_operation *operation = stage->operation;
    const int32_t *i = operation->i;
    const double *c = operation->d;
    const bool affine = operation->kind == FPC_OP_AFFINE;
    if (i[0] < 1 || i[0] > FPC_LARGEST_SIDE || i[1] < 1 || i[1] > FPC_LARGEST_SIDE) return FPC_BAD_OPERATION;
    if (i[2] != FPC_NEAREST && i[2] != FPC_BILINEAR && i[2] != FPC_BICUBIC) return FPC_BAD_OPERATION;
    for (int k = 0; k < (affine ? 6 : 8); k++) {
        if (!isfinite(c[k])) return FPC_BAD_OPERATION;
    }
    for (int32_t channel = 0; channel < stage->channels; channel++) {
        if (i[3 + channel] < 0 || i[3 + channel] > 255) return FPC_BAD_OPERATION;
        stage->warp.fill[channel] = (uint8_t)i[3 + channel];
    }
    stage->warp.height = stage->height;
    stage->warp.width = stage->width;
    stage->warp.channels = stage->channels;
    stage->height = i[0];
    stage->width = i[1];
    /* two doubles a column and two more, or an int32 a column and row */
    const int64_t bytes = 16 * ((int64_t)stage->width + 1) + 4 * (int64_t)stage->height + 32;
    if (images->max_bytes > 0 && bytes > images->max_bytes) return FPC_TOO_LARGE;
    if (!fpc_buffer_need(&stage->rows, (size_t)bytes)) return FPC_NO_MEMORY;
    const int32_t height = stage->height, width = stage->width;
    const bool nearest = affine && i[2] == FPC_NEAREST, scaled = nearest && c[1] == 0.0 && c[3] == 0.0;
    const bool in_fixed_point =
        nearest && !scaled && fits(c, 0, 0) && fits(c, width, height) && fits(c, 0, height) && fits(c, width, 0);
    /* These read nothing behind the image, the others a few bytes. */
    const int status =
        scaled || in_fixed_point ? fpc_borrow_image(stage, images) : fpc_materialize_image(stage, images);
    if (status != FPC_OK) return status;
    stage->warp.image = stage->image;
    if (scaled) {
        start_scaled(stage);
    } else if (in_fixed_point) {
        start_fixed(stage);
    } else {
        stage->next = nearest ? next_added_up : next_warped;
    }
    return FPC_OK;
}
