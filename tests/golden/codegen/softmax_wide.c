#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
/* The bits of a as another type. */
static inline int32_t sample__reinterpret_f32_i32(float a)
{
    union { float from; int32_t to; } bits = {a};
    return bits.to;
}
/* The bits of a as another type. */
static inline float sample__reinterpret_i32_f32(int32_t a)
{
    union { int32_t from; float to; } bits = {a};
    return bits.to;
}
/* The larger one; a where either is NaN. */
static inline float sample__max_f32(float a, float b) { return b > a ? b : a; }
/* The smaller one; a where either is NaN. */
static inline float sample__min_f32(float a, float b) { return b < a ? b : a; }
#define ET_SEL_f32(m, a, b) ((m) ? (a) : (b))
#define ET_K_f32(c) (c)
#define ET_BITS_f32(x) sample__reinterpret_f32_i32(x)
#define ET_VAL_f32(x) sample__reinterpret_i32_f32(x)
#define ET_FTOI_f32(x) ((int32_t)(x))
#define ET_ITOF_f32(x) ((float)(x))
#define ET_SCALE_f32(p, t) \
    ET_VAL_f32((int32_t)((uint32_t)ET_BITS_f32(p) + ((uint32_t)ET_BITS_f32(t) << 23)))
#if defined(__clang__) && __clang_major__ >= 13
#define ET_IN_ORDER _Pragma("clang fp reassociate(off)")
#else
#define ET_IN_ORDER
#endif
/* Sums in order without barriers: clang by the pragma, GCC from 12 on unless it says otherwise; never on x87, nor on
   32-bit ARM, where NEON takes -funsafe-math-optimizations. */
#if defined(__arm__) || (__FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16)
#elif defined(__clang__) && __clang_major__ >= 13
#define ET_ORDERED 1
#elif !defined(__clang__) && __GNUC__ >= 12 && !defined(__ASSOCIATIVE_MATH__)
#define ET_ORDERED 1
#endif
#if defined(ET_ORDERED)
#define ET_KEEP_f32(x) ((void)0)
#elif defined(__SSE__)
#define ET_KEEP_f32(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define ET_KEEP_f32(x) __asm__("" : "+w"(x))
#elif defined(__arm__) && defined(__ARM_FP)
#define ET_KEEP_f32(x) __asm__("" : "+t"(x))
#elif defined(__riscv_flen)
#define ET_KEEP_f32(x) __asm__("" : "+f"(x))
#elif defined(__arm__) || defined(__riscv)
#define ET_KEEP_f32(x) __asm__("" : "+r"(x))
#else
#define ET_KEEP_f32(x) __asm__("" : "+m"(x))
#endif
/* e^x, at most 1.5 ULP from the exact value. x = n ln 2 + r with ln 2 in two parts (Cody and Waite), e^r by a
   polynomial of degree 6. */
static inline float sample__exp_f32(float x)
{
    ET_IN_ORDER
    float y;
    const float low = ET_K_f32(-104.0f), high = ET_K_f32(89.0f);
    float c = x;
    c = sample__max_f32(c, low);
    c = sample__min_f32(c, high);
    float t = c * 0x1.715476p+0f + 0x1.8001fcp+23f;
    ET_KEEP_f32(t);
    const float k = t - 0x1.8001fcp+23f;
    float r = c - k * 0x1.63p-1f;
    ET_KEEP_f32(r);
    r = r + k * 0x1.bd0106p-13f;
    float p = 0x1.6a2352p-10f * r + 0x1.123a6cp-7f;
    p = p * r + 0x1.5558f4p-5f;
    p = p * r + 0x1.555490p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    p = ET_SEL_f32(x < -104.0f, ET_K_f32(0.0f), p);
    const int32_t half = ET_BITS_f32(t) >> 1;
    p = p * ET_SCALE_f32(ET_K_f32(0.0f), ET_VAL_f32(half));
    ET_KEEP_f32(p);
    p = p * ET_SCALE_f32(ET_K_f32(0.0f), ET_VAL_f32(ET_BITS_f32(t) - half));
    y = p;
    return y;
}

void sample_softmax(const float *restrict x, float *restrict softmax);

void sample_softmax(const float *restrict x, float *restrict softmax)
{
    float top[3];
    float e[30] __attribute__((aligned(64)));
    for (int32_t i = 0; i < 3; i++) {
        top[i] = -0x1.fffffep+127f;
        for (int32_t k = 0; k < 10; k++) {
            top[i] = sample__max_f32(top[i], x[i * 10 + k]);
        }
    }
    for (int32_t i = 0; i < 3; i++) {
        for (int32_t c = 0; c < 10; c++) {
            const int32_t offset = i * 10 + c;
            e[offset] = sample__exp_f32(x[offset] - top[i]);
        }
    }
    for (int32_t i = 0; i < 3; i++) {
        top[i] = 0.0f;
        for (int32_t j = 0; j < 10; j++) {
            top[i] = top[i] + e[i * 10 + j];
        }
    }
    for (int32_t i = 0; i < 3; i++) {
        for (int32_t c = 0; c < 10; c++) {
            const int32_t offset_1 = i * 10 + c;
            softmax[offset_1] = e[offset_1] / top[i];
        }
    }
}
