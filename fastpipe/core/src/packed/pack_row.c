/* pack_row.c: writes the streams of a packed row, block by block. packed_row.h has their order. */
#include <string.h>

#include "mcu.h"
#include "packer.h"
#include "packed_row.h"

enum { LENGTHS, DC, MASKS, KINDS, SIGNS, SMALL, LARGE, WIDE, WIDE_DC, STREAMS };

/* The most bytes of a block in each stream, and the most of its small values. */
static const size_t MOST[STREAMS] = {1, 1, 8, 8, 8, 32, 63, 126, 2};
#define MOST_NIBBLES 63

bool fpc_row_start(fpc_row_writer *writer, size_t blocks) {
    size_t total = (MOST_NIBBLES + 1) * blocks;
    for (int i = 0; i < STREAMS; i++) total += (MOST[i] * blocks + 16);
    uint8_t *at = fpc_buffer_need(&writer->memory, total);
    if (!at) return false;
    uint8_t **const streams[STREAMS] = {&writer->lengths,      &writer->dc,          &writer->masks,
                                        &writer->kinds,        &writer->signs,       &writer->small,
                                        &writer->values.large, &writer->values.wide, &writer->wide_dc};
    for (int i = 0; i < STREAMS; i++) {
        *streams[i] = writer->starts[i] = at;
        at += MOST[i] * blocks + 16;
    }
    memset(writer->kinds, 0, 16);
    memset(writer->signs, 0, 16);
    writer->smalls = writer->values.smalls = at;
    writer->blocks = writer->coefficients = 0;
    return true;
}

/* Appends 64 bits to the `count` bits of a stream. */
static void add_bits(uint8_t *stream, size_t count, uint64_t bits) {
    uint8_t *to = stream + count / 8;
    const uint32_t shift = count % 8;
    const uint64_t low = bits << shift | *to;
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(low >> (8 * i));
    to[8] = shift ? (uint8_t)(bits >> (64 - shift)) : 0;
}

static uint8_t *add_int16(uint8_t *to, int value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)((uint32_t)value >> 8);
    return to + 2;
}

static bool is_wide(int value) { return value < -127 || value > 127; }

static void add_mask(fpc_row_writer *writer, uint64_t mask) {
    uint8_t bytes = 0;
    for (; mask; mask >>= 8) writer->masks[bytes++] = (uint8_t)mask;
    writer->masks += bytes;
    if (writer->blocks % 2 == 0)
        *writer->lengths = bytes;
    else
        *writer->lengths++ |= (uint8_t)(bytes << 4);
}

static void add_dc(fpc_row_writer *writer, int16_t value, int16_t *dc) {
    const int difference = (int16_t)(uint16_t)((uint32_t)value - (uint32_t)*dc); /* wraps around */
    *dc = value;
    if (is_wide(difference)) writer->wide_dc = add_int16(writer->wide_dc, difference);
    *writer->dc++ = (uint8_t)(is_wide(difference) ? FPC_PACKED_ESCAPE : difference);
}

void fpc_row_writer_make(fpc_row_writer *writer, const fpc_kernels *kernels) {
    writer->kernels = kernels;
    for (int value = -128; value < 128; value++) {
        const int negative = value < 0, size = negative ? -value : value;
        const int kind = size >= FPC_PACKED_SMALLEST, large = size > FPC_PACKED_LARGEST;
        fpc_packed_value *written = &writer->values.values[value & 255];
        written->kind = (uint8_t)kind;
        written->sign = (uint8_t)(kind ? large : negative);
        written->large = (uint8_t)large;
        written->nibble = (uint8_t)(((size - FPC_PACKED_SMALLEST) & 7) | negative << 3);
    }
}

void fpc_row_add(fpc_row_writer *writer, const int16_t *block, int last, int16_t *dc) {
    fpc_packed_writer *values = &writer->values;
    add_mask(writer, writer->kernels->pack_block(values, block, last));
    add_bits(writer->starts[KINDS], writer->coefficients, values->kinds);
    add_bits(writer->starts[SIGNS], writer->coefficients, values->signs);
    writer->coefficients += (size_t)values->count;
    add_dc(writer, block[0], dc);
    writer->blocks++;
}

size_t fpc_row_finish(fpc_row_writer *writer, fpc_bytes *to) {
    writer->lengths += writer->blocks % 2;
    writer->kinds += (writer->coefficients + 7) / 8;
    writer->signs += (writer->coefficients + 7) / 8;
    *writer->values.smalls = 0;
    for (const uint8_t *from = writer->smalls; from < writer->values.smalls; from += 2)
        *writer->small++ = (uint8_t)(from[0] | from[1] << 4);
    const uint8_t *const ends[STREAMS] = {writer->lengths,      writer->dc,          writer->masks,
                                          writer->kinds,        writer->signs,       writer->small,
                                          writer->values.large, writer->values.wide, writer->wide_dc};
    const size_t before = to->size;
    for (int i = 0; i < STREAMS; i++) fpc_bytes_add(to, writer->starts[i], (size_t)(ends[i] - writer->starts[i]));
    return to->size - before;
}
