/* fastpipe_core_tensors.h: torch's and torchvision's operations on image tensors in memory, each by one call; a part of
 * the core's interface. */
#ifndef FASTPIPE_CORE_TENSORS_H
#define FASTPIPE_CORE_TENSORS_H

#include "fastpipe_core.h"

/* torch's grid_sample(padding_mode="zeros", align_corners=False) of uint8 tensors (N, C, H, W) of 1 or 3 channels. If
 * there is a fill, an image of ones is sampled, too: it says how much of each point is image, and the rest becomes the
 * fill, as in torchvision's tensor backend.
 * shape: images, channels, height, width, and the result's height and width.
 * theta: torchvision's affine grid, where the image goes from -1 to 1: pixel (x, y) of the result, counted from its
 *        middle, shows (theta[0] x + theta[2] y + theta[4], theta[1] x + theta[3] y + theta[5]); every product and sum
 *        is rounded.
 * grid: if not NULL, used instead of theta: a point (x, y) for each pixel, the same for all images.
 * fill: a value for each channel, 0 to 255; NULL for black. out: bytes, rounded to nearest even, or FLOATS.
 * FUSED: multiply-adds are rounded as torch rounds them with FMA. V2: the fill is mixed in as v2 does, not v1. */
enum { FPC_GRID_SAMPLE_BILINEAR = 1, FPC_GRID_SAMPLE_FUSED = 2, FPC_GRID_SAMPLE_FLOATS = 4, FPC_GRID_SAMPLE_V2 = 8 };
FPC_API int fpc_grid_sample_planes(fpc_context *context, const uint8_t *in, const int32_t shape[6], const float *theta,
                                   const float *grid, const float *fill, int flags, void *out);

/* FPC_OP_TENSOR_GRAY (three channels to one), _SATURATION, _CONTRAST, _AUTOCONTRAST or FPC_OP_EQUALIZE of uint8 tensors
 * (N, C, H, W) of that `shape`, up to a third faster than fpc_run_series. `out` must not overlap `in`.
 * FPC_BAD_OPERATION if torchvision leaves the images unchanged; the content of `out` is then undefined. */
FPC_API int fpc_change_planes(const fpc_context *context, const fpc_operation *operation, const uint8_t *in,
                              const int32_t shape[4], uint8_t *out);
/* torchvision's adjust_hue of tensors (N, 3, H, W): bytes, or floats from 0 to 1, without a sign; FPC_UNSURE for other
 * floats, and the content of `out` is then undefined. shape: N, H, W. `out` must not overlap `in`.
 * V1: as torchvision.transforms, not v2. FROM_PIXELS, TO_PIXELS: a pixel's channels follow each other, not a plane's
 * values, in `in` and in `out`. by: -0.5 to 0.5 turns. */
enum { FPC_HUE_FLOATS = 1, FPC_HUE_V1 = 2, FPC_HUE_FROM_PIXELS = 4, FPC_HUE_TO_PIXELS = 8 };
FPC_API int fpc_adjust_hue(const fpc_context *context, const void *in, const int32_t shape[3], int flags, float by,
                           void *out);
/* torch's interpolate(mode="bilinear", antialias=True) of float32 images. shape: channels, height, width, and those of
 * the result. strides: of channels, rows and columns; a row's values follow each other, or a pixel's do. */
FPC_API int fpc_resize_floats(fpc_context *context, const void *in, const int64_t strides[3], const int32_t shape[5],
                              int flags, void *out);
/* torchvision's gaussian_blur of float32 images: the sums of FPC_OP_TORCH_BLUR before they are rounded to bytes. shape:
 * planes, height, width. weights: `kernel[0]` along rows, then `kernel[1]` down columns; both numbers are odd, and half
 * of each is less than the image's size. `out` must not overlap `in`. */
FPC_API int fpc_blur_floats(fpc_context *context, const float *in, const int32_t shape[3], const float *weights,
                            const int32_t kernel[2], float *out);
/* Adds up images of `count` bytes times weights (0 to 1, with the sum 1), in float32 and in order, and truncates. */
FPC_API int fpc_mix_planes(const fpc_context *context, const uint8_t *const *images, const float *weights,
                           int image_count, int64_t count, uint8_t *out);

#endif
