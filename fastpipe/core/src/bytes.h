/* bytes.h: a buffer of bytes that grows at its end. */
#ifndef FPC_BYTES_H
#define FPC_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}. If there is no memory, `failed` is set, and nothing more is written. */
typedef struct fpc_bytes {
    uint8_t *data;
    size_t size, room;
    bool failed;
} fpc_bytes;

/* Makes room for `size` bytes at the end. The caller fills it, and adds the number of bytes written to bytes->size.
 * NULL if there is no memory. */
uint8_t *fpc_bytes_room(fpc_bytes *bytes, size_t size);
void fpc_bytes_add(fpc_bytes *bytes, const void *data, size_t size);
/* Adds the lowest eight bits of `byte`. */
void fpc_bytes_put(fpc_bytes *bytes, int byte);
/* Empties the buffer, and keeps its memory. */
void fpc_bytes_clear(fpc_bytes *bytes);
void fpc_bytes_free(fpc_bytes *bytes);

#endif
