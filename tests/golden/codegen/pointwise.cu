/* Functions that the kernels of check use. */
/* The larger one; a where either is NaN. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }

__global__ void __launch_bounds__(200)
check__k_conv2d_add_relu_25x5x64_3_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                                          const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t block_z = (int32_t)blockIdx.z;
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    const int32_t thread_z = (int32_t)threadIdx.z;
    float acc[4] = {};
    __shared__ __align__(16) float input_shared[1600];
    __shared__ __align__(16) float weights_shared[2048];
    for (int32_t step = 0; step < 2; step++) {
        *(float4 *)&input_shared[step * 800 + thread_z * 160 + thread_y * 32 + thread_x * 4] =
            *(const float4 *)&input[block_z * 1600 + step * 800 + thread_z * 160 + thread_y * 32 + thread_x * 4];
    }
    for (int32_t step = 0; step < 3; step++) {
        if (step * 25 + thread_z * 5 + thread_y < 64) {
            *(float4 *)&weights_shared[step * 800 + thread_z * 160 + thread_y * 32 + thread_x * 4] =
                *(const float4 *)&weights[step * 1600 + thread_z * 320 + thread_y * 64 + block_x * 32 + thread_x * 4];
        }
    }
    __syncthreads();
    for (int32_t ic = 0; ic < 64; ic++) {
        #pragma unroll
        for (int32_t oc_i = 0; oc_i < 4; oc_i++) {
            acc[oc_i] += input_shared[thread_z * 320 + thread_y * 64 + ic]
                * weights_shared[ic * 32 + thread_x * 4 + oc_i];
        }
    }
    __align__(16) float bias_values[4];
    *(float4 *)bias_values = *(const float4 *)&bias[block_x * 32 + thread_x * 4];
    __align__(16) float result[4];
    #pragma unroll
    for (int32_t oc_i = 0; oc_i < 4; oc_i++) {
        result[oc_i] = check__max_f32(acc[oc_i] + bias_values[oc_i], 0.0f);
    }
    *(float4 *)&output[block_z * 1600 + thread_z * 320 + thread_y * 64 + block_x * 32 + thread_x * 4] =
        *(float4 *)result;
}
