/* checksums.h: CRC-32, as PNG's chunks and packed images have it. */
#ifndef FPC_CHECKSUMS_H
#define FPC_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The checksum goes on from the one of what came before, and begins with 0: in plain C; a kernel does the same. */
uint32_t fpc_crc32(uint32_t crc, const uint8_t *data, size_t size);

/* Whether this machine is a 64-bit ARM with the instructions for it. */
bool fpc_has_arm_crc(void);

#endif
