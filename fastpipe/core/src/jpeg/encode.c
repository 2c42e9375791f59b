/* encode.c: writes the bits of blocks; encode_plain.h has the loop for sequential ones. */
#include <string.h>

#include "encode.h"
#include "mcu.h"

/* ---- codes and bytes ---- */

void fpc_codes_make(fpc_codes *codes, const fpc_huffman_spec *spec) {
    uint32_t code = 0;
    int at = 0;
    for (int symbol = 0; symbol < 256; symbol++) codes->symbols[symbol] = FPC_NO_CODE;
    for (uint32_t bits = 1; bits <= FPC_LONGEST_CODE; bits++, code <<= 1)
        for (int i = 0; i < spec->counts[bits]; i++, code++)
            codes->symbols[spec->symbols[at++ & 255]] = code << (32 - bits) | bits;
}

void fpc_codes_add_values(fpc_codes *codes) {
    const int half = 1 << (FPC_SHORT_BITS - 1);
    for (uint32_t run = 0; run < 16; run++) {
        for (int value = -half; value < half; value++) {
            const uint32_t size = encode_bits_of(encode_absolute(value)), entry = codes->symbols[run << 4 | size];
            const uint32_t length = entry & 31, place = (uint32_t)value & (2 * (uint32_t)half - 1);
            codes->values[run << FPC_SHORT_BITS | place] =
                entry == FPC_NO_CODE || !size ? FPC_NO_CODE
                                              : entry + size + (value_bits(value, size) << (32 - length - size));
        }
    }
}

void fpc_encoder_start(fpc_encoder *encoder) {
    encoder->writer = (fpc_bit_writer){0, 0, encoder->bytes};
    encoder->ended = encoder->correction_count = 0;
}

/* Writes a zero after each byte of 0xFF (T.81, F.1.2.3). */
void fpc_encoder_stuff(fpc_encoder *encoder) {
    const uint64_t low = UINT64_C(0x0101010101010101);
    const uint8_t *from = encoder->bytes, *const end = encoder->writer.next;
    uint8_t *const start = fpc_bytes_room(encoder->out, 2 * (size_t)(end - from)), *to = start;
    encoder->writer.next = encoder->bytes;
    if (!start) return;
    while (from < end) {
        uint64_t word = 0;
        if (end - from >= 8) memcpy(&word, from, sizeof word);
        /* A byte is 0xFF if its complement is 0, so this is the usual test for a zero byte, on the complement. */
        if (end - from >= 8 && !((~word - low) & word & low << 7)) {
            memcpy(to, from, 8);
            from += 8;
            to += 8;
            continue;
        }
        for (int i = 0; i < 8 && from < end; i++) {
            *to++ = *from;
            if (*from++ == 0xFF) *to++ = 0;
        }
    }
    encoder->out->size += (size_t)(to - start);
}

void fpc_encoder_room(fpc_encoder *encoder) {
    if (encoder->writer.next >= encoder->bytes + FPC_ENCODER_CHUNK) fpc_encoder_stuff(encoder);
}

/* ---- sequential blocks ---- */

void fpc_encode_block(fpc_encoder *encoder, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block, int last,
                      int difference) {
    encoder->missing |= encoder->kernels->encode_block(&encoder->writer, dc, ac, block, last, difference);
}

void fpc_count_block(const fpc_kernels *kernels, fpc_symbol_counts *counts, const int16_t *block, int last,
                     int difference) {
    const uint32_t dc_size = encode_bits_of(encode_absolute(difference));
    uint32_t place = 0;
    uint64_t nonzero = last ? kernels->nonzero(block, last) & ~UINT64_C(1) : 0;
    bool fits = dc_size <= 15;
    counts->dc[dc_size & 15]++;
    for (; nonzero; nonzero &= nonzero - 1) {
        const uint32_t k = encode_lowest_bit(nonzero);
        uint32_t run = k - place - 1;
        place = k;
        for (; run > 15; run -= 16) counts->ac[ZEROS_16]++;
        const uint32_t size = encode_bits_of(encode_absolute(block[fpc_natural_order[k + 1]]));
        fits &= size <= 15;
        counts->ac[run << 4 | (size & 15)]++;
    }
    if (place < 63) counts->ac[0]++;
    counts->fits &= fits;
}

/* ---- progressive blocks ---- */

void fpc_encode_dc(fpc_encoder *encoder, const fpc_codes *dc, int difference) {
    put_symbol(&encoder->writer, dc, 0, difference, &encoder->missing);
}

void fpc_encode_bit(fpc_encoder *encoder, uint32_t bit) { put_bits(&encoder->writer, bit & 1, 1); }

static void put_corrections(fpc_encoder *encoder, const uint8_t *bits, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) put_bits(&encoder->writer, bits[i], 1);
}

/* Writes the run of ended blocks, and the refinement bits that were put off with it. (jcphuff.c, emit_eobrun) */
static void put_ended(fpc_encoder *encoder) {
    if (!encoder->ended) return;
    const uint32_t size = encode_bits_of(encoder->ended) - 1;
    put_entry(&encoder->writer, encoder->band->symbols[size << 4], &encoder->missing);
    put_bits(&encoder->writer, encoder->ended & ((1u << size) - 1), size);
    encoder->ended = 0;
    put_corrections(encoder, encoder->corrections, encoder->correction_count);
    encoder->correction_count = 0;
}

/* (jcphuff.c, encode_mcu_AC_first) */
void fpc_encode_band(fpc_encoder *encoder, const int16_t *block, int last) {
    int place = encoder->first - 1;
    const int end = last < encoder->last ? last : encoder->last;
    for (int k = encoder->first; k <= end; k++) {
        const int value = block[fpc_natural_order[k + 1]];
        const uint32_t size = encode_absolute(value) >> encoder->low;
        if (!size) continue;
        put_ended(encoder);
        uint32_t run = (uint32_t)(k - place - 1);
        place = k;
        for (; run > 15; run -= 16) put_entry(&encoder->writer, encoder->band->symbols[ZEROS_16], &encoder->missing);
        put_symbol(&encoder->writer, encoder->band, run, value < 0 ? -(int)size : (int)size, &encoder->missing);
    }
    if (place < encoder->last && ++encoder->ended == 0x7FFF) put_ended(encoder);
}

/* (jcphuff.c, encode_mcu_AC_refine) */
void fpc_encode_refined_band(fpc_encoder *encoder, const int16_t *block, int last) {
    uint32_t sizes[64];
    int newest = 0; /* index of the last coefficient that becomes nonzero in this scan */
    const int end = last < encoder->last ? last : encoder->last;
    for (int k = encoder->first; k <= end; k++) {
        sizes[k] = encode_absolute(block[fpc_natural_order[k + 1]]) >> encoder->low;
        if (sizes[k] == 1) newest = k;
    }
    uint8_t *bits = encoder->corrections + encoder->correction_count;
    uint32_t count = 0, run = 0;
    for (int k = encoder->first; k <= end; k++) {
        if (!sizes[k]) {
            run++;
            continue;
        }
        for (; run > 15 && k <= newest; run -= 16) {
            put_ended(encoder);
            put_entry(&encoder->writer, encoder->band->symbols[ZEROS_16], &encoder->missing);
            put_corrections(encoder, bits, count);
            bits = encoder->corrections;
            count = 0;
        }
        if (sizes[k] > 1) {
            bits[count++] = sizes[k] & 1;
            continue;
        }
        put_ended(encoder);
        put_entry(&encoder->writer, encoder->band->symbols[(run << 4 | 1) & 255], &encoder->missing);
        put_bits(&encoder->writer, block[fpc_natural_order[k + 1]] >= 0, 1);
        put_corrections(encoder, bits, count);
        bits = encoder->corrections;
        count = run = 0;
    }
    if (!run && !count && end == encoder->last) return;
    encoder->ended++;
    encoder->correction_count += count;
    if (encoder->ended == 0x7FFF || encoder->correction_count > FPC_MOST_CORRECTIONS - 63) put_ended(encoder);
}

/* ---- ends ---- */

uint32_t fpc_encoder_flush(fpc_encoder *encoder) {
    put_ended(encoder);
    fpc_encoder_stuff(encoder);
    return encoder->writer.count;
}

void fpc_encoder_pad(fpc_encoder *encoder, uint32_t padding) {
    const uint32_t count = (8 - encoder->writer.count) % 8;
    if (!count) return;
    put_bits(&encoder->writer, padding & ((1u << count) - 1), count);
    fpc_encoder_stuff(encoder);
}
