/* isa_vbmi.c: isa_avx512.c's kernels where a byte may be chosen among 128 (AVX512-VBMI), and bytes be pressed out of a
 * register (AVX512-VBMI2): look-ups, flips, resizing along rows, unstuffing. */
#define FPC_SIMD_VBMI 1
#include "isa_avx512.c"
