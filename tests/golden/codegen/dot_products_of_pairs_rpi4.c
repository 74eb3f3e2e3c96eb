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
typedef int16_t sample__i16x4 __attribute__((vector_size(8)));
#define i16x4 sample__i16x4
typedef int16_t sample__i16x4u __attribute__((vector_size(8), aligned(2), may_alias));
#define i16x4u sample__i16x4u
typedef int32_t sample__i32x4 __attribute__((vector_size(16)));
#define i32x4 sample__i32x4
typedef int8_t sample__i8x4 __attribute__((vector_size(4)));
#define i8x4 sample__i8x4
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
typedef uint32_t sample__u32x4 __attribute__((vector_size(16)));
#define u32x4 sample__u32x4
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
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

void sample_dot_products_of_pairs(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                                  const float *restrict bias, int8_t *restrict compute);

void sample_dot_products_of_pairs(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                                  const float *restrict bias, int8_t *restrict compute)
{
    int16_t operand[64] __attribute__((aligned(64)));
    i32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_0_2 = {0}, acc_0_3 = {0};
    i32x4 acc_1_0 = {0}, acc_1_1 = {0}, acc_1_2 = {0}, acc_1_3 = {0};
    i32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_2_2 = {0}, acc_2_3 = {0};
    i32x4 acc_3_0 = {0}, acc_3_1 = {0}, acc_3_2 = {0}, acc_3_3 = {0};
    for (int32_t pixel = 0; pixel < 2; pixel++) {
        const int32_t offset = pixel * 64;
        for (int32_t j = 0; j < 4; j++) {
            for (int32_t k_o = 0; k_o < 2; k_o++) {
                const int32_t offset_1 = j * 16;
                const int32_t offset_2 = k_o * 8;
                *(i16x4u *)&operand[offset_1 + offset_2] =
                    __builtin_convertvector(*(const i8x4u *)&x[offset + offset_1 + offset_2], i16x4);
                *(i16x4u *)&operand[offset_1 + offset_2 + 4] =
                    __builtin_convertvector(*(const i8x4u *)&x[offset + offset_1 + offset_2 + 4], i16x4);
            }
        }
        acc_0_0 = acc_0_1 = acc_0_2 = acc_0_3 = acc_1_0 = acc_1_1 = acc_1_2 = acc_1_3 = (i32x4){0};
        acc_2_0 = acc_2_1 = acc_2_2 = acc_2_3 = acc_3_0 = acc_3_1 = acc_3_2 = acc_3_3 = (i32x4){0};
        for (int32_t kw_o = 0; kw_o < 2; kw_o++) {
            const int32_t operand_at = kw_o * 8;
            const int32_t w_at = kw_o * 128;
            acc_0_0 =
                (i32x4)((u32x4)acc_0_0
                + ((uint32_t)(int32_t)operand[operand_at]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 2], w[w_at + 4],
                w[w_at + 6]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 1]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 3], w[w_at + 5],
                w[w_at + 7]}, i16x4), i32x4)));
            acc_0_1 =
                (i32x4)((u32x4)acc_0_1
                + ((uint32_t)(int32_t)operand[operand_at]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 8], w[w_at + 10],
                w[w_at + 12], w[w_at + 14]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 1]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 9], w[w_at + 11],
                w[w_at + 13], w[w_at + 15]}, i16x4), i32x4)));
            acc_0_2 =
                (i32x4)((u32x4)acc_0_2
                + ((uint32_t)(int32_t)operand[operand_at]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 18],
                w[w_at + 20], w[w_at + 22]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 1]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 19],
                w[w_at + 21], w[w_at + 23]}, i16x4), i32x4)));
            acc_0_3 =
                (i32x4)((u32x4)acc_0_3
                + ((uint32_t)(int32_t)operand[operand_at]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 24], w[w_at + 26],
                w[w_at + 28], w[w_at + 30]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 1]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 25], w[w_at + 27],
                w[w_at + 29], w[w_at + 31]}, i16x4), i32x4)));
            acc_1_0 =
                (i32x4)((u32x4)acc_1_0
                + ((uint32_t)(int32_t)operand[operand_at + 16]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 2], w[w_at + 4],
                w[w_at + 6]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 17]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 3], w[w_at + 5],
                w[w_at + 7]}, i16x4), i32x4)));
            acc_1_1 =
                (i32x4)((u32x4)acc_1_1
                + ((uint32_t)(int32_t)operand[operand_at + 16]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 8], w[w_at + 10],
                w[w_at + 12], w[w_at + 14]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 17]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 9], w[w_at + 11],
                w[w_at + 13], w[w_at + 15]}, i16x4), i32x4)));
            acc_1_2 =
                (i32x4)((u32x4)acc_1_2
                + ((uint32_t)(int32_t)operand[operand_at + 16]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 18],
                w[w_at + 20], w[w_at + 22]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 17]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 19],
                w[w_at + 21], w[w_at + 23]}, i16x4), i32x4)));
            acc_1_3 =
                (i32x4)((u32x4)acc_1_3
                + ((uint32_t)(int32_t)operand[operand_at + 16]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 24], w[w_at + 26],
                w[w_at + 28], w[w_at + 30]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 17]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 25], w[w_at + 27],
                w[w_at + 29], w[w_at + 31]}, i16x4), i32x4)));
            acc_2_0 =
                (i32x4)((u32x4)acc_2_0
                + ((uint32_t)(int32_t)operand[operand_at + 32]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 2], w[w_at + 4],
                w[w_at + 6]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 33]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 3], w[w_at + 5],
                w[w_at + 7]}, i16x4), i32x4)));
            acc_2_1 =
                (i32x4)((u32x4)acc_2_1
                + ((uint32_t)(int32_t)operand[operand_at + 32]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 8], w[w_at + 10],
                w[w_at + 12], w[w_at + 14]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 33]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 9], w[w_at + 11],
                w[w_at + 13], w[w_at + 15]}, i16x4), i32x4)));
            acc_2_2 =
                (i32x4)((u32x4)acc_2_2
                + ((uint32_t)(int32_t)operand[operand_at + 32]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 18],
                w[w_at + 20], w[w_at + 22]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 33]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 19],
                w[w_at + 21], w[w_at + 23]}, i16x4), i32x4)));
            acc_2_3 =
                (i32x4)((u32x4)acc_2_3
                + ((uint32_t)(int32_t)operand[operand_at + 32]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 24], w[w_at + 26],
                w[w_at + 28], w[w_at + 30]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 33]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 25], w[w_at + 27],
                w[w_at + 29], w[w_at + 31]}, i16x4), i32x4)));
            acc_3_0 =
                (i32x4)((u32x4)acc_3_0
                + ((uint32_t)(int32_t)operand[operand_at + 48]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 2], w[w_at + 4],
                w[w_at + 6]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 49]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 3], w[w_at + 5],
                w[w_at + 7]}, i16x4), i32x4)));
            acc_3_1 =
                (i32x4)((u32x4)acc_3_1
                + ((uint32_t)(int32_t)operand[operand_at + 48]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 8], w[w_at + 10],
                w[w_at + 12], w[w_at + 14]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 49]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 9], w[w_at + 11],
                w[w_at + 13], w[w_at + 15]}, i16x4), i32x4)));
            acc_3_2 =
                (i32x4)((u32x4)acc_3_2
                + ((uint32_t)(int32_t)operand[operand_at + 48]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 18],
                w[w_at + 20], w[w_at + 22]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 49]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 19],
                w[w_at + 21], w[w_at + 23]}, i16x4), i32x4)));
            acc_3_3 =
                (i32x4)((u32x4)acc_3_3
                + ((uint32_t)(int32_t)operand[operand_at + 48]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 24], w[w_at + 26],
                w[w_at + 28], w[w_at + 30]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 49]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 25], w[w_at + 27],
                w[w_at + 29], w[w_at + 31]}, i16x4), i32x4)));
            acc_0_0 =
                (i32x4)((u32x4)acc_0_0
                + ((uint32_t)(int32_t)operand[operand_at + 2]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 34],
                w[w_at + 36], w[w_at + 38]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 3]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 35],
                w[w_at + 37], w[w_at + 39]}, i16x4), i32x4)));
            acc_0_1 =
                (i32x4)((u32x4)acc_0_1
                + ((uint32_t)(int32_t)operand[operand_at + 2]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 40], w[w_at + 42],
                w[w_at + 44], w[w_at + 46]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 3]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 41], w[w_at + 43],
                w[w_at + 45], w[w_at + 47]}, i16x4), i32x4)));
            acc_0_2 =
                (i32x4)((u32x4)acc_0_2
                + ((uint32_t)(int32_t)operand[operand_at + 2]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 50],
                w[w_at + 52], w[w_at + 54]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 3]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 51],
                w[w_at + 53], w[w_at + 55]}, i16x4), i32x4)));
            acc_0_3 =
                (i32x4)((u32x4)acc_0_3
                + ((uint32_t)(int32_t)operand[operand_at + 2]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 56], w[w_at + 58],
                w[w_at + 60], w[w_at + 62]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 3]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 57], w[w_at + 59],
                w[w_at + 61], w[w_at + 63]}, i16x4), i32x4)));
            acc_1_0 =
                (i32x4)((u32x4)acc_1_0
                + ((uint32_t)(int32_t)operand[operand_at + 18]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 34],
                w[w_at + 36], w[w_at + 38]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 19]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 35],
                w[w_at + 37], w[w_at + 39]}, i16x4), i32x4)));
            acc_1_1 =
                (i32x4)((u32x4)acc_1_1
                + ((uint32_t)(int32_t)operand[operand_at + 18]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 40], w[w_at + 42],
                w[w_at + 44], w[w_at + 46]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 19]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 41], w[w_at + 43],
                w[w_at + 45], w[w_at + 47]}, i16x4), i32x4)));
            acc_1_2 =
                (i32x4)((u32x4)acc_1_2
                + ((uint32_t)(int32_t)operand[operand_at + 18]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 50],
                w[w_at + 52], w[w_at + 54]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 19]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 51],
                w[w_at + 53], w[w_at + 55]}, i16x4), i32x4)));
            acc_1_3 =
                (i32x4)((u32x4)acc_1_3
                + ((uint32_t)(int32_t)operand[operand_at + 18]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 56], w[w_at + 58],
                w[w_at + 60], w[w_at + 62]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 19]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 57], w[w_at + 59],
                w[w_at + 61], w[w_at + 63]}, i16x4), i32x4)));
            acc_2_0 =
                (i32x4)((u32x4)acc_2_0
                + ((uint32_t)(int32_t)operand[operand_at + 34]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 34],
                w[w_at + 36], w[w_at + 38]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 35]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 35],
                w[w_at + 37], w[w_at + 39]}, i16x4), i32x4)));
            acc_2_1 =
                (i32x4)((u32x4)acc_2_1
                + ((uint32_t)(int32_t)operand[operand_at + 34]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 40], w[w_at + 42],
                w[w_at + 44], w[w_at + 46]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 35]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 41], w[w_at + 43],
                w[w_at + 45], w[w_at + 47]}, i16x4), i32x4)));
            acc_2_2 =
                (i32x4)((u32x4)acc_2_2
                + ((uint32_t)(int32_t)operand[operand_at + 34]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 50],
                w[w_at + 52], w[w_at + 54]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 35]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 51],
                w[w_at + 53], w[w_at + 55]}, i16x4), i32x4)));
            acc_2_3 =
                (i32x4)((u32x4)acc_2_3
                + ((uint32_t)(int32_t)operand[operand_at + 34]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 56], w[w_at + 58],
                w[w_at + 60], w[w_at + 62]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 35]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 57], w[w_at + 59],
                w[w_at + 61], w[w_at + 63]}, i16x4), i32x4)));
            acc_3_0 =
                (i32x4)((u32x4)acc_3_0
                + ((uint32_t)(int32_t)operand[operand_at + 50]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 34],
                w[w_at + 36], w[w_at + 38]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 51]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 35],
                w[w_at + 37], w[w_at + 39]}, i16x4), i32x4)));
            acc_3_1 =
                (i32x4)((u32x4)acc_3_1
                + ((uint32_t)(int32_t)operand[operand_at + 50]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 40], w[w_at + 42],
                w[w_at + 44], w[w_at + 46]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 51]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 41], w[w_at + 43],
                w[w_at + 45], w[w_at + 47]}, i16x4), i32x4)));
            acc_3_2 =
                (i32x4)((u32x4)acc_3_2
                + ((uint32_t)(int32_t)operand[operand_at + 50]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 50],
                w[w_at + 52], w[w_at + 54]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 51]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 51],
                w[w_at + 53], w[w_at + 55]}, i16x4), i32x4)));
            acc_3_3 =
                (i32x4)((u32x4)acc_3_3
                + ((uint32_t)(int32_t)operand[operand_at + 50]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 56], w[w_at + 58],
                w[w_at + 60], w[w_at + 62]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 51]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 57], w[w_at + 59],
                w[w_at + 61], w[w_at + 63]}, i16x4), i32x4)));
            acc_0_0 =
                (i32x4)((u32x4)acc_0_0
                + ((uint32_t)(int32_t)operand[operand_at + 4]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 66],
                w[w_at + 68], w[w_at + 70]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 5]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 67],
                w[w_at + 69], w[w_at + 71]}, i16x4), i32x4)));
            acc_0_1 =
                (i32x4)((u32x4)acc_0_1
                + ((uint32_t)(int32_t)operand[operand_at + 4]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 72], w[w_at + 74],
                w[w_at + 76], w[w_at + 78]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 5]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 73], w[w_at + 75],
                w[w_at + 77], w[w_at + 79]}, i16x4), i32x4)));
            acc_0_2 =
                (i32x4)((u32x4)acc_0_2
                + ((uint32_t)(int32_t)operand[operand_at + 4]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 82],
                w[w_at + 84], w[w_at + 86]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 5]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 83],
                w[w_at + 85], w[w_at + 87]}, i16x4), i32x4)));
            acc_0_3 =
                (i32x4)((u32x4)acc_0_3
                + ((uint32_t)(int32_t)operand[operand_at + 4]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 88], w[w_at + 90],
                w[w_at + 92], w[w_at + 94]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 5]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 89], w[w_at + 91],
                w[w_at + 93], w[w_at + 95]}, i16x4), i32x4)));
            acc_1_0 =
                (i32x4)((u32x4)acc_1_0
                + ((uint32_t)(int32_t)operand[operand_at + 20]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 66],
                w[w_at + 68], w[w_at + 70]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 21]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 67],
                w[w_at + 69], w[w_at + 71]}, i16x4), i32x4)));
            acc_1_1 =
                (i32x4)((u32x4)acc_1_1
                + ((uint32_t)(int32_t)operand[operand_at + 20]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 72], w[w_at + 74],
                w[w_at + 76], w[w_at + 78]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 21]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 73], w[w_at + 75],
                w[w_at + 77], w[w_at + 79]}, i16x4), i32x4)));
            acc_1_2 =
                (i32x4)((u32x4)acc_1_2
                + ((uint32_t)(int32_t)operand[operand_at + 20]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 82],
                w[w_at + 84], w[w_at + 86]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 21]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 83],
                w[w_at + 85], w[w_at + 87]}, i16x4), i32x4)));
            acc_1_3 =
                (i32x4)((u32x4)acc_1_3
                + ((uint32_t)(int32_t)operand[operand_at + 20]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 88], w[w_at + 90],
                w[w_at + 92], w[w_at + 94]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 21]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 89], w[w_at + 91],
                w[w_at + 93], w[w_at + 95]}, i16x4), i32x4)));
            acc_2_0 =
                (i32x4)((u32x4)acc_2_0
                + ((uint32_t)(int32_t)operand[operand_at + 36]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 66],
                w[w_at + 68], w[w_at + 70]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 37]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 67],
                w[w_at + 69], w[w_at + 71]}, i16x4), i32x4)));
            acc_2_1 =
                (i32x4)((u32x4)acc_2_1
                + ((uint32_t)(int32_t)operand[operand_at + 36]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 72], w[w_at + 74],
                w[w_at + 76], w[w_at + 78]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 37]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 73], w[w_at + 75],
                w[w_at + 77], w[w_at + 79]}, i16x4), i32x4)));
            acc_2_2 =
                (i32x4)((u32x4)acc_2_2
                + ((uint32_t)(int32_t)operand[operand_at + 36]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 82],
                w[w_at + 84], w[w_at + 86]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 37]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 83],
                w[w_at + 85], w[w_at + 87]}, i16x4), i32x4)));
            acc_2_3 =
                (i32x4)((u32x4)acc_2_3
                + ((uint32_t)(int32_t)operand[operand_at + 36]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 88], w[w_at + 90],
                w[w_at + 92], w[w_at + 94]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 37]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 89], w[w_at + 91],
                w[w_at + 93], w[w_at + 95]}, i16x4), i32x4)));
            acc_3_0 =
                (i32x4)((u32x4)acc_3_0
                + ((uint32_t)(int32_t)operand[operand_at + 52]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 66],
                w[w_at + 68], w[w_at + 70]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 53]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 67],
                w[w_at + 69], w[w_at + 71]}, i16x4), i32x4)));
            acc_3_1 =
                (i32x4)((u32x4)acc_3_1
                + ((uint32_t)(int32_t)operand[operand_at + 52]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 72], w[w_at + 74],
                w[w_at + 76], w[w_at + 78]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 53]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 73], w[w_at + 75],
                w[w_at + 77], w[w_at + 79]}, i16x4), i32x4)));
            acc_3_2 =
                (i32x4)((u32x4)acc_3_2
                + ((uint32_t)(int32_t)operand[operand_at + 52]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 82],
                w[w_at + 84], w[w_at + 86]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 53]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 83],
                w[w_at + 85], w[w_at + 87]}, i16x4), i32x4)));
            acc_3_3 =
                (i32x4)((u32x4)acc_3_3
                + ((uint32_t)(int32_t)operand[operand_at + 52]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 88], w[w_at + 90],
                w[w_at + 92], w[w_at + 94]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 53]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 89], w[w_at + 91],
                w[w_at + 93], w[w_at + 95]}, i16x4), i32x4)));
            acc_0_0 =
                (i32x4)((u32x4)acc_0_0
                + ((uint32_t)(int32_t)operand[operand_at + 6]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 98],
                w[w_at + 100], w[w_at + 102]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 7]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 99],
                w[w_at + 101], w[w_at + 103]}, i16x4), i32x4)));
            acc_0_1 =
                (i32x4)((u32x4)acc_0_1
                + ((uint32_t)(int32_t)operand[operand_at + 6]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 104], w[w_at + 106],
                w[w_at + 108], w[w_at + 110]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 7]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 105], w[w_at + 107],
                w[w_at + 109], w[w_at + 111]}, i16x4), i32x4)));
            acc_0_2 =
                (i32x4)((u32x4)acc_0_2
                + ((uint32_t)(int32_t)operand[operand_at + 6]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 114],
                w[w_at + 116], w[w_at + 118]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 7]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 115],
                w[w_at + 117], w[w_at + 119]}, i16x4), i32x4)));
            acc_0_3 =
                (i32x4)((u32x4)acc_0_3
                + ((uint32_t)(int32_t)operand[operand_at + 6]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 120], w[w_at + 122],
                w[w_at + 124], w[w_at + 126]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 7]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 121], w[w_at + 123],
                w[w_at + 125], w[w_at + 127]}, i16x4), i32x4)));
            acc_1_0 =
                (i32x4)((u32x4)acc_1_0
                + ((uint32_t)(int32_t)operand[operand_at + 22]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 98],
                w[w_at + 100], w[w_at + 102]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 23]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 99],
                w[w_at + 101], w[w_at + 103]}, i16x4), i32x4)));
            acc_1_1 =
                (i32x4)((u32x4)acc_1_1
                + ((uint32_t)(int32_t)operand[operand_at + 22]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 104], w[w_at + 106],
                w[w_at + 108], w[w_at + 110]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 23]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 105], w[w_at + 107],
                w[w_at + 109], w[w_at + 111]}, i16x4), i32x4)));
            acc_1_2 =
                (i32x4)((u32x4)acc_1_2
                + ((uint32_t)(int32_t)operand[operand_at + 22]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 114],
                w[w_at + 116], w[w_at + 118]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 23]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 115],
                w[w_at + 117], w[w_at + 119]}, i16x4), i32x4)));
            acc_1_3 =
                (i32x4)((u32x4)acc_1_3
                + ((uint32_t)(int32_t)operand[operand_at + 22]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 120], w[w_at + 122],
                w[w_at + 124], w[w_at + 126]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 23]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 121], w[w_at + 123],
                w[w_at + 125], w[w_at + 127]}, i16x4), i32x4)));
            acc_2_0 =
                (i32x4)((u32x4)acc_2_0
                + ((uint32_t)(int32_t)operand[operand_at + 38]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 98],
                w[w_at + 100], w[w_at + 102]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 39]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 99],
                w[w_at + 101], w[w_at + 103]}, i16x4), i32x4)));
            acc_2_1 =
                (i32x4)((u32x4)acc_2_1
                + ((uint32_t)(int32_t)operand[operand_at + 38]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 104], w[w_at + 106],
                w[w_at + 108], w[w_at + 110]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 39]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 105], w[w_at + 107],
                w[w_at + 109], w[w_at + 111]}, i16x4), i32x4)));
            acc_2_2 =
                (i32x4)((u32x4)acc_2_2
                + ((uint32_t)(int32_t)operand[operand_at + 38]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 114],
                w[w_at + 116], w[w_at + 118]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 39]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 115],
                w[w_at + 117], w[w_at + 119]}, i16x4), i32x4)));
            acc_2_3 =
                (i32x4)((u32x4)acc_2_3
                + ((uint32_t)(int32_t)operand[operand_at + 38]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 120], w[w_at + 122],
                w[w_at + 124], w[w_at + 126]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 39]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 121], w[w_at + 123],
                w[w_at + 125], w[w_at + 127]}, i16x4), i32x4)));
            acc_3_0 =
                (i32x4)((u32x4)acc_3_0
                + ((uint32_t)(int32_t)operand[operand_at + 54]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 98],
                w[w_at + 100], w[w_at + 102]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 55]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 99],
                w[w_at + 101], w[w_at + 103]}, i16x4), i32x4)));
            acc_3_1 =
                (i32x4)((u32x4)acc_3_1
                + ((uint32_t)(int32_t)operand[operand_at + 54]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 104], w[w_at + 106],
                w[w_at + 108], w[w_at + 110]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 55]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 105], w[w_at + 107],
                w[w_at + 109], w[w_at + 111]}, i16x4), i32x4)));
            acc_3_2 =
                (i32x4)((u32x4)acc_3_2
                + ((uint32_t)(int32_t)operand[operand_at + 54]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 114],
                w[w_at + 116], w[w_at + 118]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 55]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 115],
                w[w_at + 117], w[w_at + 119]}, i16x4), i32x4)));
            acc_3_3 =
                (i32x4)((u32x4)acc_3_3
                + ((uint32_t)(int32_t)operand[operand_at + 54]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 120], w[w_at + 122],
                w[w_at + 124], w[w_at + 126]}, i16x4), i32x4)
                + (uint32_t)(int32_t)operand[operand_at + 55]
                * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 121], w[w_at + 123],
                w[w_at + 125], w[w_at + 127]}, i16x4), i32x4)));
        }
        f32x4 rounded_0_0 = __builtin_convertvector(acc_0_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
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
        f32x4 rounded_0_1 = __builtin_convertvector(acc_0_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
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
        f32x4 rounded_0_2 = __builtin_convertvector(acc_0_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        sample__nearbyint_f32x4(&rounded_0_2);
        f32x4 at_most_0_2 = rounded_0_2 + -3.0f;
        const f32x4 bound_0_2 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_0_2, &bound_0_2);
        f32x4 at_least_0_2 = at_most_0_2;
        const f32x4 bound_0_2_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_0_2, &bound_0_2_1);
        const f32x4 real_0_2 = at_least_0_2;
        i32x4 whole_0_2;
        sample__whole_f32x4(&real_0_2, &whole_0_2);
        i8x4 compute_0_2;
        sample__narrow_i8x4(&whole_0_2, &compute_0_2);
        *(i8x4u *)&compute[offset + 8] = compute_0_2;
        f32x4 rounded_0_3 = __builtin_convertvector(acc_0_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        sample__nearbyint_f32x4(&rounded_0_3);
        f32x4 at_most_0_3 = rounded_0_3 + -3.0f;
        const f32x4 bound_0_3 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_0_3, &bound_0_3);
        f32x4 at_least_0_3 = at_most_0_3;
        const f32x4 bound_0_3_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_0_3, &bound_0_3_1);
        const f32x4 real_0_3 = at_least_0_3;
        i32x4 whole_0_3;
        sample__whole_f32x4(&real_0_3, &whole_0_3);
        i8x4 compute_0_3;
        sample__narrow_i8x4(&whole_0_3, &compute_0_3);
        *(i8x4u *)&compute[offset + 12] = compute_0_3;
        f32x4 rounded_1_0 = __builtin_convertvector(acc_1_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
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
        f32x4 rounded_1_1 = __builtin_convertvector(acc_1_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
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
        f32x4 rounded_1_2 = __builtin_convertvector(acc_1_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        sample__nearbyint_f32x4(&rounded_1_2);
        f32x4 at_most_1_2 = rounded_1_2 + -3.0f;
        const f32x4 bound_1_2 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_1_2, &bound_1_2);
        f32x4 at_least_1_2 = at_most_1_2;
        const f32x4 bound_1_2_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_1_2, &bound_1_2_1);
        const f32x4 real_1_2 = at_least_1_2;
        i32x4 whole_1_2;
        sample__whole_f32x4(&real_1_2, &whole_1_2);
        i8x4 compute_1_2;
        sample__narrow_i8x4(&whole_1_2, &compute_1_2);
        *(i8x4u *)&compute[offset + 24] = compute_1_2;
        f32x4 rounded_1_3 = __builtin_convertvector(acc_1_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        sample__nearbyint_f32x4(&rounded_1_3);
        f32x4 at_most_1_3 = rounded_1_3 + -3.0f;
        const f32x4 bound_1_3 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_1_3, &bound_1_3);
        f32x4 at_least_1_3 = at_most_1_3;
        const f32x4 bound_1_3_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_1_3, &bound_1_3_1);
        const f32x4 real_1_3 = at_least_1_3;
        i32x4 whole_1_3;
        sample__whole_f32x4(&real_1_3, &whole_1_3);
        i8x4 compute_1_3;
        sample__narrow_i8x4(&whole_1_3, &compute_1_3);
        *(i8x4u *)&compute[offset + 28] = compute_1_3;
        f32x4 rounded_2_0 = __builtin_convertvector(acc_2_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
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
        f32x4 rounded_2_1 = __builtin_convertvector(acc_2_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
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
        f32x4 rounded_2_2 = __builtin_convertvector(acc_2_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        sample__nearbyint_f32x4(&rounded_2_2);
        f32x4 at_most_2_2 = rounded_2_2 + -3.0f;
        const f32x4 bound_2_2 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_2_2, &bound_2_2);
        f32x4 at_least_2_2 = at_most_2_2;
        const f32x4 bound_2_2_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_2_2, &bound_2_2_1);
        const f32x4 real_2_2 = at_least_2_2;
        i32x4 whole_2_2;
        sample__whole_f32x4(&real_2_2, &whole_2_2);
        i8x4 compute_2_2;
        sample__narrow_i8x4(&whole_2_2, &compute_2_2);
        *(i8x4u *)&compute[offset + 40] = compute_2_2;
        f32x4 rounded_2_3 = __builtin_convertvector(acc_2_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        sample__nearbyint_f32x4(&rounded_2_3);
        f32x4 at_most_2_3 = rounded_2_3 + -3.0f;
        const f32x4 bound_2_3 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_2_3, &bound_2_3);
        f32x4 at_least_2_3 = at_most_2_3;
        const f32x4 bound_2_3_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_2_3, &bound_2_3_1);
        const f32x4 real_2_3 = at_least_2_3;
        i32x4 whole_2_3;
        sample__whole_f32x4(&real_2_3, &whole_2_3);
        i8x4 compute_2_3;
        sample__narrow_i8x4(&whole_2_3, &compute_2_3);
        *(i8x4u *)&compute[offset + 44] = compute_2_3;
        f32x4 rounded_3_0 = __builtin_convertvector(acc_3_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
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
        f32x4 rounded_3_1 = __builtin_convertvector(acc_3_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
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
        f32x4 rounded_3_2 = __builtin_convertvector(acc_3_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        sample__nearbyint_f32x4(&rounded_3_2);
        f32x4 at_most_3_2 = rounded_3_2 + -3.0f;
        const f32x4 bound_3_2 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_3_2, &bound_3_2);
        f32x4 at_least_3_2 = at_most_3_2;
        const f32x4 bound_3_2_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_3_2, &bound_3_2_1);
        const f32x4 real_3_2 = at_least_3_2;
        i32x4 whole_3_2;
        sample__whole_f32x4(&real_3_2, &whole_3_2);
        i8x4 compute_3_2;
        sample__narrow_i8x4(&whole_3_2, &compute_3_2);
        *(i8x4u *)&compute[offset + 56] = compute_3_2;
        f32x4 rounded_3_3 = __builtin_convertvector(acc_3_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        sample__nearbyint_f32x4(&rounded_3_3);
        f32x4 at_most_3_3 = rounded_3_3 + -3.0f;
        const f32x4 bound_3_3 = (127.0f - (f32x4){0});
        sample__vmin_bound_f32x4(&at_most_3_3, &bound_3_3);
        f32x4 at_least_3_3 = at_most_3_3;
        const f32x4 bound_3_3_1 = (-128.0f - (f32x4){0});
        sample__vmax_bound_f32x4(&at_least_3_3, &bound_3_3_1);
        const f32x4 real_3_3 = at_least_3_3;
        i32x4 whole_3_3;
        sample__whole_f32x4(&real_3_3, &whole_3_3);
        i8x4 compute_3_3;
        sample__narrow_i8x4(&whole_3_3, &compute_3_3);
        *(i8x4u *)&compute[offset + 60] = compute_3_3;
    }
}
