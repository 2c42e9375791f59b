/* checksums.c: CRC-32 (PNG, annex D) in plain C, sixteen bytes per turn. */
#include "checksums.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* 256 checksums: each is the XOR of the checksums of the bits that are set in its index. */
#define CRC_1(i, a, b, c, d, e, f, g, h)                                                                               \
    ((i) & 1 ? a : 0u) ^ ((i) & 2 ? b : 0u) ^ ((i) & 4 ? c : 0u) ^ ((i) & 8 ? d : 0u) ^ ((i) & 16 ? e : 0u) ^          \
        ((i) & 32 ? f : 0u) ^ ((i) & 64 ? g : 0u) ^ ((i) & 128 ? h : 0u)
#define CRC_4(i, a, b, c, d, e, f, g, h)                                                                               \
    CRC_1(i, a, b, c, d, e, f, g, h), CRC_1(i + 1, a, b, c, d, e, f, g, h), CRC_1(i + 2, a, b, c, d, e, f, g, h),      \
        CRC_1(i + 3, a, b, c, d, e, f, g, h)
#define CRC_16(i, a, b, c, d, e, f, g, h)                                                                              \
    CRC_4(i, a, b, c, d, e, f, g, h), CRC_4(i + 4, a, b, c, d, e, f, g, h), CRC_4(i + 8, a, b, c, d, e, f, g, h),      \
        CRC_4(i + 12, a, b, c, d, e, f, g, h)
#define CRC_64(i, a, b, c, d, e, f, g, h)                                                                              \
    CRC_16(i, a, b, c, d, e, f, g, h), CRC_16(i + 16, a, b, c, d, e, f, g, h), CRC_16(i + 32, a, b, c, d, e, f, g, h), \
        CRC_16(i + 48, a, b, c, d, e, f, g, h)
#define CRC_ROW(a, b, c, d, e, f, g, h)                                                                                \
    {CRC_64(0, a, b, c, d, e, f, g, h), CRC_64(64, a, b, c, d, e, f, g, h), CRC_64(128, a, b, c, d, e, f, g, h),       \
     CRC_64(192, a, b, c, d, e, f, g, h)}

/* ROWS[k][x] is the checksum of x followed by k zeros. */
static const uint32_t ROWS[16][256] = {
    CRC_ROW(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    CRC_ROW(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    CRC_ROW(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    CRC_ROW(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    CRC_ROW(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    CRC_ROW(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    CRC_ROW(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    CRC_ROW(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
    CRC_ROW(0x177B1443, 0x2EF62886, 0x5DEC510C, 0xBBD8A218, 0xACC04271, 0x82F182A3, 0xDE920307, 0x6655004F),
    CRC_ROW(0xEFC26B3E, 0x04F5D03D, 0x09EBA07A, 0x13D740F4, 0x27AE81E8, 0x4F5D03D0, 0x9EBA07A0, 0xE6050901),
    CRC_ROW(0xC18EDFC0, 0x586CB9C1, 0xB0D97382, 0xBAC3E145, 0xAEF6C4CB, 0x869C8FD7, 0xD64819EF, 0x77E1359F),
    CRC_ROW(0x9BA54C6F, 0xEC3B9E9F, 0x03063B7F, 0x060C76FE, 0x0C18EDFC, 0x1831DBF8, 0x3063B7F0, 0x60C76FE0),
    CRC_ROW(0xDD96D985, 0x605CB54B, 0xC0B96A96, 0x5A03D36D, 0xB407A6DA, 0xB37E4BF5, 0xBD8D91AB, 0xA06A2517),
    CRC_ROW(0x9D0FE176, 0xE16EC4AD, 0x19AC8F1B, 0x33591E36, 0x66B23C6C, 0xCD6478D8, 0x41B9F7F1, 0x8373EFE2),
    CRC_ROW(0xB9FBDBE8, 0xA886B191, 0x8A7C6563, 0xCF89CC87, 0x44629F4F, 0x88C53E9E, 0xCAFB7B7D, 0x4E87F0BB),
    CRC_ROW(0xAE689191, 0x87A02563, 0xD4314C87, 0x73139F4F, 0xE6273E9E, 0x173F7B7D, 0x2E7EF6FA, 0x5CFDEDF4),
};

/* The checksum of the four bytes of `word` followed by `behind` zero bytes. */
static uint32_t look_up(uint32_t word, int behind) {
    return ROWS[behind + 3][word & 255] ^ ROWS[behind + 2][word >> 8 & 255] ^ ROWS[behind + 1][word >> 16 & 255] ^
           ROWS[behind][word >> 24];
}

static uint32_t u32(const uint8_t *data) {
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

uint32_t fpc_crc32(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 16; size -= 16, data += 16)
        crc = look_up(crc ^ u32(data), 12) ^ look_up(u32(data + 4), 8) ^ look_up(u32(data + 8), 4) ^
              look_up(u32(data + 12), 0);
    for (; size; size--, data++) crc = crc >> 8 ^ ROWS[0][(crc ^ *data) & 255];
    return ~crc;
}

/* All processors from ARMv8.1 on have the instructions, so all of Apple's have. For others, Linux says. */
bool fpc_has_arm_crc(void) {
#if defined(__ARM_FEATURE_CRC32) || (defined(__aarch64__) && defined(__APPLE__))
    return true;
#elif defined(__aarch64__) && defined(__linux__)
    return getauxval(AT_HWCAP) >> 7 & 1; /* HWCAP_CRC32 */
#else
    return false;
#endif
}
