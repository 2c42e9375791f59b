/* warp_simd.h: interpolates pixels of three channels, with the channels in four float64; the rest is as in plain C. */
#include "warp_plain.h"

#if defined(FPC_SIMD_AVX2)
/* Packs the first three bytes of each of four 4-byte pixels. */
static const uint8_t warp_joined[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 255, 255, 255, 255};

SIMD __m128i warp_load(const uint8_t *pixel) { /* four bytes: after the pixel comes another one, or slack */
    int32_t bytes;
    memcpy(&bytes, pixel, sizeof bytes);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
}

/* Truncates, and writes four bytes. */
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

/* The address of a point's first neighbour, if all neighbours are inside: `margin` pixels before it and one more after
 * it. *rest is the point's fraction. NULL for other points. */
SIMD const uint8_t *warp_inner(const fpc_warp_source *warp, double x, double y, int margin, __m128d *rest) {
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

/* Interpolates eight points at once in float32, with an error below WARP_UNSURE: rounding the fractions and each step
 * gives 7e-5. A value so near to an integer might be truncated to another one than in float64. Then nothing is written
 * and false is returned, unless all four neighbours are equal, whose mean is exact. All points must be inner ones of an
 * image of less than 2**31 bytes. */
#define WARP_UNSURE (1.0f / 8192.0f)

SIMD __m256 warp_channel(__m256i pixels, int bits) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(pixels, bits), _mm256_set1_epi32(255)));
}

SIMD __m256 warp_between_eight(__m256 a, __m256 b, __m256 d) { return _mm256_fmadd_ps(_mm256_sub_ps(b, a), d, a); }

/* The fractions of the points. */
SIMD __m256 warp_rests(__m256d first, __m256d second, __m256i whole) {
    const __m256d a = _mm256_sub_pd(first, _mm256_cvtepi32_pd(_mm256_castsi256_si128(whole)));
    const __m256d b = _mm256_sub_pd(second, _mm256_cvtepi32_pd(_mm256_extracti128_si256(whole, 1)));
    return _mm256_set_m128(_mm256_cvtpd_ps(b), _mm256_cvtpd_ps(a));
}

/* Loads eight bytes (two pixels and slack) from each of the places 0, 1, 4 and 5. */
SIMD __m256i warp_pairs(const uint8_t *image, const int32_t *places) {
    const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)(image + places[0]));
    const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(image + places[1]));
    const __m128i c = _mm_loadl_epi64((const __m128i *)(const void *)(image + places[4]));
    const __m128i d = _mm_loadl_epi64((const __m128i *)(const void *)(image + places[5]));
    return _mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b));
}

/* The first pixels of eight pairs, in order, in the lower three bytes; warp_seconds gives the second ones. */
SIMD __m256i warp_firsts(__m256i first, __m256i second) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second), 0x88));
}

SIMD __m256i warp_seconds(__m256i first, __m256i second) {
    return warp_firsts(_mm256_srli_epi64(first, 24), _mm256_srli_epi64(second, 24));
}

SIMD bool warp_bilinear_eight(const fpc_warp_source *warp, const double *xs, const double *ys, uint8_t *out) {
    const __m256d half = _mm256_set1_pd(0.5);
    const __m256d x0 = _mm256_sub_pd(_mm256_loadu_pd(xs), half), x1 = _mm256_sub_pd(_mm256_loadu_pd(xs + 4), half);
    const __m256d y0 = _mm256_sub_pd(_mm256_loadu_pd(ys), half), y1 = _mm256_sub_pd(_mm256_loadu_pd(ys + 4), half);
    const __m256i x = _mm256_set_m128i(_mm256_cvttpd_epi32(x1), _mm256_cvttpd_epi32(x0));
    const __m256i y = _mm256_set_m128i(_mm256_cvttpd_epi32(y1), _mm256_cvttpd_epi32(y0));
    /* negative points, and those that aren't 32-bit numbers, have or get the sign bit */
    const __m256i beyond = _mm256_or_si256(_mm256_cmpgt_epi32(x, _mm256_set1_epi32(warp->width - 2)),
                                           _mm256_cmpgt_epi32(y, _mm256_set1_epi32(warp->height - 2)));
    const __m256d negative = _mm256_or_pd(_mm256_or_pd(x0, x1), _mm256_or_pd(y0, y1));
    const __m256i outer = _mm256_or_si256(beyond, _mm256_or_si256(x, y));
    if (_mm256_movemask_ps(_mm256_castsi256_ps(outer)) || _mm256_movemask_pd(negative)) return false;

    const __m256i stride = _mm256_set1_epi32(3 * warp->width), three = _mm256_set1_epi32(3);
    const __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(x, three), _mm256_mullo_epi32(y, stride));
    int32_t places[8];
    v_store(places, at);
    const uint8_t *upper = warp->image, *lower = warp->image + 3 * (int64_t)warp->width;
    const __m256i first_above = warp_pairs(upper, places), second_above = warp_pairs(upper, places + 2);
    const __m256i first_below = warp_pairs(lower, places), second_below = warp_pairs(lower, places + 2);
    const __m256i a = warp_firsts(first_above, second_above), b = warp_seconds(first_above, second_above);
    const __m256i c = warp_firsts(first_below, second_below), d = warp_seconds(first_below, second_below);
    const __m256 dx = warp_rests(x0, x1, x), dy = warp_rests(y0, y1, y), unsure = _mm256_set1_ps(WARP_UNSURE);
    __m256i found = _mm256_setzero_si256(), other = found;
    for (int bits = 16; bits >= 0; bits -= 8) {
        const __m256 above = warp_between_eight(warp_channel(a, bits), warp_channel(b, bits), dx);
        const __m256 below = warp_between_eight(warp_channel(c, bits), warp_channel(d, bits), dx);
        const __m256 value = warp_between_eight(above, below, dy);
        found = _mm256_or_si256(_mm256_slli_epi32(found, 8), _mm256_cvttps_epi32(_mm256_add_ps(value, unsure)));
        other = _mm256_or_si256(_mm256_slli_epi32(other, 8), _mm256_cvttps_epi32(_mm256_sub_ps(value, unsure)));
    }
    const __m256i varied =
        _mm256_or_si256(_mm256_or_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)), _mm256_xor_si256(a, c));
    const __m256i sure =
        _mm256_or_si256(_mm256_cmpeq_epi8(found, other), _mm256_cmpeq_epi8(varied, _mm256_setzero_si256()));
    if (_mm256_movemask_epi8(sure) != -1) return false;
    const __m256i packed = _mm256_shuffle_epi8(found, v_load_twice(warp_joined));
    v_store_low(out, packed);
    v_store_high(out + 12, packed);
    return true;
}

/* True if all eight points are outside of the image, and none of the coordinates is NaN. */
SIMD bool warp_all_outside(const fpc_warp_source *warp, const double *xs, const double *ys) {
    const __m256d zero = _mm256_setzero_pd(), width = _mm256_set1_pd(warp->width),
                  height = _mm256_set1_pd(warp->height);
    __m256d outside = _mm256_cmp_pd(zero, zero, _CMP_EQ_OQ);
    for (int k = 0; k < 8; k += 4) {
        const __m256d x = _mm256_loadu_pd(xs + k), y = _mm256_loadu_pd(ys + k);
        const __m256d outside_x = _mm256_or_pd(_mm256_cmp_pd(x, zero, _CMP_LT_OQ), _mm256_cmp_pd(x, width, _CMP_GE_OQ));
        const __m256d outside_y =
            _mm256_or_pd(_mm256_cmp_pd(y, zero, _CMP_LT_OQ), _mm256_cmp_pd(y, height, _CMP_GE_OQ));
        outside = _mm256_and_pd(outside, _mm256_or_pd(outside_x, outside_y));
    }
    return _mm256_movemask_pd(outside) == 15;
}

SIMD void warp_bilinear_rgb(const fpc_warp_source *warp, const warp_place *place, uint8_t *out) {
    const int64_t left = 3 * (int64_t)warp_clip(place->x, warp->width);
    const int64_t right = 3 * (int64_t)warp_clip(place->x + 1, warp->width) - left;
    warp_bilinear_at(warp_row(warp, place->y) + left, warp_row(warp, place->y + 1) + left, right,
                     _mm256_set1_pd(place->dx), _mm256_set1_pd(place->dy), out);
}

SIMD __m256d warp_polynomial(__m256d p1, __m256d p2, __m256d p3, __m256d p4, __m256d t) {
    const __m256d inner = _mm256_add_pd(p3, _mm256_mul_pd(t, p4));
    return _mm256_add_pd(p1, _mm256_mul_pd(t, _mm256_add_pd(p2, _mm256_mul_pd(t, inner))));
}

/* warp_cubic of a row's bytes: sums of integers, which are exact in any order. */
SIMD __m256d warp_cubic_row(const uint8_t *row, const int64_t *x, __m256d t) {
    const __m128i a = warp_load(row + x[0]), b = warp_load(row + x[1]);
    const __m128i c = warp_load(row + x[2]), d = warp_load(row + x[3]);
    const __m128i p2 = _mm_sub_epi32(c, a), ab = _mm_sub_epi32(a, b), cd = _mm_sub_epi32(c, d);
    const __m128i p3 = _mm_add_epi32(_mm_add_epi32(ab, ab), cd);
    const __m128i p4 = _mm_sub_epi32(_mm_setzero_si128(), _mm_add_epi32(ab, cd));
    return warp_polynomial(_mm256_cvtepi32_pd(b), _mm256_cvtepi32_pd(p2), _mm256_cvtepi32_pd(p3),
                           _mm256_cvtepi32_pd(p4), t);
}

/* warp_cubic, in the same order of operations; b - a is -a + b */
SIMD __m256d warp_cubic_column(__m256d a, __m256d b, __m256d c, __m256d d, __m256d t) {
    const __m256d twice = _mm256_mul_pd(_mm256_set1_pd(2.0), _mm256_sub_pd(a, b));
    const __m256d p3 = _mm256_sub_pd(_mm256_add_pd(twice, c), d);
    const __m256d p4 = _mm256_add_pd(_mm256_sub_pd(_mm256_sub_pd(b, a), c), d);
    return warp_polynomial(b, _mm256_sub_pd(c, a), p3, p4, t);
}

/* Loads a pixel as float64. */
SIMD __m256d warp_pixel(const uint8_t *at) { return _mm256_cvtepi32_pd(warp_load(at)); }

/* Writes a bicubic pixel. At fraction 0 the polynomial is exactly its first coefficient: a warp that shears or shifts
 * in only one direction reads one row, or one column. */
SIMD void warp_bicubic_at(const uint8_t *const rows[4], const int64_t *x, __m256d dx, __m256d dy, uint8_t *out) {
    if (_mm256_cvtsd_f64(dy) == 0.0) {
        warp_store(out, warp_cubic_row(rows[1], x, dx));
        return;
    }
    if (_mm256_cvtsd_f64(dx) == 0.0) {
        warp_store(out, warp_cubic_column(warp_pixel(rows[0] + x[1]), warp_pixel(rows[1] + x[1]),
                                          warp_pixel(rows[2] + x[1]), warp_pixel(rows[3] + x[1]), dy));
        return;
    }
    const __m256d a = warp_cubic_row(rows[0], x, dx), b = warp_cubic_row(rows[1], x, dx);
    const __m256d c = warp_cubic_row(rows[2], x, dx), d = warp_cubic_row(rows[3], x, dx);
    warp_store(out, warp_cubic_column(a, b, c, d, dy));
}

SIMD void warp_bicubic_rgb(const fpc_warp_source *warp, const warp_place *place, uint8_t *out) {
    int64_t x[4];
    const uint8_t *rows[4];
    for (int i = 0; i < 4; i++) {
        x[i] = 3 * (int64_t)warp_clip(place->x - 1 + i, warp->width);
        rows[i] = warp_row(warp, place->y - 1 + i);
    }
    warp_bicubic_at(rows, x, _mm256_set1_pd(place->dx), _mm256_set1_pd(place->dy), out);
}

/* WARP_ROW(pixel) for three channels, with a fast path for inner points. */
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

static void warp_bilinear_rgb_row(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count,
                                  uint8_t *out) {
    const int64_t stride = 3 * (int64_t)warp->width;
    WARP_ROW_RGB(warp_bilinear_rgb, 0, warp_bilinear_at(at, at + stride, 3, dx, dy, out))
}

static void warp_bilinear(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count,
                          uint8_t *out) {
    if (warp->channels != 3) {
        WARP_ROW(warp_bilinear_pixel)
        return;
    }
    int32_t x = 0;
    if ((int64_t)warp->height * warp->width < INT32_MAX / 3) {
        for (; x + 8 <= count; x += 8, xs += 8, ys += 8, out += 24) {
            if (warp_bilinear_eight(warp, xs, ys, out)) continue;
            if (warp_all_outside(warp, xs, ys)) {
                for (int k = 0; k < 24; k += 3) memcpy(out + k, warp->fill, 3);
            } else {
                warp_bilinear_rgb_row(warp, xs, ys, 8, out);
            }
        }
    }
    warp_bilinear_rgb_row(warp, xs, ys, count - x, out);
}

SIMD void warp_bicubic_inner(const uint8_t *at, int64_t stride, __m256d dx, __m256d dy, uint8_t *out) {
    static const int64_t x[4] = {0, 3, 6, 9};
    const uint8_t *const rows[4] = {at, at + stride, at + 2 * stride, at + 3 * stride};
    warp_bicubic_at(rows, x, dx, dy, out);
}

static void warp_bicubic(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out) {
    const int64_t stride = 3 * (int64_t)warp->width;
    if (warp->channels == 3) {
        WARP_ROW_RGB(warp_bicubic_rgb, 1, warp_bicubic_inner(at, stride, dx, dy, out))
    } else {
        WARP_ROW(warp_bicubic_pixel)
    }
}

/* Reads eight pixels at once, four bytes each; for the image's last pixel, the four bytes that end with it. */
static void warp_fixed(const fpc_warp_source *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out) {
    int32_t k = 0;
    const int64_t pixels = (int64_t)warp->height * warp->width;
    if (warp->channels == 3 && pixels > 1 && pixels < INT32_MAX / 3) {
        const __m256i last = _mm256_set1_epi32((int32_t)(3 * pixels - 4));
        const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), three = _mm256_set1_epi32(3);
        const __m256i joined = v_load_twice(warp_joined);
        const __m256i stride = _mm256_set1_epi32(3 * warp->width);
        __m256i xs = _mm256_add_epi32(_mm256_set1_epi32(x), _mm256_mullo_epi32(eight, _mm256_set1_epi32(dx)));
        __m256i ys = _mm256_add_epi32(_mm256_set1_epi32(y), _mm256_mullo_epi32(eight, _mm256_set1_epi32(dy)));
        const __m256i x_step = _mm256_set1_epi32(warp_step(0, dx, 8)), y_step = _mm256_set1_epi32(warp_step(0, dy, 8));
        for (; k + 8 <= count; k += 8) {
            const __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srai_epi32(xs, 16), three),
                                                _mm256_mullo_epi32(_mm256_srai_epi32(ys, 16), stride));
            const __m256i from = _mm256_min_epi32(at, last), bits = _mm256_slli_epi32(_mm256_sub_epi32(at, from), 3);
            const __m256i found = _mm256_i32gather_epi32((const int *)(const void *)warp->image, from, 1);
            const __m256i packed = _mm256_shuffle_epi8(_mm256_srlv_epi32(found, bits), joined);
            v_store_low(out + 3 * (int64_t)k, packed);
            v_store_high(out + 3 * (int64_t)k + 12, packed);
            xs = _mm256_add_epi32(xs, x_step);
            ys = _mm256_add_epi32(ys, y_step);
        }
    }
    warp_fixed_plain(warp, x, y, dx, dy, k, count, out);
}
#else
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
