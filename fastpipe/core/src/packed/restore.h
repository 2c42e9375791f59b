/* restore.h: JPEGs written from a packed image and an outline of the file. */
#ifndef FPC_RESTORE_H
#define FPC_RESTORE_H

#include "encode.h"
#include "entropy.h"
#include "original.h"
#include "packer.h"

/* The JPEG that is to come out. */
typedef struct fpc_reference {
    const uint8_t *data;
    size_t length;
    bool learns;       /* how its scans and restart intervals end is noted */
    fpc_bytes ends[2]; /* as fpc_original has them: those that aren't filled up by zeros alone, and by ones alone */
    uint64_t noted[2]; /* for each list of `ends`: the number after that of the last one noted */
} fpc_reference;

typedef struct fpc_restorer {
    void *source;
    const fpc_frame *frame;
    fpc_packed_head head;
    fpc_bytes *out;
    int64_t max_bytes;
    const uint8_t *segments, *segments_end; /* those of applications and comments that are left */
    const uint8_t *trailer;
    fpc_original original; /* its ends, dummies and padding */
    uint64_t most;         /* the most bytes that the JPEG may have */
    fpc_reference *reference;
    size_t compared;
    fpc_symbol_counts *counts; /* of the first component and of the others; then nothing is written */

    fpc_tables tables;
    fpc_component components[FPC_MAX_COMPONENTS];
    fpc_progress progress;
    fpc_scan scan;
    bool progressive;
    fpc_codes dc[FPC_MAX_TABLES], ac[FPC_MAX_TABLES];
    fpc_encoder encoder;
    int previous[FPC_MAX_COMPONENTS]; /* the DC of the block before */
    uint32_t until_restart;
    int next_restart;
    uint64_t interval; /* the number of the interval that ends next, and that of the next one in `ends` */
    uint64_t next_end;
    fpc_numbers ends;
    int16_t flat[64];
    fpc_numbers dummies;
    uint64_t usual_dummies; /* usual blocks before the next one in `dummies` */
    fpc_buffer *dummy_blocks;
    size_t first_dummy[FPC_MAX_COMPONENTS + 1]; /* of each component, and how many there are */
} fpc_restorer;

/* Opens a packed image, and checks its parts after the rows. The restorer, which is large, and its source are the
 * packer's. */
int fpc_restorer_open(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes,
                      fpc_restorer **restorer);
/* Goes over a sequential scan of these components, in `counts`. */
int fpc_restorer_count(fpc_restorer *restorer, int first, int count, fpc_symbol_counts counts[2]);
/* Writes the JPEG of an outline to packer->restored. */
int fpc_restorer_write(fpc_restorer *restorer, const uint8_t *outline, size_t size);
/* Writes the JPEG that the opened packed image keeps the bytes of; with a reference FPC_OTHER_BYTES where it is another
 * one. */
int fpc_restorer_write_original(fpc_restorer *restorer, const uint8_t *data, fpc_reference *reference);

/* The position after a scan's data: that of the next marker, or the end of the file. */
size_t fpc_behind_scan(const uint8_t *data, size_t length, size_t position);

#endif
