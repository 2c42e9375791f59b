/* memory.h: scratch memory that grows and is used again. */
#ifndef FPC_MEMORY_H
#define FPC_MEMORY_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(size_t) >= 8, "the bytes of the largest images are counted in size_t");

/* Starts as {0}. The bytes are 64-byte aligned, zeroed when they are allocated, and lost when the buffer grows. */
typedef struct fpc_buffer {
    uint8_t *data;
    size_t size;
} fpc_buffer;

/* Grows buffer->data to at least `size` bytes; NULL if there is no memory (the buffer is then empty). */
uint8_t *fpc_buffer_need(fpc_buffer *buffer, size_t size);
void fpc_buffer_free(fpc_buffer *buffer);

/* The memory's next `bytes` from `*at` on, aligned for vectors; only adds them to `*at` if `memory` is NULL. */
static inline void *fpc_lay_out(uint8_t *memory, int64_t *at, int64_t bytes) {
    void *taken = memory ? memory + *at : NULL;
    *at += (bytes + 63) & ~(int64_t)63;
    return taken;
}

#endif
