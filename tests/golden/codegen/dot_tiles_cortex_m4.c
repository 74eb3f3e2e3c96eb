#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
typedef int16_t sample__i16x2 __attribute__((vector_size(4)));
#define i16x2 sample__i16x2
typedef int16_t sample__i16x2u __attribute__((vector_size(4), aligned(2), may_alias));
#define i16x2u sample__i16x2u
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
/* *s00 += x[0] * w[0] + x[2] * w[1] + x[1] * w[2] + x[3] * w[3]; it wraps; x and w lie at multiples of 4 bytes. */
static inline __attribute__((always_inline, unused)) void sample__dot_aligned_i16_i8_4_i32(int32_t *s00, const int16_t *x, const int8_t *w)
{
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_RWPI)
    int32_t even0, odd0, first, second;
    __asm__ volatile("ldr %[odd0], [%[w]]\n\t"
        "sxtb16 %[even0], %[odd0]\n\t"
        "sxtb16 %[odd0], %[odd0], ror #8\n\t"
        "ldrd %[first], %[second], [%[x]]\n\t"
        "smlad %[s00], %[first], %[even0], %[s00]\n\t"
        "smlad %[s00], %[second], %[odd0], %[s00]"
        : [s00] "+&r"(*s00), [even0] "=&r"(even0), [odd0] "=&r"(odd0), [first] "=&r"(first),
          [second] "=&r"(second)
        : [x] "r"(x), [w] "r"(w)
        : "memory");
#else
    *s00 = (int32_t)((uint32_t)*s00 + (uint32_t)(x[0] * w[0]) + (uint32_t)(x[2] * w[1])
        + (uint32_t)(x[1] * w[2]) + (uint32_t)(x[3] * w[3]));
#endif
}
/* sample__dot_aligned_i16_i8_4_i32 of 16 numbers, of each of 4 rows of x and 1 of w. x_apart is a constant. */
static inline __attribute__((always_inline)) void sample__dot_aligned_i16_i8_4_4x4x1_i32(
        int32_t *s00, int32_t *s10, int32_t *s20, int32_t *s30, const int16_t *x, int32_t x_apart, const int8_t *w)
{
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_RWPI) && defined(__OPTIMIZE__)
    int32_t even0, odd0, first, second;
    __asm__ volatile("ldr %[odd0], [%[w]]\n\t"
        "sxtb16 %[even0], %[odd0]\n\t"
        "sxtb16 %[odd0], %[odd0], ror #8\n\t"
        "ldrd %[first], %[second], [%[x]]\n\t"
        "smlad %[s00], %[first], %[even0], %[s00]\n\t"
        "smlad %[s00], %[second], %[odd0], %[s00]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x1]]\n\t"
        "smlad %[s10], %[first], %[even0], %[s10]\n\t"
        "smlad %[s10], %[second], %[odd0], %[s10]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x2]]\n\t"
        "smlad %[s20], %[first], %[even0], %[s20]\n\t"
        "smlad %[s20], %[second], %[odd0], %[s20]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x3]]\n\t"
        "smlad %[s30], %[first], %[even0], %[s30]\n\t"
        "smlad %[s30], %[second], %[odd0], %[s30]\n\t"
        "ldr %[odd0], [%[w], #4]\n\t"
        "sxtb16 %[even0], %[odd0]\n\t"
        "sxtb16 %[odd0], %[odd0], ror #8\n\t"
        "ldrd %[first], %[second], [%[x], #8]\n\t"
        "smlad %[s00], %[first], %[even0], %[s00]\n\t"
        "smlad %[s00], %[second], %[odd0], %[s00]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x1] + 8]\n\t"
        "smlad %[s10], %[first], %[even0], %[s10]\n\t"
        "smlad %[s10], %[second], %[odd0], %[s10]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x2] + 8]\n\t"
        "smlad %[s20], %[first], %[even0], %[s20]\n\t"
        "smlad %[s20], %[second], %[odd0], %[s20]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x3] + 8]\n\t"
        "smlad %[s30], %[first], %[even0], %[s30]\n\t"
        "smlad %[s30], %[second], %[odd0], %[s30]\n\t"
        "ldr %[odd0], [%[w], #8]\n\t"
        "sxtb16 %[even0], %[odd0]\n\t"
        "sxtb16 %[odd0], %[odd0], ror #8\n\t"
        "ldrd %[first], %[second], [%[x], #16]\n\t"
        "smlad %[s00], %[first], %[even0], %[s00]\n\t"
        "smlad %[s00], %[second], %[odd0], %[s00]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x1] + 16]\n\t"
        "smlad %[s10], %[first], %[even0], %[s10]\n\t"
        "smlad %[s10], %[second], %[odd0], %[s10]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x2] + 16]\n\t"
        "smlad %[s20], %[first], %[even0], %[s20]\n\t"
        "smlad %[s20], %[second], %[odd0], %[s20]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x3] + 16]\n\t"
        "smlad %[s30], %[first], %[even0], %[s30]\n\t"
        "smlad %[s30], %[second], %[odd0], %[s30]\n\t"
        "ldr %[odd0], [%[w], #12]\n\t"
        "sxtb16 %[even0], %[odd0]\n\t"
        "sxtb16 %[odd0], %[odd0], ror #8\n\t"
        "ldrd %[first], %[second], [%[x], #24]\n\t"
        "smlad %[s00], %[first], %[even0], %[s00]\n\t"
        "smlad %[s00], %[second], %[odd0], %[s00]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x1] + 24]\n\t"
        "smlad %[s10], %[first], %[even0], %[s10]\n\t"
        "smlad %[s10], %[second], %[odd0], %[s10]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x2] + 24]\n\t"
        "smlad %[s20], %[first], %[even0], %[s20]\n\t"
        "smlad %[s20], %[second], %[odd0], %[s20]\n\t"
        "ldrd %[first], %[second], [%[x], #%c[x3] + 24]\n\t"
        "smlad %[s30], %[first], %[even0], %[s30]\n\t"
        "smlad %[s30], %[second], %[odd0], %[s30]"
        : [s00] "+&r"(*s00), [s10] "+&r"(*s10), [s20] "+&r"(*s20), [s30] "+&r"(*s30), [even0] "=&r"(even0),
          [odd0] "=&r"(odd0), [first] "=&r"(first), [second] "=&r"(second)
        : [x] "r"(x), [w] "r"(w), [x1] "i"(2 * x_apart), [x2] "i"(4 * x_apart), [x3] "i"(6 * x_apart)
        : "memory");
#else
    for (int32_t k = 0; k < 16; k += 4) {
        sample__dot_aligned_i16_i8_4_i32(s00, x + k, w + k);
        sample__dot_aligned_i16_i8_4_i32(s10, x + x_apart + k, w + k);
        sample__dot_aligned_i16_i8_4_i32(s20, x + 2 * x_apart + k, w + k);
        sample__dot_aligned_i16_i8_4_i32(s30, x + 3 * x_apart + k, w + k);
    }
#endif
}
/* x rounded, half to even, plus zero, within the limits of the type. */
static inline int8_t sample__rounded_i8_f32(float x, int32_t zero)
{
#if defined(__ARM_FP) && (__ARM_FP & 4) && defined(__ARM_FEATURE_DSP)
    float whole;
    int32_t y;
    __asm__("vcvtr.s32.f32 %1, %2\n\tvmov %0, %1\n\tqadd %0, %0, %3\n\tssat %0, #8, %0"
        : "=&r"(y), "=&t"(whole) : "t"(x), "r"(zero));
    return (int8_t)y;
#else
    const float y = __builtin_nearbyintf(x) + (float)zero;
    return y > (float)INT8_MIN ? (y < (float)INT8_MAX ? (int8_t)y : INT8_MAX) : INT8_MIN;
#endif
}
/* to[0] = from[0], .., to[3] = from[3]. */
static inline __attribute__((always_inline)) void sample__widen_word_i16(int16_t *to, const int8_t *from)
{
#if defined(__ARM_FEATURE_DSP)
    const int32_t bytes = (int32_t)*(const i8x4u *)from;
    int32_t even, odd;
    __asm__("sxtb16 %0, %1" : "=r"(even) : "r"(bytes));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(bytes));
    int32_t first, second;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(first) : "r"(even), "r"(odd));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(second) : "r"(odd), "r"(even));
    *(i16x2u *)to = (i16x2)first;
    *(i16x2u *)(to + 2) = (i16x2)second;
#else
    for (int32_t n = 0; n < 4; n++)
        to[n] = from[n];
#endif
}

void sample_dot_tiles(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                      const float *restrict bias, int8_t *restrict compute);

void sample_dot_tiles(const int8_t *restrict x, const int8_t *restrict w, const float *restrict scale,
                      const float *restrict bias, int8_t *restrict compute)
{
    int16_t operand[64] __attribute__((aligned(64)));
    int32_t acc_0 = 0, acc_1 = 0, acc_2 = 0, acc_3 = 0;
    for (int32_t pixel = 0; pixel < 2; pixel++) {
        for (int32_t j = 0; j < 4; j++) {
            for (int32_t k_o = 0; k_o < 4; k_o++) {
                const int32_t offset = j * 16;
                const int32_t offset_1 = k_o * 4;
                sample__widen_word_i16(&operand[offset + offset_1], &x[pixel * 64 + offset + offset_1]);
            }
        }
        for (int32_t kh = 0; kh < 8; kh++) {
            acc_0 = 0;
            acc_1 = 0;
            acc_2 = 0;
            acc_3 = 0;
            const int32_t w_at = kh * 16;
            sample__dot_aligned_i16_i8_4_4x4x1_i32(&acc_0, &acc_1, &acc_2, &acc_3, operand, 16, &w[w_at]);
            const int32_t compute_at = pixel * 32 + kh;
            compute[compute_at] = sample__rounded_i8_f32((float)acc_0 * scale[kh] + bias[kh], -3);
            compute[compute_at + 8] = sample__rounded_i8_f32((float)acc_1 * scale[kh] + bias[kh], -3);
            compute[compute_at + 16] = sample__rounded_i8_f32((float)acc_2 * scale[kh] + bias[kh], -3);
            compute[compute_at + 24] = sample__rounded_i8_f32((float)acc_3 * scale[kh] + bias[kh], -3);
        }
    }
}
