/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <string.h>

static double half(uint16_t bits)
{
    const unsigned exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
    double value;
    if (exponent == 31)
        value = mantissa != 0 ? __builtin_nan("") : __builtin_inf();
    else if (exponent == 0)
        value = mantissa * 0x1p-24;
    else
        value = (1024 + mantissa) * (double)(1u << exponent) * 0x1p-25;
    return (bits & 0x8000u) != 0 ? -value : value;
}

#define LOAD(type) \
    do { \
        type v; \
        memcpy(&v, at, sizeof v); \
        return (double)v; \
    } while (0)

static double load(const uint8_t *at, enum dtype dtype)
{
    uint16_t bits;
    switch (dtype) {
    case DTYPE_I8: LOAD(int8_t);
    case DTYPE_I16: LOAD(int16_t);
    case DTYPE_I32: LOAD(int32_t);
    case DTYPE_I64: LOAD(int64_t);
    case DTYPE_U16: LOAD(uint16_t);
    case DTYPE_U32: LOAD(uint32_t);
    case DTYPE_U64: LOAD(uint64_t);
    case DTYPE_F32: LOAD(float);
    case DTYPE_F64: LOAD(double);
    case DTYPE_F16: memcpy(&bits, at, sizeof bits); return half(bits);
    case DTYPE_BYTES:
    case DTYPE_BOOL:
    case DTYPE_U8:
    case DTYPE_COUNT:
    default: LOAD(uint8_t);
    }
}

static size_t size_of(enum dtype dtype)
{
    static const uint8_t sizes[DTYPE_COUNT] = {1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8};
    return sizes[dtype];
}

static bool is_finite(double value)
{
    return value - value == 0;
}

static double magnitude(double value)
{
    return value < 0 ? -value : value;
}

struct difference compare(const void *output, const void *reference, size_t bytes, enum dtype dtype,
                          struct tolerance tolerance)
{
    const struct difference none = {0, 0, true};
    const size_t size = size_of(dtype), count = bytes / size;
    const uint8_t *got_at = output, *want_at = reference;
    if (dtype == DTYPE_BOOL || dtype == DTYPE_BYTES) /* any byte but 0 and 1 is wrong as well */
        tolerance = (struct tolerance){0, 0, 1};
    const bool whole = dtype != DTYPE_F16 && dtype != DTYPE_F32 && dtype != DTYPE_F64;
    const bool exact = whole && !(tolerance.relative > 0) && !(tolerance.absolute > 0) && !(tolerance.share < 1);
    if (count == 0 || (exact && memcmp(output, reference, bytes) == 0))
        return none;
    double largest = 0, absolute = 0;
    bool any_finite = false;
    for (size_t i = 0; i < count; ++i) {
        const double got = load(got_at + i * size, dtype), want = load(want_at + i * size, dtype);
        if (!is_finite(want) || !is_finite(got)) {
            const bool both_nan = __builtin_isnan(got) && __builtin_isnan(want);
            const bool same_infinity = !__builtin_isnan(got) && !__builtin_isnan(want) && !(got < want) && !(got > want);
            if (!both_nan && !same_infinity)
                return (struct difference){__builtin_inf(), __builtin_inf(), false};
            continue;
        }
        any_finite = true;
        if (magnitude(want) > largest)
            largest = magnitude(want);
        if (magnitude(got - want) > absolute)
            absolute = magnitude(got - want);
    }
    if (!any_finite)
        return none;
    if (exact) /* they differ, be it beyond the precision of a double */
        return (struct difference){absolute > 1 ? absolute : 1, absolute / (largest > 1 ? largest : 1), false};
    const double relative = largest > 0 ? absolute / largest : (absolute > 0 ? 1.0 : 0.0);
    const double limit = tolerance.relative * largest;
    bool allowed = absolute <= (tolerance.absolute > limit ? tolerance.absolute : limit);
    if (allowed && tolerance.share < 1) {
        double off = 0;
        for (size_t i = 0; i < count; ++i) {
            const double got = load(got_at + i * size, dtype), want = load(want_at + i * size, dtype);
            if (is_finite(want) && magnitude(got - want) > limit)
                off += 1;
        }
        const double most = tolerance.share * (double)count;
        allowed = off <= (most > 1 ? most : 1);
    }
    return (struct difference){absolute, relative, allowed};
}
