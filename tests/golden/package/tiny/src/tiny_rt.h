/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the runtime, for the library's own sources only. Needs no operating system.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_RT_H
#define TINY_RT_H

#pragma GCC visibility push(hidden)

/* 1 where this CPU and its operating system support what the kernels were compiled for, 0 where not. */
int tiny__cpu_supported(void);

#pragma GCC visibility pop

#endif
