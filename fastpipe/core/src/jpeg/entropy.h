/* entropy.h: the decoder of a JPEG's coefficients, only for the decoder's own files: segments, scans and its state. */
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

/* The tables that segments define; the has_… fields are bit masks of the tables that are defined. */
typedef struct fpc_tables {
    uint16_t quantization[FPC_MAX_TABLES][64]; /* natural order */
    fpc_huffman_spec dc[FPC_MAX_TABLES], ac[FPC_MAX_TABLES];
    uint32_t has_quantization, has_dc, has_ac;
    uint32_t restart_interval; /* in MCUs; 0: none */
} fpc_tables;

/* The positions of the segments that a decoder needs. */
typedef struct fpc_segments {
    fpc_header header;
    int frame_marker;
    size_t frame;          /* the frame's data, after its length */
    size_t scan, scan_end; /* the scan's header, after its length */
    size_t exif, exif_end; /* the first Exif segment's data; 0 if there is none */
    int exif_segments;
    size_t xmp, xmp_end; /* the last segment with XMP */
    int fault;           /* why the file can't be decoded though its header is valid; FPC_OK if it can */
} fpc_segments;

/* Walks the segments up to the first scan. Reads tables only if `tables` isn't NULL. */
int fpc_walk(const uint8_t *data, size_t length, fpc_segments *segments, fpc_tables *tables);

/* True if a marker begins an application segment (APP0 to APP15) or a comment. */
static inline bool fpc_is_metadata(int marker) {
    return (marker >= FPC_APP0 && marker <= FPC_APP15) || marker == FPC_COM;
}

/* Sets the fields of a header that application segments and comments decide: color, orientation and multi_picture. The
 * data consists only of such segments; `ids` are the identifiers of the frame's components. */
int fpc_read_metadata(const uint8_t *data, size_t length, const uint8_t *ids, int count, fpc_header *header);

/* Read the data of a DQT, DHT or DRI segment; FPC_OK or a refusal. */
int fpc_read_quantization(fpc_tables *tables, const uint8_t *data, size_t length);
int fpc_read_huffman_specs(fpc_tables *tables, const uint8_t *data, size_t length);
int fpc_read_interval(fpc_tables *tables, const uint8_t *data, size_t length);

/* Reads the orientation (exif.c) from EXIF data (a TIFF structure) and XMP, each NULL if there is none. FPC_OK, or
 * FPC_UNUSUAL_HEADER if Pillow has to read it. */
int fpc_orientation_of(const uint8_t *exif, size_t exif_length, const uint8_t *xmp, size_t xmp_length,
                       int32_t *orientation);
/* Reads the orientation from a JPEG's segments (exif.c): FPC_OK, or FPC_UNUSUAL_HEADER if Pillow has to read it. */
int fpc_read_orientation(const uint8_t *data, const fpc_segments *segments, int32_t *orientation);
/* False if Pillow may refuse a JPEG because of its EXIF data's resolution (exif.c). */
bool fpc_exif_is_readable(const uint8_t *data, const fpc_segments *segments);

/* ---- scans ---- */

typedef struct fpc_component {
    uint8_t id, quantization;
    int horizontal, vertical;
    int blocks_wide, blocks_high; /* of the component */
    int stored_wide, stored_high; /* including the blocks that fill up the last MCUs */
} fpc_component;

/* A scan's header. */
typedef struct fpc_scan {
    int count;
    int component[FPC_MAX_COMPONENTS]; /* indices, ascending */
    int dc_table[FPC_MAX_COMPONENTS], ac_table[FPC_MAX_COMPONENTS];
    int first, last, high, low;
} fpc_scan;

/* The position of the next marker but restart markers, from `start` in a scan on (ITU-T T.81, B.1.1), or -1. */
int64_t fpc_find_marker(const uint8_t *data, size_t length, size_t start);
/* Reads a scan's header, which begins after its length; FPC_OK or FPC_BAD_SCAN. Doesn't check that its tables exist. */
int fpc_read_scan(fpc_scan *scan, const uint8_t *data, size_t length, const fpc_component *components, int count);

/* The lowest bit of each coefficient that the scans so far have given. (scans.c) */
typedef struct fpc_progress {
    int8_t low[FPC_MAX_COMPONENTS][64];
} fpc_progress;

void fpc_progress_start(fpc_progress *progress);
/* Notes the coefficients and bits that a scan gives. Refuses a scan that doesn't continue the earlier ones, and a
 * progressive scan without its tables. */
int fpc_progress_note(fpc_progress *progress, bool progressive, const fpc_scan *scan, const fpc_tables *tables);
/* True if the scans have given all bits of all coefficients. */
bool fpc_progress_complete(const fpc_progress *progress, int components);

/* A walk through a file's scans, which reads their headers and the segments between them. (scans.c) */
typedef struct fpc_scan_walk {
    const uint8_t *data;
    size_t length, position; /* the position of the scan's data; at last that after the end marker */
    const fpc_component *components;
    int count; /* of the components */
    bool progressive;
    fpc_tables *tables; /* those for the scan */
    fpc_scan *scan;     /* its header */
    fpc_progress progress;
    int scans;
    bool ended; /* the last scan has been passed */
} fpc_scan_walk;

/* Begins at the first scan, whose position, header and tables are set; FPC_OK or a refusal. */
int fpc_scan_walk_start(fpc_scan_walk *walk);
/* Goes on from the marker after a scan, where `position` is, to the next scan or the end of the image; FPC_OK or a
 * refusal: also of an end at which bits of coefficients are missing. */
int fpc_scan_walk_next(fpc_scan_walk *walk);

/* The coefficients of one component: the blocks of the box in one MCU row, or all of the image. */
typedef struct fpc_store {
    fpc_buffer coefficients, last, nonzero;
    int stride; /* blocks per row */
} fpc_store;

/* The Huffman code from which a table was made. */
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
    int whole;            /* 1: all scans are decoded before the first row is handed out */
    uint32_t interleaved; /* bit mask of the components that came in a scan of several: their MCUs are filled up */
    bool warned;          /* libjpeg warns about a scan's header, or about data after its last code */

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
    /* The codes from which these tables were made, for sequential scans: many files have the same codes. */
    fpc_table_source made_dc[FPC_MAX_TABLES], made_ac[FPC_MAX_TABLES], made_skip[FPC_MAX_TABLES];
    fpc_symbol_words words;
    fpc_bitstream bits;
};

/* Makes the scan's tables and the blocks of its MCU, and begins with the scan's data at `input`. (sequential.c) */
int fpc_scan_start(fpc_jpeg *jpeg, const uint8_t *input, int skips);
/* Makes the table of DC differences with this number. */
void fpc_scan_make_dc(fpc_jpeg *jpeg, int number);
/* Begins with the scan's data at `input`. */
void fpc_scan_begin(fpc_jpeg *jpeg, const uint8_t *input);
/* Reads what is needed before the next MCU: a restart marker, or more data. FPC_OK or a refusal. */
int fpc_scan_prepare(fpc_jpeg *jpeg);
/* Notes if data is left over at the end of a scan or a restart interval. */
void fpc_scan_end(fpc_jpeg *jpeg);
/* Decodes `count` MCUs into the blocks' outputs, or skips them. */
int fpc_scan_decode(fpc_jpeg *jpeg, uint32_t count, int skip);
/* Lists the blocks of the scan's MCU in order; FPC_OK, or FPC_UNSUPPORTED_COLOR if there are too many. */
int fpc_scan_blocks(fpc_jpeg *jpeg);
/* Points the MCU's blocks to MCU row `row` of the stores. */
void fpc_scan_aim(fpc_jpeg *jpeg, int row);
/* Sets the numbers of MCU columns and rows of the scan. */
void fpc_scan_size(const fpc_jpeg *jpeg, int *columns, int *rows);

/* Decodes all scans into the stores. (scans.c) */
int fpc_decode_scans(fpc_jpeg *jpeg);

/* Decodes one scan of a progressive file into the stores; the caller has checked its header. (progressive.c) */
int fpc_progressive_scan(fpc_jpeg *jpeg, const uint8_t *input);

#endif
