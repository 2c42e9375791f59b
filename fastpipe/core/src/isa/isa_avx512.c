/* isa_avx512.c: isa_avx2.c's kernels where products may be added to a sum in one instruction (AVX512-VNNI), and there
 * are twice as many registers: a tenth of a resize's time. Vectors stay as wide as they are. */
#include "kernels.h"

#if FPC_HAVE_AVX512
#include <immintrin.h>
#include <string.h>

/* The loops over a scan's codes are isa_avx2.c's: one number after the other, they gain nothing from more registers,
 * and compiled for these they take 2% longer, those of progressive scans 4%. */
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

/* isa_vbmi.c is this file once more, with FPC_SIMD_VBMI. */
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

#include "idct_plain.h" /* what is rare */
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
