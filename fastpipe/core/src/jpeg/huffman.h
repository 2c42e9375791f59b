/* huffman.h: Huffman codes as files define them, and the look-up tables that decode them. */
#ifndef FPC_HUFFMAN_H
#define FPC_HUFFMAN_H

#include <stddef.h>
#include <stdint.h>

/* Bits that index the tables: AC coefficients, lengths alone, DC differences. */
#define FPC_AC_BITS 11
#define FPC_SKIP_BITS 11
#define FPC_DC_BITS 9

/* Longest code, and most bits that one symbol can take: its code and the bits of a value of 15. */
#define FPC_LONGEST_CODE 16

/* The largest size of an AC value that tables decode; larger ones, which no sound file has, are decoded the slow way:
 * so entries stay small. */
#define FPC_LARGEST_FAST_SIZE 10

/* The most bits of a value that an entry holds. */
#define FPC_LARGEST_KEPT_SIZE 7

/* Advances: an end of block takes the position beyond 63; this one says that the entry holds no symbol. */
#define FPC_END_OF_BLOCK 64
#define FPC_NO_SYMBOL 127

/* A code as a DHT segment gives it: how many codes have each length, and the symbols in the order of their codes. */
typedef struct fpc_huffman_spec {
    uint8_t counts[FPC_LONGEST_CODE + 1]; /* from 1 on */
    uint8_t symbols[256];
    uint32_t end[FPC_LONGEST_CODE + 1];  /* by length: the first code after those of it, in 16 bits from the left */
    int32_t first[FPC_LONGEST_CODE + 1]; /* by length: index of its first symbol, less its first code */
} fpc_huffman_spec;

/* The contents of 11 bits: one AC symbol, or two where the first fits with its value and the second with its code. As
 * small as may be: two tables are to stay in the first cache. */
typedef struct fpc_ac_entry {
    uint8_t size;          /* bits of the last symbol's value */
    uint8_t first_advance; /* positions to the first symbol's coefficient, plus one */
    uint8_t advance;       /* the same for the last symbol; FPC_END_OF_BLOCK is added for an end of block */
    int8_t value; /* the first symbol's, 0 where there is only one; with FPC_NO_SYMBOL in progressive tables: length of
                     the code << 4 | exponent for a run of ended blocks, 0 for a code that is longer or invalid */
} fpc_ac_entry;

typedef struct fpc_ac_table {
    uint8_t lengths[1 << FPC_AC_BITS]; /* bits of all: codes and values; 0 where there is no symbol */
    fpc_ac_entry entries[1 << FPC_AC_BITS];
} fpc_ac_table;

/* Lengths and advances of up to three AC symbols. Advances from 128 on: with an end of block; 255: no symbol. */
typedef struct fpc_skip_table {
    uint8_t lengths[1 << FPC_SKIP_BITS];
    uint8_t advances[1 << FPC_SKIP_BITS];
} fpc_skip_table;

typedef struct fpc_dc_entry {
    uint8_t shift; /* 64 - length */
    uint8_t size;
} fpc_dc_entry;

typedef struct fpc_dc_table {
    uint8_t lengths[1 << FPC_DC_BITS]; /* bits of code and value; 0 where the code is longer or invalid */
    fpc_dc_entry entries[1 << FPC_DC_BITS];
} fpc_dc_table;

/* Reads one code at `data` (16 counts, then the symbols): the bytes that it takes, or 0 where it is none that libjpeg
 * takes (jdhuff.c, jpeg_make_d_derived_tbl). */
size_t fpc_huffman_spec_read(fpc_huffman_spec *spec, const uint8_t *data, size_t length);

/* Whether two codes are the same. */
int fpc_huffman_spec_equal(const fpc_huffman_spec *one, const fpc_huffman_spec *other);

/* Whether a code's symbols are sizes of DC differences. */
int fpc_huffman_spec_is_dc(const fpc_huffman_spec *spec);

/* The symbol that the 16 bits `next` begin with: its length << 8 | symbol, or 0 for none. */
int fpc_huffman_spec_find(const fpc_huffman_spec *spec, uint32_t next);

/* ---- tables, in two steps: a word for each index, and of these the tables ---- */

_Static_assert(FPC_AC_BITS == FPC_SKIP_BITS, "both are made of the same words");
_Static_assert(sizeof(fpc_ac_entry) == 4, "huffman_simd.h writes entries as words");

#define FPC_TABLE_ENTRIES (1u << FPC_AC_BITS)

/* One word for each index. */
typedef struct fpc_symbol_words {
    uint32_t words[FPC_TABLE_ENTRIES];
} fpc_symbol_words;

/* Positions of an fpc_skip_table's entry beyond which no third symbol is taken along: the sum has to stay below 128. */
#define FPC_LAST_CHAINED 47

void fpc_build_dc(fpc_dc_table *table, const fpc_huffman_spec *spec);
/* The words that the kernels build_ac and build_skip make tables of. */
void fpc_build_words(fpc_symbol_words *scratch, const fpc_huffman_spec *spec, int progressive);
/* Adds the codes that begin a run of ended blocks to a progressive scan's table. */
void fpc_add_runs(fpc_ac_table *table, const fpc_huffman_spec *spec);
/* The symbols alone: length of the code << 8 | symbol, 0 where the code is longer or invalid. */
void fpc_build_symbols(fpc_symbol_words *table, const fpc_huffman_spec *spec);

#endif
