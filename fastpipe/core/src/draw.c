/* draw.c: the draws of RandomResizedCrop and of flips behind it, from a Mersenne Twister as torch has it.
 *
 * The twister: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998), as in
 * ATen/core/MT19937RNGEngine.h.
 * A number between two others: ATen/core/TransformationHelper.h, uniform_real. The crop: torchvision, get_params of
 * transforms/transforms.py's RandomResizedCrop.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fastpipe_draw.h"

enum { WORDS = 624, SHIFT = 397, TRIES = 10, MOST_WORDS = 2 * TRIES + 2 + FPC_MOST_CHANCES };

/* Offsets in torch's get_state: seed (uint64), left (int32), seeded (int32), next (uint64), 624 words as uint64,
 * more. */
enum { LEFT_AT = 8, NEXT_AT = 16, WORDS_AT = 24 };

typedef struct {
    uint32_t words[WORDS];
    int at; /* the next word; WORDS where there is none left */
} twister;

static uint32_t twisted(uint32_t far, uint32_t one, uint32_t other) {
    uint32_t mixed = (one & 0x80000000u) | (other & 0x7FFFFFFFu);
    return far ^ (mixed >> 1) ^ ((other & 1) ? 0x9908B0DFu : 0);
}

static void turn(twister *t) {
    uint32_t *s = t->words;
    int i = 0;
    for (; i < WORDS - SHIFT; i++) s[i] = twisted(s[i + SHIFT], s[i], s[i + 1]);
    for (; i < WORDS - 1; i++) s[i] = twisted(s[i + SHIFT - WORDS], s[i], s[i + 1]);
    s[i] = twisted(s[SHIFT - 1], s[i], s[0]);
    t->at = 0;
}

static uint32_t next_word(twister *t) {
    if (t->at == WORDS) turn(t);
    uint32_t y = t->words[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ y >> 18;
}

static double fraction(twister *t) { return (next_word(t) & 0xFFFFFF) * (1.0 / 16777216.0); }

/* A float: the caller knows that the sum is exact before it is rounded. */
static double between(twister *t, const fpc_range *range) {
    float value = (float)(fraction(t) * range->width + range->start);
    return value == range->end ? range->start : value;
}

/* Draws a crop; 0 where it can't be known for certain: nothing fits, or a side depends on how torch rounds an exp. Its
 * error, an ulp of a float or two (2^-23), is less than what is allowed for. Each step is monotonous, so that what both
 * ends give is what all between them give. */
static int draw_crop(twister *t, const fpc_crops *crops, double height, double width, fpc_box *box) {
    const double margin = 1.0 / (1 << 20);
    for (int i = 0; i < TRIES; i++) {
        double area = height * width * between(t, &crops->scale);
        double ratio = exp(between(t, &crops->log_ratio));
        double narrow = ratio * (1 - margin), wide = ratio * (1 + margin);
        double w = rint(sqrt(area * wide)), h = rint(sqrt(area / narrow));
        if (w != rint(sqrt(area * narrow)) || h != rint(sqrt(area / wide))) return 0;
        if (0 < w && w <= width && 0 < h && h <= height) {
            box->top = (int32_t)(next_word(t) % (uint32_t)(height - h + 1));
            box->left = (int32_t)(next_word(t) % (uint32_t)(width - w + 1));
            box->height = (int32_t)h;
            box->width = (int32_t)w;
            return 1;
        }
    }
    return 0;
}

static int draw(twister *t, const fpc_crops *crops, const int32_t *shape, fpc_drawn *drawn) {
    memset(drawn, 0, sizeof *drawn);
    if (shape[0] < 1 || shape[1] < 1 || !draw_crop(t, crops, shape[0], shape[1], &drawn->box)) return 0;
    for (int i = 0; i < crops->chance_count && i < FPC_MOST_CHANCES; i++)
        drawn->flips |= (fraction(t) < crops->chances[i]) << i;
    return 1;
}

size_t fpc_draw_crops(const fpc_crops *crops, uint8_t *state, const int32_t *shapes, size_t count, fpc_drawn *drawn) {
    twister t, before;
    uint64_t word, next;
    int32_t left;
    memcpy(&left, state + LEFT_AT, sizeof left);
    memcpy(&next, state + NEXT_AT, sizeof next);
    t.at = left == 1 || next > WORDS ? WORDS : (int)next;
    for (int i = 0; i < WORDS; i++) {
        memcpy(&word, state + WORDS_AT + 8 * i, sizeof word);
        t.words[i] = (uint32_t)word;
    }
    int turned = 0;
    size_t done = 0;
    for (; done < count; done++) {
        int first = t.at, may_turn = first + MOST_WORDS > WORDS;
        if (may_turn) before = t;
        if (!draw(&t, crops, shapes + 3 * done, drawn + done)) {
            if (may_turn) t = before;
            t.at = first;
            break;
        }
        turned |= t.at < first;
    }
    if (!done) return 0;
    if (turned)
        for (int i = 0; i < WORDS; i++) {
            word = t.words[i];
            memcpy(state + WORDS_AT + 8 * i, &word, sizeof word);
        }
    left = WORDS + 1 - t.at;
    next = (uint64_t)t.at;
    memcpy(state + LEFT_AT, &left, sizeof left);
    memcpy(state + NEXT_AT, &next, sizeof next);
    return done;
}

void fpc_draw_seeded(const fpc_crops *crops, const uint64_t *seeds, const int32_t *shapes, size_t count,
                     fpc_drawn *drawn) {
    twister t;
    for (size_t n = 0; n < count; n++, shapes += 3, drawn++) {
        uint32_t word = (uint32_t)seeds[n];
        t.words[0] = word;
        /* As many words as may be drawn, and those that they are made of. */
        for (int i = 1; i <= SHIFT + MOST_WORDS; i++)
            t.words[i] = word = 1812433253u * (word ^ word >> 30) + (uint32_t)i;
        for (int i = 0; i < MOST_WORDS; i++) t.words[i] = twisted(t.words[i + SHIFT], t.words[i], t.words[i + 1]);
        t.at = 0;
        if (!draw(&t, crops, shapes, drawn)) memset(drawn, 0, sizeof *drawn);
    }
}

void fpc_fill_jobs(fpc_job *jobs, size_t count, const fpc_job *models, const fpc_file *files, const fpc_drawn *drawn,
                   uint8_t *out, int64_t step) {
    for (size_t i = 0; i < count; i++, drawn++) {
        const fpc_file *file = &files[i];
        fpc_job *job = &jobs[i];
        *job = models[drawn->flips];
        job->data = file->data;
        job->length = file->size;
        const bool whole = drawn->box.height == file->header.height && drawn->box.width == file->header.width;
        if (!whole) job->box = drawn->box;
        job->sink.data = out + (int64_t)i * step;
    }
}
