/* huffman.h: Huffman codes as files define them, and the look-up tables that decode them. */
#ifndef FPC_HUFFMAN_H
#define FPC_HUFFMAN_H

#include <stddef.h>
#include <stdint.h>

/* The bits that index the tables of AC coefficients, of skipped AC symbols, and of DC differences. */
#define FPC_AC_BITS 11
#define FPC_SKIP_BITS 11
#define FPC_DC_BITS 9

/* The longest code, and the most bits of one symbol: its code and the 15 bits of a value. */
#define FPC_LONGEST_CODE 16

/* The largest size of an AC value in the tables: larger ones, which no sound file has, take a slow path; entries stay
 * small. */
#define FPC_LARGEST_FAST_SIZE 10

/* The largest size of a value that an entry holds. */
#define FPC_LARGEST_KEPT_SIZE 7

/* Advances: FPC_END_OF_BLOCK moves the position beyond 63; FPC_NO_SYMBOL says that the entry holds no symbol. */
#define FPC_END_OF_BLOCK 64
#define FPC_NO_SYMBOL 127

/* A code as a DHT segment defines it: how many codes have each length, and the symbols in their codes' order. */
typedef struct fpc_huffman_spec {
    uint8_t counts[FPC_LONGEST_CODE + 1]; /* index 1 to 16: the length */
    uint8_t symbols[256];
    uint32_t end[FPC_LONGEST_CODE + 1];  /* by length: the code after its last one, left-aligned in 16 bits */
    int32_t first[FPC_LONGEST_CODE + 1]; /* by length: the index of its first symbol minus its first code */
} fpc_huffman_spec;

/* What 11 bits contain: one AC symbol, or two if the first fits with its value and the second with its code. The entry
 * is small so that two tables stay in the first-level cache. */
typedef struct fpc_ac_entry {
    uint8_t size;          /* bits of the last symbol's value */
    uint8_t first_advance; /* from the position to the first symbol's coefficient, plus one */
    uint8_t advance;       /* the same for the last symbol; an end of block adds FPC_END_OF_BLOCK */
    int8_t value; /* the first symbol's value, 0 if there is only one symbol. With FPC_NO_SYMBOL in progressive tables:
                   * length of the code << 4 | exponent for a run of ended blocks, 0 for a code that is longer or
                   * invalid */
} fpc_ac_entry;

typedef struct fpc_ac_table {
    uint8_t lengths[1 << FPC_AC_BITS]; /* bits of all codes and values; 0 if there is no symbol */
    fpc_ac_entry entries[1 << FPC_AC_BITS];
} fpc_ac_table;

/* Lengths and advances of up to three AC symbols. Advances from 128 on include an end of block; 255: no symbol. */
typedef struct fpc_skip_table {
    uint8_t lengths[1 << FPC_SKIP_BITS];
    uint8_t advances[1 << FPC_SKIP_BITS];
} fpc_skip_table;

typedef struct fpc_dc_entry {
    uint8_t shift; /* 64 - length */
    uint8_t size;
} fpc_dc_entry;

typedef struct fpc_dc_table {
    uint8_t lengths[1 << FPC_DC_BITS]; /* bits of code and value; 0 if the code is longer or invalid */
    fpc_dc_entry entries[1 << FPC_DC_BITS];
} fpc_dc_table;

/* Reads one code at `data` (16 counts, then the symbols). Returns its number of bytes, or 0 if libjpeg refuses it
 * (jdhuff.c, jpeg_make_d_derived_tbl). */
size_t fpc_huffman_spec_read(fpc_huffman_spec *spec, const uint8_t *data, size_t length);

/* Returns 1 if two codes are the same. */
int fpc_huffman_spec_equal(const fpc_huffman_spec *one, const fpc_huffman_spec *other);

/* Returns 1 if all of a code's symbols are sizes of DC differences. */
int fpc_huffman_spec_is_dc(const fpc_huffman_spec *spec);

/* Finds the symbol with which the 16 bits `next` begin: its length << 8 | symbol, or 0 if there is none. */
int fpc_huffman_spec_find(const fpc_huffman_spec *spec, uint32_t next);

/* ---- tables are made in two steps: a word per index, then the tables from the words ---- */

_Static_assert(FPC_AC_BITS == FPC_SKIP_BITS, "both are made of the same words");
_Static_assert(sizeof(fpc_ac_entry) == 4, "huffman_simd.h writes entries as words");

#define FPC_TABLE_ENTRIES (1u << FPC_AC_BITS)

/* A word per index. */
typedef struct fpc_symbol_words {
    uint32_t words[FPC_TABLE_ENTRIES];
} fpc_symbol_words;

/* The highest position in an fpc_skip_table's entry to which a third symbol is added: the sum must stay below 128. */
#define FPC_LAST_CHAINED 47

void fpc_build_dc(fpc_dc_table *table, const fpc_huffman_spec *spec);
/* Makes the words from which the kernels build_ac and build_skip make tables. */
void fpc_build_words(fpc_symbol_words *scratch, const fpc_huffman_spec *spec, int progressive);
/* Adds the codes for runs of ended blocks to a progressive scan's table. */
void fpc_add_runs(fpc_ac_table *table, const fpc_huffman_spec *spec);
/* Makes a table of symbols only: length of the code << 8 | symbol, 0 if the code is longer or invalid. */
void fpc_build_symbols(fpc_symbol_words *table, const fpc_huffman_spec *spec);

#endif
