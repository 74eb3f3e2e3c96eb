/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's warp matrix functions (mma.h) on the CPU, for tiles of 16 x 16 x 16. Part of cuda_runtime.h.
 *
 * Which lane holds which element is nobody's business on a GPU. Here each lane holds eight adjacent ones, and a product
 * reads those of the other lanes. A tile in memory is touched by the warp, which is none of its threads: a barrier must
 * stand between that and what a thread does there, whoever of them it is. New fragments are filled with NaN.
 */
#ifndef CUDA_ON_CPU_MMA_H
#define CUDA_ON_CPU_MMA_H

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
enum layout_t { mem_row_major };

constexpr unsigned TILE = 16, OWN = TILE * TILE / cuda_on_cpu::WARP;

template <typename Use, int M, int N, int K, typename Element, typename Layout = void> struct fragment {
    static_assert(M == TILE && N == TILE && K == TILE, "only tiles of 16 x 16 x 16 are known here");
    float own[OWN]; /* of elements of 16 bits as well: widening them is exact */
    fragment() { memset(own, cuda_on_cpu::POISON, sizeof own); }
};

CUDA_ON_CPU_INLINE float widened(half x) { return __half2float(x); }
CUDA_ON_CPU_INLINE float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

/* Waits for all lanes of the warp, which must be in the same function with the same value. */
__attribute__((no_sanitize("thread"))) inline void together(uint64_t value)
{
    using namespace cuda_on_cpu;
    const unsigned first = running - running % WARP;

    fibers[running].offered = value;
    __syncwarp();
    for (unsigned lane = 0; lane < WARP; lane++)
        if (fibers[first + lane].received != value)
            fail("the lanes of a warp work on different tiles");
}

/* Reports that the warp touches elements of the running lane in memory, as if it were a thread of its own. */
__attribute__((no_sanitize("thread"))) inline void touch_as_warp(const void *at, size_t bytes, bool writes)
{
    using namespace cuda_on_cpu;
    constexpr unsigned NO_THREAD = 1u << 16; /* blocks have fewer threads */
    const unsigned thread = running;

    running = NO_THREAD + thread / WARP * 2u + writes;
    touch(at, bytes, writes);
    running = thread;
}

/* The place of the running lane's elements in a tile in memory. */
template <typename Element> size_t first_of_lane(const Element *tile, unsigned pitch, unsigned least_pitch)
{
    const unsigned lane = cuda_on_cpu::running % cuda_on_cpu::WARP;

    if ((uintptr_t)tile % 32 != 0)
        cuda_on_cpu::fail("a tile begins at an address that is no multiple of 32 bytes");
    if (pitch % least_pitch != 0)
        cuda_on_cpu::fail("the rows of a tile are no multiple of 16 bytes apart");
    return (size_t)lane * OWN / TILE * pitch + lane * OWN % TILE;
}

template <typename Fragment, typename Value> void fill_fragment(Fragment &tile, Value value)
{
    for (float &element : tile.own)
        element = (float)value;
}

template <typename Use, typename Element>
__attribute__((no_sanitize("thread"))) void load_matrix_sync(
    fragment<Use, 16, 16, 16, Element, row_major> &tile, const Element *from, unsigned pitch)
{
    const Element *const at = from + first_of_lane(from, pitch, 8);

    together((uint64_t)(uintptr_t)from << 16 | pitch << 1);
    touch_as_warp(at, OWN * sizeof *at, false);
    for (unsigned i = 0; i < OWN; i++)
        tile.own[i] = widened(at[i]);
}

__attribute__((no_sanitize("thread"))) inline void store_matrix_sync(
    float *to, const fragment<accumulator, 16, 16, 16, float> &tile, unsigned pitch, layout_t)
{
    float *const at = to + first_of_lane(to, pitch, 4);

    together((uint64_t)(uintptr_t)to << 16 | pitch << 1 | 1u);
    touch_as_warp(at, OWN * sizeof *at, true);
    for (unsigned i = 0; i < OWN; i++)
        at[i] = tile.own[i];
}

/* The products of the tiles that all lanes of a warp hold; sums in float. */
template <typename Element>
__attribute__((no_sanitize("thread"))) void mma_sync(
    fragment<accumulator, 16, 16, 16, float> &sums, const fragment<matrix_a, 16, 16, 16, Element, row_major> &left,
    const fragment<matrix_b, 16, 16, 16, Element, row_major> &right,
    const fragment<accumulator, 16, 16, 16, float> &before)
{
    using namespace cuda_on_cpu;
    const unsigned first = running - running % WARP, begin = running % WARP * OWN;
    const unsigned row = begin / TILE, column = begin % TILE;

    fibers[running].left = left.own;
    fibers[running].right = right.own;
    together(2);
    float sum[OWN];
    memcpy(sum, before.own, sizeof sum);
    for (unsigned k = 0; k < TILE; k++) {
        const unsigned of_left = row * TILE + k, of_right = k * TILE + column;
        const float factor = fibers[first + of_left / OWN].left[of_left % OWN];
        const float *const factors = fibers[first + of_right / OWN].right;
        for (unsigned i = 0; i < OWN; i++)
            sum[i] += factor * factors[i];
    }
    together(2); /* no lane changes its elements before all have read them */
    memcpy(sums.own, sum, sizeof sum);
}

} /* namespace wmma */
} /* namespace nvcuda */

#endif
