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
/* *a = max(*a, *b), where *b is a number; NaN stays NaN. */
static inline __attribute__((always_inline)) void sample__vmax_bound_f32x4(f32x4 *a, const f32x4 *b)
{
#if defined(__aarch64__)
    __asm__("fmax %0.4s, %1.4s, %2.4s" : "=w"(*a) : "w"(*a), "w"(*b));
#else
    sample__vmax_f32x4(a, b);
#endif
}

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu);

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu)
{
    f32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_0_2 = {0}, acc_0_3 = {0}, acc_0_4 = {0}, acc_0_5 = {0}, acc_0_6 = {0},
        acc_0_7 = {0};
    f32x4 acc_1_0 = {0}, acc_1_1 = {0}, acc_1_2 = {0}, acc_1_3 = {0}, acc_1_4 = {0}, acc_1_5 = {0}, acc_1_6 = {0},
        acc_1_7 = {0};
    f32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_2_2 = {0}, acc_2_3 = {0}, acc_2_4 = {0}, acc_2_5 = {0}, acc_2_6 = {0},
        acc_2_7 = {0};
    f32x4 acc_3_0 = {0}, acc_3_1 = {0}, acc_3_2 = {0}, acc_3_3 = {0}, acc_3_4 = {0}, acc_3_5 = {0}, acc_3_6 = {0},
        acc_3_7 = {0};
    for (int32_t h = 0; h < 4; h++) {
        for (int32_t v_o = 0; v_o < 2; v_o++) {
            acc_0_0 = acc_0_1 = acc_0_2 = acc_0_3 = acc_0_4 = acc_0_5 = acc_0_6 = acc_0_7 = (f32x4){0};
            acc_1_0 = acc_1_1 = acc_1_2 = acc_1_3 = acc_1_4 = acc_1_5 = acc_1_6 = acc_1_7 = (f32x4){0};
            acc_2_0 = acc_2_1 = acc_2_2 = acc_2_3 = acc_2_4 = acc_2_5 = acc_2_6 = acc_2_7 = (f32x4){0};
            acc_3_0 = acc_3_1 = acc_3_2 = acc_3_3 = acc_3_4 = acc_3_5 = acc_3_6 = acc_3_7 = (f32x4){0};
            for (int32_t kh = 0; kh < 3; kh++) {
                for (int32_t kw = 0; kw < 3; kw++) {
                    for (int32_t c = 0; c < 8; c++) {
                        const int32_t w_at = kh * 768 + kw * 256 + c * 32;
                        const int32_t x_at = h * 80 + kh * 80 + v_o * 32 + kw * 8 + c;
                        acc_0_0 += x[x_at] * *(const f32x4u *)&w[w_at];
                        acc_0_1 += x[x_at] * *(const f32x4u *)&w[w_at + 4];
                        acc_0_2 += x[x_at] * *(const f32x4u *)&w[w_at + 8];
                        acc_0_3 += x[x_at] * *(const f32x4u *)&w[w_at + 12];
                        acc_0_4 += x[x_at] * *(const f32x4u *)&w[w_at + 16];
                        acc_0_5 += x[x_at] * *(const f32x4u *)&w[w_at + 20];
                        acc_0_6 += x[x_at] * *(const f32x4u *)&w[w_at + 24];
                        acc_0_7 += x[x_at] * *(const f32x4u *)&w[w_at + 28];
                        acc_1_0 += x[x_at + 8] * *(const f32x4u *)&w[w_at];
                        acc_1_1 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 4];
                        acc_1_2 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 8];
                        acc_1_3 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 12];
                        acc_1_4 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 16];
                        acc_1_5 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 20];
                        acc_1_6 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 24];
                        acc_1_7 += x[x_at + 8] * *(const f32x4u *)&w[w_at + 28];
                        acc_2_0 += x[x_at + 16] * *(const f32x4u *)&w[w_at];
                        acc_2_1 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 4];
                        acc_2_2 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 8];
                        acc_2_3 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 12];
                        acc_2_4 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 16];
                        acc_2_5 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 20];
                        acc_2_6 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 24];
                        acc_2_7 += x[x_at + 16] * *(const f32x4u *)&w[w_at + 28];
                        acc_3_0 += x[x_at + 24] * *(const f32x4u *)&w[w_at];
                        acc_3_1 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 4];
                        acc_3_2 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 8];
                        acc_3_3 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 12];
                        acc_3_4 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 16];
                        acc_3_5 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 20];
                        acc_3_6 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 24];
                        acc_3_7 += x[x_at + 24] * *(const f32x4u *)&w[w_at + 28];
                    }
                }
            }
            const int32_t relu_at = h * 256 + v_o * 128;
            f32x4 relu_0_0 = acc_0_0 + *(const f32x4u *)b;
            sample__vmax_bound_f32x4(&relu_0_0, &(f32x4){0});
            *(f32x4u *)&relu[relu_at] = relu_0_0;
            f32x4 relu_0_1 = acc_0_1 + *(const f32x4u *)&b[4];
            sample__vmax_bound_f32x4(&relu_0_1, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 4] = relu_0_1;
            f32x4 relu_0_2 = acc_0_2 + *(const f32x4u *)&b[8];
            sample__vmax_bound_f32x4(&relu_0_2, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 8] = relu_0_2;
            f32x4 relu_0_3 = acc_0_3 + *(const f32x4u *)&b[12];
            sample__vmax_bound_f32x4(&relu_0_3, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 12] = relu_0_3;
            f32x4 relu_0_4 = acc_0_4 + *(const f32x4u *)&b[16];
            sample__vmax_bound_f32x4(&relu_0_4, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 16] = relu_0_4;
            f32x4 relu_0_5 = acc_0_5 + *(const f32x4u *)&b[20];
            sample__vmax_bound_f32x4(&relu_0_5, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 20] = relu_0_5;
            f32x4 relu_0_6 = acc_0_6 + *(const f32x4u *)&b[24];
            sample__vmax_bound_f32x4(&relu_0_6, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 24] = relu_0_6;
            f32x4 relu_0_7 = acc_0_7 + *(const f32x4u *)&b[28];
            sample__vmax_bound_f32x4(&relu_0_7, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 28] = relu_0_7;
            f32x4 relu_1_0 = acc_1_0 + *(const f32x4u *)b;
            sample__vmax_bound_f32x4(&relu_1_0, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 32] = relu_1_0;
            f32x4 relu_1_1 = acc_1_1 + *(const f32x4u *)&b[4];
            sample__vmax_bound_f32x4(&relu_1_1, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 36] = relu_1_1;
            f32x4 relu_1_2 = acc_1_2 + *(const f32x4u *)&b[8];
            sample__vmax_bound_f32x4(&relu_1_2, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 40] = relu_1_2;
            f32x4 relu_1_3 = acc_1_3 + *(const f32x4u *)&b[12];
            sample__vmax_bound_f32x4(&relu_1_3, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 44] = relu_1_3;
            f32x4 relu_1_4 = acc_1_4 + *(const f32x4u *)&b[16];
            sample__vmax_bound_f32x4(&relu_1_4, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 48] = relu_1_4;
            f32x4 relu_1_5 = acc_1_5 + *(const f32x4u *)&b[20];
            sample__vmax_bound_f32x4(&relu_1_5, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 52] = relu_1_5;
            f32x4 relu_1_6 = acc_1_6 + *(const f32x4u *)&b[24];
            sample__vmax_bound_f32x4(&relu_1_6, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 56] = relu_1_6;
            f32x4 relu_1_7 = acc_1_7 + *(const f32x4u *)&b[28];
            sample__vmax_bound_f32x4(&relu_1_7, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 60] = relu_1_7;
            f32x4 relu_2_0 = acc_2_0 + *(const f32x4u *)b;
            sample__vmax_bound_f32x4(&relu_2_0, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 64] = relu_2_0;
            f32x4 relu_2_1 = acc_2_1 + *(const f32x4u *)&b[4];
            sample__vmax_bound_f32x4(&relu_2_1, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 68] = relu_2_1;
            f32x4 relu_2_2 = acc_2_2 + *(const f32x4u *)&b[8];
            sample__vmax_bound_f32x4(&relu_2_2, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 72] = relu_2_2;
            f32x4 relu_2_3 = acc_2_3 + *(const f32x4u *)&b[12];
            sample__vmax_bound_f32x4(&relu_2_3, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 76] = relu_2_3;
            f32x4 relu_2_4 = acc_2_4 + *(const f32x4u *)&b[16];
            sample__vmax_bound_f32x4(&relu_2_4, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 80] = relu_2_4;
            f32x4 relu_2_5 = acc_2_5 + *(const f32x4u *)&b[20];
            sample__vmax_bound_f32x4(&relu_2_5, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 84] = relu_2_5;
            f32x4 relu_2_6 = acc_2_6 + *(const f32x4u *)&b[24];
            sample__vmax_bound_f32x4(&relu_2_6, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 88] = relu_2_6;
            f32x4 relu_2_7 = acc_2_7 + *(const f32x4u *)&b[28];
            sample__vmax_bound_f32x4(&relu_2_7, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 92] = relu_2_7;
            f32x4 relu_3_0 = acc_3_0 + *(const f32x4u *)b;
            sample__vmax_bound_f32x4(&relu_3_0, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 96] = relu_3_0;
            f32x4 relu_3_1 = acc_3_1 + *(const f32x4u *)&b[4];
            sample__vmax_bound_f32x4(&relu_3_1, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 100] = relu_3_1;
            f32x4 relu_3_2 = acc_3_2 + *(const f32x4u *)&b[8];
            sample__vmax_bound_f32x4(&relu_3_2, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 104] = relu_3_2;
            f32x4 relu_3_3 = acc_3_3 + *(const f32x4u *)&b[12];
            sample__vmax_bound_f32x4(&relu_3_3, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 108] = relu_3_3;
            f32x4 relu_3_4 = acc_3_4 + *(const f32x4u *)&b[16];
            sample__vmax_bound_f32x4(&relu_3_4, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 112] = relu_3_4;
            f32x4 relu_3_5 = acc_3_5 + *(const f32x4u *)&b[20];
            sample__vmax_bound_f32x4(&relu_3_5, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 116] = relu_3_5;
            f32x4 relu_3_6 = acc_3_6 + *(const f32x4u *)&b[24];
            sample__vmax_bound_f32x4(&relu_3_6, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 120] = relu_3_6;
            f32x4 relu_3_7 = acc_3_7 + *(const f32x4u *)&b[28];
            sample__vmax_bound_f32x4(&relu_3_7, &(f32x4){0});
            *(f32x4u *)&relu[relu_at + 124] = relu_3_7;
        }
    }
}
