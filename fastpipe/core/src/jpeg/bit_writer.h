/* bit_writer.h: the Huffman codes for writing a scan, and the writer of its bits. */
#ifndef FPC_BIT_WRITER_H
#define FPC_BIT_WRITER_H

#include <stdint.h>

#include "bitstream.h"

/* Values of up to this many bits with the sign are looked up together with their symbol. */
#define FPC_SHORT_BITS 7

/* A table entry: the code's bits, from the highest bit on, and their number in the lowest five bits. FPC_NO_CODE if
 * there is no code. */
#define FPC_NO_CODE 32u
typedef struct fpc_codes {
    uint32_t symbols[256];
    uint32_t values[16 << FPC_SHORT_BITS]; /* symbol and value; index: run of zeros << FPC_SHORT_BITS | value */
} fpc_codes;

/* Writes bits to bytes, without the zero that is stuffed after each 0xFF. The highest `count` bits of `bits`, 0 to 7,
 * aren't written yet; all lower ones are 0. */
typedef struct fpc_bit_writer {
    uint64_t bits;
    uint32_t count;
    uint8_t *next;
} fpc_bit_writer;

/* The symbol for 16 zeros. */
#define ZEROS_16 0xF0

/* The number of bits of a value; 0 for 0. */
static FPC_INLINE uint32_t encode_bits_of(uint32_t value) {
#if defined(__GNUC__) || defined(__clang__)
    return 32 - (uint32_t)__builtin_clz(value << 1 | 1) - 1;
#else
    uint32_t bits = 0;
    for (; value; value >>= 1) bits++;
    return bits;
#endif
}

static FPC_INLINE uint32_t encode_absolute(int value) { return (uint32_t)(value < 0 ? -value : value); }

static FPC_INLINE uint32_t encode_lowest_bit(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return (uint32_t)__builtin_ctzll(bits);
#else
    uint32_t index = 0;
    while (!(bits >> index & 1)) index++;
    return index;
#endif
}

/* Writes whole bytes without a branch: always stores eight; the next call overwrites the unused ones. */
static FPC_INLINE void put_bytes(fpc_bit_writer *to) {
    for (int i = 0; i < 8; i++) to->next[i] = (uint8_t)(to->bits >> (56 - 8 * i));
    to->next += to->count / 8;
    to->bits <<= to->count & ~7u;
    to->count %= 8;
}

/* Appends the highest `count` bits; all lower ones must be 0. At most 57 bits may be appended before put_bytes. */
static FPC_INLINE void add_top(fpc_bit_writer *to, uint64_t bits, uint32_t count) {
    to->bits |= bits >> to->count;
    to->count += count;
}

/* Appends up to 32 bits, and writes whole bytes. */
static FPC_INLINE void put_top(fpc_bit_writer *to, uint64_t bits, uint32_t count) {
    add_top(to, bits, count);
    put_bytes(to);
}

/* Appends the lowest `count` bits, and writes whole bytes. All higher bits must be 0. */
static FPC_INLINE void put_bits(fpc_bit_writer *to, uint32_t bits, uint32_t count) {
    put_top(to, (uint64_t)bits << 1 << (63 - count), count);
}

static FPC_INLINE void add_entry(fpc_bit_writer *to, uint32_t entry, uint32_t *missing) {
    *missing |= entry;
    add_top(to, (uint64_t)(entry & ~63u) << 32, entry & 31);
}

static FPC_INLINE void put_entry(fpc_bit_writer *to, uint32_t entry, uint32_t *missing) {
    add_entry(to, entry, missing);
    put_bytes(to);
}

/* The bits of a value that follow its symbol (T.81, F.1.2.1). */
static FPC_INLINE uint32_t value_bits(int value, uint32_t size) {
    return ((uint32_t)value - (value < 0)) & ((1u << size) - 1);
}

/* Writes a symbol, and the bits of a value of up to 15 bits. */
static FPC_INLINE void put_symbol(fpc_bit_writer *to, const fpc_codes *codes, uint32_t symbol, int value,
                                  uint32_t *missing) {
    const uint32_t size = encode_bits_of(encode_absolute(value)), entry = codes->symbols[symbol << 4 | (size & 15)];
    const uint32_t length = entry & 31;
    *missing |= entry | (size > 15 ? FPC_NO_CODE : 0);
    const uint64_t bits = (uint64_t)value_bits(value, size & 15) << 1 << (63 - length - (size & 15));
    put_top(to, (uint64_t)(entry & ~63u) << 32 | bits, length + (size & 15));
}

#endif
