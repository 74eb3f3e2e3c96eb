#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef float sample__f32x4 __attribute__((vector_size(16)));
#define f32x4 sample__f32x4
typedef float sample__f32x4u __attribute__((vector_size(16), aligned(4), may_alias));
#define f32x4u sample__f32x4u
typedef int32_t sample__i32x4 __attribute__((vector_size(16)));
#define i32x4 sample__i32x4
typedef int8_t sample__i8x4 __attribute__((vector_size(4)));
#define i8x4 sample__i8x4
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
typedef uint32_t sample__u32x4 __attribute__((vector_size(16)));
#define u32x4 sample__u32x4
typedef int8_t sample__i8x16u __attribute__((vector_size(16), aligned(1), may_alias));
#define i8x16u sample__i8x16u
typedef int16_t sample__i16x4 __attribute__((vector_size(8)));
#define i16x4 sample__i16x4
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
/* sums[o] += x[0] * w[4 * o] + .. + x[3] * w[4 * o + 3]; sums wrap. */
static inline __attribute__((always_inline)) void sample__dot_i8_i8_4_i32x4(i32x4 *sums, const int8_t *x, const int8_t *w)
{
#if defined(__ARM_FEATURE_DOTPROD)
    __asm__("sdot %0.4s, %2.16b, %1.4b[0]" : "+w"(*sums) : "w"((int32_t)*(const i8x4u *)x), "w"((i32x4)*(const i8x16u *)w));
#else
    i32x4 added = {0};
    for (int32_t o = 0; o < 4; o++)
        added[o] = (int32_t)((uint32_t)(x[0] * w[4 * o + 0]) + (uint32_t)(x[1] * w[4 * o + 1])
            + (uint32_t)(x[2] * w[4 * o + 2]) + (uint32_t)(x[3] * w[4 * o + 3]));
    *sums = (i32x4)((u32x4)*sums + (u32x4)added);
#endif
}
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

void sample_dot_products(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                         const float *restrict bias, int8_t *restrict compute);

void sample_dot_products(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                         const float *restrict bias, int8_t *restrict compute)
{
    i32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_1_0 = {0}, acc_1_1 = {0};
    i32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_3_0 = {0}, acc_3_1 = {0};
    i32x4 acc_4_0 = {0}, acc_4_1 = {0}, acc_5_0 = {0}, acc_5_1 = {0};
    i32x4 acc_6_0 = {0}, acc_6_1 = {0}, acc_7_0 = {0}, acc_7_1 = {0};
    for (int32_t j_o = 0; j_o < 2; j_o++) {
        acc_0_0 = acc_0_1 = acc_1_0 = acc_1_1 = acc_2_0 = acc_2_1 = acc_3_0 = acc_3_1 = (i32x4){0};
        acc_4_0 = acc_4_1 = acc_5_0 = acc_5_1 = acc_6_0 = acc_6_1 = acc_7_0 = acc_7_1 = (i32x4){0};
        const int32_t w_at = j_o * 128;
        sample__dot_i8_i8_4_i32x4(&acc_0_0, x, &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, x, &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[16], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[16], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[32], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[32], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[48], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[48], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_4_0, &x[64], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_4_1, &x[64], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_5_0, &x[80], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_5_1, &x[80], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_6_0, &x[96], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_6_1, &x[96], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_7_0, &x[112], &w[w_at]);
        sample__dot_i8_i8_4_i32x4(&acc_7_1, &x[112], &w[w_at + 16]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[4], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[4], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[20], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[20], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[36], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[36], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[52], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[52], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_4_0, &x[68], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_4_1, &x[68], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_5_0, &x[84], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_5_1, &x[84], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_6_0, &x[100], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_6_1, &x[100], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_7_0, &x[116], &w[w_at + 32]);
        sample__dot_i8_i8_4_i32x4(&acc_7_1, &x[116], &w[w_at + 48]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[8], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[8], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[24], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[24], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[40], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[40], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[56], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[56], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_4_0, &x[72], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_4_1, &x[72], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_5_0, &x[88], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_5_1, &x[88], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_6_0, &x[104], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_6_1, &x[104], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_7_0, &x[120], &w[w_at + 64]);
        sample__dot_i8_i8_4_i32x4(&acc_7_1, &x[120], &w[w_at + 80]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[12], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[12], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[28], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[28], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[44], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[44], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[60], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[60], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_4_0, &x[76], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_4_1, &x[76], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_5_0, &x[92], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_5_1, &x[92], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_6_0, &x[108], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_6_1, &x[108], &w[w_at + 112]);
        sample__dot_i8_i8_4_i32x4(&acc_7_0, &x[124], &w[w_at + 96]);
        sample__dot_i8_i8_4_i32x4(&acc_7_1, &x[124], &w[w_at + 112]);
        const int32_t offset = j_o * 8;
        f32x4 rounded_0_0 = __builtin_convertvector(acc_0_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_0_0);
        f32x4 at_most_0_0 = rounded_0_0 + -3.0f;
        const f32x4 bound_0_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_0_0, &bound_0_0);
        f32x4 at_least_0_0 = at_most_0_0;
        const f32x4 bound_0_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_0_0, &bound_0_0_1);
        const f32x4 real_0_0 = at_least_0_0;
        i32x4 whole_0_0;
        sample__whole_f32x4(&real_0_0, &whole_0_0);
        i8x4 compute_0_0;
        sample__narrow_i8x4(&whole_0_0, &compute_0_0);
        *(i8x4u *)&compute[offset] = compute_0_0;
        f32x4 rounded_0_1 = __builtin_convertvector(acc_0_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_0_1);
        f32x4 at_most_0_1 = rounded_0_1 + -3.0f;
        const f32x4 bound_0_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_0_1, &bound_0_1);
        f32x4 at_least_0_1 = at_most_0_1;
        const f32x4 bound_0_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_0_1, &bound_0_1_1);
        const f32x4 real_0_1 = at_least_0_1;
        i32x4 whole_0_1;
        sample__whole_f32x4(&real_0_1, &whole_0_1);
        i8x4 compute_0_1;
        sample__narrow_i8x4(&whole_0_1, &compute_0_1);
        *(i8x4u *)&compute[offset + 4] = compute_0_1;
        f32x4 rounded_1_0 = __builtin_convertvector(acc_1_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_1_0);
        f32x4 at_most_1_0 = rounded_1_0 + -3.0f;
        const f32x4 bound_1_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_1_0, &bound_1_0);
        f32x4 at_least_1_0 = at_most_1_0;
        const f32x4 bound_1_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_1_0, &bound_1_0_1);
        const f32x4 real_1_0 = at_least_1_0;
        i32x4 whole_1_0;
        sample__whole_f32x4(&real_1_0, &whole_1_0);
        i8x4 compute_1_0;
        sample__narrow_i8x4(&whole_1_0, &compute_1_0);
        *(i8x4u *)&compute[offset + 16] = compute_1_0;
        f32x4 rounded_1_1 = __builtin_convertvector(acc_1_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_1_1);
        f32x4 at_most_1_1 = rounded_1_1 + -3.0f;
        const f32x4 bound_1_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_1_1, &bound_1_1);
        f32x4 at_least_1_1 = at_most_1_1;
        const f32x4 bound_1_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_1_1, &bound_1_1_1);
        const f32x4 real_1_1 = at_least_1_1;
        i32x4 whole_1_1;
        sample__whole_f32x4(&real_1_1, &whole_1_1);
        i8x4 compute_1_1;
        sample__narrow_i8x4(&whole_1_1, &compute_1_1);
        *(i8x4u *)&compute[offset + 20] = compute_1_1;
        f32x4 rounded_2_0 = __builtin_convertvector(acc_2_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_2_0);
        f32x4 at_most_2_0 = rounded_2_0 + -3.0f;
        const f32x4 bound_2_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_2_0, &bound_2_0);
        f32x4 at_least_2_0 = at_most_2_0;
        const f32x4 bound_2_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_2_0, &bound_2_0_1);
        const f32x4 real_2_0 = at_least_2_0;
        i32x4 whole_2_0;
        sample__whole_f32x4(&real_2_0, &whole_2_0);
        i8x4 compute_2_0;
        sample__narrow_i8x4(&whole_2_0, &compute_2_0);
        *(i8x4u *)&compute[offset + 32] = compute_2_0;
        f32x4 rounded_2_1 = __builtin_convertvector(acc_2_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_2_1);
        f32x4 at_most_2_1 = rounded_2_1 + -3.0f;
        const f32x4 bound_2_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_2_1, &bound_2_1);
        f32x4 at_least_2_1 = at_most_2_1;
        const f32x4 bound_2_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_2_1, &bound_2_1_1);
        const f32x4 real_2_1 = at_least_2_1;
        i32x4 whole_2_1;
        sample__whole_f32x4(&real_2_1, &whole_2_1);
        i8x4 compute_2_1;
        sample__narrow_i8x4(&whole_2_1, &compute_2_1);
        *(i8x4u *)&compute[offset + 36] = compute_2_1;
        f32x4 rounded_3_0 = __builtin_convertvector(acc_3_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_3_0);
        f32x4 at_most_3_0 = rounded_3_0 + -3.0f;
        const f32x4 bound_3_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_3_0, &bound_3_0);
        f32x4 at_least_3_0 = at_most_3_0;
        const f32x4 bound_3_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_3_0, &bound_3_0_1);
        const f32x4 real_3_0 = at_least_3_0;
        i32x4 whole_3_0;
        sample__whole_f32x4(&real_3_0, &whole_3_0);
        i8x4 compute_3_0;
        sample__narrow_i8x4(&whole_3_0, &compute_3_0);
        *(i8x4u *)&compute[offset + 48] = compute_3_0;
        f32x4 rounded_3_1 = __builtin_convertvector(acc_3_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_3_1);
        f32x4 at_most_3_1 = rounded_3_1 + -3.0f;
        const f32x4 bound_3_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_3_1, &bound_3_1);
        f32x4 at_least_3_1 = at_most_3_1;
        const f32x4 bound_3_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_3_1, &bound_3_1_1);
        const f32x4 real_3_1 = at_least_3_1;
        i32x4 whole_3_1;
        sample__whole_f32x4(&real_3_1, &whole_3_1);
        i8x4 compute_3_1;
        sample__narrow_i8x4(&whole_3_1, &compute_3_1);
        *(i8x4u *)&compute[offset + 52] = compute_3_1;
        f32x4 rounded_4_0 = __builtin_convertvector(acc_4_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_4_0);
        f32x4 at_most_4_0 = rounded_4_0 + -3.0f;
        const f32x4 bound_4_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_4_0, &bound_4_0);
        f32x4 at_least_4_0 = at_most_4_0;
        const f32x4 bound_4_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_4_0, &bound_4_0_1);
        const f32x4 real_4_0 = at_least_4_0;
        i32x4 whole_4_0;
        sample__whole_f32x4(&real_4_0, &whole_4_0);
        i8x4 compute_4_0;
        sample__narrow_i8x4(&whole_4_0, &compute_4_0);
        *(i8x4u *)&compute[offset + 64] = compute_4_0;
        f32x4 rounded_4_1 = __builtin_convertvector(acc_4_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_4_1);
        f32x4 at_most_4_1 = rounded_4_1 + -3.0f;
        const f32x4 bound_4_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_4_1, &bound_4_1);
        f32x4 at_least_4_1 = at_most_4_1;
        const f32x4 bound_4_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_4_1, &bound_4_1_1);
        const f32x4 real_4_1 = at_least_4_1;
        i32x4 whole_4_1;
        sample__whole_f32x4(&real_4_1, &whole_4_1);
        i8x4 compute_4_1;
        sample__narrow_i8x4(&whole_4_1, &compute_4_1);
        *(i8x4u *)&compute[offset + 68] = compute_4_1;
        f32x4 rounded_5_0 = __builtin_convertvector(acc_5_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_5_0);
        f32x4 at_most_5_0 = rounded_5_0 + -3.0f;
        const f32x4 bound_5_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_5_0, &bound_5_0);
        f32x4 at_least_5_0 = at_most_5_0;
        const f32x4 bound_5_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_5_0, &bound_5_0_1);
        const f32x4 real_5_0 = at_least_5_0;
        i32x4 whole_5_0;
        sample__whole_f32x4(&real_5_0, &whole_5_0);
        i8x4 compute_5_0;
        sample__narrow_i8x4(&whole_5_0, &compute_5_0);
        *(i8x4u *)&compute[offset + 80] = compute_5_0;
        f32x4 rounded_5_1 = __builtin_convertvector(acc_5_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_5_1);
        f32x4 at_most_5_1 = rounded_5_1 + -3.0f;
        const f32x4 bound_5_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_5_1, &bound_5_1);
        f32x4 at_least_5_1 = at_most_5_1;
        const f32x4 bound_5_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_5_1, &bound_5_1_1);
        const f32x4 real_5_1 = at_least_5_1;
        i32x4 whole_5_1;
        sample__whole_f32x4(&real_5_1, &whole_5_1);
        i8x4 compute_5_1;
        sample__narrow_i8x4(&whole_5_1, &compute_5_1);
        *(i8x4u *)&compute[offset + 84] = compute_5_1;
        f32x4 rounded_6_0 = __builtin_convertvector(acc_6_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_6_0);
        f32x4 at_most_6_0 = rounded_6_0 + -3.0f;
        const f32x4 bound_6_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_6_0, &bound_6_0);
        f32x4 at_least_6_0 = at_most_6_0;
        const f32x4 bound_6_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_6_0, &bound_6_0_1);
        const f32x4 real_6_0 = at_least_6_0;
        i32x4 whole_6_0;
        sample__whole_f32x4(&real_6_0, &whole_6_0);
        i8x4 compute_6_0;
        sample__narrow_i8x4(&whole_6_0, &compute_6_0);
        *(i8x4u *)&compute[offset + 96] = compute_6_0;
        f32x4 rounded_6_1 = __builtin_convertvector(acc_6_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_6_1);
        f32x4 at_most_6_1 = rounded_6_1 + -3.0f;
        const f32x4 bound_6_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_6_1, &bound_6_1);
        f32x4 at_least_6_1 = at_most_6_1;
        const f32x4 bound_6_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_6_1, &bound_6_1_1);
        const f32x4 real_6_1 = at_least_6_1;
        i32x4 whole_6_1;
        sample__whole_f32x4(&real_6_1, &whole_6_1);
        i8x4 compute_6_1;
        sample__narrow_i8x4(&whole_6_1, &compute_6_1);
        *(i8x4u *)&compute[offset + 100] = compute_6_1;
        f32x4 rounded_7_0 = __builtin_convertvector(acc_7_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        sample__nearbyint_f32x4(&rounded_7_0);
        f32x4 at_most_7_0 = rounded_7_0 + -3.0f;
        const f32x4 bound_7_0 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_7_0, &bound_7_0);
        f32x4 at_least_7_0 = at_most_7_0;
        const f32x4 bound_7_0_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_7_0, &bound_7_0_1);
        const f32x4 real_7_0 = at_least_7_0;
        i32x4 whole_7_0;
        sample__whole_f32x4(&real_7_0, &whole_7_0);
        i8x4 compute_7_0;
        sample__narrow_i8x4(&whole_7_0, &compute_7_0);
        *(i8x4u *)&compute[offset + 112] = compute_7_0;
        f32x4 rounded_7_1 = __builtin_convertvector(acc_7_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        sample__nearbyint_f32x4(&rounded_7_1);
        f32x4 at_most_7_1 = rounded_7_1 + -3.0f;
        const f32x4 bound_7_1 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_7_1, &bound_7_1);
        f32x4 at_least_7_1 = at_most_7_1;
        const f32x4 bound_7_1_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_7_1, &bound_7_1_1);
        const f32x4 real_7_1 = at_least_7_1;
        i32x4 whole_7_1;
        sample__whole_f32x4(&real_7_1, &whole_7_1);
        i8x4 compute_7_1;
        sample__narrow_i8x4(&whole_7_1, &compute_7_1);
        *(i8x4u *)&compute[offset + 116] = compute_7_1;
    }
}
