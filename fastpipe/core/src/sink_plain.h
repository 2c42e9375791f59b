/* sink_plain.h: rows of bytes into the caller's memory, by table. */
#include "levels.h"

#include <string.h>

static inline void levels_put(const fpc_levels *levels, int channel, uint8_t value, void *out, int64_t at) {
    if (levels->dtype == FPC_FLOAT32) {
        ((float *)out)[at] = levels->values[channel][value];
    } else {
        ((uint16_t *)out)[at] = levels->halves[channel][value];
    }
}

/* Pixels [first, count). */
static inline void levels_planar_plain(const uint8_t *rgb, int32_t first, int32_t count, const fpc_levels *levels,
                                       void *const out[3]) {
    for (int c = 0; c < 3; c++) {
        for (int32_t x = first; x < count; x++) levels_put(levels, c, rgb[3 * (int64_t)x + c], out[c], x);
    }
}

/* Elements [first, count); `first` is an element of the first channel. */
static inline void levels_in_turn_plain(const uint8_t *row, int64_t first, int64_t count, const fpc_levels *levels,
                                        int32_t channels, void *out) {
    for (int64_t at = first; at < count; at += channels) {
        for (int c = 0; c < channels && at + c < count; c++) levels_put(levels, c, row[at + c], out, at + c);
    }
}

static inline void split_channels_plain(const uint8_t *rgb, int32_t first, int32_t count, uint8_t *const out[3]) {
    for (int c = 0; c < 3; c++) {
        for (int32_t x = first; x < count; x++) out[c][x] = rgb[3 * (int64_t)x + c];
    }
}

#ifndef FPC_SIMD_H
static void levels_planar(const uint8_t *rgb, int32_t count, const fpc_levels *levels, void *const out[3]) {
    levels_planar_plain(rgb, 0, count, levels, out);
}

static void levels_in_turn(const uint8_t *row, int64_t count, const fpc_levels *levels, int32_t channels, void *out) {
    levels_in_turn_plain(row, 0, count, levels, channels, out);
}

static void split_channels(const uint8_t *rgb, int32_t count, uint8_t *const out[3]) {
    split_channels_plain(rgb, 0, count, out);
}
#endif
