enum element_type { BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 }; /* F64: where `real` is double */

/* An output is right where it has the NaN and infinities of its reference, and no other element is further off than
   `absolute`, or than `relative` times the largest finite magnitude of the reference (1 where all of it is zero). At
   most a `share` of the elements, or one, may be further off than that product alone. BOOL is always exact. */
struct tolerance {
    real relative, absolute, share;
};

/* The largest error, its ratio to the largest magnitude of the reference, what is allowed, and the verdict. */
struct difference {
    real absolute, relative, bound;
    bool allowed;
};

/* Position of a float among all floats, from its bits; `lowest` are the bits of -0. */
static inline int64_t ordered(int64_t bits, int64_t lowest)
{
    return bits < 0 ? lowest - bits : bits;
}

/* Position of an element among all values of its type: the value of an integer (U64: less 2^63), else as `ordered`. */
static inline int64_t position_of(enum element_type type, const void *data, size_t i)
{
    int32_t narrow;
    int64_t wide;

    switch (type) {
    case I8: return ((const int8_t *)data)[i];
    case I16: return ((const int16_t *)data)[i];
    case I32: return ((const int32_t *)data)[i];
    case I64: return ((const int64_t *)data)[i];
    case U16: return ((const uint16_t *)data)[i];
    case U32: return ((const uint32_t *)data)[i];
    case U64: return (int64_t)(((const uint64_t *)data)[i] ^ 0x8000000000000000u);
    case F16:
    case BF16: return ordered(((const int16_t *)data)[i], INT16_MIN);
    case F32:
        memcpy(&narrow, (const float *)data + i, 4);
        return ordered(narrow, INT32_MIN);
    case F64:
        memcpy(&wide, (const real *)data + i, 8);
        return ordered(wide, INT64_MIN);
    default: return ((const uint8_t *)data)[i];
    }
}

/* Distance of two elements: the difference of integers; of floats, units in the last place. */
static inline uint64_t steps_between(enum element_type type, const void *a, const void *b, size_t i)
{
    const int64_t one = position_of(type, a, i), other = position_of(type, b, i);
    return one > other ? (uint64_t)one - (uint64_t)other : (uint64_t)other - (uint64_t)one;
}

static inline real half_value(uint16_t bits)
{
    const unsigned exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    const real sign = (bits & 0x8000u) != 0 ? -1 : 1;

    if (exponent == 31)
        return fraction != 0 ? (real)NAN : sign * (real)INFINITY;
    if (exponent == 0)
        return sign * (real)fraction * (real)0x1p-24f;
    return sign * (real)(1024 + fraction) * (real)(1u << exponent) * (real)0x1p-25f;
}

static inline real value_of(enum element_type type, const void *data, size_t i)
{
    uint32_t bits;
    float value;

    switch (type) {
    case F16: return half_value(((const uint16_t *)data)[i]);
    case BF16:
        bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        memcpy(&value, &bits, 4);
        return (real)value;
    case F32: return (real)((const float *)data)[i];
    case F64: return ((const real *)data)[i];
    case U64: return (real)((const uint64_t *)data)[i];
    default: return (real)position_of(type, data, i);
    }
}

/* Error of an element, exact for integers: 0 for two NaN or equal infinities, infinite for any other pair with one. */
static inline real error_of(enum element_type type, const void *output, const void *reference, size_t i)
{
    if (type < F16)
        return (real)steps_between(type, output, reference, i);
    const real a = value_of(type, output, i), b = value_of(type, reference, i);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? (real)0 : (real)INFINITY;
    return a > b ? a - b : (a < b ? b - a : (real)0);
}

static inline struct difference difference_of(enum element_type type, const void *output, const void *reference,
                                              size_t elements, struct tolerance tolerance)
{
    real largest = 0, absolute = 0;

    if (type == BOOL)
        tolerance = (struct tolerance){0, 0, 1};
    for (size_t i = 0; i < elements; i++) {
        const real value = value_of(type, reference, i), error = error_of(type, output, reference, i);
        const real magnitude = value < 0 ? -value : value;
        if (magnitude > largest && magnitude < (real)INFINITY)
            largest = magnitude;
        if (error > absolute)
            absolute = error;
    }
    if (!(largest > 0))
        largest = 1;
    const real product = tolerance.relative * largest;
    const real bound = tolerance.absolute > product ? tolerance.absolute : product;
    bool allowed = absolute <= bound && absolute < (real)INFINITY;
    if (allowed && tolerance.share < 1) {
        size_t off = 0;
        for (size_t i = 0; i < elements; i++)
            off += error_of(type, output, reference, i) > product;
        allowed = off <= 1 || (real)off <= tolerance.share * (real)elements;
    }
    return (struct difference){absolute, absolute / largest, bound, allowed};
}
