#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef float sample__f32x4 __attribute__((vector_size(16)));
#define f32x4 sample__f32x4
typedef int32_t sample__i32x4 __attribute__((vector_size(16)));
#define i32x4 sample__i32x4
typedef int8_t sample__i8x4 __attribute__((vector_size(4)));
#define i8x4 sample__i8x4
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
typedef uint32_t sample__u32x4 __attribute__((vector_size(16)));
#define u32x4 sample__u32x4
typedef int16_t sample__i16x8 __attribute__((vector_size(16)));
#define i16x8 sample__i16x8
typedef int16_t sample__i16x4 __attribute__((vector_size(8)));
#define i16x4 sample__i16x4
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) && !defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd_v4si)
#define ET_MAC_i32x4(c, a, b) ((i32x4)__builtin_ia32_vpdpwssd_v4si((c), (((a) & 0xffff) | (i32x4){0}), (b)))
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)__builtin_ia32_vpdpwssd128((c), (((a) & 0xffff) | (i32x4){0}), (b)))
#elif defined(__SSE2__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)__builtin_ia32_pmaddwd128((i16x8)(((a) & 0xffff) | (i32x4){0}), (i16x8)(b))))
#elif defined(__SSE2__) && defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)__builtin_ia32_pmaddwd128((i16x8)(((a) & 0xffff) | (i32x4){0}), (i16x8)(b))))
#else
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)((a) | (i32x4){0}) * (u32x4)(b)))
#endif
typedef char sample__c8x16 __attribute__((vector_size(16))); /* what GCC's builtins want for bytes */
#define c8x16 sample__c8x16
/* *r = the low bytes of *v. */
static inline __attribute__((always_inline)) void sample__narrow_i8x4(const i32x4 *v, i8x4 *r)
{
#if defined(__AVX512VL__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmovdb128_mask)
    *r = (i8x4)((i32x4)__builtin_ia32_pmovdb128_mask(*v, (c8x16){0}, 0xf))[0];
#else
    *r = __builtin_convertvector(__builtin_convertvector(*v, i16x4), i8x4);
#endif
}
/* The nearest integers, half to even: exact. Where no instruction does it, by way of int32_t. */
static inline __attribute__((always_inline)) void sample__nearbyint_f32x4(f32x4 *v)
{
    const f32x4 x = *v;
#if defined(__clang__) && __has_builtin(__builtin_elementwise_roundeven) && (defined(__SSE4_1__) || defined(__aarch64__))
    *v = __builtin_elementwise_roundeven(x);
#elif defined(__SSE4_1__) && !defined(__clang__) && __has_builtin(__builtin_ia32_roundps)
    *v = __builtin_ia32_roundps(x, 8);
#elif defined(__aarch64__)
    __asm__("frintn %0.4s, %1.4s" : "=w"(*v) : "w"(x));
#else
    const i32x4 m = (i32x4)((i32x4)x & 0x7fffffff) < 0x4b000000;
    const f32x4 y = (f32x4)((i32x4)x & m);
    const i32x4 t = __builtin_convertvector(y, i32x4);
    const f32x4 d = y - __builtin_convertvector(t, f32x4);
    const i32x4 up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
    const i32x4 r = (i32x4)__builtin_convertvector(t - up + down, f32x4) | ((i32x4)x & (-0x7fffffff - 1));
    *v = (f32x4)((r & m) | ((i32x4)x & ~m));
#endif
}
/* *a = max(*a, *b); *a where either is NaN. */
static inline __attribute__((always_inline)) void sample__vmax_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps)
    *a = __builtin_ia32_maxps(*b, *a);
#else
    const i32x4 m = (i32x4)(*b > *a);
    *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}
/* *a = max(*a, *b), where *b is a number; NaN stays NaN. */
static inline __attribute__((always_inline)) void sample__vmax_bound_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__aarch64__)
    __asm__("fmax %0.4s, %1.4s, %2.4s" : "=w"(*a) : "w"(*a), "w"(*b));
#else
    sample__vmax_f32x4(a, b);
#endif
}
/* *a = min(*a, *b); *a where either is NaN. */
static inline __attribute__((always_inline)) void sample__vmin_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_minps)
    *a = __builtin_ia32_minps(*b, *a);
#else
    const i32x4 m = (i32x4)(*b < *a);
    *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}
/* *a = min(*a, *b), where *b is a number; NaN stays NaN. */
static inline __attribute__((always_inline)) void sample__vmin_bound_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__aarch64__)
    __asm__("fmin %0.4s, %1.4s, %2.4s" : "=w"(*a) : "w"(*a), "w"(*b));
#else
    sample__vmin_f32x4(a, b);
#endif
}
#define ET_SEL_f32x4(m, a, b) ((f32x4)(((i32x4)(a) & (i32x4)(m)) | ((i32x4)(b) & ~(i32x4)(m))))
#define ET_K_f32x4(c) ((c) - (f32x4){0})
#define ET_BITS_f32x4(x) ((i32x4)(x))
#define ET_VAL_f32x4(x) ((f32x4)(x))
#define ET_FTOI_f32x4(x) __builtin_convertvector((x), i32x4)
#define ET_ITOF_f32x4(x) __builtin_convertvector((x), f32x4)
#define ET_SCALE_f32x4(p, t) ((f32x4)((i32x4)(p) + ((i32x4)(t) << 23)))
/* *r = *v as integers; 0 where it is NaN. */
static inline __attribute__((always_inline)) void sample__whole_f32x4(const f32x4 *v, i32x4 *r)
{
    const f32x4 x = *v;
    const f32x4 c = ET_SEL_f32x4(x == x, x, ET_K_f32x4(0.0f));
    *r = ET_FTOI_f32x4(c);
}
/* *r = the 4 numbers at p. */
static inline __attribute__((always_inline)) void sample__widen_i8x4(const void *p, i32x4 *r)
{
#if defined(__clang__)
    *r = (i32x4)__builtin_convertvector(*(const i8x4u *)p, i32x4);
#elif defined(__SSE4_1__) && __has_builtin(__builtin_ia32_pmovsxbd128)
    *r = (i32x4)__builtin_ia32_pmovsxbd128((c8x16)(i32x4){(int32_t)*(const i8x4u *)p, 0, 0, 0});
#elif defined(__aarch64__)
    __asm__("ldr %s0, [%1]\n\tsxtl %0.8h, %0.8b\n\tsxtl %0.4s, %0.4h" : "=w"(*r) : "r"(p), "m"(*(const i8x4u *)p));
#elif defined(__ARM_NEON)
    __asm__("vld1.32 {%e0[0]}, [%1]\n\tvmovl.s8 %q0, %e0\n\tvmovl.s16 %q0, %e0" : "=w"(*r) : "r"(p), "m"(*(const i8x4u *)p));
#elif defined(__ARM_FEATURE_MVE)
    __asm__("vldrb.s32 %q0, [%1]" : "=w"(*r) : "l"(p), "m"(*(const i8x4u *)p));
#else
    *r = (i32x4)__builtin_convertvector(*(const i8x4u *)p, i32x4);
#endif
}

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out);

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out)
{
    i32x4 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j_o = 0; j_o < 2; j_o++) {
            acc_0 = acc_1 = acc_2 = acc_3 = (i32x4){0};
            const int32_t offset = j_o * 16;
            for (int32_t k = 0; k < 8; k++) {
                i32x4 b_wide;
                sample__widen_i8x4(&b[k * 32 + offset], &b_wide);
                acc_0 = ET_MAC_i32x4(acc_0, (int32_t)a[i * 8 + k] - 3, b_wide);
                i32x4 b_wide_1;
                sample__widen_i8x4(&b[k * 32 + offset + 4], &b_wide_1);
                acc_1 = ET_MAC_i32x4(acc_1, (int32_t)a[i * 8 + k] - 3, b_wide_1);
                i32x4 b_wide_2;
                sample__widen_i8x4(&b[k * 32 + offset + 8], &b_wide_2);
                acc_2 = ET_MAC_i32x4(acc_2, (int32_t)a[i * 8 + k] - 3, b_wide_2);
                i32x4 b_wide_3;
                sample__widen_i8x4(&b[k * 32 + offset + 12], &b_wide_3);
                acc_3 = ET_MAC_i32x4(acc_3, (int32_t)a[i * 8 + k] - 3, b_wide_3);
            }
            f32x4 rounded_0 = __builtin_convertvector(acc_0, f32x4) * 0x1.2fec56p-5f;
            sample__nearbyint_f32x4(&rounded_0);
            f32x4 at_most_0 = rounded_0;
            const f32x4 bound_0 = (127.0f - (f32x4){0});
            sample__vmin_bound_f32x4(&at_most_0, &bound_0);
            f32x4 at_least_0 = at_most_0;
            const f32x4 bound_0_1 = (-128.0f - (f32x4){0});
            sample__vmax_bound_f32x4(&at_least_0, &bound_0_1);
            const f32x4 real_0 = at_least_0;
            i32x4 whole_0;
            sample__whole_f32x4(&real_0, &whole_0);
            i8x4 out_0;
            sample__narrow_i8x4(&whole_0, &out_0);
            *(i8x4u *)&out[i * 32 + offset] = out_0;
            f32x4 rounded_1 = __builtin_convertvector(acc_1, f32x4) * 0x1.2fec56p-5f;
            sample__nearbyint_f32x4(&rounded_1);
            f32x4 at_most_1 = rounded_1;
            const f32x4 bound_1 = (127.0f - (f32x4){0});
            sample__vmin_bound_f32x4(&at_most_1, &bound_1);
            f32x4 at_least_1 = at_most_1;
            const f32x4 bound_1_1 = (-128.0f - (f32x4){0});
            sample__vmax_bound_f32x4(&at_least_1, &bound_1_1);
            const f32x4 real_1 = at_least_1;
            i32x4 whole_1;
            sample__whole_f32x4(&real_1, &whole_1);
            i8x4 out_1;
            sample__narrow_i8x4(&whole_1, &out_1);
            *(i8x4u *)&out[i * 32 + offset + 4] = out_1;
            f32x4 rounded_2 = __builtin_convertvector(acc_2, f32x4) * 0x1.2fec56p-5f;
            sample__nearbyint_f32x4(&rounded_2);
            f32x4 at_most_2 = rounded_2;
            const f32x4 bound_2 = (127.0f - (f32x4){0});
            sample__vmin_bound_f32x4(&at_most_2, &bound_2);
            f32x4 at_least_2 = at_most_2;
            const f32x4 bound_2_1 = (-128.0f - (f32x4){0});
            sample__vmax_bound_f32x4(&at_least_2, &bound_2_1);
            const f32x4 real_2 = at_least_2;
            i32x4 whole_2;
            sample__whole_f32x4(&real_2, &whole_2);
            i8x4 out_2;
            sample__narrow_i8x4(&whole_2, &out_2);
            *(i8x4u *)&out[i * 32 + offset + 8] = out_2;
            f32x4 rounded_3 = __builtin_convertvector(acc_3, f32x4) * 0x1.2fec56p-5f;
            sample__nearbyint_f32x4(&rounded_3);
            f32x4 at_most_3 = rounded_3;
            const f32x4 bound_3 = (127.0f - (f32x4){0});
            sample__vmin_bound_f32x4(&at_most_3, &bound_3);
            f32x4 at_least_3 = at_most_3;
            const f32x4 bound_3_1 = (-128.0f - (f32x4){0});
            sample__vmax_bound_f32x4(&at_least_3, &bound_3_1);
            const f32x4 real_3 = at_least_3;
            i32x4 whole_3;
            sample__whole_f32x4(&real_3, &whole_3);
            i8x4 out_3;
            sample__narrow_i8x4(&whole_3, &out_3);
            *(i8x4u *)&out[i * 32 + offset + 12] = out_3;
        }
    }
}
