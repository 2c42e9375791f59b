/* original.c: the section for a JPEG's own bytes, and the outline in it: the file without entropy-coded data and
 * without the contents of application and comment segments. Most files have similar outlines, which are mostly copies
 * of a text that follows from the head. */
#include <string.h>

#include "entropy.h"
#include "original.h"

/* ---- numbers ---- */

uint64_t fpc_number(fpc_numbers *numbers) {
    uint64_t number = 0;
    for (uint32_t shift = 0; !numbers->failed && shift < 64 && numbers->next < numbers->end; shift += 7) {
        const uint64_t byte = *numbers->next++;
        number |= (byte & 127) << shift;
        if (byte > 127) continue;
        if (shift < 63 || byte < 2) return number;
        break;
    }
    numbers->failed = true;
    return 0;
}

int64_t fpc_signed_number(fpc_numbers *numbers) {
    const uint64_t number = fpc_number(numbers);
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

const uint8_t *fpc_number_bytes(fpc_numbers *numbers, uint64_t size) {
    if (numbers->failed || size > (uint64_t)(numbers->end - numbers->next)) {
        numbers->failed = true;
        return NULL;
    }
    numbers->next += size;
    return numbers->next - size;
}

void fpc_put_number(fpc_bytes *to, uint64_t number) {
    uint8_t bytes[10];
    size_t count = 0;
    for (; number > 127; number >>= 7) bytes[count++] = (uint8_t)(number | 128);
    bytes[count++] = (uint8_t)number;
    fpc_bytes_add(to, bytes, count);
}

void fpc_put_signed_number(fpc_bytes *to, int64_t number) {
    fpc_put_number(to, (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0));
}

/* ---- the section ---- */

int fpc_original_read(const uint8_t *data, size_t size, fpc_original *original) {
    fpc_numbers numbers = {data, data + size, false};
    original->about_size = (size_t)fpc_number(&numbers);
    original->about = fpc_number_bytes(&numbers, original->about_size);
    original->length = fpc_number(&numbers);
    const uint64_t outline_size = fpc_number(&numbers);
    original->tokens_size = (size_t)fpc_number(&numbers);
    original->tokens = fpc_number_bytes(&numbers, original->tokens_size);
    const uint64_t padding = fpc_number(&numbers);
    original->ends_size = (size_t)fpc_number(&numbers);
    original->ends = fpc_number_bytes(&numbers, original->ends_size);
    original->dummies = numbers.next;
    original->dummies_size = (size_t)(numbers.end - numbers.next);
    if (numbers.failed || padding > 1 || outline_size > FPC_MOST_OUTLINE) return FPC_BAD_CODE;
    original->outline_size = (size_t)outline_size;
    original->padding = padding ? 0xFF : 0;
    return FPC_OK;
}

void fpc_original_write(fpc_bytes *to, const fpc_original *original) {
    fpc_put_number(to, original->about_size);
    fpc_bytes_add(to, original->about, original->about_size);
    fpc_put_number(to, original->length);
    fpc_put_number(to, original->outline_size);
    fpc_put_number(to, original->tokens_size);
    fpc_bytes_add(to, original->tokens, original->tokens_size);
    fpc_put_number(to, original->padding ? 1 : 0);
    fpc_put_number(to, original->ends_size);
    fpc_bytes_add(to, original->ends, original->ends_size);
    fpc_bytes_add(to, original->dummies, original->dummies_size);
}

/* ---- the outline ---- */

/* The example codes of T.81 (K.3 to K.6), in libjpeg's four segments. */
static const uint8_t USUAL_CODES[432] = {
    255, 196, 0,   31,  0,   0,   1,   5,   1,   1,   1,   1,   1,   1,   0,   0,   0,   0,   0,   0,   0,   0,   1,
    2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  255, 196, 0,   181, 16,  0,   2,   1,   3,   3,   2,   4,   3,
    5,   5,   4,   4,   0,   0,   1,   125, 1,   2,   3,   0,   4,   17,  5,   18,  33,  49,  65,  6,   19,  81,  97,
    7,   34,  113, 20,  50,  129, 145, 161, 8,   35,  66,  177, 193, 21,  82,  209, 240, 36,  51,  98,  114, 130, 9,
    10,  22,  23,  24,  25,  26,  37,  38,  39,  40,  41,  42,  52,  53,  54,  55,  56,  57,  58,  67,  68,  69,  70,
    71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,  100, 101, 102, 103, 104, 105, 106, 115, 116, 117,
    118, 119, 120, 121, 122, 131, 132, 133, 134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162,
    163, 164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199,
    200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 241,
    242, 243, 244, 245, 246, 247, 248, 249, 250, 255, 196, 0,   31,  1,   0,   3,   1,   1,   1,   1,   1,   1,   1,
    1,   1,   0,   0,   0,   0,   0,   0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  255, 196, 0,   181,
    17,  0,   2,   1,   2,   4,   4,   3,   4,   7,   5,   4,   4,   0,   1,   2,   119, 0,   1,   2,   3,   17,  4,
    5,   33,  49,  6,   18,  65,  81,  7,   97,  113, 19,  34,  50,  129, 8,   20,  66,  145, 161, 177, 193, 9,   35,
    51,  82,  240, 21,  98,  114, 209, 10,  22,  36,  52,  225, 37,  241, 23,  24,  25,  26,  38,  39,  40,  41,  42,
    53,  54,  55,  56,  57,  58,  67,  68,  69,  70,  71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,
    100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119, 120, 121, 122, 130, 131, 132, 133, 134, 135, 136, 137,
    138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181,
    182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218,
    226, 227, 228, 229, 230, 231, 232, 233, 234, 242, 243, 244, 245, 246, 247, 248, 249, 250,
};

static void put16(fpc_bytes *to, uint32_t number) {
    const uint8_t two[2] = {(uint8_t)(number >> 8), (uint8_t)number};
    fpc_bytes_add(to, two, 2);
}

/* Writes each table of the head as a segment, with 8 bits per value if that is enough. */
static void put_tables(fpc_bytes *to, const uint8_t *head) {
    for (int number = 0; number < head[FPC_PACKED_AT_TABLES]; number++) {
        const uint8_t *table = head + FPC_PACKED_FIXED + FPC_PACKED_TABLE * number;
        bool wide = false;
        for (int k = 0; k < 64; k++) wide |= table[2 * k + 1] != 0;
        put16(to, 0xFF00 | FPC_DQT);
        put16(to, 2 + 1 + (wide ? 128 : 64));
        fpc_bytes_put(to, wide << 4 | number);
        for (int k = 0; k < 64; k++) {
            const uint8_t *step = table + 2 * fpc_natural_order[k + 1];
            if (wide) fpc_bytes_put(to, step[1]);
            fpc_bytes_put(to, step[0]);
        }
    }
}

/* Writes what libjpeg would for a file with this head, in its order: JFIF's marker, tables, frame, codes, scan, end. */
static void put_usual(fpc_bytes *to, const uint8_t *head, const fpc_packed_head *fields) {
    static const uint8_t begin[4] = {0xFF, 0xD8, 0xFF, FPC_APP0}, end[5] = {0, 63, 0, 0xFF, FPC_EOI};
    const fpc_header *header = &fields->frame.header;
    const int count = header->components;
    fpc_bytes_add(to, begin, sizeof begin);
    put_tables(to, head);
    put16(to, 0xFF00 | (uint32_t)fields->process);
    put16(to, 8 + 3 * (uint32_t)count);
    fpc_bytes_put(to, 8);
    put16(to, (uint32_t)header->height);
    put16(to, (uint32_t)header->width);
    fpc_bytes_put(to, count);
    for (int i = 0; i < count; i++) {
        const uint8_t *plane = head + FPC_PACKED_AT_PLANES + 4 * i;
        fpc_bytes_put(to, plane[0]);
        fpc_bytes_put(to, plane[1] << 4 | plane[2]);
        fpc_bytes_put(to, plane[3]);
    }
    fpc_bytes_add(to, USUAL_CODES, sizeof USUAL_CODES);
    put16(to, 0xFF00 | FPC_SOS);
    put16(to, 6 + 2 * (uint32_t)count);
    fpc_bytes_put(to, count);
    for (int i = 0; i < count; i++) {
        fpc_bytes_put(to, fields->ids[i]);
        fpc_bytes_put(to, i > 0 ? 0x11 : 0);
    }
    fpc_bytes_add(to, end, sizeof end);
}

/* The shortest copy in bytes; a shorter one saves nothing. */
#define SHORTEST 5

static uint32_t hash_of(const uint8_t *at) {
    const uint32_t four = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return ((four * 2654435761u) ^ (at[4] * 40503u << 8)) >> 16 & 1023;
}

static void put_literal(fpc_bytes *tokens, const uint8_t *from, const uint8_t *to) {
    if (from == to) return;
    fpc_put_number(tokens, (uint64_t)(to - from) << 1);
    fpc_bytes_add(tokens, from, (size_t)(to - from));
}

int fpc_outline_pack(const uint8_t *head, const fpc_packed_head *fields, const fpc_bytes *outline, fpc_bytes *tokens) {
    uint32_t newest[1024]; /* by hash: the last position of bytes with this hash, plus 1; 0 for none */
    fpc_bytes text = {0};
    if (outline->failed) return FPC_NO_MEMORY;
    if (outline->size > FPC_MOST_OUTLINE) return FPC_TOO_LARGE;
    put_usual(&text, head, fields);
    const size_t start = text.size;
    fpc_bytes_add(&text, outline->data, outline->size);
    if (text.failed) {
        fpc_bytes_free(&text);
        return FPC_NO_MEMORY;
    }
    memset(newest, 0, sizeof newest);
    const uint8_t *const data = text.data, *const end = data + text.size, *literal = data + start;
    for (const uint8_t *at = data; at < end;) {
        size_t length = 0, place = 0;
        if (end - at >= SHORTEST) {
            uint32_t *entry = &newest[hash_of(at)];
            place = *entry ? *entry - 1 : 0;
            if (*entry && at >= data + start)
                while (at + length < end && place + length < (size_t)(at - data) && data[place + length] == at[length])
                    length++;
            *entry = (uint32_t)(at - data) + 1;
        }
        if (length < SHORTEST) {
            at++;
            continue;
        }
        put_literal(tokens, literal, at);
        fpc_put_number(tokens, (uint64_t)length << 1 | 1);
        fpc_put_number(tokens, place);
        literal = at += length;
    }
    put_literal(tokens, literal, end);
    fpc_bytes_free(&text);
    return tokens->failed ? FPC_NO_MEMORY : FPC_OK;
}

int fpc_outline_unpack(const uint8_t *head, const fpc_packed_head *fields, const fpc_original *original, fpc_bytes *to,
                       size_t *start) {
    fpc_numbers tokens = {original->tokens, original->tokens + original->tokens_size, false};
    put_usual(to, head, fields);
    *start = to->size;
    while (tokens.next < tokens.end) {
        const uint64_t token = fpc_number(&tokens), size = token >> 1;
        const size_t left = original->outline_size - (to->size - *start);
        if (!size || size > left) return FPC_BAD_CODE;
        if (token & 1) {
            const uint64_t place = fpc_number(&tokens);
            if (tokens.failed || place > to->size || size > to->size - place) return FPC_BAD_CODE;
            uint8_t *room = fpc_bytes_room(to, (size_t)size);
            if (!room) return FPC_NO_MEMORY;
            memcpy(room, to->data + place, (size_t)size);
            to->size += (size_t)size;
        } else {
            const uint8_t *literal = fpc_number_bytes(&tokens, size);
            if (!literal) return FPC_BAD_CODE;
            fpc_bytes_add(to, literal, (size_t)size);
        }
        if (to->failed) return FPC_NO_MEMORY;
    }
    if (to->failed) return FPC_NO_MEMORY;
    return to->size - *start == original->outline_size ? FPC_OK : FPC_BAD_CODE;
}
