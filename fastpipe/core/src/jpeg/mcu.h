/* mcu.h: arguments of the loops that decode a scan: the blocks of an MCU, or the band of a progressive scan. */
#ifndef FPC_MCU_H
#define FPC_MCU_H

#include "bitstream.h"
#include "huffman.h"

#define FPC_MAX_COMPONENTS 3
#define FPC_MAX_MCU_BLOCKS 10 /* jpeglib.h, D_MAX_BLOCKS_IN_MCU */

/* The reader's next bits, as indices of the tables, and as the 16 bits of the slow path. */
#define FPC_AC_INDEX(bits) ((bits) >> (64 - FPC_AC_BITS))
#define FPC_SKIP_INDEX(bits) ((bits) >> (64 - FPC_SKIP_BITS))
#define FPC_DC_INDEX(bits) ((bits) >> (64 - FPC_DC_BITS))
#define FPC_NEXT_16(bits) ((uint32_t)((bits) >> 48))

/* Zigzag index + 1 to natural order (T.81, figure 5). Index 0 and those after the last coefficient give FPC_DUMP, the
 * place after the block, whose content is no longer needed. Broken data can reach index 190. */
#define FPC_DUMP 64
#define D FPC_DUMP
#define D16 D, D, D, D, D, D, D, D, D, D, D, D, D, D, D, D
static const uint8_t fpc_natural_order[256] = {
    D,  0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32,  25,  18,  11,  4,   5,   12,  19,  26,  33,  40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42,  49,  56,  57,  50,  43,  36,  29,  22,  15,  23, 30,
    37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53,  60,  61,  54,  47,  55,  62,  63,  D,   D,   D,  D,
    D,  D,  D,  D,  D,  D,  D,  D,  D,  D,  D,  D16, D16, D16, D16, D16, D16, D16, D16, D16, D16, D16};

#undef D
#undef D16

/* One block of the MCU: its tables and its destination. */
typedef struct fpc_block {
    const fpc_dc_table *dc;
    const fpc_ac_table *ac;
    const fpc_skip_table *skip;
    const fpc_huffman_spec *dc_spec, *ac_spec;
    int16_t *output; /* advances with each MCU */
    uint8_t *last;
    ptrdiff_t step;       /* blocks from one MCU to the next */
    uint32_t *prediction; /* of its component */
} fpc_block;

typedef struct fpc_mcu {
    int count;
    fpc_block blocks[FPC_MAX_MCU_BLOCKS];
    uint32_t predictions[FPC_MAX_COMPONENTS]; /* of the DC; they wrap around, as libjpeg's do in practice */
} fpc_mcu;

/* The band of AC coefficients that a progressive scan gives. Positions are shifted so that its last coefficient is the
 * 63rd. */
typedef struct fpc_band {
    const fpc_ac_table *table;       /* for first scans */
    const fpc_symbol_words *symbols; /* for refinement scans */
    const fpc_huffman_spec *spec;
    uint32_t first, shift; /* the first position, and the shift of positions */
    uint32_t low;
    uint32_t ended;     /* blocks left of a run of ended blocks */
    uint8_t order[256]; /* shifted position + 1 to natural order */
    int16_t *block;
    uint64_t *nonzero; /* bit mask by zigzag index */
} fpc_band;

/* Fills a block with zeros: some compilers' default settings make a slow string instruction of memset of 128 bytes. */
static FPC_INLINE void fpc_clear_block(int16_t *block) {
#if defined(__GNUC__) || defined(__clang__)
    typedef int16_t piece __attribute__((vector_size(32), aligned(2), may_alias));
    piece *pieces = (piece *)(void *)block;
    pieces[0] = pieces[1] = pieces[2] = pieces[3] = (piece){0};
#else
    memset(block, 0, 64 * sizeof *block);
#endif
}

#endif
