
__global__ void __launch_bounds__(192)
check__k_matmul_add_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                           const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    float acc;
    __shared__ __align__(16) float matmul_lanes[192];
    float acc_1;
    acc = 0.0f;
    const int32_t offset = thread_y * 12;
    for (int32_t k = 0; k < 4; k++) {
        acc += input[k * 16 + thread_y] * weights[k * 192 + offset + thread_x];
    }
    matmul_lanes[offset + thread_x] = acc;
    if (thread_y < 1) {
        acc_1 = 0.0f;
    }
    __syncthreads();
    for (int32_t k_fused = 0; k_fused < 16; k_fused++) {
        if (thread_y < 1) {
            acc_1 += matmul_lanes[k_fused * 12 + thread_x];
        }
    }
    if (thread_y < 1) {
        output[thread_x] = acc_1 + bias[thread_x];
    }
}
