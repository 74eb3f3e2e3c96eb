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
typedef int16_t sample__i16x8 __attribute__((vector_size(16)));
#define i16x8 sample__i16x8
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
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
/* *r = the 4 numbers at p. */
static inline __attribute__((always_inline)) void sample__widen_halves_i8x4(const void *p, i16x4 *r)
{
#if defined(__aarch64__)
    i16x8 all;
    __asm__("ldr %s0, [%1]\n\tsxtl %0.8h, %0.8b" : "=w"(all) : "r"(p), "m"(*(const i8x4u *)p));
    *r = (i16x4)((i64x2)all)[0];
#elif defined(__ARM_NEON)
    i16x8 all;
    __asm__("vld1.32 {%e0[0]}, [%1]\n\tvmovl.s8 %q0, %e0" : "=w"(all) : "r"(p), "m"(*(const i8x4u *)p));
    *r = (i16x4)((i64x2)all)[0];
#else
    *r = __builtin_convertvector(*(const i8x4u *)p, i16x4);
#endif
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
                i16x4 x_wide;
                sample__widen_halves_i8x4(&x[offset + offset_1 + offset_2], &x_wide);
                *(i16x4u *)&operand[offset_1 + offset_2] = x_wide;
                i16x4 x_wide_1;
                sample__widen_halves_i8x4(&x[offset + offset_1 + offset_2 + 4], &x_wide_1);
                *(i16x4u *)&operand[offset_1 + offset_2 + 4] = x_wide_1;
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
