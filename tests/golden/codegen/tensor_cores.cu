#ifndef CUDA_ON_CPU
#include <cuda_fp16.h>
#include <mma.h>
#endif
/* Functions that the kernels of check use. */
/* The larger one; a where either is NaN. */
static __device__ __forceinline__ float check__max_f32(float a, float b) { return b > a ? b : a; }
/* 16 x 16 sums in the registers of a warp. All lanes call what works on tiles, with equal arguments. */
using check__tile_sums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
static __device__ __forceinline__ void check__tile_clear(check__tile_sums &sums)
{
    nvcuda::wmma::fill_fragment(sums, 0.0f);
}
static __device__ __forceinline__ void check__tile_store(float *to, const check__tile_sums &sums, int32_t pitch)
{
    nvcuda::wmma::store_matrix_sync(to, sums, (unsigned)pitch, nvcuda::wmma::mem_row_major);
}
/* 16 x 16 elements as left and right operands; rows in memory are `pitch` elements apart. */
using check__tile_left_f16 =
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major>;
using check__tile_right_f16 =
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major>;
template <typename Tile>
static __device__ __forceinline__ void check__tile_load(Tile &tile, const half *from, int32_t pitch)
{
    nvcuda::wmma::load_matrix_sync(tile, from, (unsigned)pitch);
}
static __device__ __forceinline__ void check__tile_multiply_add(
    check__tile_sums &sums, const check__tile_left_f16 &left, const check__tile_right_f16 &right)
{
    nvcuda::wmma::mma_sync(sums, left, right, sums);
}

__global__ void __launch_bounds__(128)
check__k_conv2d_add_relu_kernel(const half *__restrict__ input, const half *__restrict__ weights,
                                const half *__restrict__ bias, half *__restrict__ output)
{
    const int32_t block_x = (int32_t)blockIdx.x;
    const int32_t block_y = (int32_t)blockIdx.y;
    const int32_t thread_x = (int32_t)threadIdx.x;
    const int32_t thread_y = (int32_t)threadIdx.y;
    const int32_t thread_z = (int32_t)threadIdx.z;
    check__tile_sums acc[1];
    __shared__ __align__(32) half input_shared[2304];
    __shared__ __align__(32) half weights_shared[2560];
    check__tile_left_f16 input_tile[1];
    check__tile_right_f16 weights_tile[1];
    __shared__ __align__(32) float sums_shared[1152];
    check__tile_clear(acc[0]);
    for (int32_t k_o = 0; k_o < 5; k_o++) {
        __syncthreads();
        const int32_t input_at = k_o * 2 + (thread_x % 8) / 4;
        const int32_t input_at_1 = input_at / 3;
        const int32_t input_at_2 = input_at % 3;
        for (int32_t step = 0; step < 2; step++) {
            const int32_t value = block_y * 32 + step * 16 + thread_z * 8 + thread_y * 4 + thread_x / 8;
            const int32_t value_1 = value / 14 + input_at_1;
            const int32_t value_2 = value % 14 + input_at_2;
            *(uint4 *)&input_shared[step * 1152 + thread_z * 576 + thread_y * 288 + thread_x / 8 * 72
                + thread_x % 8 * 8] =
                (block_y * 8 + step * 4 + thread_z * 2 + thread_y < 49 && input_at < 9 && 1 <= value_1 && value_1 < 15
                && 1 <= value_2 && value_2 < 15)
                ? *(const uint4 *)&input[block_y * 1024 + step * 512 + input_at_1 * 448 + thread_z * 256
                + thread_y * 128 + thread_x / 8 * 32 + input_at_2 * 32 + thread_x % 4 * 8 - 480] : uint4{};
        }
        for (int32_t step = 0; step < 2; step++) {
            *(uint4 *)&weights_shared[step * 1280 + thread_z * 640 + thread_y * 320 + thread_x / 4 * 40
                + thread_x % 4 * 8] =
                *(const uint4 *)&weights[k_o * 4096 + step * 2048 + thread_z * 1024 + thread_y * 512 + thread_x / 4 * 64
                + block_x * 32 + thread_x % 4 * 8];
        }
        __syncthreads();
        for (int32_t k_i = 0; k_i < 4; k_i++) {
            check__tile_load(input_tile[0], &input_shared[thread_z * 1152 + k_i * 16], 72);
            check__tile_load(weights_tile[0], &weights_shared[k_i * 640 + thread_y * 16], 40);
            check__tile_multiply_add(acc[0], input_tile[0], weights_tile[0]);
        }
    }
    const int32_t sums_at = thread_z * 576 + thread_y * 16;
    check__tile_store(&sums_shared[sums_at], acc[0], 36);
    __syncthreads();
    if (block_y * 32 + thread_z * 16 + thread_y * 8 + thread_x / 4 < 196 && block_x * 2 + (thread_x % 4) / 2 < 3) {
        __align__(16) half bias_values[8];
        *(uint4 *)bias_values = *(const uint4 *)&bias[block_x * 32 + thread_x % 4 * 8];
        __align__(16) half result[8];
        #pragma unroll
        for (int32_t j_i = 0; j_i < 8; j_i++) {
            result[j_i] =
                __float2half(check__max_f32(sums_shared[thread_z * 576 + thread_y * 288 + thread_x / 4 * 36
                + thread_x % 4 * 8 + j_i] + __half2float(bias_values[j_i]), 0.0f));
        }
        *(uint4 *)&output[block_y * 1536 + thread_z * 768 + thread_y * 384 + thread_x / 4 * 48 + block_x * 32
            + thread_x % 4 * 8] = *(uint4 *)result;
    }
}
