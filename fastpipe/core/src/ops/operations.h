/* operations.h: the stages of operations. A new one needs an fpc_kind, a function here and a row in operations.c. */
#ifndef FPC_OPERATIONS_H
#define FPC_OPERATIONS_H

#include "stage.h"

/* Adds an operation's stage to a chain that has a source. FPC_OK; FPC_BAD_OPERATION if the arguments don't fit the
 * image; FPC_TOO_LARGE, FPC_NO_MEMORY, or an earlier stage's status. */
typedef int fpc_add_stage(fpc_chain *chain, const fpc_operation *operation);

/* Adds any operation except a resize (resample.h). */
fpc_add_stage fpc_add_operation;

/* geometry.c */
fpc_add_stage fpc_add_crop, fpc_add_hflip, fpc_add_vflip, fpc_add_transpose, fpc_add_pad;
/* lut.c */
fpc_add_stage fpc_add_lut, fpc_add_contrast, fpc_add_autocontrast, fpc_add_equalize;
fpc_add_stage fpc_add_tensor_contrast, fpc_add_tensor_autocontrast;
/* adjust.c */
fpc_add_stage fpc_add_gray, fpc_add_permute, fpc_add_saturation, fpc_add_hue;
/* sharpness.c */
fpc_add_stage fpc_add_sharpness, fpc_add_tensor_sharpness;
/* tensors.c */
fpc_add_stage fpc_add_tensor_gray, fpc_add_tensor_saturation, fpc_add_tensor_hue;
fpc_add_stage fpc_add_tensor_sample;
/* torch_blur.c */
fpc_add_stage fpc_add_torch_blur;
/* cv_resize.c */
fpc_add_stage fpc_add_cv_resize;
/* float_resize.c */
fpc_add_stage fpc_add_float_resize;
/* warp.c */
fpc_add_stage fpc_add_warp;
/* blur.c */
fpc_add_stage fpc_add_blur;

#endif
