/* codecs.c: the table of compressed formats. */
#include "codecs.h"

static const fpc_codec *const CODECS[FPC_FORMAT_COUNT] = {
    [FPC_FORMAT_JPEG] = &fpc_jpeg_codec,
    [FPC_FORMAT_PNG] = &fpc_png_codec,
    [FPC_FORMAT_PACKED] = &fpc_packed_codec,
};

fpc_format fpc_format_of(const uint8_t *data, size_t length) {
    for (int format = 0; data && format < FPC_FORMAT_COUNT; format++) {
        if (CODECS[format]->recognize(data, length)) return (fpc_format)format;
    }
    return FPC_FORMAT_JPEG;
}

const fpc_codec *fpc_codec_of(fpc_format format) { return CODECS[format]; }

int fpc_read_header(const uint8_t *data, size_t length, fpc_header *header) {
    return fpc_codec_of(fpc_format_of(data, length))->read_header(data, length, header);
}
