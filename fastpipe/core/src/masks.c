/* masks.c: COCO's masks, which are stored column by column: draws them from run lengths, and copies them to rows. */
#include "context.h"

#include <string.h>

/* ---- run lengths ---- */

#define LONGEST_NUMBER 6 /* characters: 30 bits with the sign, more than the pixels of any image */

/* Reads the next number of pycocotools' rleToString. Each character, minus '0', has 5 bits, lowest first; 0x20 says
 * that another follows, and 0x10 of the last one is the sign. */
static int next_number(const uint8_t *text, size_t length, size_t *at, int64_t *number) {
    uint32_t bits = 0x20;
    *number = 0;
    for (int shift = 0; bits & 0x20; shift += 5) {
        if (*at == length) return FPC_TRUNCATED;
        bits = (uint32_t)text[(*at)++] - '0';
        if (bits > 0x3f || shift == 5 * LONGEST_NUMBER) return FPC_BAD_CODE;
        *number += (int64_t)(bits & 0x1f) << shift;
        if (!(bits & 0x20) && (bits & 0x10)) *number -= (int64_t)0x20 << shift;
    }
    return FPC_OK;
}

int fpc_draw_runs(const uint8_t *text, size_t length, uint8_t *out, size_t size) {
    if (size > INT64_MAX / 2) return FPC_TOO_LARGE;
    int64_t left = (int64_t)size, before[2] = {0, 0}; /* the last runs of zeros and of ones */
    size_t at = 0;
    for (size_t run = 0; at < length; run++) {
        int64_t count;
        const int status = next_number(text, length, &at, &count);
        if (status != FPC_OK) return status;
        if (run > 2) count += before[run & 1];
        if (count < 0 || count > left) return FPC_BAD_CODE;
        memset(out, (int)(run & 1), (size_t)count);
        out += count;
        left -= count;
        before[run & 1] = count;
    }
    return left == 0 ? FPC_OK : FPC_TRUNCATED;
}

/* ---- columns to rows ---- */

/* The columns that are copied at once, as many as the kernels take. */
#define AT_ONCE FPC_BLUR_ROWS

/* Copies a column of one plane; with `any`, of all planes: 1 where any plane isn't 0. */
static void take_column(const uint8_t *in, int64_t plane, int32_t planes, bool any, int32_t height, uint8_t *out) {
    if (!any) {
        memcpy(out, in, (size_t)height);
        return;
    }
    for (int32_t y = 0; y < height; y++) out[y] = in[y] != 0;
    for (int32_t p = 1; p < planes; p++) {
        in += plane;
        for (int32_t y = 0; y < height; y++) out[y] |= in[y] != 0;
    }
}

static int turn(fpc_context *context, const uint8_t *in, int32_t planes, bool any, int32_t height, int32_t width,
                uint8_t *out) {
    const int64_t stride = ((int64_t)height + FPC_BLUR_COLUMNS - 1) / FPC_BLUR_COLUMNS * FPC_BLUR_COLUMNS;
    uint8_t *columns = fpc_buffer_need(&context->row, 2 * AT_ONCE * (size_t)stride);
    if (!columns) return FPC_NO_MEMORY;
    uint8_t *lines = columns + AT_ONCE * stride;
    for (int32_t x = 0; x < width; x += AT_ONCE) {
        const int32_t count = width - x < AT_ONCE ? width - x : AT_ONCE;
        for (int32_t k = 0; k < count; k++) {
            const uint8_t *column = in + (int64_t)(x + k) * height;
            take_column(column, (int64_t)height * width, planes, any, height, columns + k * stride);
        }
        context->kernels->blur_to_lines(columns, stride, height, lines);
        uint8_t *to = out + x;
        for (int32_t y = 0; y < height; y++, to += width) {
            if (count == AT_ONCE) {
                memcpy(to, lines + (int64_t)y * AT_ONCE, AT_ONCE);
            } else {
                memcpy(to, lines + (int64_t)y * AT_ONCE, (size_t)count);
            }
        }
    }
    return FPC_OK;
}

int fpc_turn_planes(fpc_context *context, const uint8_t *in, const int32_t shape[3], int any, uint8_t *out) {
    const int32_t planes = shape[0], height = shape[1], width = shape[2];
    if (planes < 1 || height < 1 || width < 1) return FPC_BAD_OPERATION;
    if ((int64_t)height * width > INT64_MAX / planes) return FPC_TOO_LARGE;
    if (any) return turn(context, in, planes, true, height, width, out);
    const int64_t plane = (int64_t)height * width;
    int status = FPC_OK;
    for (int32_t p = 0; p < planes && status == FPC_OK; p++) {
        status = turn(context, in + p * plane, 1, false, height, width, out + p * plane);
    }
    return status;
}
