/* rgbx_pad_plain.h: rows of pixels of three bytes and of four, the layout of Pillow's images. */
#include <stdbool.h>
#include <string.h>

/* Converts pixels [first, count). */
static inline void drop_rgbx_pad_plain(const uint8_t *rgbx, int32_t first, int32_t count, uint8_t *rgb) {
    for (int64_t x = first; x < count; x++) memcpy(rgb + 3 * x, rgbx + 4 * x, 3);
}

static inline void add_rgbx_pad_plain(const uint8_t *rgb, int32_t first, int32_t count, uint8_t rgbx_pad,
                                      uint8_t *rgbx) {
    for (int64_t x = first; x < count; x++) {
        memcpy(rgbx + 4 * x, rgb + 3 * x, 3);
        rgbx[4 * x + 3] = rgbx_pad;
    }
}

/* Compilers vectorise the next three, on pixels as 32-bit numbers with the fourth byte as the highest. */
static void take_rgbx_pad(const uint8_t *rgbx, int32_t count, uint8_t *out) {
    for (int64_t x = 0; x < count; x++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * x, 4);
        out[x] = (uint8_t)(pixel >> 24);
    }
}

static void set_rgbx_pad(const uint8_t *rgbx_pads, int32_t count, uint8_t *rgbx) {
    for (int64_t x = 0; x < count; x++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * x, 4);
        pixel = (pixel & 0xFFFFFF) | (uint32_t)rgbx_pads[x] << 24;
        memcpy(rgbx + 4 * x, &pixel, 4);
    }
}

static bool same_rgbx_pad(const uint8_t *rgbx, int32_t count, uint8_t rgbx_pad) {
    const uint8_t pixel[4] = {0, 0, 0, rgbx_pad};
    uint32_t expected, differing = 0;
    memcpy(&expected, pixel, 4);
    for (int64_t x = 0; x < count; x++) {
        uint32_t found;
        memcpy(&found, rgbx + 4 * x, 4);
        differing |= found ^ expected;
    }
    uint8_t bits[4];
    memcpy(bits, &differing, 4);
    return bits[3] == 0;
}

#ifndef FPC_SIMD_H
static void drop_rgbx_pad(const uint8_t *rgbx, int32_t count, uint8_t *rgb) {
    drop_rgbx_pad_plain(rgbx, 0, count, rgb);
}

static void add_rgbx_pad(const uint8_t *rgb, int32_t count, uint8_t rgbx_pad, uint8_t *rgbx) {
    add_rgbx_pad_plain(rgb, 0, count, rgbx_pad, rgbx);
}
#endif
