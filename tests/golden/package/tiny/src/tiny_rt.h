/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the runtime, for the library's own sources only. Needs no operating system.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_RT_H
#define TINY_RT_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* 1 where this CPU and its operating system support what the kernels were compiled for, 0 where not. */
int tiny__cpu_supported(void);

#pragma GCC visibility pop

/*
 * The one place where work is shared between cores. body(begin, end, argument) handles iterations begin to end - 1.
 * This is a single-thread build: everything in one go, on the calling thread.
 */
typedef void (*tiny__body)(int begin, int end, void *argument);

static inline void tiny__parallel_for(tiny__body body, int iterations, void *argument)
{
    body(0, iterations, argument);
}

#endif
