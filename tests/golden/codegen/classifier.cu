/* Functions that the kernels of check use. */
/* Sum over `width` adjacent lanes, a power of two, for each of them; all lanes of the warp call it. */
static __device__ __forceinline__ float check__warp_sum_f32(float value, int width)
{
    for (int step = width / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        value += other;
    }
    return value;
}

__global__ void __launch_bounds__(32)
check__k_matmul_add_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                           const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t thread_x = (int32_t)threadIdx.x;
    float acc = 0.0f;
    for (int32_t k_o = 0; k_o < 2; k_o++) {
        acc += input[k_o * 32 + thread_x] * weights[block_x * 64 + k_o * 32 + thread_x];
    }
    float acc_1 = check__warp_sum_f32(acc, 32);
    if (thread_x == 0) {
        output[block_x] = acc_1 + bias[block_x];
    }
}
