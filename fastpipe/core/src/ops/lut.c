/* lut.c: operations that look each value up in a table of 256: a given table, or one computed from the whole image, as
 * in Pillow's ImageEnhance.Contrast and ImageOps. */
#include <string.h>

#include "blend.h"
#include "histogram.h"
#include "operations.h"
#include "tensors.h"

typedef struct lut_stage {
    fpc_stage stage;
    fpc_image image;         /* the input, if the table is computed from it; else its rows are NULL */
    uint8_t tables[3 * 256]; /* one table per channel */
    bool same;               /* all channels have the same table */
    bool identity;
} lut_stage;

static int next_looked_up(fpc_stage *stage, uint8_t *row) {
    const lut_stage *lut = (const lut_stage *)stage;
    const int64_t bytes = (int64_t)stage->width * stage->channels;
    const uint8_t *in = row;
    if (lut->image.rows) {
        in = fpc_image_row(&lut->image, stage->given);
    } else {
        const int status = fpc_borrow_row(stage->from, row, &in);
        if (status != FPC_OK) return status;
    }
    if (lut->identity) {
        if (in != row) memcpy(row, in, (size_t)bytes);
    } else if (lut->same) {
        stage->kernels->look_up(in, bytes, lut->tables, row);
    } else {
        stage->kernels->look_up_rgb(in, stage->width, lut->tables, row);
    }
    return FPC_OK;
}

/* Completes a stage whose tables are set. */
static int use_tables(lut_stage *lut) {
    const uint8_t *tables = lut->tables;
    const int32_t channels = lut->stage.channels;
    lut->same = channels == 1 || (!memcmp(tables, tables + 256, 256) && !memcmp(tables, tables + 512, 256));
    lut->identity = true;
    for (int i = 0; i < 256 * channels; i++) lut->identity &= tables[i] == (i & 255);
    return FPC_OK;
}

int fpc_add_lut(fpc_chain *chain, const fpc_operation *operation) {
    lut_stage *lut = fpc_chain_add(chain, sizeof *lut, next_looked_up);
    if (!lut) return FPC_NO_MEMORY;
    if (!operation->lut.table || operation->lut.rgbx_pad < FPC_LOOK_UP_RGBX_PAD || operation->lut.rgbx_pad > 255) {
        return FPC_BAD_OPERATION;
    }
    memcpy(lut->tables, operation->lut.table, 256 * (size_t)lut->stage.channels);
    return use_tables(lut);
}

/* Adds a stage whose table is computed from all rows of the stage before. */
static int add_with_image(fpc_chain *chain, lut_stage **lut) {
    *lut = fpc_chain_add(chain, sizeof **lut, next_looked_up);
    return *lut ? fpc_borrow_image(chain, &(*lut)->stage, &(*lut)->image) : FPC_NO_MEMORY;
}

/* ---- contrast: a blend with the mean of the gray image ---- */

static uint64_t sum_of(const uint8_t *row, int32_t count) {
    uint64_t sum = 0;
    for (int32_t x = 0; x < count;) {
        uint32_t part = 0; /* the sum of so many bytes that it can't overflow */
        const int32_t end = count - x < 1 << 20 ? count : x + (1 << 20);
        for (; x < end; x++) part += row[x];
        sum += part;
    }
    return sum;
}

int fpc_add_contrast(fpc_chain *chain, const fpc_operation *operation) {
    float factor;
    if (!fpc_blend_factor(&operation->blend, &factor)) return FPC_BAD_OPERATION;
    lut_stage *lut;
    const int status = add_with_image(chain, &lut);
    if (status != FPC_OK) return status;
    const fpc_stage *stage = &lut->stage;
    uint8_t *gray = fpc_need_rows(&lut->stage, 1);
    if (!gray) return FPC_NO_MEMORY;
    uint64_t sum = 0;
    for (int32_t y = 0; y < stage->height; y++) {
        const uint8_t *row = fpc_image_row(&lut->image, y);
        if (stage->channels == 3) {
            stage->kernels->rgb_to_gray(row, stage->width, gray);
            row = gray;
        }
        sum += sum_of(row, stage->width);
    }
    /* int(ImageStat.Stat(gray).mean[0] + 0.5) */
    const double mean = (double)sum / (double)((int64_t)stage->height * stage->width);
    uint8_t flat[256 + FPC_ROW_SLACK], every[256 + FPC_ROW_SLACK], table[256 + FPC_ROW_SLACK];
    memset(flat, (int)(mean + 0.5), sizeof flat);
    for (int i = 0; i < 256; i++) every[i] = (uint8_t)i;
    stage->kernels->blend_rows(flat, every, factor, 256, table);
    for (int c = 0; c < stage->channels; c++) memcpy(lut->tables + 256 * c, table, 256);
    return use_tables(lut);
}

/* Up to this sum float32 holds every integer, so that torch.mean's sum is exact in any order of addition. */
#define MOST_TENSOR_SUM (1 << 24)

int fpc_add_tensor_contrast(fpc_chain *chain, const fpc_operation *operation) {
    fpc_tensor_blend blend;
    if (!fpc_tensor_factors(operation, &blend)) return FPC_BAD_OPERATION;
    lut_stage *lut;
    const int status = add_with_image(chain, &lut);
    if (status != FPC_OK) return status;
    const fpc_stage *stage = &lut->stage;
    const int64_t plane_bytes = fpc_row_bytes(stage->width, 1);
    uint8_t *gray = fpc_buffer_need(&stage->slot->rows, 3 * (size_t)plane_bytes);
    if (!gray) return FPC_NO_MEMORY;
    uint8_t *const planes[3] = {gray, gray + plane_bytes, gray + 2 * plane_bytes};
    uint64_t sum = 0;
    for (int32_t y = 0; y < stage->height; y++) {
        const uint8_t *row = fpc_image_row(&lut->image, y);
        if (stage->channels == 3) {
            stage->kernels->split_channels(row, stage->width, planes);
            stage->kernels->planes_gray(planes[0], planes[1], planes[2], stage->width, blend.fused, gray);
            row = gray;
        }
        sum += sum_of(row, stage->width);
    }
    if (sum > MOST_TENSOR_SUM) return FPC_BAD_OPERATION;
    const float mean = (float)sum / (float)((int64_t)stage->height * stage->width);
    const int found = fpc_tensor_contrast_table(&blend, mean, lut->tables);
    if (found != FPC_OK) return found;
    for (int c = 1; c < stage->channels; c++) memcpy(lut->tables + 256 * c, lut->tables, 256);
    return use_tables(lut);
}

/* ---- autocontrast ---- */

/* Widens the range of values of each column by a row, which compilers vectorise. */
static void widen_range(const uint8_t *row, int64_t count, uint8_t *least, uint8_t *most) {
    for (int64_t x = 0; x < count; x++) {
        least[x] = least[x] < row[x] ? least[x] : row[x];
        most[x] = most[x] > row[x] ? most[x] : row[x];
    }
}

/* Finds each channel's least and greatest value. */
static int find_ranges(lut_stage *lut, uint8_t least[3], uint8_t most[3]) {
    const int32_t channels = lut->stage.channels;
    const int64_t bytes = (int64_t)lut->stage.width * channels;
    uint8_t *low = fpc_need_rows(&lut->stage, 2);
    if (!low) return FPC_NO_MEMORY;
    uint8_t *high = low + fpc_row_bytes(lut->stage.width, channels);
    memset(low, 255, (size_t)bytes);
    memset(high, 0, (size_t)bytes);
    for (int32_t y = 0; y < lut->stage.height; y++) widen_range(fpc_image_row(&lut->image, y), bytes, low, high);
    for (int c = 0; c < channels; c++) {
        least[c] = 255;
        most[c] = 0;
        for (int64_t x = c; x < bytes; x += channels) {
            least[c] = low[x] < least[c] ? low[x] : least[c];
            most[c] = high[x] > most[c] ? high[x] : most[c];
        }
    }
    return FPC_OK;
}

int fpc_add_autocontrast(fpc_chain *chain, const fpc_operation *operation) {
    (void)operation;
    lut_stage *lut;
    uint8_t least[3], most[3];
    int status = add_with_image(chain, &lut);
    if (status == FPC_OK) status = find_ranges(lut, least, most);
    if (status != FPC_OK) return status;
    for (int c = 0; c < lut->stage.channels; c++) {
        const int low = least[c], high = most[c];
        const double scale = high > low ? 255.0 / (high - low) : 1.0, offset = high > low ? -low * scale : 0.0;
        for (int i = 0; i < 256; i++) {
            const double value = i * scale + offset; /* truncated, as by Python's int() */
            lut->tables[256 * c + i] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
        }
    }
    return use_tables(lut);
}

int fpc_add_tensor_autocontrast(fpc_chain *chain, const fpc_operation *operation) {
    lut_stage *lut;
    uint8_t least[3], most[3];
    if (operation->flags & ~(FPC_FUSED | FPC_V1)) return FPC_BAD_OPERATION;
    int status = add_with_image(chain, &lut);
    if (status == FPC_OK) status = find_ranges(lut, least, most);
    if (status != FPC_OK) return status;
    for (int c = 0; c < lut->stage.channels; c++) {
        fpc_tensor_autocontrast_table(least[c], most[c], operation->flags & FPC_V1, lut->tables + 256 * c);
    }
    return use_tables(lut);
}

/* ---- equalize ---- */

int fpc_add_equalize(fpc_chain *chain, const fpc_operation *operation) {
    (void)operation;
    lut_stage *lut;
    const int status = add_with_image(chain, &lut);
    if (status != FPC_OK) return status;
    const int32_t last = lut->stage.height - 1, width = lut->stage.width, channels = lut->stage.channels;
    int64_t counts[3][256] = {{0}};
    fpc_count_values(fpc_image_row(&lut->image, 0), (int64_t)last * width, channels, counts);
    fpc_count_values(fpc_image_row(&lut->image, last), width, channels, counts);
    for (int c = 0; c < channels; c++) fpc_equalize_table(counts[c], lut->tables + 256 * c);
    return use_tables(lut);
}
