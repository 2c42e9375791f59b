/* sink_plain.h: normalizes rows of bytes into the caller's memory, with a table. */
#include "normalize.h"

#include <string.h>

static inline void normalize_put(const fpc_normalizer *normalizer, int channel, uint8_t value, void *out, int64_t at) {
    if (normalizer->dtype == FPC_FLOAT32) {
        ((float *)out)[at] = normalizer->values[channel][value];
    } else {
        ((uint16_t *)out)[at] = normalizer->halves[channel][value];
    }
}

/* Normalizes pixels [first, count). */
static inline void normalize_planar_plain(const uint8_t *rgb, int32_t first, int32_t count,
                                          const fpc_normalizer *normalizer, void *const out[3]) {
    for (int c = 0; c < 3; c++) {
        for (int32_t x = first; x < count; x++) normalize_put(normalizer, c, rgb[3 * (int64_t)x + c], out[c], x);
    }
}

/* Normalizes elements [first, count); `first` is an element of the first channel. */
static inline void normalize_interleaved_plain(const uint8_t *row, int64_t first, int64_t count,
                                               const fpc_normalizer *normalizer, int32_t channels, void *out) {
    for (int64_t at = first; at < count; at += channels) {
        for (int c = 0; c < channels && at + c < count; c++) normalize_put(normalizer, c, row[at + c], out, at + c);
    }
}

static inline void split_channels_plain(const uint8_t *rgb, int32_t first, int32_t count, uint8_t *const out[3]) {
    for (int c = 0; c < 3; c++) {
        for (int32_t x = first; x < count; x++) out[c][x] = rgb[3 * (int64_t)x + c];
    }
}

static inline void reverse_channels_plain(const uint8_t *rgb, int32_t first, int32_t count, uint8_t *bgr) {
    for (int64_t at = 3 * (int64_t)first; at < 3 * (int64_t)count; at += 3) {
        for (int c = 0; c < 3; c++) bgr[at + c] = rgb[at + 2 - c];
    }
}

#ifndef FPC_SIMD_H
static void normalize_planar(const uint8_t *rgb, int32_t count, const fpc_normalizer *normalizer, void *const out[3]) {
    normalize_planar_plain(rgb, 0, count, normalizer, out);
}

static void normalize_interleaved(const uint8_t *row, int64_t count, const fpc_normalizer *normalizer, int32_t channels,
                                  void *out) {
    normalize_interleaved_plain(row, 0, count, normalizer, channels, out);
}

static void split_channels(const uint8_t *rgb, int32_t count, uint8_t *const out[3]) {
    split_channels_plain(rgb, 0, count, out);
}

static void reverse_channels(const uint8_t *rgb, int32_t count, uint8_t *bgr) {
    reverse_channels_plain(rgb, 0, count, bgr);
}
#endif
