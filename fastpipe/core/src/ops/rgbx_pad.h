/* rgbx_pad.h: the byte after red, green and blue in Pillow's images, which is no part of them, but which Pillow's
 * functions set in their own ways. Its value in a job's result, nearly always one for all pixels, is worked out
 * first. */
#ifndef FPC_RGBX_PAD_H
#define FPC_RGBX_PAD_H

#include "fastpipe_core.h"
#include "kernels.h"

enum {
    FPC_RGBX_PAD_ALONG = -1, /* the source's bytes move with the pixels: the job's rows have four channels */
    FPC_RGBX_PAD_PLANE = -2  /* anything else: the bytes are an image with its own operations */
};

/* True if the rows of an operation's stage may have four channels. */
bool fpc_carries_rgbx_pad(const fpc_operation *operation);

/* The fourth byte of the result, or one of the constants above. `from` is the source's fourth byte if it is known, else
 * FPC_RGBX_PAD_ALONG. The operations' input has this size. */
int32_t fpc_rgbx_pad_of(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width, int32_t from);

/* The fourth byte of the pixels in a box, if all are equal; else FPC_RGBX_PAD_PLANE. */
int32_t fpc_common_rgbx_pad(const fpc_kernels *kernels, const fpc_pixels *pixels, const fpc_box *box);

/* The operations on all fourth bytes, which are an image of one channel. */
#define FPC_MOST_PLANE_OPERATIONS 32
typedef struct fpc_plane_operations {
    int32_t count;
    fpc_operation operations[FPC_MOST_PLANE_OPERATIONS];
    uint8_t tables[FPC_MOST_PLANE_OPERATIONS][256]; /* of the look-ups */
} fpc_plane_operations;

/* A flag of FPC_OP_SHARPNESS: the smoothed image is 0, as the fourth byte after Pillow's filters. */
enum { FPC_SMOOTHED_TO_ZERO = 1 };

/* Makes the operations on the fourth bytes for a job; false if there are too many. */
bool fpc_make_plane_operations(const fpc_kernels *kernels, const fpc_job *job, int32_t height, int32_t width,
                               fpc_plane_operations *plane);

#endif
