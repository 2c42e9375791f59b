/* isa_neon.c: the kernels for 64-bit ARM, all of which have NEON. */
#include "kernels.h"

#if FPC_HAVE_NEON
#include <string.h>

#define FPC_SIMD_NEON 1
#include "simd.h"

#include "idct_plain.h" /* for rare cases */
#include "unstuff_simd.h"
#include "huffman_simd.h"
#include "sequential_plain.h"
#include "progressive_plain.h"
#include "packed_simd.h"
#include "nonzero_simd.h"
#include "encode_plain.h"
#include "pack_plain.h"
#include "idct_simd.h"
#include "color_simd.h"
#include "inflate_plain.h"
#include "unfilter_simd.h"
#include "checksums_simd.h"
#include "paint_simd.h"
#include "operations_simd.h"
#include "adjust_simd.h"
#include "blur_simd.h"
#include "torch_blur_simd.h"
#include "float_blur_simd.h"
#include "hue_plain.h"
#include "cv_resize_plain.h"
#include "warp_simd.h"
#include "grid_sample_simd.h"
#include "planes_simd.h"
#include "resample_simd.h"
#include "sink_simd.h"
#include "rgbx_pad_simd.h"

const fpc_kernels fpc_kernels_neon = FPC_KERNELS;
#endif
