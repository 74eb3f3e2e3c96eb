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
typedef int32_t sample__i32x4 __attribute__((vector_size(16)));
#define i32x4 sample__i32x4
typedef int8_t sample__i8x4 __attribute__((vector_size(4)));
#define i8x4 sample__i8x4
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
typedef uint32_t sample__u32x4 __attribute__((vector_size(16)));
#define u32x4 sample__u32x4
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
    i32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_1_0 = {0}, acc_1_1 = {0};
    i32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_3_0 = {0}, acc_3_1 = {0};
    i32x4 acc_4_0 = {0}, acc_4_1 = {0}, acc_5_0 = {0}, acc_5_1 = {0};
    i32x4 acc_6_0 = {0}, acc_6_1 = {0}, acc_7_0 = {0}, acc_7_1 = {0};
    for (int32_t j_o = 0; j_o < 2; j_o++) {
        acc_0_0 = acc_0_1 = acc_1_0 = acc_1_1 = acc_2_0 = acc_2_1 = acc_3_0 = acc_3_1 = (i32x4){0};
        acc_4_0 = acc_4_1 = acc_5_0 = acc_5_1 = acc_6_0 = acc_6_1 = acc_7_0 = acc_7_1 = (i32x4){0};
        const int32_t w_at = j_o * 128;
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[0]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[0]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_4_0 =
            (i32x4)((u32x4)acc_4_0
            + ((uint32_t)(int32_t)x[64]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[65]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[66]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[67]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_4_1 =
            (i32x4)((u32x4)acc_4_1
            + ((uint32_t)(int32_t)x[64]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[65]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[66]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[67]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_5_0 =
            (i32x4)((u32x4)acc_5_0
            + ((uint32_t)(int32_t)x[80]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[81]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[82]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[83]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_5_1 =
            (i32x4)((u32x4)acc_5_1
            + ((uint32_t)(int32_t)x[80]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[81]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[82]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[83]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_6_0 =
            (i32x4)((u32x4)acc_6_0
            + ((uint32_t)(int32_t)x[96]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[97]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[98]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[99]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_6_1 =
            (i32x4)((u32x4)acc_6_1
            + ((uint32_t)(int32_t)x[96]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[97]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[98]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[99]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_7_0 =
            (i32x4)((u32x4)acc_7_0
            + ((uint32_t)(int32_t)x[112]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at], w[w_at + 4], w[w_at + 8],
            w[w_at + 12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[113]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 1], w[w_at + 5], w[w_at + 9],
            w[w_at + 13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[114]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 2], w[w_at + 6], w[w_at + 10],
            w[w_at + 14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[115]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 3], w[w_at + 7], w[w_at + 11],
            w[w_at + 15]}, i16x4), i32x4)));
        acc_7_1 =
            (i32x4)((u32x4)acc_7_1
            + ((uint32_t)(int32_t)x[112]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 16], w[w_at + 20], w[w_at + 24],
            w[w_at + 28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[113]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 17], w[w_at + 21], w[w_at + 25],
            w[w_at + 29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[114]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 18], w[w_at + 22], w[w_at + 26],
            w[w_at + 30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[115]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 19], w[w_at + 23], w[w_at + 27],
            w[w_at + 31]}, i16x4), i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_4_0 =
            (i32x4)((u32x4)acc_4_0
            + ((uint32_t)(int32_t)x[68]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[69]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[70]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[71]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_4_1 =
            (i32x4)((u32x4)acc_4_1
            + ((uint32_t)(int32_t)x[68]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[69]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[70]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[71]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_5_0 =
            (i32x4)((u32x4)acc_5_0
            + ((uint32_t)(int32_t)x[84]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[85]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[86]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[87]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_5_1 =
            (i32x4)((u32x4)acc_5_1
            + ((uint32_t)(int32_t)x[84]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[85]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[86]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[87]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_6_0 =
            (i32x4)((u32x4)acc_6_0
            + ((uint32_t)(int32_t)x[100]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[101]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[102]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[103]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_6_1 =
            (i32x4)((u32x4)acc_6_1
            + ((uint32_t)(int32_t)x[100]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[101]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[102]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[103]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_7_0 =
            (i32x4)((u32x4)acc_7_0
            + ((uint32_t)(int32_t)x[116]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 32], w[w_at + 36], w[w_at + 40],
            w[w_at + 44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[117]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 33], w[w_at + 37], w[w_at + 41],
            w[w_at + 45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[118]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 34], w[w_at + 38], w[w_at + 42],
            w[w_at + 46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[119]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 35], w[w_at + 39], w[w_at + 43],
            w[w_at + 47]}, i16x4), i32x4)));
        acc_7_1 =
            (i32x4)((u32x4)acc_7_1
            + ((uint32_t)(int32_t)x[116]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 48], w[w_at + 52], w[w_at + 56],
            w[w_at + 60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[117]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 49], w[w_at + 53], w[w_at + 57],
            w[w_at + 61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[118]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 50], w[w_at + 54], w[w_at + 58],
            w[w_at + 62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[119]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 51], w[w_at + 55], w[w_at + 59],
            w[w_at + 63]}, i16x4), i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_4_0 =
            (i32x4)((u32x4)acc_4_0
            + ((uint32_t)(int32_t)x[72]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[73]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[74]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[75]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_4_1 =
            (i32x4)((u32x4)acc_4_1
            + ((uint32_t)(int32_t)x[72]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[73]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[74]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[75]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_5_0 =
            (i32x4)((u32x4)acc_5_0
            + ((uint32_t)(int32_t)x[88]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[89]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[90]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[91]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_5_1 =
            (i32x4)((u32x4)acc_5_1
            + ((uint32_t)(int32_t)x[88]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[89]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[90]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[91]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_6_0 =
            (i32x4)((u32x4)acc_6_0
            + ((uint32_t)(int32_t)x[104]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[105]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[106]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[107]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_6_1 =
            (i32x4)((u32x4)acc_6_1
            + ((uint32_t)(int32_t)x[104]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[105]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[106]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[107]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_7_0 =
            (i32x4)((u32x4)acc_7_0
            + ((uint32_t)(int32_t)x[120]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 64], w[w_at + 68], w[w_at + 72],
            w[w_at + 76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[121]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 65], w[w_at + 69], w[w_at + 73],
            w[w_at + 77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[122]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 66], w[w_at + 70], w[w_at + 74],
            w[w_at + 78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[123]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 67], w[w_at + 71], w[w_at + 75],
            w[w_at + 79]}, i16x4), i32x4)));
        acc_7_1 =
            (i32x4)((u32x4)acc_7_1
            + ((uint32_t)(int32_t)x[120]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 80], w[w_at + 84], w[w_at + 88],
            w[w_at + 92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[121]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 81], w[w_at + 85], w[w_at + 89],
            w[w_at + 93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[122]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 82], w[w_at + 86], w[w_at + 90],
            w[w_at + 94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[123]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 83], w[w_at + 87], w[w_at + 91],
            w[w_at + 95]}, i16x4), i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_4_0 =
            (i32x4)((u32x4)acc_4_0
            + ((uint32_t)(int32_t)x[76]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[77]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[78]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[79]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_4_1 =
            (i32x4)((u32x4)acc_4_1
            + ((uint32_t)(int32_t)x[76]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[77]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[78]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[79]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_5_0 =
            (i32x4)((u32x4)acc_5_0
            + ((uint32_t)(int32_t)x[92]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[93]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[94]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[95]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_5_1 =
            (i32x4)((u32x4)acc_5_1
            + ((uint32_t)(int32_t)x[92]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[93]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[94]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[95]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_6_0 =
            (i32x4)((u32x4)acc_6_0
            + ((uint32_t)(int32_t)x[108]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[109]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[110]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[111]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_6_1 =
            (i32x4)((u32x4)acc_6_1
            + ((uint32_t)(int32_t)x[108]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[109]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[110]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[111]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        acc_7_0 =
            (i32x4)((u32x4)acc_7_0
            + ((uint32_t)(int32_t)x[124]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 96], w[w_at + 100], w[w_at + 104],
            w[w_at + 108]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[125]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 97], w[w_at + 101], w[w_at + 105],
            w[w_at + 109]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[126]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 98], w[w_at + 102], w[w_at + 106],
            w[w_at + 110]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[127]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 99], w[w_at + 103], w[w_at + 107],
            w[w_at + 111]}, i16x4), i32x4)));
        acc_7_1 =
            (i32x4)((u32x4)acc_7_1
            + ((uint32_t)(int32_t)x[124]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 112], w[w_at + 116],
            w[w_at + 120], w[w_at + 124]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[125]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 113], w[w_at + 117],
            w[w_at + 121], w[w_at + 125]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[126]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 114], w[w_at + 118],
            w[w_at + 122], w[w_at + 126]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[127]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[w_at + 115], w[w_at + 119],
            w[w_at + 123], w[w_at + 127]}, i16x4), i32x4)));
        const int32_t offset = j_o * 8;
        const f32x4 real_0_0 = __builtin_convertvector(acc_0_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_0_0;
        sample__nearest_f32x4(&real_0_0, &nearest_0_0);
        i8x4 compute_0_0;
        const f32x4 real_0_1 = __builtin_convertvector(acc_0_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_0_1;
        sample__nearest_f32x4(&real_0_1, &nearest_0_1);
        i8x4 compute_0_1;
        const f32x4 real_1_0 = __builtin_convertvector(acc_1_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_1_0;
        sample__nearest_f32x4(&real_1_0, &nearest_1_0);
        i8x4 compute_1_0;
        const f32x4 real_1_1 = __builtin_convertvector(acc_1_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_1_1;
        sample__nearest_f32x4(&real_1_1, &nearest_1_1);
        i8x4 compute_1_1;
        sample__narrowed_each_i8x4x4(-3, &nearest_0_0, &compute_0_0, &nearest_0_1, &compute_0_1, &nearest_1_0, &compute_1_0,
            &nearest_1_1, &compute_1_1);
        *(i8x4u *)&compute[offset] = compute_0_0;
        *(i8x4u *)&compute[offset + 4] = compute_0_1;
        *(i8x4u *)&compute[offset + 16] = compute_1_0;
        *(i8x4u *)&compute[offset + 20] = compute_1_1;
        const f32x4 real_2_0 = __builtin_convertvector(acc_2_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_2_0;
        sample__nearest_f32x4(&real_2_0, &nearest_2_0);
        i8x4 compute_2_0;
        const f32x4 real_2_1 = __builtin_convertvector(acc_2_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_2_1;
        sample__nearest_f32x4(&real_2_1, &nearest_2_1);
        i8x4 compute_2_1;
        const f32x4 real_3_0 = __builtin_convertvector(acc_3_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_3_0;
        sample__nearest_f32x4(&real_3_0, &nearest_3_0);
        i8x4 compute_3_0;
        const f32x4 real_3_1 = __builtin_convertvector(acc_3_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_3_1;
        sample__nearest_f32x4(&real_3_1, &nearest_3_1);
        i8x4 compute_3_1;
        sample__narrowed_each_i8x4x4(-3, &nearest_2_0, &compute_2_0, &nearest_2_1, &compute_2_1, &nearest_3_0, &compute_3_0,
            &nearest_3_1, &compute_3_1);
        *(i8x4u *)&compute[offset + 32] = compute_2_0;
        *(i8x4u *)&compute[offset + 36] = compute_2_1;
        *(i8x4u *)&compute[offset + 48] = compute_3_0;
        *(i8x4u *)&compute[offset + 52] = compute_3_1;
        const f32x4 real_4_0 = __builtin_convertvector(acc_4_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_4_0;
        sample__nearest_f32x4(&real_4_0, &nearest_4_0);
        i8x4 compute_4_0;
        const f32x4 real_4_1 = __builtin_convertvector(acc_4_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_4_1;
        sample__nearest_f32x4(&real_4_1, &nearest_4_1);
        i8x4 compute_4_1;
        const f32x4 real_5_0 = __builtin_convertvector(acc_5_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_5_0;
        sample__nearest_f32x4(&real_5_0, &nearest_5_0);
        i8x4 compute_5_0;
        const f32x4 real_5_1 = __builtin_convertvector(acc_5_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_5_1;
        sample__nearest_f32x4(&real_5_1, &nearest_5_1);
        i8x4 compute_5_1;
        sample__narrowed_each_i8x4x4(-3, &nearest_4_0, &compute_4_0, &nearest_4_1, &compute_4_1, &nearest_5_0, &compute_5_0,
            &nearest_5_1, &compute_5_1);
        *(i8x4u *)&compute[offset + 64] = compute_4_0;
        *(i8x4u *)&compute[offset + 68] = compute_4_1;
        *(i8x4u *)&compute[offset + 80] = compute_5_0;
        *(i8x4u *)&compute[offset + 84] = compute_5_1;
        const f32x4 real_6_0 = __builtin_convertvector(acc_6_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_6_0;
        sample__nearest_f32x4(&real_6_0, &nearest_6_0);
        i8x4 compute_6_0;
        const f32x4 real_6_1 = __builtin_convertvector(acc_6_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_6_1;
        sample__nearest_f32x4(&real_6_1, &nearest_6_1);
        i8x4 compute_6_1;
        const f32x4 real_7_0 = __builtin_convertvector(acc_7_0, f32x4) * *(const f32x4u *)&scale[offset]
            + *(const f32x4u *)&bias[offset];
        i32x4 nearest_7_0;
        sample__nearest_f32x4(&real_7_0, &nearest_7_0);
        i8x4 compute_7_0;
        const f32x4 real_7_1 = __builtin_convertvector(acc_7_1, f32x4) * *(const f32x4u *)&scale[offset + 4]
            + *(const f32x4u *)&bias[offset + 4];
        i32x4 nearest_7_1;
        sample__nearest_f32x4(&real_7_1, &nearest_7_1);
        i8x4 compute_7_1;
        sample__narrowed_each_i8x4x4(-3, &nearest_6_0, &compute_6_0, &nearest_6_1, &compute_6_1, &nearest_7_0, &compute_7_0,
            &nearest_7_1, &compute_7_1);
        *(i8x4u *)&compute[offset + 96] = compute_6_0;
        *(i8x4u *)&compute[offset + 100] = compute_6_1;
        *(i8x4u *)&compute[offset + 112] = compute_7_0;
        *(i8x4u *)&compute[offset + 116] = compute_7_1;
    }
}
