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

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu);

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu)
{
    f32x16 acc_0_0 = {0}, acc_0_1 = {0}, acc_1_0 = {0}, acc_1_1 = {0};
    f32x16 acc_2_0 = {0}, acc_2_1 = {0}, acc_3_0 = {0}, acc_3_1 = {0};
    for (int32_t h = 0; h < 4; h++) {
        for (int32_t v_o = 0; v_o < 2; v_o++) {
            acc_0_0 = acc_0_1 = acc_1_0 = acc_1_1 = acc_2_0 = acc_2_1 = acc_3_0 = acc_3_1 = (f32x16){0};
            for (int32_t kh = 0; kh < 3; kh++) {
                for (int32_t kw = 0; kw < 3; kw++) {
                    for (int32_t c = 0; c < 8; c++) {
                        const int32_t w_at = kh * 768 + kw * 256 + c * 32;
                        const int32_t x_at = h * 80 + kh * 80 + v_o * 32 + kw * 8 + c;
                        acc_0_0 += x[x_at] * *(const f32x16u *)&w[w_at];
                        acc_0_1 += x[x_at] * *(const f32x16u *)&w[w_at + 16];
                        acc_1_0 += x[x_at + 8] * *(const f32x16u *)&w[w_at];
                        acc_1_1 += x[x_at + 8] * *(const f32x16u *)&w[w_at + 16];
                        acc_2_0 += x[x_at + 16] * *(const f32x16u *)&w[w_at];
                        acc_2_1 += x[x_at + 16] * *(const f32x16u *)&w[w_at + 16];
                        acc_3_0 += x[x_at + 24] * *(const f32x16u *)&w[w_at];
                        acc_3_1 += x[x_at + 24] * *(const f32x16u *)&w[w_at + 16];
                    }
                }
            }
            const int32_t relu_at = h * 256 + v_o * 128;
            f32x16 relu_0_0 = acc_0_0 + *(const f32x16u *)b;
            sample__vmax_f32x16(&relu_0_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at] = relu_0_0;
            f32x16 relu_0_1 = acc_0_1 + *(const f32x16u *)&b[16];
            sample__vmax_f32x16(&relu_0_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 16] = relu_0_1;
            f32x16 relu_1_0 = acc_1_0 + *(const f32x16u *)b;
            sample__vmax_f32x16(&relu_1_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 32] = relu_1_0;
            f32x16 relu_1_1 = acc_1_1 + *(const f32x16u *)&b[16];
            sample__vmax_f32x16(&relu_1_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 48] = relu_1_1;
            f32x16 relu_2_0 = acc_2_0 + *(const f32x16u *)b;
            sample__vmax_f32x16(&relu_2_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 64] = relu_2_0;
            f32x16 relu_2_1 = acc_2_1 + *(const f32x16u *)&b[16];
            sample__vmax_f32x16(&relu_2_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 80] = relu_2_1;
            f32x16 relu_3_0 = acc_3_0 + *(const f32x16u *)b;
            sample__vmax_f32x16(&relu_3_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 96] = relu_3_0;
            f32x16 relu_3_1 = acc_3_1 + *(const f32x16u *)&b[16];
            sample__vmax_f32x16(&relu_3_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 112] = relu_3_1;
        }
    }
}
