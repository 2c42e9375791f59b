/* packed_row.h: the streams of a packed image's row, and what the loops over them hand to each other.
 *
 * core/packed_format.md has the format. A row is taken in two steps, neither of which has a branch that depends on the
 * image: all its coefficients that aren't zero, one after the other, out of the streams that say what they are; then,
 * for each block, as many of these as its mask has bits, to their places. */
#ifndef FPC_PACKED_ROW_H
#define FPC_PACKED_ROW_H

#include <stddef.h>
#include <stdint.h>

/* A coefficient, or a difference of DCs, of which the next number of 16 bits says what it is. */
#define FPC_PACKED_ESCAPE (-128)
/* Absolute values of coefficients in the stream of small ones: of three bits, from this one on. */
#define FPC_PACKED_SMALLEST 2
#define FPC_PACKED_LARGEST 9
/* Bytes after a row that loops read, whatever they are; and elements after their results that they write. */
#define FPC_PACKED_SLACK 64

/* A row's streams, in their order. */
typedef struct fpc_packed_row {
    size_t blocks;
    size_t mask_bytes, coefficients, smalls, larges; /* coefficients: AC, and not zero */
    size_t wide, wide_dc;                            /* numbers of 16 bits */
    const uint8_t *lengths;                          /* 4 bits a block: bytes of its mask */
    const uint8_t *dc;                               /* a byte a block */
    const uint8_t *masks;                            /* bit k - 1 for the coefficient of zigzag index k */
    const uint8_t *kinds, *signs;                    /* a bit a coefficient: see packed_plain.h */
    const uint8_t *small;                            /* 4 bits each */
    const uint8_t *large;                            /* a byte each */
    const uint8_t *wide_values, *wide_dc_values;     /* two bytes each */
} fpc_packed_row;

/* The bits and the value that are written of a coefficient of eight bits. */
typedef struct fpc_packed_value {
    uint8_t kind, sign, large, nibble;
} fpc_packed_value;

/* Where the next coefficients of a row are written; small ones take a byte each. */
typedef struct fpc_packed_writer {
    fpc_packed_value values[256]; /* by the coefficient's lowest byte */
    uint8_t *smalls, *large, *wide;
    uint64_t kinds, signs; /* of the block that was written last, from the lowest bit on */
    int count;             /* its coefficients */
} fpc_packed_writer;

/* Tables by a byte's bits. */
typedef struct fpc_packed_tables {
    uint64_t spread[2][256];  /* byte k: how many bits are set below bit k, or more than 127 where that isn't; in the
                              * second table 8 more */
    int8_t smalls[256][2];    /* the two small coefficients in a byte */
    uint8_t counts[256];      /* of bits that are set */
    uint8_t orders[2][4][32]; /* for each half of a block in natural order, and each quarter of it in zigzag order: the
                               * place of a coefficient in that quarter, or more than 127 */
} fpc_packed_tables;

/* A place in a row between two blocks. */
typedef struct fpc_packed_cursor {
    const fpc_packed_tables *tables;
    const uint8_t *lengths;
    size_t block; /* the next one */
    const uint8_t *masks;
    const int8_t *values, *end;
    const int8_t *wide;         /* the next value that is an escape; `end` where there is none */
    const uint8_t *wide_values; /* what it stands for */
    uint64_t seen;              /* all bits of the masks so far: the highest one must not be among them */
} fpc_packed_cursor;

#endif
