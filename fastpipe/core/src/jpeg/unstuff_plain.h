/* unstuff_plain.h: copies a scan's bytes, without the zero that is stuffed after each 0xFF, up to a marker. */
#include "bitstream.h"

/* Takes a 0xFF: it is a data byte if a 0 follows, else begins a marker, which any number of 0xFF may precede. If
 * several of them precede a 0, libjpeg's two decoders disagree, and the faster one leaves bytes over: here the marker
 * is then 0xFF, which no caller accepts. Returns 0 at the end of the data. */
static int take_marked(fpc_copy *copy) {
    const uint8_t *code = copy->from + 1;
    while (code < copy->end && *code == 0xFF) code++;
    if (code == copy->end) {
        copy->marker = FPC_END_OF_DATA;
        return 0;
    }
    if (*code || code > copy->from + 1) {
        copy->marker = *code ? *code : 0xFF;
        copy->from = code - 1;
        return 0;
    }
    *copy->to++ = 0xFF;
    copy->from = code + 1;
    return 1;
}

/* Takes one byte: of the last ones of the file, or of those before a 0xFF that is known to be near. */
static int take_byte(fpc_copy *copy) {
    if (copy->from == copy->end) {
        copy->marker = FPC_END_OF_DATA;
        return 0;
    }
    if (*copy->from == 0xFF) return take_marked(copy);
    *copy->to++ = *copy->from++;
    return 1;
}

static inline void unstuff_plain(fpc_copy *copy) {
    while (copy->to < copy->limit) {
        if (copy->end - copy->from >= 8) {
            uint64_t word, low = UINT64_C(0x0101010101010101);
            memcpy(&word, copy->from, sizeof word);
            memcpy(copy->to, &word, sizeof word);
            /* A byte is 0xFF if its complement is 0, so this is the usual test for a zero byte, on the complement. */
            if (!((~word - low) & word & low << 7)) {
                copy->from += 8;
                copy->to += 8;
                continue;
            }
            while (*copy->from != 0xFF) *copy->to++ = *copy->from++;
        }
        if (!take_byte(copy)) return;
    }
}

#ifndef FPC_SIMD_H
static void unstuff(fpc_copy *copy) { unstuff_plain(copy); }
#endif
