/* encode.h: the entropy coder of scans: writes the bits of blocks of coefficients with given codes (T.81, F.1.2 and
 * G.1.2; jchuff.c, jcphuff.c). If the format leaves a choice, it does as libjpeg. */
#ifndef FPC_ENCODE_H
#define FPC_ENCODE_H

#include <stdbool.h>

#include "bytes.h"
#include "huffman.h"
#include "kernels.h"

/* FPC_ENCODER_ROOM: the most bytes of an MCU of 10 blocks, or of a block with the bits put off before it.
 * FPC_ENCODER_CHUNK: the bytes that are collected before they are stuffed. */
#define FPC_ENCODER_ROOM 4096
#define FPC_ENCODER_CHUNK 16384
/* The most refinement bits that are put off until the end of a run of ended blocks. (jcphuff.c, MAX_CORR_BITS) */
#define FPC_MOST_CORRECTIONS 1000

/* How often a scan uses each symbol. */
typedef struct fpc_symbol_counts {
    uint32_t dc[256], ac[256];
    bool fits; /* false if a value needs more bits than a symbol can state */
} fpc_symbol_counts;

/* Starts as {.out = …, .kernels = …}; fpc_encoder_start sets the other fields. */
typedef struct fpc_encoder {
    fpc_bytes *out;
    const fpc_kernels *kernels;
    fpc_bit_writer writer;
    uint32_t missing;      /* has FPC_NO_CODE set if a symbol has no code, or a value too many bits for a symbol */
    const fpc_codes *band; /* codes of a progressive scan's AC coefficients; first, last, low: what it gives */
    int first, last, low;
    uint32_t ended; /* the length of the run of ended blocks that isn't written yet */
    uint32_t correction_count;
    uint8_t corrections[FPC_MOST_CORRECTIONS + 64];
    uint8_t bytes[FPC_ENCODER_CHUNK + FPC_ENCODER_ROOM];
} fpc_encoder;

void fpc_codes_make(fpc_codes *codes, const fpc_huffman_spec *spec);
/* Adds the table of values, for AC coefficients of sequential scans. */
void fpc_codes_add_values(fpc_codes *codes);

/* Begins a scan or a restart interval. */
void fpc_encoder_start(fpc_encoder *encoder);
/* Makes room for an MCU, if there is too little. */
void fpc_encoder_room(fpc_encoder *encoder);
/* Writes all whole bytes to `out`, with stuffed zeros. */
void fpc_encoder_stuff(fpc_encoder *encoder);
/* Writes a block of a sequential scan, given the difference of its DC. Coefficients after zigzag index `last` are 0. */
void fpc_encode_block(fpc_encoder *encoder, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block, int last,
                      int difference);
/* Counts the symbols of a block of a sequential scan. */
void fpc_count_block(const fpc_kernels *kernels, fpc_symbol_counts *counts, const int16_t *block, int last,
                     int difference);
/* Write the difference of a DC in its first scan, and one more bit of a DC in a later scan. */
void fpc_encode_dc(fpc_encoder *encoder, const fpc_codes *dc, int difference);
void fpc_encode_bit(fpc_encoder *encoder, uint32_t bit);
/* Write a block's band of AC coefficients in its first scan, and one more bit of each in a later scan. */
void fpc_encode_band(fpc_encoder *encoder, const int16_t *block, int last);
void fpc_encode_refined_band(fpc_encoder *encoder, const int16_t *block, int last);
/* Writes the bits that were put off and all whole bytes to `out`; returns the number of remaining bits, 0 to 7. */
uint32_t fpc_encoder_flush(fpc_encoder *encoder);
/* Completes the last byte with the lowest bits of `padding`. */
void fpc_encoder_pad(fpc_encoder *encoder, uint32_t padding);

#endif
