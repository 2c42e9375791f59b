/* rgbx_pad.h: the byte after red, green and blue in Pillow's images, which is no part of them, but which Pillow's
 * functions leave in one state or another. What it is in a job's result is worked out before the job runs: one value
 * for all pixels nearly always. */
#ifndef FPC_RGBX_PAD_H
#define FPC_RGBX_PAD_H

#include "fastpipe_core.h"
#include "kernels.h"

enum {
    FPC_RGBX_PAD_ALONG = -1, /* the source's, moved with the pixels: the job's rows have four channels */
    FPC_RGBX_PAD_PLANE = -2  /* anything else: an image of its own, with operations of its own */
};

/* Whether the rows of an operation's stage may have four channels. */
bool fpc_carries_rgbx_pad(const fpc_operation *operation);

/* The result's fourth byte, or one of the above. `from`: the source's where that is known; else FPC_RGBX_PAD_ALONG. The
 * operations are done to an image of that size. */
int32_t fpc_rgbx_pad_of(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width, int32_t from);

/* The fourth byte of all pixels in a box where it is one value; else FPC_RGBX_PAD_PLANE. */
int32_t fpc_common_rgbx_pad(const fpc_kernels *kernels, const fpc_pixels *pixels, const fpc_box *box);

/* Operations on the fourth bytes of all pixels, as an image of one channel. */
#define FPC_MOST_PLANE_OPERATIONS 32
typedef struct fpc_plane_operations {
    int32_t count;
    fpc_operation operations[FPC_MOST_PLANE_OPERATIONS];
    uint8_t tables[FPC_MOST_PLANE_OPERATIONS][256]; /* of the look-ups among them */
} fpc_plane_operations;

/* A flag of FPC_OP_SHARPNESS: the smoothed image is 0, as Pillow's filters leave the fourth byte. */
enum { FPC_SMOOTHED_TO_ZERO = 1 };

/* Makes the operations that a job's are for the fourth bytes; false where there are too many. */
bool fpc_make_plane_operations(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width,
                               fpc_plane_operations *plane);

#endif
