/* bytes.h: bytes that are written one after the other. */
#ifndef FPC_BYTES_H
#define FPC_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}. Where there is no memory, `failed` is set and nothing is written any more. */
typedef struct fpc_bytes {
    uint8_t *data;
    size_t size, room;
    bool failed;
} fpc_bytes;

/* Room for `size` bytes after those that are there; the caller fills it and adds to bytes->size what it wrote. NULL
 * where there is no memory. */
uint8_t *fpc_bytes_room(fpc_bytes *bytes, size_t size);
void fpc_bytes_add(fpc_bytes *bytes, const void *data, size_t size);
/* Adds a byte: the lowest eight bits. */
void fpc_bytes_put(fpc_bytes *bytes, int byte);
/* Begins again, in the same memory. */
void fpc_bytes_clear(fpc_bytes *bytes);
void fpc_bytes_free(fpc_bytes *bytes);

#endif
