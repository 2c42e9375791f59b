/* cv_resize_plain.h: both passes of OpenCV's linear resize; compilers vectorise the second. */

/* Writes the sums without their lowest four bits, which the second pass doesn't read. */
static inline void cv_resize_pixels(const uint8_t *in, const fpc_cv_tap *taps, int32_t count, int channels,
                                    int16_t *out) {
    for (int32_t x = 0; x < count; x++, out += channels) {
        const uint8_t *pixel = in + taps[x].offset;
        const int32_t first = taps[x].weights[0], second = taps[x].weights[1];
        for (int c = 0; c < channels; c++) out[c] = (int16_t)((pixel[c] * first + pixel[c + channels] * second) >> 4);
    }
}

static void cv_resize_row(const uint8_t *in, const fpc_cv_tap *taps, int32_t count, int32_t channels, int16_t *out) {
    if (channels == 3) {
        cv_resize_pixels(in, taps, count, 3, out);
    } else {
        cv_resize_pixels(in, taps, count, 1, out);
    }
}

static void cv_mix_rows(const int16_t *restrict first, const int16_t *restrict second, const int16_t weights[2],
                        int64_t values, uint8_t *restrict out) {
    const int16_t one = weights[0], two = weights[1];
    for (int64_t i = 0; i < values; i++) {
        const int16_t a = (int16_t)((first[i] * one) >> 16), b = (int16_t)((second[i] * two) >> 16);
        out[i] = (uint8_t)((int16_t)(a + b + 2) >> 2);
    }
}
