/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are drawn here, so that they need not travel: edgetune/bundle/drawn.py draws the same. */
#include "common.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The finaliser of splitmix64. */
static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

static const uint64_t STEP = 0x9E3779B97F4A7C15u;

/* A number that a float16 holds without rounding. */
static uint16_t half_bits(double value)
{
    int exponent;
    const double size = fabs(value), fraction = frexp(size, &exponent); /* from 0.5 on, below 1 */
    const unsigned bits = exponent > -14 ? (unsigned)(exponent + 14) << 10 | (unsigned)(fraction * 2048 - 1024)
                                         : (unsigned)ldexp(size, 24);

    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

static size_t width_of(char type)
{
    return type == 'd' ? sizeof(double) : type == 'o' ? sizeof(float) : strchr("hb", type) ? 2 : (size_t)(type - '0');
}

/* Writes the element that `random` gives: edgetune/bundle/drawn.py has the same in numpy. */
static void draw_element(const Drawing *how, uint64_t random, unsigned char *to)
{
    const int bits = how->type == 'd' ? 53 : how->type == 'o' ? 24 : how->type == 'h' ? 11 : 8;
    const uint64_t size = (uint64_t)how->high - (uint64_t)how->low + 1;
    int64_t whole;
    double wide;
    float single;
    uint16_t half;

    if (how->type >= '1' && how->type <= '8') {
        const uint64_t parts = (random & 0xFFFF) + (random >> 16 & 0xFFFF) + (random >> 32 & 0xFFFF) + (random >> 48);
        whole = how->low + (int64_t)(how->type <= '2' && size > 2 ? (parts >> 2) * size >> 16 : (random >> 32) * size >> 32);
        memcpy(to, &whole, width_of(how->type));
        return;
    }
    wide = ldexp((double)((int64_t)(random >> (64 - bits)) * 2 + 1 - ((int64_t)1 << bits)), (int)how->low - bits);
    single = (float)wide;
    if (how->type == 'd') {
        memcpy(to, &wide, sizeof wide);
    } else if (how->type == 'o') {
        memcpy(to, &single, sizeof single);
    } else if (how->type == 'h') {
        half = half_bits(wide);
        memcpy(to, &half, sizeof half);
    } else {
        memcpy(to, (unsigned char *)&single + 2, 2); /* a bfloat16 is the upper half of a float */
    }
}

static uint64_t checksum(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0;

    for (size_t at = 0, number = 1; at < bytes; at += 8, number++) {
        uint64_t word = 0;
        memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
        sum += mixed(word + mixed(number * STEP));
    }
    return sum;
}

/* The bytes of a drawn array, in the layout of the candidate; ends all where they are not those of the export. */
unsigned char *drawn(const Buffer *buffer)
{
    const Drawing *how = &buffer->drawing;
    const unsigned last = how->axes - 1;
    const size_t width = width_of(how->type), row = how->extent[last];
    const uint64_t first = mixed(how->seed);
    unsigned char *data = calloc(1, buffer->bytes);
    size_t index[MOST_AXES] = {0};

    need(data);
    for (size_t at = 0; at < buffer->bytes / width; at += row) {
        size_t place = 1, inside = how->inside[last];
        for (unsigned axis = 0; axis < last; axis++) {
            place += index[axis] * how->step[axis];
            inside = index[axis] < how->inside[axis] ? inside : 0;
        }
        for (size_t i = 0; i < inside; i++)
            draw_element(how, mixed((place + i * how->step[last]) * STEP + first), data + (at + i) * width);
        for (unsigned axis = last; axis-- > 0;) {
            if (++index[axis] < how->extent[axis])
                break;
            index[axis] = 0;
        }
    }
    if (checksum(data, buffer->bytes) != how->sum)
        stop(BAD_BUNDLE, "this machine draws other inputs than the one that exported the bundle: tell us its processor");
    return data;
}

/* Whether a line of the plan says how to draw a buffer, and its layout has as many bytes as it says. */
int reads_drawing(const char *line, Buffer *buffer)
{
    Drawing *how = &buffer->drawing;
    int at = 0, used = 0;
    size_t elements = 1;

    if (sscanf(line, "drawn %c %zu %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNx64 " %u%n", &how->type, &buffer->bytes,
               &how->seed, &how->low, &how->high, &how->sum, &how->axes, &at) != 7
        || !how->type || !strchr("odhb1248", how->type) || how->axes < 1 || how->axes > MOST_AXES)
        return 0;
    for (unsigned axis = 0; axis < how->axes; axis++, at += used) {
        if (sscanf(line + at, " %zu:%zu:%zu%n", &how->extent[axis], &how->inside[axis], &how->step[axis], &used) != 3
            || how->inside[axis] > how->extent[axis] || !how->extent[axis]
            || elements > buffer->bytes / how->extent[axis])
            return 0;
        elements *= how->extent[axis];
    }
    buffer->role = 'r';
    return buffer->bytes % width_of(how->type) == 0 && elements == buffer->bytes / width_of(how->type);
}
