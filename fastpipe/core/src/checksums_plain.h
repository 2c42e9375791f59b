/* checksums_plain.h: the checksums of PNG's chunks (CRC-32) and of zlib's streams (Adler-32), in plain C. */
#ifndef FPC_CHECKSUMS_PLAIN_H
#define FPC_CHECKSUMS_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "checksums.h"

#define ADLER_MODULUS 65521
#define ADLER_MOST 5552 /* bytes whose sums fit in 32 bits */

static uint32_t plain_adler32(uint32_t adler, const uint8_t *data, size_t size) {
    uint32_t sum = adler & 0xFFFF, sums = adler >> 16;
    while (size) {
        const size_t count = size < ADLER_MOST ? size : ADLER_MOST;
        for (size_t i = 0; i < count; i++) {
            sum += data[i];
            sums += sum;
        }
        sum %= ADLER_MODULUS;
        sums %= ADLER_MODULUS;
        data += count;
        size -= count;
    }
    return sums << 16 | sum;
}

#if defined(FPC_PORTABLE)
static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size) { return fpc_crc32(crc, data, size); }

static uint32_t adler32(uint32_t adler, const uint8_t *data, size_t size) { return plain_adler32(adler, data, size); }
#endif

#endif
