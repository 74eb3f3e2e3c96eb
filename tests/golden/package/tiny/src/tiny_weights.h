/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the weights, for tiny.c only. 2 distinct constants.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_WEIGHTS_H
#define TINY_WEIGHTS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

extern const float tiny__w0[8];
extern const float tiny__w1[8];

#pragma GCC visibility pop

#endif
