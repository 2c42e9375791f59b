/* restore.c: writes a JPEG from a packed image's coefficients and segments, and an outline of everything else. */
#include "restore.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks that fill up MCUs ---- */

/* The last zigzag index of a block that is as libjpeg writes it: flat, with the DC of the block before. */
#define USUAL 255

static void start_dummies(fpc_restorer *to) {
    to->dummies = fpc_numbers_in(to->original.dummies, to->original.dummies_size);
    to->usual_dummies = to->original.dummies_size ? fpc_number(&to->dummies) : UINT64_MAX;
}

/* Reads the next block of `dummies`. */
static int read_dummy(fpc_restorer *to, int16_t *block, uint8_t *last) {
    fpc_numbers *numbers = &to->dummies;
    memset(block, 0, 64 * sizeof *block);
    block[0] = (int16_t)fpc_signed_number(numbers);
    const uint64_t count = fpc_number(numbers);
    uint64_t place = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t zeros = fpc_number(numbers);
        if (numbers->failed || zeros > 62 - place) return FPC_BAD_CODE;
        place += zeros + 1;
        block[fpc_natural_order[place + 1]] = (int16_t)fpc_signed_number(numbers);
        if (place == 63 && i + 1 < count) return FPC_BAD_CODE;
    }
    if (numbers->failed) return FPC_BAD_CODE;
    *last = (uint8_t)place;
    to->usual_dummies = numbers->next < numbers->end ? fpc_number(numbers) : UINT64_MAX;
    return FPC_OK;
}

/* Reads the blocks that fill up a row of MCUs, component by component and row by row. */
static int read_dummies(fpc_restorer *to, int row) {
    const fpc_frame *frame = to->frame;
    size_t count = 0;
    for (int i = 0; i < frame->header.components; i++) {
        const fpc_plane *plane = &frame->planes[i];
        const size_t all = (size_t)frame->mcu_columns * (size_t)(plane->horizontal * plane->vertical);
        to->first_dummy[i] = count;
        count += all - (size_t)plane->blocks_wide * (size_t)fpc_packed_block_rows(plane, row);
    }
    const size_t bytes = count * (64 * sizeof(int16_t) + 1);
    if (to->max_bytes && bytes > (uint64_t)to->max_bytes) return FPC_TOO_LARGE;
    if (!fpc_buffer_need(to->dummy_blocks, bytes + 1)) return FPC_NO_MEMORY;
    int16_t *block = (int16_t *)(void *)to->dummy_blocks->data;
    uint8_t *last = (uint8_t *)(block + 64 * count);
    for (size_t i = 0; i < count; i++, block += 64, last++) {
        *last = USUAL;
        if (to->usual_dummies) {
            to->usual_dummies -= to->usual_dummies != UINT64_MAX;
            continue;
        }
        const int status = read_dummy(to, block, last);
        if (status) return status;
    }
    to->first_dummy[FPC_MAX_COMPONENTS] = count;
    return FPC_OK;
}

/* The coefficients of a block at (x, y) of a component that fills up the row of MCUs. */
static const int16_t *dummy_of(fpc_restorer *to, int component, int rows, int x, int y, int *last) {
    const fpc_plane *plane = &to->frame->planes[component];
    const size_t columns = (size_t)to->frame->mcu_columns * (size_t)plane->horizontal;
    *last = 0;
    to->flat[0] = (int16_t)to->previous[component];
    if (!to->original.dummies_size) return to->flat;
    const size_t behind = columns - (size_t)plane->blocks_wide;
    const size_t number =
        to->first_dummy[component] + (y < rows ? (size_t)y * behind + (size_t)(x - plane->blocks_wide)
                                               : (size_t)rows * behind + (size_t)(y - rows) * columns + (size_t)x);
    const int16_t *blocks = (const int16_t *)(const void *)to->dummy_blocks->data;
    const uint8_t *lasts = (const uint8_t *)(blocks + 64 * to->first_dummy[FPC_MAX_COMPONENTS]);
    if (lasts[number] == USUAL) return to->flat;
    *last = lasts[number];
    return blocks + 64 * number;
}

/* ---- ends of restart intervals and scans ---- */

static void next_end(fpc_restorer *to, uint64_t from) {
    to->next_end = to->ends.next < to->ends.end ? from + fpc_number(&to->ends) : UINT64_MAX;
}

/* Checks that the bytes written so far are the reference's; without a reference, that they aren't too many. */
static int check_written(fpc_restorer *to) {
    const fpc_reference *reference = to->reference;
    const size_t size = to->out->size, before = to->compared;
    if (to->out->failed) return FPC_NO_MEMORY;
    if (!reference) return size > to->most ? FPC_BAD_CODE : FPC_OK;
    to->compared = size;
    if (size > reference->length || memcmp(to->out->data + before, reference->data + before, size - before))
        return FPC_OTHER_BYTES;
    return FPC_OK;
}

size_t fpc_behind_scan(const uint8_t *data, size_t length, size_t position) {
    for (;;) {
        const uint8_t *found = memchr(data + position, 0xFF, length - position);
        if (!found || (size_t)(found - data) + 2 > length) return length;
        position = (size_t)(found - data);
        const int marker = found[1];
        if (marker && marker != 0xFF && (marker < FPC_RST0 || marker > FPC_RST7)) return position;
        position += marker == 0xFF ? 1 : 2;
    }
}

/* The position of the next marker if it is restart marker `number`; else the file's length. */
static size_t find_restart(const fpc_reference *reference, size_t position, int number) {
    for (;;) {
        const uint8_t *found = memchr(reference->data + position, 0xFF, reference->length - position);
        if (!found || (size_t)(found - reference->data) + 2 > reference->length) return reference->length;
        position = (size_t)(found - reference->data);
        if (found[1] == FPC_RST0 + number) return position;
        if (found[1] && found[1] != 0xFF) return reference->length;
        position += found[1] ? 1 : 2;
    }
}

/* Ends a scan or a restart interval as the reference does, and adds the end to the lists for which it is unusual. */
static int learn_end(fpc_restorer *to, uint32_t left, bool ends_scan) {
    fpc_reference *reference = to->reference;
    fpc_bytes *out = to->out;
    const uint32_t mask = left ? (1u << (8 - left)) - 1 : 0;
    if (out->size >= reference->length) return FPC_OTHER_BYTES;
    const uint32_t padding = reference->data[out->size] & mask;
    fpc_encoder_pad(&to->encoder, padding);
    const int status = check_written(to);
    if (status) return status;
    const size_t start = out->size;
    const size_t end = ends_scan ? fpc_behind_scan(reference->data, reference->length, start)
                                 : find_restart(reference, start, to->next_restart);
    if (end == reference->length) return FPC_OTHER_BYTES;
    fpc_bytes_add(out, reference->data + start, end - start);
    for (uint32_t usual = 0; usual < 2; usual++) {
        if (padding == (usual ? mask : 0) && end == start) continue;
        fpc_bytes *noted = &reference->ends[usual];
        fpc_put_number(noted, to->interval - reference->noted[usual]);
        fpc_bytes_put(noted, (int)padding);
        fpc_put_number(noted, end - start);
        fpc_bytes_add(noted, reference->data + start, end - start);
        reference->noted[usual] = to->interval + 1;
        if (noted->failed) return FPC_NO_MEMORY;
    }
    return FPC_OK;
}

static int put_end(fpc_restorer *to, bool ends_scan) {
    int status = FPC_OK;
    const uint32_t left = fpc_encoder_flush(&to->encoder);
    if (to->encoder.missing & FPC_NO_CODE) return FPC_BAD_CODE;
    if (to->reference && to->reference->learns) {
        status = learn_end(to, left, ends_scan);
    } else if (to->interval == to->next_end) {
        const uint8_t *padding = fpc_number_bytes(&to->ends, 1);
        const uint64_t size = fpc_number(&to->ends);
        const uint8_t *stray = fpc_number_bytes(&to->ends, size);
        if (!padding || !stray) return FPC_BAD_CODE;
        fpc_encoder_pad(&to->encoder, *padding);
        fpc_bytes_add(to->out, stray, (size_t)size);
        next_end(to, to->interval + 1);
    } else {
        fpc_encoder_pad(&to->encoder, to->original.padding);
    }
    to->interval++;
    return status ? status : check_written(to);
}

static int put_restart(fpc_restorer *to) {
    const int status = put_end(to, false);
    if (status) return status;
    const uint8_t marker[2] = {0xFF, (uint8_t)(FPC_RST0 + to->next_restart)};
    fpc_bytes_add(to->out, marker, 2);
    to->next_restart = (to->next_restart + 1) & 7;
    to->until_restart = to->tables.restart_interval;
    memset(to->previous, 0, sizeof to->previous);
    fpc_encoder_start(&to->encoder);
    return FPC_OK;
}

/* ---- scans ---- */

static int begin_mcu(fpc_restorer *to) {
    if (to->counts) return FPC_OK;
    if (!to->until_restart) {
        const int status = put_restart(to);
        if (status) return status;
    }
    to->until_restart--;
    fpc_encoder_room(&to->encoder);
    return FPC_OK;
}

/* Writes a block of the scan's component `i`, or counts its symbols. */
static inline void put_block(fpc_restorer *to, int i, const int16_t *block, int last) {
    const fpc_scan *scan = &to->scan;
    const int component = scan->component[i], dc = block[0], before = to->previous[component];
    to->previous[component] = dc;
    if (!to->progressive) {
        const int difference = (int16_t)(uint16_t)((uint32_t)dc - (uint32_t)before); /* wraps around */
        if (to->counts)
            fpc_count_block(to->encoder.kernels, &to->counts[component > 0], block, last, difference);
        else
            fpc_encode_block(&to->encoder, &to->dc[scan->dc_table[i]], &to->ac[scan->ac_table[i]], block, last,
                             difference);
    } else if (scan->first) {
        (scan->high ? fpc_encode_refined_band : fpc_encode_band)(&to->encoder, block, last);
    } else if (scan->high) {
        fpc_encode_bit(&to->encoder, (uint32_t)(dc >> scan->low));
    } else {
        fpc_encode_dc(&to->encoder, &to->dc[scan->dc_table[i]], (dc >> scan->low) - (before >> scan->low));
    }
}

/* Writes the MCU row decoded last of a scan of one component: its MCUs are blocks, and none fills up (T.81, A.2.2). */
static int put_row_alone(fpc_restorer *to, int row) {
    const fpc_plane *plane = &to->frame->planes[to->scan.component[0]];
    const int rows = fpc_packed_block_rows(plane, row);
    for (int y = 0; y < rows; y++) {
        size_t at = (size_t)y * (size_t)plane->stride;
        for (int x = 0; x < plane->blocks_wide; x++, at++) {
            const int status = begin_mcu(to);
            if (status) return status;
            put_block(to, 0, plane->coefficients + 64 * at, plane->last[at]);
        }
    }
    return FPC_OK;
}

static int put_mcu(fpc_restorer *to, int row, int column) {
    const int status = begin_mcu(to);
    if (status) return status;
    for (int i = 0; i < to->scan.count; i++) {
        const int component = to->scan.component[i];
        const fpc_plane *plane = &to->frame->planes[component];
        const int rows = fpc_packed_block_rows(plane, row), first = column * plane->horizontal;
        for (int y = 0; y < plane->vertical; y++) {
            for (int x = first; x < first + plane->horizontal; x++) {
                const size_t at = (size_t)y * (size_t)plane->stride + (size_t)x;
                if (x < plane->blocks_wide && y < rows) {
                    put_block(to, i, plane->coefficients + 64 * at, plane->last[at]);
                } else {
                    int last;
                    const int16_t *block = dummy_of(to, component, rows, x, y, &last);
                    put_block(to, i, block, last);
                }
            }
        }
    }
    return FPC_OK;
}

static int put_row(fpc_restorer *to, int row) {
    if (to->scan.count == 1) return put_row_alone(to, row);
    int status = to->original.dummies_size ? read_dummies(to, row) : FPC_OK;
    for (int column = 0; !status && column < to->frame->mcu_columns; column++) status = put_mcu(to, row, column);
    return status;
}

static int put_rows(fpc_restorer *to) {
    const fpc_frame *frame = to->frame;
    memset(to->previous, 0, sizeof to->previous);
    start_dummies(to);
    int status = fpc_packed_coefficients.start(to->source, 0, frame->mcu_columns, 0, frame->mcu_rows, to->max_bytes);
    for (int row = 0; !status && row < frame->mcu_rows; row++) {
        status = fpc_packed_coefficients.next_row(to->source);
        if (!status) status = put_row(to, row);
        if (status || to->counts) continue;
        fpc_encoder_stuff(&to->encoder);
        status = check_written(to);
    }
    return status;
}

/* True if the scan has one component, or its MCU has at most FPC_MAX_MCU_BLOCKS blocks. */
static bool scan_fits(const fpc_restorer *to) {
    int blocks = 0;
    for (int i = 0; i < to->scan.count; i++) {
        const fpc_plane *plane = &to->frame->planes[to->scan.component[i]];
        blocks += plane->horizontal * plane->vertical;
    }
    return to->scan.count == 1 || blocks <= FPC_MAX_MCU_BLOCKS;
}

/* Makes the codes with which a scan is written; a missing code has no symbols. */
static void make_codes(fpc_restorer *to) {
    for (int i = 0; i < to->scan.count; i++) {
        fpc_codes_make(&to->dc[to->scan.dc_table[i]], &to->tables.dc[to->scan.dc_table[i]]);
        fpc_codes_make(&to->ac[to->scan.ac_table[i]], &to->tables.ac[to->scan.ac_table[i]]);
        if (!to->progressive) fpc_codes_add_values(&to->ac[to->scan.ac_table[i]]);
    }
}

static int put_scan(fpc_restorer *to) {
    const fpc_scan *scan = &to->scan;
    int status = fpc_progress_note(&to->progress, to->progressive, scan, &to->tables);
    if (!status && !scan_fits(to)) status = FPC_BAD_SCAN;
    if (status) return status;
    make_codes(to);
    fpc_encoder *encoder = &to->encoder;
    encoder->band = &to->ac[scan->ac_table[0]];
    encoder->first = scan->first;
    encoder->last = scan->last;
    encoder->low = scan->low;
    to->until_restart = to->tables.restart_interval ? to->tables.restart_interval : UINT32_MAX;
    to->next_restart = 0;
    fpc_encoder_start(encoder);
    status = put_rows(to);
    return status ? status : put_end(to, true);
}

int fpc_restorer_count(fpc_restorer *to, int first, int count, fpc_symbol_counts counts[2]) {
    memset(&to->scan, 0, sizeof to->scan);
    to->scan.count = count;
    for (int i = 0; i < count; i++) to->scan.component[i] = first + i;
    to->progressive = false;
    to->counts = counts;
    const int status = put_rows(to);
    to->counts = NULL;
    return status;
}

/* ---- files ---- */

/* Writes the next application or comment segment, whose marker is in the outline. */
static int put_segment(fpc_restorer *to, int marker) {
    const size_t left = (size_t)(to->segments_end - to->segments);
    if (left < 4 || to->segments[1] != marker) return FPC_BAD_MARKER;
    const size_t size = 2 + ((size_t)to->segments[2] << 8 | to->segments[3]);
    if (size > left) return FPC_TRUNCATED;
    fpc_bytes_add(to->out, to->segments, size);
    to->segments += size;
    return FPC_OK;
}

/* Writes a segment of the outline, and reads what scans need of it; after a scan's header, writes the scan. */
static int put_outlined(fpc_restorer *to, int marker, const uint8_t *segment, size_t size, int *frames) {
    const uint8_t *data = segment + 4;
    const size_t length = size - 4;
    int status = FPC_OK;
    fpc_bytes_add(to->out, segment, size);
    switch (marker) {
    case FPC_DQT: return FPC_OK;
    case FPC_DHT: return fpc_read_huffman_specs(&to->tables, data, length);
    case FPC_DRI: return fpc_read_interval(&to->tables, data, length);
    case FPC_SOF0:
    case FPC_SOF1:
    case FPC_SOF2: to->progressive = marker == FPC_SOF2; return (*frames)++ ? FPC_BAD_MARKER : FPC_OK;
    case FPC_SOS:
        if (!*frames) return FPC_BAD_MARKER;
        status = fpc_read_scan(&to->scan, data, length, to->components, to->frame->header.components);
        return status || to->head_only ? status : put_scan(to);
    default: return FPC_BAD_MARKER;
    }
}

/* Writes the bytes after the end of the image, and checks that everything else has been written. */
static int put_trailer(fpc_restorer *to) {
    if (to->segments != to->segments_end) return FPC_BAD_MARKER;
    if (!fpc_progress_complete(&to->progress, to->frame->header.components)) return FPC_BAD_SCAN;
    fpc_bytes_add(to->out, to->trailer, (size_t)to->head.trailer_size);
    const int status = check_written(to);
    if (status) return status;
    if (to->reference && to->out->size != to->reference->length) return FPC_OTHER_BYTES;
    return FPC_OK;
}

int fpc_restorer_write(fpc_restorer *to, const uint8_t *outline, size_t size) {
    static const uint8_t begin[2] = {0xFF, 0xD8};
    int frames = 0, status = FPC_OK;
    if (size < 2 || memcmp(outline, begin, 2)) return FPC_BAD_MARKER;
    fpc_bytes_add(to->out, begin, 2);
    fpc_progress_start(&to->progress);
    for (size_t at = 2; !status;) {
        const uint8_t *segment = outline + at;
        if (size - at < 2) return FPC_TRUNCATED;
        if (segment[0] != 0xFF) return FPC_BAD_MARKER;
        const int marker = segment[1];
        if (marker == 0xFF) { /* a fill byte */
            fpc_bytes_put(to->out, 0xFF);
            at++;
        } else if (marker == FPC_EOI) {
            if (size - at != 2) return FPC_BAD_MARKER;
            fpc_bytes_add(to->out, segment, 2);
            return put_trailer(to);
        } else if (fpc_is_metadata(marker)) {
            status = put_segment(to, marker);
            at += 2;
        } else {
            if (size - at < 4) return FPC_TRUNCATED;
            const size_t bytes = 2 + ((size_t)segment[2] << 8 | segment[3]);
            if (bytes < 4 || bytes > size - at) return FPC_TRUNCATED;
            status = put_outlined(to, marker, segment, bytes, &frames);
            at += bytes;
            if (!status && marker == FPC_SOS && to->head_only) return check_written(to);
        }
        if (!status) status = check_written(to);
    }
    return status;
}

int fpc_restorer_open(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes,
                      fpc_restorer **restorer) {
    if (!packer->restorer) packer->restorer = malloc(sizeof(fpc_restorer));
    fpc_restorer *to = *restorer = packer->restorer;
    void *source = fpc_packer_packed(packer);
    if (!to || !source) return FPC_NO_MEMORY;
    memset(to, 0, sizeof *to);
    to->source = source;
    to->out = to->encoder.out = &packer->restored;
    to->encoder.kernels = packer->kernels;
    to->max_bytes = max_bytes;
    to->dummy_blocks = &packer->dummy_blocks;
    to->original.padding = 0xFF;
    to->most = SIZE_MAX;
    to->next_end = UINT64_MAX;
    fpc_bytes_clear(to->out);
    int status = fpc_packed_coefficients.open(source, data, length, &to->frame);
    if (!status) status = fpc_packed_read_head(data, length, &to->head);
    if (status) return status;
    const fpc_packed_head *head = &to->head;
    for (int i = 0; i < head->frame.header.components; i++) to->components[i].id = head->ids[i];
    to->segments = data + head->size + head->rows_size;
    to->segments_end = to->trailer = to->segments + head->segments_size;
    const size_t rest = (size_t)(head->segments_size + head->trailer_size + head->original_size);
    return packer->kernels->crc32(0, to->segments, rest) == head->rest_sum ? FPC_OK : FPC_BAD_CHECKSUM;
}

int fpc_packed_check(fpc_packer *packer, const uint8_t *data, size_t length) {
    fpc_restorer *to;
    int status = fpc_restorer_open(packer, data, length, 0, &to);
    if (status) return status;
    const uint8_t *entry = to->head.index, *row = data + to->head.size;
    for (int i = 0; i < to->frame->mcu_rows; i++, entry += FPC_PACKED_ENTRY) {
        const size_t size = fpc_packed_u32(entry);
        if (packer->kernels->crc32(0, row, size) != fpc_packed_u32(entry + 4)) return FPC_BAD_CHECKSUM;
        row += size;
    }
    return FPC_OK;
}

int fpc_restorer_write_original(fpc_restorer *to, const uint8_t *data, fpc_reference *reference) {
    fpc_original *original = &to->original;
    const uint8_t *section = to->trailer + to->head.trailer_size;
    int status = fpc_original_read(section, (size_t)to->head.original_size, original);
    if (status) return status;
    to->most = original->length;
    to->ends = fpc_numbers_in(original->ends, original->ends_size);
    next_end(to, 0);
    to->reference = reference;
    size_t start;
    fpc_bytes outline = {0};
    status = fpc_outline_unpack(data, &to->head, original, &outline, &start);
    if (!status) status = fpc_restorer_write(to, outline.data + start, original->outline_size);
    fpc_bytes_free(&outline);
    if (!status && !to->head_only && to->out->size != original->length) status = FPC_BAD_CODE;
    return status;
}
