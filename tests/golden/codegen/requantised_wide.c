#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef float sample__f32x16 __attribute__((vector_size(64)));
#define f32x16 sample__f32x16
typedef int32_t sample__i32x16 __attribute__((vector_size(64)));
#define i32x16 sample__i32x16
typedef int8_t sample__i8x16 __attribute__((vector_size(16)));
#define i8x16 sample__i8x16
typedef int8_t sample__i8x16u __attribute__((vector_size(16), aligned(1), may_alias));
#define i8x16u sample__i8x16u
typedef uint32_t sample__u32x16 __attribute__((vector_size(64)));
#define u32x16 sample__u32x16
typedef int16_t sample__i16x32 __attribute__((vector_size(64)));
#define i16x32 sample__i16x32
typedef int16_t sample__i16x16 __attribute__((vector_size(32)));
#define i16x16 sample__i16x16
typedef int32_t sample__i32x4 __attribute__((vector_size(16)));
#define i32x4 sample__i32x4
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
#if defined(__AVX512VNNI__) && !defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd_v16si)
#define ET_MAC_i32x16(c, a, b) ((i32x16)__builtin_ia32_vpdpwssd_v16si((c), (((a) & 0xffff) | (i32x16){0}), (b)))
#elif defined(__AVX512VNNI__) && defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd512)
#define ET_MAC_i32x16(c, a, b) ((i32x16)__builtin_ia32_vpdpwssd512((c), (((a) & 0xffff) | (i32x16){0}), (b)))
#elif defined(__AVX512BW__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd512_mask)
#define ET_MAC_i32x16(c, a, b) ((i32x16)((u32x16)(c) + (u32x16)__builtin_ia32_pmaddwd512_mask((i16x32)(((a) & 0xffff) | (i32x16){0}), (i16x32)(b), (i32x16){0}, 0xffff)))
#elif defined(__AVX512BW__) && defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd512)
#define ET_MAC_i32x16(c, a, b) ((i32x16)((u32x16)(c) + (u32x16)__builtin_ia32_pmaddwd512((i16x32)(((a) & 0xffff) | (i32x16){0}), (i16x32)(b))))
#else
#define ET_MAC_i32x16(c, a, b) ((i32x16)((u32x16)(c) + (u32x16)((a) | (i32x16){0}) * (u32x16)(b)))
#endif
typedef char sample__c8x16 __attribute__((vector_size(16))); /* what GCC's builtins want for bytes */
#define c8x16 sample__c8x16
/* *r = the low bytes of *v. */
static inline __attribute__((always_inline)) void sample__narrow_i8x16(const i32x16 *v, i8x16 *r)
{
#if defined(__AVX512F__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmovdb512_mask)
    *r = (i8x16)__builtin_ia32_pmovdb512_mask(*v, (c8x16){0}, 0xffff);
#else
    *r = __builtin_convertvector(__builtin_convertvector(*v, i16x16), i8x16);
#endif
}
/* The nearest integers, half to even: exact. Where no instruction does it, by way of int32_t. */
static inline __attribute__((always_inline)) void sample__nearbyint_f32x16(f32x16 *v)
{
    const f32x16 x = *v;
#if defined(__clang__) && __has_builtin(__builtin_elementwise_roundeven) && (defined(__SSE4_1__) || defined(__aarch64__))
    *v = __builtin_elementwise_roundeven(x);
#elif defined(__AVX512F__) && !defined(__clang__) && __has_builtin(__builtin_ia32_rndscaleps_mask)
    *v = __builtin_ia32_rndscaleps_mask(x, 8, x, -1, 4);
#else
    const i32x16 m = (i32x16)((i32x16)x & 0x7fffffff) < 0x4b000000;
    const f32x16 y = (f32x16)((i32x16)x & m);
    const i32x16 t = __builtin_convertvector(y, i32x16);
    const f32x16 d = y - __builtin_convertvector(t, f32x16);
    const i32x16 up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
    const i32x16 r = (i32x16)__builtin_convertvector(t - up + down, f32x16) | ((i32x16)x & (-0x7fffffff - 1));
    *v = (f32x16)((r & m) | ((i32x16)x & ~m));
#endif
}
/* *a = max(*a, *b); *a where either is NaN. */
static inline __attribute__((always_inline)) void sample__vmax_f32x16(f32x16 *a, const f32x16 *b)
{
#if defined(__AVX512F__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps512_mask)
    *a = __builtin_ia32_maxps512_mask(*b, *a, *a, -1, 4);
#else
    const i32x16 m = (i32x16)(*b > *a);
    *a = (f32x16)(((i32x16)*b & m) | ((i32x16)*a & ~m));
#endif
}
/* *a = min(*a, *b); *a where either is NaN. */
static inline __attribute__((always_inline)) void sample__vmin_f32x16(f32x16 *a, const f32x16 *b)
{
#if defined(__AVX512F__) && !defined(__clang__) && __has_builtin(__builtin_ia32_minps512_mask)
    *a = __builtin_ia32_minps512_mask(*b, *a, *a, -1, 4);
#else
    const i32x16 m = (i32x16)(*b < *a);
    *a = (f32x16)(((i32x16)*b & m) | ((i32x16)*a & ~m));
#endif
}
#define ET_SEL_f32x16(m, a, b) ((f32x16)(((i32x16)(a) & (i32x16)(m)) | ((i32x16)(b) & ~(i32x16)(m))))
#define ET_K_f32x16(c) ((c) - (f32x16){0})
#define ET_BITS_f32x16(x) ((i32x16)(x))
#define ET_VAL_f32x16(x) ((f32x16)(x))
#define ET_FTOI_f32x16(x) __builtin_convertvector((x), i32x16)
#define ET_ITOF_f32x16(x) __builtin_convertvector((x), f32x16)
#define ET_SCALE_f32x16(p, t) ((f32x16)((i32x16)(p) + ((i32x16)(t) << 23)))
/* *r = *v as integers; 0 where it is NaN. */
static inline __attribute__((always_inline)) void sample__whole_f32x16(const f32x16 *v, i32x16 *r)
{
    const f32x16 x = *v;
    const f32x16 c = ET_SEL_f32x16(x == x, x, ET_K_f32x16(0.0f));
    *r = ET_FTOI_f32x16(c);
}
/* *r = the 16 numbers at p. */
static inline __attribute__((always_inline)) void sample__widen_i8x16(const void *p, i32x16 *r)
{
#if defined(__clang__)
    *r = (i32x16)__builtin_convertvector(*(const i8x16u *)p, i32x16);
#elif defined(__AVX512F__) && __has_builtin(__builtin_ia32_pmovsxbd512_mask)
    *r = (i32x16)__builtin_ia32_pmovsxbd512_mask((c8x16)*(const i8x16u *)p, (i32x16){0}, 0xffff);
#else
    *r = (i32x16)__builtin_convertvector(__builtin_convertvector(*(const i8x16u *)p, i16x16), i32x16);
#endif
}

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out);

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out)
{
    i32x16 acc = {0};
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j_o = 0; j_o < 2; j_o++) {
            acc = (i32x16){0};
            const int32_t offset = j_o * 16;
            for (int32_t k = 0; k < 8; k++) {
                i32x16 b_wide;
                sample__widen_i8x16(&b[k * 32 + offset], &b_wide);
                acc = ET_MAC_i32x16(acc, (int32_t)a[i * 8 + k] - 3, b_wide);
            }
            f32x16 rounded = __builtin_convertvector(acc, f32x16) * 0x1.2fec56p-5f;
            sample__nearbyint_f32x16(&rounded);
            f32x16 at_most = rounded;
            const f32x16 bound = (127.0f - (f32x16){0});
            sample__vmin_f32x16(&at_most, &bound);
            f32x16 at_least = at_most;
            const f32x16 bound_1 = (-128.0f - (f32x16){0});
            sample__vmax_f32x16(&at_least, &bound_1);
            const f32x16 real = at_least;
            i32x16 whole;
            sample__whole_f32x16(&real, &whole);
            i8x16 result;
            sample__narrow_i8x16(&whole, &result);
            *(i8x16u *)&out[i * 32 + offset] = result;
        }
    }
}
