#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
typedef float sample__f32x4 __attribute__((vector_size(16)));
#define f32x4 sample__f32x4
typedef float sample__f32x4u __attribute__((vector_size(16), aligned(4), may_alias));
#define f32x4u sample__f32x4u

void sample_padded_copy(const float *restrict x, float *restrict pad);

void sample_padded_copy(const float *restrict x, float *restrict pad)
{
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t j = 0; j < 7; j++) {
            const int32_t offset = j * 16;
            *(f32x4u *)&pad[i * 112 + offset] = ((((1 <= i) && (i <= 3)) && (1 <= j)) && (j <= 5))
                ? (f32x4)*(const f32x4u *)&x[i * 80 + offset - 96] : (f32x4){0};
            *(f32x4u *)&pad[i * 112 + offset + 4] = ((((1 <= i) && (i <= 3)) && (1 <= j)) && (j <= 5))
                ? (f32x4)*(const f32x4u *)&x[i * 80 + offset - 92] : (f32x4){0};
            *(f32x4u *)&pad[i * 112 + offset + 8] = ((((1 <= i) && (i <= 3)) && (1 <= j)) && (j <= 5))
                ? (f32x4)*(const f32x4u *)&x[i * 80 + offset - 88] : (f32x4){0};
            *(f32x4u *)&pad[i * 112 + offset + 12] = ((((1 <= i) && (i <= 3)) && (1 <= j)) && (j <= 5))
                ? (f32x4)*(const f32x4u *)&x[i * 80 + offset - 84] : (f32x4){0};
        }
    }
}
