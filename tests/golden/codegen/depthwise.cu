/* Functions that the kernels of check use. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }

__global__ void __launch_bounds__(160)
check__k_conv2d_add_relu_25x5x64_2_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                                          const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t thread_x = (int32_t)threadIdx.x;
    float acc = 0;
    acc = 0.0f;
    const int32_t offset = block_x / 2;
    const int32_t offset_1 = offset * 320;
    const int32_t offset_2 = (block_x * 160 + thread_x) % 64;
    const int32_t offset_3 = (block_x % 2 * 5 + thread_x / 32) / 2;
    const int32_t offset_4 = offset_3 * 64;
    for (int32_t kh = 0; kh < 3; kh++) {
        for (int32_t kw = 0; kw < 3; kw++) {
            const int32_t value = offset + kh;
            const int32_t value_1 = offset_3 + kw;
            acc += (((((1 <= value) && (value < 26)) && (1 <= value_1)) && (value_1 < 6))
                ? input[offset_1 + kh * 320 + offset_4 + kw * 64 + offset_2 - 384] : 0.0f)
                * weights[offset_2 * 9 + kh * 3 + kw];
        }
    }
    output[offset_1 + offset_4 + offset_2] = check__max_f32(acc + bias[offset_2], 0.0f);
}
