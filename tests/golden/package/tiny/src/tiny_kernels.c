/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the kernels.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
/*
 * Compiled with: gcc -O2 -msse2 -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros -fno-finite-math-only
 */
#include "tiny_kernels.h"

#include <stddef.h>
#include <stdint.h>

/* Without NaN and infinity (-ffinite-math-only, so -ffast-math and -Ofast too) comparisons here would not hold. */
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "NaN and infinity must count here: add to the end of this file's flags: -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros -fno-finite-math-only"
#endif

/*
 * scale_add
 * Operators: Mul * / one, Add
 * Tensors:   a 4x8 float32, w 8 float32, out 4x8 float32
 * Schedule:  vectorize(i, 8)
 * Time:      1.25 us (1.20 to 1.30), record 17 on bench-1
 * Work:      32 multiply-accumulates, called 2 times a run
 */
void tiny__k_scale_add(const float *restrict a, const float *restrict w, float *restrict out)
{
    for (int i = 0; i < 32; i++) {
        out[i] = a[i] * w[i % 8] + 0.5f;
    }
}

/*
 * add
 * Operators: Add
 * Tensors:   a 4x8 float32, b 4x8 float32, out 4x8 float32
 * Schedule:  plain
 * Time:      not measured (default schedule)
 * Work:      32 operations, called 1 time a run
 */
void tiny__k_add(const float *restrict a, const float *restrict b, float *restrict out)
{
    for (int i = 0; i < 32; i++) {
        out[i] = a[i] + b[i];
    }
}

