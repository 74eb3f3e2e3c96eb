
__global__ void __launch_bounds__(192)
check__k_matmul_add_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                           const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    __shared__ __align__(16) float matmul_lanes[192];
    float acc = 0.0f;
    for (int32_t k = 0; k < 4; k++) {
        acc += input[k * 16 + thread_y] * weights[k * 192 + thread_y * 12 + thread_x];
    }
    matmul_lanes[thread_y * 12 + thread_x] = acc;
    __syncthreads();
    if (thread_y == 0) {
        float acc_1 = 0.0f;
        for (int32_t part = 0; part < 16; part++) {
            acc_1 += matmul_lanes[part * 12 + thread_x];
        }
        output[thread_x] = acc_1 + bias[thread_x];
    }
}
