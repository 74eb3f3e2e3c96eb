/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian values in a block of bytes. Reading past the end sets `bad` and gives zeros; writing past the end sets
   `bad` and writes nothing. */
#ifndef EDGETUNE_AGENT_BYTES_H
#define EDGETUNE_AGENT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

struct writer {
    uint8_t *base;
    size_t used;
    size_t room;
    bool bad;
};

static inline const uint8_t *get_bytes(struct reader *r, size_t count)
{
    if (r->bad || count > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *found = r->at;
    r->at += count;
    r->left -= count;
    return found;
}

static inline uint64_t get_number(struct reader *r, unsigned bytes)
{
    const uint8_t *at = get_bytes(r, bytes);
    uint64_t value = 0;
    for (unsigned i = 0; at != NULL && i < bytes; ++i)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static inline uint8_t get_u8(struct reader *r) { return (uint8_t)get_number(r, 1); }
static inline uint16_t get_u16(struct reader *r) { return (uint16_t)get_number(r, 2); }
static inline uint32_t get_u32(struct reader *r) { return (uint32_t)get_number(r, 4); }
static inline uint64_t get_u64(struct reader *r) { return get_number(r, 8); }

static inline double get_f64(struct reader *r)
{
    const uint64_t bits = get_number(r, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void put_bytes(struct writer *w, const void *data, size_t count)
{
    if (w->bad || count > w->room - w->used) {
        w->bad = true;
        return;
    }
    if (count > 0)
        memcpy(w->base + w->used, data, count);
    w->used += count;
}

static inline void put_number(struct writer *w, uint64_t value, unsigned bytes)
{
    uint8_t out[8];
    for (unsigned i = 0; i < bytes; ++i)
        out[i] = (uint8_t)(value >> (8 * i));
    put_bytes(w, out, bytes);
}

static inline void put_f64(struct writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(w, bits, 8);
}

/* A text: two bytes of length, then the text without its end. */
static inline void put_text(struct writer *w, const char *text)
{
    const size_t whole = strlen(text), length = whole < 1000 ? whole : 1000;
    put_number(w, length, 2);
    put_bytes(w, text, length);
}

#endif
