/* blur_plain.h: ImagingLineBoxBlur8 of Pillow's BoxBlur.c, for many columns at once: the sum of the lines within the
 * radius moves down with the line, in unsigned 32-bit numbers as in Pillow. */
#include <string.h>

static inline int64_t blur_within(int64_t line, int64_t last) { return line < 0 ? 0 : line > last ? last : line; }

/* The sum for the line before the first one. */
static inline void blur_start(const fpc_blur_pass *pass, const uint8_t *in, uint32_t *sums) {
    const int64_t last = pass->lines - 1;
    const uint32_t radius = (uint32_t)pass->radius;
    const uint32_t ahead =
        radius < (uint32_t)last ? radius : (uint32_t)last; /* lines from the first one on that exist */
    for (int k = 0; k < FPC_BLUR_GROUP; k++) {
        sums[k] = in[k] * (radius + 1) + in[last * pass->stride + k] * (radius - ahead);
    }
    for (uint32_t line = 0; line < ahead; line++) {
        for (int k = 0; k < FPC_BLUR_GROUP; k++) sums[k] += in[line * pass->stride + k];
    }
}

static inline void blur_group_plain(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out) {
    const int64_t last = pass->lines - 1, radius = pass->radius, stride = pass->stride;
    const uint32_t weight = pass->weight, edge = pass->edge;
    uint32_t sums[FPC_BLUR_GROUP];
    blur_start(pass, in, sums);
    for (int64_t line = 0; line <= last; line++, out += stride) {
        const uint8_t *left = in + blur_within(line - radius - 1, last) * stride;
        const uint8_t *entering = in + blur_within(line + radius, last) * stride;
        const uint8_t *right = in + blur_within(line + radius + 1, last) * stride;
        for (int k = 0; k < FPC_BLUR_GROUP; k++) {
            sums[k] += (uint32_t)entering[k] - left[k];
            const uint32_t mean = sums[k] * weight + ((uint32_t)left[k] + right[k]) * edge;
            out[k] = (uint8_t)((mean + (1u << 23)) >> 24);
        }
    }
}

#ifndef FPC_SIMD_H
static void blur_lines(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out) {
    for (int64_t at = 0; at < pass->bytes; at += FPC_BLUR_GROUP) blur_group_plain(pass, in + at, out + at);
}

static void blur_to_lines(const uint8_t *rows, int64_t stride, int32_t columns, uint8_t *lines) {
    for (int64_t x = 0; x < columns; x++) {
        for (int y = 0; y < FPC_BLUR_ROWS; y++) lines[x * FPC_BLUR_ROWS + y] = rows[y * stride + x];
    }
}

static void blur_to_rows(const uint8_t *lines, int32_t columns, uint8_t *rows, int64_t stride) {
    for (int y = 0; y < FPC_BLUR_ROWS; y++) {
        for (int64_t x = 0; x < columns; x++) rows[y * stride + x] = lines[x * FPC_BLUR_ROWS + y];
    }
}
#endif
