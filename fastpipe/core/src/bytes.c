/* bytes.c: a buffer of bytes that grows at its end. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

uint8_t *fpc_bytes_room(fpc_bytes *bytes, size_t size) {
    if (bytes->failed || size > SIZE_MAX / 4 - bytes->size) {
        bytes->failed = true;
        return NULL;
    }
    if (bytes->size + size > bytes->room) {
        const size_t room = (bytes->size + size) + (bytes->size + size) / 2 + 4096;
        uint8_t *data = realloc(bytes->data, room);
        if (!data) {
            bytes->failed = true;
            return NULL;
        }
        bytes->data = data;
        bytes->room = room;
    }
    return bytes->data + bytes->size;
}

void fpc_bytes_add(fpc_bytes *bytes, const void *data, size_t size) {
    uint8_t *to = fpc_bytes_room(bytes, size);
    if (!to || !size) return;
    memcpy(to, data, size);
    bytes->size += size;
}

void fpc_bytes_put(fpc_bytes *bytes, int byte) {
    const uint8_t one = (uint8_t)byte;
    fpc_bytes_add(bytes, &one, 1);
}

void fpc_bytes_clear(fpc_bytes *bytes) {
    bytes->size = 0;
    bytes->failed = false;
}

void fpc_bytes_free(fpc_bytes *bytes) {
    free(bytes->data);
    *bytes = (fpc_bytes){0};
}
