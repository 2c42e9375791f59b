/* adjust_simd.h: looks values up, blends and smooths rows, turns hues. */
#include "adjust_plain.h"

#if defined(FPC_SIMD_VBMI)
/* Looks up 64 bytes at once: an instruction selects among 128 entries, the highest bit between two such results. */
typedef struct adjust_table {
    __m512i quarters[4];
} adjust_table;

SIMD adjust_table adjust_load(const uint8_t *table) {
    const adjust_table all = {{_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                               _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)}};
    return all;
}

SIMD __m512i adjust_entries(__m512i bytes, const adjust_table *table) {
    const __m512i low = _mm512_permutex2var_epi8(table->quarters[0], bytes, table->quarters[1]);
    const __m512i high = _mm512_permutex2var_epi8(table->quarters[2], bytes, table->quarters[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
}

/* A mask of up to 64 bytes, from x on, that lie before `count`. */
SIMD __mmask64 adjust_there(int64_t x, int64_t count) {
    return count - x >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (count - x)) - 1;
}

static void look_up(const uint8_t *in, int64_t count, const uint8_t *table, uint8_t *out) {
    const adjust_table entries = adjust_load(table);
    /* starts at a cache line, so that no store spans two */
    int64_t x = -(intptr_t)out & 63;
    const __mmask64 head = adjust_there(0, x < count ? x : count);
    _mm512_mask_storeu_epi8(out, head, adjust_entries(_mm512_maskz_loadu_epi8(head, in), &entries));
    if (x > count) return;
    for (; x + 64 <= count; x += 64) {
        _mm512_storeu_si512(out + x, adjust_entries(_mm512_loadu_si512(in + x), &entries));
    }
    const __mmask64 there = adjust_there(x, count);
    _mm512_mask_storeu_epi8(out + x, there, adjust_entries(_mm512_maskz_loadu_epi8(there, in + x), &entries));
}

static void look_up_rgb(const uint8_t *in, int32_t count, const uint8_t *tables, uint8_t *out) {
    const uint64_t third =
        UINT64_C(0x9249249249249249); /* bytes 0, 3, … 63; the next 64 bytes begin with the second channel */
    const uint64_t reds[3] = {third, third << 2, third << 1}, greens[3] = {third << 1, third, third << 2};
    const adjust_table red = adjust_load(tables), green = adjust_load(tables + 256), blue = adjust_load(tables + 512);
    const int64_t bytes = 3 * (int64_t)count;
    for (int64_t x = 0, turn = 0; x < bytes; x += 64, turn = turn == 2 ? 0 : turn + 1) {
        const __mmask64 there = adjust_there(x, bytes);
        const __m512i levels = _mm512_maskz_loadu_epi8(there, in + x);
        __m512i found = adjust_entries(levels, &blue);
        found = _mm512_mask_blend_epi8(greens[turn], found, adjust_entries(levels, &green));
        found = _mm512_mask_blend_epi8(reds[turn], found, adjust_entries(levels, &red));
        _mm512_mask_storeu_epi8(out + x, there, found);
    }
}
#else
/* Looks up 32 bytes in a table of 256 entries, which is stored as sixteen parts of 16. Each part except the first of a
 * half is stored as its XOR with the part before, so that the XOR of all parts up to an index's own gives its entry. In
 * later parts the index, from which 16 is subtracted per part, is negative, which looks up 0. */
SIMD vec adjust_entries(const vec *parts, vec low) {
    const vec sixteen = v_all8(16);
    vec high = v_xor(low, v_all8(0x80)); /* values from 128 on are negative in `low`, smaller ones in `high` */
    vec found = v_xor(v_shuffle_low8(parts[0], low), v_shuffle_low8(parts[8], high));
    for (int i = 1; i < 8; i++) {
        low = v_sub_s8(low, sixteen);
        high = v_sub_s8(high, sixteen);
        found = v_xor(found, v_xor(v_shuffle_low8(parts[i], low), v_shuffle_low8(parts[8 + i], high)));
    }
    return found;
}

static void look_up(const uint8_t *in, int64_t count, const uint8_t *table, uint8_t *out) {
    vec parts[16];
    for (int i = 0; i < 16; i++) {
        const vec part = v_load_twice(table + 16 * i);
        parts[i] = i % 8 == 0 ? part : v_xor(part, v_load_twice(table + 16 * (i - 1)));
    }
    int64_t x = 0;
    for (; x + 32 <= count; x += 32) v_store(out + x, adjust_entries(parts, v_load(in + x)));
    uint8_t rest[32] = {0};
    memcpy(rest, in + x, (size_t)(count - x));
    v_store(rest, adjust_entries(parts, v_load(rest)));
    memcpy(out + x, rest, (size_t)(count - x));
}

static void split_channels(const uint8_t *rgb, int32_t count, uint8_t *const out[3]);

#define ADJUST_AT_ONCE 1024 /* a multiple of 32: bytes written beyond these are overwritten by the next part */

static void look_up_rgb(const uint8_t *in, int32_t count, const uint8_t *tables, uint8_t *out) {
    uint8_t planes[3][ADJUST_AT_ONCE + 32];
    uint8_t *const each[3] = {planes[0], planes[1], planes[2]};
    for (int32_t x = 0; x < count; x += ADJUST_AT_ONCE) {
        const int32_t part = count - x < ADJUST_AT_ONCE ? count - x : ADJUST_AT_ONCE;
        split_channels(in + 3 * (int64_t)x, part, each);
        for (int c = 0; c < 3; c++) look_up(planes[c], part, tables + 256 * c, planes[c]);
        planes_to_rgb(planes[0], planes[1], planes[2], out + 3 * (int64_t)x, part);
    }
}
#endif

#define NONE 255
/* Widens bytes 0 to 3, 4 to 7, 8 to 11 or 12 to 15 of each half to four 32-bit numbers. */
#define WIDE(a) a, NONE, NONE, NONE, a + 1, NONE, NONE, NONE, a + 2, NONE, NONE, NONE, a + 3, NONE, NONE, NONE
static const uint8_t adjust_widen[4][16] = {{WIDE(0)}, {WIDE(4)}, {WIDE(8)}, {WIDE(12)}};
#undef WIDE
#undef NONE

/* adjust_plain.h's blend; packing clamps to 0 and 255. */
SIMD vec adjust_blend(vec first, vec second, vec widen, vecf factor) {
    const vec from = v_shuffle8(first, widen), to = v_shuffle8(second, widen);
    const vecf mixed = v_add_float(v_float(from), v_mul_float(factor, v_float(v_sub32(to, from))));
    return v_cut_float(v_min_float(mixed, v_all_float(255.0f)));
}

static void blend_rows(const uint8_t *first, const uint8_t *second, float factor, int64_t count, uint8_t *out) {
    const vec w0 = v_load_twice(adjust_widen[0]), w1 = v_load_twice(adjust_widen[1]);
    const vec w2 = v_load_twice(adjust_widen[2]), w3 = v_load_twice(adjust_widen[3]);
    const vecf by = v_all_float(factor);
    for (int64_t x = 0; x < count; x += 32) {
        const vec a = v_load(first + x), b = v_load(second + x);
        v_store(out + x, v_pack_us16(v_pack_s32(adjust_blend(a, b, w0, by), adjust_blend(a, b, w1, by)),
                                     v_pack_s32(adjust_blend(a, b, w2, by), adjust_blend(a, b, w3, by))));
    }
}

SIMD vec adjust_three(const uint8_t *row, int32_t step) {
    return v_add16(v_add16(v_load_widened(row - step), v_load_widened(row)), v_load_widened(row + step));
}

/* Smooths 16 bytes as adjust_plain.h; 5042 / 2**16 is precise enough for 1 / 13 up to 13 * 255. */
SIMD vec adjust_smooth(const uint8_t *above, const uint8_t *row, const uint8_t *below, int32_t step) {
    const vec four = v_mul16(v_load_widened(row), v_all16(4));
    const vec sum = v_add16(v_add16(adjust_three(above, step), adjust_three(row, step)),
                            v_add16(adjust_three(below, step), v_add16(four, v_all16(6))));
    return v_mul_high_u16(sum, v_all16(5042));
}

static void smooth_row(const uint8_t *above, const uint8_t *row, const uint8_t *below, int64_t count, int32_t step,
                       uint8_t *out) {
    for (int64_t x = 0; x < count; x += 32) {
        const vec low = adjust_smooth(above + x, row + x, below + x, step);
        const vec high = adjust_smooth(above + x + 16, row + x + 16, below + x + 16, step);
        v_store(out + x, v_swap_middle64(v_pack_us16(low, high)));
    }
}

#if defined(FPC_SIMD_AVX2)
/* For each sixth of a turn (the first one again at the end): which of value, p, q and t become red, green and blue. */
#define PICK(red, green, blue) (int32_t)(0x80000000u | (blue) << 16 | (green) << 8 | (red))
static const int32_t adjust_picks[8] = {PICK(0, 3, 1), PICK(2, 0, 1), PICK(1, 0, 3), PICK(1, 2, 0),
                                        PICK(3, 1, 0), PICK(0, 1, 2), PICK(0, 3, 1), 0};
#undef PICK

/* n / divisor without a division; 1 / divisor is the sum of `nearest` and `rest`. */
#define INVERSE(divisor) _mm256_set1_ps(1.0f / (divisor)), _mm256_set1_ps((float)(1.0 / (divisor) - (1.0f / (divisor))))
SIMD __m256 adjust_divided(__m256 n, __m256 nearest, __m256 rest) {
    return _mm256_fmadd_ps(n, nearest, _mm256_mul_ps(n, rest));
}

/* Pillow's hue in units of 1 / 255 turn, truncated: a number of sixths, plus or minus the middle channel's distance
 * from the greatest relative to the range. float32 gives the same as Pillow's types for all colors
 * (test_adjustments.py). */
SIMD __m256i adjust_hue(__m256i red, __m256i green, __m256i blue, __m256i most, __m256i least, __m256 range) {
    const __m256i one = _mm256_set1_epi32(1), none = _mm256_setzero_si256();
    const __m256i sums = _mm256_add_epi32(_mm256_add_epi32(red, green), blue);
    const __m256i below = _mm256_sub_epi32(_mm256_add_epi32(most, most), _mm256_sub_epi32(sums, least));
    const __m256 away = _mm256_div_ps(_mm256_cvtepi32_ps(below), _mm256_max_ps(range, _mm256_set1_ps(1.0f)));
    const __m256i is_red = _mm256_cmpeq_epi32(red, most), is_green = _mm256_cmpeq_epi32(green, most);
    const __m256i not_red = _mm256_blendv_epi8(_mm256_set1_epi32(4), _mm256_set1_epi32(2), is_green);
    const __m256i base = _mm256_blendv_epi8(not_red, none, is_red);
    const __m256i before = _mm256_blendv_epi8(_mm256_blendv_epi8(green, red, is_green), blue, is_red);
    const __m256i falls = _mm256_cmpeq_epi32(before, least); /* from base + 1; otherwise it rises from base - 1 */
    const __m256 start = _mm256_cvtepi32_ps(_mm256_sub_epi32(base, _mm256_or_si256(falls, one)));
    const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(falls, 31));
    const __m256 sixths = _mm256_add_ps(start, _mm256_xor_ps(away, sign));
    const __m256i around = _mm256_andnot_si256(falls, _mm256_and_si256(is_red, one));
    const __m256 hue = _mm256_add_ps(_mm256_cvtepi32_ps(around), adjust_divided(sixths, INVERSE(6.0f)));
    return _mm256_cvttps_epi32(_mm256_mul_ps(hue, _mm256_set1_ps(255.0f)));
}

/* Turns the hue of eight pixels, four at `in` and four 12 bytes after it. Writes 16 bytes at `out`, and 16 bytes 12
 * bytes after it. */
SIMD void adjust_turn8(const uint8_t *in, __m256i shift, uint8_t *out) {
    const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1, /**/
                                            0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1);
    const __m256i joined = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, /**/
                                            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m256i places = _mm256_setr_epi32(0, 0x040404, 0x080808, 0x0C0C0C, 0, 0x040404, 0x080808, 0x0C0C0C);
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256i bytes = v_load_halves(in, in + 12);
    const __m256i red = _mm256_shuffle_epi8(bytes, spread);
    const __m256i green = _mm256_shuffle_epi8(_mm256_srli_si256(bytes, 1), spread);
    const __m256i blue = _mm256_shuffle_epi8(_mm256_srli_si256(bytes, 2), spread);
    const __m256i highest = _mm256_max_epi32(red, _mm256_max_epi32(green, blue));
    const __m256i least = _mm256_min_epi32(red, _mm256_min_epi32(green, blue));
    const __m256 most = _mm256_cvtepi32_ps(highest), range = _mm256_cvtepi32_ps(_mm256_sub_epi32(highest, least));
    const __m256i turned = _mm256_add_epi32(adjust_hue(red, green, blue, highest, least, range), shift);
    const __m256 hue = _mm256_cvtepi32_ps(_mm256_and_si256(turned, _mm256_set1_epi32(255)));
    const __m256 ratio = _mm256_div_ps(range, _mm256_max_ps(most, one)); /* for black any ratio will do */
    const __m256 saturation = _mm256_round_ps(_mm256_mul_ps(ratio, _mm256_set1_ps(255.0f)), _MM_FROUND_TO_ZERO);

    const __m256 of_six = _mm256_mul_ps(hue, _mm256_set1_ps(6.0f));
    const __m256 sector =
        _mm256_floor_ps(_mm256_mul_ps(_mm256_add_ps(of_six, _mm256_set1_ps(0.5f)), _mm256_set1_ps(1.0f / 255.0f)));
    const __m256 rest = _mm256_fnmadd_ps(sector, _mm256_set1_ps(255.0f), of_six);
    const __m256 part = adjust_divided(rest, INVERSE(255.0f)), gray = adjust_divided(saturation, INVERSE(255.0f));
    /* float32 gives the same as Pillow's float64 for every hue, saturation and value (test_adjustments.py). */
#define ROUNDED(a) _mm256_cvttps_epi32(_mm256_add_ps(_mm256_mul_ps(most, a), _mm256_set1_ps(0.5f)))
    const __m256i p = ROUNDED(_mm256_sub_ps(one, gray)), q = ROUNDED(_mm256_fnmadd_ps(gray, part, one));
    const __m256i t = ROUNDED(_mm256_fnmadd_ps(gray, _mm256_sub_ps(one, part), one));
#undef ROUNDED
    const __m256i first = _mm256_or_si256(highest, _mm256_slli_epi32(p, 8));
    const __m256i all = _mm256_or_si256(first, _mm256_or_si256(_mm256_slli_epi32(q, 16), _mm256_slli_epi32(t, 24)));
    const __m256i picks = _mm256_permutevar8x32_epi32(v_load(adjust_picks), _mm256_cvttps_epi32(sector));
    const __m256i pixels = _mm256_shuffle_epi8(all, _mm256_or_si256(picks, places));
    const __m256i packed = _mm256_shuffle_epi8(pixels, joined);
    v_store_low(out, packed);
    v_store_high(out + 12, packed);
}
#undef INVERSE

static void turn_hue(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out) {
    const __m256i by = _mm256_set1_epi32(shift);
    for (int64_t x = 0; x < count; x += 8) adjust_turn8(in + 3 * x, by, out + 3 * x);
}
#else
static void turn_hue(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out) {
    turn_hue_plain(in, count, shift, out);
}
#endif
