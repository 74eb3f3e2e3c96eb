#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef float sample__f32x16 __attribute__((vector_size(64)));
#define f32x16 sample__f32x16
typedef float sample__f32x16u __attribute__((vector_size(64), aligned(4), may_alias));
#define f32x16u sample__f32x16u
typedef int32_t sample__i32x16 __attribute__((vector_size(64)));
#define i32x16 sample__i32x16
static inline __attribute__((always_inline)) void sample__vmax_f32x16(f32x16 *a, const f32x16 *b) {
#if defined(__AVX512F__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps512_mask)
  *a = __builtin_ia32_maxps512_mask(*b, *a, *a, -1, 4);
#else
  const i32x16 m = (i32x16)(*b > *a);
  *a = (f32x16)(((i32x16)*b & m) | ((i32x16)*a & ~m));
#endif
}

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu);

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu) {
  f32x16 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
  f32x16 acc_4 = {0}, acc_5 = {0}, acc_6 = {0}, acc_7 = {0};
  for (int32_t h = 0; h < 4; ++h) {
    for (int32_t v_0 = 0; v_0 < 2; ++v_0) {
      acc_0 = acc_1 = acc_2 = acc_3 = acc_4 = acc_5 = acc_6 = acc_7 = (f32x16){0};
      for (int32_t kh = 0; kh < 3; ++kh) {
        for (int32_t kw = 0; kw < 3; ++kw) {
          for (int32_t c = 0; c < 8; ++c) {
            const int32_t w_at = kh * 768 + kw * 256 + c * 32;
            const int32_t x_at = h * 80 + kh * 80 + v_0 * 32 + kw * 8 + c;
            acc_0 += x[x_at] * *(const f32x16u *)&w[w_at];
            acc_1 += x[x_at] * *(const f32x16u *)&w[w_at + 16];
            acc_2 += x[x_at + 8] * *(const f32x16u *)&w[w_at];
            acc_3 += x[x_at + 8] * *(const f32x16u *)&w[w_at + 16];
            acc_4 += x[x_at + 16] * *(const f32x16u *)&w[w_at];
            acc_5 += x[x_at + 16] * *(const f32x16u *)&w[w_at + 16];
            acc_6 += x[x_at + 24] * *(const f32x16u *)&w[w_at];
            acc_7 += x[x_at + 24] * *(const f32x16u *)&w[w_at + 16];
          }
        }
      }
      const int32_t relu_at = h * 256 + v_0 * 128;
      f32x16 t = acc_0 + *(const f32x16u *)b;
      sample__vmax_f32x16(&t, &(f32x16){0});
      *(f32x16u *)&relu[relu_at] = t;
      f32x16 t_1 = acc_1 + *(const f32x16u *)&b[16];
      sample__vmax_f32x16(&t_1, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 16] = t_1;
      f32x16 t_2 = acc_2 + *(const f32x16u *)b;
      sample__vmax_f32x16(&t_2, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 32] = t_2;
      f32x16 t_3 = acc_3 + *(const f32x16u *)&b[16];
      sample__vmax_f32x16(&t_3, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 48] = t_3;
      f32x16 t_4 = acc_4 + *(const f32x16u *)b;
      sample__vmax_f32x16(&t_4, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 64] = t_4;
      f32x16 t_5 = acc_5 + *(const f32x16u *)&b[16];
      sample__vmax_f32x16(&t_5, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 80] = t_5;
      f32x16 t_6 = acc_6 + *(const f32x16u *)b;
      sample__vmax_f32x16(&t_6, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 96] = t_6;
      f32x16 t_7 = acc_7 + *(const f32x16u *)&b[16];
      sample__vmax_f32x16(&t_7, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 112] = t_7;
    }
  }
}
