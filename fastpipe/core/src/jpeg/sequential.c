/* sequential.c: baseline and extended sequential scans. Decodes the MCUs that are needed, and skips the others. */
#include "entropy.h"

#include <string.h>

void fpc_scan_size(const fpc_jpeg *jpeg, int *columns, int *rows) {
    const fpc_component *only = &jpeg->components[jpeg->scan.component[0]];
    int alone = jpeg->scan.count == 1; /* then the MCU is one block, and no blocks fill it up (T.81, A.2.2) */
    *columns = alone ? only->blocks_wide : jpeg->frame.mcu_columns;
    *rows = alone ? only->blocks_high : jpeg->frame.mcu_rows;
}

int fpc_scan_blocks(fpc_jpeg *jpeg) {
    fpc_mcu *mcu = &jpeg->mcu;
    mcu->count = 0;
    for (int i = 0; i < jpeg->scan.count; i++) {
        const fpc_component *component = &jpeg->components[jpeg->scan.component[i]];
        int alone = jpeg->scan.count == 1, blocks = alone ? 1 : component->horizontal * component->vertical;
        int dc = jpeg->scan.dc_table[i], ac = jpeg->scan.ac_table[i];
        if (mcu->count + blocks > FPC_MAX_MCU_BLOCKS) return FPC_UNSUPPORTED_COLOR;
        if (!alone) jpeg->interleaved |= 1u << jpeg->scan.component[i];
        for (int j = 0; j < blocks; j++) {
            mcu->blocks[mcu->count++] = (fpc_block){.dc = &jpeg->dc[dc],
                                                    .ac = &jpeg->ac[ac],
                                                    .skip = &jpeg->skip[ac],
                                                    .dc_spec = &jpeg->tables.dc[dc],
                                                    .ac_spec = &jpeg->tables.ac[ac],
                                                    .step = alone ? 1 : component->horizontal,
                                                    .prediction = &mcu->predictions[i]};
        }
    }
    return FPC_OK;
}

void fpc_scan_aim(fpc_jpeg *jpeg, int row) {
    fpc_block *block = jpeg->mcu.blocks;
    for (int i = 0; i < jpeg->scan.count; i++) {
        const fpc_component *component = &jpeg->components[jpeg->scan.component[i]];
        fpc_store *store = &jpeg->stores[jpeg->scan.component[i]];
        int alone = jpeg->scan.count == 1;
        int high = alone ? 1 : component->vertical, wide = alone ? 1 : component->horizontal;
        for (int y = 0; y < high; y++) {
            size_t at = ((size_t)row * (size_t)high + (size_t)y) * (size_t)store->stride;
            for (int x = 0; x < wide; x++, block++, at++) {
                block->output = (int16_t *)(void *)store->coefficients.data + at * 64;
                block->last = store->last.data + at;
            }
        }
    }
}

void fpc_scan_begin(fpc_jpeg *jpeg, const uint8_t *input) {
    memset(jpeg->mcu.predictions, 0, sizeof jpeg->mcu.predictions);
    jpeg->until_restart = jpeg->tables.restart_interval ? jpeg->tables.restart_interval : UINT32_MAX;
    jpeg->next_restart = 0;
    fpc_bitstream_start(&jpeg->bits, input, jpeg->data + jpeg->length);
}

/* Returns 1 if the table was already made from this code; otherwise notes that it will be. */
static int keep_spec(fpc_table_source *source, const fpc_huffman_spec *spec) {
    if (source->made && fpc_huffman_spec_equal(&source->spec, spec)) return 1;
    source->made = 1;
    source->spec = *spec;
    return 0;
}

void fpc_scan_make_dc(fpc_jpeg *jpeg, int number) {
    const fpc_huffman_spec *spec = &jpeg->tables.dc[number];
    if (!keep_spec(&jpeg->made_dc[number], spec)) fpc_build_dc(&jpeg->dc[number], spec);
}

static void make_ac(fpc_jpeg *jpeg, int number, int skips) {
    const fpc_huffman_spec *spec = &jpeg->tables.ac[number];
    const int has_table = keep_spec(&jpeg->made_ac[number], spec);
    const int has_skip = !skips || keep_spec(&jpeg->made_skip[number], spec);
    if (!has_table || !has_skip) fpc_build_words(&jpeg->words, spec, 0);
    if (!has_table) jpeg->kernels->build_ac(&jpeg->ac[number], &jpeg->words);
    if (!has_skip) jpeg->kernels->build_skip(&jpeg->skip[number], &jpeg->words);
}

int fpc_scan_start(fpc_jpeg *jpeg, const uint8_t *input, int skips) {
    const fpc_scan *scan = &jpeg->scan;
    jpeg->warned |= scan->first || scan->last != 63 || scan->high || scan->low;
    int status = fpc_scan_blocks(jpeg);
    if (status) return status;
    for (int i = 0; i < jpeg->scan.count; i++) {
        int dc = jpeg->scan.dc_table[i], ac = jpeg->scan.ac_table[i];
        if (!(jpeg->tables.has_dc >> dc & jpeg->tables.has_ac >> ac & 1)) return FPC_BAD_TABLE;
        fpc_scan_make_dc(jpeg, dc);
        make_ac(jpeg, ac, skips);
    }
    fpc_scan_begin(jpeg, input);
    return FPC_OK;
}

void fpc_scan_end(fpc_jpeg *jpeg) { jpeg->warned |= fpc_bitstream_left_over(&jpeg->bits); }

int fpc_scan_prepare(fpc_jpeg *jpeg) {
    if (!jpeg->until_restart) {
        fpc_scan_end(jpeg);
        int status = fpc_bitstream_restart(&jpeg->bits, jpeg->next_restart);
        if (status) return status;
        jpeg->next_restart = (jpeg->next_restart + 1) & 7;
        jpeg->until_restart = jpeg->tables.restart_interval;
        memset(jpeg->mcu.predictions, 0, sizeof jpeg->mcu.predictions);
    }
    return jpeg->bits.reader.next > jpeg->bits.limit ? fpc_bitstream_fill(&jpeg->bits) : FPC_OK;
}

int fpc_scan_decode(fpc_jpeg *jpeg, uint32_t count, int skip) {
    const fpc_kernels *kernels = jpeg->kernels;
    while (count) {
        int status = fpc_scan_prepare(jpeg);
        if (status) return status;
        uint32_t some = count < jpeg->until_restart ? count : jpeg->until_restart, bad = 0;
        some = (skip ? kernels->skip_mcus : kernels->decode_mcus)(&jpeg->bits.reader, jpeg->bits.limit, &jpeg->mcu,
                                                                  some, &bad);
        if (bad) return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_BAD_CODE;
        jpeg->until_restart -= some;
        count -= some;
    }
    return fpc_bitstream_overrun(&jpeg->bits) ? FPC_TRUNCATED : FPC_OK;
}
