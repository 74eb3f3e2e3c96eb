/* Functions that the kernels of check use. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }

__global__ void __launch_bounds__(128)
check__k_conv2d_add_relu_25x5x64_3_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                                          const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    float acc[16];
    __shared__ float pad_temp[576];
    __shared__ float weights_1[1152];
    #pragma unroll
    for (int32_t i_i = 0; i_i < 4; i_i++) {
        #pragma unroll
        for (int32_t j_m = 0; j_m < 2; j_m++) {
            #pragma unroll
            for (int32_t j_i = 0; j_i < 2; j_i++) {
                acc[i_i * 4 + j_m * 2 + j_i] = 0.0f;
            }
        }
    }
    const int32_t value = block_x * 32;
    const int32_t offset = block_x * 2048;
    const int32_t offset_1 = thread_x * 4;
    for (int32_t r_o = 0; r_o < 4; r_o++) {
        __syncthreads();
        const int32_t offset_2 = r_o * 16;
        for (int32_t i_j_m2 = 0; i_j_m2 < 2; i_j_m2++) {
            for (int32_t i_j_i = 0; i_j_i < 2; i_j_i++) {
                const int32_t offset_3 = thread_x / 4;
                const int32_t offset_4 = (offset_1 + i_j_m2 * 2 + i_j_i) % 16;
                pad_temp[thread_y * 36 + offset_3 * 18 + offset_4] = (value + thread_y * 2 + offset_3 < 125)
                    ? input[offset + thread_y * 128 + offset_3 * 64 + offset_2 + offset_4] : 0.0f;
            }
        }
        const int32_t weights_at = thread_y * 72;
        for (int32_t i_j_m2 = 0; i_j_m2 < 4; i_j_m2++) {
            for (int32_t i_j_i = 0; i_j_i < 2; i_j_i++) {
                const int32_t offset_5 = thread_x / 2;
                const int32_t offset_6 = (thread_x * 8 + i_j_m2 * 2 + i_j_i) % 16;
                weights_1[weights_at + offset_5 * 18 + offset_6] =
                    weights[thread_y * 256 + offset_5 * 64 + offset_2 + offset_6];
            }
        }
        __syncthreads();
        for (int32_t r_i = 0; r_i < 16; r_i++) {
            #pragma unroll
            for (int32_t i_i = 0; i_i < 4; i_i++) {
                #pragma unroll
                for (int32_t j_m = 0; j_m < 2; j_m++) {
                    #pragma unroll
                    for (int32_t j_i = 0; j_i < 2; j_i++) {
                        const int32_t conv2d_at = i_i * 4 + j_m * 2 + j_i;
                        acc[conv2d_at] += pad_temp[thread_x * 72 + i_i * 18 + r_i]
                            * weights_1[weights_at + j_m * 36 + j_i * 18 + r_i];
                    }
                }
            }
        }
    }
    #pragma unroll
    for (int32_t i_i = 0; i_i < 4; i_i++) {
        #pragma unroll
        for (int32_t j_m = 0; j_m < 2; j_m++) {
            #pragma unroll
            for (int32_t j_i = 0; j_i < 2; j_i++) {
                if (value + offset_1 + i_i < 125) {
                    const int32_t offset_7 = j_m * 2;
                    const int32_t offset_8 = thread_y * 4;
                    output[offset + thread_x * 256 + i_i * 64 + offset_8 + offset_7 + j_i] =
                        check__max_f32(acc[i_i * 4 + offset_7 + j_i] + bias[offset_8 + offset_7 + j_i], 0.0f);
                }
            }
        }
    }
}
