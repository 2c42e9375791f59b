/* inflate.h: inflates zlib's streams (RFC 1950 and 1951) in pieces. */
#ifndef FPC_INFLATE_H
#define FPC_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes after the data that are read, with any content, and those after the output's room that are written. */
#define FPC_INFLATE_IN_SLACK 16
#define FPC_INFLATE_OUT_SLACK 320
#define FPC_WINDOW 32768 /* how far back a match reaches */

/* Codes of up to this many bits take one look-up; longer codes with the same beginning share another table. With 288
 * literals and lengths, 32 distances and at most 15 bits, the tables have at most 2342 and 402 entries (zlib's
 * examples/enough.c). */
#define FPC_LITERAL_BITS 11
#define FPC_DISTANCE_BITS 8
#define FPC_LITERAL_ENTRIES 2352
#define FPC_DISTANCE_ENTRIES 416

/* The lowest 8 bits of an entry are the number of bits that it takes of the stream. An entry for literals is one of:
 *   a literal, or two in a row: bit 31; bit 24 for two; the bytes from bit 8 on
 *   a length: bits 16 to 24 are the smallest length, to which the extra bits are added; bits 8 to 11: bits of the code
 *   another table: bit 30; bits 12 to 27: its start; bits 8 to 11: the number of bits that index it
 *   the end of the block: bits 29 and 30; no code: bits 28 and 30
 * An entry for distances is a distance: bits 16 to 30 are the smallest one; bits 8 to 11 as for a length; or another
 * table: bit 31; bits 16 to 30: its start; or no code: bits 31 and 15. */
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
    const uint8_t *in, *end; /* `in` may be past the end, by the bytes of `bits` that were loaded from there */
    uint64_t bits;           /* the next bits of the stream, lowest first: `count` bits, and perhaps some after them */
    uint32_t count;
    uint32_t stored; /* bytes left of a stored block */
    fpc_inflate_state state;
    bool last;         /* this block is the last one */
    bool fixed_tables; /* the tables are those of the fixed codes */
    uint32_t literals[FPC_LITERAL_ENTRIES], distances[FPC_DISTANCE_ENTRIES];
} fpc_inflate;

struct fpc_kernels;

/* Begins a stream; returns an fpc_status. */
int fpc_inflate_start(fpc_inflate *inflate, const uint8_t *data, size_t length);

/* Writes from *out on until it reaches `target`, or the stream ends (the state is then FPC_INFLATE_DONE); returns an
 * fpc_status. *out is set to the end of the output, which is less than FPC_INFLATE_OUT_SLACK past `target`. `first` is
 * the oldest byte before *out that is still there: the first of all, or at least FPC_WINDOW back. */
int fpc_inflate_run(fpc_inflate *inflate, const struct fpc_kernels *kernels, const uint8_t *first, uint8_t **out,
                    uint8_t *target);

/* Reads the checksum (Adler-32) after a finished stream, which must be the last four bytes of the data. */
int fpc_inflate_finish(fpc_inflate *inflate, uint32_t *checksum);

#endif
