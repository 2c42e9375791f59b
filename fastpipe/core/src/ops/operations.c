/* operations.c: the table of the functions that add the stage of each kind of operation. */
#include "rgbx_pad.h"
#include "operations.h"

static fpc_add_stage *const STAGES[FPC_OP_COUNT] = {
    [FPC_OP_CROP] = fpc_add_crop,
    [FPC_OP_HFLIP] = fpc_add_hflip,
    [FPC_OP_VFLIP] = fpc_add_vflip,
    [FPC_OP_TRANSPOSE] = fpc_add_transpose,
    [FPC_OP_PAD] = fpc_add_pad,
    [FPC_OP_LUT] = fpc_add_lut,
    [FPC_OP_GRAY] = fpc_add_gray,
    [FPC_OP_SATURATION] = fpc_add_saturation,
    [FPC_OP_CONTRAST] = fpc_add_contrast,
    [FPC_OP_SHARPNESS] = fpc_add_sharpness,
    [FPC_OP_HUE] = fpc_add_hue,
    [FPC_OP_AUTOCONTRAST] = fpc_add_autocontrast,
    [FPC_OP_EQUALIZE] = fpc_add_equalize,
    [FPC_OP_AFFINE] = fpc_add_warp,
    [FPC_OP_PERSPECTIVE] = fpc_add_warp,
    [FPC_OP_BOX_BLUR] = fpc_add_blur,
    [FPC_OP_GAUSSIAN_BLUR] = fpc_add_blur,
    [FPC_OP_TENSOR_GRAY] = fpc_add_tensor_gray,
    [FPC_OP_TENSOR_SATURATION] = fpc_add_tensor_saturation,
    [FPC_OP_TENSOR_CONTRAST] = fpc_add_tensor_contrast,
    [FPC_OP_TENSOR_SHARPNESS] = fpc_add_tensor_sharpness,
    [FPC_OP_TENSOR_HUE] = fpc_add_tensor_hue,
    [FPC_OP_TENSOR_AUTOCONTRAST] = fpc_add_tensor_autocontrast,
    [FPC_OP_TENSOR_SAMPLE] = fpc_add_tensor_sample,
    [FPC_OP_TORCH_BLUR] = fpc_add_torch_blur,
    [FPC_OP_PERMUTE] = fpc_add_permute,
    [FPC_OP_FLOAT_RESIZE] = fpc_add_float_resize,
    [FPC_OP_CV_RESIZE] = fpc_add_cv_resize,
};

int fpc_add_operation(fpc_chain *chain, const fpc_operation *operation) {
    const int32_t kind = operation->kind;
    if (kind < 0 || kind >= FPC_OP_COUNT || !STAGES[kind]) return FPC_BAD_OPERATION;
    if (chain->last->channels == 4 && !fpc_carries_rgbx_pad(operation)) return FPC_BAD_OPERATION;
    return STAGES[kind](chain, operation);
}
