#include <stddef.h>
#include <stdint.h>

void sample_gather(const float *restrict table, const int64_t *restrict index_v, float *restrict taken);

void sample_gather(const float *restrict table, const int64_t *restrict index_v, float *restrict taken)
{
    for (int32_t i = 0; i < 6; i++) {
        for (int32_t lane = 0; lane < 16; ++lane) {
            taken[i * 16 + lane] = table[index_v[i] + (int64_t)lane * INT64_C(11)];
        }
    }
}
