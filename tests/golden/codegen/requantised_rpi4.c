#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
typedef float sample__f32x4 __attribute__((vector_size(16)));
#define f32x4 sample__f32x4
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
typedef int16_t sample__i16x4 __attribute__((vector_size(8)));
#define i16x4 sample__i16x4
typedef int64_t sample__i64x2 __attribute__((vector_size(16)));
#define i64x2 sample__i64x2
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) && !defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd_v4si)
#define ET_MAC_i32x4(c, a, b) ((i32x4)__builtin_ia32_vpdpwssd_v4si((c), (((a) & 0xffff) | (i32x4){0}), (b)))
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && defined(__clang__) && __has_builtin(__builtin_ia32_vpdpwssd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)__builtin_ia32_vpdpwssd128((c), (((a) & 0xffff) | (i32x4){0}), (b)))
#elif defined(__SSE2__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)__builtin_ia32_pmaddwd128((i16x8)(((a) & 0xffff) | (i32x4){0}), (i16x8)(b))))
#elif defined(__SSE2__) && defined(__clang__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)__builtin_ia32_pmaddwd128((i16x8)(((a) & 0xffff) | (i32x4){0}), (i16x8)(b))))
#else
#define ET_MAC_i32x4(c, a, b) ((i32x4)((u32x4)(c) + (u32x4)((a) | (i32x4){0}) * (u32x4)(b)))
#endif
typedef char sample__c8x16 __attribute__((vector_size(16))); /* what GCC's builtins want for bytes */
#define c8x16 sample__c8x16
static inline __attribute__((always_inline)) void sample__narrow_i8x4(const i32x4 *v, i8x4 *r) {
#if defined(__AVX512VL__) && !defined(__clang__) && __has_builtin(__builtin_ia32_pmovdb128_mask)
  *r = (i8x4)((i32x4)__builtin_ia32_pmovdb128_mask(*v, (c8x16){0}, 0xf))[0];
#else
  *r = __builtin_convertvector(__builtin_convertvector(*v, i16x4), i8x4);
#endif
}
/* The nearest integers, half to even: exact. Where no instruction does it, by way of int32_t. */
static inline __attribute__((always_inline)) void sample__nearbyint_f32x4(f32x4 *v) {
  const f32x4 x = *v;
#if defined(__clang__) && __has_builtin(__builtin_elementwise_roundeven) && (defined(__SSE4_1__) || defined(__aarch64__))
  *v = __builtin_elementwise_roundeven(x);
#elif defined(__SSE4_1__) && !defined(__clang__) && __has_builtin(__builtin_ia32_roundps)
  *v = __builtin_ia32_roundps(x, 8);
#elif defined(__aarch64__)
  __asm__("frintn %0.4s, %1.4s" : "=w"(*v) : "w"(x));
#else
  const i32x4 m = (i32x4)((i32x4)x & 0x7fffffff) < 0x4b000000;
  const f32x4 y = (f32x4)((i32x4)x & m);
  const i32x4 t = __builtin_convertvector(y, i32x4);
  const f32x4 d = y - __builtin_convertvector(t, f32x4);
  const i32x4 up = (d > 0.5f) | ((d == 0.5f) & -(t & 1)), down = (d < -0.5f) | ((d == -0.5f) & -(t & 1));
  const i32x4 r = (i32x4)__builtin_convertvector(t - up + down, f32x4) | ((i32x4)x & (-0x7fffffff - 1));
  *v = (f32x4)((r & m) | ((i32x4)x & ~m));
#endif
}
static inline __attribute__((always_inline)) void sample__vmax_f32x4(f32x4 *a, const f32x4 *b) {
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_maxps)
  *a = __builtin_ia32_maxps(*b, *a);
#else
  const i32x4 m = (i32x4)(*b > *a);
  *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}
static inline __attribute__((always_inline)) void sample__vmin_f32x4(f32x4 *a, const f32x4 *b) {
#if defined(__SSE__) && !defined(__clang__) && __has_builtin(__builtin_ia32_minps)
  *a = __builtin_ia32_minps(*b, *a);
#else
  const i32x4 m = (i32x4)(*b < *a);
  *a = (f32x4)(((i32x4)*b & m) | ((i32x4)*a & ~m));
#endif
}
#define ET_SEL_f32x4(m, a, b) ((f32x4)(((i32x4)(a) & (i32x4)(m)) | ((i32x4)(b) & ~(i32x4)(m))))
#define ET_K_f32x4(c) ((c) - (f32x4){0})
#define ET_BITS_f32x4(x) ((i32x4)(x))
#define ET_VAL_f32x4(x) ((f32x4)(x))
#define ET_FTOI_f32x4(x) __builtin_convertvector((x), i32x4)
#define ET_ITOF_f32x4(x) __builtin_convertvector((x), f32x4)
#define ET_SCALE_f32x4(p, t) ((f32x4)((i32x4)(p) + ((i32x4)(t) << 23)))
static inline __attribute__((always_inline)) void sample__whole_f32x4(const f32x4 *v, i32x4 *r) {
  const f32x4 x = *v;
  const f32x4 c = ET_SEL_f32x4(x == x, x, ET_K_f32x4(0.0f));
  *r = ET_FTOI_f32x4(c);
}
static inline __attribute__((always_inline)) void sample__widen_i8x4(const void *p, i32x4 *r) {
#if defined(__clang__)
  *r = (i32x4)__builtin_convertvector(*(const i8x4u *)p, i32x4);
#elif defined(__SSE4_1__) && __has_builtin(__builtin_ia32_pmovsxbd128)
  *r = (i32x4)__builtin_ia32_pmovsxbd128((c8x16)(i32x4){(int32_t)*(const i8x4u *)p, 0, 0, 0});
#elif defined(__aarch64__)
  __asm__("ldr %s0, [%1]\n\tsxtl %0.8h, %0.8b\n\tsxtl %0.4s, %0.4h" : "=w"(*r) : "r"(p), "m"(*(const i8x4u *)p));
#elif defined(__ARM_NEON)
  __asm__("vld1.32 {%e0[0]}, [%1]\n\tvmovl.s8 %q0, %e0\n\tvmovl.s16 %q0, %e0" : "=w"(*r) : "r"(p), "m"(*(const i8x4u *)p));
#else
  *r = (i32x4)__builtin_convertvector(*(const i8x4u *)p, i32x4);
#endif
}

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out);

void sample_requantised(const int8_t *restrict a, const int8_t *restrict b, int8_t *restrict out) {
  i32x4 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
  for (int32_t i = 0; i < 4; ++i) {
    for (int32_t j_0 = 0; j_0 < 2; ++j_0) {
      acc_0 = acc_1 = acc_2 = acc_3 = (i32x4){0};
      const int32_t offset = j_0 * 16;
      for (int32_t k = 0; k < 8; ++k) {
        i32x4 w;
        sample__widen_i8x4(&b[k * 32 + offset], &w);
        acc_0 = ET_MAC_i32x4(acc_0, (int32_t)a[i * 8 + k] - 3, w);
        i32x4 w_1;
        sample__widen_i8x4(&b[k * 32 + offset + 4], &w_1);
        acc_1 = ET_MAC_i32x4(acc_1, (int32_t)a[i * 8 + k] - 3, w_1);
        i32x4 w_2;
        sample__widen_i8x4(&b[k * 32 + offset + 8], &w_2);
        acc_2 = ET_MAC_i32x4(acc_2, (int32_t)a[i * 8 + k] - 3, w_2);
        i32x4 w_3;
        sample__widen_i8x4(&b[k * 32 + offset + 12], &w_3);
        acc_3 = ET_MAC_i32x4(acc_3, (int32_t)a[i * 8 + k] - 3, w_3);
      }
      f32x4 t = __builtin_convertvector(acc_0, f32x4) * 0x1.2fec56p-5f;
      sample__nearbyint_f32x4(&t);
      f32x4 t_1 = t;
      const f32x4 t_2 = (127.0f - (f32x4){0});
      sample__vmin_f32x4(&t_1, &t_2);
      f32x4 t_3 = t_1;
      const f32x4 t_4 = (-128.0f - (f32x4){0});
      sample__vmax_f32x4(&t_3, &t_4);
      const f32x4 t_5 = t_3;
      i32x4 t_6;
      sample__whole_f32x4(&t_5, &t_6);
      i8x4 t_7;
      sample__narrow_i8x4(&t_6, &t_7);
      *(i8x4u *)&out[i * 32 + offset] = t_7;
      f32x4 t_8 = __builtin_convertvector(acc_1, f32x4) * 0x1.2fec56p-5f;
      sample__nearbyint_f32x4(&t_8);
      f32x4 t_9 = t_8;
      const f32x4 t_10 = (127.0f - (f32x4){0});
      sample__vmin_f32x4(&t_9, &t_10);
      f32x4 t_11 = t_9;
      const f32x4 t_12 = (-128.0f - (f32x4){0});
      sample__vmax_f32x4(&t_11, &t_12);
      const f32x4 t_13 = t_11;
      i32x4 t_14;
      sample__whole_f32x4(&t_13, &t_14);
      i8x4 t_15;
      sample__narrow_i8x4(&t_14, &t_15);
      *(i8x4u *)&out[i * 32 + offset + 4] = t_15;
      f32x4 t_16 = __builtin_convertvector(acc_2, f32x4) * 0x1.2fec56p-5f;
      sample__nearbyint_f32x4(&t_16);
      f32x4 t_17 = t_16;
      const f32x4 t_18 = (127.0f - (f32x4){0});
      sample__vmin_f32x4(&t_17, &t_18);
      f32x4 t_19 = t_17;
      const f32x4 t_20 = (-128.0f - (f32x4){0});
      sample__vmax_f32x4(&t_19, &t_20);
      const f32x4 t_21 = t_19;
      i32x4 t_22;
      sample__whole_f32x4(&t_21, &t_22);
      i8x4 t_23;
      sample__narrow_i8x4(&t_22, &t_23);
      *(i8x4u *)&out[i * 32 + offset + 8] = t_23;
      f32x4 t_24 = __builtin_convertvector(acc_3, f32x4) * 0x1.2fec56p-5f;
      sample__nearbyint_f32x4(&t_24);
      f32x4 t_25 = t_24;
      const f32x4 t_26 = (127.0f - (f32x4){0});
      sample__vmin_f32x4(&t_25, &t_26);
      f32x4 t_27 = t_25;
      const f32x4 t_28 = (-128.0f - (f32x4){0});
      sample__vmax_f32x4(&t_27, &t_28);
      const f32x4 t_29 = t_27;
      i32x4 t_30;
      sample__whole_f32x4(&t_29, &t_30);
      i8x4 t_31;
      sample__narrow_i8x4(&t_30, &t_31);
      *(i8x4u *)&out[i * 32 + offset + 12] = t_31;
    }
  }
}
