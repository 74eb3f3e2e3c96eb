/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions between two marks, counted by the emulator's plugin (counting.c), which knows the marks by the arguments
   of a system call that has none, and writes the count to a pipe. */
#ifndef EDGETUNE_AGENT_COUNT_H
#define EDGETUNE_AGENT_COUNT_H

#include <stdbool.h>

typedef void (*call_fn)(void *const *buffers);

/* Number of instructions of one call; false where nobody counts. */
bool count_call(call_fn call, void *const *buffers, double *instructions);
/* Count nothing, once, so that children find this translated. */
void count_prepare(void);

#endif
