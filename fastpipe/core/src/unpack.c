/* unpack.c: a packed image as a JPEG again: sequential, with Huffman codes that are the best for it (jchuff.c). */
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "pack.h"
#include "packed.h"

#define SYMBOLS 257 /* and one that keeps a code of nothing but ones from being given out */
#define LONGEST 16

/* A code: how often each symbol is wanted, and its bits. */
typedef struct code {
    uint32_t counts[SYMBOLS];
    uint8_t lengths[256];
    uint16_t bits[256];
    uint8_t of_length[LONGEST + 1]; /* as a DHT segment has them */
    uint8_t symbols[256];
    int symbol_count;
} code;

/* The components of a scan. */
typedef struct scan_plan {
    int first, count;
} scan_plan;

typedef struct writer {
    const fpc_coefficients *kind;
    void *source;
    const fpc_packed_head *head;
    const fpc_frame *frame;
    fpc_bytes *out;
    code dc[2], ac[2]; /* of the first component, and of the others */
    bool counts;       /* symbols are counted, not written */
    bool fits;         /* no value needs more bits than a code can say */
    int most_dc, most_ac;
    uint16_t predictions[3];
    uint64_t bits; /* the lowest `bit_count` ones aren't written yet */
    uint32_t bit_count;
} writer;

/* ---- bytes and bits ---- */

static void put(fpc_bytes *out, int byte) {
    const uint8_t one = (uint8_t)byte;
    fpc_bytes_add(out, &one, 1);
}

static void put16(fpc_bytes *out, int number) {
    put(out, number >> 8);
    put(out, number);
}

static void put_marker(fpc_bytes *out, int marker) { put16(out, 0xFF00 | marker); }

static void put_bits(writer *to, uint32_t bits, uint32_t count) {
    to->bits = to->bits << count | bits;
    to->bit_count += count;
    while (to->bit_count >= 8) {
        to->bit_count -= 8;
        const uint8_t byte = (uint8_t)(to->bits >> to->bit_count);
        put(to->out, byte);
        if (byte == 0xFF) put(to->out, 0);
    }
}

static void put_symbol(writer *to, code *of, int symbol) {
    if (to->counts)
        of->counts[symbol]++;
    else
        put_bits(to, of->bits[symbol], of->lengths[symbol]);
}

/* ---- blocks ---- */

static int size_of(int value) {
    int size = 0;
    for (uint32_t left = (uint32_t)(value < 0 ? -value : value); left; left >>= 1) size++;
    return size;
}

/* The bits of a value behind its symbol (T.81, F.1.2.1). */
static void put_value(writer *to, int value, int size) {
    if (to->counts || !size) return;
    put_bits(to, (uint32_t)(value < 0 ? value - 1 : value) & ((1u << size) - 1), (uint32_t)size);
}

static void put_dc(writer *to, code *of, int difference) {
    const int size = size_of(difference);
    if (size > 15) to->fits = false;
    if (size > to->most_dc) to->most_dc = size;
    put_symbol(to, of, size & 15);
    put_value(to, difference, size & 15);
}

static void put_ac(writer *to, code *of, const int16_t *block, int last) {
    int run = 0, k = 1;
    for (; k <= last; k++) {
        const int value = block[fpc_natural_order[k + 1]];
        if (!value) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16) put_symbol(to, of, 0xF0);
        const int size = size_of(value);
        if (size > 15) to->fits = false;
        if (size > to->most_ac) to->most_ac = size;
        put_symbol(to, of, run << 4 | (size & 15));
        put_value(to, value, size & 15);
        run = 0;
    }
    if (run || last < 63) put_symbol(to, of, 0);
}

/* A block of a component, or one that only fills up an MCU: that is flat, and as the one before. */
static void put_block(writer *to, int component, int row, int x, int y) {
    const fpc_plane *plane = &to->frame->planes[component];
    const int table = component > 0;
    if (x >= plane->blocks_wide || y >= fpc_packed_block_rows(plane, row)) {
        put_dc(to, &to->dc[table], 0);
        put_symbol(to, &to->ac[table], 0);
        return;
    }
    const size_t at = (size_t)y * (size_t)plane->stride + (size_t)x;
    const int16_t *block = plane->coefficients + 64 * at;
    const int difference = (int16_t)(uint16_t)((uint32_t)block[0] - to->predictions[component]);
    to->predictions[component] = (uint16_t)block[0];
    put_dc(to, &to->dc[table], difference);
    put_ac(to, &to->ac[table], block, plane->last[at]);
}

/* The row of MCUs that was decoded last; alone, a component's MCU is a block (T.81, A.2.2). */
static void put_row(writer *to, const scan_plan *scan, int row) {
    if (scan->count == 1) {
        const fpc_plane *plane = &to->frame->planes[scan->first];
        const int rows = fpc_packed_block_rows(plane, row);
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < plane->blocks_wide; x++) put_block(to, scan->first, row, x, y);
        return;
    }
    for (int column = 0; column < to->frame->mcu_columns; column++) {
        for (int i = 0; i < scan->count; i++) {
            const fpc_plane *plane = &to->frame->planes[i];
            for (int y = 0; y < plane->vertical; y++)
                for (int x = 0; x < plane->horizontal; x++) put_block(to, i, row, column * plane->horizontal + x, y);
        }
    }
}

static int put_rows(writer *to, const scan_plan *scan, bool counts, int64_t max_bytes) {
    const fpc_frame *frame = to->frame;
    to->counts = counts;
    memset(to->predictions, 0, sizeof to->predictions);
    int status = to->kind->start(to->source, 0, frame->mcu_columns, 0, frame->mcu_rows, max_bytes);
    for (int row = 0; !status && row < frame->mcu_rows; row++) {
        status = to->kind->next_row(to->source);
        if (!status) put_row(to, scan, row);
        if (!status && to->out->failed) status = FPC_NO_MEMORY;
    }
    return status;
}

/* ---- codes ---- */

/* The least wanted symbol that is wanted at all and isn't `other`; of several the last one; -1 for none. */
static int rarest(const uint64_t *counts, int other) {
    int found = -1;
    for (int i = 0; i < SYMBOLS; i++)
        if (counts[i] && i != other && (found < 0 || counts[i] <= counts[found])) found = i;
    return found;
}

/* The best lengths, none above LONGEST (T.81, K.2; jchuff.c, jpeg_gen_optimal_table). */
static void make_lengths(code *of) {
    enum { MOST = SYMBOLS };
    uint64_t counts[SYMBOLS];
    int lengths[SYMBOLS] = {0}, others[SYMBOLS], number[MOST + 1] = {0};
    for (int i = 0; i < SYMBOLS; i++) counts[i] = of->counts[i], others[i] = -1;
    counts[SYMBOLS - 1] = 1;
    for (;;) {
        int first = rarest(counts, -1), second = rarest(counts, first);
        if (second < 0) break;
        counts[first] += counts[second];
        counts[second] = 0;
        for (lengths[first]++; others[first] >= 0; lengths[first]++) first = others[first];
        others[first] = second;
        for (lengths[second]++; others[second] >= 0; lengths[second]++) second = others[second];
    }
    for (int i = 0; i < SYMBOLS; i++) number[lengths[i]]++;
    for (int length = MOST; length > LONGEST; length--) {
        while (number[length] > 0) {
            int shorter = length - 2;
            while (!number[shorter]) shorter--;
            number[length] -= 2;
            number[length - 1]++;
            number[shorter + 1] += 2;
            number[shorter]--;
        }
    }
    int longest = LONGEST;
    while (!number[longest]) longest--;
    number[longest]--; /* the one of nothing but ones */
    of->symbol_count = 0;
    for (int length = 1; length <= LONGEST; length++) of->of_length[length] = (uint8_t)number[length];
    for (int length = 1; length < SYMBOLS; length++)
        for (int i = 0; i < SYMBOLS - 1; i++)
            if (lengths[i] == length) of->symbols[of->symbol_count++] = (uint8_t)i;
}

static void make_code(code *of) {
    make_lengths(of);
    uint32_t next = 0;
    int at = 0;
    for (int length = 1; length <= LONGEST; length++, next <<= 1) {
        for (int i = 0; i < of->of_length[length]; i++, at++, next++) {
            of->lengths[of->symbols[at]] = (uint8_t)length;
            of->bits[of->symbols[at]] = (uint16_t)next;
        }
    }
}

static void put_code(fpc_bytes *out, const code *of, int number) {
    put_marker(out, FPC_DHT);
    put16(out, 2 + 1 + LONGEST + of->symbol_count);
    put(out, number);
    fpc_bytes_add(out, of->of_length + 1, LONGEST);
    fpc_bytes_add(out, of->symbols, (size_t)of->symbol_count);
}

/* ---- the file ---- */

static void put_tables(writer *to, bool *wide) {
    for (int i = 0; i < to->frame->header.components; i++) {
        const uint16_t *table = to->frame->planes[i].quantization;
        bool more = false;
        for (int k = 0; k < 64; k++) more |= table[k] > 255;
        *wide |= more;
        put_marker(to->out, FPC_DQT);
        put16(to->out, 2 + 1 + (more ? 128 : 64));
        put(to->out, more << 4 | i);
        for (int k = 0; k < 64; k++) {
            const int step = table[fpc_natural_order[k + 1]];
            if (more) put(to->out, step >> 8);
            put(to->out, step);
        }
    }
}

static void put_frame(writer *to, int marker) {
    const fpc_header *header = &to->frame->header;
    put_marker(to->out, marker);
    put16(to->out, 8 + 3 * header->components);
    put(to->out, 8);
    put16(to->out, header->height);
    put16(to->out, header->width);
    put(to->out, header->components);
    for (int i = 0; i < header->components; i++) {
        put(to->out, to->head->ids[i]);
        put(to->out, to->frame->planes[i].horizontal << 4 | to->frame->planes[i].vertical);
        put(to->out, i);
    }
}

static int put_scan(writer *to, const scan_plan *scan, int64_t max_bytes) {
    memset(to->dc, 0, sizeof to->dc);
    memset(to->ac, 0, sizeof to->ac);
    int status = put_rows(to, scan, true, max_bytes);
    if (status) return status;
    if (!to->fits) return FPC_BAD_CODE;
    for (int table = 0; table < 2; table++) {
        if (table ? scan->first + scan->count == 1 : scan->first > 0) continue; /* nothing has this one */
        make_code(&to->dc[table]);
        make_code(&to->ac[table]);
        put_code(to->out, &to->dc[table], table);
        put_code(to->out, &to->ac[table], 0x10 | table);
    }
    put_marker(to->out, FPC_SOS);
    put16(to->out, 6 + 2 * scan->count);
    put(to->out, scan->count);
    for (int i = scan->first; i < scan->first + scan->count; i++) {
        put(to->out, to->head->ids[i]);
        put(to->out, i > 0 ? 0x11 : 0);
    }
    put(to->out, 0);
    put(to->out, 63);
    put(to->out, 0);
    status = put_rows(to, scan, false, max_bytes);
    if (to->bit_count) put_bits(to, 0x7F, 7); /* ones fill up the last byte */
    to->bit_count = 0;
    return status;
}

/* One scan of all components, or one for each where an MCU would have too many blocks. */
static int plan_scans(const fpc_frame *frame, scan_plan plans[3]) {
    const int count = frame->header.components;
    int blocks = 0;
    for (int i = 0; i < count; i++) blocks += frame->planes[i].horizontal * frame->planes[i].vertical;
    if (count == 1 || blocks <= FPC_MAX_MCU_BLOCKS) {
        plans[0] = (scan_plan){0, count};
        return 1;
    }
    for (int i = 0; i < count; i++) plans[i] = (scan_plan){i, 1};
    return count;
}

static int write_file(writer *to, const uint8_t *rest, int64_t max_bytes) {
    fpc_bytes *out = to->out;
    const fpc_packed_head *head = to->head;
    scan_plan plans[3];
    const int count = plan_scans(to->frame, plans);
    bool wide = false;
    put_marker(out, 0xD8);
    fpc_bytes_add(out, rest, (size_t)head->segments_size);
    put_tables(to, &wide);
    const size_t frame = out->size;
    put_frame(to, FPC_SOF0);
    for (int i = 0; i < count; i++) {
        const int status = put_scan(to, &plans[i], max_bytes);
        if (status) return status;
    }
    put_marker(out, FPC_EOI);
    fpc_bytes_add(out, rest + head->segments_size, (size_t)head->trailer_size);
    if (out->failed) return FPC_NO_MEMORY;
    /* T.81, F.1.2: beyond these it isn't baseline. */
    if (wide || to->most_dc > 11 || to->most_ac > 10) out->data[frame + 1] = FPC_SOF1;
    return FPC_OK;
}

int fpc_unpack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t **jpeg,
               size_t *size) {
    *jpeg = NULL;
    *size = 0;
    fpc_packer_begin(packer);
    writer *to = calloc(1, sizeof *to);
    void *source = fpc_packer_packed(packer);
    int status = to && source ? FPC_OK : FPC_NO_MEMORY;
    fpc_packed_head head;
    if (!status) status = fpc_packed_coefficients.open(source, data, length, &to->frame);
    if (!status) status = fpc_packed_read_head(data, length, &head);
    if (!status) {
        const uint8_t *rest = data + head.size + head.rows_size;
        const size_t rest_size = (size_t)(head.segments_size + head.trailer_size);
        *to = (writer){.kind = &fpc_packed_coefficients,
                       .source = source,
                       .head = &head,
                       .frame = to->frame,
                       .out = &packer->out,
                       .fits = true};
        if (packer->kernels->crc32(0, rest, rest_size) != head.rest_sum) status = FPC_BAD_CHECKSUM;
        if (!status) status = write_file(to, rest, max_bytes);
    }
    free(to);
    if (status) return status;
    *jpeg = packer->out.data;
    *size = packer->out.size;
    return FPC_OK;
}
