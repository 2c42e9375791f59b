/* files.c: reads files, on POSIX and on Windows. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#endif
#include "files.h"

#include <errno.h>
#include <stdbool.h>

#include "packed_head.h"

/* Some systems refuse to read more than 2 GiB at once. */
#define READ_AT_ONCE ((size_t)1 << 30)
/* The least number of bytes per read if a file is longer than its stated size: files in /proc state 0. */
#define GROWN ((size_t)1 << 16)
/* Bytes that are read to find out if a file is a packed image: enough for most heads. */
#define FIRST 4096

/* The calls of the two systems; each sets *os_error on failure. */

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef HANDLE file_handle;

static int32_t error_number(DWORD error) {
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_FILENAME_EXCED_RANGE:
    case ERROR_INVALID_NAME: return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION: return EACCES;
    case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY: return ENOMEM;
    default: return EIO;
    }
}

/* Makes the form of a path that may exceed MAX_PATH: absolute, with a prefix. NULL if there is no memory. */
static wchar_t *long_path(const wchar_t *path) {
    static const wchar_t drive[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    const DWORD room = GetFullPathNameW(path, 0, NULL, NULL); /* with its final zero */
    wchar_t *full = room ? malloc(room * sizeof *full) : NULL;
    wchar_t *made = room ? malloc((room + sizeof share / sizeof *share) * sizeof *made) : NULL;
    const DWORD letters = full && made ? GetFullPathNameW(path, room, full, NULL) : 0;
    if (letters == 0 || letters >= room) {
        free(full);
        free(made);
        return NULL;
    }
    const bool on_server = full[0] == L'\\' && full[1] == L'\\';
    const wchar_t *prefix = on_server ? share : drive, *rest = on_server ? full + 2 : full;
    const size_t before = wcslen(prefix);
    memcpy(made, prefix, before * sizeof *made);
    memcpy(made + before, rest, (wcslen(rest) + 1) * sizeof *made);
    free(full);
    return made;
}

/* The path in UTF-16, `letters` units with the final zero; NULL if there is no memory. */
static wchar_t *wide_path(const char *path, int letters) {
    wchar_t *wide = malloc((size_t)letters * sizeof *wide);
    if (!wide) return NULL;
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, letters);
    /* A relative path becomes longer. A path that already has the prefix "\\?\" or "\\.\" is kept. */
    const bool prefixed = wcsncmp(wide, L"\\\\?\\", 4) == 0 || wcsncmp(wide, L"\\\\.\\", 4) == 0;
    if (prefixed || GetFullPathNameW(wide, 0, NULL, NULL) <= MAX_PATH) return wide;
    wchar_t *longer = long_path(wide);
    free(wide);
    return longer;
}

/* Opens a regular file, and gets its length. */
static bool open_regular(const char *path, file_handle *file, int64_t *there, int32_t *os_error) {
    const int letters = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = letters > 0 ? wide_path(path, letters) : NULL;
    if (!wide) {
        *os_error = letters > 0 ? ENOMEM : ENOENT;
        return false;
    }
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    *file = CreateFileW(wide, GENERIC_READ, share, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    const DWORD error = GetLastError();
    free(wide);
    if (*file == INVALID_HANDLE_VALUE) {
        *os_error = error_number(error);
        return false;
    }
    LARGE_INTEGER length;
    if (GetFileType(*file) != FILE_TYPE_DISK) {
        *os_error = EINVAL;
    } else if (!GetFileSizeEx(*file, &length)) {
        *os_error = error_number(GetLastError());
    } else {
        *there = length.QuadPart;
        return true;
    }
    CloseHandle(*file);
    return false;
}

/* Reads up to `wanted` bytes; returns their number, 0 at the file's end, negative on failure. */
static int64_t read_at(file_handle file, uint8_t *to, size_t wanted, int64_t at, int32_t *os_error) {
    OVERLAPPED place = {0};
    place.Offset = (DWORD)(uint64_t)at;
    place.OffsetHigh = (DWORD)((uint64_t)at >> 32);
    DWORD got = 0;
    if (ReadFile(file, to, (DWORD)wanted, &got, &place)) return got;
    const DWORD error = GetLastError();
    if (error == ERROR_HANDLE_EOF) return 0;
    *os_error = error_number(error);
    return -1;
}

static void close_file(file_handle file) { CloseHandle(file); }

#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int file_handle;

/* Opens a regular file, and gets its length. Without O_NONBLOCK, which has no effect on regular files, opening a FIFO
 * without a writer would wait. */
static bool open_regular(const char *path, file_handle *file, int64_t *there, int32_t *os_error) {
    do {
        *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (*file < 0 && errno == EINTR);
    if (*file < 0) {
        *os_error = errno == ENXIO ? EINVAL : errno; /* ENXIO: the file is a socket */
        return false;
    }
    struct stat about = {0}; /* clang's memory sanitizer doesn't see what fstat writes */
    if (fstat(*file, &about) != 0) {
        *os_error = errno;
    } else if (S_ISREG(about.st_mode)) {
        *there = (int64_t)about.st_size;
        return true;
    } else {
        *os_error = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
    }
    close(*file);
    return false;
}

/* Reads up to `wanted` bytes; returns their number, 0 at the file's end, negative on failure. */
static int64_t read_at(file_handle file, uint8_t *to, size_t wanted, int64_t at, int32_t *os_error) {
    ssize_t got;
    do {
        got = pread(file, to, wanted, (off_t)at);
    } while (got < 0 && errno == EINTR);
    if (got < 0) *os_error = errno;
    return (int64_t)got;
}

static void close_file(file_handle file) { close(file); }

#endif

/* Reads up to `wanted` bytes into `to`; the file's size promises `expected`. *done is the number read. */
static int read_all(file_handle file, uint8_t *to, size_t wanted, size_t expected, int64_t offset, size_t *done,
                    int32_t *os_error) {
    *done = 0;
    while (*done < wanted) {
        const size_t left = wanted - *done;
        const size_t at_once = left < READ_AT_ONCE ? left : READ_AT_ONCE;
        const int64_t got = read_at(file, to + *done, at_once, offset + (int64_t)*done, os_error);
        if (got < 0) return FPC_IO_ERROR;
        if (got == 0) break; /* the file became shorter: the decoder reports it */
        *done += (size_t)got;
        if ((size_t)got < at_once && *done == expected) break;
    }
    return FPC_OK;
}

/* The length of a packed image's head, from the file's first bytes; 0 if there is none, or it is the whole file. */
static size_t head_of(const uint8_t *data, size_t size, size_t expected) {
    if (!fpc_is_packed(data, size) || size < FPC_PACKED_FIXED) return 0;
    const size_t head = fpc_packed_u32(data + FPC_PACKED_AT_SIZE);
    return head < expected ? head : 0;
}

/* Reads `length` bytes (0: all) from `offset` on of an open file that had `there` bytes, also if it has grown since. If
 * `total` isn't NULL, reads only the head of a packed image. */
static int read_open(file_handle file, int64_t there, int64_t offset, int64_t length, int64_t max_bytes,
                     fpc_place place, const uint8_t **data, size_t *size, size_t *total, int32_t *os_error) {
    int64_t bytes = there > offset ? there - offset : 0;
    if (length > 0 && length < bytes) bytes = length;
    const bool all = length == 0 && (offset == 0 || bytes > 0);
    for (;;) {
        if (max_bytes > 0 && bytes > max_bytes) return FPC_TOO_LARGE;
        if ((uint64_t)bytes > SIZE_MAX / 2 || bytes > INT64_MAX / 2 - 1) return FPC_TOO_LARGE;
        /* Asks for one byte more than expected: if it comes, the file has grown. */
        const size_t expected = (size_t)bytes, wanted = expected + 1;
        uint8_t *to = place.take(place.owner, wanted);
        if (!to) return FPC_NO_MEMORY;
        *data = to;
        size_t before = 0;
        if (total && expected > FIRST) {
            int status = read_all(file, to, FIRST, FIRST, offset, &before, os_error);
            const size_t head = status == FPC_OK ? head_of(to, before, expected) : 0;
            if (head > before) {
                status = read_all(file, to + before, head - before, head - before, offset + FIRST, size, os_error);
                before += *size;
            }
            *size = before;
            *total = expected;
            if (status != FPC_OK || head) return status;
        }
        const int status = read_all(file, to + before, (all ? wanted : expected) - before, expected - before,
                                    offset + (int64_t)before, size, os_error);
        *size += before;
        if (total) *total = *size;
        if (status != FPC_OK || !all || *size < wanted) return status;
        bytes = bytes < (int64_t)(GROWN / 2) ? (int64_t)GROWN : 2 * bytes;
        /* max_bytes limits what is really there, so the guess must not exceed it. */
        if (max_bytes > 0 && bytes > max_bytes && (int64_t)wanted <= max_bytes) bytes = max_bytes;
    }
}

int fpc_read_file_start(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                        const uint8_t **data, size_t *size, size_t *total, int32_t *os_error) {
    *data = NULL;
    *size = 0;
    if (offset < 0 || length < 0 || offset > INT64_MAX / 2 || length > INT64_MAX / 2) {
        *os_error = EINVAL;
        return FPC_IO_ERROR;
    }
    file_handle file;
    int64_t there = 0;
    if (!open_regular(path, &file, &there, os_error)) return FPC_IO_ERROR;
    const int status = read_open(file, there, offset, length, max_bytes, place, data, size, total, os_error);
    close_file(file);
    if (status != FPC_OK) {
        *data = NULL;
        *size = 0;
    }
    return status;
}

int fpc_read_file(const char *path, int64_t offset, int64_t length, int64_t max_bytes, fpc_place place,
                  const uint8_t **data, size_t *size, int32_t *os_error) {
    return fpc_read_file_start(path, offset, length, max_bytes, place, data, size, NULL, os_error);
}

static uint8_t *take_of_buffer(void *owner, size_t size) { return fpc_buffer_need(owner, size); }

fpc_place fpc_buffer_place(fpc_buffer *buffer) {
    const fpc_place place = {take_of_buffer, buffer};
    return place;
}

int fpc_open(const char *path, fpc_opened *file, int32_t *os_error) {
    file_handle handle;
    if (!open_regular(path, &handle, &file->there, os_error)) return FPC_IO_ERROR;
    file->handle = (intptr_t)handle;
    return FPC_OK;
}

int fpc_read_part(const fpc_opened *file, void *to, size_t size, int64_t offset, int32_t *os_error) {
    size_t done = 0;
    const int status = read_all((file_handle)file->handle, to, size, size, offset, &done, os_error);
    return status == FPC_OK && done < size ? FPC_TRUNCATED : status;
}

void fpc_close(const fpc_opened *file) { close_file((file_handle)file->handle); }
