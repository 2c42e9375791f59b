/* packed_row.h: the streams of a packed image's row, and the arguments of the loops over them.
 *
 * core/packed_format.md describes the format. A row is read in two steps, neither of which has a branch that depends on
 * the image. The first decodes all nonzero coefficients, one after the other, from the streams. The second moves them
 * to their places: each block takes as many as its mask has bits. */
#ifndef FPC_PACKED_ROW_H
#define FPC_PACKED_ROW_H

#include <stddef.h>
#include <stdint.h>

/* A coefficient or a DC difference whose value is the next 16-bit number. */
#define FPC_PACKED_ESCAPE (-128)
/* The absolute values of coefficients in the stream of small ones: three bits, starting with FPC_PACKED_SMALLEST. */
#define FPC_PACKED_SMALLEST 2
#define FPC_PACKED_LARGEST 9
/* The bytes after a row that loops read, and elements after results that they write; their content doesn't matter. */
#define FPC_PACKED_SLACK 64

/* A row's streams, in order. */
typedef struct fpc_packed_row {
    size_t blocks;
    size_t mask_bytes, coefficients, smalls, larges; /* coefficients: nonzero ACs */
    size_t wide, wide_dc;                            /* 16-bit numbers */
    const uint8_t *lengths;                          /* 4 bits per block: the bytes of its mask */
    const uint8_t *dc;                               /* a byte per block */
    const uint8_t *masks;                            /* bit k - 1 for the coefficient of zigzag index k */
    const uint8_t *kinds, *signs;                    /* a bit per coefficient: see packed_plain.h */
    const uint8_t *small;                            /* 4 bits each */
    const uint8_t *large;                            /* a byte each */
    const uint8_t *wide_values, *wide_dc_values;     /* two bytes each */
} fpc_packed_row;

/* What is written for a coefficient of eight bits. */
typedef struct fpc_packed_value {
    uint8_t kind, sign, large, nibble;
} fpc_packed_value;

/* Where the next coefficients of a row are written; small ones take a byte each here. */
typedef struct fpc_packed_writer {
    fpc_packed_value values[256]; /* by the coefficient's lowest byte */
    uint8_t *smalls, *large, *wide;
    uint64_t kinds, signs; /* of the last block, from the lowest bit on */
    int count;             /* of its coefficients */
} fpc_packed_writer;

/* Tables indexed by a byte. */
typedef struct fpc_packed_tables {
    uint64_t spread[2][256];  /* byte k: the number of bits set below bit k, or more than 127 if bit k isn't set; 8 more
                               * in the second table */
    int8_t smalls[256][2];    /* the two small coefficients in a byte */
    uint8_t counts[256];      /* of set bits */
    uint8_t orders[2][4][32]; /* for each half of a block in natural order and each quarter in zigzag order: a
                               * coefficient's place in the quarter, or more than 127 */
} fpc_packed_tables;

/* A position between two blocks of a row. */
typedef struct fpc_packed_cursor {
    const fpc_packed_tables *tables;
    const uint8_t *lengths;
    size_t block; /* the next block */
    const uint8_t *masks;
    const int8_t *values, *end;
    const int8_t *wide;         /* the next value that is an escape; `end` if there is none */
    const uint8_t *wide_values; /* the values of escapes */
    uint64_t seen;              /* all bits of the masks so far; the highest one must not be set */
} fpc_packed_cursor;

#endif
