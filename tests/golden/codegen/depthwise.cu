/* Functions that the kernels of check use. */
/* The larger one; a where either is NaN. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }

__global__ void __launch_bounds__(160)
check__k_conv2d_add_relu_25x5x64_2_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                                          const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t block_z = (int32_t)blockIdx.z;
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_z = (int32_t)threadIdx.z;
    __shared__ __align__(16) float input_shared[1568];
    float acc[5] = {};
    for (int32_t step = 0; step < 3; step++) {
        const int32_t input_at = step * 20 + thread_z * 4 + thread_x / 8;
        if (input_at < 49) {
            const int32_t input_at_1 = input_at / 7;
            const int32_t input_at_2 = input_at % 7;
            const int32_t value = block_z * 5 + input_at_1;
            *(float4 *)&input_shared[step * 640 + thread_z * 128 + thread_x * 4] =
                (1 <= value && value < 26 && 1 <= input_at_2 && input_at_2 < 6)
                ? *(const float4 *)&input[block_z * 1600 + input_at_1 * 320 + input_at_2 * 64 + block_x * 32
                + thread_x % 8 * 4 - 384] : float4{};
        }
    }
    __syncthreads();
    for (int32_t kh = 0; kh < 3; kh++) {
        for (int32_t kw = 0; kw < 3; kw++) {
            #pragma unroll
            for (int32_t ow = 0; ow < 5; ow++) {
                acc[ow] += input_shared[thread_z * 224 + kh * 224 + ow * 32 + kw * 32 + thread_x]
                    * weights[kh * 192 + kw * 64 + block_x * 32 + thread_x];
            }
        }
    }
    #pragma unroll
    for (int32_t ow = 0; ow < 5; ow++) {
        output[block_z * 1600 + thread_z * 320 + ow * 64 + block_x * 32 + thread_x] =
            check__max_f32(acc[ow] + bias[block_x * 32 + thread_x], 0.0f);
    }
}
