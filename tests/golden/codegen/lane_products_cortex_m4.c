#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
typedef int8_t sample__i8x4 __attribute__((vector_size(4)));
#define i8x4 sample__i8x4
typedef int8_t sample__i8x4u __attribute__((vector_size(4), aligned(1), may_alias));
#define i8x4u sample__i8x4u
/* *s0 += x[0] * w[0], and the same of s1, s2 and s3, for 3 taps: x_apart is a constant. Sums wrap. */
static inline __attribute__((always_inline)) void sample__lane_products_i16_3_i32(
        int32_t *s0, int32_t *s1, int32_t *s2, int32_t *s3, const int8_t *x, int32_t x_apart, const int16_t *w)
{
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && !defined(__ARM_RWPI) && defined(__OPTIMIZE__)
    int32_t x02, x13, w01, w23;
    __asm__ volatile("ldr %[x13], [%[x]]\n\t"
        "sxtb16 %[x02], %[x13]\n\t"
        "sxtb16 %[x13], %[x13], ror #8\n\t"
        "ldrd %[w01], %[w23], [%[w]]\n\t"
        "smlabb %[s0], %[x02], %[w01], %[s0]\n\t"
        "smlabt %[s1], %[x13], %[w01], %[s1]\n\t"
        "smlatb %[s2], %[x02], %[w23], %[s2]\n\t"
        "smlatt %[s3], %[x13], %[w23], %[s3]\n\t"
        "ldr %[x13], [%[x], #%c[x1]]\n\t"
        "sxtb16 %[x02], %[x13]\n\t"
        "sxtb16 %[x13], %[x13], ror #8\n\t"
        "ldrd %[w01], %[w23], [%[w], #8]\n\t"
        "smlabb %[s0], %[x02], %[w01], %[s0]\n\t"
        "smlabt %[s1], %[x13], %[w01], %[s1]\n\t"
        "smlatb %[s2], %[x02], %[w23], %[s2]\n\t"
        "smlatt %[s3], %[x13], %[w23], %[s3]\n\t"
        "ldr %[x13], [%[x], #%c[x2]]\n\t"
        "sxtb16 %[x02], %[x13]\n\t"
        "sxtb16 %[x13], %[x13], ror #8\n\t"
        "ldrd %[w01], %[w23], [%[w], #16]\n\t"
        "smlabb %[s0], %[x02], %[w01], %[s0]\n\t"
        "smlabt %[s1], %[x13], %[w01], %[s1]\n\t"
        "smlatb %[s2], %[x02], %[w23], %[s2]\n\t"
        "smlatt %[s3], %[x13], %[w23], %[s3]"
        : [s0] "+&r"(*s0), [s1] "+&r"(*s1), [s2] "+&r"(*s2), [s3] "+&r"(*s3), [x02] "=&r"(x02),
          [x13] "=&r"(x13), [w01] "=&r"(w01), [w23] "=&r"(w23)
        : [x] "r"(x), [w] "r"(w), [x1] "i"(x_apart), [x2] "i"(2 * x_apart)
        : "memory");
#else
    for (int32_t t = 0; t < 3; t++) {
        *s0 = (int32_t)((uint32_t)*s0 + (uint32_t)(x[t * x_apart] * w[4 * t]));
        *s1 = (int32_t)((uint32_t)*s1 + (uint32_t)(x[1 + t * x_apart] * w[1 + 4 * t]));
        *s2 = (int32_t)((uint32_t)*s2 + (uint32_t)(x[2 + t * x_apart] * w[2 + 4 * t]));
        *s3 = (int32_t)((uint32_t)*s3 + (uint32_t)(x[3 + t * x_apart] * w[3 + 4 * t]));
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

void sample_lane_products(const int8_t *restrict x, const int16_t *restrict w, const float *restrict scale,
                          const float *restrict bias, int8_t *restrict compute);

void sample_lane_products(const int8_t *restrict x, const int16_t *restrict w, const float *restrict scale,
                          const float *restrict bias, int8_t *restrict compute)
{
    int8_t operand[192] __attribute__((aligned(64)));
    int32_t acc_0 = 0, acc_1 = 0, acc_2 = 0, acc_3 = 0;
    for (int32_t pixel = 0; pixel < 5; pixel++) {
        const int32_t offset = pixel * 48;
        for (int32_t i_i = 0; i_i < 3; i_i++) {
            const int32_t value = pixel + i_i;
            const int32_t operand_at = i_i * 16;
            if ((1 <= value) && (value < 6)) {
                for (int32_t k_o = 0; k_o < 2; k_o++) {
                    *(i8x4u *)&operand[(operand_at + k_o) * 4] = ((int8_t)5 | (i8x4){0});
                }
                for (int32_t j = 1; j < 7; j++) {
                    for (int32_t k_o = 0; k_o < 2; k_o++) {
                        *(i8x4u *)&operand[(operand_at + j * 2 + k_o) * 4] =
                            *(const i8x4u *)&x[offset + i_i * 48 + j * 8 + k_o * 4 - 56];
                    }
                }
                for (int32_t k_o = 0; k_o < 2; k_o++) {
                    *(i8x4u *)&operand[(operand_at + k_o + 14) * 4] = ((int8_t)5 | (i8x4){0});
                }
            } else {
                for (int32_t j = 0; j < 8; j++) {
                    for (int32_t k_o = 0; k_o < 2; k_o++) {
                        *(i8x4u *)&operand[(operand_at + j * 2 + k_o) * 4] = ((int8_t)5 | (i8x4){0});
                    }
                }
            }
        }
        for (int32_t oc = 0; oc < 6; oc++) {
            for (int32_t kh_o = 0; kh_o < 2; kh_o++) {
                acc_0 = 0;
                acc_1 = 0;
                acc_2 = 0;
                acc_3 = 0;
                sample__lane_products_i16_3_i32(&acc_0, &acc_1, &acc_2, &acc_3, &operand[oc * 8 + kh_o * 4], 8, &w[kh_o * 36]);
                sample__lane_products_i16_3_i32(&acc_0, &acc_1, &acc_2, &acc_3, &operand[oc * 8 + kh_o * 4 + 64], 8,
                    &w[kh_o * 36 + 12]);
                sample__lane_products_i16_3_i32(&acc_0, &acc_1, &acc_2, &acc_3, &operand[oc * 8 + kh_o * 4 + 128], 8,
                    &w[kh_o * 36 + 24]);
                const int32_t offset_1 = kh_o * 4;
                compute[offset + oc * 8 + offset_1] =
                    sample__rounded_i8_f32((float)acc_0 * scale[offset_1] + bias[offset_1], -3);
                compute[offset + oc * 8 + offset_1 + 1] =
                    sample__rounded_i8_f32((float)acc_1 * scale[offset_1 + 1] + bias[offset_1 + 1], -3);
                compute[offset + oc * 8 + offset_1 + 2] =
                    sample__rounded_i8_f32((float)acc_2 * scale[offset_1 + 2] + bias[offset_1 + 2], -3);
                compute[offset + oc * 8 + offset_1 + 3] =
                    sample__rounded_i8_f32((float)acc_3 * scale[offset_1 + 3] + bias[offset_1 + 3], -3);
            }
        }
    }
}
