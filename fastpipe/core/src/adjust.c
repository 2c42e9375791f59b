/* adjust.c: changes of colour as Pillow's ImageEnhance and ImageOps do them, and torchvision's hue on PIL images. */
#include "histogram.h"
#include "stage.h"

#include <math.h>
#include <string.h>

static int64_t bytes_of(const fpc_stage *stage) { return (int64_t)stage->width * stage->channels; }

/* The factor of a blend, in float32 as Pillow has it. */
static int take_factor(fpc_stage *stage) {
    const double factor = stage->operation->d[0];
    if (!(fabs(factor) <= 3.0e38)) return FPC_BAD_OPERATION; /* not a number, or none of float32's */
    stage->factor = (float)factor;
    return FPC_OK;
}

/* ---- saturation: a blend with the pixel's own gray ---- */

static int next_saturated(fpc_stage *stage, uint8_t *row) {
    const fpc_kernels *kernels = stage->kernels;
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray is its own gray */
    uint8_t *room = stage->rows.data, *gray = room + stage->row_bytes, *grays = gray + stage->row_bytes;
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, room, &in);
    if (status != FPC_OK) return status;
    kernels->rgb_to_gray(in, stage->width, gray);
    kernels->planes_to_rgb(gray, gray, gray, grays, stage->width);
    kernels->blend_rows(grays, in, stage->factor, bytes_of(stage), row);
    return FPC_OK;
}

/* ---- contrast: a blend with the mean of the gray image ---- */

static uint64_t sum_of(const uint8_t *row, int32_t count) {
    uint64_t sum = 0;
    for (int32_t x = 0; x < count;) {
        uint32_t part = 0; /* of bytes that can't overflow it */
        const int32_t end = count - x < 1 << 20 ? count : x + (1 << 20);
        for (; x < end; x++) part += row[x];
        sum += part;
    }
    return sum;
}

static int start_contrast(fpc_stage *stage, fpc_images *images) {
    int status = take_factor(stage);
    if (status == FPC_OK) status = fpc_borrow_image(stage, images);
    if (status != FPC_OK) return status;
    uint8_t *rows = fpc_need_rows(stage, 1);
    if (!rows) return FPC_NO_MEMORY;
    uint64_t sum = 0;
    for (int32_t y = 0; y < stage->height; y++) {
        const uint8_t *row = fpc_image_row(stage, y);
        if (stage->channels == 3) {
            stage->kernels->rgb_to_gray(row, stage->width, rows);
            row = rows;
        }
        sum += sum_of(row, stage->width);
    }
    /* int(ImageStat.Stat(gray).mean[0] + 0.5) */
    const double mean = (double)sum / (double)((int64_t)stage->height * stage->width);
    uint8_t flat[256 + FPC_ROW_SLACK], every[256 + FPC_ROW_SLACK], table[256 + FPC_ROW_SLACK];
    memset(flat, (int)(mean + 0.5), sizeof flat);
    for (int i = 0; i < 256; i++) every[i] = (uint8_t)i;
    stage->kernels->blend_rows(flat, every, stage->factor, 256, table);
    for (int c = 0; c < stage->channels; c++) memcpy(stage->tables + 256 * c, table, 256);
    return fpc_stage_table(stage, stage->tables);
}

/* ---- sharpness: a blend with the smoothed image, whose outermost pixels are the image's ---- */

static int next_sharpened(fpc_stage *stage, uint8_t *row) {
    const int32_t y = stage->given, last = stage->height - 1, step = stage->channels;
    uint8_t *ring = stage->rows.data, *smooth = ring + 3 * stage->row_bytes;
    for (; stage->taken <= (y < last ? y + 1 : last); stage->taken++) {
        const int status = fpc_pull_row(stage->from, ring + stage->taken % 3 * stage->row_bytes);
        if (status != FPC_OK) return status;
    }
    const int64_t bytes = bytes_of(stage);
    const uint8_t *in = ring + y % 3 * stage->row_bytes;
    if (y == 0 || y == last || stage->width < 3) {
        memcpy(row, in, (size_t)bytes);
        return FPC_OK;
    }
    const uint8_t *above = ring + (y - 1) % 3 * stage->row_bytes, *below = ring + (y + 1) % 3 * stage->row_bytes;
    stage->kernels->smooth_row(above + step, in + step, below + step, bytes - 2 * step, step, smooth + step);
    memcpy(smooth, in, (size_t)step);
    memcpy(smooth + bytes - step, in + bytes - step, (size_t)step);
    stage->kernels->blend_rows(smooth, in, stage->factor, bytes, row);
    return FPC_OK;
}

static int start_blend(fpc_stage *stage, int (*next)(fpc_stage *stage, uint8_t *row), int32_t rows) {
    stage->next = next;
    const int status = take_factor(stage);
    if (status != FPC_OK) return status;
    return fpc_need_rows(stage, rows) ? FPC_OK : FPC_NO_MEMORY;
}

/* ---- hue ---- */

static int next_turned(fpc_stage *stage, uint8_t *row) {
    if (stage->channels == 1) return fpc_pull_row(stage->from, row); /* gray has no hue */
    const uint8_t *in;
    const int status = fpc_borrow_row(stage->from, stage->rows.data, &in);
    if (status != FPC_OK) return status;
    stage->kernels->turn_hue(in, stage->width, stage->operation->i[0], row);
    return FPC_OK;
}

static int start_hue(fpc_stage *stage) {
    if (stage->operation->i[0] < 0 || stage->operation->i[0] > 255) return FPC_BAD_OPERATION;
    stage->next = next_turned;
    return fpc_need_rows(stage, 1) ? FPC_OK : FPC_NO_MEMORY;
}

/* ---- autocontrast ---- */

/* Each byte of a row's least and greatest value over all rows: compilers make vectors of it. */
static void widen_range(const uint8_t *row, int64_t count, uint8_t *least, uint8_t *most) {
    for (int64_t x = 0; x < count; x++) {
        least[x] = least[x] < row[x] ? least[x] : row[x];
        most[x] = most[x] > row[x] ? most[x] : row[x];
    }
}

static int start_autocontrast(fpc_stage *stage, fpc_images *images) {
    const int status = fpc_borrow_image(stage, images);
    if (status != FPC_OK) return status;
    uint8_t *least = fpc_need_rows(stage, 2);
    if (!least) return FPC_NO_MEMORY;
    uint8_t *most = least + stage->row_bytes;
    const int64_t bytes = bytes_of(stage);
    memset(least, 255, (size_t)bytes);
    memset(most, 0, (size_t)bytes);
    for (int32_t y = 0; y < stage->height; y++) widen_range(fpc_image_row(stage, y), bytes, least, most);
    for (int c = 0; c < stage->channels; c++) {
        int low = 255, high = 0;
        for (int64_t x = c; x < bytes; x += stage->channels) {
            low = least[x] < low ? least[x] : low;
            high = most[x] > high ? most[x] : high;
        }
        const double scale = high > low ? 255.0 / (high - low) : 1.0, offset = high > low ? -low * scale : 0.0;
        for (int i = 0; i < 256; i++) {
            const double value = i * scale + offset; /* cut off, as Python's int() */
            stage->tables[256 * c + i] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
        }
    }
    return fpc_stage_table(stage, stage->tables);
}

/* ---- equalize ---- */

static int start_equalize(fpc_stage *stage, fpc_images *images) {
    const int status = fpc_borrow_image(stage, images);
    if (status != FPC_OK) return status;
    const int32_t last = stage->height - 1;
    int64_t counts[3][256] = {{0}};
    fpc_count_values(fpc_image_row(stage, 0), (int64_t)last * stage->width, stage->channels, counts);
    fpc_count_values(fpc_image_row(stage, last), stage->width, stage->channels, counts);
    for (int c = 0; c < stage->channels; c++) fpc_equalize_table(counts[c], stage->tables + 256 * c);
    return fpc_stage_table(stage, stage->tables);
}

int fpc_stage_adjust(fpc_stage *stage, fpc_images *images) {
    switch (stage->operation->kind) {
    case FPC_OP_SATURATION: return start_blend(stage, next_saturated, 3);
    case FPC_OP_CONTRAST: return start_contrast(stage, images);
    case FPC_OP_SHARPNESS: return start_blend(stage, next_sharpened, 4);
    case FPC_OP_HUE: return start_hue(stage);
    case FPC_OP_AUTOCONTRAST: return start_autocontrast(stage, images);
    case FPC_OP_EQUALIZE: return start_equalize(stage, images);
    default: return FPC_BAD_OPERATION;
    }
}
