/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's atomic functions on the CPU. Part of cuda_runtime.h.
 *
 * One thread runs at a time, so nothing comes between a read and its write. Two atomic functions on a word need no
 * barrier in between; an atomic function and a plain access do. A block that is alone runs in two orders: where the sum
 * of floats depends on the order, its launch is refused, as are all results that do.
 */
#ifndef CUDA_ON_CPU_ATOMICS_H
#define CUDA_ON_CPU_ATOMICS_H

namespace cuda_on_cpu {

__attribute__((no_sanitize("thread"))) inline void touch_atomically(const void *at, size_t bytes)
{
    atomically = true;
    touch_aligned(at, bytes, true);
    atomically = false;
}

} /* namespace cuda_on_cpu */

/* Each returns what was there before. */
#define CUDA_ON_CPU_ATOMIC(name, result) \
    template <typename T> __attribute__((no_sanitize("thread"))) T name(T *at, T value) \
    { \
        cuda_on_cpu::touch_atomically(at, sizeof *at); \
        const T old = *at; \
        *at = (result); \
        return old; \
    }
CUDA_ON_CPU_ATOMIC(atomicAdd, old + value)
CUDA_ON_CPU_ATOMIC(atomicSub, old - value)
CUDA_ON_CPU_ATOMIC(atomicExch, value)
CUDA_ON_CPU_ATOMIC(atomicMax, value > old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicMin, value < old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicAnd, old & value)
CUDA_ON_CPU_ATOMIC(atomicOr, old | value)
CUDA_ON_CPU_ATOMIC(atomicXor, old ^ value)

/* Stores `value` where `compared` was. */
template <typename T> __attribute__((no_sanitize("thread"))) T atomicCAS(T *at, T compared, T value)
{
    cuda_on_cpu::touch_atomically(at, sizeof *at);
    const T old = *at;
    if (old == compared)
        *at = value;
    return old;
}

#endif
