/* files.h: reads files. */
#ifndef FPC_FILES_H
#define FPC_FILES_H

#include "fastpipe_core.h"
#include "memory.h"

/* Memory for a file's bytes: `take` gives room for `size` bytes, or NULL. If the file grows, it is called again for
 * more, and the memory that it gave before is no longer needed. */
typedef struct fpc_place {
    uint8_t *(*take)(void *owner, size_t size);
    void *owner;
} fpc_place;

/* An fpc_place that takes its memory from the buffer. */
fpc_place fpc_buffer_place(fpc_buffer *buffer);

/* Reads `length` bytes (0: all) of a file from `offset` on; *size is the number read. Returns an fpc_status; with
 * FPC_IO_ERROR, *os_error is errno. FPC_TOO_LARGE if there are more than `max_bytes` (0: no limit), before reading any.
 * Never waits for a file that isn't regular: EISDIR for a folder, EINVAL for others. */
int fpc_read_file(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                  const uint8_t **data, size_t *size, int32_t *os_error);

/* As fpc_read_file, but reads only the head of a packed image: *size of the file's *total bytes. Other files are read
 * whole, with *size equal to *total. If `total` is NULL, it is fpc_read_file. */
int fpc_read_file_start(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                        const uint8_t **data, size_t *size, size_t *total, int32_t *os_error);

/* An open file. */
typedef struct fpc_opened {
    intptr_t handle;
    int64_t there; /* its length */
} fpc_opened;

/* Opens a regular file as fpc_read_file does; returns FPC_OK or FPC_IO_ERROR. */
int fpc_open(const char *path, fpc_opened *file, int32_t *os_error);
/* Reads `size` bytes from `offset` on: FPC_OK, FPC_IO_ERROR, or FPC_TRUNCATED if there are fewer. */
int fpc_read_part(const fpc_opened *file, void *to, size_t size, int64_t offset, int32_t *os_error);
void fpc_close(const fpc_opened *file);

/* Reads one array of a list. */
void fpc_read_array(fpc_context *context, fpc_array *array);

/* Reads one file of a list and its header. Several threads may call it at once for different files. */
void fpc_files_read_one(fpc_files *files, fpc_file *file);

#endif
