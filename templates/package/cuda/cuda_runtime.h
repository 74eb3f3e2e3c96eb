/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA threads as fibers of one CPU thread: correctness only, no speed. It stands in for CUDA's own cuda_runtime.h when
 * a C++ compiler builds the .cu files of this package, on a machine without a GPU.
 *
 * Each block runs alone: its threads one after the other up to their next barrier, in one order in every second block
 * and in the reverse order in the others. Shared memory and new device memory are filled with NaN. A barrier that only
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
#define CUDA_ON_CPU_WORD 4
#endif

namespace cuda_on_cpu {

constexpr size_t WORD = CUDA_ON_CPU_WORD;

/* The shared memory that is filled and watched; whoever gives kernels sections of their own sets it. */
inline unsigned char *shared_first = __start_cuda_shared, *shared_end = __stop_cuda_shared;

enum class State { ready, waiting, done };

struct Fiber {
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<unsigned char[]> stack;
    bool started = false;
    State state = State::ready;
};

constexpr size_t STACK_BYTES = 256 * 1024; /* untouched pages cost nothing */
constexpr int POISON = 0xFF;               /* every float of it is NaN */

inline std::vector<Fiber> fibers;
inline unsigned running;
inline jmp_buf scheduler;
inline const std::function<void()> *body;
inline bool backwards;

/* The last threads that touched a word of shared memory, and the epochs: how often all threads had been let run. */
struct Shadow {
    uint64_t written, read;
    unsigned writer, reader;
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
inline uint64_t launch_began, block_began; /* epochs */
inline bool in_kernel;

[[noreturn]] inline void fail(const char *what)
{
    fprintf(stderr, "CUDA on the CPU: %s\n", what);
    exit(3);
}

/* Whether a touch at an earlier epoch, by another thread or block of this launch, is not ordered before one now. */
__attribute__((no_sanitize("thread"))) inline bool unordered(uint64_t earlier, unsigned thread)
{
    return earlier >= launch_began && (earlier < block_began || (earlier == epoch && thread != running));
}

__attribute__((no_sanitize("thread"))) inline void touch_device(uintptr_t at, size_t bytes, bool writes)
{
    for (Allocation *one = allocations; one != nullptr; one = one->next) {
        if (at + bytes <= one->first - GUARD || at >= one->end + GUARD)
            continue;
        if (at < one->first || at + bytes > one->end)
            fail("a thread touches device memory outside of its buffer");
        for (size_t word = (at - one->first) / WORD; word <= (at - one->first + bytes - 1) / WORD; word++) {
            Shadow &last = one->words[word];
            if (unordered(last.written, last.writer) || (writes && unordered(last.read, last.reader)))
                fail("two threads touch a word of device memory, and nothing orders them");
            if (writes) {
                last.written = epoch;
                last.writer = running;
            } else {
                last.reader = last.read == epoch && last.reader != running ? SEVERAL : running;
                last.read = epoch;
            }
        }
        return;
    }
}

__attribute__((no_sanitize("thread"))) inline void touch(const void *address, size_t bytes, bool writes)
{
    const uintptr_t at = (uintptr_t)address, first = (uintptr_t)shared_first, end = (uintptr_t)shared_end;

    if (!in_kernel)
        return;
    if (at < first || at >= end)
        return touch_device(at, bytes, writes);
    for (size_t word = (at - first) / WORD; word <= (at - first + bytes - 1) / WORD; word++) {
        Shadow &last = shadow[word];
        const bool after_write = last.written == epoch && last.writer != running;
        const bool after_read = last.read == epoch && last.reader != running;
        if (after_write || (writes && after_read))
            fail("two threads touch a word of shared memory without a barrier in between");
        if (writes) {
            last.written = epoch;
            last.writer = running;
        } else {
            last.reader = last.read == epoch && last.reader != running ? SEVERAL : running;
            last.read = epoch;
        }
    }
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

/* Runs all threads of a block to their ends, from barrier to barrier. */
inline void run_block(unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        fibers[i].state = State::ready;
    for (unsigned done = 0, waiting = 0; done < threads;) {
        done = waiting = 0;
        epoch++;
        for (unsigned i = 0; i < threads; i++) {
            const unsigned number = backwards ? threads - 1 - i : i;
            if (fibers[number].state != State::done)
                resume(number);
            (fibers[number].state == State::done ? done : waiting)++;
        }
        if (done != 0 && waiting != 0)
            fail("only some threads of a block reach a barrier");
    }
}

inline void launch(dim3 grid, dim3 block, const std::function<void()> &thread)
{
    const unsigned threads = block.x * block.y * block.z;

    const size_t shared_bytes = shared_first == nullptr ? 0 : (size_t)(shared_end - shared_first);

    shadow.resize(shared_bytes / WORD + 1);
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
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                if (shared_bytes != 0)
                    memset(shared_first, POISON, shared_bytes);
                block_began = epoch + 1;
                in_kernel = true;
                run_block(threads);
                in_kernel = false;
                backwards = !backwards;
            }
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
    CUDA_ON_CPU_HOOK __tsan_read##bytes(void *at) { cuda_on_cpu::touch(at, bytes, false); } \
    CUDA_ON_CPU_HOOK __tsan_write##bytes(void *at) { cuda_on_cpu::touch(at, bytes, true); } \
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

inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll((unsigned long long)a); }

#include "cuda_runtime_api.h"

#endif
