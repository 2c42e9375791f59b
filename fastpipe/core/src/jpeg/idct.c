/* idct.c: which coefficients the inverse DCT accepts.
 *
 * libjpeg's "islow" inverse DCT (jidctint.c) has a variant for each of libjpeg-turbo's instruction sets. All variants
 * agree as long as no intermediate value leaves 16 bits. Beyond that, C wraps in 32 bits, AVX2 saturates in some places
 * and wraps in others, and NEON differs again. Photos never get there: 8-bit samples give coefficients up to 1,024, and
 * rounding adds half a step. So a block is refused if the first pass gives a value outside [-2**14, 2**14). Within that
 * range, sums of two such values fit 16 bits in the second pass, too, and everything else has room to spare.
 *
 * The first pass's values themselves are tested (idct_is_in_range) only if the coefficients alone don't guarantee the
 * range. Except for rounding (jidctint.c, PASS1_BITS = 2), a value of the first pass is
 *     4 * (c[0] + sum over k of c[k] * sqrt(2) * cos((2x+1) k pi / 16)).
 * With |c[k]| <= limits[k], the worst x gives 4 * 4,088; rounding the factors to 13 bits changes it by less than 4.
 */
#include "idct.h"

#include <string.h>

/* limits[k] is 2**14 / shares[k]: 1024, 744, 528, 481, 372, 282, 240, 190; 1 block in 2,300 of our photos exceeds
 * them. */
static const int32_t shares[8] = {16, 22, 31, 34, 44, 58, 68, 86};

void fpc_dequantizer_make(fpc_dequantizer *dequantizer, const uint16_t step[64]) {
    memcpy(dequantizer->step, step, sizeof dequantizer->step);
    for (int k = 0; k < 64; k++) {
        const int32_t share = shares[k / 8], limit = (1 << 14) / share;
        /* |c| * step > limit implies |c| * step * share > 2**14. If the alarm exceeds 16 bits, the step exceeds the
         * limit, and 2**15 - 1 finds every c but 0. */
        const int32_t alarm = step[k] * share;
        const int pair = 16 * (k / 8) + k % 8;
        /* limit / step, in floating point, for which compilers have a vector instruction. The quotient is below 1, or
         * at least 1 / step away from the next whole number; rounding doesn't reach that. */
        dequantizer->largest[k] = (int16_t)((float)limit / (float)(step[k] ? step[k] : 1));
        /* A step above 2**15 is only used with coefficients of 0, or together with an alarm. */
        dequantizer->step_pair[pair] = dequantizer->step_pair[pair + 8] = (int16_t)step[k];
        dequantizer->alarm_pair[pair] = dequantizer->alarm_pair[pair + 8] =
            (int16_t)(alarm > INT16_MAX ? INT16_MAX : alarm);
    }
}
