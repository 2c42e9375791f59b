/* warp_simd.h: pixels of three channels between pixels, a channel in each of four float64; the rest as in plain C. */
#include "warp_plain.h"

#if defined(FPC_SIMD_AVX2)
SIMD __m128i warp_load(const uint8_t *pixel) { /* four bytes: another pixel's, or slack, is behind */
    int32_t bytes;
    memcpy(&bytes, pixel, sizeof bytes);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
}

/* Cut off, and four bytes written. */
SIMD void warp_store(uint8_t *out, __m256d value) {
    const __m128i whole = _mm_packs_epi32(_mm256_cvttpd_epi32(value), _mm_setzero_si128());
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(whole, whole));
    memcpy(out, &bytes, sizeof bytes);
}

SIMD __m256d warp_between(const uint8_t *left, const uint8_t *right, __m256d d) {
    const __m128i a = warp_load(left), b = warp_load(right);
    const __m256d rise = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm_sub_epi32(b, a)), d);
    return _mm256_add_pd(_mm256_cvtepi32_pd(a), rise);
}

/* A point whose neighbours are all inside, `margin` pixels before it and one more behind: where the first one is, and what
 * is left of the point; NULL for all other points. */
SIMD const uint8_t *warp_inner(const fpc_warp *warp, double x, double y, int margin, __m128d *rest) {
    const __m128d point = _mm_sub_pd(_mm_setr_pd(x, y), _mm_set1_pd(0.5));
    const __m128i whole = _mm_cvttpd_epi32(point);
    const int64_t left = (int64_t)_mm_cvtsi128_si32(whole) - margin,
                  top = (int64_t)_mm_extract_epi32(whole, 1) - margin;
    const bool inner =
        left >= 0 && left < warp->width - 1 - 2 * margin && top >= 0 && top < warp->height - 1 - 2 * margin;
    if (!inner || _mm_movemask_pd(_mm_cmplt_pd(point, _mm_setzero_pd()))) return NULL;
    *rest = _mm_sub_pd(point, _mm_cvtepi32_pd(whole));
    return warp->image + 3 * (top * warp->width + left);
}

SIMD void warp_bilinear_at(const uint8_t *upper, const uint8_t *lower, int64_t right, __m256d dx, __m256d dy,
                           uint8_t *out) {
    const __m256d above = warp_between(upper, upper + right, dx), below = warp_between(lower, lower + right, dx);
    warp_store(out, _mm256_add_pd(above, _mm256_mul_pd(_mm256_sub_pd(below, above), dy)));
}

SIMD void warp_bilinear_rgb(const fpc_warp *warp, const warp_place *place, uint8_t *out) {
    const int64_t left = 3 * (int64_t)warp_clip(place->x, warp->width);
    const int64_t right = 3 * (int64_t)warp_clip(place->x + 1, warp->width) - left;
    warp_bilinear_at(warp_row(warp, place->y) + left, warp_row(warp, place->y + 1) + left, right,
                     _mm256_set1_pd(place->dx), _mm256_set1_pd(place->dy), out);
}

SIMD __m256d warp_polynomial(__m256d p1, __m256d p2, __m256d p3, __m256d p4, __m256d t) {
    const __m256d inner = _mm256_add_pd(p3, _mm256_mul_pd(t, p4));
    return _mm256_add_pd(p1, _mm256_mul_pd(t, _mm256_add_pd(p2, _mm256_mul_pd(t, inner))));
}

/* warp_cubic of a row's bytes: sums of whole numbers, which are exact in any order. */
SIMD __m256d warp_cubic_row(const uint8_t *row, const int64_t *x, __m256d t) {
    const __m128i a = warp_load(row + x[0]), b = warp_load(row + x[1]);
    const __m128i c = warp_load(row + x[2]), d = warp_load(row + x[3]);
    const __m128i p2 = _mm_sub_epi32(c, a), ab = _mm_sub_epi32(a, b), cd = _mm_sub_epi32(c, d);
    const __m128i p3 = _mm_add_epi32(_mm_add_epi32(ab, ab), cd);
    const __m128i p4 = _mm_sub_epi32(_mm_setzero_si128(), _mm_add_epi32(ab, cd));
    return warp_polynomial(_mm256_cvtepi32_pd(b), _mm256_cvtepi32_pd(p2), _mm256_cvtepi32_pd(p3),
                           _mm256_cvtepi32_pd(p4), t);
}

SIMD void warp_bicubic_at(const uint8_t *const rows[4], const int64_t *x, __m256d dx, __m256d dy, uint8_t *out) {
    const __m256d a = warp_cubic_row(rows[0], x, dx), b = warp_cubic_row(rows[1], x, dx);
    const __m256d c = warp_cubic_row(rows[2], x, dx), d = warp_cubic_row(rows[3], x, dx);
    /* in warp_cubic's order; b - a is -a + b */
    const __m256d twice = _mm256_mul_pd(_mm256_set1_pd(2.0), _mm256_sub_pd(a, b));
    const __m256d p3 = _mm256_sub_pd(_mm256_add_pd(twice, c), d);
    const __m256d p4 = _mm256_add_pd(_mm256_sub_pd(_mm256_sub_pd(b, a), c), d);
    warp_store(out, warp_polynomial(b, _mm256_sub_pd(c, a), p3, p4, dy));
}

SIMD void warp_bicubic_rgb(const fpc_warp *warp, const warp_place *place, uint8_t *out) {
    int64_t x[4];
    const uint8_t *rows[4];
    for (int i = 0; i < 4; i++) {
        x[i] = 3 * (int64_t)warp_clip(place->x - 1 + i, warp->width);
        rows[i] = warp_row(warp, place->y - 1 + i);
    }
    warp_bicubic_at(rows, x, _mm256_set1_pd(place->dx), _mm256_set1_pd(place->dy), out);
}

/* WARP_ROW(pixel) for three channels, with a short way for points that are inner ones. */
#define WARP_ROW_RGB(pixel, margin, inner_pixel)                                                                       \
    for (int32_t k = 0; k < count; k++) {                                                                              \
        __m128d rest;                                                                                                  \
        const uint8_t *at = warp_inner(warp, xs[k], ys[k], margin, &rest);                                             \
        if (at) {                                                                                                      \
            const __m256d dx = _mm256_broadcastsd_pd(rest);                                                            \
            const __m256d dy = _mm256_broadcastsd_pd(_mm_unpackhi_pd(rest, rest));                                     \
            inner_pixel;                                                                                               \
        } else {                                                                                                       \
            warp_place place;                                                                                          \
            const int where = warp_find(warp, xs[k], ys[k], &place);                                                   \
            if (where == WARP_INSIDE) {                                                                                \
                pixel(warp, &place, out);                                                                              \
            } else {                                                                                                   \
                for (int c = 0; c < 3; c++) out[c] = where == WARP_OUTSIDE ? warp->fill[c] : 0;                        \
            }                                                                                                          \
        }                                                                                                              \
        out += 3;                                                                                                      \
    }

static void warp_bilinear(const fpc_warp *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    const int64_t stride = 3 * (int64_t)warp->width;
    if (warp->channels == 3) {
        WARP_ROW_RGB(warp_bilinear_rgb, 0, warp_bilinear_at(at, at + stride, 3, dx, dy, out))
    } else {
        WARP_ROW(warp_bilinear_pixel)
    }
}

SIMD void warp_bicubic_inner(const uint8_t *at, int64_t stride, __m256d dx, __m256d dy, uint8_t *out) {
    static const int64_t x[4] = {0, 3, 6, 9};
    const uint8_t *const rows[4] = {at, at + stride, at + 2 * stride, at + 3 * stride};
    warp_bicubic_at(rows, x, dx, dy, out);
}

static void warp_bicubic(const fpc_warp *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    const int64_t stride = 3 * (int64_t)warp->width;
    if (warp->channels == 3) {
        WARP_ROW_RGB(warp_bicubic_rgb, 1, warp_bicubic_inner(at, stride, dx, dy, out))
    } else {
        WARP_ROW(warp_bicubic_pixel)
    }
}

/* Eight pixels at once, four bytes of each. */
static void warp_fixed(const fpc_warp *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out) {
    int32_t k = 0;
    if (warp->channels == 3 && (int64_t)warp->height * warp->width < INT32_MAX / 3) {
        const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), three = _mm256_set1_epi32(3);
        const __m256i joined = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, /**/
                                                0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        const __m256i stride = _mm256_set1_epi32(3 * warp->width);
        __m256i xs = _mm256_add_epi32(_mm256_set1_epi32(x), _mm256_mullo_epi32(eight, _mm256_set1_epi32(dx)));
        __m256i ys = _mm256_add_epi32(_mm256_set1_epi32(y), _mm256_mullo_epi32(eight, _mm256_set1_epi32(dy)));
        const __m256i x_step = _mm256_set1_epi32(warp_step(0, dx, 8)), y_step = _mm256_set1_epi32(warp_step(0, dy, 8));
        for (; k + 8 <= count; k += 8) {
            const __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srai_epi32(xs, 16), three),
                                                _mm256_mullo_epi32(_mm256_srai_epi32(ys, 16), stride));
            const __m256i pixels = _mm256_i32gather_epi32((const int *)(const void *)warp->image, at, 1);
            const __m256i packed = _mm256_shuffle_epi8(pixels, joined);
            v_store_low(out + 3 * (int64_t)k, packed);
            v_store_high(out + 3 * (int64_t)k + 12, packed);
            xs = _mm256_add_epi32(xs, x_step);
            ys = _mm256_add_epi32(ys, y_step);
        }
    }
    warp_fixed_plain(warp, x, y, dx, dy, k, count, out);
}
#else
static void warp_fixed(const fpc_warp *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out) {
    warp_fixed_plain(warp, x, y, dx, dy, 0, count, out);
}

static void warp_bilinear(const fpc_warp *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    WARP_ROW(warp_bilinear_pixel)
}

static void warp_bicubic(const fpc_warp *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    WARP_ROW(warp_bicubic_pixel)
}
#endif
