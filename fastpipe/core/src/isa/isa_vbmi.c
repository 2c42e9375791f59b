/* isa_vbmi.c: isa_avx512.c's kernels compiled for AVX512-VBMI, which selects a byte among 128, and AVX512-VBMI2, which
 * compresses bytes in a register. Look-ups, flips, resizing along rows and unstuffing use them. */
#define FPC_SIMD_VBMI 1
#include "isa_avx512.c"
