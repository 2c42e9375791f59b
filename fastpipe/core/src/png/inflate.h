/* inflate.h: zlib's streams (RFC 1950 and 1951) undone in pieces. */
#ifndef FPC_INFLATE_H
#define FPC_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes after the data that are read, whatever they are; bytes after the room for output that are written. */
#define FPC_INFLATE_IN_SLACK 16
#define FPC_INFLATE_OUT_SLACK 320
#define FPC_WINDOW 32768 /* how far back a match reaches */

/* Codes of up to these bits are one look-up; longer ones that begin alike share a further table. Of 288 literals and
 * lengths, and of 32 distances, of at most 15 bits the tables take at most 2342 and 402 entries (zlib's
 * examples/enough.c). */
#define FPC_LITERAL_BITS 11
#define FPC_DISTANCE_BITS 8
#define FPC_LITERAL_ENTRIES 2352
#define FPC_DISTANCE_ENTRIES 416

/* An entry: its lowest 8 bits are how many bits of the stream it takes.
 *   a literal, or two that follow each other: bit 31; bit 24 for two; the bytes from bit 8 on
 *   a length: bits 16 to 24 the smallest; bits 8 to 11 those that the code itself takes, of which the rest is added
 *   another table: bit 30; bits 12 to 27 where it starts; bits 8 to 11 the bits that it takes
 *   the end of the block: bits 29 and 30; no code: bits 28 and 30
 * A distance: bits 16 to 30 the smallest; bits 8 to 11 as above. Another table: bit 31; bits 16 to 30 where it starts.
 * No code: bits 31 and 15. */
#define FPC_DEFLATE_LITERAL (1u << 31)
#define FPC_DEFLATE_TWO (1u << 24)
#define FPC_DEFLATE_FURTHER (1u << 30)
#define FPC_DEFLATE_END (1u << 29)
#define FPC_DEFLATE_BAD (1u << 28)
#define FPC_DISTANCE_FURTHER (1u << 31)
#define FPC_DISTANCE_BAD (1u << 15)

typedef enum fpc_inflate_state {
    FPC_INFLATE_HEADER, /* of the next block */
    FPC_INFLATE_STORED,
    FPC_INFLATE_CODES,
    FPC_INFLATE_DONE
} fpc_inflate_state;

typedef struct fpc_inflate {
    const uint8_t *in, *end; /* `in` may be past the end, by those bytes in `bits` that came from there */
    uint64_t bits;           /* of the stream: `count` of them, the next one the lowest, and perhaps some that follow */
    uint32_t count;
    uint32_t stored; /* bytes that are left of a stored block */
    fpc_inflate_state state;
    bool last;         /* the block is the last one */
    bool fixed_tables; /* the tables are those of fixed codes */
    uint32_t literals[FPC_LITERAL_ENTRIES], distances[FPC_DISTANCE_ENTRIES];
} fpc_inflate;

struct fpc_kernels;

/* Begins; an fpc_status. */
int fpc_inflate_start(fpc_inflate *inflate, const uint8_t *data, size_t length);

/* Writes from *out on until `target` is reached, or the stream ends (its state is FPC_INFLATE_DONE then); an
 * fpc_status. What is written after `target` belongs to the stream up to *out, which is less than
 * FPC_INFLATE_OUT_SLACK past it. `first` is the oldest byte before *out that is still there: the first of all,
 * or at least FPC_WINDOW before. */
int fpc_inflate_run(fpc_inflate *inflate, const struct fpc_kernels *kernels, const uint8_t *first, uint8_t **out,
                    uint8_t *target);

/* Reads the checksum (Adler-32) after a finished stream, which must be the data's last four bytes. */
int fpc_inflate_finish(fpc_inflate *inflate, uint32_t *checksum);

#endif
