/* unfilter_plain.h: undoes PNG's filters (PNG specification, section 9), in plain C. */
#ifndef FPC_UNFILTER_PLAIN_H
#define FPC_UNFILTER_PLAIN_H

#include <stdlib.h>
#include <string.h>

#include "unfilter.h"

static inline uint8_t plain_paeth(int left, int above, int corner) {
    const int by_left = abs(above - corner), by_above = abs(left - corner), by_corner = abs(left + above - 2 * corner);
    if (by_left <= by_above && by_left <= by_corner) return (uint8_t)left;
    return (uint8_t)(by_above <= by_corner ? above : corner);
}

/* Unfilters row `number`. The first pixel has zeros to its left. */
static inline void plain_unfilter_row(const fpc_filtered *rows, int number, size_t bytes, size_t step) {
    const uint8_t *raw = rows->raw[number], *above = number ? rows->out[number - 1] : rows->above;
    uint8_t *out = rows->out[number];
    size_t i = 0;
    if (rows->filters[number] == FPC_FILTER_NONE) {
        memcpy(out, raw, bytes);
    } else if (rows->filters[number] == FPC_FILTER_SUB) {
        for (; i < step && i < bytes; i++) out[i] = raw[i];
        for (; i < bytes; i++) out[i] = (uint8_t)(raw[i] + out[i - step]);
    } else if (rows->filters[number] == FPC_FILTER_UP) {
        for (; i < bytes; i++) out[i] = (uint8_t)(raw[i] + above[i]);
    } else if (rows->filters[number] == FPC_FILTER_AVERAGE) {
        for (; i < step && i < bytes; i++) out[i] = (uint8_t)(raw[i] + above[i] / 2);
        for (; i < bytes; i++) out[i] = (uint8_t)(raw[i] + (out[i - step] + above[i]) / 2);
    } else {
        for (; i < step && i < bytes; i++) out[i] = (uint8_t)(raw[i] + above[i]);
        for (; i < bytes; i++) out[i] = (uint8_t)(raw[i] + plain_paeth(out[i - step], above[i], above[i - step]));
    }
}

static inline void plain_unfilter(const fpc_filtered *rows, int count, int32_t pixels, int step) {
    const size_t bytes = (size_t)pixels * (size_t)step;
    for (int i = 0; i < count; i++) {
        switch (step) { /* constant steps compile to better loops */
        case 1: plain_unfilter_row(rows, i, bytes, 1); break;
        case 2: plain_unfilter_row(rows, i, bytes, 2); break;
        case 3: plain_unfilter_row(rows, i, bytes, 3); break;
        case 4: plain_unfilter_row(rows, i, bytes, 4); break;
        default: plain_unfilter_row(rows, i, bytes, 6); break; /* RGB of 16 bits */
        }
    }
}

#if defined(FPC_PORTABLE)
static void unfilter(const fpc_filtered *rows, int count, int32_t pixels, int step) {
    plain_unfilter(rows, count, pixels, step);
}
#endif

#endif
