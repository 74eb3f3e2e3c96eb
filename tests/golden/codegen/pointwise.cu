/* Functions that the kernels of check use. */
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
    float acc[4];
    __shared__ __align__(16) float pad_temp[1600];
    __shared__ __align__(16) float weights_1[2048];
    #pragma unroll
    for (int32_t oc_i = 0; oc_i < 4; oc_i++) {
        acc[oc_i] = 0.0f;
    }
    const int32_t offset = block_z * 1600;
    const int32_t offset_1 = thread_z * 40;
    const int32_t offset_2 = thread_y * 8;
    for (int32_t i_j_k_o = 0; i_j_k_o < 8; i_j_k_o++) {
        const int32_t offset_3 = i_j_k_o * 200;
        pad_temp[offset_3 + offset_1 + offset_2 + thread_x] = input[offset + offset_3 + offset_1 + offset_2 + thread_x];
    }
    const int32_t offset_4 = block_x * 32;
    for (int32_t i_j_o = 0; i_j_o < 11; i_j_o++) {
        if (i_j_o * 25 + thread_z * 5 + thread_y < 256) {
            const int32_t weights_at = i_j_o * 200 + offset_1 + offset_2 + thread_x;
            weights_1[weights_at] = weights[weights_at / 32 * 64 + offset_4 + weights_at % 32];
        }
    }
    __syncthreads();
    const int32_t offset_5 = thread_z * 320;
    const int32_t offset_6 = thread_y * 64;
    const int32_t offset_7 = thread_x * 4;
    for (int32_t ic = 0; ic < 64; ic++) {
        #pragma unroll
        for (int32_t oc_i = 0; oc_i < 4; oc_i++) {
            acc[oc_i] += pad_temp[offset_5 + offset_6 + ic] * weights_1[ic * 32 + offset_7 + oc_i];
        }
    }
    #pragma unroll
    for (int32_t oc_i = 0; oc_i < 4; oc_i++) {
        output[offset + offset_5 + offset_6 + offset_4 + offset_7 + oc_i] =
            check__max_f32(acc[oc_i] + bias[offset_4 + offset_7 + oc_i], 0.0f);
    }
}
