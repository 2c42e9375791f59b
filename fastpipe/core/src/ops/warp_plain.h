/* warp_plain.h: points of an image, and interpolation between pixels, as in Pillow's Geometry.c: in float64; pixel 0
 * extends from 0 to 1. */
#include <stdint.h>
#include <string.h>

static void warp_points(const double *c, bool perspective, int32_t y, int32_t count, double *xs, double *ys) {
    const double y_center = (double)y + 0.5, x_start = c[1] * y_center, y_start = c[4] * y_center;
    for (int32_t x = 0; x < count; x++) {
        const double x_center = (double)x + 0.5;
        xs[x] = c[0] * x_center + x_start + c[2];
        ys[x] = c[3] * x_center + y_start + c[5];
    }
    if (!perspective) return;
    for (int32_t x = 0; x < count; x++) {
        const double depth = c[6] * ((double)x + 0.5) + c[7] * y_center + 1.0;
        xs[x] /= depth;
        ys[x] /= depth;
    }
}

/* A point's neighbours. */
typedef struct warp_place {
    int32_t x, y; /* the pixel whose center is left of and above the point; at least -1 */
    double dx, dy;
} warp_place;

enum { WARP_OUTSIDE, WARP_INSIDE, WARP_NOWHERE };

/* Finds a point's neighbours. WARP_NOWHERE for NaN (0 / 0), which passes Pillow's comparisons, and then becomes 0. */
static inline int warp_find(const fpc_warp_source *warp, double x, double y, warp_place *place) {
    if (x < 0.0 || x >= (double)warp->width || y < 0.0 || y >= (double)warp->height) return WARP_OUTSIDE;
    if (x != x || y != y) return WARP_NOWHERE;
    x -= 0.5;
    y -= 0.5;
    place->x = x < 0.0 ? -1 : (int32_t)x;
    place->y = y < 0.0 ? -1 : (int32_t)y;
    place->dx = x - (double)place->x;
    place->dy = y - (double)place->y;
    return WARP_INSIDE;
}

static inline int32_t warp_clip(int32_t i, int32_t size) { return i < 0 ? 0 : i < size ? i : size - 1; }

static inline const uint8_t *warp_row(const fpc_warp_source *warp, int32_t y) {
    return warp->image + (int64_t)warp_clip(y, warp->height) * warp->width * warp->channels;
}

static inline double warp_line(double a, double b, double d) { return a + (b - a) * d; }

static inline void warp_bilinear_pixel(const fpc_warp_source *warp, const warp_place *place, uint8_t *out) {
    const int32_t channels = warp->channels;
    const uint8_t *upper = warp_row(warp, place->y), *lower = warp_row(warp, place->y + 1);
    const int64_t left = (int64_t)warp_clip(place->x, warp->width) * channels;
    const int64_t right = (int64_t)warp_clip(place->x + 1, warp->width) * channels;
    for (int32_t c = 0; c < channels; c++) {
        const double above = warp_line(upper[left + c], upper[right + c], place->dx);
        const double below = warp_line(lower[left + c], lower[right + c], place->dx);
        out[c] = (uint8_t)warp_line(above, below, place->dy);
    }
}

static inline double warp_cubic(double a, double b, double c, double d, double t) {
    const double p2 = -a + c, p3 = 2.0 * (a - b) + c - d, p4 = -a + b - c + d;
    return b + t * (p2 + t * (p3 + t * p4));
}

static inline void warp_bicubic_pixel(const fpc_warp_source *warp, const warp_place *place, uint8_t *out) {
    const int32_t channels = warp->channels;
    int64_t x[4];
    for (int i = 0; i < 4; i++) x[i] = (int64_t)warp_clip(place->x - 1 + i, warp->width) * channels;
    for (int32_t c = 0; c < channels; c++) {
        double v[4];
        for (int i = 0; i < 4; i++) {
            const uint8_t *row = warp_row(warp, place->y - 1 + i) + c;
            v[i] = warp_cubic(row[x[0]], row[x[1]], row[x[2]], row[x[3]], place->dx);
        }
        const double value = warp_cubic(v[0], v[1], v[2], v[3], place->dy);
        out[c] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
    }
}

/* Writes `pixel` for each point inside of the image. */
#define WARP_ROW(pixel)                                                                                                \
    for (int32_t x = 0; x < count; x++, out += warp->channels) {                                                       \
        warp_place place;                                                                                              \
        const int where = warp_find(warp, xs[x], ys[x], &place);                                                       \
        if (where == WARP_INSIDE) {                                                                                    \
            pixel(warp, &place, out);                                                                                  \
        } else {                                                                                                       \
            for (int32_t c = 0; c < warp->channels; c++) out[c] = where == WARP_OUTSIDE ? warp->fill[c] : 0;           \
        }                                                                                                              \
    }

/* Adds 32-bit numbers that wrap around, as Pillow's do in its builds. */
static inline int32_t warp_step(int32_t at, int32_t by, int32_t times) {
    return (int32_t)((uint32_t)at + (uint32_t)by * (uint32_t)times);
}

static inline void warp_fixed_plain(const fpc_warp_source *warp, int32_t x, int32_t y, int32_t dx, int32_t dy,
                                    int32_t first, int32_t count, uint8_t *out) {
    const uint8_t *const image = warp->image; /* a copy, as compilers can't know that `out` isn't in `warp` */
    const int64_t channels = warp->channels, stride = warp->width * channels;
#define WARP_PIXELS(size)                                                                                              \
    for (int32_t k = first; k < count; k++) {                                                                          \
        const int64_t at = (warp_step(y, dy, k) >> 16) * stride + (warp_step(x, dx, k) >> 16) * (int64_t)(size);       \
        memcpy(out + k * (int64_t)(size), image + at, size);                                                           \
    }
    if (channels == 4) {
        WARP_PIXELS(4)
    } else if (channels == 3) {
        WARP_PIXELS(3)
    } else {
        WARP_PIXELS(1)
    }
#undef WARP_PIXELS
}

#ifndef FPC_SIMD_H
static void warp_fixed(const fpc_warp_source *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out) {
    warp_fixed_plain(warp, x, y, dx, dy, 0, count, out);
}

static void warp_bilinear(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count,
                          uint8_t *out) {
    WARP_ROW(warp_bilinear_pixel)
}

static void warp_bicubic(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    WARP_ROW(warp_bicubic_pixel)
}
#endif
