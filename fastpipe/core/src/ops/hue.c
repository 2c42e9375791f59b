/* hue.c: fpc_adjust_hue: torchvision's adjust_hue of tensors; hue_plain.h has the arithmetic. */
#include "hue.h"

#include "context.h"
#include "fastpipe_core_tensors.h"

int fpc_adjust_hue(const fpc_context *context, const void *in, const int32_t shape[3], int flags, float by, void *out) {
    const int32_t images = shape[0], height = shape[1], width = shape[2];
    const int known = FPC_HUE_FLOATS | FPC_HUE_V1 | FPC_HUE_FROM_PIXELS | FPC_HUE_TO_PIXELS;
    if (images < 0 || height < 1 || width < 1 || flags & ~known) return FPC_BAD_OPERATION;
    if (!(by >= -0.5f && by <= 0.5f)) return FPC_BAD_OPERATION;
    const int64_t count = (int64_t)height * width;
    const bool from_pixels = flags & FPC_HUE_FROM_PIXELS, to_pixels = flags & FPC_HUE_TO_PIXELS;
    fpc_hue_turn turn = {.in_plane = from_pixels ? 1 : count,
                         .out_plane = to_pixels ? 1 : count,
                         .in_step = from_pixels ? 3 : 1,
                         .out_step = to_pixels ? 3 : 1,
                         .of_floats = flags & FPC_HUE_FLOATS,
                         .v1 = flags & FPC_HUE_V1,
                         .by = by};
    const int64_t bytes = 3 * count * (int64_t)(turn.of_floats ? sizeof(float) : 1);
    for (int64_t i = 0; i < images; i++) {
        turn.in = (const uint8_t *)in + i * bytes;
        turn.out = (uint8_t *)out + i * bytes;
        if (!context->kernels->adjust_tensor_hue(&turn, count)) return FPC_UNSURE;
    }
    return FPC_OK;
}
