/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the weights. 128 bytes in 2 distinct constants.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#include "tiny_weights.h"

/* -DTINY_WEIGHTS_SECTION='".section"' places all of them, in external flash for example. */
#ifdef TINY_WEIGHTS_SECTION
#define PLACED __attribute__((aligned(64), section(TINY_WEIGHTS_SECTION)))
#else
#define PLACED __attribute__((aligned(64)))
#endif

/* 8 float32, first used by Mul * / one + Add */
const float tiny__w0[8] PLACED = {
    -0x1.8p+0f, -0x1.edb6dcp-1f, -0x1.b6db6ep-2f, 0x1.b6db6ep-4f, 0x1.492492p-1f, 0x1.2db6dcp+0f,
    0x1.b6db6ep+0f, 0x1.2p+1f,
};

/* 8 float32, first used by second scale */
const float tiny__w1[8] PLACED = {
    0x1.2p+1f, 0x1.b6db6ep+0f, 0x1.2db6dcp+0f, 0x1.492492p-1f, 0x1.b6db6ep-4f, -0x1.b6db6ep-2f,
    -0x1.edb6dcp-1f, -0x1.8p+0f,
};

#undef PLACED
