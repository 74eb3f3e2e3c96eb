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
   polynomial of degree 7 (Cephes, expf). */
static inline __attribute__((always_inline)) void sample__exp_f32x4(f32x4 *v) {
  ET_IN_ORDER
  const f32x4 x = *v;
  f32x4 y;
  f32x4 c = ET_SEL_f32x4(x < 0x1.62e42ep+6f, x, ET_K_f32x4(0x1.62e42ep+6f));
  c = ET_SEL_f32x4(c > -104.0f, c, ET_K_f32x4(0.0f));
  f32x4 t = c * 0x1.715476p+0f + 0x1.8p+23f;
  ET_KEEP_f32x4(t);
  const f32x4 k = t - 0x1.8p+23f;
  f32x4 r = c - k * 0x1.63p-1f;
  ET_KEEP_f32x4(r);
  r = r + k * 0x1.bd0106p-13f;
  f32x4 p = 0x1.a0d2cep-13f * r + 0x1.6e879cp-10f;
  p = p * r + 0x1.11121p-7f;
  p = p * r + 0x1.555502p-5f;
  p = p * r + 0x1.555554p-3f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const f32x4 up = ET_SEL_f32x4(c < -0x1.5d589ep+6f, ET_K_f32x4(64.0f), ET_K_f32x4(0.0f));
  const f32x4 down = ET_SEL_f32x4(c < -0x1.5d589ep+6f, ET_K_f32x4(0x1p-64f), ET_K_f32x4(1.0f));
  p = ET_SCALE_f32x4(p, t + up) * down;
  p = ET_SEL_f32x4(x > -104.0f, p, ET_K_f32x4(0.0f));
  y = ET_SEL_f32x4(x <= 0x1.62e42ep+6f, p, x + __builtin_inff());
  *v = y;
}
static inline __attribute__((always_inline)) void sample__vmax_f32x4(f32x4 *a, const f32x4 *b) {
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps)
  *a = __builtin_ia32_maxps(*b, *a);
#else
  const i32x4 m = (i32x4)(*b > *a);
  *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}
#ifndef ET_SHUFFLE_f32x4
#if __has_builtin(__builtin_shufflevector)
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shufflevector((a), (a), __VA_ARGS__)
#else
#define ET_SHUFFLE_f32x4(a, ...) __builtin_shuffle((a), (i32x4){__VA_ARGS__})
#endif
#endif
static inline __attribute__((always_inline)) float sample__lanes_largest_f32x4(const f32x4 *v) {
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
static inline __attribute__((always_inline)) float sample__lanes_sum_f32x4(const f32x4 *v) {
  f32x4 a = *v, b;
  b = ET_SHUFFLE_f32x4(a, 2, 3, 0, 1);
  a += b;
  b = ET_SHUFFLE_f32x4(a, 1, 0, 3, 2);
  a += b;
  return a[0];
}
static inline float sample__max_f32(float a, float b) { return b > a ? b : a; }

void sample_attention(const float *restrict q, const float *restrict k, const float *restrict v,
                      const float *restrict mask, float *restrict attention);

void sample_attention(const float *restrict q, const float *restrict k, const float *restrict v,
                      const float *restrict mask, float *restrict attention) {
  float attention_scores[64] __attribute__((aligned(64)));
  f32x4 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
  f32x4 acc_4 = {0}, acc_5 = {0}, acc_6 = {0}, acc_7 = {0};
  float attention_largest[4];
  f32x4 attention_largest_rf_local = {0};
  f32x4 attention_totals_rf_local = {0};
  f32x4 acc_0_1 = {0}, acc_1_1 = {0}, acc_2_1 = {0}, acc_3_1 = {0};
  f32x4 acc_4_1 = {0}, acc_5_1 = {0}, acc_6_1 = {0}, acc_7_1 = {0};
  for (int32_t i2_v = 0; i2_v < 2; ++i2_v) {
    const int32_t offset = i2_v * 8;
    for (int32_t ax3_0_0 = 0; ax3_0_0 < 2; ++ax3_0_0) {
      acc_0 = acc_1 = acc_2 = acc_3 = acc_4 = acc_5 = acc_6 = acc_7 = (f32x4){0};
      const int32_t offset_1 = ax3_0_0 * 8;
      for (int32_t ax4_0 = 0; ax4_0 < 2; ++ax4_0) {
        const int32_t q_at = offset + ax4_0 * 4;
        const int32_t k_at = i2_v * 128 + ax4_0 * 64 + offset_1;
        acc_0 += q[q_at] * *(const f32x4u *)&k[k_at];
        acc_1 += q[q_at] * *(const f32x4u *)&k[k_at + 4];
        acc_2 += q[q_at + 16] * *(const f32x4u *)&k[k_at];
        acc_3 += q[q_at + 16] * *(const f32x4u *)&k[k_at + 4];
        acc_4 += q[q_at + 32] * *(const f32x4u *)&k[k_at];
        acc_5 += q[q_at + 32] * *(const f32x4u *)&k[k_at + 4];
        acc_6 += q[q_at + 48] * *(const f32x4u *)&k[k_at];
        acc_7 += q[q_at + 48] * *(const f32x4u *)&k[k_at + 4];
        acc_0 += q[q_at + 1] * *(const f32x4u *)&k[k_at + 16];
        acc_1 += q[q_at + 1] * *(const f32x4u *)&k[k_at + 20];
        acc_2 += q[q_at + 17] * *(const f32x4u *)&k[k_at + 16];
        acc_3 += q[q_at + 17] * *(const f32x4u *)&k[k_at + 20];
        acc_4 += q[q_at + 33] * *(const f32x4u *)&k[k_at + 16];
        acc_5 += q[q_at + 33] * *(const f32x4u *)&k[k_at + 20];
        acc_6 += q[q_at + 49] * *(const f32x4u *)&k[k_at + 16];
        acc_7 += q[q_at + 49] * *(const f32x4u *)&k[k_at + 20];
        acc_0 += q[q_at + 2] * *(const f32x4u *)&k[k_at + 32];
        acc_1 += q[q_at + 2] * *(const f32x4u *)&k[k_at + 36];
        acc_2 += q[q_at + 18] * *(const f32x4u *)&k[k_at + 32];
        acc_3 += q[q_at + 18] * *(const f32x4u *)&k[k_at + 36];
        acc_4 += q[q_at + 34] * *(const f32x4u *)&k[k_at + 32];
        acc_5 += q[q_at + 34] * *(const f32x4u *)&k[k_at + 36];
        acc_6 += q[q_at + 50] * *(const f32x4u *)&k[k_at + 32];
        acc_7 += q[q_at + 50] * *(const f32x4u *)&k[k_at + 36];
        acc_0 += q[q_at + 3] * *(const f32x4u *)&k[k_at + 48];
        acc_1 += q[q_at + 3] * *(const f32x4u *)&k[k_at + 52];
        acc_2 += q[q_at + 19] * *(const f32x4u *)&k[k_at + 48];
        acc_3 += q[q_at + 19] * *(const f32x4u *)&k[k_at + 52];
        acc_4 += q[q_at + 35] * *(const f32x4u *)&k[k_at + 48];
        acc_5 += q[q_at + 35] * *(const f32x4u *)&k[k_at + 52];
        acc_6 += q[q_at + 51] * *(const f32x4u *)&k[k_at + 48];
        acc_7 += q[q_at + 51] * *(const f32x4u *)&k[k_at + 52];
      }
      *(f32x4u *)&attention_scores[offset_1] = acc_0 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1];
      *(f32x4u *)&attention_scores[offset_1 + 4] = acc_1 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1 + 4];
      *(f32x4u *)&attention_scores[offset_1 + 16] = acc_2 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1];
      *(f32x4u *)&attention_scores[offset_1 + 20] = acc_3 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1 + 4];
      *(f32x4u *)&attention_scores[offset_1 + 32] = acc_4 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1];
      *(f32x4u *)&attention_scores[offset_1 + 36] = acc_5 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1 + 4];
      *(f32x4u *)&attention_scores[offset_1 + 48] = acc_6 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1];
      *(f32x4u *)&attention_scores[offset_1 + 52] = acc_7 * 0x1.6a09e6p-2f + *(const f32x4u *)&mask[offset_1 + 4];
    }
    attention_largest_rf_local = (-0x1.fffffep+127f - (f32x4){0});
    f32x4 t = attention_largest_rf_local;
    const f32x4 t_1 = *(const f32x4u *)attention_scores;
    sample__vmax_f32x4(&t, &t_1);
    attention_largest_rf_local = t;
    f32x4 t_2 = attention_largest_rf_local;
    const f32x4 t_3 = *(const f32x4u *)&attention_scores[4];
    sample__vmax_f32x4(&t_2, &t_3);
    attention_largest_rf_local = t_2;
    f32x4 t_4 = attention_largest_rf_local;
    const f32x4 t_5 = *(const f32x4u *)&attention_scores[8];
    sample__vmax_f32x4(&t_4, &t_5);
    attention_largest_rf_local = t_4;
    f32x4 t_6 = attention_largest_rf_local;
    const f32x4 t_7 = *(const f32x4u *)&attention_scores[12];
    sample__vmax_f32x4(&t_6, &t_7);
    attention_largest_rf_local = t_6;
    attention_largest[0] = -0x1.fffffep+127f;
    attention_largest[0] = sample__max_f32(attention_largest[0], sample__lanes_largest_f32x4(&attention_largest_rf_local));
    attention_largest_rf_local = (-0x1.fffffep+127f - (f32x4){0});
    f32x4 t_8 = attention_largest_rf_local;
    const f32x4 t_9 = *(const f32x4u *)&attention_scores[16];
    sample__vmax_f32x4(&t_8, &t_9);
    attention_largest_rf_local = t_8;
    f32x4 t_10 = attention_largest_rf_local;
    const f32x4 t_11 = *(const f32x4u *)&attention_scores[20];
    sample__vmax_f32x4(&t_10, &t_11);
    attention_largest_rf_local = t_10;
    f32x4 t_12 = attention_largest_rf_local;
    const f32x4 t_13 = *(const f32x4u *)&attention_scores[24];
    sample__vmax_f32x4(&t_12, &t_13);
    attention_largest_rf_local = t_12;
    f32x4 t_14 = attention_largest_rf_local;
    const f32x4 t_15 = *(const f32x4u *)&attention_scores[28];
    sample__vmax_f32x4(&t_14, &t_15);
    attention_largest_rf_local = t_14;
    attention_largest[1] = -0x1.fffffep+127f;
    attention_largest[1] = sample__max_f32(attention_largest[1], sample__lanes_largest_f32x4(&attention_largest_rf_local));
    attention_largest_rf_local = (-0x1.fffffep+127f - (f32x4){0});
    f32x4 t_16 = attention_largest_rf_local;
    const f32x4 t_17 = *(const f32x4u *)&attention_scores[32];
    sample__vmax_f32x4(&t_16, &t_17);
    attention_largest_rf_local = t_16;
    f32x4 t_18 = attention_largest_rf_local;
    const f32x4 t_19 = *(const f32x4u *)&attention_scores[36];
    sample__vmax_f32x4(&t_18, &t_19);
    attention_largest_rf_local = t_18;
    f32x4 t_20 = attention_largest_rf_local;
    const f32x4 t_21 = *(const f32x4u *)&attention_scores[40];
    sample__vmax_f32x4(&t_20, &t_21);
    attention_largest_rf_local = t_20;
    f32x4 t_22 = attention_largest_rf_local;
    const f32x4 t_23 = *(const f32x4u *)&attention_scores[44];
    sample__vmax_f32x4(&t_22, &t_23);
    attention_largest_rf_local = t_22;
    attention_largest[2] = -0x1.fffffep+127f;
    attention_largest[2] = sample__max_f32(attention_largest[2], sample__lanes_largest_f32x4(&attention_largest_rf_local));
    attention_largest_rf_local = (-0x1.fffffep+127f - (f32x4){0});
    f32x4 t_24 = attention_largest_rf_local;
    const f32x4 t_25 = *(const f32x4u *)&attention_scores[48];
    sample__vmax_f32x4(&t_24, &t_25);
    attention_largest_rf_local = t_24;
    f32x4 t_26 = attention_largest_rf_local;
    const f32x4 t_27 = *(const f32x4u *)&attention_scores[52];
    sample__vmax_f32x4(&t_26, &t_27);
    attention_largest_rf_local = t_26;
    f32x4 t_28 = attention_largest_rf_local;
    const f32x4 t_29 = *(const f32x4u *)&attention_scores[56];
    sample__vmax_f32x4(&t_28, &t_29);
    attention_largest_rf_local = t_28;
    f32x4 t_30 = attention_largest_rf_local;
    const f32x4 t_31 = *(const f32x4u *)&attention_scores[60];
    sample__vmax_f32x4(&t_30, &t_31);
    attention_largest_rf_local = t_30;
    attention_largest[3] = -0x1.fffffep+127f;
    attention_largest[3] = sample__max_f32(attention_largest[3], sample__lanes_largest_f32x4(&attention_largest_rf_local));
    f32x4 t_32 = *(const f32x4u *)attention_scores - attention_largest[0];
    sample__exp_f32x4(&t_32);
    *(f32x4u *)attention_scores = t_32;
    f32x4 t_33 = *(const f32x4u *)&attention_scores[4] - attention_largest[0];
    sample__exp_f32x4(&t_33);
    *(f32x4u *)&attention_scores[4] = t_33;
    f32x4 t_34 = *(const f32x4u *)&attention_scores[8] - attention_largest[0];
    sample__exp_f32x4(&t_34);
    *(f32x4u *)&attention_scores[8] = t_34;
    f32x4 t_35 = *(const f32x4u *)&attention_scores[12] - attention_largest[0];
    sample__exp_f32x4(&t_35);
    *(f32x4u *)&attention_scores[12] = t_35;
    f32x4 t_36 = *(const f32x4u *)&attention_scores[16] - attention_largest[1];
    sample__exp_f32x4(&t_36);
    *(f32x4u *)&attention_scores[16] = t_36;
    f32x4 t_37 = *(const f32x4u *)&attention_scores[20] - attention_largest[1];
    sample__exp_f32x4(&t_37);
    *(f32x4u *)&attention_scores[20] = t_37;
    f32x4 t_38 = *(const f32x4u *)&attention_scores[24] - attention_largest[1];
    sample__exp_f32x4(&t_38);
    *(f32x4u *)&attention_scores[24] = t_38;
    f32x4 t_39 = *(const f32x4u *)&attention_scores[28] - attention_largest[1];
    sample__exp_f32x4(&t_39);
    *(f32x4u *)&attention_scores[28] = t_39;
    f32x4 t_40 = *(const f32x4u *)&attention_scores[32] - attention_largest[2];
    sample__exp_f32x4(&t_40);
    *(f32x4u *)&attention_scores[32] = t_40;
    f32x4 t_41 = *(const f32x4u *)&attention_scores[36] - attention_largest[2];
    sample__exp_f32x4(&t_41);
    *(f32x4u *)&attention_scores[36] = t_41;
    f32x4 t_42 = *(const f32x4u *)&attention_scores[40] - attention_largest[2];
    sample__exp_f32x4(&t_42);
    *(f32x4u *)&attention_scores[40] = t_42;
    f32x4 t_43 = *(const f32x4u *)&attention_scores[44] - attention_largest[2];
    sample__exp_f32x4(&t_43);
    *(f32x4u *)&attention_scores[44] = t_43;
    f32x4 t_44 = *(const f32x4u *)&attention_scores[48] - attention_largest[3];
    sample__exp_f32x4(&t_44);
    *(f32x4u *)&attention_scores[48] = t_44;
    f32x4 t_45 = *(const f32x4u *)&attention_scores[52] - attention_largest[3];
    sample__exp_f32x4(&t_45);
    *(f32x4u *)&attention_scores[52] = t_45;
    f32x4 t_46 = *(const f32x4u *)&attention_scores[56] - attention_largest[3];
    sample__exp_f32x4(&t_46);
    *(f32x4u *)&attention_scores[56] = t_46;
    f32x4 t_47 = *(const f32x4u *)&attention_scores[60] - attention_largest[3];
    sample__exp_f32x4(&t_47);
    *(f32x4u *)&attention_scores[60] = t_47;
    for (int32_t ax3 = 0; ax3 < 4; ++ax3) {
      attention_totals_rf_local = (f32x4){0};
      for (int32_t ax4 = 0; ax4 < 4; ++ax4) {
        attention_totals_rf_local += *(const f32x4u *)&attention_scores[ax3 * 16 + ax4 * 4];
      }
      attention_largest[ax3] = 0.0f;
      attention_largest[ax3] = attention_largest[ax3] + sample__lanes_sum_f32x4(&attention_totals_rf_local);
    }
    acc_0_1 = acc_1_1 = acc_2_1 = acc_3_1 = acc_4_1 = acc_5_1 = acc_6_1 = acc_7_1 = (f32x4){0};
    for (int32_t ax4_0_1 = 0; ax4_0_1 < 4; ++ax4_0_1) {
      const int32_t attention_scores_at = ax4_0_1 * 4;
      const int32_t v_at = ax4_0_1 * 64 + offset;
      acc_0_1 += attention_scores[attention_scores_at] * *(const f32x4u *)&v[v_at];
      acc_1_1 += attention_scores[attention_scores_at] * *(const f32x4u *)&v[v_at + 4];
      acc_2_1 += attention_scores[attention_scores_at + 16] * *(const f32x4u *)&v[v_at];
      acc_3_1 += attention_scores[attention_scores_at + 16] * *(const f32x4u *)&v[v_at + 4];
      acc_4_1 += attention_scores[attention_scores_at + 32] * *(const f32x4u *)&v[v_at];
      acc_5_1 += attention_scores[attention_scores_at + 32] * *(const f32x4u *)&v[v_at + 4];
      acc_6_1 += attention_scores[attention_scores_at + 48] * *(const f32x4u *)&v[v_at];
      acc_7_1 += attention_scores[attention_scores_at + 48] * *(const f32x4u *)&v[v_at + 4];
      acc_0_1 += attention_scores[attention_scores_at + 1] * *(const f32x4u *)&v[v_at + 16];
      acc_1_1 += attention_scores[attention_scores_at + 1] * *(const f32x4u *)&v[v_at + 20];
      acc_2_1 += attention_scores[attention_scores_at + 17] * *(const f32x4u *)&v[v_at + 16];
      acc_3_1 += attention_scores[attention_scores_at + 17] * *(const f32x4u *)&v[v_at + 20];
      acc_4_1 += attention_scores[attention_scores_at + 33] * *(const f32x4u *)&v[v_at + 16];
      acc_5_1 += attention_scores[attention_scores_at + 33] * *(const f32x4u *)&v[v_at + 20];
      acc_6_1 += attention_scores[attention_scores_at + 49] * *(const f32x4u *)&v[v_at + 16];
      acc_7_1 += attention_scores[attention_scores_at + 49] * *(const f32x4u *)&v[v_at + 20];
      acc_0_1 += attention_scores[attention_scores_at + 2] * *(const f32x4u *)&v[v_at + 32];
      acc_1_1 += attention_scores[attention_scores_at + 2] * *(const f32x4u *)&v[v_at + 36];
      acc_2_1 += attention_scores[attention_scores_at + 18] * *(const f32x4u *)&v[v_at + 32];
      acc_3_1 += attention_scores[attention_scores_at + 18] * *(const f32x4u *)&v[v_at + 36];
      acc_4_1 += attention_scores[attention_scores_at + 34] * *(const f32x4u *)&v[v_at + 32];
      acc_5_1 += attention_scores[attention_scores_at + 34] * *(const f32x4u *)&v[v_at + 36];
      acc_6_1 += attention_scores[attention_scores_at + 50] * *(const f32x4u *)&v[v_at + 32];
      acc_7_1 += attention_scores[attention_scores_at + 50] * *(const f32x4u *)&v[v_at + 36];
      acc_0_1 += attention_scores[attention_scores_at + 3] * *(const f32x4u *)&v[v_at + 48];
      acc_1_1 += attention_scores[attention_scores_at + 3] * *(const f32x4u *)&v[v_at + 52];
      acc_2_1 += attention_scores[attention_scores_at + 19] * *(const f32x4u *)&v[v_at + 48];
      acc_3_1 += attention_scores[attention_scores_at + 19] * *(const f32x4u *)&v[v_at + 52];
      acc_4_1 += attention_scores[attention_scores_at + 35] * *(const f32x4u *)&v[v_at + 48];
      acc_5_1 += attention_scores[attention_scores_at + 35] * *(const f32x4u *)&v[v_at + 52];
      acc_6_1 += attention_scores[attention_scores_at + 51] * *(const f32x4u *)&v[v_at + 48];
      acc_7_1 += attention_scores[attention_scores_at + 51] * *(const f32x4u *)&v[v_at + 52];
    }
    *(f32x4u *)&attention[offset] = acc_0_1 / attention_largest[0];
    *(f32x4u *)&attention[offset + 4] = acc_1_1 / attention_largest[0];
    *(f32x4u *)&attention[offset + 16] = acc_2_1 / attention_largest[1];
    *(f32x4u *)&attention[offset + 20] = acc_3_1 / attention_largest[1];
    *(f32x4u *)&attention[offset + 32] = acc_4_1 / attention_largest[2];
    *(f32x4u *)&attention[offset + 36] = acc_5_1 / attention_largest[2];
    *(f32x4u *)&attention[offset + 48] = acc_6_1 / attention_largest[3];
    *(f32x4u *)&attention[offset + 52] = acc_7_1 / attention_largest[3];
  }
}
