/* memory.c: scratch memory that grows and is used again. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define PAGE 4096

uint8_t *fpc_buffer_need(fpc_buffer *buffer, size_t size) {
    if (size <= buffer->size && buffer->data) return buffer->data;
    fpc_buffer_free(buffer);
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + size / 4 + PAGE) & ~(size_t)(PAGE - 1); /* a quarter more, to grow into */
#if defined(_WIN32)
    buffer->data = _aligned_malloc(size, ALIGNMENT);
#else
    buffer->data = aligned_alloc(ALIGNMENT, size);
#endif
    if (!buffer->data) return NULL;
    memset(buffer->data, 0, size);
    buffer->size = size;
    return buffer->data;
}

void fpc_buffer_free(fpc_buffer *buffer) {
#if defined(_WIN32)
    _aligned_free(buffer->data);
#else
    free(buffer->data);
#endif
    buffer->data = NULL;
    buffer->size = 0;
}
