/* restore.h: writes JPEGs from a packed image and an outline of the file. */
#ifndef FPC_RESTORE_H
#define FPC_RESTORE_H

#include "encode.h"
#include "entropy.h"
#include "original.h"
#include "packer.h"

/* The JPEG that must result. */
typedef struct fpc_reference {
    const uint8_t *data;
    size_t length;
    bool learns;       /* notes how its scans and restart intervals end */
    fpc_bytes ends[2]; /* as in fpc_original: the ends that aren't all zeros, and those that aren't all ones */
    uint64_t noted[2]; /* per list of `ends`: the number of the last noted end plus 1 */
} fpc_reference;

typedef struct fpc_restorer {
    void *source;
    const fpc_frame *frame;
    fpc_packed_head head;
    fpc_bytes *out;
    int64_t max_bytes;
    const uint8_t *segments, *segments_end; /* the remaining application and comment segments */
    const uint8_t *trailer;
    fpc_original original; /* only its ends, dummies and padding are used */
    uint64_t most;         /* the most bytes of the JPEG */
    fpc_reference *reference;
    size_t compared;
    bool head_only;            /* stop before the first scan's data */
    fpc_symbol_counts *counts; /* of the first component and of the others; if set, nothing is written */

    fpc_tables tables;
    fpc_component components[FPC_MAX_COMPONENTS];
    fpc_progress progress;
    fpc_scan scan;
    bool progressive;
    fpc_codes dc[FPC_MAX_TABLES], ac[FPC_MAX_TABLES];
    fpc_encoder encoder;
    int previous[FPC_MAX_COMPONENTS]; /* the DC of the last block */
    uint32_t until_restart;
    int next_restart;
    uint64_t interval; /* the number of the interval that ends next; next_end is that of the next one in `ends` */
    uint64_t next_end;
    fpc_numbers ends;
    int16_t flat[64];
    fpc_numbers dummies;
    uint64_t usual_dummies; /* usual blocks before the next one in `dummies` */
    fpc_buffer *dummy_blocks;
    size_t first_dummy[FPC_MAX_COMPONENTS + 1]; /* per component; then their total number */
} fpc_restorer;

/* Opens a packed image, and checks its parts after the rows. The packer owns the large restorer and its source. */
int fpc_restorer_open(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes,
                      fpc_restorer **restorer);
/* Counts the symbols of a sequential scan of these components. */
int fpc_restorer_count(fpc_restorer *restorer, int first, int count, fpc_symbol_counts counts[2]);
/* Writes the JPEG with this outline to packer->restored. */
int fpc_restorer_write(fpc_restorer *restorer, const uint8_t *outline, size_t size);
/* Writes the JPEG whose bytes the opened packed image keeps; FPC_OTHER_BYTES if there is a `reference` that differs. */
int fpc_restorer_write_original(fpc_restorer *restorer, const uint8_t *data, fpc_reference *reference);

/* The position after a scan's data: the next marker, or the end of the file. */
size_t fpc_behind_scan(const uint8_t *data, size_t length, size_t position);

#endif
