/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the kernels, for tiny.c only.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_KERNELS_H
#define TINY_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Names inside the library have two underscores after the prefix: those of another package cannot meet them. */
#pragma GCC visibility push(hidden)

void tiny__k_scale_add(const float *restrict a, const float *restrict w, float *restrict out);
void tiny__k_add(const float *restrict a, const float *restrict b, float *restrict out);

#pragma GCC visibility pop

#endif
