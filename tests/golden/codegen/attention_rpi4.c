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
#define ET_SEL_f32x4(m, a, b) ((f32x4)(((i32x4)(a) & (i32x4)(m)) | ((i32x4)(b) & ~(i32x4)(m))))
#define ET_K_f32x4(c) ((c) - (f32x4){0})
#define ET_BITS_f32x4(x) ((i32x4)(x))
#define ET_VAL_f32x4(x) ((f32x4)(x))
#define ET_FTOI_f32x4(x) __builtin_convertvector((x), i32x4)
#define ET_ITOF_f32x4(x) __builtin_convertvector((x), f32x4)
#define ET_SCALE_f32x4(p, t) ((f32x4)((i32x4)(p) + ((i32x4)(t) << 23)))
#if defined(__clang__) && __clang_major__ >= 13
#define ET_IN_ORDER _Pragma("clang fp reassociate(off)")
#else
#define ET_IN_ORDER
#endif
/* Sums in order without barriers: clang by the pragma, GCC from 12 on unless it says otherwise; never on x87, nor on
   32-bit ARM, where NEON takes -funsafe-math-optimizations. */
#if defined(__arm__) || (__FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16)
#elif defined(__clang__) && __clang_major__ >= 13
#define ET_ORDERED 1
#elif !defined(__clang__) && __GNUC__ >= 12 && !defined(__ASSOCIATIVE_MATH__)
#define ET_ORDERED 1
#endif
#if defined(ET_ORDERED)
#define ET_KEEP_f32x4(x) ((void)0)
#elif defined(__SSE__)
#define ET_KEEP_f32x4(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__) || (defined(__arm__) && defined(__ARM_NEON))
#define ET_KEEP_f32x4(x) __asm__("" : "+w"(x))
#else
#define ET_KEEP_f32x4(x) __asm__("" : "+m"(x))
#endif
/* e^x, at most 1.5 ULP from the exact value. x = n ln 2 + r with ln 2 in two parts (Cody and Waite), e^r by a
   polynomial of degree 6. */
static inline __attribute__((always_inline)) void sample__exp_f32x4(f32x4 *v)
{
    ET_IN_ORDER
    const f32x4 x = *v;
    f32x4 y;
    const f32x4 low = ET_K_f32x4(-104.0f), high = ET_K_f32x4(89.0f);
    f32x4 c = x;
    sample__vmax_f32x4(&c, &low);
    sample__vmin_f32x4(&c, &high);
    f32x4 t = c * 0x1.715476p+0f + 0x1.8001fcp+23f;
    ET_KEEP_f32x4(t);
    const f32x4 k = t - 0x1.8001fcp+23f;
    f32x4 r = c - k * 0x1.63p-1f;
    ET_KEEP_f32x4(r);
    r = r + k * 0x1.bd0106p-13f;
    f32x4 p = 0x1.6a2352p-10f * r + 0x1.123a6cp-7f;
    p = p * r + 0x1.5558f4p-5f;
    p = p * r + 0x1.555490p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    p = ET_SEL_f32x4(x < -104.0f, ET_K_f32x4(0.0f), p);
#if defined(__AVX512VL__) && __has_builtin(__builtin_ia32_scalefps128_mask)
    p = __builtin_ia32_scalefps128_mask(p, k, p, 0xff);
#else
    const i32x4 half = ET_BITS_f32x4(t) >> 1;
    p = p * ET_SCALE_f32x4(ET_K_f32x4(0.0f), ET_VAL_f32x4(half));
    ET_KEEP_f32x4(p);
    p = p * ET_SCALE_f32x4(ET_K_f32x4(0.0f), ET_VAL_f32x4(ET_BITS_f32x4(t) - half));
#endif
    y = p;
    *v = y;
}
#ifndef ET_SHUFFLE_f32x4
#if __has_builtin(__builtin_shufflevector)
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shufflevector((a), (a), __VA_ARGS__)
#else
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shuffle((a), (i32x4){__VA_ARGS__})
#endif
#endif
/* The largest of all lanes, by halves. */
static inline __attribute__((always_inline)) float sample__lanes_largest_f32x4(const f32x4 *v)
{
    f32x4 a = *v, b;
    b = ET_SHUFFLE_f32x4(a, 2, 3, 0, 1);
    sample__vmax_f32x4(&a, &b);
    b = ET_SHUFFLE_f32x4(a, 1, 0, 3, 2);
    sample__vmax_f32x4(&a, &b);
    return a[0];
}
#ifndef ET_SHUFFLE_f32x4
#if __has_builtin(__builtin_shufflevector)
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shufflevector((a), (a), __VA_ARGS__)
#else
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shuffle((a), (i32x4){__VA_ARGS__})
#endif
#endif
/* The sum of all lanes, by halves. */
static inline __attribute__((always_inline)) float sample__lanes_sum_f32x4(const f32x4 *v)
{
    f32x4 a = *v, b;
    b = ET_SHUFFLE_f32x4(a, 2, 3, 0, 1);
    a += b;
    b = ET_SHUFFLE_f32x4(a, 1, 0, 3, 2);
    a += b;
    return a[0];
}
/* The larger one; a where either is NaN. */
static inline float sample__max_f32(float a, float b) { return b > a ? b : a; }
/* *a = max(*a, *b), where *a is a number; that stays where *b is NaN. */
static inline __attribute__((always_inline)) void sample__vmax_running_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__aarch64__)
    __asm__("fmaxnm %0.4s, %1.4s, %2.4s" : "=w"(*a) : "w"(*a), "w"(*b));
#else
    sample__vmax_f32x4(a, b);
#endif
}

void sample_attention(const float *restrict q, const float *restrict k, const float *restrict v,
                      const float *restrict mask, float *restrict attention);

void sample_attention(const float *restrict q, const float *restrict k, const float *restrict v,
                      const float *restrict mask, float *restrict attention)
{
    float attention_scores[64] __attribute__((aligned(64)));
    f32x4 attention_products_0_0 = {0}, attention_products_0_1 = {0}, attention_products_1_0 = {0},
        attention_products_1_1 = {0};
    f32x4 attention_products_2_0 = {0}, attention_products_2_1 = {0}, attention_products_3_0 = {0},
        attention_products_3_1 = {0};
    float attention_largest[4];
    f32x4 attention_largest_lanes = {0};
    f32x4 attention_totals_lanes = {0};
    f32x4 attention_mixed_0_0 = {0}, attention_mixed_0_1 = {0}, attention_mixed_1_0 = {0}, attention_mixed_1_1 = {0};
    f32x4 attention_mixed_2_0 = {0}, attention_mixed_2_1 = {0}, attention_mixed_3_0 = {0}, attention_mixed_3_1 = {0};
    for (int32_t i = 0; i < 2; i++) {
        const int32_t offset = i * 8;
        for (int32_t l_o = 0; l_o < 2; l_o++) {
            attention_products_0_0 = attention_products_0_1 = attention_products_1_0 = (f32x4){0};
            attention_products_1_1 = attention_products_2_0 = attention_products_2_1 = (f32x4){0};
            attention_products_3_0 = attention_products_3_1 = (f32x4){0};
            const int32_t offset_1 = l_o * 8;
            for (int32_t k_o = 0; k_o < 2; k_o++) {
                const int32_t q_at = offset + k_o * 4;
                const int32_t k_at = i * 128 + k_o * 64 + offset_1;
                attention_products_0_0 += q[q_at] * *(const f32x4u *)&k[k_at];
                attention_products_0_1 += q[q_at] * *(const f32x4u *)&k[k_at + 4];
                attention_products_1_0 += q[q_at + 16] * *(const f32x4u *)&k[k_at];
                attention_products_1_1 += q[q_at + 16] * *(const f32x4u *)&k[k_at + 4];
                attention_products_2_0 += q[q_at + 32] * *(const f32x4u *)&k[k_at];
                attention_products_2_1 += q[q_at + 32] * *(const f32x4u *)&k[k_at + 4];
                attention_products_3_0 += q[q_at + 48] * *(const f32x4u *)&k[k_at];
                attention_products_3_1 += q[q_at + 48] * *(const f32x4u *)&k[k_at + 4];
                attention_products_0_0 += q[q_at + 1] * *(const f32x4u *)&k[k_at + 16];
                attention_products_0_1 += q[q_at + 1] * *(const f32x4u *)&k[k_at + 20];
                attention_products_1_0 += q[q_at + 17] * *(const f32x4u *)&k[k_at + 16];
                attention_products_1_1 += q[q_at + 17] * *(const f32x4u *)&k[k_at + 20];
                attention_products_2_0 += q[q_at + 33] * *(const f32x4u *)&k[k_at + 16];
                attention_products_2_1 += q[q_at + 33] * *(const f32x4u *)&k[k_at + 20];
                attention_products_3_0 += q[q_at + 49] * *(const f32x4u *)&k[k_at + 16];
                attention_products_3_1 += q[q_at + 49] * *(const f32x4u *)&k[k_at + 20];
                attention_products_0_0 += q[q_at + 2] * *(const f32x4u *)&k[k_at + 32];
                attention_products_0_1 += q[q_at + 2] * *(const f32x4u *)&k[k_at + 36];
                attention_products_1_0 += q[q_at + 18] * *(const f32x4u *)&k[k_at + 32];
                attention_products_1_1 += q[q_at + 18] * *(const f32x4u *)&k[k_at + 36];
                attention_products_2_0 += q[q_at + 34] * *(const f32x4u *)&k[k_at + 32];
                attention_products_2_1 += q[q_at + 34] * *(const f32x4u *)&k[k_at + 36];
                attention_products_3_0 += q[q_at + 50] * *(const f32x4u *)&k[k_at + 32];
                attention_products_3_1 += q[q_at + 50] * *(const f32x4u *)&k[k_at + 36];
                attention_products_0_0 += q[q_at + 3] * *(const f32x4u *)&k[k_at + 48];
                attention_products_0_1 += q[q_at + 3] * *(const f32x4u *)&k[k_at + 52];
                attention_products_1_0 += q[q_at + 19] * *(const f32x4u *)&k[k_at + 48];
                attention_products_1_1 += q[q_at + 19] * *(const f32x4u *)&k[k_at + 52];
                attention_products_2_0 += q[q_at + 35] * *(const f32x4u *)&k[k_at + 48];
                attention_products_2_1 += q[q_at + 35] * *(const f32x4u *)&k[k_at + 52];
                attention_products_3_0 += q[q_at + 51] * *(const f32x4u *)&k[k_at + 48];
                attention_products_3_1 += q[q_at + 51] * *(const f32x4u *)&k[k_at + 52];
            }
            *(f32x4u *)&attention_scores[offset_1] = attention_products_0_0 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1];
            *(f32x4u *)&attention_scores[offset_1 + 4] = attention_products_0_1 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1 + 4];
            *(f32x4u *)&attention_scores[offset_1 + 16] = attention_products_1_0 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1];
            *(f32x4u *)&attention_scores[offset_1 + 20] = attention_products_1_1 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1 + 4];
            *(f32x4u *)&attention_scores[offset_1 + 32] = attention_products_2_0 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1];
            *(f32x4u *)&attention_scores[offset_1 + 36] = attention_products_2_1 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1 + 4];
            *(f32x4u *)&attention_scores[offset_1 + 48] = attention_products_3_0 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1];
            *(f32x4u *)&attention_scores[offset_1 + 52] = attention_products_3_1 * 0x1.6a09e6p-2f
                + *(const f32x4u *)&mask[offset_1 + 4];
        }
        attention_largest_lanes = (-0x1.fffffep+127f - (f32x4){0});
        f32x4 larger = attention_largest_lanes;
        const f32x4 other = *(const f32x4u *)attention_scores;
        sample__vmax_running_f32x4(&larger, &other);
        attention_largest_lanes = larger;
        f32x4 larger_1 = attention_largest_lanes;
        const f32x4 other_1 = *(const f32x4u *)&attention_scores[4];
        sample__vmax_running_f32x4(&larger_1, &other_1);
        attention_largest_lanes = larger_1;
        f32x4 larger_2 = attention_largest_lanes;
        const f32x4 other_2 = *(const f32x4u *)&attention_scores[8];
        sample__vmax_running_f32x4(&larger_2, &other_2);
        attention_largest_lanes = larger_2;
        f32x4 larger_3 = attention_largest_lanes;
        const f32x4 other_3 = *(const f32x4u *)&attention_scores[12];
        sample__vmax_running_f32x4(&larger_3, &other_3);
        attention_largest_lanes = larger_3;
        attention_largest[0] = sample__max_f32(-0x1.fffffep+127f, sample__lanes_largest_f32x4(&attention_largest_lanes));
        attention_largest_lanes = (-0x1.fffffep+127f - (f32x4){0});
        f32x4 larger_4 = attention_largest_lanes;
        const f32x4 other_4 = *(const f32x4u *)&attention_scores[16];
        sample__vmax_running_f32x4(&larger_4, &other_4);
        attention_largest_lanes = larger_4;
        f32x4 larger_5 = attention_largest_lanes;
        const f32x4 other_5 = *(const f32x4u *)&attention_scores[20];
        sample__vmax_running_f32x4(&larger_5, &other_5);
        attention_largest_lanes = larger_5;
        f32x4 larger_6 = attention_largest_lanes;
        const f32x4 other_6 = *(const f32x4u *)&attention_scores[24];
        sample__vmax_running_f32x4(&larger_6, &other_6);
        attention_largest_lanes = larger_6;
        f32x4 larger_7 = attention_largest_lanes;
        const f32x4 other_7 = *(const f32x4u *)&attention_scores[28];
        sample__vmax_running_f32x4(&larger_7, &other_7);
        attention_largest_lanes = larger_7;
        attention_largest[1] = sample__max_f32(-0x1.fffffep+127f, sample__lanes_largest_f32x4(&attention_largest_lanes));
        attention_largest_lanes = (-0x1.fffffep+127f - (f32x4){0});
        f32x4 larger_8 = attention_largest_lanes;
        const f32x4 other_8 = *(const f32x4u *)&attention_scores[32];
        sample__vmax_running_f32x4(&larger_8, &other_8);
        attention_largest_lanes = larger_8;
        f32x4 larger_9 = attention_largest_lanes;
        const f32x4 other_9 = *(const f32x4u *)&attention_scores[36];
        sample__vmax_running_f32x4(&larger_9, &other_9);
        attention_largest_lanes = larger_9;
        f32x4 larger_10 = attention_largest_lanes;
        const f32x4 other_10 = *(const f32x4u *)&attention_scores[40];
        sample__vmax_running_f32x4(&larger_10, &other_10);
        attention_largest_lanes = larger_10;
        f32x4 larger_11 = attention_largest_lanes;
        const f32x4 other_11 = *(const f32x4u *)&attention_scores[44];
        sample__vmax_running_f32x4(&larger_11, &other_11);
        attention_largest_lanes = larger_11;
        attention_largest[2] = sample__max_f32(-0x1.fffffep+127f, sample__lanes_largest_f32x4(&attention_largest_lanes));
        attention_largest_lanes = (-0x1.fffffep+127f - (f32x4){0});
        f32x4 larger_12 = attention_largest_lanes;
        const f32x4 other_12 = *(const f32x4u *)&attention_scores[48];
        sample__vmax_running_f32x4(&larger_12, &other_12);
        attention_largest_lanes = larger_12;
        f32x4 larger_13 = attention_largest_lanes;
        const f32x4 other_13 = *(const f32x4u *)&attention_scores[52];
        sample__vmax_running_f32x4(&larger_13, &other_13);
        attention_largest_lanes = larger_13;
        f32x4 larger_14 = attention_largest_lanes;
        const f32x4 other_14 = *(const f32x4u *)&attention_scores[56];
        sample__vmax_running_f32x4(&larger_14, &other_14);
        attention_largest_lanes = larger_14;
        f32x4 larger_15 = attention_largest_lanes;
        const f32x4 other_15 = *(const f32x4u *)&attention_scores[60];
        sample__vmax_running_f32x4(&larger_15, &other_15);
        attention_largest_lanes = larger_15;
        attention_largest[3] = sample__max_f32(-0x1.fffffep+127f, sample__lanes_largest_f32x4(&attention_largest_lanes));
        f32x4 result = *(const f32x4u *)attention_scores - attention_largest[0];
        sample__exp_f32x4(&result);
        *(f32x4u *)attention_scores = result;
        f32x4 result_1 = *(const f32x4u *)&attention_scores[4] - attention_largest[0];
        sample__exp_f32x4(&result_1);
        *(f32x4u *)&attention_scores[4] = result_1;
        f32x4 result_2 = *(const f32x4u *)&attention_scores[8] - attention_largest[0];
        sample__exp_f32x4(&result_2);
        *(f32x4u *)&attention_scores[8] = result_2;
        f32x4 result_3 = *(const f32x4u *)&attention_scores[12] - attention_largest[0];
        sample__exp_f32x4(&result_3);
        *(f32x4u *)&attention_scores[12] = result_3;
        f32x4 result_4 = *(const f32x4u *)&attention_scores[16] - attention_largest[1];
        sample__exp_f32x4(&result_4);
        *(f32x4u *)&attention_scores[16] = result_4;
        f32x4 result_5 = *(const f32x4u *)&attention_scores[20] - attention_largest[1];
        sample__exp_f32x4(&result_5);
        *(f32x4u *)&attention_scores[20] = result_5;
        f32x4 result_6 = *(const f32x4u *)&attention_scores[24] - attention_largest[1];
        sample__exp_f32x4(&result_6);
        *(f32x4u *)&attention_scores[24] = result_6;
        f32x4 result_7 = *(const f32x4u *)&attention_scores[28] - attention_largest[1];
        sample__exp_f32x4(&result_7);
        *(f32x4u *)&attention_scores[28] = result_7;
        f32x4 result_8 = *(const f32x4u *)&attention_scores[32] - attention_largest[2];
        sample__exp_f32x4(&result_8);
        *(f32x4u *)&attention_scores[32] = result_8;
        f32x4 result_9 = *(const f32x4u *)&attention_scores[36] - attention_largest[2];
        sample__exp_f32x4(&result_9);
        *(f32x4u *)&attention_scores[36] = result_9;
        f32x4 result_10 = *(const f32x4u *)&attention_scores[40] - attention_largest[2];
        sample__exp_f32x4(&result_10);
        *(f32x4u *)&attention_scores[40] = result_10;
        f32x4 result_11 = *(const f32x4u *)&attention_scores[44] - attention_largest[2];
        sample__exp_f32x4(&result_11);
        *(f32x4u *)&attention_scores[44] = result_11;
        f32x4 result_12 = *(const f32x4u *)&attention_scores[48] - attention_largest[3];
        sample__exp_f32x4(&result_12);
        *(f32x4u *)&attention_scores[48] = result_12;
        f32x4 result_13 = *(const f32x4u *)&attention_scores[52] - attention_largest[3];
        sample__exp_f32x4(&result_13);
        *(f32x4u *)&attention_scores[52] = result_13;
        f32x4 result_14 = *(const f32x4u *)&attention_scores[56] - attention_largest[3];
        sample__exp_f32x4(&result_14);
        *(f32x4u *)&attention_scores[56] = result_14;
        f32x4 result_15 = *(const f32x4u *)&attention_scores[60] - attention_largest[3];
        sample__exp_f32x4(&result_15);
        *(f32x4u *)&attention_scores[60] = result_15;
        for (int32_t j = 0; j < 4; j++) {
            attention_totals_lanes = (f32x4){0};
            for (int32_t key_o = 0; key_o < 4; key_o++) {
                attention_totals_lanes += *(const f32x4u *)&attention_scores[j * 16 + key_o * 4];
            }
            attention_largest[j] = sample__lanes_sum_f32x4(&attention_totals_lanes);
        }
        attention_mixed_0_0 = attention_mixed_0_1 = attention_mixed_1_0 = attention_mixed_1_1 = (f32x4){0};
        attention_mixed_2_0 = attention_mixed_2_1 = attention_mixed_3_0 = attention_mixed_3_1 = (f32x4){0};
        for (int32_t k_o = 0; k_o < 4; k_o++) {
            const int32_t attention_scores_at = k_o * 4;
            const int32_t v_at = k_o * 64 + offset;
            attention_mixed_0_0 += attention_scores[attention_scores_at] * *(const f32x4u *)&v[v_at];
            attention_mixed_0_1 += attention_scores[attention_scores_at] * *(const f32x4u *)&v[v_at + 4];
            attention_mixed_1_0 += attention_scores[attention_scores_at + 16] * *(const f32x4u *)&v[v_at];
            attention_mixed_1_1 += attention_scores[attention_scores_at + 16] * *(const f32x4u *)&v[v_at + 4];
            attention_mixed_2_0 += attention_scores[attention_scores_at + 32] * *(const f32x4u *)&v[v_at];
            attention_mixed_2_1 += attention_scores[attention_scores_at + 32] * *(const f32x4u *)&v[v_at + 4];
            attention_mixed_3_0 += attention_scores[attention_scores_at + 48] * *(const f32x4u *)&v[v_at];
            attention_mixed_3_1 += attention_scores[attention_scores_at + 48] * *(const f32x4u *)&v[v_at + 4];
            attention_mixed_0_0 += attention_scores[attention_scores_at + 1] * *(const f32x4u *)&v[v_at + 16];
            attention_mixed_0_1 += attention_scores[attention_scores_at + 1] * *(const f32x4u *)&v[v_at + 20];
            attention_mixed_1_0 += attention_scores[attention_scores_at + 17] * *(const f32x4u *)&v[v_at + 16];
            attention_mixed_1_1 += attention_scores[attention_scores_at + 17] * *(const f32x4u *)&v[v_at + 20];
            attention_mixed_2_0 += attention_scores[attention_scores_at + 33] * *(const f32x4u *)&v[v_at + 16];
            attention_mixed_2_1 += attention_scores[attention_scores_at + 33] * *(const f32x4u *)&v[v_at + 20];
            attention_mixed_3_0 += attention_scores[attention_scores_at + 49] * *(const f32x4u *)&v[v_at + 16];
            attention_mixed_3_1 += attention_scores[attention_scores_at + 49] * *(const f32x4u *)&v[v_at + 20];
            attention_mixed_0_0 += attention_scores[attention_scores_at + 2] * *(const f32x4u *)&v[v_at + 32];
            attention_mixed_0_1 += attention_scores[attention_scores_at + 2] * *(const f32x4u *)&v[v_at + 36];
            attention_mixed_1_0 += attention_scores[attention_scores_at + 18] * *(const f32x4u *)&v[v_at + 32];
            attention_mixed_1_1 += attention_scores[attention_scores_at + 18] * *(const f32x4u *)&v[v_at + 36];
            attention_mixed_2_0 += attention_scores[attention_scores_at + 34] * *(const f32x4u *)&v[v_at + 32];
            attention_mixed_2_1 += attention_scores[attention_scores_at + 34] * *(const f32x4u *)&v[v_at + 36];
            attention_mixed_3_0 += attention_scores[attention_scores_at + 50] * *(const f32x4u *)&v[v_at + 32];
            attention_mixed_3_1 += attention_scores[attention_scores_at + 50] * *(const f32x4u *)&v[v_at + 36];
            attention_mixed_0_0 += attention_scores[attention_scores_at + 3] * *(const f32x4u *)&v[v_at + 48];
            attention_mixed_0_1 += attention_scores[attention_scores_at + 3] * *(const f32x4u *)&v[v_at + 52];
            attention_mixed_1_0 += attention_scores[attention_scores_at + 19] * *(const f32x4u *)&v[v_at + 48];
            attention_mixed_1_1 += attention_scores[attention_scores_at + 19] * *(const f32x4u *)&v[v_at + 52];
            attention_mixed_2_0 += attention_scores[attention_scores_at + 35] * *(const f32x4u *)&v[v_at + 48];
            attention_mixed_2_1 += attention_scores[attention_scores_at + 35] * *(const f32x4u *)&v[v_at + 52];
            attention_mixed_3_0 += attention_scores[attention_scores_at + 51] * *(const f32x4u *)&v[v_at + 48];
            attention_mixed_3_1 += attention_scores[attention_scores_at + 51] * *(const f32x4u *)&v[v_at + 52];
        }
        *(f32x4u *)&attention[offset] = attention_mixed_0_0 / attention_largest[0];
        *(f32x4u *)&attention[offset + 4] = attention_mixed_0_1 / attention_largest[0];
        *(f32x4u *)&attention[offset + 16] = attention_mixed_1_0 / attention_largest[1];
        *(f32x4u *)&attention[offset + 20] = attention_mixed_1_1 / attention_largest[1];
        *(f32x4u *)&attention[offset + 32] = attention_mixed_2_0 / attention_largest[2];
        *(f32x4u *)&attention[offset + 36] = attention_mixed_2_1 / attention_largest[2];
        *(f32x4u *)&attention[offset + 48] = attention_mixed_3_0 / attention_largest[3];
        *(f32x4u *)&attention[offset + 52] = attention_mixed_3_1 / attention_largest[3];
    }
}
