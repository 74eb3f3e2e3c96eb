#ifndef CUDA_ON_CPU
#include <cuda_pipeline_primitives.h>
#endif
/* Functions that the kernels of check use. */
/* Closes the group of the copies that this thread has begun since the last one. */
static __device__ __forceinline__ void check__commit_copies()
{
    __pipeline_commit();
}
/* Begins to copy 16 aligned bytes into shared memory; zeroes, without a read, unless `holds`. */
static __device__ __forceinline__ void check__copy_async_16(void *to, const void *from, bool holds = true)
{
    __pipeline_memcpy_async(to, from, 16, holds ? 0 : 16);
}
/* Begins to copy 4 aligned bytes into shared memory; zeroes, without a read, unless `holds`. */
static __device__ __forceinline__ void check__copy_async_4(void *to, const void *from, bool holds = true)
{
    __pipeline_memcpy_async(to, from, 4, holds ? 0 : 4);
}
/* The larger one; a where either is NaN. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }
/* Waits for the groups of this thread, but the last `later`; other threads see them after a barrier. */
static __device__ __forceinline__ void check__wait_for_copies(int later)
{
    __pipeline_wait_prior((unsigned)later);
}

__global__ void __launch_bounds__(40)
check__k_conv2d_add_relu_25x5x64_kernel(const float *__restrict__ input, const float *__restrict__ weights,
                                        const float *__restrict__ bias, float *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t block_y = (int32_t)blockIdx.y;
    const int32_t block_z = (int32_t)blockIdx.z;
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_z = (int32_t)threadIdx.z;
    __shared__ __align__(16) float input_shared[80];
    __shared__ __align__(16) float weights_shared[64];
    float acc = 0.0f;
    const int32_t value = thread_z * 2 + thread_x / 4;
    const int32_t value_1 = block_y * 2 + thread_x % 4;
    const int32_t weights_at = thread_x / 2 * 64;
    const int32_t weights_at_1 = thread_x % 2 * 4;
    const int32_t value_2 = block_z * 10 + thread_z * 2 + thread_x / 4;
    const int32_t input_at = block_z * 100 + thread_z * 20 + thread_x / 4 * 10;
    if (value < 9) {
        check__copy_async_4(&input_shared[thread_z * 8 + thread_x], &input[input_at + block_y * 2 + thread_x % 4 - 41],
            4 <= value_2 && 1 <= value_1 && value_1 < 11);
    }
    if (thread_z == 0) {
        check__copy_async_16(&weights_shared[thread_z * 32 + thread_x * 4],
            &weights[thread_z * 256 + block_x * 8 + weights_at + weights_at_1]);
    }
    check__commit_copies();
    for (int32_t kh = 0; kh < 10; kh++) {
        check__wait_for_copies(0);
        __syncthreads();
        if (kh < 9) {
            const int32_t offset = (kh + 1) % 2;
            if (value < 9) {
                const int32_t value_3 = value_2 + kh;
                check__copy_async_4(&input_shared[offset * 40 + thread_z * 8 + thread_x],
                    &input[input_at + kh * 10 + block_y * 2 + thread_x % 4 - 31],
                    3 <= value_3 && value_3 < 52 && 1 <= value_1 && value_1 < 11);
            }
            if (thread_z == 0) {
                check__copy_async_16(&weights_shared[thread_z * 32 + offset * 32 + thread_x * 4],
                    &weights[kh * 256 + thread_z * 256 + block_x * 8 + weights_at + weights_at_1 + 256]);
            }
        }
        check__commit_copies();
        for (int32_t kw = 0; kw < 4; kw++) {
            acc += input_shared[kh % 2 * 40 + thread_z * 8 + kw] * weights_shared[kh % 2 * 32 + kw * 8 + thread_x];
        }
    }
    output[block_z * 1600 + thread_z * 320 + block_y * 64 + block_x * 8 + thread_x] =
        check__max_f32(acc + bias[block_x * 8 + thread_x], 0.0f);
}
