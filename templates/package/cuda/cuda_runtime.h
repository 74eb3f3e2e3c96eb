/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA threads as fibers of one CPU thread: correctness only, no speed. It stands in for CUDA's own cuda_runtime.h when
 * a C++ compiler builds the .cu files of this package, on a machine without a GPU.
 *
 * Each block runs alone: its threads one after the other up to their next barrier, in one order in every second block
 * and in the reverse order in the others. The block of a launch that has no other runs in both, from the same memory,
 * and a difference ends the program. Shared memory and new device memory are filled with NaN. A barrier that only
 * some threads of a block reach ends the program.
 *
 * With -fsanitize=thread the compiler reports each access to memory, to the functions __tsan_* below (no library of a
 * sanitizer is linked). A shadow of each word of shared memory then finds two threads that touch it without a barrier in
 * between, one of them writing: this ends the program too. What it does not show: such races in device memory, and reads
 * beside a tensor that stay inside device memory.
 */
#ifndef CUDA_ON_CPU_RUNTIME_H
#define CUDA_ON_CPU_RUNTIME_H

#undef _FORTIFY_SOURCE /* its longjmp refuses to leave one stack for another */

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

#define CUDA_ON_CPU 1

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* Vectors lie over arrays of elements: may_alias. */
struct __attribute__((may_alias, aligned(8))) float2 {
    float x, y;
};
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
};
struct __attribute__((may_alias)) ushort1 {
    uint16_t x;
};
struct __attribute__((may_alias)) uint1 {
    uint32_t x;
};
struct __attribute__((may_alias, aligned(8))) uint2 {
    uint32_t x, y;
};
struct __attribute__((may_alias, aligned(16))) uint4 {
    uint32_t x, y, z, w;
};

/* Elements of 16 bits, and their conversions: exact, and to the nearest, half to even. */
struct half {
    uint16_t bits;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

/* Every element passes through these: nothing is called, and no access to memory reported. */
#define CUDA_ON_CPU_INLINE __attribute__((always_inline, no_sanitize("thread"))) inline

namespace cuda_on_cpu {

union Word {
    uint32_t bits;
    float value;
};

CUDA_ON_CPU_INLINE float as_float(uint32_t bits) { return Word{bits}.value; }

CUDA_ON_CPU_INLINE uint32_t as_bits(float value)
{
    Word word;
    word.value = value;
    return word.bits;
}

} /* namespace cuda_on_cpu */

CUDA_ON_CPU_INLINE float __half2float(half h)
{
    const uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, rest = h.bits & 0x7fffu;
    const uint32_t normal = rest >= 0x7c00u ? rest << 13 | 0x7f800000u : (rest << 13) + 0x38000000u;
    const float value = rest < 0x0400u ? (float)rest * 0x1p-24f : cuda_on_cpu::as_float(normal);

    return sign ? -value : value;
}

CUDA_ON_CPU_INLINE half __float2half(float x)
{
    const uint32_t bits = cuda_on_cpu::as_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t h = 0;

    if (rest > 0x7f800000u) {
        h = 0x7e00u;
    } else if (rest >= 0x477ff000u) {
        h = 0x7c00u;
    } else if (rest >= 0x38800000u) {
        h = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    } else if (rest >= 0x33000000u) {
        const uint32_t shift = 126u - (rest >> 23), m = (rest & 0x7fffffu) | 0x800000u, middle = 1u << (shift - 1u);
        h = m >> shift;
        if ((m & (middle * 2u - 1u)) > middle || ((m & (middle * 2u - 1u)) == middle && (h & 1u) != 0))
            h += 1u;
    }
    return {(uint16_t)(sign | h)};
}

CUDA_ON_CPU_INLINE float __bfloat162float(__nv_bfloat16 h) { return cuda_on_cpu::as_float((uint32_t)h.bits << 16); }

CUDA_ON_CPU_INLINE __nv_bfloat16 __float2bfloat16(float x)
{
    const uint32_t bits = cuda_on_cpu::as_bits(x);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return {(uint16_t)((bits >> 16) | 0x40u)};
    return {(uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))
/* A section of its own, so that all shared memory can be filled before each block. */
#define __shared__ static __attribute__((section("cuda_shared"), aligned(16)))

/* Defined by the linker where any kernel has shared memory. */
extern "C" __attribute__((weak)) unsigned char __start_cuda_shared[], __stop_cuda_shared[];

/* Bytes that are watched as one; -DCUDA_ON_CPU_WORD=1 where kernels have smaller elements. */
#ifndef CUDA_ON_CPU_WORD
#define CUDA_ON_CPU_WORD 2
#endif

namespace cuda_on_cpu {

constexpr size_t WORD = CUDA_ON_CPU_WORD;

/* The shared memory that is filled and watched; whoever gives kernels sections of their own sets it. */
inline unsigned char *shared_first = __start_cuda_shared, *shared_end = __stop_cuda_shared;

enum class State { ready, waiting, shuffling, done };

struct Fiber {
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<unsigned char[]> stack;
    bool started = false;
    State state = State::ready;
    uint32_t mask = 0;                  /* lanes that take part in its shuffle */
    uint64_t offered = 0, received = 0; /* bits that it gives to the other lanes, and those of the last shuffle */
    const float *left = nullptr, *right = nullptr; /* its elements of the tiles that its warp multiplies */
    struct Copy *copies = nullptr;                 /* those that it has begun, the oldest first; see cuda_pipeline.h */
    size_t under_way = 0, room = 0, groups = 0;    /* their number, that for which there is memory; groups closed */
};

constexpr unsigned WARP = 32;

constexpr size_t STACK_BYTES = 256 * 1024; /* untouched pages cost nothing */
constexpr int POISON = 0xFF;               /* every float of it is NaN */

inline std::vector<Fiber> fibers;
inline unsigned running;
inline jmp_buf scheduler;
inline const std::function<void()> *body;
inline bool backwards;

/* The last threads that touched a word of memory, and the epochs: how often all threads had been let run. Atomic
 * functions are recorded separately, as they need no order among themselves. */
struct Shadow {
    uint64_t written, read, updated;
    unsigned writer, reader, updater;
    bool filling; /* a copy has begun and is not waited for */
};

constexpr unsigned SEVERAL = ~0u;
inline std::vector<Shadow> shadow;
inline uint64_t epoch;

/* An allocation of device memory, with bytes on both sides that no kernel may touch. A word also knows its last blocks:
 * nothing orders the blocks of a launch. */
struct Allocation {
    uintptr_t first, end;
    Shadow *words; /* no vector: its functions are reported as well */
    Allocation *next;
};

constexpr size_t GUARD = 4096;
inline Allocation *allocations;

/* What a launch asks for beside the kernel's own arrays; no GPU has more. */
inline unsigned char dynamic_shared[232448] __attribute__((aligned(32)));
inline size_t dynamic_bytes;
inline std::vector<Shadow> dynamic_shadow;
#define DYNAMIC_SHARED(name) unsigned char *const name = cuda_on_cpu::dynamic_shared
inline uint64_t launch_began, block_began; /* epochs */
inline bool in_kernel, atomically;

[[noreturn]] inline void fail(const char *what)
{
    fprintf(stderr, "CUDA on the CPU: %s\n", what);
    fflush(nullptr);
    _Exit(3); /* not exit: it frees the stack of this fiber */
}

/* Whether a touch at an earlier epoch, by another thread or block of this launch, is not ordered before one now. */
__attribute__((no_sanitize("thread"))) inline bool unordered(uint64_t earlier, unsigned thread)
{
    return earlier >= launch_began && (earlier < block_began || (earlier == epoch && thread != running));
}

/* The same for shared memory, which the threads of one block have alone. */
__attribute__((no_sanitize("thread"))) inline bool unordered_in_block(uint64_t earlier, unsigned thread)
{
    return earlier == epoch && thread != running;
}

/* Notes that the running thread touches a word; false where nothing orders that after what is noted. */
template <bool (*open)(uint64_t, unsigned)>
__attribute__((no_sanitize("thread"))) inline bool noted(Shadow &last, bool writes)
{
    uint64_t &when = atomically ? last.updated : writes ? last.written : last.read;
    unsigned &who = atomically ? last.updater : writes ? last.writer : last.reader;

    if (open(last.written, last.writer) || (writes && open(last.read, last.reader)))
        return false;
    if (!atomically && open(last.updated, last.updater))
        return false;
    who = when == epoch && who != running ? SEVERAL : running;
    when = epoch;
    return true;
}

__attribute__((no_sanitize("thread"))) inline void touch_device(uintptr_t at, size_t bytes, bool writes)
{
    for (Allocation *one = allocations; one != nullptr; one = one->next) {
        if (at + bytes <= one->first - GUARD || at >= one->end + GUARD)
            continue;
        if (at < one->first || at + bytes > one->end)
            fail("a thread touches device memory outside of its buffer");
        for (size_t word = (at - one->first) / WORD; word <= (at - one->first + bytes - 1) / WORD; word++) {
            if (!noted<unordered>(one->words[word], writes))
                fail("two threads touch a word of device memory, and nothing orders them");
        }
        return;
    }
}

__attribute__((no_sanitize("thread"))) inline void touch_shared(Shadow *words, size_t at, size_t bytes, bool writes)
{
    for (size_t word = at / WORD; word <= (at + bytes - 1) / WORD; word++) {
        if (words[word].filling)
            fail("a thread touches shared memory that a copy still fills");
        if (!noted<unordered_in_block>(words[word], writes))
            fail("two threads touch a word of shared memory without a barrier in between");
    }
}

__attribute__((no_sanitize("thread"))) inline void touch(const void *address, size_t bytes, bool writes)
{
    const uintptr_t at = (uintptr_t)address, first = (uintptr_t)shared_first, end = (uintptr_t)shared_end;
    const uintptr_t asked = (uintptr_t)dynamic_shared;

    if (!in_kernel)
        return;
    if (at >= asked && at < asked + sizeof dynamic_shared) {
        if (at + bytes > asked + dynamic_bytes)
            fail("a thread touches shared memory that the launch has not asked for");
        return touch_shared(dynamic_shadow.data(), at - asked, bytes, writes);
    }
    if (at < first || at >= end)
        return touch_device(at, bytes, writes);
    touch_shared(shadow.data(), at - first, bytes, writes);
}

__attribute__((no_sanitize("thread"))) inline void touch_aligned(const void *address, size_t bytes, bool writes)
{
    if (in_kernel && (uintptr_t)address % bytes != 0)
        fail("a thread touches a vector at an address that is no multiple of its size");
    touch(address, bytes, writes);
}

/* Leaves the running fiber until the scheduler comes back to it. */
inline void leave(State state)
{
    Fiber &fiber = fibers[running];

    fiber.state = state;
    if (_setjmp(fiber.at) == 0)
        _longjmp(scheduler, 1);
}

/* A fiber serves one thread of each block. */
inline void serve()
{
    for (;;) {
        (*body)();
        if (fibers[running].under_way != 0)
            fail("a thread ends before it has waited for its copies");
        fibers[running].groups = 0;
        leave(State::done);
    }
}

inline void resume(unsigned number)
{
    Fiber &fiber = fibers[number];

    running = number;
    threadIdx = dim3(number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y);
    if (_setjmp(scheduler) != 0)
        return;
    if (fiber.started)
        _longjmp(fiber.at, 1);
    fiber.started = true;
    setcontext(&fiber.start);
}

/* Lets the lanes of a warp go on that all wait for one another; whether they do. */
inline bool exchange(unsigned first, unsigned threads)
{
    const Fiber *waiting = nullptr;

    for (unsigned i = first; i < first + WARP && i < threads; i++)
        if (fibers[i].state == State::shuffling)
            waiting = &fibers[i];
    if (waiting == nullptr)
        return false;
    const uint32_t mask = waiting->mask;
    for (unsigned lane = 0; lane < WARP; lane++) {
        const bool there = first + lane < threads && fibers[first + lane].state == State::shuffling;
        if ((mask >> lane & 1u) != 0 && (!there || fibers[first + lane].mask != mask))
            return false;
    }
    for (unsigned lane = 0; lane < WARP; lane++)
        if ((mask >> lane & 1u) != 0) {
            fibers[first + lane].received = fibers[first + lane].offered;
            fibers[first + lane].state = State::ready;
        }
    return true;
}

/* Runs all threads of a block that can go on, up to their next barrier. */
inline void run_to_barrier(unsigned threads)
{
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < threads; i++) {
            const unsigned number = backwards ? threads - 1 - i : i;
            if (fibers[number].state == State::ready)
                resume(number);
        }
        for (unsigned first = 0; first < threads; first += WARP)
            again |= exchange(first, threads);
    }
}

/* Runs all threads of a block to their ends, from barrier to barrier. */
inline void run_block(unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        fibers[i].state = State::ready;
    for (unsigned done = 0, waiting = 0; done < threads;) {
        done = waiting = 0;
        epoch++;
        run_to_barrier(threads);
        for (unsigned i = 0; i < threads; i++) {
            if (fibers[i].state == State::shuffling)
                fail("only some lanes of a warp reach a shuffle");
            (fibers[i].state == State::done ? done : waiting)++;
        }
        if (done != 0 && waiting != 0)
            fail("only some threads of a block reach a barrier");
        for (unsigned i = 0; i < threads && waiting != 0; i++)
            fibers[i].state = State::ready;
    }
}

/* The bytes of all device memory, one allocation after the other. */
inline std::vector<unsigned char> device_bytes()
{
    std::vector<unsigned char> held;

    for (const Allocation *one = allocations; one != nullptr; one = one->next)
        held.insert(held.end(), (const unsigned char *)one->first, (const unsigned char *)one->end);
    return held;
}

inline void set_device_bytes(const std::vector<unsigned char> &held)
{
    const unsigned char *from = held.data();

    for (const Allocation *one = allocations; one != nullptr; from += one->end - one->first, one = one->next)
        memcpy((void *)one->first, from, one->end - one->first);
}

inline void run_poisoned(unsigned threads, size_t shared_bytes)
{
    if (shared_bytes != 0)
        memset(shared_first, POISON, shared_bytes);
    memset(dynamic_shared, POISON, dynamic_bytes);
    block_began = epoch + 1;
    in_kernel = true;
    run_block(threads);
    in_kernel = false;
    backwards = !backwards;
}

inline void launch(dim3 grid, dim3 block, const std::function<void()> &thread)
{
    const unsigned threads = block.x * block.y * block.z;

    const bool alone = grid.x * grid.y * grid.z == 1 && threads > 1;
    const std::vector<unsigned char> before = alone ? device_bytes() : std::vector<unsigned char>();
    const size_t shared_bytes = shared_first == nullptr ? 0 : (size_t)(shared_end - shared_first);

    shadow.resize(shared_bytes / WORD + 1);
    dynamic_shadow.resize(dynamic_bytes / WORD + 1);
    launch_began = epoch + 1;
    body = &thread;
    gridDim = grid;
    blockDim = block;
    if (fibers.size() < threads)
        fibers.resize(threads);
    for (Fiber &fiber : fibers) {
        if (fiber.stack)
            continue;
        fiber.stack.reset(new unsigned char[STACK_BYTES]);
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = fiber.stack.get();
        fiber.start.uc_stack.ss_size = STACK_BYTES;
        fiber.start.uc_link = nullptr;
        makecontext(&fiber.start, serve, 0);
    }
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
                run_poisoned(threads, shared_bytes);
    if (!alone)
        return;
    const std::vector<unsigned char> after = device_bytes();
    set_device_bytes(before);
    launch_began = epoch + 1;
    blockIdx = dim3(0, 0, 0);
    run_poisoned(threads, shared_bytes);
    if (device_bytes() != after)
        fail("the order in which the threads of a block run changes its results");
}

} /* namespace cuda_on_cpu */

/* What -fsanitize=thread calls. */
#define CUDA_ON_CPU_HOOK extern "C" __attribute__((weak, used, no_sanitize("thread"))) void
CUDA_ON_CPU_HOOK __tsan_init() {}
CUDA_ON_CPU_HOOK __tsan_func_entry(void *) {}
CUDA_ON_CPU_HOOK __tsan_func_exit(void *) {}
CUDA_ON_CPU_HOOK __tsan_vptr_update(void **, void *) {}
CUDA_ON_CPU_HOOK __tsan_vptr_read(void **) {}
#define CUDA_ON_CPU_HOOKS(bytes) \
    CUDA_ON_CPU_HOOK __tsan_read##bytes(void *at) { cuda_on_cpu::touch_aligned(at, bytes, false); } \
    CUDA_ON_CPU_HOOK __tsan_write##bytes(void *at) { cuda_on_cpu::touch_aligned(at, bytes, true); } \
    CUDA_ON_CPU_HOOK __tsan_unaligned_read##bytes(void *at) { cuda_on_cpu::touch(at, bytes, false); } \
    CUDA_ON_CPU_HOOK __tsan_unaligned_write##bytes(void *at) { cuda_on_cpu::touch(at, bytes, true); }
CUDA_ON_CPU_HOOKS(1)
CUDA_ON_CPU_HOOKS(2)
CUDA_ON_CPU_HOOKS(4)
CUDA_ON_CPU_HOOKS(8)
CUDA_ON_CPU_HOOKS(16)
CUDA_ON_CPU_HOOK __tsan_read_range(void *at, size_t bytes) { cuda_on_cpu::touch(at, bytes, false); }
CUDA_ON_CPU_HOOK __tsan_write_range(void *at, size_t bytes) { cuda_on_cpu::touch(at, bytes, true); }

inline void __syncthreads()
{
    const dim3 thread = threadIdx;
    const unsigned number = cuda_on_cpu::running;

    cuda_on_cpu::leave(cuda_on_cpu::State::waiting);
    cuda_on_cpu::running = number;
    threadIdx = thread;
}

/* Waits for the lanes in `mask`. It orders no accesses to memory here: such a use is reported as a race. */
inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    const dim3 thread = threadIdx;
    const unsigned number = cuda_on_cpu::running;

    if ((mask >> number % cuda_on_cpu::WARP & 1u) == 0)
        cuda_on_cpu::fail("a lane waits for a warp of which its mask says that it is no part");
    cuda_on_cpu::fibers[number].mask = mask;
    cuda_on_cpu::leave(cuda_on_cpu::State::shuffling);
    cuda_on_cpu::running = number;
    threadIdx = thread;
}

/* The value of the lane whose number differs in the bits of `step`, inside groups of `width` lanes. */
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int step, int width = 32)
{
    using namespace cuda_on_cpu;
    const unsigned number = running, lane = number % WARP, other = lane ^ (unsigned)step;

    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most eight bytes");
    if (other >= WARP || (mask >> other & 1u) == 0 || other / (unsigned)width != lane / (unsigned)width)
        fail("a shuffle reads a lane that does not take part");
    memcpy(&fibers[number].offered, &value, sizeof value);
    __syncwarp(mask);
    memcpy(&value, &fibers[number - lane + other].received, sizeof value);
    return value;
}

inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll((unsigned long long)a); }

#include "cuda_atomics.h"
#include "cuda_mma.h"
#include "cuda_pipeline.h"
#include "cuda_runtime_api.h"

#endif
