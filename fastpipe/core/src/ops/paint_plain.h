/* paint_plain.h: looks up indices in the colors of a palette, in plain C. */
#ifndef FPC_PAINT_PLAIN_H
#define FPC_PAINT_PLAIN_H

#include <string.h>

#include "unfilter.h"

static inline void plain_paint(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb) {
    for (int32_t x = 0; x < count; x++) memcpy(rgb + 3 * (size_t)x, palette->colors[samples[x]], 4);
}

#if defined(FPC_PORTABLE)
static void paint(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb) {
    plain_paint(samples, count, palette, rgb);
}
#endif

#endif
