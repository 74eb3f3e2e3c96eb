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
    i32x4 acc_0_0 = {0}, acc_0_1 = {0}, acc_0_2 = {0}, acc_0_3 = {0};
    i32x4 acc_1_0 = {0}, acc_1_1 = {0}, acc_1_2 = {0}, acc_1_3 = {0};
    i32x4 acc_2_0 = {0}, acc_2_1 = {0}, acc_2_2 = {0}, acc_2_3 = {0};
    i32x4 acc_3_0 = {0}, acc_3_1 = {0}, acc_3_2 = {0}, acc_3_3 = {0};
    for (int32_t i_o = 0; i_o < 2; i_o++) {
        acc_0_0 = acc_0_1 = acc_0_2 = acc_0_3 = acc_1_0 = acc_1_1 = acc_1_2 = acc_1_3 = (i32x4){0};
        acc_2_0 = acc_2_1 = acc_2_2 = acc_2_3 = acc_3_0 = acc_3_1 = acc_3_2 = acc_3_3 = (i32x4){0};
        const int32_t offset = i_o * 64;
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[offset]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[0], w[4], w[8], w[12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[1], w[5], w[9], w[13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[2], w[6], w[10], w[14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[3], w[7], w[11], w[15]}, i16x4), i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[offset]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[16], w[20], w[24], w[28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[17], w[21], w[25], w[29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[18], w[22], w[26], w[30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[19], w[23], w[27], w[31]}, i16x4),
            i32x4)));
        acc_0_2 =
            (i32x4)((u32x4)acc_0_2
            + ((uint32_t)(int32_t)x[offset]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[32], w[36], w[40], w[44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[33], w[37], w[41], w[45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[34], w[38], w[42], w[46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[35], w[39], w[43], w[47]}, i16x4),
            i32x4)));
        acc_0_3 =
            (i32x4)((u32x4)acc_0_3
            + ((uint32_t)(int32_t)x[offset]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[48], w[52], w[56], w[60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 1]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[49], w[53], w[57], w[61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 2]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[50], w[54], w[58], w[62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 3]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[51], w[55], w[59], w[63]}, i16x4),
            i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[offset + 16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[0], w[4], w[8], w[12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[1], w[5], w[9], w[13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[2], w[6], w[10], w[14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[3], w[7], w[11], w[15]}, i16x4), i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[offset + 16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[16], w[20], w[24], w[28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[17], w[21], w[25], w[29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[18], w[22], w[26], w[30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[19], w[23], w[27], w[31]}, i16x4),
            i32x4)));
        acc_1_2 =
            (i32x4)((u32x4)acc_1_2
            + ((uint32_t)(int32_t)x[offset + 16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[32], w[36], w[40], w[44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[33], w[37], w[41], w[45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[34], w[38], w[42], w[46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[35], w[39], w[43], w[47]}, i16x4),
            i32x4)));
        acc_1_3 =
            (i32x4)((u32x4)acc_1_3
            + ((uint32_t)(int32_t)x[offset + 16]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[48], w[52], w[56], w[60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 17]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[49], w[53], w[57], w[61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 18]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[50], w[54], w[58], w[62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 19]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[51], w[55], w[59], w[63]}, i16x4),
            i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[offset + 32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[0], w[4], w[8], w[12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[1], w[5], w[9], w[13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[2], w[6], w[10], w[14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[3], w[7], w[11], w[15]}, i16x4), i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[offset + 32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[16], w[20], w[24], w[28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[17], w[21], w[25], w[29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[18], w[22], w[26], w[30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[19], w[23], w[27], w[31]}, i16x4),
            i32x4)));
        acc_2_2 =
            (i32x4)((u32x4)acc_2_2
            + ((uint32_t)(int32_t)x[offset + 32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[32], w[36], w[40], w[44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[33], w[37], w[41], w[45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[34], w[38], w[42], w[46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[35], w[39], w[43], w[47]}, i16x4),
            i32x4)));
        acc_2_3 =
            (i32x4)((u32x4)acc_2_3
            + ((uint32_t)(int32_t)x[offset + 32]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[48], w[52], w[56], w[60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 33]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[49], w[53], w[57], w[61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 34]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[50], w[54], w[58], w[62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 35]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[51], w[55], w[59], w[63]}, i16x4),
            i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[offset + 48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[0], w[4], w[8], w[12]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[1], w[5], w[9], w[13]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[2], w[6], w[10], w[14]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[3], w[7], w[11], w[15]}, i16x4), i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[offset + 48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[16], w[20], w[24], w[28]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[17], w[21], w[25], w[29]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[18], w[22], w[26], w[30]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[19], w[23], w[27], w[31]}, i16x4),
            i32x4)));
        acc_3_2 =
            (i32x4)((u32x4)acc_3_2
            + ((uint32_t)(int32_t)x[offset + 48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[32], w[36], w[40], w[44]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[33], w[37], w[41], w[45]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[34], w[38], w[42], w[46]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[35], w[39], w[43], w[47]}, i16x4),
            i32x4)));
        acc_3_3 =
            (i32x4)((u32x4)acc_3_3
            + ((uint32_t)(int32_t)x[offset + 48]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[48], w[52], w[56], w[60]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 49]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[49], w[53], w[57], w[61]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 50]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[50], w[54], w[58], w[62]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 51]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[51], w[55], w[59], w[63]}, i16x4),
            i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[offset + 4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[64], w[68], w[72], w[76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[65], w[69], w[73], w[77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[66], w[70], w[74], w[78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[67], w[71], w[75], w[79]}, i16x4),
            i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[offset + 4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[80], w[84], w[88], w[92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[81], w[85], w[89], w[93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[82], w[86], w[90], w[94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[83], w[87], w[91], w[95]}, i16x4),
            i32x4)));
        acc_0_2 =
            (i32x4)((u32x4)acc_0_2
            + ((uint32_t)(int32_t)x[offset + 4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[96], w[100], w[104], w[108]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[97], w[101], w[105], w[109]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[98], w[102], w[106], w[110]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[99], w[103], w[107], w[111]}, i16x4),
            i32x4)));
        acc_0_3 =
            (i32x4)((u32x4)acc_0_3
            + ((uint32_t)(int32_t)x[offset + 4]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[112], w[116], w[120], w[124]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 5]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[113], w[117], w[121], w[125]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 6]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[114], w[118], w[122], w[126]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 7]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[115], w[119], w[123], w[127]}, i16x4),
            i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[offset + 20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[64], w[68], w[72], w[76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[65], w[69], w[73], w[77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[66], w[70], w[74], w[78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[67], w[71], w[75], w[79]}, i16x4),
            i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[offset + 20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[80], w[84], w[88], w[92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[81], w[85], w[89], w[93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[82], w[86], w[90], w[94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[83], w[87], w[91], w[95]}, i16x4),
            i32x4)));
        acc_1_2 =
            (i32x4)((u32x4)acc_1_2
            + ((uint32_t)(int32_t)x[offset + 20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[96], w[100], w[104], w[108]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[97], w[101], w[105], w[109]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[98], w[102], w[106], w[110]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[99], w[103], w[107], w[111]}, i16x4),
            i32x4)));
        acc_1_3 =
            (i32x4)((u32x4)acc_1_3
            + ((uint32_t)(int32_t)x[offset + 20]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[112], w[116], w[120], w[124]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 21]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[113], w[117], w[121], w[125]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 22]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[114], w[118], w[122], w[126]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 23]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[115], w[119], w[123], w[127]}, i16x4),
            i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[offset + 36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[64], w[68], w[72], w[76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[65], w[69], w[73], w[77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[66], w[70], w[74], w[78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[67], w[71], w[75], w[79]}, i16x4),
            i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[offset + 36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[80], w[84], w[88], w[92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[81], w[85], w[89], w[93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[82], w[86], w[90], w[94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[83], w[87], w[91], w[95]}, i16x4),
            i32x4)));
        acc_2_2 =
            (i32x4)((u32x4)acc_2_2
            + ((uint32_t)(int32_t)x[offset + 36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[96], w[100], w[104], w[108]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[97], w[101], w[105], w[109]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[98], w[102], w[106], w[110]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[99], w[103], w[107], w[111]}, i16x4),
            i32x4)));
        acc_2_3 =
            (i32x4)((u32x4)acc_2_3
            + ((uint32_t)(int32_t)x[offset + 36]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[112], w[116], w[120], w[124]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 37]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[113], w[117], w[121], w[125]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 38]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[114], w[118], w[122], w[126]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 39]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[115], w[119], w[123], w[127]}, i16x4),
            i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[offset + 52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[64], w[68], w[72], w[76]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[65], w[69], w[73], w[77]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[66], w[70], w[74], w[78]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[67], w[71], w[75], w[79]}, i16x4),
            i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[offset + 52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[80], w[84], w[88], w[92]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[81], w[85], w[89], w[93]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[82], w[86], w[90], w[94]}, i16x4), i32x4)
            + (uint32_t)(int32_t)x[offset + 55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[83], w[87], w[91], w[95]}, i16x4),
            i32x4)));
        acc_3_2 =
            (i32x4)((u32x4)acc_3_2
            + ((uint32_t)(int32_t)x[offset + 52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[96], w[100], w[104], w[108]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[97], w[101], w[105], w[109]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[98], w[102], w[106], w[110]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[99], w[103], w[107], w[111]}, i16x4),
            i32x4)));
        acc_3_3 =
            (i32x4)((u32x4)acc_3_3
            + ((uint32_t)(int32_t)x[offset + 52]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[112], w[116], w[120], w[124]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 53]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[113], w[117], w[121], w[125]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 54]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[114], w[118], w[122], w[126]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 55]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[115], w[119], w[123], w[127]}, i16x4),
            i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[offset + 8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[128], w[132], w[136], w[140]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[129], w[133], w[137], w[141]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[130], w[134], w[138], w[142]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[131], w[135], w[139], w[143]}, i16x4),
            i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[offset + 8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[144], w[148], w[152], w[156]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[145], w[149], w[153], w[157]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[146], w[150], w[154], w[158]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[147], w[151], w[155], w[159]}, i16x4),
            i32x4)));
        acc_0_2 =
            (i32x4)((u32x4)acc_0_2
            + ((uint32_t)(int32_t)x[offset + 8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[160], w[164], w[168], w[172]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[161], w[165], w[169], w[173]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[162], w[166], w[170], w[174]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[163], w[167], w[171], w[175]}, i16x4),
            i32x4)));
        acc_0_3 =
            (i32x4)((u32x4)acc_0_3
            + ((uint32_t)(int32_t)x[offset + 8]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[176], w[180], w[184], w[188]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 9]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[177], w[181], w[185], w[189]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 10]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[178], w[182], w[186], w[190]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 11]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[179], w[183], w[187], w[191]}, i16x4),
            i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[offset + 24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[128], w[132], w[136], w[140]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[129], w[133], w[137], w[141]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[130], w[134], w[138], w[142]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[131], w[135], w[139], w[143]}, i16x4),
            i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[offset + 24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[144], w[148], w[152], w[156]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[145], w[149], w[153], w[157]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[146], w[150], w[154], w[158]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[147], w[151], w[155], w[159]}, i16x4),
            i32x4)));
        acc_1_2 =
            (i32x4)((u32x4)acc_1_2
            + ((uint32_t)(int32_t)x[offset + 24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[160], w[164], w[168], w[172]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[161], w[165], w[169], w[173]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[162], w[166], w[170], w[174]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[163], w[167], w[171], w[175]}, i16x4),
            i32x4)));
        acc_1_3 =
            (i32x4)((u32x4)acc_1_3
            + ((uint32_t)(int32_t)x[offset + 24]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[176], w[180], w[184], w[188]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 25]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[177], w[181], w[185], w[189]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 26]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[178], w[182], w[186], w[190]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 27]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[179], w[183], w[187], w[191]}, i16x4),
            i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[offset + 40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[128], w[132], w[136], w[140]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[129], w[133], w[137], w[141]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[130], w[134], w[138], w[142]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[131], w[135], w[139], w[143]}, i16x4),
            i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[offset + 40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[144], w[148], w[152], w[156]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[145], w[149], w[153], w[157]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[146], w[150], w[154], w[158]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[147], w[151], w[155], w[159]}, i16x4),
            i32x4)));
        acc_2_2 =
            (i32x4)((u32x4)acc_2_2
            + ((uint32_t)(int32_t)x[offset + 40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[160], w[164], w[168], w[172]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[161], w[165], w[169], w[173]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[162], w[166], w[170], w[174]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[163], w[167], w[171], w[175]}, i16x4),
            i32x4)));
        acc_2_3 =
            (i32x4)((u32x4)acc_2_3
            + ((uint32_t)(int32_t)x[offset + 40]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[176], w[180], w[184], w[188]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 41]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[177], w[181], w[185], w[189]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 42]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[178], w[182], w[186], w[190]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 43]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[179], w[183], w[187], w[191]}, i16x4),
            i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[offset + 56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[128], w[132], w[136], w[140]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[129], w[133], w[137], w[141]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[130], w[134], w[138], w[142]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[131], w[135], w[139], w[143]}, i16x4),
            i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[offset + 56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[144], w[148], w[152], w[156]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[145], w[149], w[153], w[157]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[146], w[150], w[154], w[158]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[147], w[151], w[155], w[159]}, i16x4),
            i32x4)));
        acc_3_2 =
            (i32x4)((u32x4)acc_3_2
            + ((uint32_t)(int32_t)x[offset + 56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[160], w[164], w[168], w[172]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[161], w[165], w[169], w[173]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[162], w[166], w[170], w[174]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[163], w[167], w[171], w[175]}, i16x4),
            i32x4)));
        acc_3_3 =
            (i32x4)((u32x4)acc_3_3
            + ((uint32_t)(int32_t)x[offset + 56]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[176], w[180], w[184], w[188]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 57]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[177], w[181], w[185], w[189]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 58]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[178], w[182], w[186], w[190]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 59]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[179], w[183], w[187], w[191]}, i16x4),
            i32x4)));
        acc_0_0 =
            (i32x4)((u32x4)acc_0_0
            + ((uint32_t)(int32_t)x[offset + 12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[192], w[196], w[200], w[204]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[193], w[197], w[201], w[205]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[194], w[198], w[202], w[206]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[195], w[199], w[203], w[207]}, i16x4),
            i32x4)));
        acc_0_1 =
            (i32x4)((u32x4)acc_0_1
            + ((uint32_t)(int32_t)x[offset + 12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[208], w[212], w[216], w[220]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[209], w[213], w[217], w[221]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[210], w[214], w[218], w[222]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[211], w[215], w[219], w[223]}, i16x4),
            i32x4)));
        acc_0_2 =
            (i32x4)((u32x4)acc_0_2
            + ((uint32_t)(int32_t)x[offset + 12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[224], w[228], w[232], w[236]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[225], w[229], w[233], w[237]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[226], w[230], w[234], w[238]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[227], w[231], w[235], w[239]}, i16x4),
            i32x4)));
        acc_0_3 =
            (i32x4)((u32x4)acc_0_3
            + ((uint32_t)(int32_t)x[offset + 12]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[240], w[244], w[248], w[252]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 13]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[241], w[245], w[249], w[253]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 14]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[242], w[246], w[250], w[254]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 15]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[243], w[247], w[251], w[255]}, i16x4),
            i32x4)));
        acc_1_0 =
            (i32x4)((u32x4)acc_1_0
            + ((uint32_t)(int32_t)x[offset + 28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[192], w[196], w[200], w[204]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[193], w[197], w[201], w[205]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[194], w[198], w[202], w[206]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[195], w[199], w[203], w[207]}, i16x4),
            i32x4)));
        acc_1_1 =
            (i32x4)((u32x4)acc_1_1
            + ((uint32_t)(int32_t)x[offset + 28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[208], w[212], w[216], w[220]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[209], w[213], w[217], w[221]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[210], w[214], w[218], w[222]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[211], w[215], w[219], w[223]}, i16x4),
            i32x4)));
        acc_1_2 =
            (i32x4)((u32x4)acc_1_2
            + ((uint32_t)(int32_t)x[offset + 28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[224], w[228], w[232], w[236]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[225], w[229], w[233], w[237]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[226], w[230], w[234], w[238]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[227], w[231], w[235], w[239]}, i16x4),
            i32x4)));
        acc_1_3 =
            (i32x4)((u32x4)acc_1_3
            + ((uint32_t)(int32_t)x[offset + 28]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[240], w[244], w[248], w[252]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 29]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[241], w[245], w[249], w[253]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 30]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[242], w[246], w[250], w[254]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 31]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[243], w[247], w[251], w[255]}, i16x4),
            i32x4)));
        acc_2_0 =
            (i32x4)((u32x4)acc_2_0
            + ((uint32_t)(int32_t)x[offset + 44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[192], w[196], w[200], w[204]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[193], w[197], w[201], w[205]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[194], w[198], w[202], w[206]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[195], w[199], w[203], w[207]}, i16x4),
            i32x4)));
        acc_2_1 =
            (i32x4)((u32x4)acc_2_1
            + ((uint32_t)(int32_t)x[offset + 44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[208], w[212], w[216], w[220]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[209], w[213], w[217], w[221]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[210], w[214], w[218], w[222]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[211], w[215], w[219], w[223]}, i16x4),
            i32x4)));
        acc_2_2 =
            (i32x4)((u32x4)acc_2_2
            + ((uint32_t)(int32_t)x[offset + 44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[224], w[228], w[232], w[236]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[225], w[229], w[233], w[237]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[226], w[230], w[234], w[238]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[227], w[231], w[235], w[239]}, i16x4),
            i32x4)));
        acc_2_3 =
            (i32x4)((u32x4)acc_2_3
            + ((uint32_t)(int32_t)x[offset + 44]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[240], w[244], w[248], w[252]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 45]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[241], w[245], w[249], w[253]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 46]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[242], w[246], w[250], w[254]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 47]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[243], w[247], w[251], w[255]}, i16x4),
            i32x4)));
        acc_3_0 =
            (i32x4)((u32x4)acc_3_0
            + ((uint32_t)(int32_t)x[offset + 60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[192], w[196], w[200], w[204]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[193], w[197], w[201], w[205]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[194], w[198], w[202], w[206]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[195], w[199], w[203], w[207]}, i16x4),
            i32x4)));
        acc_3_1 =
            (i32x4)((u32x4)acc_3_1
            + ((uint32_t)(int32_t)x[offset + 60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[208], w[212], w[216], w[220]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[209], w[213], w[217], w[221]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[210], w[214], w[218], w[222]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[211], w[215], w[219], w[223]}, i16x4),
            i32x4)));
        acc_3_2 =
            (i32x4)((u32x4)acc_3_2
            + ((uint32_t)(int32_t)x[offset + 60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[224], w[228], w[232], w[236]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[225], w[229], w[233], w[237]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[226], w[230], w[234], w[238]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[227], w[231], w[235], w[239]}, i16x4),
            i32x4)));
        acc_3_3 =
            (i32x4)((u32x4)acc_3_3
            + ((uint32_t)(int32_t)x[offset + 60]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[240], w[244], w[248], w[252]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 61]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[241], w[245], w[249], w[253]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 62]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[242], w[246], w[250], w[254]}, i16x4),
            i32x4)
            + (uint32_t)(int32_t)x[offset + 63]
            * (u32x4)__builtin_convertvector(__builtin_convertvector((i8x4){w[243], w[247], w[251], w[255]}, i16x4),
            i32x4)));
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
