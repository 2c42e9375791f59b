/* unpack.c: makes a JPEG from a packed image: with its own bytes, or, if they were discarded, a sequential one with
 * optimal Huffman codes (jchuff.c). */
#include <string.h>

#include "restore.h"

#define SYMBOLS 257 /* and one more, which takes the code of only ones, so that no other symbol gets it */
#define LONGEST 16

/* A code in the form of a DHT segment. */
typedef struct code {
    uint8_t of_length[LONGEST + 1];
    uint8_t symbols[256];
    int symbol_count;
} code;

/* The components of a scan. */
typedef struct scan_plan {
    int first, count;
} scan_plan;

/* What is needed to write the outline. */
typedef struct writer {
    fpc_restorer *restorer;
    fpc_bytes *outline;
    fpc_symbol_counts counts[2]; /* of the first component, and of the others */
    int most_dc, most_ac;        /* the most bits of a value */
} writer;

static void put16(fpc_bytes *out, int number) {
    fpc_bytes_put(out, number >> 8);
    fpc_bytes_put(out, number);
}

static void put_marker(fpc_bytes *out, int marker) { put16(out, 0xFF00 | marker); }

/* ---- codes ---- */

/* The rarest symbol that occurs and isn't `other`; the last one if several are equally rare; -1 if there is none. */
static int rarest(const uint64_t *counts, int other) {
    int found = -1;
    for (int i = 0; i < SYMBOLS; i++)
        if (counts[i] && i != other && (found < 0 || counts[i] <= counts[found])) found = i;
    return found;
}

/* Finds the optimal lengths up to LONGEST (T.81, K.2; jchuff.c, jpeg_gen_optimal_table). */
static void make_code(code *of, const uint32_t wanted[256]) {
    enum { MOST = SYMBOLS };
    uint64_t counts[SYMBOLS];
    int lengths[SYMBOLS] = {0}, others[SYMBOLS], number[MOST + 1] = {0};
    for (int i = 0; i < SYMBOLS - 1; i++) counts[i] = wanted[i];
    for (int i = 0; i < SYMBOLS; i++) others[i] = -1;
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
    number[longest]--; /* the code of only ones isn't used */
    of->symbol_count = 0;
    for (int length = 1; length <= LONGEST; length++) of->of_length[length] = (uint8_t)number[length];
    for (int length = 1; length < SYMBOLS; length++)
        for (int i = 0; i < SYMBOLS - 1; i++)
            if (lengths[i] == length) of->symbols[of->symbol_count++] = (uint8_t)i;
}

static void put_code(fpc_bytes *out, const uint32_t wanted[256], int number) {
    code made;
    make_code(&made, wanted);
    put_marker(out, FPC_DHT);
    put16(out, 2 + 1 + LONGEST + made.symbol_count);
    fpc_bytes_put(out, number);
    fpc_bytes_add(out, made.of_length + 1, LONGEST);
    fpc_bytes_add(out, made.symbols, (size_t)made.symbol_count);
}

/* ---- the file ---- */

/* Writes the markers of all application and comment segments, which come first. */
static void put_segments(writer *to) {
    const uint8_t *at = to->restorer->segments;
    while (to->restorer->segments_end - at >= 4) {
        put_marker(to->outline, at[1]);
        at += 2 + ((size_t)at[2] << 8 | at[3]);
    }
}

/* Writes a table for each component; returns true if one needs more than 8 bits. */
static bool put_tables(writer *to) {
    const fpc_frame *frame = to->restorer->frame;
    fpc_bytes *out = to->outline;
    bool wide = false;
    for (int i = 0; i < frame->header.components; i++) {
        const uint16_t *table = frame->planes[i].quantization;
        bool more = false;
        for (int k = 0; k < 64; k++) more |= table[k] > 255;
        wide |= more;
        put_marker(out, FPC_DQT);
        put16(out, 2 + 1 + (more ? 128 : 64));
        fpc_bytes_put(out, more << 4 | i);
        for (int k = 0; k < 64; k++) {
            const int step = table[fpc_natural_order[k + 1]];
            if (more) fpc_bytes_put(out, step >> 8);
            fpc_bytes_put(out, step);
        }
    }
    return wide;
}

static void put_frame(writer *to) {
    const fpc_frame *frame = to->restorer->frame;
    fpc_bytes *out = to->outline;
    put_marker(out, FPC_SOF0);
    put16(out, 8 + 3 * frame->header.components);
    fpc_bytes_put(out, 8);
    put16(out, frame->header.height);
    put16(out, frame->header.width);
    fpc_bytes_put(out, frame->header.components);
    for (int i = 0; i < frame->header.components; i++) {
        fpc_bytes_put(out, to->restorer->head.ids[i]);
        fpc_bytes_put(out, frame->planes[i].horizontal << 4 | frame->planes[i].vertical);
        fpc_bytes_put(out, i);
    }
}

/* Counts a scan's symbols, and writes its codes and header. */
static int put_scan(writer *to, const scan_plan *scan) {
    fpc_bytes *out = to->outline;
    memset(to->counts, 0, sizeof to->counts);
    to->counts[0].fits = to->counts[1].fits = true;
    const int status = fpc_restorer_count(to->restorer, scan->first, scan->count, to->counts);
    if (status) return status;
    for (int table = 0; table < 2; table++) {
        const fpc_symbol_counts *counts = &to->counts[table];
        if (!counts->fits) return FPC_BAD_CODE;
        if (table ? scan->first + scan->count == 1 : scan->first > 0) continue; /* no component of the scan uses it */
        put_code(out, counts->dc, table);
        put_code(out, counts->ac, 0x10 | table);
        for (int symbol = 0; symbol < 256; symbol++) {
            if (counts->dc[symbol] && symbol > to->most_dc) to->most_dc = symbol;
            if (counts->ac[symbol] && (symbol & 15) > to->most_ac) to->most_ac = symbol & 15;
        }
    }
    put_marker(out, FPC_SOS);
    put16(out, 6 + 2 * scan->count);
    fpc_bytes_put(out, scan->count);
    for (int i = scan->first; i < scan->first + scan->count; i++) {
        fpc_bytes_put(out, to->restorer->head.ids[i]);
        fpc_bytes_put(out, i > 0 ? 0x11 : 0);
    }
    fpc_bytes_put(out, 0);
    fpc_bytes_put(out, 63);
    fpc_bytes_put(out, 0);
    return FPC_OK;
}

/* Plans one scan of all components, or one per component if an MCU would have too many blocks. */
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

static int write_file(writer *to) {
    fpc_bytes *out = to->outline;
    scan_plan plans[3];
    const int count = plan_scans(to->restorer->frame, plans);
    put_marker(out, 0xD8);
    put_segments(to);
    const bool wide = put_tables(to);
    const size_t frame = out->size;
    put_frame(to);
    for (int i = 0; i < count; i++) {
        const int status = put_scan(to, &plans[i]);
        if (status) return status;
    }
    put_marker(out, FPC_EOI);
    if (out->failed) return FPC_NO_MEMORY;
    /* T.81, F.1.2: beyond these limits it isn't baseline. */
    if (wide || to->most_dc > 11 || to->most_ac > 10) out->data[frame + 1] = FPC_SOF1;
    return fpc_restorer_write(to->restorer, out->data, out->size);
}

static int restore(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, bool head_only,
                   const uint8_t **jpeg, size_t *size) {
    *jpeg = NULL;
    *size = 0;
    fpc_packer_begin(packer);
    writer to = {.outline = &packer->outline};
    int status = fpc_restorer_open(packer, data, length, max_bytes, &to.restorer);
    if (status) return status;
    to.restorer->head_only = head_only;
    status = to.restorer->head.original_size ? fpc_restorer_write_original(to.restorer, data, NULL) : write_file(&to);
    if (status) return status;
    *jpeg = packer->restored.data;
    *size = packer->restored.size;
    return FPC_OK;
}

int fpc_unpack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t **jpeg,
               size_t *size) {
    return restore(packer, data, length, max_bytes, false, jpeg, size);
}

int fpc_unpack_head(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t **head,
                    size_t *size) {
    return restore(packer, data, length, max_bytes, true, head, size);
}
