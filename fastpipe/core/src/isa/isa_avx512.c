/* isa_avx512.c: isa_avx2.c's kernels compiled for AVX512-VNNI, which adds products to a sum in one instruction, and for
 * twice as many registers: a resize takes a tenth less time. Vectors keep their width. */
#include "kernels.h"

#if FPC_HAVE_AVX512
#include <immintrin.h>
#include <string.h>

/* The loops over a scan's codes are compiled as in isa_avx2.c. They take one number after the other and gain nothing
 * from more registers: compiled for AVX-512 they take 2% longer, those of progressive scans 4%. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2")
#endif
#include "sequential_plain.h"
#include "progressive_plain.h"
#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#pragma GCC push_options
#endif

/* isa_vbmi.c includes this file with FPC_SIMD_VBMI. */
#if defined(FPC_SIMD_VBMI)
#define KERNELS fpc_kernels_vbmi
#if defined(__clang__)
#pragma clang attribute push(                                                                                          \
    __attribute__((                                                                                                    \
        target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt,avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2"))),  \
    apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt,avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2")
#endif
#else
#define KERNELS fpc_kernels_avx512
#if defined(__clang__)
#pragma clang attribute push(                                                                                          \
    __attribute__((target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt,avx512f,avx512bw,avx512vl,avx512vnni"))),              \
    apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,pclmul,popcnt,avx512f,avx512bw,avx512vl,avx512vnni")
#endif
#endif

#define FPC_SIMD_AVX2 1
#define FPC_SIMD_VNNI 1
#include "simd.h"

#include "idct_plain.h" /* for rare cases */
#include "unstuff_simd.h"
#include "huffman_simd.h"
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

const fpc_kernels KERNELS = FPC_KERNELS;
#endif
