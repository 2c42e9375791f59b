/* bitstream.h: the bits of a scan, without the zero bytes that are stuffed after each 0xFF.
 *
 * The scan's data is unstuffed ahead of the decoder, in chunks. Decoding loops check `next <= limit` once per MCU, and
 * otherwise read without checks: FPC_MARGIN bytes after `limit` may be read, which are the scan's data or, after its
 * end, zeros. After each run of MCUs, fpc_bitstream_overrun finds out if more bits were used than the scan has.
 */
#ifndef FPC_BITSTREAM_H
#define FPC_BITSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define FPC_INLINE inline __attribute__((always_inline))
#define FPC_NOINLINE __attribute__((noinline))
#define FPC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#elif defined(_MSC_VER)
#define FPC_INLINE __forceinline
#define FPC_NOINLINE __declspec(noinline)
#define FPC_UNLIKELY(x) (x)
#else
#define FPC_INLINE inline
#define FPC_NOINLINE
#define FPC_UNLIKELY(x) (x)
#endif

/* The most bytes of an MCU: 10 blocks of a DC and 63 AC symbols, each with a code of 16 bits and a value of 15. */
#define FPC_MARGIN (10 * 64 * 31 / 8 + 64)
#define FPC_CHUNK 16384

/* The `marker` of a scan whose data ends with the file's. */
#define FPC_END_OF_DATA 0x100

/* The reader's state, which the loops keep in registers. At least the top `count` bits of `bits` are the next ones;
 * lower bits are those that follow, or 0, so that refilling them changes nothing. */
typedef struct fpc_reader {
    const uint8_t *next;
    uint64_t bits;
    uint32_t count; /* up to 63 */
} fpc_reader;

struct fpc_kernels;

typedef struct fpc_bitstream {
    fpc_reader reader;
    const uint8_t *limit;  /* an MCU may begin as long as reader.next isn't past it */
    const uint8_t *filled; /* the end of the unstuffed data */
    const uint8_t *input;  /* the next byte in the file, or the marker that ends the data */
    const uint8_t *end;    /* the end of the file */
    int marker;            /* the marker that ends the data; 0 as long as it is unknown */
    const struct fpc_kernels *kernels;
    uint8_t buffer[FPC_MARGIN + 64 + FPC_CHUNK + FPC_MARGIN + 64];
} fpc_bitstream;

/* Data of a scan, copied from `from` to `to` without the stuffed zeros; up to FPC_UNSTUFF_SLACK more bytes are
 * written. */
#define FPC_UNSTUFF_SLACK 64
typedef struct fpc_copy {
    const uint8_t *from, *end;
    uint8_t *to, *limit;
    int marker; /* the marker that ended the copy before the limit; 0 if none did */
} fpc_copy;

/* Begins at `input`, after a scan's header or a restart marker. */
void fpc_bitstream_start(fpc_bitstream *bits, const uint8_t *input, const uint8_t *end);

/* Unstuffs more data if reader.next is past the limit: FPC_OK, or FPC_TRUNCATED if there is no more. */
int fpc_bitstream_fill(fpc_bitstream *bits);

/* Returns 1 if more bits were taken than there are. */
int fpc_bitstream_overrun(const fpc_bitstream *bits);

/* True if whole bytes are left before the marker that ends the data. */
bool fpc_bitstream_left_over(const fpc_bitstream *bits);

/* Skips the rest of the data, as libjpeg does; returns the marker that ends it. */
int fpc_bitstream_marker(fpc_bitstream *bits);

/* Reads restart marker `number` (0 to 7), and begins after it; FPC_OK, FPC_TRUNCATED or FPC_BAD_MARKER. */
int fpc_bitstream_restart(fpc_bitstream *bits, int number);

static FPC_INLINE uint64_t fpc_load_big_endian(const uint8_t *from) {
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return __builtin_bswap64(word);
#else
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) word = word << 8 | from[i];
    return word;
#endif
}

/* Fills `bits` to at least 56 bits. Counts only the bytes that fit whole; a byte that fits in part is read again next
 * time. */
static FPC_INLINE void fpc_refill(fpc_reader *reader) {
    reader->bits |= fpc_load_big_endian(reader->next) >> reader->count;
    reader->next += (63 - reader->count) >> 3;
    reader->count |= 56;
}

static FPC_INLINE void fpc_drop(fpc_reader *reader, uint32_t length) {
    reader->bits <<= length & 63;
    reader->count -= length;
}

/* Takes up to 16 bits, 0 for none. */
static FPC_INLINE uint32_t fpc_take(fpc_reader *reader, uint32_t length) {
    uint32_t value = (uint32_t)(reader->bits >> 1 >> ((63 - length) & 63));
    fpc_drop(reader, length);
    return value;
}

/* Tables indexed by the number of bits: a mask of that many bits, the smallest positive value, and the number to add to
 * a negative value. They are in one struct, so that one address is enough. */
typedef struct fpc_sizes {
    int32_t mask[16], half[16], offset[16];
} fpc_sizes;

static const fpc_sizes fpc_size_table = {
    {0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 16383, 32767},
    {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
    {0, -1, -3, -7, -15, -31, -63, -127, -255, -511, -1023, -2047, -4095, -8191, -16383, -32767}};

/* T.81, figure F.12: the value of the lowest `size` bits of `bits`, negative if the first of them is 0. It is computed
 * without a branch, since half of the values are negative. clang makes a branch of anything like a choice, so the mask
 * is hidden from it. */
static FPC_INLINE int32_t fpc_extend(uint64_t bits, uint32_t size) {
    const fpc_sizes *sizes = &fpc_size_table;
    int32_t value = (int32_t)(uint32_t)bits & sizes->mask[size];
    int32_t negative = (value - sizes->half[size]) >> 31;
#if defined(__GNUC__) || defined(__clang__)
    __asm__("" : "+r"(negative));
#endif
    return value + (negative & sizes->offset[size]);
}

#endif
