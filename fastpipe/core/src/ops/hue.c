/* hue.c: torchvision's adjust_hue of uint8 tensors, by way of float32 (transforms/v2/functional/_color.py: _rgb_to_hsv,
 * _hsv_to_rgb). Each of torch's operations is one operation here, in the same order, so that all round alike; compile
 * without contraction. Intermediate values aren't negative, so a cast is a floor, and the remainder is fmod(x, 1). */
#include "tensors.h"

enum { BLOCK = 512 };

static float clamped(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }

static float largest(float a, float b) { return a > b ? a : b; }

static float smallest(float a, float b) { return a < b ? a : b; }

static void to_hsv(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int count, float *hue,
                   float *saturation, float *value) {
    const float scale = (float)(1.0 / 255);
    for (int k = 0; k < count; k++) {
        const float r = (float)red[k] * scale, g = (float)green[k] * scale, b = (float)blue[k] * scale;
        const float most = largest(r, largest(g, b)), least = smallest(r, smallest(g, b));
        const float range = most - least;
        const float divisor = most == least ? 1.0f : range;
        const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
        const float from_red = bc - gc, from_green = (rc + 2.0f) - bc, from_blue = (gc + 4.0f) - rc;
        const float not_red = most == g ? from_green : from_blue;
        const float sixths = most == r ? from_red : not_red;
        const float turns = sixths * (float)(1.0 / 6.0) + 1.0f;
        hue[k] = turns - (float)(int32_t)turns;
        saturation[k] = range / (most == least ? 1.0f : most);
        value[k] = most;
    }
}

static void turn(float *hue, int count, float by) {
    for (int k = 0; k < count; k++) {
        const float moved = hue[k] + by;
        const float rest = moved - (float)(int32_t)moved; /* has the sign of `moved`, as fmod */
        hue[k] = rest < 0.0f ? rest + 1.0f : rest;
    }
}

static void from_hsv(const float *hue, const float *saturation, const float *value, int count, uint8_t *red,
                     uint8_t *green, uint8_t *blue) {
    const float scale = (float)(255 + 1.0 - 1e-3);
    for (int k = 0; k < count; k++) {
        const float sixths = hue[k] * 6.0f, s = saturation[k], v = value[k];
        const int32_t whole = (int32_t)sixths;
        const float part = sixths - (float)whole;
        const float sxf = s * part, paler = 1.0f - s;
        const float q = clamped((1.0f - sxf) * v), t = clamped((sxf + paler) * v), p = clamped(paler * v);
        const int32_t i = whole == 6 ? 0 : whole;
        const float r = i == 0 || i == 5 ? v : i == 1 ? q : i == 4 ? t : p;
        const float g = i == 1 || i == 2 ? v : i == 3 ? q : i == 0 ? t : p;
        const float b = i == 3 || i == 4 ? v : i == 5 ? q : i == 2 ? t : p;
        red[k] = (uint8_t)(int32_t)(r * scale);
        green[k] = (uint8_t)(int32_t)(g * scale);
        blue[k] = (uint8_t)(int32_t)(b * scale);
    }
}

void fpc_hue(const uint8_t *in, uint8_t *out, size_t count, size_t in_plane, size_t out_plane, float by) {
    float hue[BLOCK], saturation[BLOCK], value[BLOCK];
    for (size_t start = 0; start < count; start += BLOCK) {
        const int some = count - start < BLOCK ? (int)(count - start) : BLOCK;
        const uint8_t *const from = in + start;
        uint8_t *const to = out + start;
        to_hsv(from, from + in_plane, from + 2 * in_plane, some, hue, saturation, value);
        turn(hue, some, by);
        from_hsv(hue, saturation, value, some, to, to + out_plane, to + 2 * out_plane);
    }
}
