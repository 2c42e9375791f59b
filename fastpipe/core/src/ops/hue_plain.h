/* hue_plain.h: torchvision's adjust_hue by way of float32: v2's _rgb_to_hsv and _hsv_to_rgb (_color.py), and v1's
 * _rgb2hsv and _hsv2rgb (_functional_tensor.py). Each of torch's operations is one operation here, in the same order,
 * so that all round alike; compile without contraction. Intermediate values aren't negative, so a cast is a floor, and
 * the remainder is fmod(x, 1). */
#include <string.h>

enum { HUE_BLOCK = 256 };

/* a if `condition`, else b, without a branch: compilers move what only one side of `?:` needs there, and use no vectors
 * then (fourteen times the time). */
static inline float hue_select(bool condition, float a, float b) {
    const uint32_t mask = 0u - (uint32_t)condition;
    uint32_t first, second;
    memcpy(&first, &a, sizeof first), memcpy(&second, &b, sizeof second);
    const uint32_t bits = (first & mask) | (second & ~mask);
    float selected;
    memcpy(&selected, &bits, sizeof selected);
    return selected;
}

static inline float hue_clamped(float x) {
    const float low = hue_select(x < 0.0f, 0.0f, x);
    return hue_select(low > 1.0f, 1.0f, low);
}

/* Turns the hue of `count` pixels with values from 0 to 1. */
static inline void hue_turn_block(float *red, float *green, float *blue, int count, float by, bool v1) {
    for (int k = 0; k < count; k++) {
        const float r = red[k], g = green[k], b = blue[k];
        const float more = hue_select(g > b, g, b), less = hue_select(g < b, g, b);
        const float most = hue_select(r > more, r, more), least = hue_select(r < less, r, less);
        const float range = most - least, divisor = hue_select(most == least, 1.0f, range);
        const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
        const float from_red = bc - gc, from_green = (rc + 2.0f) - bc, from_blue = (gc + 4.0f) - rc;
        const float wheel = hue_select(most == r, from_red, hue_select(most == g, from_green, from_blue));
        const float turns = (v1 ? wheel / 6.0f : wheel * (float)(1.0 / 6.0)) + 1.0f;
        const float moved = turns - (float)(int32_t)turns + by;
        const float rest = moved - (float)(int32_t)moved; /* has the sign of `moved`, as fmod */
        const float hue = hue_select(rest < 0.0f, rest + 1.0f, rest);
        const float s = range / hue_select(most == least, 1.0f, most), v = most;

        const float sixths = hue * 6.0f;
        const int32_t i = (int32_t)sixths; /* 6 is 0 again */
        const float part = sixths - (float)i, paler = 1.0f - s, sxf = s * part;
        const float p = hue_clamped(paler * v), q = hue_clamped((1.0f - sxf) * v);
        const float t = hue_clamped((v1 ? 1.0f - s * (1.0f - part) : sxf + paler) * v);
        red[k] = hue_select(i == 1, q, hue_select(i == 4, t, hue_select((i == 2) | (i == 3), p, v)));
        green[k] = hue_select(i == 3, q, hue_select((i == 0) | (i == 6), t, hue_select((i == 1) | (i == 2), v, p)));
        blue[k] = hue_select(i == 5, q, hue_select(i == 2, t, hue_select((i == 3) | (i == 4), v, p)));
    }
}

static inline void hue_from_bytes(const uint8_t *in, int32_t step, int count, bool v1, float *out) {
    const float scale = (float)(1.0 / 255);
    for (int k = 0; k < count; k++) out[k] = v1 ? (float)in[k * step] / 255.0f : (float)in[k * step] * scale;
}

static inline void hue_to_bytes(const float *in, int32_t step, int count, uint8_t *out) {
    const float scale = (float)(255 + 1.0 - 1e-3);
    for (int k = 0; k < count; k++) out[k * step] = (uint8_t)(int32_t)(in[k] * scale);
}

/* Returns another number than 0 if one of the values isn't from 0 to 1, or is -0. */
static inline uint32_t hue_from_floats(const float *in, int32_t step, int count, float *out) {
    uint32_t beyond = 0;
    for (int k = 0; k < count; k++) {
        uint32_t bits;
        memcpy(&bits, in + k * step, sizeof bits);
        beyond |= bits > 0x3F800000u;
        out[k] = in[k * step];
    }
    return beyond;
}

static inline void hue_to_floats(const float *in, int32_t step, int count, float *out) {
    for (int k = 0; k < count; k++) out[k * step] = in[k];
}

static inline uint32_t hue_read(const fpc_hue_turn *turn, int64_t at, int32_t step, int count, float *out) {
    if (turn->of_floats) return hue_from_floats((const float *)turn->in + at, step, count, out);
    hue_from_bytes((const uint8_t *)turn->in + at, step, count, turn->v1, out);
    return 0;
}

static inline void hue_write(const fpc_hue_turn *turn, int64_t at, int32_t step, int count, const float *in) {
    if (turn->of_floats) {
        hue_to_floats(in, step, count, (float *)turn->out + at);
    } else {
        hue_to_bytes(in, step, count, (uint8_t *)turn->out + at);
    }
}

static bool adjust_tensor_hue(const fpc_hue_turn *turn, int64_t count) {
    float values[3][HUE_BLOCK];
    for (int64_t start = 0; start < count; start += HUE_BLOCK) {
        const int some = count - start < HUE_BLOCK ? (int)(count - start) : HUE_BLOCK;
        uint32_t beyond = 0;
        for (int c = 0; c < 3; c++) {
            const int64_t at = start * turn->in_step + c * turn->in_plane;
            beyond |=
                turn->in_step == 1 ? hue_read(turn, at, 1, some, values[c]) : hue_read(turn, at, 3, some, values[c]);
        }
        if (beyond) return false;
        if (turn->v1) {
            hue_turn_block(values[0], values[1], values[2], some, turn->by, true);
        } else {
            hue_turn_block(values[0], values[1], values[2], some, turn->by, false);
        }
        for (int c = 0; c < 3; c++) {
            const int64_t at = start * turn->out_step + c * turn->out_plane;
            if (turn->out_step == 1) {
                hue_write(turn, at, 1, some, values[c]);
            } else {
                hue_write(turn, at, 3, some, values[c]);
            }
        }
    }
    return true;
}
