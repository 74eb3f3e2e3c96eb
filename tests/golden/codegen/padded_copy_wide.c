#include <stddef.h>
#include <stdint.h>

/* Types and functions that the kernels of sample use. Names without its prefix end with this file. */
typedef float sample__f32x16 __attribute__((vector_size(64)));
#define f32x16 sample__f32x16
typedef float sample__f32x16u __attribute__((vector_size(64), aligned(4), may_alias));
#define f32x16u sample__f32x16u

void sample_padded_copy(const float *restrict x, float *restrict pad);

void sample_padded_copy(const float *restrict x, float *restrict pad)
{
    for (int32_t j = 0; j < 7; j++) {
        *(f32x16u *)&pad[j * 16] = (f32x16){0};
    }
    for (int32_t i = 1; i < 4; i++) {
        const int32_t pad_at = i * 112;
        *(f32x16u *)&pad[pad_at] = (f32x16){0};
        for (int32_t j = 1; j < 6; j++) {
            const int32_t offset = j * 16;
            *(f32x16u *)&pad[pad_at + offset] = *(const f32x16u *)&x[i * 80 + offset - 96];
        }
        *(f32x16u *)&pad[pad_at + 96] = (f32x16){0};
    }
    for (int32_t j = 0; j < 7; j++) {
        *(f32x16u *)&pad[j * 16 + 448] = (f32x16){0};
    }
}
