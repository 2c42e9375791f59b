/* planes_simd.h: mixes images; the rest is as in plain C. */
#include "planes_plain.h"

static void planes_mix(const uint8_t *const *images, const float *weights, int image_count, int64_t count,
                       uint8_t *out) {
    const vec widen[4] = {v_load_twice(adjust_widen[0]), v_load_twice(adjust_widen[1]), v_load_twice(adjust_widen[2]),
                          v_load_twice(adjust_widen[3])};
    int64_t x = 0;
    for (; x + 32 <= count; x += 32) {
        vecf sums[4] = {v_all_float(0.0f), v_all_float(0.0f), v_all_float(0.0f), v_all_float(0.0f)};
        for (int i = 0; i < image_count; i++) {
            const vec bytes = v_load(images[i] + x);
            const vecf weight = v_all_float(weights[i]);
            for (int k = 0; k < 4; k++) {
                sums[k] = v_add_float(sums[k], v_mul_float(weight, v_float(v_shuffle8(bytes, widen[k]))));
            }
        }
        v_store(out + x, v_pack_us16(v_pack_s32(v_cut_float(sums[0]), v_cut_float(sums[1])),
                                     v_pack_s32(v_cut_float(sums[2]), v_cut_float(sums[3]))));
    }
    planes_mix_plain(images, weights, image_count, x, count, out);
}
