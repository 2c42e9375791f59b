/* original.h: a packed image's section for everything in the JPEG but coefficients and application and comment
 * segments. With it, the JPEG's own bytes can be rebuilt. core/packed_format.md describes the format. */
#ifndef FPC_ORIGINAL_H
#define FPC_ORIGINAL_H

#include <stdbool.h>

#include "bytes.h"
#include "packed_head.h"

/* The section as it is read or written. */
typedef struct fpc_original {
    const uint8_t *about; /* bytes about the file that the caller of fpc_pack has given */
    size_t about_size;
    uint64_t length;     /* of the JPEG, in bytes */
    size_t outline_size; /* of the outline, which the tokens expand to */
    const uint8_t *tokens;
    size_t tokens_size;
    uint32_t padding;    /* the bits that complete a last byte: all 0 or all 1 */
    const uint8_t *ends; /* the ends of scans and restart intervals that differ from this */
    size_t ends_size;
    const uint8_t *dummies; /* blocks that fill up MCUs, if they differ from libjpeg's */
    size_t dummies_size;
} fpc_original;

/* Reads numbers of any size, seven bits per byte, the lowest first (LEB128). */
typedef struct fpc_numbers {
    const uint8_t *next, *end;
    bool failed; /* set if there is no number, or one of more than 64 bits; then all later numbers are 0 */
} fpc_numbers;

/* The numbers in `size` bytes; `data` may be NULL if there are none. */
static inline fpc_numbers fpc_numbers_in(const uint8_t *data, size_t size) {
    return (fpc_numbers){data, size ? data + size : data, false};
}
uint64_t fpc_number(fpc_numbers *numbers);
/* Reads the next number; its lowest bit is the sign. */
int64_t fpc_signed_number(fpc_numbers *numbers);
/* The next `size` bytes; NULL if there are fewer, which sets `failed`. */
const uint8_t *fpc_number_bytes(fpc_numbers *numbers, uint64_t size);
void fpc_put_number(fpc_bytes *to, uint64_t number);
void fpc_put_signed_number(fpc_bytes *to, int64_t number);

/* Reads the section: FPC_OK, or FPC_BAD_CODE if it is invalid. Pointers in *original point into the data. */
int fpc_original_read(const uint8_t *data, size_t size, fpc_original *original);
void fpc_original_write(fpc_bytes *to, const fpc_original *original);

/* The longest outline in bytes. */
#define FPC_MOST_OUTLINE (1 << 16)

/* Makes the tokens of an outline; `head` is that of the packed file. FPC_OK, FPC_TOO_LARGE or FPC_NO_MEMORY. */
int fpc_outline_pack(const uint8_t *head, const fpc_packed_head *fields, const fpc_bytes *outline, fpc_bytes *tokens);
/* Expands the outline into `to`, which is empty; *start is the outline's position in it. */
int fpc_outline_unpack(const uint8_t *head, const fpc_packed_head *fields, const fpc_original *original, fpc_bytes *to,
                       size_t *start);

#endif
