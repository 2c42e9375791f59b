/* scans.c: files of several scans. Each scan is decoded into the whole image's coefficients, and the segments between
 * scans are read. The scans must give every coefficient completely and only once. All decoders then give the same
 * result; libjpeg smooths missing coefficients. */
#include <string.h>

#include "entropy.h"

/* In fpc_progress.low: no scan has given any bit of the coefficient. */
#define MISSING -1

/* Notes what a progressive scan gives. Refuses a scan that doesn't continue the earlier ones, or for which libjpeg
 * raises an error (jdphuff.c, start_pass_phuff_decoder). */
static int note_progressive(fpc_progress *progress, const fpc_scan *scan, const fpc_tables *tables) {
    if (scan->first > scan->last || scan->last > 63 || scan->low > 13) return FPC_BAD_SCAN;
    if (scan->first ? scan->count != 1 : scan->last != 0) return FPC_BAD_SCAN;
    if (scan->high && scan->low != scan->high - 1) return FPC_BAD_SCAN;
    for (int i = 0; i < scan->count; i++) {
        int8_t *low = progress->low[scan->component[i]];
        for (int k = scan->first; k <= scan->last; k++) {
            if (low[k] != (scan->high ? scan->high : MISSING)) return FPC_BAD_SCAN;
            low[k] = (int8_t)scan->low;
        }
        if (scan->first ? !(tables->has_ac >> scan->ac_table[i] & 1)
                        : !scan->high && !(tables->has_dc >> scan->dc_table[i] & 1))
            return FPC_BAD_TABLE;
    }
    return FPC_OK;
}

/* Notes that a sequential scan gives all coefficients of its components; libjpeg ignores its header's other fields. */
static int note_sequential(fpc_progress *progress, const fpc_scan *scan) {
    for (int i = 0; i < scan->count; i++) {
        int8_t *low = progress->low[scan->component[i]];
        if (low[0] != MISSING) return FPC_BAD_SCAN;
        memset(low, 0, 64);
    }
    return FPC_OK;
}

void fpc_progress_start(fpc_progress *progress) { memset(progress->low, MISSING, sizeof progress->low); }

int fpc_progress_note(fpc_progress *progress, bool progressive, const fpc_scan *scan, const fpc_tables *tables) {
    return progressive ? note_progressive(progress, scan, tables) : note_sequential(progress, scan);
}

bool fpc_progress_complete(const fpc_progress *progress, int components) {
    for (int i = 0; i < components; i++)
        for (int k = 0; k < 64; k++)
            if (progress->low[i][k]) return false;
    return true;
}

/* Decodes a sequential scan of some components into the stores. */
static int sequential_scan(fpc_jpeg *jpeg, const uint8_t *input) {
    int columns, rows, status = fpc_scan_start(jpeg, input, 0);
    fpc_scan_size(jpeg, &columns, &rows);
    for (int row = 0; !status && row < rows; row++) {
        fpc_scan_aim(jpeg, row);
        status = fpc_scan_decode(jpeg, (uint32_t)columns, 0);
    }
    return status;
}

/* Finds the first marker after a scan's data that isn't a restart marker. */
static int marker_behind(fpc_jpeg *jpeg, size_t *position) {
    int marker;
    fpc_scan_end(jpeg);
    while ((marker = fpc_bitstream_marker(&jpeg->bits)) >= FPC_RST0 && marker <= FPC_RST7) {
        jpeg->warned = true;
        fpc_bitstream_start(&jpeg->bits, jpeg->bits.input + 2, jpeg->bits.end);
    }
    *position = (size_t)(jpeg->bits.input - jpeg->data);
    return marker == FPC_END_OF_DATA ? FPC_TRUNCATED : FPC_OK;
}

/* Reads the segments between two scans. On FPC_OK, *marker is FPC_SOS or FPC_EOI, and the position is after it. */
static int walk_between(fpc_scan_walk *walk, int *marker) {
    for (;;) {
        if (walk->length - walk->position < 2) return FPC_TRUNCATED;
        const uint8_t *at = walk->data + walk->position;
        if (at[0] != 0xFF) return FPC_BAD_MARKER;
        *marker = at[1];
        walk->position += 2;
        if (*marker == FPC_EOI || *marker == FPC_SOS) return FPC_OK;
        if (!fpc_is_metadata(*marker) && *marker != FPC_DHT && *marker != FPC_DRI) return FPC_BAD_MARKER;
        if (walk->length - walk->position < 2) return FPC_TRUNCATED;
        size_t size = (size_t)at[2] << 8 | at[3];
        if (size < 2) return FPC_BAD_MARKER;
        if (walk->length - walk->position < size) return FPC_TRUNCATED;
        int status = FPC_OK;
        if (*marker == FPC_DHT) status = fpc_read_huffman_specs(walk->tables, at + 4, size - 2);
        if (*marker == FPC_DRI) status = fpc_read_interval(walk->tables, at + 4, size - 2);
        if (status) return status;
        walk->position += size;
    }
}

int fpc_scan_walk_start(fpc_scan_walk *walk) {
    walk->scans = 1;
    walk->ended = false;
    fpc_progress_start(&walk->progress);
    return fpc_progress_note(&walk->progress, walk->progressive, walk->scan, walk->tables);
}

int fpc_scan_walk_next(fpc_scan_walk *walk) {
    int marker = 0, status = walk_between(walk, &marker);
    if (status) return status;
    walk->ended = marker == FPC_EOI;
    if (walk->ended) return fpc_progress_complete(&walk->progress, walk->count) ? FPC_OK : FPC_BAD_SCAN;
    if (walk->scans++ == FPC_MAX_SCANS) return FPC_TOO_LARGE;
    const uint8_t *at = walk->data + walk->position;
    if (walk->length - walk->position < 2) return FPC_TRUNCATED;
    size_t size = (size_t)at[0] << 8 | at[1];
    if (size < 2) return FPC_BAD_SCAN;
    if (walk->length - walk->position < size) return FPC_TRUNCATED;
    walk->position += size;
    status = fpc_read_scan(walk->scan, at + 2, size - 2, walk->components, walk->count);
    if (status) return status;
    return fpc_progress_note(&walk->progress, walk->progressive, walk->scan, walk->tables);
}

int fpc_decode_scans(fpc_jpeg *jpeg) {
    fpc_scan_walk walk = {.data = jpeg->data,
                          .length = jpeg->length,
                          .position = jpeg->segments.scan_end,
                          .components = jpeg->components,
                          .count = jpeg->component_count,
                          .progressive = jpeg->frame.header.progressive,
                          .tables = &jpeg->tables,
                          .scan = &jpeg->scan};
    int status = fpc_scan_walk_start(&walk);
    while (!status && !walk.ended) {
        const uint8_t *input = walk.data + walk.position;
        status = walk.progressive ? fpc_progressive_scan(jpeg, input) : sequential_scan(jpeg, input);
        if (!status) status = marker_behind(jpeg, &walk.position);
        if (!status) status = fpc_scan_walk_next(&walk);
    }
    return status;
}
