/* checksums.c: CRC-32 (PNG, annex D) in plain C, eight bytes a turn. */
#include "checksums.h"

/* A row of 256 checksums: each is the sum, without carries, of those of its index's bits. */
#define CRC_1(i, a, b, c, d, e, f, g, h)                                                                               \
    ((i) & 1 ? a : 0u) ^ ((i) & 2 ? b : 0u) ^ ((i) & 4 ? c : 0u) ^ ((i) & 8 ? d : 0u) ^ ((i) & 16 ? e : 0u) ^          \
        ((i) & 32 ? f : 0u) ^ ((i) & 64 ? g : 0u) ^ ((i) & 128 ? h : 0u)
#define CRC_4(i, ...)                                                                                                  \
    CRC_1(i, __VA_ARGS__), CRC_1(i + 1, __VA_ARGS__), CRC_1(i + 2, __VA_ARGS__), CRC_1(i + 3, __VA_ARGS__)
#define CRC_16(i, ...)                                                                                                 \
    CRC_4(i, __VA_ARGS__), CRC_4(i + 4, __VA_ARGS__), CRC_4(i + 8, __VA_ARGS__), CRC_4(i + 12, __VA_ARGS__)
#define CRC_64(i, ...)                                                                                                 \
    CRC_16(i, __VA_ARGS__), CRC_16(i + 16, __VA_ARGS__), CRC_16(i + 32, __VA_ARGS__), CRC_16(i + 48, __VA_ARGS__)
#define CRC_ROW(...)                                                                                                   \
    {CRC_64(0, __VA_ARGS__), CRC_64(64, __VA_ARGS__), CRC_64(128, __VA_ARGS__), CRC_64(192, __VA_ARGS__)}

/* ROWS[k][x] is the checksum of x followed by k zeros. */
static const uint32_t ROWS[8][256] = {
    CRC_ROW(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    CRC_ROW(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    CRC_ROW(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    CRC_ROW(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    CRC_ROW(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    CRC_ROW(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    CRC_ROW(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    CRC_ROW(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
};

uint32_t fpc_crc32(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {
        crc ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = ROWS[7][crc & 255] ^ ROWS[6][crc >> 8 & 255] ^ ROWS[5][crc >> 16 & 255] ^ ROWS[4][crc >> 24] ^
              ROWS[3][data[4]] ^ ROWS[2][data[5]] ^ ROWS[1][data[6]] ^ ROWS[0][data[7]];
    }
    for (; size; size--, data++) crc = crc >> 8 ^ ROWS[0][(crc ^ *data) & 255];
    return ~crc;
}
