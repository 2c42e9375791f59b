/* progressive.c: progressive scans (T.81, annex G). Each block has, beside its coefficients, a word with a bit per
 * nonzero coefficient: refinement goes from one to the next without reading those between. */
#include <string.h>

#include "entropy.h"

/* The largest shift with which the values of the tables fit 16 bits; no sound file comes near. */
#define LARGEST_SHIFT (15 - FPC_LARGEST_FAST_SIZE)

/* Sets the blocks of an MCU and their tables in a scan of DC coefficients; refinement scans have no tables. */
static int set_blocks(fpc_jpeg *jpeg) {
    const fpc_scan *scan = &jpeg->scan;
    for (int i = 0; i < scan->count && !scan->high; i++) fpc_scan_make_dc(jpeg, scan->dc_table[i]);
    return fpc_scan_blocks(jpeg);
}

/* Sets the scan's band, its tables and the order of its positions. */
static int set_band(fpc_jpeg *jpeg, fpc_band *band) {
    const fpc_scan *scan = &jpeg->scan;
    if (scan->low > LARGEST_SHIFT) return FPC_BAD_SCAN;
    band->spec = &jpeg->tables.ac[scan->ac_table[0]];
    band->table = &jpeg->ac[0];
    band->symbols = &jpeg->words;
    band->low = (uint32_t)scan->low;
    band->shift = 63 - (uint32_t)scan->last;
    band->first = (uint32_t)scan->first + band->shift;
    band->ended = 0;
    memset(band->order, FPC_DUMP, sizeof band->order);
    memcpy(band->order + band->first + 1, fpc_natural_order + scan->first + 1, (size_t)(scan->last - scan->first + 1));
    if (scan->high) {
        fpc_build_symbols(&jpeg->words, band->spec);
    } else {
        fpc_build_words(&jpeg->words, band->spec, 1);
        jpeg->kernels->build_ac(&jpeg->ac[0], &jpeg->words);
        fpc_add_runs(&jpeg->ac[0], band->spec);
        jpeg->made_ac[0].made = 0; /* sequential scans can't reuse this table */
    }
    return FPC_OK;
}

/* Points the scan to the blocks of an MCU row. */
static void aim(fpc_jpeg *jpeg, fpc_band *band, int row) {
    const fpc_store *store = &jpeg->stores[jpeg->scan.component[0]];
    size_t at = (size_t)row * (size_t)store->stride;
    if (!jpeg->scan.first) {
        fpc_scan_aim(jpeg, row);
    } else {
        band->block = (int16_t *)(void *)store->coefficients.data + at * 64;
        band->nonzero = (uint64_t *)(void *)store->nonzero.data + at;
    }
}

/* Decodes up to `count` MCUs; returns how many. */
static uint32_t decode_some(fpc_jpeg *jpeg, fpc_band *band, uint32_t count, uint32_t *bad) {
    const fpc_kernels *kernels = jpeg->kernels;
    const fpc_scan *scan = &jpeg->scan;
    fpc_reader *reader = &jpeg->bits.reader;
    const uint8_t *limit = jpeg->bits.limit;
    if (scan->first) return (scan->high ? kernels->refine_band : kernels->decode_band)(reader, limit, band, count, bad);
    return (scan->high ? kernels->refine_dc : kernels->decode_dc)(reader, limit, &jpeg->mcu, count, (uint32_t)scan->low,
                                                                  bad);
}

/* Decodes a row of MCUs. */
static int decode_row(fpc_jpeg *jpeg, fpc_band *band, uint32_t count) {
    while (count) {
        if (!jpeg->until_restart) band->ended = 0;
        int status = fpc_scan_prepare(jpeg);
        if (status) return status;
        uint32_t some = count < jpeg->until_restart ? count : jpeg->until_restart, bad = 0;
        some = decode_some(jpeg, band, some, &bad);
        if (bad) return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_BAD_CODE;
        jpeg->until_restart -= some;
        count -= some;
    }
    return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_OK;
}

int fpc_progressive_scan(fpc_jpeg *jpeg, const uint8_t *input) {
    fpc_band band;
    int columns, rows, status = jpeg->scan.first ? set_band(jpeg, &band) : set_blocks(jpeg);
    if (status) return status;
    fpc_scan_begin(jpeg, input);
    fpc_scan_size(jpeg, &columns, &rows);
    for (int row = 0; !status && row < rows; row++) {
        aim(jpeg, &band, row);
        status = decode_row(jpeg, &band, (uint32_t)columns);
    }
    return status;
}
