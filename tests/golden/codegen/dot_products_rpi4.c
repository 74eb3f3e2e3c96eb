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
typedef int8_t sample__i8x16u __attribute__((vector_size(16), aligned(1), may_alias));
#define i8x16u sample__i8x16u
typedef uint32_t sample__u32x4 __attribute__((vector_size(16)));
#define u32x4 sample__u32x4
typedef int16_t sample__i16x4 __attribute__((vector_size(8)));
#define i16x4 sample__i16x4
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
/* *r0 = *v0 + zero, within the limits of a byte, and so on for 4 vectors. */
static inline __attribute__((always_inline)) void sample__narrowed_each_i8x4x4(int32_t zero,
        const i32x4 *v0, i8x4 *r0, const i32x4 *v1, i8x4 *r1, const i32x4 *v2, i8x4 *r2, const i32x4 *v3, i8x4 *r3)
{
#if defined(__SSE2__) && !defined(__clang__) && __has_builtin(__builtin_ia32_packsswb128)
    typedef int8_t bytes __attribute__((vector_size(16)));
    typedef short halves __attribute__((vector_size(16)));
    const halves zeros = (halves){0} + (short)zero;
    const halves first = __builtin_ia32_paddsw128(__builtin_ia32_packssdw128(*v0, *v1), zeros);
    const halves second = __builtin_ia32_paddsw128(__builtin_ia32_packssdw128(*v2, *v3), zeros);
    bytes all = (bytes)__builtin_ia32_packsswb128(first, second);
    typedef int32_t words __attribute__((vector_size(sizeof(all))));
    const words each = (words)all;
    *r0 = (i8x4)each[0];
    *r1 = (i8x4)each[1];
    *r2 = (i8x4)each[2];
    *r3 = (i8x4)each[3];
#elif defined(__aarch64__)
    typedef int8_t bytes __attribute__((vector_size(16)));
    typedef int16_t halves __attribute__((vector_size(16)));
    const halves zeros = (halves){0} + (int16_t)zero;
    bytes all;
    halves low, high;
    __asm__("sqxtn %0.4h, %1.4s\n\tsqxtn2 %0.8h, %2.4s" : "=&w"(low) : "w"(*v0), "w"(*v1));
    __asm__("sqxtn %0.4h, %1.4s\n\tsqxtn2 %0.8h, %2.4s" : "=&w"(high) : "w"(*v2), "w"(*v3));
    __asm__("sqadd %0.8h, %1.8h, %2.8h" : "=w"(low) : "w"(low), "w"(zeros));
    __asm__("sqadd %0.8h, %1.8h, %2.8h" : "=w"(high) : "w"(high), "w"(zeros));
    __asm__("sqxtn %0.8b, %1.8h\n\tsqxtn2 %0.16b, %2.8h" : "=&w"(all) : "w"(low), "w"(high));
    typedef int32_t words __attribute__((vector_size(sizeof(all))));
    const words each = (words)all;
    *r0 = (i8x4)each[0];
    *r1 = (i8x4)each[1];
    *r2 = (i8x4)each[2];
    *r3 = (i8x4)each[3];
#elif defined(__ARM_NEON)
    typedef int8_t bytes __attribute__((vector_size(16)));
    typedef int16_t halves __attribute__((vector_size(16)));
    const halves zeros = (halves){0} + (int16_t)zero;
    bytes all;
    halves low, high;
    __asm__("vqmovn.s32 %e0, %q1\n\tvqmovn.s32 %f0, %q2" : "=&w"(low) : "w"(*v0), "w"(*v1));
    __asm__("vqmovn.s32 %e0, %q1\n\tvqmovn.s32 %f0, %q2" : "=&w"(high) : "w"(*v2), "w"(*v3));
    __asm__("vqadd.s16 %q0, %q1, %q2" : "=w"(low) : "w"(low), "w"(zeros));
    __asm__("vqadd.s16 %q0, %q1, %q2" : "=w"(high) : "w"(high), "w"(zeros));
    __asm__("vqmovn.s16 %e0, %q1\n\tvqmovn.s16 %f0, %q2" : "=&w"(all) : "w"(low), "w"(high));
    typedef int32_t words __attribute__((vector_size(sizeof(all))));
    const words each = (words)all;
    *r0 = (i8x4)each[0];
    *r1 = (i8x4)each[1];
    *r2 = (i8x4)each[2];
    *r3 = (i8x4)each[3];
#else
    const i32x4 least = (i32x4){0} + (-128 - zero), most = (i32x4){0} + (127 - zero);
    const i32x4 below0 = *v0 < least, above0 = *v0 > most;
    const i32x4 x0 = (*v0 & ~below0 & ~above0) | (least & below0) | (most & above0);
    *r0 = __builtin_convertvector(__builtin_convertvector((i32x4)((u32x4)x0 + (uint32_t)zero), i16x4), i8x4);
    const i32x4 below1 = *v1 < least, above1 = *v1 > most;
    const i32x4 x1 = (*v1 & ~below1 & ~above1) | (least & below1) | (most & above1);
    *r1 = __builtin_convertvector(__builtin_convertvector((i32x4)((u32x4)x1 + (uint32_t)zero), i16x4), i8x4);
    const i32x4 below2 = *v2 < least, above2 = *v2 > most;
    const i32x4 x2 = (*v2 & ~below2 & ~above2) | (least & below2) | (most & above2);
    *r2 = __builtin_convertvector(__builtin_convertvector((i32x4)((u32x4)x2 + (uint32_t)zero), i16x4), i8x4);
    const i32x4 below3 = *v3 < least, above3 = *v3 > most;
    const i32x4 x3 = (*v3 & ~below3 & ~above3) | (least & below3) | (most & above3);
    *r3 = __builtin_convertvector(__builtin_convertvector((i32x4)((u32x4)x3 + (uint32_t)zero), i16x4), i8x4);
#endif
}
/* *r = *v rounded to integers, half to even, within those of 32 bits; any of these where it is NaN. */
static inline __attribute__((always_inline)) void sample__nearest_f32x4(const f32x4 *v, i32x4 *r)
{
#if defined(__SSE2__) && __has_builtin(__builtin_ia32_cvtps2dq)
    *r = __builtin_ia32_cvtps2dq(__builtin_ia32_minps((f32x4){0} + 0x1.fffffep30f, *v));
#elif defined(__aarch64__)
    __asm__("fcvtns %0.4s, %1.4s" : "=w"(*r) : "w"(*v));
#else
    const i32x4 low = (i32x4)(*v > -0x1p+31f), high = (i32x4)(*v >= 0x1p+31f);
    const f32x4 x = (f32x4)((i32x4)*v & low & ~high);
    const i32x4 t = __builtin_convertvector(x, i32x4);
    const f32x4 d = x - __builtin_convertvector(t, f32x4);
    const i32x4 up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
    *r = (t - up + down) | (high & 0x7fffffff) | (~low & (-0x7fffffff - 1));
#endif
}

void sample_dot_products(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                         const float *restrict bias, int8_t *restrict compute);

void sample_dot_products(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                         const float *restrict bias, int8_t *restrict compute)
{
    i32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_0_2 = {0}, acc_0_3 = {0};
    i32x4 acc_1_0 = {0}, acc_1_1 = {0}, acc_1_2 = {0}, acc_1_3 = {0};
    i32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_2_2 = {0}, acc_2_3 = {0};
    i32x4 acc_3_0 = {0}, acc_3_1 = {0}, acc_3_2 = {0}, acc_3_3 = {0};
    for (int32_t i_o = 0; i_o < 2; i_o++) {
        acc_0_0 = acc_0_1 = acc_0_2 = acc_0_3 = acc_1_0 = acc_1_1 = acc_1_2 = acc_1_3 = (i32x4){0};
        acc_2_0 = acc_2_1 = acc_2_2 = acc_2_3 = acc_3_0 = acc_3_1 = acc_3_2 = acc_3_3 = (i32x4){0};
        const int32_t offset = i_o * 64;
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[offset], w);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[offset], &w[16]);
        sample__dot_i8_i8_4_i32x4(&acc_0_2, &x[offset], &w[32]);
        sample__dot_i8_i8_4_i32x4(&acc_0_3, &x[offset], &w[48]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[offset + 16], w);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[offset + 16], &w[16]);
        sample__dot_i8_i8_4_i32x4(&acc_1_2, &x[offset + 16], &w[32]);
        sample__dot_i8_i8_4_i32x4(&acc_1_3, &x[offset + 16], &w[48]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[offset + 32], w);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[offset + 32], &w[16]);
        sample__dot_i8_i8_4_i32x4(&acc_2_2, &x[offset + 32], &w[32]);
        sample__dot_i8_i8_4_i32x4(&acc_2_3, &x[offset + 32], &w[48]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[offset + 48], w);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[offset + 48], &w[16]);
        sample__dot_i8_i8_4_i32x4(&acc_3_2, &x[offset + 48], &w[32]);
        sample__dot_i8_i8_4_i32x4(&acc_3_3, &x[offset + 48], &w[48]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[offset + 4], &w[64]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[offset + 4], &w[80]);
        sample__dot_i8_i8_4_i32x4(&acc_0_2, &x[offset + 4], &w[96]);
        sample__dot_i8_i8_4_i32x4(&acc_0_3, &x[offset + 4], &w[112]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[offset + 20], &w[64]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[offset + 20], &w[80]);
        sample__dot_i8_i8_4_i32x4(&acc_1_2, &x[offset + 20], &w[96]);
        sample__dot_i8_i8_4_i32x4(&acc_1_3, &x[offset + 20], &w[112]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[offset + 36], &w[64]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[offset + 36], &w[80]);
        sample__dot_i8_i8_4_i32x4(&acc_2_2, &x[offset + 36], &w[96]);
        sample__dot_i8_i8_4_i32x4(&acc_2_3, &x[offset + 36], &w[112]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[offset + 52], &w[64]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[offset + 52], &w[80]);
        sample__dot_i8_i8_4_i32x4(&acc_3_2, &x[offset + 52], &w[96]);
        sample__dot_i8_i8_4_i32x4(&acc_3_3, &x[offset + 52], &w[112]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[offset + 8], &w[128]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[offset + 8], &w[144]);
        sample__dot_i8_i8_4_i32x4(&acc_0_2, &x[offset + 8], &w[160]);
        sample__dot_i8_i8_4_i32x4(&acc_0_3, &x[offset + 8], &w[176]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[offset + 24], &w[128]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[offset + 24], &w[144]);
        sample__dot_i8_i8_4_i32x4(&acc_1_2, &x[offset + 24], &w[160]);
        sample__dot_i8_i8_4_i32x4(&acc_1_3, &x[offset + 24], &w[176]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[offset + 40], &w[128]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[offset + 40], &w[144]);
        sample__dot_i8_i8_4_i32x4(&acc_2_2, &x[offset + 40], &w[160]);
        sample__dot_i8_i8_4_i32x4(&acc_2_3, &x[offset + 40], &w[176]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[offset + 56], &w[128]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[offset + 56], &w[144]);
        sample__dot_i8_i8_4_i32x4(&acc_3_2, &x[offset + 56], &w[160]);
        sample__dot_i8_i8_4_i32x4(&acc_3_3, &x[offset + 56], &w[176]);
        sample__dot_i8_i8_4_i32x4(&acc_0_0, &x[offset + 12], &w[192]);
        sample__dot_i8_i8_4_i32x4(&acc_0_1, &x[offset + 12], &w[208]);
        sample__dot_i8_i8_4_i32x4(&acc_0_2, &x[offset + 12], &w[224]);
        sample__dot_i8_i8_4_i32x4(&acc_0_3, &x[offset + 12], &w[240]);
        sample__dot_i8_i8_4_i32x4(&acc_1_0, &x[offset + 28], &w[192]);
        sample__dot_i8_i8_4_i32x4(&acc_1_1, &x[offset + 28], &w[208]);
        sample__dot_i8_i8_4_i32x4(&acc_1_2, &x[offset + 28], &w[224]);
        sample__dot_i8_i8_4_i32x4(&acc_1_3, &x[offset + 28], &w[240]);
        sample__dot_i8_i8_4_i32x4(&acc_2_0, &x[offset + 44], &w[192]);
        sample__dot_i8_i8_4_i32x4(&acc_2_1, &x[offset + 44], &w[208]);
        sample__dot_i8_i8_4_i32x4(&acc_2_2, &x[offset + 44], &w[224]);
        sample__dot_i8_i8_4_i32x4(&acc_2_3, &x[offset + 44], &w[240]);
        sample__dot_i8_i8_4_i32x4(&acc_3_0, &x[offset + 60], &w[192]);
        sample__dot_i8_i8_4_i32x4(&acc_3_1, &x[offset + 60], &w[208]);
        sample__dot_i8_i8_4_i32x4(&acc_3_2, &x[offset + 60], &w[224]);
        sample__dot_i8_i8_4_i32x4(&acc_3_3, &x[offset + 60], &w[240]);
        const f32x4 real_0_0 = __builtin_convertvector(acc_0_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
        i32x4 nearest_0_0;
        sample__nearest_f32x4(&real_0_0, &nearest_0_0);
        i8x4 compute_0_0;
        const f32x4 real_0_1 = __builtin_convertvector(acc_0_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
        i32x4 nearest_0_1;
        sample__nearest_f32x4(&real_0_1, &nearest_0_1);
        i8x4 compute_0_1;
        const f32x4 real_0_2 = __builtin_convertvector(acc_0_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        i32x4 nearest_0_2;
        sample__nearest_f32x4(&real_0_2, &nearest_0_2);
        i8x4 compute_0_2;
        const f32x4 real_0_3 = __builtin_convertvector(acc_0_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        i32x4 nearest_0_3;
        sample__nearest_f32x4(&real_0_3, &nearest_0_3);
        i8x4 compute_0_3;
        sample__narrowed_each_i8x4x4(-3, &nearest_0_0, &compute_0_0, &nearest_0_1, &compute_0_1, &nearest_0_2, &compute_0_2,
            &nearest_0_3, &compute_0_3);
        *(i8x4u *)&compute[offset] = compute_0_0;
        *(i8x4u *)&compute[offset + 4] = compute_0_1;
        *(i8x4u *)&compute[offset + 8] = compute_0_2;
        *(i8x4u *)&compute[offset + 12] = compute_0_3;
        const f32x4 real_1_0 = __builtin_convertvector(acc_1_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
        i32x4 nearest_1_0;
        sample__nearest_f32x4(&real_1_0, &nearest_1_0);
        i8x4 compute_1_0;
        const f32x4 real_1_1 = __builtin_convertvector(acc_1_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
        i32x4 nearest_1_1;
        sample__nearest_f32x4(&real_1_1, &nearest_1_1);
        i8x4 compute_1_1;
        const f32x4 real_1_2 = __builtin_convertvector(acc_1_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        i32x4 nearest_1_2;
        sample__nearest_f32x4(&real_1_2, &nearest_1_2);
        i8x4 compute_1_2;
        const f32x4 real_1_3 = __builtin_convertvector(acc_1_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        i32x4 nearest_1_3;
        sample__nearest_f32x4(&real_1_3, &nearest_1_3);
        i8x4 compute_1_3;
        sample__narrowed_each_i8x4x4(-3, &nearest_1_0, &compute_1_0, &nearest_1_1, &compute_1_1, &nearest_1_2, &compute_1_2,
            &nearest_1_3, &compute_1_3);
        *(i8x4u *)&compute[offset + 16] = compute_1_0;
        *(i8x4u *)&compute[offset + 20] = compute_1_1;
        *(i8x4u *)&compute[offset + 24] = compute_1_2;
        *(i8x4u *)&compute[offset + 28] = compute_1_3;
        const f32x4 real_2_0 = __builtin_convertvector(acc_2_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
        i32x4 nearest_2_0;
        sample__nearest_f32x4(&real_2_0, &nearest_2_0);
        i8x4 compute_2_0;
        const f32x4 real_2_1 = __builtin_convertvector(acc_2_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
        i32x4 nearest_2_1;
        sample__nearest_f32x4(&real_2_1, &nearest_2_1);
        i8x4 compute_2_1;
        const f32x4 real_2_2 = __builtin_convertvector(acc_2_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        i32x4 nearest_2_2;
        sample__nearest_f32x4(&real_2_2, &nearest_2_2);
        i8x4 compute_2_2;
        const f32x4 real_2_3 = __builtin_convertvector(acc_2_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        i32x4 nearest_2_3;
        sample__nearest_f32x4(&real_2_3, &nearest_2_3);
        i8x4 compute_2_3;
        sample__narrowed_each_i8x4x4(-3, &nearest_2_0, &compute_2_0, &nearest_2_1, &compute_2_1, &nearest_2_2, &compute_2_2,
            &nearest_2_3, &compute_2_3);
        *(i8x4u *)&compute[offset + 32] = compute_2_0;
        *(i8x4u *)&compute[offset + 36] = compute_2_1;
        *(i8x4u *)&compute[offset + 40] = compute_2_2;
        *(i8x4u *)&compute[offset + 44] = compute_2_3;
        const f32x4 real_3_0 = __builtin_convertvector(acc_3_0, f32x4) * *(const f32x4u *)scale + *(const f32x4u *)bias;
        i32x4 nearest_3_0;
        sample__nearest_f32x4(&real_3_0, &nearest_3_0);
        i8x4 compute_3_0;
        const f32x4 real_3_1 = __builtin_convertvector(acc_3_1, f32x4) * *(const f32x4u *)&scale[4]
            + *(const f32x4u *)&bias[4];
        i32x4 nearest_3_1;
        sample__nearest_f32x4(&real_3_1, &nearest_3_1);
        i8x4 compute_3_1;
        const f32x4 real_3_2 = __builtin_convertvector(acc_3_2, f32x4) * *(const f32x4u *)&scale[8]
            + *(const f32x4u *)&bias[8];
        i32x4 nearest_3_2;
        sample__nearest_f32x4(&real_3_2, &nearest_3_2);
        i8x4 compute_3_2;
        const f32x4 real_3_3 = __builtin_convertvector(acc_3_3, f32x4) * *(const f32x4u *)&scale[12]
            + *(const f32x4u *)&bias[12];
        i32x4 nearest_3_3;
        sample__nearest_f32x4(&real_3_3, &nearest_3_3);
        i8x4 compute_3_3;
        sample__narrowed_each_i8x4x4(-3, &nearest_3_0, &compute_3_0, &nearest_3_1, &compute_3_1, &nearest_3_2, &compute_3_2,
            &nearest_3_3, &compute_3_3);
        *(i8x4u *)&compute[offset + 48] = compute_3_0;
        *(i8x4u *)&compute[offset + 52] = compute_3_1;
        *(i8x4u *)&compute[offset + 56] = compute_3_2;
        *(i8x4u *)&compute[offset + 60] = compute_3_3;
    }
}
