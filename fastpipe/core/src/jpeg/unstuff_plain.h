/* unstuff_plain.h: a scan's bytes without the zeros that are stuffed after each 0xFF, up to a marker. */
#include "bitstream.h"

/* Takes a byte of 0xFF: one data byte where 0 follows, else a marker, before which any number of 0xFF may stand. With
 * several of them before a 0, libjpeg's two ways of decoding disagree, and the faster one leaves bytes over: here the
 * marker is 0xFF then, which nobody takes. Returns 0 where the data ends. */
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

/* The last bytes of the file, one by one; or those up to the next 0xFF, where one is known to be near. */
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
            /* A byte is 0xFF where its complement is 0: the well-known test for a zero byte, of the complement. */
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
