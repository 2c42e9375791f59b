/* file_list.c: reads the files of a batch, one after the other, into memory that is reused for the next batch. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "process.h"
#include "threads.h"

#define CHUNK ((size_t)4 << 20)
/* The memory that is kept from batch to batch. */
#define KEPT_BYTES ((size_t)128 << 20)
#define ALIGNMENT ((size_t)64)

typedef struct chunk {
    struct chunk *next;
    uint8_t *data;
    size_t size, used;
} chunk;

struct fpc_files {
    long process; /* number of the process that made it */
    fpc_lock lock;
    chunk *chunks; /* protected by the lock */
};

fpc_files *fpc_files_new(void) {
    fpc_files *files = calloc(1, sizeof *files);
    if (!files) return NULL;
    files->process = fpc_process();
    if (fpc_lock_init(&files->lock)) return files;
    free(files);
    return NULL;
}

void fpc_files_free(fpc_files *files) {
    /* In a child of fork: another thread may have been reading into it, so that it may be in any state. */
    if (!files || files->process != fpc_process()) return;
    for (chunk *one = files->chunks, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    fpc_lock_end(&files->lock);
    free(files);
}

size_t fpc_files_bytes(fpc_files *files) {
    if (!files) return 0;
    size_t bytes = 0;
    fpc_lock_take(&files->lock);
    for (const chunk *one = files->chunks; one; one = one->next) bytes += one->size;
    fpc_lock_leave(&files->lock);
    return bytes;
}

void fpc_files_clear(fpc_files *files) {
    if (!files) return;
    size_t kept = 0;
    fpc_lock_take(&files->lock);
    for (chunk **link = &files->chunks; *link;) {
        chunk *one = *link;
        if (one->size <= KEPT_BYTES - kept) {
            kept += one->size;
            one->used = 0;
            link = &one->next;
        } else {
            *link = one->next;
            free(one);
        }
    }
    fpc_lock_leave(&files->lock);
}

static chunk *new_chunk(size_t size) {
    if (size < CHUNK) size = CHUNK;
    chunk *made = malloc(sizeof *made + ALIGNMENT + size);
    if (!made) return NULL;
    uint8_t *behind = (uint8_t *)(made + 1);
    made->data = behind + (ALIGNMENT - (uintptr_t)behind % ALIGNMENT) % ALIGNMENT;
    made->size = size;
    made->used = 0;
    return made;
}

static uint8_t *take_of_files(void *owner, size_t size) {
    fpc_files *files = owner;
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    uint8_t *taken = NULL;
    fpc_lock_take(&files->lock);
    chunk *one = files->chunks;
    while (one && one->size - one->used < size) one = one->next;
    if (!one) {
        one = new_chunk(size);
        if (one) {
            one->next = files->chunks;
            files->chunks = one;
        }
    }
    if (one) {
        taken = one->data + one->used;
        one->used += size;
    }
    fpc_lock_leave(&files->lock);
    return taken;
}

void fpc_files_read_one(fpc_files *files, fpc_file *file) {
    file->os_error = 0;
    const bool head_is_enough = file->is_head;
    file->is_head = 0;
    memset(&file->header, 0, sizeof file->header);
    size_t total = 0;
    if (file->path) {
        const fpc_place place = {take_of_files, files};
        size_t size = 0;
        file->status = fpc_read_file_start(file->path, file->offset, file->length, file->max_bytes, place, &file->data,
                                           &size, head_is_enough ? &total : NULL, &file->os_error);
        if (!head_is_enough) total = size;
        file->size = (int64_t)size;
        file->is_head = size < total;
    } else if (!file->data || file->size < 0 || (uint64_t)file->size > SIZE_MAX) {
        file->status = FPC_BAD_OPERATION;
    } else {
        file->status = file->max_bytes > 0 && file->size > file->max_bytes ? FPC_TOO_LARGE : FPC_OK;
    }
    file->header_status = file->status;
    if (file->status != FPC_OK) return;
    const bool cut = (file->is_head ? (int64_t)total : file->size) < file->length;
    file->header_status = cut ? FPC_TRUNCATED : fpc_read_header(file->data, (size_t)file->size, &file->header);
}

void fpc_read_files(fpc_files *files, fpc_file *list, size_t count) {
    if (!files || !list) return;
    fpc_files_clear(files);
    for (size_t i = 0; i < count; i++) fpc_files_read_one(files, &list[i]);
}
