/* checksums_plain.h: the checksums of PNG's chunks (CRC-32) and of zlib's streams (Adler-32), in plain C. */
#ifndef FPC_CHECKSUMS_PLAIN_H
#define FPC_CHECKSUMS_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* Eight bytes a turn: tables->rows[k][x] is the checksum of x followed by k zeros. */
static uint32_t plain_crc32(const fpc_crc_tables *tables, uint32_t crc, const uint8_t *data, size_t size) {
    const uint32_t (*rows)[256] = tables->rows;
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {
        crc ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = rows[7][crc & 255] ^ rows[6][crc >> 8 & 255] ^ rows[5][crc >> 16 & 255] ^ rows[4][crc >> 24] ^
              rows[3][data[4]] ^ rows[2][data[5]] ^ rows[1][data[6]] ^ rows[0][data[7]];
    }
    for (; size; size--, data++) crc = crc >> 8 ^ rows[0][(crc ^ *data) & 255];
    return ~crc;
}

#define ADLER_MODULUS 65521
#define ADLER_MOST 5552 /* bytes whose sums fit into 32 bits */

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
static uint32_t crc32(const fpc_crc_tables *tables, uint32_t crc, const uint8_t *data, size_t size) {
    return plain_crc32(tables, crc, data, size);
}

static uint32_t adler32(uint32_t adler, const uint8_t *data, size_t size) { return plain_adler32(adler, data, size); }
#endif

#endif
