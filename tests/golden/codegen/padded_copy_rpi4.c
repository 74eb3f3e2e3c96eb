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
    for (int32_t j = 0; j < 7; j++) {
        *(f32x4u *)&pad[j * 16] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 4] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 8] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 12] = (f32x4){0};
    }
    for (int32_t i = 1; i < 4; i++) {
        const int32_t pad_at = i * 112;
        *(f32x4u *)&pad[pad_at] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 4] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 8] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 12] = (f32x4){0};
        for (int32_t j = 1; j < 6; j++) {
            const int32_t offset = j * 16;
            *(f32x4u *)&pad[pad_at + offset] = *(const f32x4u *)&x[i * 80 + offset - 96];
            *(f32x4u *)&pad[pad_at + offset + 4] = *(const f32x4u *)&x[i * 80 + offset - 92];
            *(f32x4u *)&pad[pad_at + offset + 8] = *(const f32x4u *)&x[i * 80 + offset - 88];
            *(f32x4u *)&pad[pad_at + offset + 12] = *(const f32x4u *)&x[i * 80 + offset - 84];
        }
        *(f32x4u *)&pad[pad_at + 96] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 100] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 104] = (f32x4){0};
        *(f32x4u *)&pad[pad_at + 108] = (f32x4){0};
    }
    for (int32_t j = 0; j < 7; j++) {
        *(f32x4u *)&pad[j * 16 + 448] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 452] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 456] = (f32x4){0};
        *(f32x4u *)&pad[j * 16 + 460] = (f32x4){0};
    }
}
