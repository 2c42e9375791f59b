/* checksums.h: CRC-32, as PNG's chunks and packed images have it. */
#ifndef FPC_CHECKSUMS_H
#define FPC_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `crc` of the data before, 0 for none. In plain C; a kernel does the same. */
uint32_t fpc_crc32(uint32_t crc, const uint8_t *data, size_t size);

/* True if this machine is a 64-bit ARM with CRC-32 instructions. */
bool fpc_has_arm_crc(void);

#endif
