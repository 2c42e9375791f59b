/* packed_fuzzer.h: core_fuzzer.c's packed images: damaged ones whose checksums are right again, ones that are made up
 * from the format's page, JPEGs packed and unpacked, and files of which parts are read. */

#define PACKED_FIXED 72
#define PACKED_ROOM (1 << 16)

static fpc_packer *packers[2];

static uint32_t packed_crc(const uint8_t *data, size_t size) {
    static uint32_t table[256];
    uint32_t crc = ~0u;
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return ~crc;
}

static uint64_t packed_get(const uint8_t *at, int bytes) {
    uint64_t number = 0;
    for (int i = bytes - 1; i >= 0; i--) number = number << 8 | at[i];
    return number;
}

static void packed_put(uint8_t *at, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(number >> (8 * i));
}

/* Makes each checksum right, if the head's size is possible, and the sum of the rows' sizes. */
static void mend_packed(uint8_t *data, size_t length) {
    const size_t size = length < PACKED_FIXED ? 0 : (size_t)packed_get(data + 36, 4);
    const size_t index = PACKED_FIXED + 128 * (size_t)(length < PACKED_FIXED ? 0 : data[22]);
    if (size > length || size < index + 4) return;
    size_t at = size;
    for (size_t entry = index; entry + 12 <= size; entry += 8) {
        const size_t row = (size_t)packed_get(data + entry, 4);
        if (row > length - at) break;
        packed_put(data + entry + 4, packed_crc(data + at, row), 4);
        at += row;
    }
    packed_put(data + 40, at - size, 8);
    const size_t segments = (size_t)packed_get(data + 48, 8);
    if (segments > length - at) packed_put(data + 48, 0, 8);
    const size_t left = length - at - (size_t)packed_get(data + 48, 8);
    if (packed_get(data + 68, 4) > left) packed_put(data + 68, left, 4);
    packed_put(data + 56, left - (size_t)packed_get(data + 68, 4), 8);
    packed_put(data + 64, packed_crc(data + at, length - at), 4);
    packed_put(data + size - 4, packed_crc(data, size - 4), 4);
}

static int packed_bits(const uint8_t *data, size_t size) {
    int count = 0;
    for (size_t i = 0; i < 8 * size; i++) count += data[i / 8] >> (i % 8) & 1;
    return count;
}

static void packed_fill(source *from, uint8_t *to, size_t size, int zeros) {
    for (size_t i = 0; i < size; i++) to[i] = zeros && below(from, zeros) ? 0 : (uint8_t)next(from);
}

/* Makes a row of `blocks` blocks, any one that there can be; returns its bytes. */
static size_t make_row(source *from, uint8_t *to, size_t blocks) {
    uint8_t *const lengths = to, *const dc = lengths + (blocks + 1) / 2, *const masks = dc + blocks;
    size_t mask_bytes = 0;
    const int most = below(from, 9), zeros = below(from, 3);
    for (size_t i = 0; i < blocks; i++) {
        const int bytes = one_in(from, 3) ? below(from, most + 1) : most;
        if (i % 2 == 0) lengths[i / 2] = 0;
        lengths[i / 2] |= (uint8_t)(bytes << (i % 2 * 4));
        packed_fill(from, masks + mask_bytes, (size_t)bytes, zeros);
        mask_bytes += (size_t)bytes;
        if (bytes == 8 && !one_in(from, 400)) masks[mask_bytes - 1] &= 0x7F;
    }
    packed_fill(from, dc, blocks, 2);
    const int count = packed_bits(masks, mask_bytes);
    const size_t bytes = (size_t)(count + 7) / 8;
    uint8_t *const kinds = masks + mask_bytes, *const signs = kinds + bytes, *const small = signs + bytes;
    packed_fill(from, kinds, bytes, zeros);
    packed_fill(from, signs, bytes, 0);
    if (count % 8) {
        kinds[bytes - 1] &= (uint8_t)((1 << count % 8) - 1);
        signs[bytes - 1] &= (uint8_t)((1 << count % 8) - 1);
    }
    int smalls = 0, larges = 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t is_small = (uint8_t)(kinds[i] & ~signs[i]), is_large = kinds[i] & signs[i];
        smalls += packed_bits(&is_small, 1);
        larges += packed_bits(&is_large, 1);
    }
    const size_t small_bytes = (size_t)(smalls + 1) / 2;
    packed_fill(from, small, small_bytes, 0);
    if (smalls % 2) small[small_bytes - 1] &= 15;
    uint8_t *const large = small + small_bytes;
    size_t wide = 0;
    for (int i = 0; i < larges; i++) {
        large[i] = one_in(from, 20) ? 0x80 : (uint8_t)next(from);
        wide += large[i] == 0x80;
    }
    for (size_t i = 0; i < blocks; i++) wide += dc[i] == 0x80;
    packed_fill(from, large + larges, 2 * wide, 2);
    return (size_t)(large + larges + 2 * wide - to);
}

/* Makes segments of applications and comments, at times ones that say how the image is read; returns their bytes. */
static size_t make_segments(source *from, uint8_t *to) {
    static const uint8_t known[][20] = {
        {0xFF, 0xE0, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0},
        {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 1},
        {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0},
        {0xFF, 0xE2, 0, 8, 'M', 'P', 'F', 0, 0, 0},
    };
    size_t at = 0;
    for (int count = below(from, 3); count; count--) {
        if (one_in(from, 3)) {
            const uint8_t *segment = known[below(from, one_in(from, 8) ? 4 : 3)];
            memcpy(to + at, segment, 2 + (size_t)segment[3]);
            at += 2 + (size_t)segment[3];
        } else {
            const int size = 2 + below(from, 12);
            const uint8_t start[4] = {0xFF, one_in(from, 2) ? 0xFE : (uint8_t)(0xE0 + below(from, 16)), 0,
                                      (uint8_t)size};
            memcpy(to + at, start, 4);
            packed_fill(from, to + at + 4, (size_t)size - 2, 0);
            at += 2 + (size_t)size;
        }
    }
    return at;
}

static size_t put_number(uint8_t *to, size_t number) {
    size_t count = 0;
    for (; number > 127; number >>= 7) to[count++] = (uint8_t)(number | 128);
    to[count++] = (uint8_t)number;
    return count;
}

/* Makes an outline of a file with those components, more or less sound; returns its bytes. */
static size_t make_outline(source *from, uint8_t *to, int components, const uint8_t *ids) {
    size_t at = 0;
    const uint8_t kind = (uint8_t)(0xC0 + below(from, 3));
    const uint8_t frame[] = {0xFF, 0xD8, 0xFF, kind, 0, 4, 1, 2};
    memcpy(to, frame, sizeof frame);
    at += sizeof frame;
    for (int table = 0; table < 4; table++) { /* a code of 8 bits for each of 255 symbols, or of 5 for 16 */
        const int count = table & 1 ? 255 : 16, bits = table & 1 ? 8 : 5;
        const uint8_t start[] = {0xFF, 0xC4, 0, (uint8_t)(19 + count), (uint8_t)((table & 1) << 4 | table >> 1)};
        memcpy(to + at, start, sizeof start);
        to[at + 2] = (uint8_t)((19 + count) >> 8);
        at += sizeof start;
        memset(to + at, 0, 16);
        to[at + (size_t)bits - 1] = (uint8_t)count;
        at += 16;
        for (int i = 0; i < count; i++) to[at++] = (uint8_t)i;
    }
    if (one_in(from, 3)) {
        const uint8_t interval[] = {0xFF, 0xDD, 0, 4, 0, (uint8_t)below(from, 6)};
        memcpy(to + at, interval, sizeof interval);
        at += sizeof interval;
    }
    const int scans = kind == 0xC2 ? 1 + components + components * below(from, 3) : 1;
    for (int scan = 0; scan < scans; scan++) {
        const bool all = scan == 0;
        const int count = all ? components : 1, component = (scan - 1) % components, round = (scan - 1) / components;
        const uint8_t start[] = {0xFF, 0xDA, 0, (uint8_t)(6 + 2 * count), (uint8_t)count};
        memcpy(to + at, start, sizeof start);
        at += sizeof start;
        for (int i = 0; i < count; i++) {
            to[at++] = ids[all ? i : component];
            to[at++] = (uint8_t)(one_in(from, 2) ? 0x11 : 0);
        }
        const int most = (scans - 1) / components - 1;
        to[at++] = all ? 0 : 1;
        to[at++] = all && kind == 0xC2 ? 0 : 63;
        to[at++] = (uint8_t)(all ? 0 : round ? (most - round + 1) << 4 | (most - round) : most);
    }
    to[at++] = 0xFF;
    to[at++] = 0xD9;
    if (one_in(from, 4)) to[below(from, (int)at)] = (uint8_t)next(from);
    return at;
}

/* Makes a section of the JPEG's own bytes, more or less sound; returns its bytes. */
static size_t make_original(source *from, uint8_t *to, int components, const uint8_t *ids) {
    static uint8_t outline[2048];
    const size_t outline_size = make_outline(from, outline, components, ids);
    const size_t about = (size_t)below(from, 60);
    size_t at = put_number(to, about);
    packed_fill(from, to + at, about, 0);
    at += about;
    at += put_number(to + at, one_in(from, 2) ? (size_t)1 << 40 : (size_t)below(from, 4000));
    at += put_number(to + at, outline_size + (one_in(from, 16) ? (size_t)below(from, 9) : 0));
    uint8_t literal[8];
    const size_t size = put_number(literal, 2 * outline_size);
    uint8_t copy[16];
    size_t copied = 0; /* bytes of the text that the head gives, after the literal */
    if (one_in(from, 8)) {
        copied = put_number(copy, 2 * (size_t)below(from, 40) + 1);
        copied += put_number(copy + copied, (size_t)below(from, 2000));
    }
    at += put_number(to + at, size + outline_size + copied);
    memcpy(to + at, literal, size);
    memcpy(to + at + size, outline, outline_size);
    memcpy(to + at + size + outline_size, copy, copied);
    at += size + outline_size + copied;
    to[at++] = (uint8_t)below(from, 2);
    const size_t ends = one_in(from, 2) ? (size_t)below(from, 12) : 0;
    at += put_number(to + at, ends);
    packed_fill(from, to + at, ends, 2);
    at += ends;
    const size_t dummies = one_in(from, 2) ? (size_t)below(from, 40) : 0;
    packed_fill(from, to + at, dummies, 2);
    return at + dummies;
}

/* Makes a packed image of any size, sampling and tables, of which each row is one that there can be. */
static size_t make_packed(source *from, uint8_t *to) {
    static const uint8_t start[12] = {0x89, 'F', 'P', 'J', '\r', '\n', 0x1A, '\n', 1, 0, 0, 0};
    const int components = one_in(from, 4) ? 1 : 3, tables = 1 + below(from, components);
    int factors[3][2] = {{1, 1}, {1, 1}, {1, 1}}, most[2] = {1, 1};
    if (components == 3) {
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 2; k++)
                factors[i][k] = one_in(from, 6) ? 1 + below(from, 4) : i == 0 ? 1 << below(from, 2) : 1;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 2; k++) most[k] = factors[i][k] > most[k] ? factors[i][k] : most[k];
    }
    const int height = 1 + below(from, 40), width = 1 + below(from, one_in(from, 4) ? 300 : 60);
    const int rows = (height + 8 * most[1] - 1) / (8 * most[1]);
    const size_t index = PACKED_FIXED + 128 * (size_t)tables, size = index + 8 * (size_t)rows + 4;
    memset(to, 0, size);
    memcpy(to, start, sizeof start);
    to[10] = (uint8_t)components;
    to[11] = (uint8_t)(components == 1 ? FPC_GRAY : one_in(from, 3) ? FPC_RGB : FPC_YCBCR);
    const bool rgb_ids = (to[11] == FPC_RGB) != (bool)one_in(from, 8);
    packed_put(to + 12, (uint64_t)height, 4);
    packed_put(to + 16, (uint64_t)width, 4);
    to[20] = (uint8_t)(one_in(from, 8) ? 1 + below(from, 8) : 1);
    to[21] = (uint8_t)(0xC0 + below(from, 3));
    to[22] = (uint8_t)tables;
    for (int i = 0; i < components; i++) {
        const uint8_t plane[4] = {rgb_ids ? (uint8_t)"RGB"[i] : (uint8_t)(i + 1), (uint8_t)factors[i][0],
                                  (uint8_t)factors[i][1], (uint8_t)below(from, tables)};
        memcpy(to + 24 + 4 * i, plane, 4);
    }
    packed_put(to + 36, size, 4);
    const bool steep = one_in(from, 8);
    for (size_t i = 0; i < 128 * (size_t)tables; i += 2)
        packed_put(to + PACKED_FIXED + i, steep ? next(from) : (uint64_t)(1 + below(from, 12)), 2);
    size_t at = size;
    for (int row = 0; row < rows; row++) {
        size_t blocks = 0;
        for (int i = 0; i < components; i++) {
            const int wide = ((width * factors[i][0] + most[0] - 1) / most[0] + 7) / 8;
            const int high = ((height * factors[i][1] + most[1] - 1) / most[1] + 7) / 8 - row * factors[i][1];
            blocks += (size_t)(wide * (high < factors[i][1] ? high : factors[i][1]));
        }
        if (at + blocks * 280 + 64 > PACKED_ROOM) break;
        const size_t bytes = make_row(from, to + at, blocks);
        packed_put(to + index + 8 * (size_t)row, bytes, 4);
        at += bytes;
    }
    if (one_in(from, 4)) {
        const size_t segments = make_segments(from, to + at), trailer = (size_t)below(from, 20);
        packed_fill(from, to + at + segments, trailer, 0);
        packed_put(to + 48, segments, 8);
        at += segments + trailer;
    }
    if (one_in(from, 2) && at + 4096 < PACKED_ROOM) {
        const uint8_t ids[3] = {to[24], to[28], to[32]};
        const size_t original = make_original(from, to + at, components, ids);
        packed_put(to + 68, original, 4);
        at += original;
    }
    if (one_in(from, 3)) {
        for (int changes = 1 + below(from, 3); changes; changes--) to[below(from, (int)at)] = (uint8_t)next(from);
    }
    mend_packed(to, at);
    return at;
}

/* The pixels of a whole file; NULL with *status where there are none. */
static uint8_t *decode_whole(fpc_context *context, const uint8_t *data, size_t length, fpc_header *header,
                             int *status) {
    *status = fpc_read_header(data, length, header);
    if (*status != FPC_OK || (int64_t)header->height * header->width > MOST_PIXELS) return NULL;
    const int64_t row = 3 * (int64_t)header->width;
    uint8_t *pixels = malloc((size_t)(row * header->height));
    if (pixels == NULL) abort();
    fpc_job job = {.data = data, .length = (int64_t)length, .max_bytes = 64 << 20};
    job.sink = (fpc_sink){pixels, row, 3, 1, header->height, header->width, 3, FPC_UINT8, 0, {0}, {0}};
    *status = fpc_run(context, &job);
    if (*status == FPC_OK) return pixels;
    free(pixels);
    return NULL;
}

/* Two files of the same coefficients have the same pixels. */
static void compare_files(const uint8_t *one, size_t one_length, const uint8_t *other, size_t other_length) {
    fpc_header headers[2];
    int statuses[2];
    uint8_t *first = decode_whole(contexts[0], one, one_length, &headers[0], &statuses[0]);
    uint8_t *second = decode_whole(contexts[0], other, other_length, &headers[1], &statuses[1]);
    if ((first == NULL) != (second == NULL)) fail("packed and not packed end differently", statuses[0], statuses[1]);
    if (first != NULL) {
        if (headers[0].height != headers[1].height || headers[0].width != headers[1].width)
            fail("packed and not packed have other sizes", 0, 0);
        if (memcmp(first, second, 3 * (size_t)headers[0].height * (size_t)headers[0].width) != 0)
            fail("packed and not packed have other pixels", 0, 0);
    }
    free(first);
    free(second);
}

/* A packed image that is unpacked is whole, and its head alone is the beginning of the JPEG. */
static void check_head(const uint8_t *data, size_t length, const uint8_t *jpeg, size_t jpeg_length) {
    const uint8_t *head;
    size_t size;
    for (int k = 0; k < 2; k++) {
        if (fpc_packed_check(packers[k], data, length) != FPC_OK) fail("what is unpacked isn't whole", k, 0);
        const int status = fpc_unpack_head(packers[k], data, length, 0, &head, &size);
        if (status != FPC_OK) fail("what is unpacked has no head", status, k);
        if (size > jpeg_length || memcmp(head, jpeg, size) != 0) fail("the head of a JPEG has other bytes", k, 0);
    }
}

/* Packs a JPEG, or unpacks a packed image, in two instruction sets, which have to agree; FPC_OK and a copy of what is
 * made, or why there is none. */
static int pack_or_unpack(const uint8_t *data, size_t length, int64_t most, bool is_packed, const uint8_t *about,
                          uint8_t **copy, size_t *size) {
    const uint8_t *made[2];
    size_t sizes[2];
    int statuses[2];
    *copy = NULL;
    for (int k = 0; k < 2; k++) {
        if (packers[k] == NULL) packers[k] = fpc_packer_new(k == 0 ? BEST_ISA : FPC_ISA_PORTABLE);
        if (packers[k] == NULL) abort();
        statuses[k] = is_packed ? fpc_unpack(packers[k], data, length, most, &made[k], &sizes[k])
                                : fpc_pack(packers[k], data, length, most, about, about ? 5 : 0, &made[k], &sizes[k]);
    }
    if (is_packed && statuses[0] != FPC_OK && packers[0] != NULL) {
        const uint8_t *head;
        fpc_packed_check(packers[0], data, length);
        fpc_unpack_head(packers[0], data, length, most, &head, &sizes[0]);
    }
    if (statuses[0] != statuses[1]) fail("packing ends differently", statuses[0], statuses[1]);
    if (statuses[0] != FPC_OK) return statuses[0];
    if (sizes[0] != sizes[1] || memcmp(made[0], made[1], sizes[0]) != 0) fail("packing gives other bytes", 0, 0);
    *size = sizes[0];
    *copy = malloc(sizes[0]);
    if (*copy == NULL) abort();
    memcpy(*copy, made[0], sizes[0]);
    if (is_packed) check_head(data, length, *copy, *size);
    return FPC_OK;
}

/* Packs a JPEG with its own bytes: it comes back, or is another one than its coefficients give. */
static void pack_exactly(const uint8_t *data, size_t length) {
    uint8_t *packed, *jpeg;
    size_t packed_length, jpeg_length;
    const int without = pack_or_unpack(data, length, 0, false, NULL, &packed, &packed_length);
    free(packed);
    const int status = pack_or_unpack(data, length, 0, false, (const uint8_t *)"about", &packed, &packed_length);
    if (without != FPC_OK || status == FPC_OTHER_BYTES) {
        if (without != FPC_OK && status != without)
            fail("packing with the JPEG's own bytes ends differently", status, without);
        return;
    }
    if (status != FPC_OK) fail("packing with the JPEG's own bytes fails", status, 0);
    if (pack_or_unpack(packed, packed_length, 0, true, NULL, &jpeg, &jpeg_length) != FPC_OK)
        fail("a JPEG doesn't come back", 0, 0);
    if (jpeg_length != length || memcmp(jpeg, data, length) != 0) fail("another JPEG comes back", 0, 0);
    compare_files(data, length, packed, packed_length);
    free(packed);
    free(jpeg);
}

/* A packed image that is decoded is unpacked, unless that takes too much memory or its trailer is damaged. */
static void check_refusal(int status, const uint8_t *data, size_t length) {
    fpc_header header;
    int decoded_as;
    if (status == FPC_TOO_LARGE || status == FPC_NO_MEMORY || status == FPC_BAD_CHECKSUM) return;
    uint8_t *pixels = decode_whole(contexts[0], data, length, &header, &decoded_as);
    if (pixels != NULL) fail("a packed image is decoded, and not unpacked", status, 0);
    free(pixels);
}

static void pack_and_unpack(source *from, const uint8_t *data, size_t length) {
    const bool is_packed = length >= 4 && memcmp(data,
                                                 "\x89"
                                                 "FPJ",
                                                 4) == 0;
    const int64_t most = one_in(from, 20) ? 1 + below(from, 100000) : 64 << 20;
    uint8_t *copy;
    size_t size;
    int same = 0;
    const int made = pack_or_unpack(data, length, most, is_packed, NULL, &copy, &size);
    const uint64_t original = is_packed && length >= PACKED_FIXED ? packed_get(data + 68, 4) : 0;
    if (original != 0) {
        /* Whether this is the JPEG, its SHA-256 and its coefficients say to Python. Without it all else is compared. */
        free(copy);
        if (original > length - PACKED_FIXED) return;
        uint8_t *rest = malloc(length - (size_t)original);
        if (rest == NULL) abort();
        memcpy(rest, data, length - (size_t)original);
        packed_put(rest + 68, 0, 4);
        mend_packed(rest, length - (size_t)original);
        pack_and_unpack(from, rest, length - (size_t)original);
        free(rest);
        return;
    }
    if (made != FPC_OK) {
        if (is_packed) check_refusal(made, data, length);
        return;
    }
    const uint8_t *jpeg = is_packed ? copy : data, *packed = is_packed ? data : copy;
    const size_t jpeg_length = is_packed ? size : length, packed_length = is_packed ? length : size;
    const int status = fpc_same_coefficients(packers[0], jpeg, jpeg_length, packed, packed_length, 0, &same);
    if (status != FPC_OK || !same) fail("a packed image has other coefficients", status, is_packed);
    fpc_header headers[2];
    if (fpc_read_header(jpeg, jpeg_length, &headers[0]) != FPC_OK) fail("what can't be read was packed", is_packed, 0);
    if (fpc_read_header(packed, packed_length, &headers[1]) != FPC_OK) fail("a packed image can't be read", 0, 0);
    if (headers[0].color != headers[1].color || headers[0].orientation != headers[1].orientation)
        fail("packed and not packed have other colors or orientations", headers[0].color, headers[1].color);
    compare_files(jpeg, jpeg_length, packed, packed_length);
    pack_exactly(jpeg, jpeg_length);
    decoded++;
    free(copy);
}

/* ---- files of which parts are read ---- */

#if defined(_WIN32)
#include <process.h>
#define getpid _getpid
#else
#include <unistd.h>
#endif

static char part_path[64];

static void remove_part_file(void) { remove(part_path); }

/* Writes a file into the folder for such files, with other bytes around it; false where there is no such folder. */
static bool write_around(const uint8_t *data, size_t length, size_t before, size_t behind) {
    static const uint8_t other[64] = {0x89, 'F', 'P', 'J'};
    if (!part_path[0]) {
        snprintf(part_path, sizeof part_path, "/tmp/fpc-fuzzer-%ld", (long)getpid());
        atexit(remove_part_file);
    }
    FILE *file = fopen(part_path, "wb");
    if (file == NULL) return false;
    const bool written = fwrite(other, 1, before, file) == before && fwrite(data, 1, length, file) == length &&
                         fwrite(other, 1, behind, file) == behind;
    return fclose(file) == 0 && written;
}

/* Compares a box of a packed image in memory with that of a member of a file, of which the core reads parts: the pixels
 * have to be the same. */
static void read_by_parts(source *from, const uint8_t *data, size_t length) {
    const size_t before = (size_t)below(from, 64), behind = (size_t)below(from, 64);
    fpc_header header;
    fpc_box box = {0, 0, 0, 0};
    const bool readable = length > 0 && fpc_read_header(data, length, &header) == FPC_OK;
    int32_t height = 16, width = 16;
    if (readable) {
        if ((int64_t)header.height * header.width > MOST_PIXELS) return;
        box.top = below(from, header.height);
        box.left = below(from, header.width);
        box.height = height = 1 + below(from, header.height - box.top);
        box.width = width = 1 + below(from, header.width - box.left);
    }
    if (length == 0 || !write_around(data, length, before, behind)) return;
    uint8_t *pixels[2];
    int statuses[2];
    for (int k = 0; k < 2; k++) {
        pixels[k] = calloc((size_t)height * (size_t)width, 3);
        if (pixels[k] == NULL) abort();
        fpc_job job = {.box = box, .length = (int64_t)length, .max_bytes = 64 << 20};
        if (k == 0) {
            job.data = data;
        } else {
            job.path = part_path;
            job.offset = (int64_t)before;
        }
        job.sink = (fpc_sink){pixels[k], 3 * (int64_t)width, 3, 1, height, width, 3, FPC_UINT8, 0, {0}, {0}};
        statuses[k] = fpc_run(contexts[0], &job);
    }
    if ((statuses[0] == FPC_OK) != (statuses[1] == FPC_OK)) fail("parts end differently", statuses[0], statuses[1]);
    if (statuses[0] == FPC_OK && memcmp(pixels[0], pixels[1], 3 * (size_t)height * (size_t)width) != 0)
        fail("parts have other pixels", 0, 0);
    free(pixels[0]);
    free(pixels[1]);
}
