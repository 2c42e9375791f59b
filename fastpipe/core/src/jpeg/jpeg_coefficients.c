/* jpeg_coefficients.c: decodes coefficients for jpeg.h's functions: opens a file, prepares a box, hands out its MCU
 * rows. */
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "kernels.h"

/* A block has at least one bit, and at most 128 pixels, with the most unusual sampling. A file with more pixels per
 * byte than this can't hold all its blocks. Small images aren't tested. */
#define MANY_PIXELS (1 << 25)
#define PIXELS_A_BYTE 1024

fpc_jpeg *fpc_jpeg_new(const fpc_kernels *kernels) {
    fpc_jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg) return NULL;
    jpeg->kernels = jpeg->bits.kernels = kernels;
    return jpeg;
}

void fpc_jpeg_free(fpc_jpeg *jpeg) {
    if (!jpeg) return;
    for (int i = 0; i < FPC_MAX_COMPONENTS; i++) {
        fpc_buffer_free(&jpeg->stores[i].coefficients);
        fpc_buffer_free(&jpeg->stores[i].last);
        fpc_buffer_free(&jpeg->stores[i].nonzero);
    }
    free(jpeg);
}

size_t fpc_jpeg_bytes(const fpc_jpeg *jpeg) {
    size_t bytes = sizeof *jpeg;
    for (int i = 0; i < FPC_MAX_COMPONENTS; i++)
        bytes += jpeg->stores[i].coefficients.size + jpeg->stores[i].last.size + jpeg->stores[i].nonzero.size;
    return bytes;
}

const fpc_frame *fpc_jpeg_frame(const fpc_jpeg *jpeg) { return &jpeg->frame; }

/* Reads the frame's components; FPC_OK, or a refusal. */
static int read_components(fpc_component *components, const uint8_t *data, int count, const fpc_tables *tables) {
    for (int i = 0; i < count; i++, data += 3) {
        fpc_component *component = &components[i];
        *component = (fpc_component){
            .id = data[0], .quantization = data[2], .horizontal = data[1] >> 4, .vertical = data[1] & 15};
        if (component->horizontal < 1 || component->horizontal > 4 || component->vertical < 1 ||
            component->vertical > 4)
            return FPC_UNSUPPORTED_COLOR;
        if (count == 1) component->horizontal = component->vertical = 1; /* factors mean nothing then */
        for (int j = 0; j < i; j++)
            if (components[j].id == component->id) return FPC_BAD_SCAN;
        if (component->quantization >= FPC_MAX_TABLES) return FPC_BAD_TABLE;
        if (!(tables->has_quantization >> component->quantization & 1)) return FPC_BAD_TABLE;
    }
    return FPC_OK;
}

/* Reads everything before the first scan's data; FPC_OK, or a refusal. */
static int read_head(const uint8_t *data, size_t length, fpc_segments *segments, fpc_tables *tables,
                     fpc_component *components, fpc_scan *scan) {
    const fpc_header *header = &segments->header;
    tables->has_quantization = tables->has_dc = tables->has_ac = tables->restart_interval = 0;
    if (!length || !data) return FPC_TRUNCATED;
    int status = fpc_walk(data, length, segments, tables);
    if (status) return status;
    if (segments->frame_marker > FPC_SOF2 || header->bit_depth != 8) return FPC_UNSUPPORTED_MODE;
    if (header->components != 1 && header->components != 3) return FPC_UNSUPPORTED_COLOR;
    if (segments->fault) return segments->fault;
    int64_t pixels = (int64_t)header->height * header->width;
    if (header->height > FPC_MAX_DIMENSION || header->width > FPC_MAX_DIMENSION) return FPC_TOO_LARGE;
    if (pixels > MANY_PIXELS && (uint64_t)pixels / PIXELS_A_BYTE >= length) return FPC_TOO_LARGE;
    if (!fpc_exif_is_readable(data, segments)) return FPC_UNUSUAL_HEADER;
    /* A refusal is ignored, as the pixels don't depend on the orientation; reading the header reports it. */
    (void)fpc_read_orientation(data, segments, &segments->header.orientation);
    status = read_components(components, data + segments->frame + 6, header->components, tables);
    if (status) return status;
    return fpc_read_scan(scan, data + segments->scan, segments->scan_end - segments->scan, components,
                         header->components);
}

/* Sets the planes, and the sizes that follow from the components' sampling factors. */
static int lay_out(fpc_jpeg *jpeg) {
    fpc_frame *frame = &jpeg->frame;
    const int count = jpeg->segments.header.components;
    frame->header = jpeg->segments.header;
    for (int i = 0; i < count; i++) {
        const fpc_component *component = &jpeg->components[i];
        fpc_plane *plane = &frame->planes[i];
        memset(plane, 0, sizeof *plane);
        plane->horizontal = component->horizontal;
        plane->vertical = component->vertical;
        memcpy(plane->quantization, jpeg->tables.quantization[component->quantization], sizeof plane->quantization);
    }
    const int status = fpc_frame_layout(frame);
    for (int i = 0; i < count && !status; i++) {
        fpc_component *component = &jpeg->components[i];
        component->blocks_wide = frame->planes[i].blocks_wide;
        component->blocks_high = frame->planes[i].blocks_high;
        component->stored_wide = frame->mcu_columns * component->horizontal;
        component->stored_high = frame->mcu_rows * component->vertical;
    }
    return status;
}

int fpc_jpeg_open(fpc_jpeg *jpeg, const uint8_t *data, size_t length) {
    jpeg->data = data;
    jpeg->length = length;
    jpeg->component_count = 0; /* not open */
    int status = read_head(data, length, &jpeg->segments, &jpeg->tables, jpeg->components, &jpeg->scan);
    if (!status) status = lay_out(jpeg);
    if (status) return status;
    const fpc_header *header = &jpeg->segments.header;
    jpeg->component_count = header->components;
    jpeg->whole = header->progressive || jpeg->scan.count < header->components;
    return FPC_OK;
}

/* Refuses a sequential scan for which a table is missing. */
static int check_tables(const fpc_scan *scan, const fpc_tables *tables) {
    for (int i = 0; i < scan->count; i++)
        if (!(tables->has_dc >> scan->dc_table[i] & tables->has_ac >> scan->ac_table[i] & 1)) return FPC_BAD_TABLE;
    return FPC_OK;
}

/* Refuses everything else than scans and their segments; if the first scan is sequential and has all components, also
 * segments after it: see fpc_jpeg_finish. */
int64_t fpc_jpeg_end(const uint8_t *data, size_t length) {
    fpc_segments segments;
    fpc_tables tables;
    fpc_component components[FPC_MAX_COMPONENTS];
    fpc_scan scan;
    int status = read_head(data, length, &segments, &tables, components, &scan);
    const fpc_header *header = &segments.header;
    if (status || !header->plain) return 0;
    fpc_scan_walk walk = {.data = data,
                          .length = length,
                          .position = segments.scan_end,
                          .components = components,
                          .count = header->components,
                          .progressive = header->progressive,
                          .tables = &tables,
                          .scan = &scan};
    const bool one = !walk.progressive && scan.count == walk.count;
    status = fpc_scan_walk_start(&walk);
    while (!status && !walk.ended) {
        if (!walk.progressive && check_tables(&scan, &tables)) return 0;
        const int64_t marker = fpc_find_marker(data, length, walk.position);
        if (marker < 0 || (one && data[marker + 1] != FPC_EOI)) return 0;
        walk.position = (size_t)marker;
        status = fpc_scan_walk_next(&walk);
    }
    return status ? 0 : (int64_t)walk.position;
}

/* Allocates the blocks of a box's MCU row, or of the image. Two more blocks follow each row: broken data may write
 * coefficients to the first, and the reader of the planes may read both. */
static int make_stores(fpc_jpeg *jpeg, int64_t max_bytes) {
    size_t sizes[FPC_MAX_COMPONENTS], total = 0;
    for (int i = 0; i < jpeg->component_count; i++) {
        const fpc_component *component = &jpeg->components[i];
        int columns = jpeg->whole ? component->stored_wide : (jpeg->column_end - jpeg->column) * component->horizontal;
        int rows = jpeg->whole ? component->stored_high : component->vertical;
        jpeg->stores[i].stride = columns + 2;
        sizes[i] = (size_t)(columns + 2) * (size_t)rows + 2;
        total += sizes[i] * (64 * sizeof(int16_t) + 1 + (jpeg->whole ? sizeof(uint64_t) : 0));
    }
    if (max_bytes && total > (uint64_t)max_bytes) return FPC_TOO_LARGE;
    for (int i = 0; i < jpeg->component_count; i++) {
        fpc_store *store = &jpeg->stores[i];
        if (!fpc_buffer_need(&store->coefficients, sizes[i] * 64 * sizeof(int16_t))) return FPC_NO_MEMORY;
        if (!fpc_buffer_need(&store->last, sizes[i])) return FPC_NO_MEMORY;
        if (jpeg->frame.header.progressive) {
            if (!fpc_buffer_need(&store->nonzero, sizes[i] * sizeof(uint64_t))) return FPC_NO_MEMORY;
            memset(store->coefficients.data, 0, sizes[i] * 64 * sizeof(int16_t));
            memset(store->nonzero.data, 0, sizes[i] * sizeof(uint64_t));
        }
    }
    return FPC_OK;
}

int fpc_jpeg_start(fpc_jpeg *jpeg, int column, int column_end, int row, int row_end, int64_t max_bytes) {
    const fpc_frame *frame = &jpeg->frame;
    if (!jpeg->component_count) return FPC_BAD_OPERATION;
    if (column < 0 || row < 0 || column >= column_end || row >= row_end) return FPC_BAD_REGION;
    if (column_end > frame->mcu_columns || row_end > frame->mcu_rows) return FPC_BAD_REGION;
    jpeg->column = column;
    jpeg->column_end = column_end;
    jpeg->row = row;
    jpeg->row_end = row_end;
    jpeg->next_row = jpeg->whole ? row : 0;
    int status = make_stores(jpeg, max_bytes);
    if (status) return status;
    for (int i = 0; i < jpeg->component_count; i++) {
        fpc_plane *plane = &jpeg->frame.planes[i];
        plane->first_block = column * plane->horizontal;
        plane->stride = jpeg->stores[i].stride;
        plane->coefficients = (const int16_t *)(const void *)jpeg->stores[i].coefficients.data;
        plane->last = jpeg->stores[i].last.data;
    }
    jpeg->interleaved = 0;
    jpeg->warned = false;
    if (jpeg->whole) return fpc_decode_scans(jpeg);
    int skips = row > 0 || column > 0 || column_end < frame->mcu_columns;
    return fpc_scan_start(jpeg, jpeg->data + jpeg->segments.scan_end, skips);
}

/* The zigzag index of the last coefficient that isn't zero. */
static uint8_t last_index(uint64_t nonzero) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint8_t)(63 - __builtin_clzll(nonzero | 1));
#else
    uint8_t index = 0;
    while (nonzero >>= 1) index++;
    return index;
#endif
}

/* Hands out an MCU row of the whole image's stores. */
static void hand_out(fpc_jpeg *jpeg, int row) {
    for (int i = 0; i < jpeg->component_count; i++) {
        fpc_store *store = &jpeg->stores[i];
        fpc_plane *plane = &jpeg->frame.planes[i];
        size_t first = (size_t)row * (size_t)plane->vertical * (size_t)store->stride + (size_t)plane->first_block;
        plane->coefficients = (const int16_t *)(const void *)store->coefficients.data + first * 64;
        plane->last = store->last.data + first;
        if (!jpeg->frame.header.progressive) continue;
        size_t columns = (size_t)(jpeg->column_end - jpeg->column) * (size_t)plane->horizontal;
        for (int y = 0; y < plane->vertical; y++) {
            const uint64_t *nonzero =
                (const uint64_t *)(const void *)store->nonzero.data + first + (size_t)y * (size_t)store->stride;
            uint8_t *last = store->last.data + first + (size_t)y * (size_t)store->stride;
            for (size_t x = 0; x < columns; x++) last[x] = last_index(nonzero[x]);
        }
    }
}

int fpc_jpeg_next_row(fpc_jpeg *jpeg) {
    if (!jpeg->component_count || jpeg->next_row >= jpeg->row_end) return FPC_BAD_OPERATION;
    if (jpeg->whole) {
        hand_out(jpeg, jpeg->next_row++);
        return FPC_OK;
    }
    uint32_t columns = (uint32_t)jpeg->frame.mcu_columns, before = (uint32_t)jpeg->column,
             end = (uint32_t)jpeg->column_end;
    int status = FPC_OK;
    for (; !status && jpeg->next_row < jpeg->row; jpeg->next_row++) status = fpc_scan_decode(jpeg, columns, 1);
    if (!status) status = fpc_scan_decode(jpeg, before, 1);
    if (status) return status;
    fpc_scan_aim(jpeg, 0); /* the stores have one row */
    status = fpc_scan_decode(jpeg, end - before, 0);
    /* The MCUs to the right of the box aren't needed in the last row. */
    if (!status && ++jpeg->next_row < jpeg->row_end) status = fpc_scan_decode(jpeg, columns - end, 1);
    return status;
}

/* Requires that the first marker after the scan's data, apart from restart markers, is the end of the image. Pillow
 * refuses a file that ends early; how it reads other files depends on where they end. */
int fpc_jpeg_finish(fpc_jpeg *jpeg) {
    if (!jpeg->component_count) return FPC_BAD_OPERATION;
    if (jpeg->whole) return FPC_OK; /* the walk through the scans has reached the end */
    fpc_scan_end(jpeg);
    const uint8_t *at = jpeg->bits.input, *end = jpeg->bits.end;
    while (end - at >= 2) {
        at = memchr(at, 0xFF, (size_t)(end - at));
        if (!at || end - at < 2) break;
        int marker = at[1];
        if (marker == FPC_EOI) return FPC_OK;
        if (marker && marker != 0xFF && (marker < FPC_RST0 || marker > FPC_RST7)) return FPC_BAD_MARKER;
        jpeg->warned |= marker != 0xFF;
        at += marker == 0xFF ? 1 : 2;
    }
    return FPC_TRUNCATED;
}

/* ---- the functions for jpeg_rows.c ---- */

static void *create(const fpc_kernels *kernels) { return fpc_jpeg_new(kernels); }
static void destroy(void *source) { fpc_jpeg_free(source); }
static size_t bytes_of(const void *source) { return fpc_jpeg_bytes(source); }

static int open_file(void *source, const uint8_t *data, size_t length, const fpc_frame **frame) {
    *frame = fpc_jpeg_frame(source);
    return fpc_jpeg_open(source, data, length);
}

static int start(void *source, int column, int column_end, int row, int row_end, int64_t max_bytes) {
    return fpc_jpeg_start(source, column, column_end, row, row_end, max_bytes);
}

static int next_row(void *source) { return fpc_jpeg_next_row(source); }
static int finish(void *source) { return fpc_jpeg_finish(source); }
static bool warned(const void *source) { return ((const fpc_jpeg *)source)->warned; }

const fpc_coefficients fpc_jpeg_coefficients = {
    .create = create,
    .destroy = destroy,
    .bytes = bytes_of,
    .open = open_file,
    .start = start,
    .next_row = next_row,
    .finish = finish,
    .warned = warned,
};
