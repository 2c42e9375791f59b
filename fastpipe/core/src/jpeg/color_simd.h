/* color_simd.h: color_plain.h's kernels with simd.h, 32 pixels at a time. */
#ifndef FPC_COLOR_SIMD_H
#define FPC_COLOR_SIMD_H

/* Samples are in two vecs of 16-bit numbers, one with even x and one with odd x. When packed to bytes, each half of a
 * vec has its even samples first: sample x of a half is at COLOR_AT(x). */
#define COLOR_AT(x) ((x) & 1 ? 8 + (x) / 2 : (x) / 2)
#define COLOR_NONE (-1)
#define COLOR_TWICE(...) {__VA_ARGS__, __VA_ARGS__}
/* Byte i of the 48 bytes of a half's 16 pixels belongs to color i % 3 of pixel i / 3. */
#define COLOR_BYTE(i, color) ((i) % 3 == (color) ? COLOR_AT((i) / 3) : COLOR_NONE)
#define COLOR_BYTES(i, c)                                                                                              \
    COLOR_BYTE(i, c), COLOR_BYTE(i + 1, c), COLOR_BYTE(i + 2, c), COLOR_BYTE(i + 3, c), COLOR_BYTE(i + 4, c),          \
        COLOR_BYTE(i + 5, c), COLOR_BYTE(i + 6, c), COLOR_BYTE(i + 7, c), COLOR_BYTE(i + 8, c), COLOR_BYTE(i + 9, c),  \
        COLOR_BYTE(i + 10, c), COLOR_BYTE(i + 11, c), COLOR_BYTE(i + 12, c), COLOR_BYTE(i + 13, c),                    \
        COLOR_BYTE(i + 14, c), COLOR_BYTE(i + 15, c)

/* [third of the 48 bytes][color] */
static const int8_t color_order[3][3][32] = {
    {COLOR_TWICE(COLOR_BYTES(0, 0)), COLOR_TWICE(COLOR_BYTES(0, 1)), COLOR_TWICE(COLOR_BYTES(0, 2))},
    {COLOR_TWICE(COLOR_BYTES(16, 0)), COLOR_TWICE(COLOR_BYTES(16, 1)), COLOR_TWICE(COLOR_BYTES(16, 2))},
    {COLOR_TWICE(COLOR_BYTES(32, 0)), COLOR_TWICE(COLOR_BYTES(32, 1)), COLOR_TWICE(COLOR_BYTES(32, 2))},
};

/* Orders the bytes of each half: even ones first. */
static const int8_t color_even_first[32] = COLOR_TWICE(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);

SIMD vec color_third(vec red, vec green, vec blue, int third) {
    const vec r = v_shuffle8(red, v_load(color_order[third][0]));
    const vec g = v_shuffle8(green, v_load(color_order[third][1]));
    return v_or(v_or(r, g), v_shuffle8(blue, v_load(color_order[third][2])));
}

/* Stores 32 pixels, whose even ones come first in each half. */
SIMD void color_store(vec red, vec green, vec blue, uint8_t *rgb) {
    const vec a = color_third(red, green, blue, 0), b = color_third(red, green, blue, 1);
    const vec c = color_third(red, green, blue, 2);
    v_store_low(rgb, a);
    v_store_low(rgb + 16, b);
    v_store_low(rgb + 32, c);
    v_store_high(rgb + 48, a);
    v_store_high(rgb + 64, b);
    v_store_high(rgb + 80, c);
}

/* The even and odd samples of 32 pixels, as 16-bit numbers. */
typedef struct color_pair {
    vec even, odd;
} color_pair;

SIMD color_pair color_split(vec bytes) {
    const color_pair pair = {v_and(bytes, v_all16(255)), v_shift_right_u16(bytes, 8)};
    return pair;
}

/* color_convert's formula and factors (color_plain.h). Red and blue take one rounded product of 15 bits:
 *     v + ((13173 v + 2**14) >> 15) == (91881 v + 32768) >> 16
 *     u + ((25297 u + 2**14) >> 15) == (116130 u + 32768) >> 16
 * for each of the 256 values. */
SIMD void color_channels(vec y, vec cb, vec cr, vec *red, vec *green, vec *blue) {
    const vec u = v_sub16(cb, v_all16(128)), v = v_sub16(cr, v_all16(128));
    const vec factors = v_all32(V_PAIR16(-22554, 65536 - 46802)), half = v_all32(32768);
    const vec low = v_add_madd16(half, v_unpack_low16(u, v), factors);
    const vec high = v_add_madd16(half, v_unpack_high16(u, v), factors);
    *red = v_add16(y, v_add16(v, v_mul_round16(v, v_all16(13173))));
    *blue = v_add16(y, v_add16(u, v_mul_round16(u, v_all16(25297))));
    *green = v_add16(v_sub16(y, v), v_pack_s32(v_shift_right_s32(low, 16), v_shift_right_s32(high, 16)));
}

SIMD void color_convert_simd(vec y, color_pair cb, color_pair cr, uint8_t *rgb) {
    const color_pair luma = color_split(y);
    vec red[2], green[2], blue[2];
    color_channels(luma.even, cb.even, cr.even, red, green, blue);
    color_channels(luma.odd, cb.odd, cr.odd, red + 1, green + 1, blue + 1);
    color_store(v_pack_us16(red[0], red[1]), v_pack_us16(green[0], green[1]), v_pack_us16(blue[0], blue[1]), rgb);
}

static void ycc_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, int count) {
    for (int x = 0; x < count; x += 32)
        color_convert_simd(v_load(y + x), color_split(v_load(cb + x)), color_split(v_load(cr + x)),
                           rgb + 3 * (size_t)x);
}

/* jdsample.c: h2v1_fancy_upsample and h2v2_fancy_upsample, as color_upsample_half: 16 samples to 16 even and 16 odd. */
SIMD color_pair color_upsample(const uint16_t *wide, const int sums) {
    const vec middle = v_load(wide), nearer = v_add16(middle, v_add16(middle, middle));
    const vec even = v_add16(v_add16(nearer, v_all16(sums ? 8 : 1)), v_load(wide - 1));
    const vec odd = v_add16(v_add16(nearer, v_all16(sums ? 7 : 2)), v_load(wide + 1));
    const color_pair wide_pair = {v_shift_right_u16(even, 2), v_shift_right_u16(odd, 2)};
    const color_pair sums_pair = {v_shift_right_u16(even, 4), v_shift_right_u16(odd, 4)};
    return sums ? sums_pair : wide_pair;
}

static void ycc_half_to_rgb(const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int sums, uint8_t *rgb,
                            int count) {
    if (sums)
        for (int x = 0; x < count; x += 32)
            color_convert_simd(v_load(y + x), color_upsample(cb + x / 2, 1), color_upsample(cr + x / 2, 1),
                               rgb + 3 * (size_t)x);
    else
        for (int x = 0; x < count; x += 32)
            color_convert_simd(v_load(y + x), color_upsample(cb + x / 2, 0), color_upsample(cr + x / 2, 0),
                               rgb + 3 * (size_t)x);
}

static void planes_to_rgb(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *rgb, int count) {
    const vec order = v_load(color_even_first);
    for (int x = 0; x < count; x += 32)
        color_store(v_shuffle8(v_load(red + x), order), v_shuffle8(v_load(green + x), order),
                    v_shuffle8(v_load(blue + x), order), rgb + 3 * (size_t)x);
}

/* jdsample.c, h2v2_fancy_upsample: the sum of each column. */
static void mix_rows(const uint8_t *nearer, const uint8_t *farther, uint16_t *sums, int count) {
    for (int x = 0; x < count; x += 16) {
        const vec a = v_load_widened(nearer + x);
        v_store(sums + x, v_add16(v_add16(a, v_add16(a, a)), v_load_widened(farther + x)));
    }
}

static void widen_row(const uint8_t *row, uint16_t *wide, int count) {
    for (int x = 0; x < count; x += 16) v_store(wide + x, v_load_widened(row + x));
}

#endif
