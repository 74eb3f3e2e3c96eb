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
static inline __attribute__((always_inline)) void sample__vmax_f32x4(f32x4 *a, const f32x4 *b) {
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps)
  *a = __builtin_ia32_maxps(*b, *a);
#else
  const i32x4 m = (i32x4)(*b > *a);
  *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu);

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu) {
  f32x4 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
  f32x4 acc_4 = {0}, acc_5 = {0}, acc_6 = {0}, acc_7 = {0};
  f32x4 acc_8 = {0}, acc_9 = {0}, acc_10 = {0}, acc_11 = {0};
  f32x4 acc_12 = {0}, acc_13 = {0}, acc_14 = {0}, acc_15 = {0};
  f32x4 acc_16 = {0}, acc_17 = {0}, acc_18 = {0}, acc_19 = {0};
  f32x4 acc_20 = {0}, acc_21 = {0}, acc_22 = {0}, acc_23 = {0};
  f32x4 acc_24 = {0}, acc_25 = {0}, acc_26 = {0}, acc_27 = {0};
  f32x4 acc_28 = {0}, acc_29 = {0}, acc_30 = {0}, acc_31 = {0};
  for (int32_t h = 0; h < 4; ++h) {
    for (int32_t v_0 = 0; v_0 < 2; ++v_0) {
      acc_0 = acc_1 = acc_2 = acc_3 = acc_4 = acc_5 = acc_6 = acc_7 = acc_8 = acc_9 = (f32x4){0};
      acc_10 = acc_11 = acc_12 = acc_13 = acc_14 = acc_15 = acc_16 = acc_17 = acc_18 = (f32x4){0};
      acc_19 = acc_20 = acc_21 = acc_22 = acc_23 = acc_24 = acc_25 = acc_26 = acc_27 = (f32x4){0};
      acc_28 = acc_29 = acc_30 = acc_31 = (f32x4){0};
      for (int32_t kh = 0; kh < 3; ++kh) {
        for (int32_t kw = 0; kw < 3; ++kw) {
          for (int32_t c = 0; c < 8; ++c) {
            const int32_t w_at = kh * 768 + kw * 256 + c * 32;
            const int32_t x_at = h * 80 + kh * 80 + v_0 * 32 + kw * 8 + c;
            acc_0 += x[x_at] * *(const f32x4u *)&w[w_at];
            acc_1 += x[x_at] * *(const f32x4u *)&w[w_at + 4];
            acc_2 += x[x_at] * *(const f32x4u *)&w[w_at + 8];
            acc_3 += x[x_at] * *(const f32x4u *)&w[w_at + 12];
            acc_4 += x[x_at] * *(const f32x4u *)&w[w_at + 16];
            acc_5 += x[x_at] * *(const f32x4u *)&w[w_at + 20];
            acc_6 += x[x_at] * *(const f32x4u *)&w[w_at + 24];
            acc_7 += x[x_at] * *(const f32x4u *)&w[w_at + 28];
            acc_8 += x[x_at + 8] * *(const f32x4u *)&w[w_at];
            acc_9 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 4];
            acc_10 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 8];
            acc_11 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 12];
            acc_12 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 16];
            acc_13 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 20];
            acc_14 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 24];
            acc_15 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 28];
            acc_16 += x[x_at + 16] * *(const f32x4u *)&w[w_at];
            acc_17 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 4];
            acc_18 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 8];
            acc_19 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 12];
            acc_20 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 16];
            acc_21 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 20];
            acc_22 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 24];
            acc_23 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 28];
            acc_24 += x[x_at + 24] * *(const f32x4u *)&w[w_at];
            acc_25 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 4];
            acc_26 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 8];
            acc_27 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 12];
            acc_28 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 16];
            acc_29 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 20];
            acc_30 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 24];
            acc_31 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 28];
          }
        }
      }
      const int32_t relu_at = h * 256 + v_0 * 128;
      f32x4 t = acc_0 + *(const f32x4u *)b;
      sample__vmax_f32x4(&t, &(f32x4){0});
      *(f32x4u *)&relu[relu_at] = t;
      f32x4 t_1 = acc_1 + *(const f32x4u *)&b[4];
      sample__vmax_f32x4(&t_1, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 4] = t_1;
      f32x4 t_2 = acc_2 + *(const f32x4u *)&b[8];
      sample__vmax_f32x4(&t_2, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 8] = t_2;
      f32x4 t_3 = acc_3 + *(const f32x4u *)&b[12];
      sample__vmax_f32x4(&t_3, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 12] = t_3;
      f32x4 t_4 = acc_4 + *(const f32x4u *)&b[16];
      sample__vmax_f32x4(&t_4, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 16] = t_4;
      f32x4 t_5 = acc_5 + *(const f32x4u *)&b[20];
      sample__vmax_f32x4(&t_5, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 20] = t_5;
      f32x4 t_6 = acc_6 + *(const f32x4u *)&b[24];
      sample__vmax_f32x4(&t_6, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 24] = t_6;
      f32x4 t_7 = acc_7 + *(const f32x4u *)&b[28];
      sample__vmax_f32x4(&t_7, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 28] = t_7;
      f32x4 t_8 = acc_8 + *(const f32x4u *)b;
      sample__vmax_f32x4(&t_8, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 32] = t_8;
      f32x4 t_9 = acc_9 + *(const f32x4u *)&b[4];
      sample__vmax_f32x4(&t_9, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 36] = t_9;
      f32x4 t_10 = acc_10 + *(const f32x4u *)&b[8];
      sample__vmax_f32x4(&t_10, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 40] = t_10;
      f32x4 t_11 = acc_11 + *(const f32x4u *)&b[12];
      sample__vmax_f32x4(&t_11, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 44] = t_11;
      f32x4 t_12 = acc_12 + *(const f32x4u *)&b[16];
      sample__vmax_f32x4(&t_12, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 48] = t_12;
      f32x4 t_13 = acc_13 + *(const f32x4u *)&b[20];
      sample__vmax_f32x4(&t_13, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 52] = t_13;
      f32x4 t_14 = acc_14 + *(const f32x4u *)&b[24];
      sample__vmax_f32x4(&t_14, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 56] = t_14;
      f32x4 t_15 = acc_15 + *(const f32x4u *)&b[28];
      sample__vmax_f32x4(&t_15, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 60] = t_15;
      f32x4 t_16 = acc_16 + *(const f32x4u *)b;
      sample__vmax_f32x4(&t_16, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 64] = t_16;
      f32x4 t_17 = acc_17 + *(const f32x4u *)&b[4];
      sample__vmax_f32x4(&t_17, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 68] = t_17;
      f32x4 t_18 = acc_18 + *(const f32x4u *)&b[8];
      sample__vmax_f32x4(&t_18, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 72] = t_18;
      f32x4 t_19 = acc_19 + *(const f32x4u *)&b[12];
      sample__vmax_f32x4(&t_19, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 76] = t_19;
      f32x4 t_20 = acc_20 + *(const f32x4u *)&b[16];
      sample__vmax_f32x4(&t_20, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 80] = t_20;
      f32x4 t_21 = acc_21 + *(const f32x4u *)&b[20];
      sample__vmax_f32x4(&t_21, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 84] = t_21;
      f32x4 t_22 = acc_22 + *(const f32x4u *)&b[24];
      sample__vmax_f32x4(&t_22, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 88] = t_22;
      f32x4 t_23 = acc_23 + *(const f32x4u *)&b[28];
      sample__vmax_f32x4(&t_23, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 92] = t_23;
      f32x4 t_24 = acc_24 + *(const f32x4u *)b;
      sample__vmax_f32x4(&t_24, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 96] = t_24;
      f32x4 t_25 = acc_25 + *(const f32x4u *)&b[4];
      sample__vmax_f32x4(&t_25, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 100] = t_25;
      f32x4 t_26 = acc_26 + *(const f32x4u *)&b[8];
      sample__vmax_f32x4(&t_26, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 104] = t_26;
      f32x4 t_27 = acc_27 + *(const f32x4u *)&b[12];
      sample__vmax_f32x4(&t_27, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 108] = t_27;
      f32x4 t_28 = acc_28 + *(const f32x4u *)&b[16];
      sample__vmax_f32x4(&t_28, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 112] = t_28;
      f32x4 t_29 = acc_29 + *(const f32x4u *)&b[20];
      sample__vmax_f32x4(&t_29, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 116] = t_29;
      f32x4 t_30 = acc_30 + *(const f32x4u *)&b[24];
      sample__vmax_f32x4(&t_30, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 120] = t_30;
      f32x4 t_31 = acc_31 + *(const f32x4u *)&b[28];
      sample__vmax_f32x4(&t_31, &(f32x4){0});
      *(f32x4u *)&relu[relu_at + 124] = t_31;
    }
  }
}
