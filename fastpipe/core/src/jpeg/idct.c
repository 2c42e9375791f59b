/* idct.c: which coefficients the inverse DCT takes.
 *
 * libjpeg's "islow" inverse DCT (jidctint.c) has as many forms as libjpeg-turbo has instruction sets. They agree as
 * long as no intermediate value leaves 16 bits; beyond that C wraps in 32 bits, AVX2 saturates here and wraps there,
 * NEON does otherwise again. A photo never gets there: 8-bit samples give coefficients up to 1,024, and rounding adds
 * half a step. So blocks for which the first pass gives a value outside [-2**14, 2**14) are refused: then sums of two
 * such values fit 16 bits in the second pass, too, and all else has room to spare.
 *
 * That is looked up in the first pass's values themselves (idct_is_in_range) only where the coefficients alone don't
 * promise it. What promises it: a value of the first pass is, but for rounding (jidctint.c, PASS1_BITS = 2),
 *     4 * (c[0] + sum over k of c[k] * sqrt(2) * cos((2x+1) k pi / 16)),
 * and with |c[k]| <= limits[k] the worst x gives 4 * 4,088; the factors' rounding to 13 bits changes less than 4 of
 * it.
 */
#include "idct.h"

#include <string.h>

/* limits[k] is 2**14 / shares[k]: 1024, 744, 528, 481, 372, 282, 240, 190, which 1 block of the photos at hand in
 * 2,300 leaves. */
static const int32_t shares[8] = {16, 22, 31, 34, 44, 58, 68, 86};

void fpc_dequantizer_make(fpc_dequantizer *dequantizer, const uint16_t step[64]) {
    memcpy(dequantizer->step, step, sizeof dequantizer->step);
    for (int k = 0; k < 64; k++) {
        const int32_t share = shares[k / 8], limit = (1 << 14) / share;
        /* |c| * step > limit  =>  |c| * step * share > 2**14. Where 16 bits don't hold the alarm the step is more than
         * the limit, and 2**15 - 1 finds every c but 0. */
        const int32_t alarm = step[k] * share;
        const int pair = 16 * (k / 8) + k % 8;
        /* limit / step; in floating point, where compilers have a vector instruction for it. The quotient is 0 or at
         * least 1 / step from the next whole number, which rounding doesn't reach. */
        dequantizer->largest[k] = (int16_t)((float)limit / (float)(step[k] ? step[k] : 1));
        /* Steps above 2**15 go with coefficients of 0 alone, or with an alarm. */
        dequantizer->step_pair[pair] = dequantizer->step_pair[pair + 8] = (int16_t)step[k];
        dequantizer->alarm_pair[pair] = dequantizer->alarm_pair[pair + 8] =
            (int16_t)(alarm > INT16_MAX ? INT16_MAX : alarm);
    }
}
