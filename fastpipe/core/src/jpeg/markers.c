/* markers.c: reads the segments of a JPEG up to its first scan. Markers and segments are those of ITU-T T.81. A file
 * with unusual ones is left to Pillow. */
#include "entropy.h"

#include <string.h>

/* Pillow spends time on each segment, and joins all Exif segments again for every new one: without these limits, a file
 * could keep it busy for hours. */
#define MAX_SEGMENTS 10000
#define MAX_EXIF_BYTES (1 << 20)
/* The most application and comment segments; a JPEG needs some more for its tables, frame and scan. */
#define MAX_METADATA (MAX_SEGMENTS - 16)

/* Pillow refuses smaller segments: JFIF or Adobe ones without their version, ICC ones without their number. */
#define MIN_VERSION 9
#define MIN_PROFILE 16

static uint32_t u16(const uint8_t *data) { return (uint32_t)data[0] << 8 | data[1]; }

/* ---- tables ----------------------------------------------------------------------------------------------------- */

int fpc_read_quantization(fpc_tables *tables, const uint8_t *data, size_t length) {
    while (length) {
        uint32_t wide = data[0] >> 4, number = data[0] & 15;
        size_t bytes = 1 + (wide ? 128 : 64);
        if (wide > 1 || number >= FPC_MAX_TABLES || length < bytes) return FPC_BAD_TABLE;
        for (int i = 0; i < 64; i++) {
            uint32_t value = wide ? u16(data + 1 + 2 * i) : data[1 + i];
            tables->quantization[number][fpc_natural_order[i + 1]] = (uint16_t)value;
        }
        tables->has_quantization |= 1u << number;
        data += bytes;
        length -= bytes;
    }
    return FPC_OK;
}

int fpc_read_huffman_specs(fpc_tables *tables, const uint8_t *data, size_t length) {
    while (length) {
        uint32_t ac = data[0] >> 4, number = data[0] & 15;
        if (ac > 1 || number >= FPC_MAX_TABLES) return FPC_BAD_TABLE;
        fpc_huffman_spec *code = ac ? &tables->ac[number] : &tables->dc[number];
        size_t bytes = fpc_huffman_spec_read(code, data + 1, length - 1);
        if (!bytes || (!ac && !fpc_huffman_spec_is_dc(code))) return FPC_BAD_TABLE;
        *(ac ? &tables->has_ac : &tables->has_dc) |= 1u << number;
        data += 1 + bytes;
        length -= 1 + bytes;
    }
    return FPC_OK;
}

int fpc_read_interval(fpc_tables *tables, const uint8_t *data, size_t length) {
    if (length != 2) return FPC_BAD_SCAN;
    tables->restart_interval = u16(data);
    return FPC_OK;
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

typedef struct fpc_walker {
    const uint8_t *data;
    size_t length;
    fpc_segments *segments;
    fpc_tables *tables;
    int jfif, adobe; /* Adobe's transform, -1 if the file has none */
    int quantized, ordinary;
    size_t exif_bytes;
} fpc_walker;

/* Python's data.startswith(text, at): may read beyond the segment's end. */
static int starts(const fpc_walker *walker, size_t at, const char *text, size_t count) {
    return at <= walker->length && walker->length - at >= count && !memcmp(walker->data + at, text, count);
}

#define STARTS(at, text) starts(walker, at, text, sizeof text - 1)

static int take_exif(fpc_walker *walker, size_t start, size_t end) {
    fpc_segments *segments = walker->segments;
    if (!segments->exif_segments++) {
        segments->exif = start;
        segments->exif_end = end;
        walker->exif_bytes = end - start;
    } else if (end > start + 6) {
        walker->exif_bytes += end - (start + 6);
    }
    return walker->exif_bytes > MAX_EXIF_BYTES ? FPC_TOO_LARGE : FPC_OK;
}

/* Reads application segments, and those with higher markers. */
static int take_application(fpc_walker *walker, int marker, size_t start, size_t end) {
    size_t size = end - start + 2;
    if (marker > FPC_APP15 && marker < FPC_COM) {
        walker->ordinary = 0; /* Pillow searches the segment's data for markers */
    } else if (marker == 0xE1) {
        if (STARTS(start, "Exif\0\0")) return take_exif(walker, start, end);
        if (STARTS(start, "http://ns.adobe.com/xap/1.0/\0")) {
            walker->segments->xmp = start;
            walker->segments->xmp_end = end;
        }
    } else if (marker == 0xE2) {
        if (STARTS(start, "MPF\0")) walker->segments->header.multi_picture = 1;
        if (size < MIN_PROFILE && STARTS(start, "ICC_PROFILE\0")) return FPC_UNUSUAL_HEADER;
    } else if (marker == 0xE0) {
        if (STARTS(start, "JFIF")) {
            if (size < MIN_VERSION) return FPC_UNUSUAL_HEADER;
            walker->jfif = walker->jfif || (size >= 16 && !walker->data[start + 4]); /* jdmarker.c, examine_app0 */
        }
    } else if (marker == 0xEE) {
        if (STARTS(start, "Adobe")) {
            if (size < MIN_VERSION) return FPC_UNUSUAL_HEADER;
            if (size >= 14) walker->adobe = walker->data[start + 11]; /* jdmarker.c, examine_app14 */
        }
    } else if (marker == 0xED && STARTS(end - 6, "8BIM")) { /* the name's length, which Pillow reads next, is missing */
        return FPC_UNUSUAL_HEADER;
    }
    return FPC_OK;
}

/* True if the DQT segment ends with the end of a table; otherwise Pillow refuses the file. */
static bool whole_tables(const uint8_t *data, size_t length) {
    while (length) {
        const size_t bytes = 1 + (data[0] >> 4 ? 128 : 64);
        if (length < bytes) return false;
        data += bytes;
        length -= bytes;
    }
    return true;
}

static int take_tables(fpc_walker *walker, int marker, size_t start, size_t end) {
    const uint8_t *data = walker->data + start;
    if (marker == FPC_DQT && !whole_tables(data, end - start)) return FPC_UNUSUAL_HEADER;
    if (!walker->tables) return FPC_OK;
    if (marker == FPC_DQT) return fpc_read_quantization(walker->tables, data, end - start);
    if (marker == FPC_DHT) return fpc_read_huffman_specs(walker->tables, data, end - start);
    return fpc_read_interval(walker->tables, data, end - start);
}

/* The color space, by libjpeg's rule (jdapimin.c, default_decompress_parms). */
static int color_of(const fpc_walker *walker, const uint8_t *ids, int count) {
    if (count == 1) return FPC_GRAY;
    if (count == 4) return walker->adobe == 2 ? FPC_YCCK : FPC_CMYK;
    if (walker->jfif) return FPC_YCBCR;
    if (walker->adobe >= 0) return walker->adobe == 0 ? FPC_RGB : FPC_YCBCR;
    return ids[0] == 'R' && ids[1] == 'G' && ids[2] == 'B' ? FPC_RGB : FPC_YCBCR;
}

/* Returns 1 for sampling factors with which all of libjpeg-turbo's decoders have been shown to decode a region to the
 * same pixels as the full image. */
static int known_sampling(const fpc_walker *walker, const fpc_header *header) {
    const int32_t *factors = header->sampling;
    if (header->components == 1) return factors[0] == 0x11;
    if (header->components != 3 || factors[1] != 0x11 || factors[2] != 0x11) return 0;
    int named =
        factors[0] == 0x11 || factors[0] == 0x21 || factors[0] == 0x22 || factors[0] == 0x12 || factors[0] == 0x41;
    /* TurboJPEG has no name for RGB with subsampled components, and Adobe's unknown transforms cause warnings. */
    return named && (walker->adobe <= 1 || walker->jfif) && (header->color == FPC_YCBCR || factors[0] == 0x11);
}

/* Sets the header's fields when the scan's segment is reached. */
static int finish_header(fpc_walker *walker, size_t start, size_t end) {
    fpc_segments *segments = walker->segments;
    fpc_header *header = &segments->header;
    const uint8_t *frame = walker->data + segments->frame, *components = frame + 6;
    if (!segments->frame_marker || !walker->ordinary) return FPC_UNUSUAL_HEADER;
    if (!header->height || !header->width) return FPC_UNUSUAL_HEADER;
    if (header->components != 1 && header->components != 3 && header->components != 4) return FPC_UNUSUAL_HEADER;
    uint8_t ids[4];
    for (int i = 0; i < header->components; i++) {
        ids[i] = components[3 * i];
        header->sampling[i] = components[3 * i + 1];
    }
    header->color = color_of(walker, ids, header->components);
    int marker = segments->frame_marker;
    header->progressive = marker == FPC_SOF2 || marker == 0xC6 || marker == 0xCA || marker == 0xCE;
    header->data_offset = (int64_t)end;
    /* All components are in the first scan, or the file is progressive: libjpeg decodes it without gaps. */
    int whole = end > start && (marker == FPC_SOF2 || walker->data[start] == header->components);
    header->plain =
        known_sampling(walker, header) && walker->quantized && whole && header->bit_depth == 8 && marker <= FPC_SOF2;
    segments->scan = start;
    segments->scan_end = end;
    return FPC_OK;
}

static int take_frame(fpc_walker *walker, int marker, size_t start, size_t end) {
    fpc_segments *segments = walker->segments;
    fpc_header *header = &segments->header;
    if (segments->frame_marker || marker == FPC_JPG || marker == FPC_DAC) return FPC_UNUSUAL_HEADER;
    if (walker->length - start < 6) return FPC_TRUNCATED;
    const uint8_t *data = walker->data + start;
    segments->frame_marker = marker;
    segments->frame = start;
    header->bit_depth = data[0];
    header->height = (int32_t)u16(data + 1);
    header->width = (int32_t)u16(data + 3);
    header->components = data[5];
    /* Pillow notices a wrong length only at the scan. */
    if (end < start + 6 || end - (start + 6) != (size_t)(3 * header->components)) header->components = -1;
    return FPC_OK;
}

int fpc_walk(const uint8_t *data, size_t length, fpc_segments *segments, fpc_tables *tables) {
    static const uint8_t begin[3] = {0xFF, 0xD8, 0xFF};
    memset(segments, 0, sizeof *segments);
    if (memcmp(data, begin, length < 3 ? length : 3)) return FPC_UNKNOWN_FORMAT;
    fpc_walker walker = {data, length, segments, tables, 0, -1, 0, 1, 0};
    segments->header.orientation = 1;
    size_t position = 2;
    for (int i = 0; i < MAX_SEGMENTS; i++) {
        if (position >= length) return FPC_TRUNCATED;
        if (data[position] != 0xFF) return FPC_UNUSUAL_HEADER;
        if (position + 1 >= length) return FPC_TRUNCATED;
        int marker = data[position + 1];
        if (marker == 0xFF) { /* a fill byte */
            position++;
            continue;
        }
        if (marker < 0xC0 || (marker >= FPC_RST0 && marker <= FPC_EOI)) return FPC_UNUSUAL_HEADER;
        if (length - position < 4) return FPC_TRUNCATED;
        size_t size = u16(data + position + 2), start = position + 4, end = position + 2 + size;
        if (size < 2) return FPC_UNUSUAL_HEADER;
        if (end > length) return FPC_TRUNCATED;
        int status = FPC_OK;
        if (marker == FPC_SOS) {
            return finish_header(&walker, start, end);
        } else if (marker >= FPC_APP0) {
            status = take_application(&walker, marker, start, end);
        } else if (marker == FPC_DQT || marker == FPC_DHT || marker == FPC_DRI) {
            walker.quantized |= marker == FPC_DQT;
            int fault = take_tables(&walker, marker, start, end);
            if (fault == FPC_UNUSUAL_HEADER) status = fault;
            if (!segments->fault) segments->fault = fault;
        } else if (marker <= FPC_SOF15) {
            status = take_frame(&walker, marker, start, end);
        } else {
            walker.ordinary = 0;
        }
        if (status) return status;
        position = end;
    }
    return FPC_TOO_LARGE;
}

int fpc_read_metadata(const uint8_t *data, size_t length, const uint8_t *ids, int count, fpc_header *header) {
    fpc_segments segments;
    memset(&segments, 0, sizeof segments);
    fpc_walker walker = {data, length, &segments, NULL, 0, -1, 0, 1, 0};
    size_t position = 0;
    for (int i = 0; position < length; i++) {
        if (i == MAX_METADATA) return FPC_TOO_LARGE;
        if (length - position < 4) return FPC_TRUNCATED;
        const int marker = data[position + 1];
        if (data[position] != 0xFF || !fpc_is_metadata(marker)) return FPC_BAD_MARKER;
        const size_t size = u16(data + position + 2);
        if (size < 2) return FPC_UNUSUAL_HEADER;
        if (size > length - position - 2) return FPC_TRUNCATED;
        const int status = take_application(&walker, marker, position + 4, position + 2 + size);
        if (status) return status;
        position += 2 + size;
    }
    if (!fpc_exif_is_readable(data, &segments)) return FPC_UNUSUAL_HEADER;
    header->color = color_of(&walker, ids, count);
    header->multi_picture = segments.header.multi_picture;
    return fpc_read_orientation(data, &segments, &header->orientation);
}

int fpc_jpeg_read_header(const uint8_t *data, size_t length, fpc_header *header) {
    fpc_segments segments;
    int status = length && data ? fpc_walk(data, length, &segments, NULL) : FPC_TRUNCATED;
    if (!status) status = fpc_read_orientation(data, &segments, &segments.header.orientation);
    if (!status) *header = segments.header;
    return status;
}

/* ---- scans ------------------------------------------------------------------------------------------------------ */

int fpc_read_scan(fpc_scan *scan, const uint8_t *data, size_t length, const fpc_component *components, int count) {
    memset(scan, 0, sizeof *scan);
    if (!length || data[0] < 1 || data[0] > count || length != 4 + 2 * (size_t)data[0]) return FPC_BAD_SCAN;
    scan->count = data[0];
    for (int i = 0, next = 0; i < scan->count; i++, next++) {
        const uint8_t *pair = data + 1 + 2 * i;
        while (next < count && components[next].id != pair[0]) next++; /* a scan must list them in the frame's order */
        if (next == count) return FPC_BAD_SCAN;
        scan->component[i] = next;
        scan->dc_table[i] = pair[1] >> 4;
        scan->ac_table[i] = pair[1] & 15;
        if (scan->dc_table[i] >= FPC_MAX_TABLES || scan->ac_table[i] >= FPC_MAX_TABLES) return FPC_BAD_SCAN;
    }
    data += length - 3;
    scan->first = data[0];
    scan->last = data[1];
    scan->high = data[2] >> 4;
    scan->low = data[2] & 15;
    return FPC_OK;
}

int64_t fpc_find_marker(const uint8_t *data, size_t length, size_t start) {
    while (start + 1 < length) {
        const uint8_t *found = memchr(data + start, 0xFF, length - 1 - start);
        if (!found) break;
        uint8_t kind = found[1];
        if (kind != 0 && kind != 0xFF && (kind & 0xF8) != 0xD0) return found - data;
        start = (size_t)(found - data) + (kind == 0xFF ? 1 : 2);
    }
    return -1;
}
