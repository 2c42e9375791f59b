/* isa_vbmi.c: isa_avx512.c's kernels where a byte may be chosen among 128 (AVX512-VBMI): look-ups, flips and resizing along
 * rows. */
#define FPC_SIMD_VBMI 1
#include "isa_avx512.c"
