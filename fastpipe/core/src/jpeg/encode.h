/* encode.h: the entropy coder of scans: the bits of blocks of coefficients, by codes that are given (T.81, F.1.2 and
 * G.1.2; jchuff.c, jcphuff.c). Where a file leaves a choice, it is libjpeg's. */
#ifndef FPC_ENCODE_H
#define FPC_ENCODE_H

#include <stdbool.h>

#include "bytes.h"
#include "huffman.h"
#include "kernels.h"

/* FPC_ENCODER_ROOM: the most bytes of an MCU of 10 blocks, or of a block with the bits that were put off before it.
 * FPC_ENCODER_CHUNK: bytes that are collected before they are stuffed. */
#define FPC_ENCODER_ROOM 4096
#define FPC_ENCODER_CHUNK 16384
/* Bits of refinement that are put off until a run of ended blocks ends. (jcphuff.c, MAX_CORR_BITS) */
#define FPC_MOST_CORRECTIONS 1000

/* How often a scan uses each symbol. */
typedef struct fpc_symbol_counts {
    uint32_t dc[256], ac[256];
    bool fits; /* no value needs more bits than a code can say */
} fpc_symbol_counts;

/* Starts as {.out = …, .kernels = …}: fpc_encoder_start sets the rest. */
typedef struct fpc_encoder {
    fpc_bytes *out;
    const fpc_kernels *kernels;
    fpc_bit_writer writer;
    uint32_t missing;      /* has FPC_NO_CODE set if a symbol had no code, or a value more bits than symbols say */
    const fpc_codes *band; /* of a progressive scan's AC coefficients, and what it brings */
    int first, last, low;
    uint32_t ended; /* blocks in the run of ended ones that isn't written yet */
    uint32_t correction_count;
    uint8_t corrections[FPC_MOST_CORRECTIONS + 64];
    uint8_t bytes[FPC_ENCODER_CHUNK + FPC_ENCODER_ROOM];
} fpc_encoder;

void fpc_codes_make(fpc_codes *codes, const fpc_huffman_spec *spec);
/* Adds the values' table, for sequential scans' AC coefficients. */
void fpc_codes_add_values(fpc_codes *codes);

/* Begins with a scan or a restart interval. */
void fpc_encoder_start(fpc_encoder *encoder);
/* Makes room for an MCU, where there is too little. */
void fpc_encoder_room(fpc_encoder *encoder);
/* Writes whole bytes to `out`. */
void fpc_encoder_stuff(fpc_encoder *encoder);
/* Writes a block of a sequential scan, whose coefficients after zigzag index `last` are 0, by its DC's difference. */
void fpc_encode_block(fpc_encoder *encoder, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block, int last,
                      int difference);
/* Counts the symbols of such a block. */
void fpc_count_block(const fpc_kernels *kernels, fpc_symbol_counts *counts, const int16_t *block, int last,
                     int difference);
/* Writes a DC's difference in a first scan, and one more bit of a DC in a later one. */
void fpc_encode_dc(fpc_encoder *encoder, const fpc_codes *dc, int difference);
void fpc_encode_bit(fpc_encoder *encoder, uint32_t bit);
/* Writes a block's band of AC coefficients in a first scan, and one more bit of it in a later one. */
void fpc_encode_band(fpc_encoder *encoder, const int16_t *block, int last);
void fpc_encode_refined_band(fpc_encoder *encoder, const int16_t *block, int last);
/* Writes what was put off and all whole bytes to `out`; returns the bits that are left, 0 to 7. */
uint32_t fpc_encoder_flush(fpc_encoder *encoder);
/* Fills up the last byte with the lowest bits of `padding`. */
void fpc_encoder_pad(fpc_encoder *encoder, uint32_t padding);

#endif
