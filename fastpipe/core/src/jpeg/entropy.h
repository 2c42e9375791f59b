/* entropy.h: the decoder of a JPEG's coefficients, for its own files: segments as they were read, scans, its state. */
#ifndef FPC_ENTROPY_H
#define FPC_ENTROPY_H

#include <stdbool.h>

#include "fastpipe_core.h"
#include "jpeg.h"
#include "kernels.h"
#include "memory.h"

#define FPC_MAX_TABLES 4
#define FPC_MAX_DIMENSION 65500 /* jmorecfg.h, JPEG_MAX_DIMENSION */
#define FPC_MAX_SCANS 500

/* Markers. */
enum {
    FPC_SOF0 = 0xC0,
    FPC_SOF1 = 0xC1,
    FPC_SOF2 = 0xC2,
    FPC_DHT = 0xC4,
    FPC_JPG = 0xC8,
    FPC_DAC = 0xCC,
    FPC_SOF15 = 0xCF,
    FPC_RST0 = 0xD0,
    FPC_RST7 = 0xD7,
    FPC_EOI = 0xD9,
    FPC_SOS = 0xDA,
    FPC_DQT = 0xDB,
    FPC_DRI = 0xDD,
    FPC_APP0 = 0xE0,
    FPC_APP15 = 0xEF,
    FPC_COM = 0xFE
};

/* ---- segments (markers.c) ---- */

/* The tables that segments define; what is there is kept as bits. */
typedef struct fpc_tables {
    uint16_t quantization[FPC_MAX_TABLES][64]; /* natural order */
    fpc_huffman_spec dc[FPC_MAX_TABLES], ac[FPC_MAX_TABLES];
    uint32_t has_quantization, has_dc, has_ac;
    uint32_t restart_interval; /* in MCUs; 0: none */
} fpc_tables;

/* Offsets of the segments that a decoder needs. */
typedef struct fpc_segments {
    fpc_header header;
    int frame_marker;
    size_t frame;          /* the frame's data, after the length */
    size_t scan, scan_end; /* the scan's header, after the length */
    size_t exif, exif_end; /* the first Exif segment's data; 0 where there is none */
    int exif_segments;
    size_t xmp, xmp_end; /* the last one with XMP */
    int fault;           /* why the file can't be decoded though it has a header; FPC_OK where it can */
} fpc_segments;

/* Walks the segments up to the first scan. Without `tables` the tables aren't read. */
int fpc_walk(const uint8_t *data, size_t length, fpc_segments *segments, fpc_tables *tables);

/* Whether a marker is one of applications (APP0 to APP15) or comments. */
static inline bool fpc_is_metadata(int marker) {
    return (marker >= FPC_APP0 && marker <= FPC_APP15) || marker == FPC_COM;
}

/* Fills in the fields of a header that segments of applications and comments decide: color, orientation and
 * multi_picture. The data are nothing but such segments; a frame's components have these identifiers. */
int fpc_read_metadata(const uint8_t *data, size_t length, const uint8_t *ids, int count, fpc_header *header);

/* A DQT, DHT or DRI segment's data; FPC_OK or a refusal. */
int fpc_read_quantization(fpc_tables *tables, const uint8_t *data, size_t length);
int fpc_read_huffman_specs(fpc_tables *tables, const uint8_t *data, size_t length);
int fpc_read_interval(fpc_tables *tables, const uint8_t *data, size_t length);

/* The orientation (exif.c) that EXIF data (a TIFF structure) and XMP say, each NULL where there is none: FPC_OK, or
 * FPC_UNUSUAL_HEADER where Pillow has to read it. */
int fpc_orientation_of(const uint8_t *exif, size_t exif_length, const uint8_t *xmp, size_t xmp_length,
                       int32_t *orientation);
/* The orientation that a JPEG's segments say (exif.c): FPC_OK, or FPC_UNUSUAL_HEADER where Pillow has to read it. */
int fpc_read_orientation(const uint8_t *data, const fpc_segments *segments, int32_t *orientation);
/* False where Pillow may refuse a JPEG for what its EXIF data say of the resolution (exif.c). */
bool fpc_exif_is_readable(const uint8_t *data, const fpc_segments *segments);

/* ---- scans ---- */

typedef struct fpc_component {
    uint8_t id, quantization;
    int horizontal, vertical;
    int blocks_wide, blocks_high; /* of the component */
    int stored_wide, stored_high; /* with those that fill up the last MCUs */
} fpc_component;

/* A scan's header. */
typedef struct fpc_scan {
    int count;
    int component[FPC_MAX_COMPONENTS]; /* indices, rising */
    int dc_table[FPC_MAX_COMPONENTS], ac_table[FPC_MAX_COMPONENTS];
    int first, last, high, low;
} fpc_scan;

/* Reads a scan's header, from after its length on; FPC_OK or FPC_BAD_SCAN. Tables aren't looked for. */
int fpc_read_scan(fpc_scan *scan, const uint8_t *data, size_t length, const fpc_component *components, int count);

/* The lowest bit that has come of each coefficient. (scans.c) */
typedef struct fpc_progress {
    int8_t low[FPC_MAX_COMPONENTS][64];
} fpc_progress;

void fpc_progress_start(fpc_progress *progress);
/* Notes what a scan brings; refuses one that isn't what comes next. */
int fpc_progress_note(fpc_progress *progress, int progressive, const fpc_scan *scan, const fpc_tables *tables);
/* Whether all bits of all coefficients have come. */
int fpc_progress_complete(const fpc_progress *progress, int components);

/* One component's coefficients: the box's blocks of one MCU row, or all of the image's. */
typedef struct fpc_store {
    fpc_buffer coefficients, last, nonzero;
    int stride; /* blocks a row */
} fpc_store;

/* The Huffman code that a table was made of. */
typedef struct fpc_table_source {
    int made;
    fpc_huffman_spec spec;
} fpc_table_source;

struct fpc_jpeg {
    const fpc_kernels *kernels;
    const uint8_t *data;
    size_t length;
    fpc_segments segments;
    fpc_tables tables;
    fpc_frame frame;
    fpc_component components[FPC_MAX_COMPONENTS];
    int component_count;
    fpc_scan scan;
    int whole;            /* 1: the scans are decoded in full before the first row is handed out */
    uint32_t interleaved; /* components, as bits, that have come in a scan of several: their MCUs are filled up */
    bool warned;          /* libjpeg warns: of a scan's header, or of data after its last code */

    /* The box in MCUs, and the next row. */
    int column, column_end, row, row_end, next_row;

    fpc_mcu mcu;
    uint32_t until_restart; /* MCUs */
    int next_restart;
    fpc_store stores[FPC_MAX_COMPONENTS];

    /* Tables. */
    fpc_dc_table dc[FPC_MAX_TABLES];
    fpc_ac_table ac[FPC_MAX_TABLES];
    fpc_skip_table skip[FPC_MAX_TABLES];
    /* The codes that these tables were made of, for sequential scans: many files have the same codes. */
    fpc_table_source made_dc[FPC_MAX_TABLES], made_ac[FPC_MAX_TABLES], made_skip[FPC_MAX_TABLES];
    fpc_symbol_words words;
    fpc_bitstream bits;
};

/* Makes the scan's tables and the blocks of its MCU, and begins with its data at `input`. (sequential.c) */
int fpc_scan_start(fpc_jpeg *jpeg, const uint8_t *input, int skips);
/* The table of DC differences of that number. */
void fpc_scan_make_dc(fpc_jpeg *jpeg, int number);
/* Begins with a scan's data at `input`. */
void fpc_scan_begin(fpc_jpeg *jpeg, const uint8_t *input);
/* Takes what comes before the next MCU: a restart marker, or more data. FPC_OK or a refusal. */
int fpc_scan_prepare(fpc_jpeg *jpeg);
/* Notes whether data is left over where a scan or a restart interval ends. */
void fpc_scan_end(fpc_jpeg *jpeg);
/* Decodes `count` MCUs into the blocks' outputs, or skips them. */
int fpc_scan_decode(fpc_jpeg *jpeg, uint32_t count, int skip);
/* The blocks of the scan's MCU in their order; FPC_OK, or FPC_UNSUPPORTED_COLOR where they are too many. */
int fpc_scan_blocks(fpc_jpeg *jpeg);
/* Points the MCU's blocks to row `row` of MCUs in the stores. */
void fpc_scan_aim(fpc_jpeg *jpeg, int row);
/* MCUs of the scan. */
void fpc_scan_size(const fpc_jpeg *jpeg, int *columns, int *rows);

/* Decodes all scans from the first on into the stores. (scans.c) */
int fpc_decode_scans(fpc_jpeg *jpeg);

/* Decodes one scan of a progressive file into the stores; its header has been checked. (progressive.c) */
int fpc_progressive_scan(fpc_jpeg *jpeg, const uint8_t *input);

#endif
