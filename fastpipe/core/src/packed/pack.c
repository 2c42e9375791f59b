/* pack.c: packs a JPEG's coefficients and segments, and compares a packed image with a JPEG. */
#include <string.h>

#include "idct.h"
#include "restore.h"

/* ---- segments ---- */

/* True if such a segment affects how an image is read: JFIF, EXIF and XMP, ICC and MPF, Photoshop's, Adobe. Between a
 * file's scans it comes too late for that; in front, where packed images keep all segments, it wouldn't. */
static bool says_how_to_read(int marker) {
    return (marker >= FPC_APP0 && marker <= FPC_APP0 + 2) || marker == FPC_APP0 + 13 || marker == FPC_APP0 + 14;
}

/* Collects the application and comment segments, from marker to marker, and the outline: all other segments, and only
 * the markers of the former; nothing of the scans' data. *end is the position after the end of the image. */
static int collect_segments(const uint8_t *data, size_t length, fpc_bytes *segments, fpc_bytes *outline, size_t *end) {
    bool scanned = false;
    fpc_bytes_add(outline, data, 2);
    for (size_t position = 2;;) {
        if (length - position < 2) return FPC_TRUNCATED;
        const int marker = data[position + 1];
        if (data[position] != 0xFF) return FPC_BAD_MARKER;
        if (marker == 0xFF) { /* a fill byte */
            fpc_bytes_put(outline, marker);
            position++;
            continue;
        }
        if (marker == FPC_EOI) {
            fpc_bytes_add(outline, data + position, 2);
            *end = position + 2;
            return FPC_OK;
        }
        if (length - position < 4) return FPC_TRUNCATED;
        const size_t size = 2 + ((size_t)data[position + 2] << 8 | data[position + 3]);
        if (length - position < size) return FPC_TRUNCATED;
        if (fpc_is_metadata(marker)) {
            if (scanned && says_how_to_read(marker)) return FPC_BAD_MARKER;
            fpc_bytes_add(segments, data + position, size);
        }
        fpc_bytes_add(outline, data + position, fpc_is_metadata(marker) ? 2 : size);
        position += size;
        if (marker == FPC_SOS) {
            position = fpc_behind_scan(data, length, position);
            scanned = true;
        }
    }
}

/* ---- packing ---- */

static void put16(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *to, uint32_t value) {
    put16(to, value);
    put16(to + 2, value >> 16);
}

static void put64(uint8_t *to, uint64_t value) {
    put32(to, (uint32_t)value);
    put32(to + 4, (uint32_t)(value >> 32));
}

/* Sets the table number of each plane; returns the number of different tables. */
static int number_tables(const fpc_frame *frame, int numbers[3], const fpc_plane *tables[3]) {
    int count = 0;
    for (int i = 0; i < frame->header.components; i++) {
        const fpc_plane *plane = &frame->planes[i];
        int k = 0;
        while (k < count && memcmp(tables[k]->quantization, plane->quantization, sizeof plane->quantization)) k++;
        if (k == count) tables[count++] = plane;
        numbers[i] = k;
    }
    return count;
}

/* Begins the file with its head, except for the sizes of the rows and the head, and checksums. Returns the position of
 * the index; 0 if there is no memory. */
static size_t start_head(fpc_bytes *out, const fpc_jpeg *jpeg, int32_t orientation) {
    const fpc_frame *frame = &jpeg->frame;
    int numbers[3];
    const fpc_plane *tables[3];
    const int count = number_tables(frame, numbers, tables);
    const size_t index = FPC_PACKED_FIXED + FPC_PACKED_TABLE * (size_t)count;
    const size_t size = index + FPC_PACKED_ENTRY * (size_t)frame->mcu_rows + FPC_PACKED_SUM;
    uint8_t *head = fpc_bytes_room(out, size);
    if (!head) return 0;
    out->size += size;
    memset(head, 0, size);
    memcpy(head, fpc_packed_signature, sizeof fpc_packed_signature);
    put16(head + FPC_PACKED_AT_VERSION, FPC_PACKED_VERSION);
    head[FPC_PACKED_AT_COMPONENTS] = (uint8_t)frame->header.components;
    head[FPC_PACKED_AT_COLOR] = (uint8_t)frame->header.color;
    put32(head + FPC_PACKED_AT_HEIGHT, (uint32_t)frame->header.height);
    put32(head + FPC_PACKED_AT_WIDTH, (uint32_t)frame->header.width);
    head[FPC_PACKED_AT_ORIENTATION] = (uint8_t)orientation;
    head[FPC_PACKED_AT_PROCESS] = (uint8_t)jpeg->segments.frame_marker;
    head[FPC_PACKED_AT_TABLES] = (uint8_t)count;
    for (int i = 0; i < frame->header.components; i++) {
        uint8_t *plane = head + FPC_PACKED_AT_PLANES + 4 * i;
        plane[0] = jpeg->components[i].id;
        plane[1] = (uint8_t)frame->planes[i].horizontal;
        plane[2] = (uint8_t)frame->planes[i].vertical;
        plane[3] = (uint8_t)numbers[i];
    }
    put32(head + FPC_PACKED_AT_SIZE, (uint32_t)size);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < 64; k++)
            put16(head + FPC_PACKED_FIXED + FPC_PACKED_TABLE * i + 2 * k, tables[i]->quantization[k]);
    }
    return index;
}

/* Checks that readers accept a row of blocks: decoders disagree about coefficients larger than photos'; ours refuses
 * them. */
static int check_blocks(fpc_packer *packer, const fpc_plane *plane, size_t at, const fpc_dequantizer *dequantizer) {
    const size_t stride = (size_t)plane->blocks_wide * 8 + FPC_ROW_SLACK;
    uint8_t *samples = fpc_buffer_need(&packer->samples, 8 * stride);
    if (!samples) return FPC_NO_MEMORY;
    return packer->kernels->idct_blocks(plane->coefficients + 64 * at, plane->last + at, plane->blocks_wide,
                                        dequantizer, samples, stride)
               ? FPC_BAD_CODE
               : FPC_OK;
}

/* Packs the row of MCUs that was decoded last. */
static int pack_row(fpc_packer *packer, const fpc_frame *frame, const fpc_dequantizer *dequantizers, int row) {
    if (!fpc_row_start(&packer->writer, fpc_packed_row_blocks(frame, row))) return FPC_NO_MEMORY;
    for (int i = 0; i < frame->header.components; i++) {
        const fpc_plane *plane = &frame->planes[i];
        const int rows = fpc_packed_block_rows(plane, row);
        int16_t above = 0;
        for (int y = 0; y < rows; y++) {
            const size_t at = (size_t)y * (size_t)plane->stride;
            const int16_t *block = plane->coefficients + 64 * at;
            const int status = check_blocks(packer, plane, at, &dequantizers[i]);
            if (status) return status;
            int16_t dc = above;
            above = block[0];
            for (int x = 0; x < plane->blocks_wide; x++, block += 64)
                fpc_row_add(&packer->writer, block, plane->last[at + (size_t)x], &dc);
        }
    }
    return FPC_OK;
}

/* ---- blocks that fill up MCUs ---- */

/* True if a block that fills up an MCU is as libjpeg writes it: flat, with the DC of the block before (jccoefct.c). */
static bool is_usual(const int16_t *block, int last, int16_t before) {
    static const int16_t flat[63] = {0};
    return block[0] == before && (!last || !memcmp(block + 1, flat, sizeof flat));
}

static void put_dummy(fpc_bytes *to, const int16_t *block, int last, uint64_t usual) {
    uint64_t count = 0;
    for (int k = 1; k <= last; k++) count += block[fpc_natural_order[k + 1]] != 0;
    fpc_put_number(to, usual);
    fpc_put_signed_number(to, block[0]);
    fpc_put_number(to, count);
    for (int k = 1, place = 0; k <= last; k++) {
        const int16_t value = block[fpc_natural_order[k + 1]];
        if (!value) continue;
        fpc_put_number(to, (uint64_t)(k - place - 1));
        fpc_put_signed_number(to, value);
        place = k;
    }
}

/* Notes the unusual fill-up blocks of the MCU row decoded last; *usual counts the usual ones since the last noted. */
static void note_dummies(const fpc_jpeg *jpeg, int row, fpc_bytes *to, uint64_t *usual) {
    const fpc_frame *frame = &jpeg->frame;
    for (int i = 0; i < frame->header.components; i++) {
        const fpc_plane *plane = &frame->planes[i];
        const int rows = fpc_packed_block_rows(plane, row), columns = frame->mcu_columns * plane->horizontal;
        const bool known = jpeg->interleaved >> i & 1;
        for (int y = 0; y < plane->vertical; y++) {
            const size_t line = (size_t)y * (size_t)plane->stride;
            for (int x = y < rows ? plane->blocks_wide : 0; x < columns; x++) {
                const size_t at = line + (size_t)x;
                const size_t before =
                    x % plane->horizontal ? at - 1 : at - (size_t)plane->stride + (size_t)plane->horizontal - 1;
                const int16_t *block = plane->coefficients + 64 * at;
                if (!known || is_usual(block, plane->last[at], plane->coefficients[64 * before])) {
                    ++*usual;
                    continue;
                }
                put_dummy(to, block, plane->last[at], *usual);
                *usual = 0;
            }
        }
    }
}

static int pack_rows(fpc_packer *packer, fpc_jpeg *jpeg, size_t index, int64_t max_bytes) {
    const fpc_frame *frame = &jpeg->frame;
    fpc_bytes *out = &packer->out;
    fpc_dequantizer dequantizers[3];
    uint64_t usual = 0;
    for (int i = 0; i < frame->header.components; i++)
        fpc_dequantizer_make(&dequantizers[i], frame->planes[i].quantization);
    int status = fpc_jpeg_start(jpeg, 0, frame->mcu_columns, 0, frame->mcu_rows, max_bytes);
    for (int row = 0; !status && row < frame->mcu_rows; row++) {
        status = fpc_jpeg_next_row(jpeg);
        if (!status) status = pack_row(packer, frame, dequantizers, row);
        if (status) return status;
        note_dummies(jpeg, row, &packer->dummies, &usual);
        const size_t size = fpc_row_finish(&packer->writer, out);
        if (out->failed) return FPC_NO_MEMORY;
        uint8_t *entry = out->data + index + FPC_PACKED_ENTRY * (size_t)row;
        put32(entry, (uint32_t)size);
        put32(entry + 4, packer->kernels->crc32(0, out->data + out->size - size, size));
    }
    return status ? status : fpc_jpeg_finish(jpeg);
}

/* Sets the checksums of the head, and of everything after the rows. */
static void put_sums(fpc_packer *packer, size_t rows_end) {
    uint8_t *head = packer->out.data;
    const size_t size = fpc_packed_u32(head + FPC_PACKED_AT_SIZE);
    const size_t rest = packer->out.size - rows_end;
    put32(head + FPC_PACKED_AT_REST_SUM, packer->kernels->crc32(0, head + rows_end, rest));
    put32(head + size - FPC_PACKED_SUM, packer->kernels->crc32(0, head, size - FPC_PACKED_SUM));
}

/* Adds segments and trailer, and sets the remaining fields of the head. */
static int finish_file(fpc_packer *packer, const uint8_t *data, size_t length) {
    fpc_bytes *out = &packer->out, *segments = &packer->segments;
    size_t end;
    int status = collect_segments(data, length, segments, &packer->outline, &end);
    if (status) return status;
    const size_t rows_end = out->size;
    fpc_bytes_add(out, segments->data, segments->size);
    fpc_bytes_add(out, data + end, length - end);
    if (out->failed || segments->failed) return FPC_NO_MEMORY;
    uint8_t *head = out->data;
    const size_t size = fpc_packed_u32(head + FPC_PACKED_AT_SIZE);
    put64(head + FPC_PACKED_AT_ROWS, rows_end - size);
    put64(head + FPC_PACKED_AT_SEGMENTS, segments->size);
    put64(head + FPC_PACKED_AT_TRAILER, length - end);
    put_sums(packer, rows_end);
    fpc_packed_head written;
    status = fpc_packed_read_head(head, out->size, &written);
    return status ? status : fpc_packed_check_metadata(&written, segments->data, segments->size);
}

/* ---- the JPEG's own bytes ---- */

/* Adds the section for the JPEG's own bytes, replacing the present one. */
static int put_original(fpc_packer *packer, const fpc_original *original) {
    fpc_bytes *out = &packer->out;
    out->size -= fpc_packed_u32(out->data + FPC_PACKED_AT_ORIGINAL);
    const size_t before = out->size;
    fpc_original_write(out, original);
    if (out->failed) return FPC_NO_MEMORY;
    if (out->size - before > UINT32_MAX) return FPC_TOO_LARGE;
    put32(out->data + FPC_PACKED_AT_ORIGINAL, (uint32_t)(out->size - before));
    put_sums(packer,
             fpc_packed_u32(out->data + FPC_PACKED_AT_SIZE) + (size_t)fpc_packed_u64(out->data + FPC_PACKED_AT_ROWS));
    return FPC_OK;
}

/* Rebuilds the JPEG from the packed image; FPC_OTHER_BYTES if it differs from the reference. */
static int prove(fpc_packer *packer, fpc_reference *reference, int64_t max_bytes) {
    fpc_restorer *restorer;
    const fpc_bytes *out = &packer->out;
    int status = fpc_restorer_open(packer, out->data, out->size, max_bytes, &restorer);
    if (!status) status = fpc_restorer_write_original(restorer, out->data, reference);
    return status == FPC_OK || status == FPC_NO_MEMORY || status == FPC_TOO_LARGE ? status : FPC_OTHER_BYTES;
}

/* Adds the section for most files, in which ones complete the last byte of scans and restart intervals. */
static int put_usual(fpc_packer *packer, const uint8_t *about, size_t about_size, size_t length,
                     fpc_original *original) {
    const fpc_bytes *out = &packer->out;
    fpc_packed_head head;
    int status = fpc_packed_read_head(out->data, out->size, &head);
    if (!status) status = fpc_outline_pack(out->data, &head, &packer->outline, &packer->tokens);
    if (status) return status == FPC_TOO_LARGE ? FPC_OTHER_BYTES : status;
    if (packer->dummies.failed) return FPC_NO_MEMORY;
    *original = (fpc_original){.about = about,
                               .about_size = about_size,
                               .length = length,
                               .outline_size = packer->outline.size,
                               .tokens = packer->tokens.data,
                               .tokens_size = packer->tokens.size,
                               .padding = 1,
                               .dummies = packer->dummies.data,
                               .dummies_size = packer->dummies.size};
    return put_original(packer, original);
}

/* Adds the section, and proves that it rebuilds the file. If the file ends scans or restart intervals in another way,
 * the proof collects these ends. */
static int keep_original(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes,
                         const uint8_t *about, size_t about_size) {
    fpc_original original;
    fpc_reference reference = {.data = data, .length = length};
    int status = put_usual(packer, about, about_size, length, &original);
    if (!status) status = prove(packer, &reference, max_bytes);
    if (status != FPC_OTHER_BYTES || !packer->tokens.size) return status;
    reference.learns = true;
    status = prove(packer, &reference, max_bytes);
    reference.learns = false;
    if (!status) {
        const int padding = reference.ends[1].size <= reference.ends[0].size;
        original.padding = (uint32_t)padding;
        original.ends = reference.ends[padding].data;
        original.ends_size = reference.ends[padding].size;
        status = put_original(packer, &original);
    }
    if (!status) status = prove(packer, &reference, max_bytes);
    for (int i = 0; i < 2; i++) fpc_bytes_free(&reference.ends[i]);
    return status;
}

int fpc_pack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t *about,
             size_t about_size, const uint8_t **packed, size_t *size) {
    fpc_header header;
    *packed = NULL;
    *size = 0;
    fpc_packer_begin(packer);
    int status = fpc_jpeg_read_header(data, length, &header);
    if (status) return status;
    if (header.multi_picture) return FPC_UNUSUAL_HEADER;
    fpc_jpeg *jpeg = fpc_packer_jpeg(packer);
    if (!jpeg) return FPC_NO_MEMORY;
    status = fpc_jpeg_open(jpeg, data, length);
    if (status) return status;
    const size_t index = start_head(&packer->out, jpeg, header.orientation);
    if (!index) return FPC_NO_MEMORY;
    status = pack_rows(packer, jpeg, index, max_bytes);
    if (!status) status = finish_file(packer, data, length);
    if (!status && about) status = keep_original(packer, data, length, max_bytes, about, about_size);
    if (status) return status;
    *packed = packer->out.data;
    *size = packer->out.size;
    return FPC_OK;
}

/* ---- proof ---- */

static bool same_frames(const fpc_frame *one, const fpc_frame *other) {
    const fpc_header *a = &one->header, *b = &other->header;
    if (a->height != b->height || a->width != b->width || a->components != b->components || a->color != b->color)
        return false;
    for (int i = 0; i < a->components; i++) {
        const fpc_plane *p = &one->planes[i], *q = &other->planes[i];
        if (p->horizontal != q->horizontal || p->vertical != q->vertical) return false;
        if (memcmp(p->quantization, q->quantization, sizeof p->quantization)) return false;
    }
    return true;
}

static bool same_rows(const fpc_frame *one, const fpc_frame *other, int row) {
    for (int i = 0; i < one->header.components; i++) {
        const fpc_plane *p = &one->planes[i], *q = &other->planes[i];
        const int rows = fpc_packed_block_rows(p, row);
        for (int y = 0; y < rows; y++) {
            const int16_t *a = p->coefficients + 64 * (size_t)y * (size_t)p->stride;
            const int16_t *b = q->coefficients + 64 * (size_t)y * (size_t)q->stride;
            if (memcmp(a, b, 64 * sizeof *a * (size_t)p->blocks_wide)) return false;
        }
    }
    return true;
}

int fpc_same_coefficients(fpc_packer *packer, const uint8_t *data, size_t length, const uint8_t *packed_data,
                          size_t packed_length, int64_t max_bytes, int *same) {
    const fpc_coefficients *const kinds[2] = {&fpc_jpeg_coefficients, &fpc_packed_coefficients};
    const fpc_frame *frames[2];
    *same = 0;
    fpc_packer_begin(packer);
    void *const sources[2] = {fpc_packer_jpeg(packer), fpc_packer_packed(packer)};
    if (!sources[0] || !sources[1]) return FPC_NO_MEMORY;
    int status = kinds[0]->open(sources[0], data, length, &frames[0]);
    if (!status) status = kinds[1]->open(sources[1], packed_data, packed_length, &frames[1]);
    if (status || !same_frames(frames[0], frames[1])) return status;
    const int rows = frames[0]->mcu_rows;
    for (int k = 0; !status && k < 2; k++)
        status = kinds[k]->start(sources[k], 0, frames[k]->mcu_columns, 0, rows, max_bytes);
    for (int row = 0; !status && row < rows; row++) {
        for (int k = 0; !status && k < 2; k++) status = kinds[k]->next_row(sources[k]);
        if (!status && !same_rows(frames[0], frames[1], row)) return FPC_OK;
    }
    for (int k = 0; !status && k < 2; k++) status = kinds[k]->finish(sources[k]);
    *same = status == FPC_OK;
    return status;
}
