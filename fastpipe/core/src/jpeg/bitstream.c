/* bitstream.c: the bits of a scan, unstuffed piece by piece. */
#include "bitstream.h"

#include "kernels.h"

_Static_assert(FPC_UNSTUFF_SLACK <= 64, "the buffer has 64 bytes behind the margin");

/* Appends unstuffed bytes after `filled`, up to `to`; fewer if a marker comes. */
static void unstuff(fpc_bitstream *bits, uint8_t *from, uint8_t *to) {
    fpc_copy copy = {bits->input, bits->end, from, to, 0};
    bits->kernels->unstuff(&copy);
    bits->input = copy.from;
    bits->marker = copy.marker;
    bits->filled = copy.to;
    if (copy.marker) {
        memset(copy.to, 0, FPC_MARGIN);
        bits->limit = copy.to + 8; /* the reader may be up to seven bytes ahead of what it has used */
    } else {
        bits->limit = copy.to - FPC_MARGIN;
    }
}

void fpc_bitstream_start(fpc_bitstream *bits, const uint8_t *input, const uint8_t *end) {
    bits->input = input;
    bits->end = end;
    bits->marker = 0;
    bits->reader = (fpc_reader){bits->buffer, 0, 0};
    /* The first piece is short, as restart intervals are. */
    unstuff(bits, bits->buffer, bits->buffer + FPC_MARGIN + FPC_CHUNK / 4);
}

int fpc_bitstream_fill(fpc_bitstream *bits) {
    if (bits->marker) return FPC_TRUNCATED;
    size_t kept = (size_t)(bits->filled - bits->reader.next);
    memmove(bits->buffer, bits->reader.next, kept);
    bits->reader.next = bits->buffer;
    unstuff(bits, bits->buffer + kept, bits->buffer + FPC_MARGIN + FPC_CHUNK);
    return FPC_OK;
}

int fpc_bitstream_overrun(const fpc_bitstream *bits) {
    return bits->marker && (bits->reader.next - bits->filled) * 8 > (ptrdiff_t)bits->reader.count;
}

bool fpc_bitstream_left_over(const fpc_bitstream *bits) {
    return !bits->marker || (bits->filled - bits->reader.next) * 8 + (ptrdiff_t)bits->reader.count >= 8;
}

int fpc_bitstream_marker(fpc_bitstream *bits) {
    while (!bits->marker) unstuff(bits, bits->buffer, bits->buffer + FPC_MARGIN + FPC_CHUNK);
    return bits->marker;
}

int fpc_bitstream_restart(fpc_bitstream *bits, int number) {
    if (fpc_bitstream_overrun(bits)) return FPC_TRUNCATED;
    int marker = fpc_bitstream_marker(bits);
    if (marker == FPC_END_OF_DATA) return FPC_TRUNCATED;
    if (marker != 0xD0 + number) return FPC_BAD_MARKER;
    fpc_bitstream_start(bits, bits->input + 2, bits->end);
    return FPC_OK;
}
