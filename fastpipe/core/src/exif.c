/* exif.c: the orientation that Pillow's ImageOps.exif_transpose would apply. Reads only a usual first directory; a file
 * with an unusual one is left to Pillow. */
#include "entropy.h"

#include <string.h>

enum { ORIENTATION = 0x0112, X_RESOLUTION = 0x011A, ENTRY_BYTES = 12, NOT_THERE = -1 };
enum { TYPE_BYTE = 1, TYPE_ASCII = 2, TYPE_SHORT = 3, TYPE_UNDEFINED = 7 };

typedef struct fpc_tiff {
    const uint8_t *data; /* after the name "Exif" */
    uint64_t length;
    int little;
} fpc_tiff;

static uint32_t u16(const fpc_tiff *tiff, uint64_t at) {
    const uint8_t *bytes = tiff->data + at;
    return tiff->little ? bytes[0] | (uint32_t)bytes[1] << 8 : bytes[1] | (uint32_t)bytes[0] << 8;
}

static uint32_t u32(const fpc_tiff *tiff, uint64_t at) {
    uint32_t first = u16(tiff, at), second = u16(tiff, at + 2);
    return tiff->little ? first | second << 16 : second | first << 16;
}

/* The bytes of one value of a type (TIFF 6.0, section 2; 13 is an IFD, 16 is from BigTIFF); 0 for an unknown type. */
static uint32_t type_bytes(uint32_t type) {
    static const uint8_t bytes[17] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* True if Pillow's JpegImagePlugin may refuse the file for this entry. Its _read_dpi_from_exif expects a resolution of
 * bytes or text to be a pair of numbers; a single one raises an IndexError that nothing catches. (A text may end in a
 * zero.) */
static bool is_lone_number(uint32_t tag, uint32_t type, uint64_t values) {
    if (tag != X_RESOLUTION || values > 2) return false;
    return type == TYPE_BYTE || type == TYPE_ASCII || type == TYPE_UNDEFINED;
}

/* Sets *value to the orientation tag's value, or to NOT_THERE. */
static int from_exif(const uint8_t *data, size_t length, int32_t *value) {
    *value = NOT_THERE;
    if (length < 8) return FPC_UNUSUAL_HEADER;
    fpc_tiff tiff = {data, length, 0};
    if (!memcmp(tiff.data, "II*\0", 4))
        tiff.little = 1;
    else if (memcmp(tiff.data, "MM\0*", 4))
        return FPC_UNUSUAL_HEADER;
    uint64_t at = u32(&tiff, 4);
    if (at + 2 > tiff.length) return FPC_UNUSUAL_HEADER;
    uint64_t count = u16(&tiff, at);
    at += 2;
    if (at + ENTRY_BYTES * count > tiff.length) return FPC_UNUSUAL_HEADER;
    for (; count; count--, at += ENTRY_BYTES) {
        uint32_t tag = u16(&tiff, at), type = u16(&tiff, at + 2);
        uint64_t values = u32(&tiff, at + 4), where = u32(&tiff, at + 8), size = values * type_bytes(type);
        if (size > 4 && where + size > tiff.length) return FPC_UNUSUAL_HEADER; /* Pillow stops at such an entry */
        if (is_lone_number(tag, type, values)) return FPC_UNUSUAL_HEADER;
        if (tag != ORIENTATION) continue;
        /* If there are two such entries, Pillow's versions differ in which they take. */
        if (type != TYPE_SHORT || values != 1 || *value != NOT_THERE) return FPC_UNUSUAL_HEADER;
        *value = (int32_t)u16(&tiff, at + 8);
    }
    return FPC_OK;
}

/* Python's strict UTF-8: no surrogates, no code point in more bytes than it needs, none above U+10FFFF. */
static bool is_utf8(const uint8_t *data, size_t length) {
    for (size_t i = 0; i < length;) {
        const uint8_t first = data[i++];
        if (first < 0x80) continue;
        const int rest = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || length - i < (size_t)rest) return false;
        const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (data[i] < least || data[i] > most) return false;
        for (int j = 1; j < rest; j++)
            if ((data[i + j] & 0xC0) != 0x80) return false;
        i += rest;
    }
    return true;
}

/* The digit of the first match of Pillow's pattern: tiff:Orientation(?:="|>)([0-9]) */
static int32_t from_xmp(const uint8_t *data, size_t length) {
    static const char name[] = "tiff:Orientation";
    const size_t name_length = sizeof name - 1;
    for (size_t i = 0; i + name_length + 2 <= length; i++) {
        if (data[i] != 't' || memcmp(data + i, name, name_length)) continue;
        const uint8_t *rest = data + i + name_length, *end = data + length;
        if (*rest == '>')
            rest += 1;
        else if (rest[0] == '=' && rest[1] == '"')
            rest += 2;
        else
            continue;
        if (rest < end && *rest >= '0' && *rest <= '9') return *rest - '0';
    }
    return NOT_THERE;
}

int fpc_orientation_of(const uint8_t *exif, size_t exif_length, const uint8_t *xmp, size_t xmp_length,
                       int32_t *orientation) {
    int32_t value = NOT_THERE;
    *orientation = 1;
    if (exif) {
        int status = from_exif(exif, exif_length, &value);
        if (status) return status;
    }
    if (value == NOT_THERE && xmp) {
        if (!is_utf8(xmp, xmp_length)) return FPC_UNUSUAL_HEADER; /* of which some of Pillow's versions raise */
        value = from_xmp(xmp, xmp_length);
    }
    if (value >= 1 && value <= 8) *orientation = value;
    return FPC_OK;
}

bool fpc_exif_is_readable(const uint8_t *data, const fpc_segments *segments) {
    if (!segments->exif_segments) return true;
    fpc_tiff tiff = {data + segments->exif, segments->exif_end - segments->exif, 0};
    for (int i = 0; i < 2 && tiff.length >= 6 && !memcmp(tiff.data, "Exif\0\0", 6); i++) {
        tiff.data += 6; /* the name may stand there twice */
        tiff.length -= 6;
    }
    const bool alone = segments->exif_segments == 1; /* Pillow joins several segments */
    if (tiff.length < 8) return alone;
    if (memcmp(tiff.data, "II", 2) && memcmp(tiff.data, "MM", 2)) return true;
    tiff.little = tiff.data[0] == 'I';
    uint64_t at = u32(&tiff, 4);
    if (at + 2 > tiff.length) return alone;
    uint64_t count = u16(&tiff, at);
    for (at += 2; count; count--, at += ENTRY_BYTES) {
        if (at + ENTRY_BYTES > tiff.length) return alone;
        if (is_lone_number(u16(&tiff, at), u16(&tiff, at + 2), u32(&tiff, at + 4))) return false;
    }
    return true;
}

int fpc_read_orientation(const uint8_t *data, const fpc_segments *segments, int32_t *orientation) {
    *orientation = 1;
    if (segments->exif_segments > 1) return FPC_UNUSUAL_HEADER; /* Pillow joins the segments */
    const uint8_t *exif = NULL, *xmp = segments->xmp ? data + segments->xmp : NULL;
    size_t length = 0;
    if (segments->exif_segments) {
        length = segments->exif_end - segments->exif;
        if (length < 6) return FPC_UNUSUAL_HEADER;
        exif = data + segments->exif + 6; /* after "Exif" and two zeros */
        length -= 6;
    }
    return fpc_orientation_of(exif, length, xmp, segments->xmp_end - segments->xmp, orientation);
}
