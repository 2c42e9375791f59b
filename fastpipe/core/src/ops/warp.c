/* warp.c: affine and perspective warps, as in Pillow's Geometry.c: each pixel of the result shows a point of the image,
 * or the fill if the point is outside. As in Pillow, affine warps with FPC_NEAREST have three methods: without rotation
 * and shear (positions are added up in float64), in fixed point, and otherwise in float64. */
#include "operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct warp_stage {
    fpc_stage stage;
    fpc_image image; /* the input; `source` has the same image */
    fpc_warp_source source;
    int32_t filter;
    bool perspective;
    double coefficients[8];
    uint8_t *scratch;   /* what the methods below keep for a row, or from row to row */
    int32_t first, end; /* next_scaled: the columns that show a part of the image */
} warp_stage;

static const warp_stage *warp_of(const fpc_stage *stage) { return (const warp_stage *)stage; }

static void fill_pixels(const fpc_stage *stage, uint8_t *row, int64_t first, int64_t end) {
    const uint8_t *fill = warp_of(stage)->source.fill;
    if (stage->channels == 4) {
        for (int64_t x = first; x < end; x++) memcpy(row + 4 * x, fill, 4);
    } else if (stage->channels == 1 || (fill[0] == fill[1] && fill[0] == fill[2])) {
        if (end > first) memset(row + first * stage->channels, fill[0], (size_t)((end - first) * stage->channels));
    } else {
        for (int64_t x = first; x < end; x++) memcpy(row + 3 * x, fill, 3);
    }
}

/* ---- points in float64 ---- */

/* Finds the pixel that contains a point; false if it is outside. COORD in Geometry.c. */
static bool pixel_at(const fpc_warp_source *warp, double x, double y, int64_t *at) {
    if (!(x >= 0.0 && x < (double)warp->width && y >= 0.0 && y < (double)warp->height)) return false;
    *at = ((int64_t)y * warp->width + (int64_t)x) * warp->channels;
    return true;
}

static void nearest_row(const fpc_stage *stage, const double *xs, const double *ys, uint8_t *row) {
    const fpc_warp_source *source = &warp_of(stage)->source;
    int64_t at;
    if (stage->channels == 1) {
        for (int32_t x = 0; x < stage->width; x++) {
            row[x] = pixel_at(source, xs[x], ys[x], &at) ? source->image[at] : source->fill[0];
        }
        return;
    }
    /* four bytes at once: after three bytes comes the next pixel, or slack */
    const int32_t step = stage->channels;
    for (int32_t x = 0; x < stage->width; x++, row += step) {
        memcpy(row, pixel_at(source, xs[x], ys[x], &at) ? source->image + at : source->fill, 4);
    }
}

static int next_warped(fpc_stage *stage, uint8_t *row) {
    const warp_stage *warp = warp_of(stage);
    double *xs = (double *)(void *)warp->scratch, *ys = xs + stage->width;
    stage->kernels->warp_points(warp->coefficients, warp->perspective, stage->given, stage->width, xs, ys);
    switch (warp->filter) {
    case FPC_BILINEAR: stage->kernels->warp_bilinear(&warp->source, xs, ys, stage->width, row); break;
    case FPC_BICUBIC: stage->kernels->warp_bicubic(&warp->source, xs, ys, stage->width, row); break;
    default: nearest_row(stage, xs, ys, row);
    }
    return FPC_OK;
}

/* Gives the next row of an affine warp that is too large for fixed point: points are computed by repeated addition. */
static int next_added_up(fpc_stage *stage, uint8_t *row) {
    const double *c = warp_of(stage)->coefficients;
    double *starts = (double *)(void *)warp_of(stage)->scratch, *xs = starts + 2, *ys = xs + stage->width;
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

/* ---- without rotation and shear ---- */

/* Finds the source of each of `count` pixels of an axis, -1 outside; the pixels inside are [*first, *end). */
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
    const warp_stage *warp = warp_of(stage);
    const int32_t *columns = (const int32_t *)(const void *)warp->scratch, *rows = columns + stage->width;
    const int32_t y = rows[stage->given], first = warp->first, end = warp->end;
    const int64_t channels = stage->channels;
    if (y < 0 || first >= end) {
        fill_pixels(stage, row, 0, stage->width);
        return FPC_OK;
    }
    fill_pixels(stage, row, 0, first);
    const uint8_t *in = fpc_image_row(&warp->image, y);
    if (warp->coefficients[0] == 1.0 && columns[end - 1] - columns[first] == end - 1 - first) {
        memcpy(row + first * channels, in + columns[first] * channels, (size_t)((end - first) * channels));
    } else if (channels == 1) {
        for (int32_t x = first; x < end; x++) row[x] = in[columns[x]];
    } else if (channels == 4) {
        for (int32_t x = first; x < end; x++) memcpy(row + 4 * (int64_t)x, in + 4 * (int64_t)columns[x], 4);
    } else { /* four bytes at once: after both comes the next pixel, or slack */
        for (int32_t x = first; x < end; x++) memcpy(row + 3 * (int64_t)x, in + 3 * (int64_t)columns[x], 4);
    }
    fill_pixels(stage, row, end, stage->width);
    return FPC_OK;
}

static void start_scaled(warp_stage *warp) {
    const double *c = warp->coefficients;
    const int32_t height = warp->stage.height, width = warp->stage.width;
    int32_t *columns = (int32_t *)(void *)warp->scratch, first, end;
    scaled_sources(c[4], c[5], warp->source.height, height, columns + width, &first, &end);
    scaled_sources(c[0], c[2], warp->source.width, width, columns, &warp->first, &warp->end);
    warp->stage.next = next_scaled;
}

/* ---- fixed point ---- */

/* FIX in Geometry.c: units of 1 / 2**16, halves rounded up; too large numbers become the lowest one, as on x86. */
static int32_t fixed(double value) {
    const double parts = floor(value * 65536.0 + 0.5);
    return parts >= -2147483648.0 && parts <= 2147483647.0 ? (int32_t)parts : INT32_MIN;
}

/* check_fixed of a corner */
static bool fits(const double *c, int32_t x, int32_t y) {
    return fabs(x * c[0] + y * c[1] + c[2]) < 32768.0 && fabs(x * c[3] + y * c[4] + c[5]) < 32768.0;
}

static bool inside(int32_t at, int32_t size) { return at >= 0 && at >> 16 < size; }

/* Narrows [*first, *end) to the steps k with 0 <= at + step * k < size, in units of 1 / 2**16. */
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

/* Copies adjacent pixels, whose y changes by dy (in units of 1 / 2**16) per pixel, in runs that lie in one row. */
static void copy_runs(const fpc_warp_source *warp, int64_t x, int64_t y, int64_t dy, int64_t count, uint8_t *out) {
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

#define SHORTEST_RUN 8 /* pixels; shorter runs are gathered faster */

static int next_fixed(fpc_stage *stage, uint8_t *row) {
    const int32_t *steps = (const int32_t *)(const void *)warp_of(stage)->scratch, width = stage->width;
    const fpc_warp_source *warp = &warp_of(stage)->source;
    const int64_t channels = stage->channels, dx = steps[0], dy = steps[3];
    /* These sums wrap around, as Pillow's do. */
    const uint32_t line = (uint32_t)stage->given;
    const int32_t x0 = (int32_t)((uint32_t)steps[2] + (uint32_t)steps[1] * line);
    const int32_t y0 = (int32_t)((uint32_t)steps[5] + (uint32_t)steps[4] * line);
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
        memcpy(row + x * channels, warp->image + at, (size_t)channels);
    }
    return FPC_OK;
}

/* Reads the image once in memory's order to bring it into the cache: processors can't predict the warp's accesses. */
static void warm(const fpc_warp_source *source) {
    const int64_t bytes = (int64_t)source->height * source->width * source->channels;
    uint8_t sum = 0;
    for (int64_t i = 0; i < bytes; i += 64) sum ^= source->image[i];
    volatile uint8_t seen = sum;
    (void)seen;
}

static void start_fixed(warp_stage *warp) {
    warm(&warp->source);
    const double *c = warp->coefficients;
    int32_t *steps = (int32_t *)(void *)warp->scratch;
    for (int i = 0; i < 6; i++) steps[i] = fixed(c[i]);
    steps[2] = fixed(c[2] + c[0] * 0.5 + c[1] * 0.5);
    steps[5] = fixed(c[5] + c[3] * 0.5 + c[4] * 0.5);
    warp->stage.next = next_fixed;
}

/* ---- the choice of a method ---- */

static bool is_side(int32_t side) { return side >= 1 && side <= FPC_LARGEST_SIDE; }

/* Copies the arguments; false if they are invalid. */
static bool take_arguments(warp_stage *warp, const fpc_operation *operation) {
    const fpc_op_warp *given = &operation->warp;
    fpc_stage *stage = &warp->stage;
    warp->perspective = operation->kind == FPC_OP_PERSPECTIVE;
    warp->filter = given->filter;
    if (!is_side(given->height) || !is_side(given->width)) return false;
    if (given->filter != FPC_NEAREST && given->filter != FPC_BILINEAR && given->filter != FPC_BICUBIC) return false;
    for (int k = 0; k < (warp->perspective ? 8 : 6); k++) {
        if (!isfinite(given->coefficients[k])) return false;
        warp->coefficients[k] = given->coefficients[k];
    }
    for (int32_t channel = 0; channel < (stage->channels == 1 ? 1 : 4); channel++) {
        if (given->fill[channel] < 0 || given->fill[channel] > 255) return false;
        warp->source.fill[channel] = (uint8_t)given->fill[channel];
    }
    warp->source.height = stage->height;
    warp->source.width = stage->width;
    warp->source.channels = stage->channels;
    stage->height = given->height;
    stage->width = given->width;
    return true;
}

int fpc_add_warp(fpc_chain *chain, const fpc_operation *operation) {
    warp_stage *warp = fpc_chain_add(chain, sizeof *warp, next_warped);
    if (!warp) return FPC_NO_MEMORY;
    fpc_stage *stage = &warp->stage;
    if (!take_arguments(warp, operation)) return FPC_BAD_OPERATION;
    const int32_t height = stage->height, width = stage->width;
    /* two doubles per column and two more, or an int32 per column and row */
    const int64_t bytes = 16 * ((int64_t)width + 1) + 4 * (int64_t)height + 32;
    if (chain->max_bytes > 0 && bytes > chain->max_bytes) return FPC_TOO_LARGE;
    warp->scratch = fpc_buffer_need(&stage->slot->rows, (size_t)bytes);
    if (!warp->scratch) return FPC_NO_MEMORY;
    const double *c = warp->coefficients;
    const bool nearest = !warp->perspective && warp->filter == FPC_NEAREST;
    const bool scaled = nearest && c[1] == 0.0 && c[3] == 0.0;
    const bool in_fixed_point =
        nearest && !scaled && fits(c, 0, 0) && fits(c, width, height) && fits(c, 0, height) && fits(c, width, 0);
    /* These two read nothing after the image; the other methods read a few bytes. */
    const bool borrows = scaled || in_fixed_point;
    const int status =
        borrows ? fpc_borrow_image(chain, stage, &warp->image) : fpc_materialize_image(chain, stage, &warp->image);
    if (status != FPC_OK) return status;
    warp->source.image = warp->image.rows;
    if (scaled) {
        start_scaled(warp);
    } else if (in_fixed_point) {
        start_fixed(warp);
    } else if (nearest) {
        stage->next = next_added_up;
    }
    return FPC_OK;
}
