/* png_chunks.c: reads the chunks of a PNG (PNG specification, sections 5 and 11) as Pillow's PngImagePlugin does.
 * Refuses chunks that Pillow may read differently or refuse. */
#include <string.h>

#include "entropy.h"
#include "png.h"

#define MAX_ANCILLARY_BYTES (1 << 20) /* PngImagePlugin.MAX_TEXT_CHUNK, above which Pillow may refuse */
#define PIECE 4096                    /* bytes inflated at a time to measure a profile */

static const uint8_t SIGNATURE[FPC_PNG_SIGNATURE_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

enum {
    IHDR = FPC_NAME('I', 'H', 'D', 'R'),
    PLTE = FPC_NAME('P', 'L', 'T', 'E'),
    IDAT = FPC_NAME('I', 'D', 'A', 'T'),
    IEND = FPC_NAME('I', 'E', 'N', 'D'),
    TRNS = FPC_NAME('t', 'R', 'N', 'S'),
    GAMA = FPC_NAME('g', 'A', 'M', 'A'),
    CHRM = FPC_NAME('c', 'H', 'R', 'M'),
    SRGB = FPC_NAME('s', 'R', 'G', 'B'),
    PHYS = FPC_NAME('p', 'H', 'Y', 's'),
    TIME = FPC_NAME('t', 'I', 'M', 'E'),
    EXIF = FPC_NAME('e', 'X', 'I', 'f'),
    ICCP = FPC_NAME('i', 'C', 'C', 'P'),
    TEXT = FPC_NAME('t', 'E', 'X', 't'),
    ZTXT = FPC_NAME('z', 'T', 'X', 't'),
    ITXT = FPC_NAME('i', 'T', 'X', 't'),
    ACTL = FPC_NAME('a', 'c', 'T', 'L'),
    FCTL = FPC_NAME('f', 'c', 'T', 'L'),
    FDAT = FPC_NAME('f', 'd', 'A', 'T')
};

static uint32_t u32(const uint8_t *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

bool fpc_is_png(const uint8_t *data, size_t length) {
    return length >= sizeof SIGNATURE && !memcmp(data, SIGNATURE, sizeof SIGNATURE);
}

/* Reads the chunk at *at, and moves *at to the end of it. */
static int next_chunk(const uint8_t *data, size_t length, size_t *at, fpc_chunk *chunk) {
    const size_t left = length - *at;
    if (left < FPC_CHUNK_BYTES) return FPC_TRUNCATED;
    chunk->size = u32(data + *at);
    chunk->name = u32(data + *at + 4);
    chunk->data = data + *at + 8;
    if (chunk->size > left - FPC_CHUNK_BYTES) return FPC_TRUNCATED;
    *at += FPC_CHUNK_BYTES + (size_t)chunk->size;
    return FPC_OK;
}

/* ---- the header ------------------------------------------------------------------------------------------------- */

static int read_first(const fpc_chunk *chunk, fpc_header *header, int *kind) {
    if (chunk->name != IHDR || chunk->size != 13) return FPC_UNUSUAL_HEADER;
    const uint8_t *data = chunk->data;
    const uint32_t width = u32(data), height = u32(data + 4), depth = data[8];
    if (!width || !height || width > INT32_MAX || height > INT32_MAX) return FPC_UNUSUAL_HEADER;
    if (data[10] || data[11] || data[12] > 1) return FPC_UNUSUAL_HEADER; /* compression, filters, interlacing */
    header->height = (int32_t)height;
    header->width = (int32_t)width;
    header->bit_depth = (int32_t)depth;
    header->progressive = data[12];
    *kind = data[9];
    const bool small = depth == 1 || depth == 2 || depth == 4;
    switch (*kind) {
    case FPC_PNG_GRAY: header->components = 1, header->color = FPC_GRAY; break;
    case FPC_PNG_RGB: header->components = 3, header->color = FPC_RGB; break;
    case FPC_PNG_PALETTE: header->components = 1, header->color = FPC_PALETTE; break;
    case FPC_PNG_GRAY_ALPHA: header->components = 2, header->color = FPC_GRAY_ALPHA; break;
    case FPC_PNG_RGBA: header->components = 4, header->color = FPC_RGBA; break;
    default: return FPC_UNUSUAL_HEADER;
    }
    if (depth == 8) return FPC_OK;
    if (*kind == FPC_PNG_GRAY) return small || depth == 16 ? FPC_OK : FPC_UNUSUAL_HEADER;
    return (*kind == FPC_PNG_PALETTE ? small : depth == 16) ? FPC_OK : FPC_UNUSUAL_HEADER;
}

/* The length of a text's key, which ends with a zero; the chunk's length if there is no zero. */
static size_t key_length(const fpc_chunk *chunk) {
    const uint8_t *end = chunk->size ? memchr(chunk->data, 0, chunk->size) : NULL;
    return end ? (size_t)(end - chunk->data) : chunk->size;
}

static bool key_is(const fpc_chunk *chunk, const char *key) {
    const size_t length = key_length(chunk);
    return length == strlen(key) && !memcmp(chunk->data, key, length);
}

static bool is_text(const fpc_chunk *chunk) {
    return chunk->name == TEXT || chunk->name == ZTXT || chunk->name == ITXT;
}

/* True for keys under which Pillow keeps its own information about the image, beside the texts. */
static bool is_special_text(const fpc_chunk *chunk) {
    static const char *const keys[] = {"transparency",          "exif",      "xmp", "icc_profile",
                                       "Raw profile type exif", "interlace", "bbox"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (key_is(chunk, keys[i])) return true;
    }
    return false;
}

/* True if the text of an iTXt chunk is compressed, or the chunk is too short to tell. */
static bool is_compressed(const fpc_chunk *chunk) {
    const size_t flag = key_length(chunk) + 1;
    return flag >= chunk->size || chunk->data[flag];
}

/* True for chunks that affect no decoder: see `plain` of fpc_header. */
static bool is_plain(const fpc_chunk *chunk) {
    switch (chunk->name) {
    case GAMA: return chunk->size == 4;
    case CHRM: return chunk->size == 32;
    case SRGB: return chunk->size == 1;
    case PHYS: return chunk->size == 9;
    case TIME: return chunk->size == 7;
    case EXIF:
    case TEXT: return true;
    case ITXT: return !is_compressed(chunk);
    case ICCP: {
        const size_t method = key_length(chunk) + 1;
        return method < chunk->size && !chunk->data[method];
    }
    default: return false;
    }
}

/* Finds the XMP packet of an iTXt chunk: it follows the keyword, two flags, a language and a translated keyword. */
static int find_packet(const fpc_chunk *chunk, const uint8_t **packet, size_t *length) {
    if (chunk->name != ITXT || is_compressed(chunk)) return FPC_UNUSUAL_HEADER;
    const uint8_t *at = chunk->data + key_length(chunk) + 3, *end = chunk->data + chunk->size;
    for (int i = 0; i < 2; i++) {
        at = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!at) return FPC_UNUSUAL_HEADER;
        at++;
    }
    *packet = at;
    *length = (size_t)(end - at);
    return FPC_OK;
}

int fpc_png_read_header(const uint8_t *data, size_t length, fpc_header *header, int *kind) {
    memset(header, 0, sizeof *header);
    header->format = FPC_FORMAT_PNG;
    header->orientation = 1;
    const uint8_t *exif = NULL, *packet = NULL;
    size_t at = FPC_PNG_SIGNATURE_BYTES, exif_length = 0, packet_length = 0;
    fpc_chunk chunk;
    int status = next_chunk(data, length, &at, &chunk);
    if (status == FPC_OK) status = read_first(&chunk, header, kind);
    if (status != FPC_OK) return status;
    bool plain = header->bit_depth <= 8, full_palette = false;
    for (;;) {
        if (length - at < 8) return FPC_TRUNCATED;
        if (u32(data + at + 4) == IDAT) break; /* its end may be beyond the data */
        status = next_chunk(data, length, &at, &chunk);
        if (status != FPC_OK) return status;
        if (chunk.name == IHDR || chunk.name == IEND) return FPC_UNUSUAL_HEADER;
        if (chunk.name == TRNS) header->transparency = 1;
        if (chunk.name == ACTL) header->animated = chunk.size >= 4 && u32(chunk.data) > 1;
        if (chunk.name == EXIF) exif = chunk.data, exif_length = chunk.size;
        if (is_text(&chunk)) {
            if (is_special_text(&chunk)) return FPC_UNUSUAL_HEADER;
            if (key_is(&chunk, "XML:com.adobe.xmp")) {
                if (packet || find_packet(&chunk, &packet, &packet_length)) return FPC_UNUSUAL_HEADER;
            }
        }
        if (chunk.name == PLTE && *kind == FPC_PNG_PALETTE)
            full_palette = chunk.size == 3u << header->bit_depth;
        else if (!is_plain(&chunk))
            plain = false;
    }
    header->data_offset = (int64_t)at;
    header->plain = plain && full_palette == (*kind == FPC_PNG_PALETTE);
    return fpc_orientation_of(exif, exif_length, packet, packet_length, &header->orientation);
}

/* ---- all chunks ------------------------------------------------------------------------------------------------- */

/* Checks that Pillow inflates the compressed part of a text or a profile without an error: it must be below Pillow's
 * limit, and valid, as Pillow keeps some of the data of invalid ones. */
static int check_compressed(fpc_png *png, const uint8_t *data, size_t length) {
    if (length > MAX_ANCILLARY_BYTES) return FPC_TOO_LARGE;
    uint8_t *copy = fpc_buffer_need(&png->joined, length + FPC_INFLATE_IN_SLACK);
    uint8_t *window = fpc_buffer_need(&png->window, 2 * FPC_WINDOW + PIECE + FPC_INFLATE_OUT_SLACK);
    if (!copy || !window) return FPC_NO_MEMORY;
    memcpy(copy, data, length);
    memset(copy + length, 0, FPC_INFLATE_IN_SLACK); /* may be read: must always be the same */
    if (fpc_inflate_start(&png->inflate, copy, length)) return FPC_UNUSUAL_HEADER;
    uint8_t *out = window;
    while (png->inflate.state != FPC_INFLATE_DONE) {
        uint8_t *const from = out;
        if (fpc_inflate_run(&png->inflate, png->kernels, window, &out, out + PIECE)) return FPC_UNUSUAL_HEADER;
        png->parts.inflated += (size_t)(out - from);
        if (png->parts.inflated >= MAX_ANCILLARY_BYTES) return FPC_TOO_LARGE;
        if (out - window >= 2 * FPC_WINDOW) {
            memmove(window, out - FPC_WINDOW, FPC_WINDOW);
            out = window + FPC_WINDOW;
        }
    }
    return FPC_OK;
}

static int check_profile(fpc_png *png, const fpc_chunk *chunk) {
    const size_t method = key_length(chunk) + 1;
    if (method >= chunk->size || chunk->data[method]) return FPC_UNUSUAL_HEADER;
    return check_compressed(png, chunk->data + method + 1, chunk->size - method - 1);
}

static int check_transparency(const fpc_png *png, const fpc_chunk *chunk) {
    uint32_t size = 0;
    if (png->kind == FPC_PNG_PALETTE) return chunk->size && chunk->size <= png->parts.colors ? FPC_OK : FPC_BAD_MARKER;
    if (png->kind == FPC_PNG_GRAY) size = 2;
    if (png->kind == FPC_PNG_RGB) size = 6;
    return size && chunk->size == size ? FPC_OK : FPC_BAD_MARKER;
}

static int take_palette(fpc_png *png, const fpc_chunk *chunk) {
    if (chunk->size % 3 || chunk->size < 3 || chunk->size > 3 * 256) return FPC_BAD_MARKER;
    if (png->parts.palette) return FPC_BAD_MARKER; /* Pillow uses the last one */
    png->parts.palette = chunk->data;
    png->parts.colors = chunk->size / 3;
    return FPC_OK;
}

static bool is_letter(uint32_t byte) { return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z'); }

/* Checks a chunk without pixels. */
static int check_chunk(fpc_png *png, const fpc_chunk *chunk, bool behind_pixels) {
    switch (chunk->name) {
    case IHDR: return FPC_BAD_MARKER;
    case ACTL:
    case FCTL:
    case FDAT: return FPC_UNSUPPORTED_MODE;
    case PLTE: return behind_pixels ? FPC_BAD_MARKER : take_palette(png, chunk);
    case TRNS: return behind_pixels ? FPC_BAD_MARKER : check_transparency(png, chunk);
    case ICCP: return check_profile(png, chunk);
    case ZTXT: return is_special_text(chunk) ? FPC_UNUSUAL_HEADER : check_profile(png, chunk);
    case TEXT:
    case ITXT:
        if (is_special_text(chunk)) return FPC_UNUSUAL_HEADER;
        return is_plain(chunk) ? FPC_OK : FPC_UNUSUAL_HEADER;
    case GAMA:
    case CHRM:
    case SRGB:
    case PHYS: return is_plain(chunk) ? FPC_OK : FPC_BAD_MARKER;
    default: break;
    }
    /* Pillow doesn't know this chunk; the name tells if a decoder may ignore it. */
    for (int shift = 0; shift < 32; shift += 8) {
        if (!is_letter(chunk->name >> shift & 255)) return FPC_BAD_MARKER;
    }
    return chunk->name >> 29 & 1 ? FPC_OK : FPC_UNSUPPORTED_MODE;
}

/* Joins the data of the IDAT chunks from `first` to `end`. */
static int join_pixels(fpc_png *png, const uint8_t *data, size_t first, size_t end, int64_t max_bytes) {
    const size_t length = png->parts.stream_length;
    if (max_bytes > 0 && length > (uint64_t)max_bytes) return FPC_TOO_LARGE;
    uint8_t *to = fpc_buffer_need(&png->joined, length + FPC_INFLATE_IN_SLACK);
    if (!to) return FPC_NO_MEMORY;
    png->parts.stream = to;
    while (first < end) {
        fpc_chunk chunk;
        if (next_chunk(data, end, &first, &chunk)) return FPC_TRUNCATED;
        memcpy(to, chunk.data, chunk.size);
        to += chunk.size;
    }
    memset(to, 0, FPC_INFLATE_IN_SLACK); /* may be read: the reason of a refusal must not depend on earlier data */
    return FPC_OK;
}

int fpc_png_read_chunks(fpc_png *png, const uint8_t *data, size_t length, int64_t max_bytes) {
    fpc_png_parts *parts = &png->parts;
    memset(parts, 0, sizeof *parts);
    size_t at = FPC_PNG_SIGNATURE_BYTES + FPC_CHUNK_BYTES + 13, ancillary = 0, pixels = 0, pixels_end = 0;
    int pixel_chunks = 0;
    if (png->kernels->crc32(0, data + 12, 17) != u32(data + 29)) return FPC_BAD_CHECKSUM;
    for (;;) {
        const size_t start = at;
        fpc_chunk chunk;
        int status = next_chunk(data, length, &at, &chunk);
        if (status != FPC_OK) return status;
        const uint32_t checksum = u32(chunk.data + chunk.size);
        if (png->kernels->crc32(0, chunk.data - 4, (size_t)chunk.size + 4) != checksum) return FPC_BAD_CHECKSUM;
        if (chunk.name == IEND) break;
        if (chunk.name == IDAT) {
            if (pixel_chunks && pixels_end != start) return FPC_BAD_MARKER; /* Pillow stops at the first other chunk */
            if (!pixel_chunks++) pixels = start, parts->stream = chunk.data;
            pixels_end = at;
            parts->stream_length += chunk.size;
            continue;
        }
        ancillary += chunk.size;
        if (ancillary > MAX_ANCILLARY_BYTES) return FPC_TOO_LARGE;
        status = check_chunk(png, &chunk, pixel_chunks > 0);
        if (status != FPC_OK) return status;
    }
    if (!pixel_chunks) return FPC_TRUNCATED;
    if (png->kind == FPC_PNG_PALETTE && !parts->palette) return FPC_BAD_TABLE;
    /* After the data of a single chunk come its checksum and the IEND chunk, which are enough slack. */
    return pixel_chunks == 1 ? FPC_OK : join_pixels(png, data, pixels, pixels_end, max_bytes);
}
