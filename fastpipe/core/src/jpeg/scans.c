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

int fpc_progress_note(fpc_progress *progress, int progressive, const fpc_scan *scan, const fpc_tables *tables) {
    return progressive ? note_progressive(progress, scan, tables) : note_sequential(progress, scan);
}

int fpc_progress_complete(const fpc_progress *progress, int components) {
    for (int i = 0; i < components; i++)
        for (int k = 0; k < 64; k++)
            if (progress->low[i][k]) return 0;
    return 1;
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

/* Reads the segments between two scans. On FPC_OK, *marker is FPC_SOS or FPC_EOI, and *position is after the marker. */
static int walk_between(fpc_jpeg *jpeg, size_t *position, int *marker) {
    for (;;) {
        if (jpeg->length - *position < 2) return FPC_TRUNCATED;
        const uint8_t *at = jpeg->data + *position;
        if (at[0] != 0xFF) return FPC_BAD_MARKER;
        *marker = at[1];
        *position += 2;
        if (*marker == FPC_EOI || *marker == FPC_SOS) return FPC_OK;
        int application = (*marker >= FPC_APP0 && *marker <= FPC_APP15) || *marker == FPC_COM;
        if (!application && *marker != FPC_DHT && *marker != FPC_DRI) return FPC_BAD_MARKER;
        if (jpeg->length - *position < 2) return FPC_TRUNCATED;
        size_t size = (size_t)at[2] << 8 | at[3];
        if (size < 2) return FPC_BAD_MARKER;
        if (jpeg->length - *position < size) return FPC_TRUNCATED;
        int status = FPC_OK;
        if (*marker == FPC_DHT) status = fpc_read_huffman_specs(&jpeg->tables, at + 4, size - 2);
        if (*marker == FPC_DRI) status = fpc_read_interval(&jpeg->tables, at + 4, size - 2);
        if (status) return status;
        *position += size;
    }
}

int fpc_decode_scans(fpc_jpeg *jpeg) {
    fpc_progress progress;
    fpc_progress_start(&progress);
    size_t position = jpeg->segments.scan_end;
    for (int scans = 1;; scans++) {
        int progressive = jpeg->frame.header.progressive, marker = 0;
        int status = fpc_progress_note(&progress, progressive, &jpeg->scan, &jpeg->tables);
        if (status) return status;
        const uint8_t *input = jpeg->data + position;
        status = progressive ? fpc_progressive_scan(jpeg, input) : sequential_scan(jpeg, input);
        if (!status) status = marker_behind(jpeg, &position);
        if (!status) status = walk_between(jpeg, &position, &marker);
        if (status) return status;
        if (marker == FPC_EOI) return fpc_progress_complete(&progress, jpeg->component_count) ? FPC_OK : FPC_BAD_SCAN;
        if (scans == FPC_MAX_SCANS) return FPC_TOO_LARGE;
        if (jpeg->length - position < 2) return FPC_TRUNCATED;
        size_t size = (size_t)jpeg->data[position] << 8 | jpeg->data[position + 1];
        if (size < 2) return FPC_BAD_SCAN;
        if (jpeg->length - position < size) return FPC_TRUNCATED;
        status =
            fpc_read_scan(&jpeg->scan, jpeg->data + position + 2, size - 2, jpeg->components, jpeg->component_count);
        if (status) return status;
        position += size;
    }
}
