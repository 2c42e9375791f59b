/* files.h: a file's bytes. */
#ifndef FPC_FILES_H
#define FPC_FILES_H

#include "fastpipe_core.h"
#include "memory.h"

/* A source of memory for a file's bytes: `take` gives room for `size` bytes, or NULL. It is asked again, for more, if a
 * file grows; what it gave before isn't needed then. */
typedef struct fpc_place {
    uint8_t *(*take)(void *owner, size_t size);
    void *owner;
} fpc_place;

/* An fpc_place whose memory is the buffer's. */
fpc_place fpc_buffer_place(fpc_buffer *buffer);

/* `length` bytes (0: all) of the file from `offset` on; *size is how many there were. An fpc_status; with FPC_IO_ERROR
 * *os_error is errno's value. `max_bytes`: FPC_TOO_LARGE for more than these, before any is read; 0 for no limit. Never
 * waits for what isn't a regular file: EISDIR for a folder, EINVAL for anything else. */
int fpc_read_file(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                  const uint8_t **data, size_t *size, int32_t *os_error);

/* As fpc_read_file, but reads only the head of a packed image: *size bytes of *total, which are the same for other
 * files. Without `total` it is fpc_read_file. */
int fpc_read_file_start(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                        const uint8_t **data, size_t *size, size_t *total, int32_t *os_error);

/* An open file. */
typedef struct fpc_opened {
    intptr_t handle;
    int64_t there; /* its bytes */
} fpc_opened;

/* Opens a regular file, as fpc_read_file does; FPC_OK or FPC_IO_ERROR. */
int fpc_open(const char *path, fpc_opened *file, int32_t *os_error);
/* `size` bytes from `offset` on: FPC_OK, FPC_IO_ERROR, or FPC_TRUNCATED where there are fewer. */
int fpc_read_part(const fpc_opened *file, void *to, size_t size, int64_t offset, int32_t *os_error);
void fpc_close(const fpc_opened *file);

/* Reads one array. */
void fpc_read_array(fpc_context *context, fpc_array *array);

/* Reads one file of a list and its header. Several threads may call it at once, each for other files. */
void fpc_files_read_one(fpc_files *files, fpc_file *file);

#endif
