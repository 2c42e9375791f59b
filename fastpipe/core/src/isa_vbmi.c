/* isa_vbmi.c: isa_avx512.c's kernels where a byte may be chosen among 128 (AVX512-VBMI): look-ups and flips. */
#define FPC_SIMD_VBMI 1
#include "isa_avx512.c"
