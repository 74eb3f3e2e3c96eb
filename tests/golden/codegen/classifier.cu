
__global__ void __launch_bounds__(192)
check__k_matmul_add_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                           const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    float acc = 0;
    __shared__ float partial[192];
    acc = 0.0f;
    for (int32_t k = 0; k < 4; k++) {
        acc += input[k * 16 + thread_y] * weights[k * 192 + thread_y * 12 + thread_x];
    }
    const int32_t partial_at = thread_x * 16;
    __syncthreads();
    const int32_t partial_at_1 = partial_at + thread_y;
    partial[partial_at_1] = acc;
    __syncthreads();
    if (thread_y < 8) {
        partial[partial_at_1] += partial[partial_at_1 + 8];
    }
    __syncthreads();
    if (thread_y < 4) {
        partial[partial_at_1] += partial[partial_at_1 + 4];
    }
    __syncthreads();
    if (thread_y < 2) {
        partial[partial_at_1] += partial[partial_at_1 + 2];
    }
    __syncthreads();
    if (thread_y < 1) {
        partial[partial_at_1] += partial[partial_at_1 + 1];
    }
    __syncthreads();
    if (thread_y == 0) {
        output[thread_x] = partial[partial_at] + bias[thread_x];
    }
}
