/* grid_sample_simd.h: samples eight points of a grid at once; the rest is as in plain C. */
#include "grid_sample_plain.h"

#if defined(FPC_SIMD_AVX2)
SIMD vecf sample_sum8(vecf a, vecf b, vecf c, bool fused) {
    return fused ? v_fma_float(a, b, c) : v_add_float(v_mul_float(a, b), c);
}

/* Loads two neighbouring pixels from each of the places 0, 1, 4 and 5. */
SIMD __m256 sample_pairs(const uint32_t *pixels, const int32_t *places) {
    const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)(pixels + places[0]));
    const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(pixels + places[1]));
    const __m128i c = _mm_loadl_epi64((const __m128i *)(const void *)(pixels + places[4]));
    const __m128i d = _mm_loadl_epi64((const __m128i *)(const void *)(pixels + places[5]));
    return _mm256_castsi256_ps(_mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b)));
}

#define SAMPLE_PLANE8(pixels, bits) v_float(v_and(_mm256_srli_epi32(_mm256_castps_si256(pixels), bits), v_all32(255)))

SIMD void sample_run8(const fpc_grid_sample *sample, const float *xs, const float *ys, int32_t count, bool fused,
                      float (*rows)[FPC_GRID_SAMPLE_BLOCK]) {
    const int32_t stride = sample->width + 4;
    const uint32_t *upper = sample->pixels + 2 * (int64_t)stride + 2, *lower = upper + stride;
    const vecf one = v_all_float(1.0f);
    const bool three = sample->channels == 3, filled = sample->filled;
    for (int32_t k = 0; k < count; k += 8) { /* the block has room for eight */
        const vecf x = v_load_float(xs + k), y = v_load_float(ys + k);
        const vecf left = _mm256_floor_ps(x), top = _mm256_floor_ps(y);
        int32_t places[8];
        v_store(places, v_add32(_mm256_mullo_epi32(v_cut_float(top), v_all32(stride)), v_cut_float(left)));
        const vecf w = v_sub_float(x, left), n = v_sub_float(y, top), e = v_sub_float(one, w), s = v_sub_float(one, n);
        const vecf nw = v_mul_float(e, s), ne = v_mul_float(w, s), sw = v_mul_float(e, n), se = v_mul_float(w, n);
        const __m256 above[2] = {sample_pairs(upper, places), sample_pairs(upper, places + 2)};
        const __m256 below[2] = {sample_pairs(lower, places), sample_pairs(lower, places + 2)};
        const __m256 a = _mm256_shuffle_ps(above[0], above[1], 0x88), b = _mm256_shuffle_ps(above[0], above[1], 0xDD);
        const __m256 c = _mm256_shuffle_ps(below[0], below[1], 0x88), d = _mm256_shuffle_ps(below[0], below[1], 0xDD);
#define SAMPLE_MIXED(bits)                                                                                             \
    sample_sum8(SAMPLE_PLANE8(d, bits), se,                                                                            \
                sample_sum8(SAMPLE_PLANE8(c, bits), sw,                                                                \
                            sample_sum8(SAMPLE_PLANE8(b, bits), ne, v_mul_float(SAMPLE_PLANE8(a, bits), nw), fused),   \
                            fused),                                                                                    \
                fused)
        v_store_float(rows[0] + k, SAMPLE_MIXED(0));
        if (three) {
            v_store_float(rows[1] + k, SAMPLE_MIXED(8));
            v_store_float(rows[2] + k, SAMPLE_MIXED(16));
        }
        if (filled) v_store_float(rows[3] + k, SAMPLE_MIXED(24));
#undef SAMPLE_MIXED
    }
}

static void grid_sample(const fpc_grid_sample *sample) { sample_rows(sample, sample_run8); }
#endif
