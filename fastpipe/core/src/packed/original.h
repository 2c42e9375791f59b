/* original.h: a packed image's section of all that the JPEG had beside coefficients and segments of applications and
 * comments, so that its own bytes can be made again. core/packed_format.md has the format. */
#ifndef FPC_ORIGINAL_H
#define FPC_ORIGINAL_H

#include <stdbool.h>

#include "bytes.h"
#include "packed.h"

/* The section as it was read, or is to be written. */
typedef struct fpc_original {
    const uint8_t *about; /* of the file: for others to read */
    size_t about_size;
    uint64_t length;     /* of the JPEG */
    size_t outline_size; /* of the outline; the tokens make it */
    const uint8_t *tokens;
    size_t tokens_size;
    uint32_t padding;    /* the bits that fill up a last byte: all 0 or all 1 */
    const uint8_t *ends; /* the ends of scans and restart intervals that are others */
    size_t ends_size;
    const uint8_t *dummies; /* blocks that fill up MCUs, where they are others than libjpeg's */
    size_t dummies_size;
} fpc_original;

/* Numbers of any size, seven bits a byte, the lowest first (LEB128). */
typedef struct fpc_numbers {
    const uint8_t *next, *end;
    bool failed; /* there was none, or it has more than 64 bits; then all that follow are 0 */
} fpc_numbers;

/* The numbers in `size` bytes; `data` may be NULL where there are none. */
static inline fpc_numbers fpc_numbers_in(const uint8_t *data, size_t size) {
    return (fpc_numbers){data, size ? data + size : data, false};
}
uint64_t fpc_number(fpc_numbers *numbers);
/* The next number, as one whose lowest bit is its sign. */
int64_t fpc_signed_number(fpc_numbers *numbers);
/* The next `size` bytes; NULL, and `failed` set, where there are fewer. */
const uint8_t *fpc_number_bytes(fpc_numbers *numbers, uint64_t size);
void fpc_put_number(fpc_bytes *to, uint64_t number);
void fpc_put_signed_number(fpc_bytes *to, int64_t number);

/* Reads the section: FPC_OK, or FPC_BAD_CODE where it is none. Pointers in *original lead into the data. */
int fpc_original_read(const uint8_t *data, size_t size, fpc_original *original);
void fpc_original_write(fpc_bytes *to, const fpc_original *original);

/* The longest outline. */
#define FPC_MOST_OUTLINE (1 << 16)

/* The tokens of the outline of the file that is packed under this head; FPC_OK, FPC_TOO_LARGE or FPC_NO_MEMORY. */
int fpc_outline_pack(const uint8_t *head, const fpc_packed_head *fields, const fpc_bytes *outline, fpc_bytes *tokens);
/* Puts the outline into `to`, which is empty; *start is where it begins in there. */
int fpc_outline_unpack(const uint8_t *head, const fpc_packed_head *fields, const fpc_original *original, fpc_bytes *to,
                       size_t *start);

#endif
