/* packed_head.c: reads the head of a packed image: its fields, and where its rows are. */
#include <string.h>

#include "checksums.h"
#include "entropy.h"
#include "packed_head.h"

const uint8_t fpc_packed_signature[8] = {0x89, 'F', 'P', 'J', '\r', '\n', 0x1A, '\n'};

static uint32_t u16(const uint8_t *data) { return (uint32_t)data[0] | (uint32_t)data[1] << 8; }

bool fpc_is_packed(const uint8_t *data, size_t length) {
    return length >= sizeof fpc_packed_signature && !memcmp(data, fpc_packed_signature, sizeof fpc_packed_signature);
}

int fpc_packed_block_rows(const fpc_plane *plane, int row) {
    const int left = plane->blocks_high - row * plane->vertical;
    return left < plane->vertical ? left : plane->vertical;
}

size_t fpc_packed_row_blocks(const fpc_frame *frame, int row) {
    size_t blocks = 0;
    for (int i = 0; i < frame->header.components; i++) {
        const fpc_plane *plane = &frame->planes[i];
        blocks += (size_t)plane->blocks_wide * (size_t)fpc_packed_block_rows(plane, row);
    }
    return blocks;
}

/* Reads the fields of the fixed part that belong to the header. */
static int read_fields(const uint8_t *data, fpc_packed_head *head) {
    fpc_header *header = &head->frame.header;
    memset(head, 0, sizeof *head);
    if (u16(data + FPC_PACKED_AT_VERSION) != FPC_PACKED_VERSION) return FPC_UNSUPPORTED_MODE;
    const uint32_t height = fpc_packed_u32(data + FPC_PACKED_AT_HEIGHT);
    const uint32_t width = fpc_packed_u32(data + FPC_PACKED_AT_WIDTH);
    if (!height || !width) return FPC_UNUSUAL_HEADER;
    if (height > FPC_MAX_DIMENSION || width > FPC_MAX_DIMENSION) return FPC_TOO_LARGE;
    header->format = FPC_FORMAT_PACKED;
    header->height = (int32_t)height;
    header->width = (int32_t)width;
    header->components = data[FPC_PACKED_AT_COMPONENTS];
    header->color = data[FPC_PACKED_AT_COLOR];
    header->bit_depth = 8;
    header->orientation = data[FPC_PACKED_AT_ORIENTATION];
    header->plain = 1;
    head->process = data[FPC_PACKED_AT_PROCESS];
    const bool gray = header->components == 1 && header->color == FPC_GRAY;
    if (!gray && !(header->components == 3 && (header->color == FPC_YCBCR || header->color == FPC_RGB)))
        return FPC_UNSUPPORTED_COLOR;
    if (header->orientation < 1 || header->orientation > 8) return FPC_UNUSUAL_HEADER;
    if (head->process < FPC_SOF0 || head->process > FPC_SOF2) return FPC_UNSUPPORTED_MODE;
    if (data[FPC_PACKED_AT_RESERVED]) return FPC_UNSUPPORTED_MODE;
    head->size = fpc_packed_u32(data + FPC_PACKED_AT_SIZE);
    head->rows_size = fpc_packed_u64(data + FPC_PACKED_AT_ROWS);
    head->segments_size = fpc_packed_u64(data + FPC_PACKED_AT_SEGMENTS);
    head->trailer_size = fpc_packed_u64(data + FPC_PACKED_AT_TRAILER);
    head->original_size = fpc_packed_u32(data + FPC_PACKED_AT_ORIGINAL);
    head->rest_sum = fpc_packed_u32(data + FPC_PACKED_AT_REST_SUM);
    header->data_offset = (int64_t)head->size;
    return FPC_OK;
}

/* Reads the planes' factors, and the numbers of their tables. */
static int read_planes(const uint8_t *data, fpc_packed_head *head, int tables[3]) {
    fpc_frame *frame = &head->frame;
    const int count = frame->header.components, table_count = data[FPC_PACKED_AT_TABLES];
    const uint8_t *at = data + FPC_PACKED_AT_PLANES;
    if (table_count < 1 || table_count > count) return FPC_BAD_TABLE;
    for (int i = 0; i < 3; i++, at += 4) {
        if (i >= count) {
            if (fpc_packed_u32(at)) return FPC_UNSUPPORTED_MODE;
            continue;
        }
        head->ids[i] = at[0];
        frame->planes[i].horizontal = at[1];
        frame->planes[i].vertical = at[2];
        tables[i] = at[3];
        frame->header.sampling[i] = at[1] << 4 | at[2];
        if (tables[i] >= table_count) return FPC_BAD_TABLE;
        for (int j = 0; j < i; j++)
            if (head->ids[j] == head->ids[i]) return FPC_BAD_SCAN;
    }
    /* Factors have no meaning for a single component. */
    if (count == 1 && frame->header.sampling[0] != 0x11) return FPC_UNSUPPORTED_COLOR;
    return fpc_frame_layout(frame);
}

/* Checks the head's size, and that the rows' lengths add up to their total. */
static int check_index(const uint8_t *data, fpc_packed_head *head) {
    const size_t before = FPC_PACKED_FIXED + FPC_PACKED_TABLE * (size_t)data[FPC_PACKED_AT_TABLES];
    const size_t rows = (size_t)head->frame.mcu_rows;
    uint64_t sum = 0;
    head->index = data + before;
    for (size_t i = 0; i < rows; i++) sum += fpc_packed_u32(head->index + FPC_PACKED_ENTRY * i);
    return sum == head->rows_size ? FPC_OK : FPC_BAD_CODE;
}

int fpc_packed_read_head(const uint8_t *data, size_t length, fpc_packed_head *head) {
    int tables[3] = {0};
    if (length < FPC_PACKED_FIXED) return fpc_is_packed(data, length) ? FPC_TRUNCATED : FPC_UNKNOWN_FORMAT;
    if (!fpc_is_packed(data, length)) return FPC_UNKNOWN_FORMAT;
    int status = read_fields(data, head);
    if (!status) status = read_planes(data, head, tables);
    if (status) return status;
    const size_t wanted = FPC_PACKED_FIXED + FPC_PACKED_TABLE * (size_t)data[FPC_PACKED_AT_TABLES] +
                          FPC_PACKED_ENTRY * (size_t)head->frame.mcu_rows + FPC_PACKED_SUM;
    if (head->size != wanted) return FPC_BAD_CODE;
    if (length < wanted) return FPC_TRUNCATED;
    const size_t summed = wanted - FPC_PACKED_SUM;
    if (fpc_crc32(0, data, summed) != fpc_packed_u32(data + summed)) return FPC_BAD_CHECKSUM;
    for (int i = 0; i < head->frame.header.components; i++) {
        const uint8_t *table = data + FPC_PACKED_FIXED + FPC_PACKED_TABLE * tables[i];
        for (int k = 0; k < 64; k++) head->frame.planes[i].quantization[k] = (uint16_t)u16(table + 2 * k);
    }
    return check_index(data, head);
}

int fpc_packed_check_metadata(const fpc_packed_head *head, const uint8_t *data, size_t length) {
    const fpc_header *header = &head->frame.header;
    fpc_header said = {0};
    const int status = fpc_read_metadata(data, length, head->ids, header->components, &said);
    if (status) return status;
    const bool same = said.color == header->color && said.orientation == header->orientation && !said.multi_picture;
    return same ? FPC_OK : FPC_CONTRADICTION;
}

int fpc_packed_read_header(const uint8_t *data, size_t length, fpc_header *header) {
    fpc_packed_head head;
    const int status = fpc_packed_read_head(data, length, &head);
    if (status == FPC_OK) *header = head.frame.header;
    return status;
}
