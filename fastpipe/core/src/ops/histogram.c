/* histogram.c: counts values, and makes the table that equalizes them. */
#include "histogram.h"

#include <string.h>

void fpc_equalize_table(const int64_t *counts, uint8_t *table) {
    int64_t all = 0;
    int last = 0, values = 0;
    for (int i = 0; i < 256; i++) {
        all += counts[i];
        if (counts[i]) {
            last = i;
            values++;
        }
    }
    const int64_t step = (all - counts[last]) / 255;
    int64_t below = step / 2;
    for (int i = 0; i < 256; i++) {
        const int64_t level = values < 2 || step == 0 ? i : below / step;
        table[i] = (uint8_t)(level < 255 ? level : 255);
        below += counts[i];
    }
}

enum {
    COUNTERS = 4, /* per value: neighbours are often equal, and a counter can't be incremented twice at once */
    AT_ONCE = 1 << 30
};

/* Called with constant `channels`, so that the compiler can unroll the counters. */
static inline void count_some(const uint8_t *in, int64_t count, int channels, uint32_t counts[COUNTERS][3][256]) {
    int64_t x = 0;
    for (; x + COUNTERS <= count; x += COUNTERS, in += COUNTERS * channels) {
        for (int k = 0; k < COUNTERS; k++) {
            for (int c = 0; c < channels; c++) counts[k][c][in[k * channels + c]]++;
        }
    }
    for (; x < count; x++, in += channels) {
        for (int c = 0; c < channels; c++) counts[0][c][in[c]]++;
    }
}

void fpc_count_values(const uint8_t *pixels, int64_t count, int channels, int64_t counts[3][256]) {
    uint32_t parts[COUNTERS][3][256];
    for (int64_t x = 0; x < count; x += AT_ONCE) {
        const int64_t some = count - x < AT_ONCE ? count - x : AT_ONCE;
        memset(parts, 0, sizeof parts);
        if (channels == 3) {
            count_some(pixels + 3 * x, some, 3, parts);
        } else {
            count_some(pixels + x, some, 1, parts);
        }
        for (int k = 0; k < COUNTERS; k++) {
            for (int c = 0; c < channels; c++) {
                for (int i = 0; i < 256; i++) counts[c][i] += parts[k][c][i];
            }
        }
    }
}
