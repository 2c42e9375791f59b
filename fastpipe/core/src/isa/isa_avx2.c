/* isa_avx2.c: the kernels for x86-64 with AVX2, FMA, BMI, POPCNT, F16C and PCLMUL. Pragmas here select the instruction
 * set, not compiler flags, so that the rest of the library runs on every machine. */
#include "kernels.h"

#if FPC_HAVE_AVX2
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt")
#endif

#define FPC_SIMD_AVX2 1
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

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

const fpc_kernels fpc_kernels_avx2 = FPC_KERNELS;
#endif
