/* cpu.c: finds the instruction sets that this machine has. */
#include "fastpipe_core.h"
#include "kernels.h"

#if FPC_HAVE_AVX2
/* Asks the processor itself: the __builtin_cpu_supports of zig's clang knows none of these sets. */
#if defined(_MSC_VER) && !defined(__clang__)
#include <immintrin.h>
#include <intrin.h>

static void cpuid(unsigned leaf, unsigned found[4]) { __cpuidex((int *)found, (int)leaf, 0); }
static unsigned kept_registers(void) { return (unsigned)_xgetbv(0); }
#else
#include <cpuid.h>

static void cpuid(unsigned leaf, unsigned found[4]) { __cpuid_count(leaf, 0, found[0], found[1], found[2], found[3]); }

static unsigned kept_registers(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#endif

/* Returns 1 if the machine has all that isa_avx2.c needs, and the operating system saves the wide registers. */
static int has_avx2(void) {
    unsigned basic[4], extended[4];
    cpuid(0, basic);
    if (basic[0] < 7) return 0;
    cpuid(1, basic);
    cpuid(7, extended);
    /* PCLMUL, FMA, POPCNT, OSXSAVE, AVX, F16C */
    const unsigned wanted = 1u << 1 | 1u << 12 | 1u << 23 | 1u << 27 | 1u << 28 | 1u << 29;
    const unsigned wanted_extended = 1u << 3 | 1u << 5 | 1u << 8; /* BMI1, AVX2, BMI2 */
    if ((basic[2] & wanted) != wanted || (extended[1] & wanted_extended) != wanted_extended) return 0;
    return (kept_registers() & 6) == 6;
}

/* Returns 1 if the machine also has what isa_avx512.c is compiled for. */
static int has_avx512(void) {
#if FPC_HAVE_AVX512
    unsigned extended[4];
    cpuid(7, extended);
    const unsigned wanted = 1u << 16 | 1u << 30 | 1u << 31, vnni = 1u << 11; /* F, BW, VL */
    if ((extended[1] & wanted) != wanted || !(extended[2] & vnni)) return 0;
    return (kept_registers() & 0xE6) == 0xE6;
#else
    return 0;
#endif
}
#endif

#if FPC_HAVE_AVX512
static int has_vbmi(void) {
    unsigned extended[4];
    cpuid(7, extended);
    return (extended[2] & (1u << 1 | 1u << 6)) == (1u << 1 | 1u << 6); /* VBMI and VBMI2 */
}
#endif

int fpc_best_isa(void) {
#if FPC_HAVE_NEON
    return FPC_ISA_NEON;
#elif FPC_HAVE_AVX2
    return !has_avx2() ? FPC_ISA_PORTABLE : has_avx512() ? FPC_ISA_AVX512 : FPC_ISA_AVX2;
#else
    return FPC_ISA_PORTABLE;
#endif
}

const fpc_kernels *fpc_kernels_of(int isa) {
    const int best = fpc_best_isa();
    if (isa == FPC_ISA_BEST) isa = best;
    if (isa == FPC_ISA_PORTABLE) return &fpc_kernels_portable;
#if FPC_HAVE_NEON
    if (isa == best) return &fpc_kernels_neon;
#endif
#if FPC_HAVE_AVX2
    if (isa == FPC_ISA_AVX2 && best != FPC_ISA_PORTABLE) return &fpc_kernels_avx2;
#endif
#if FPC_HAVE_AVX512
    if (isa == FPC_ISA_AVX512 && isa == best) return has_vbmi() ? &fpc_kernels_vbmi : &fpc_kernels_avx512;
#endif
    return NULL;
}
