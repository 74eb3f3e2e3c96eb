/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the smallest program that runs the network.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#include "tiny.h"

#include <stdio.h>
#include <string.h>

/* All memory is here, and static: nothing is allocated later. */
static tiny_ctx ctx;
static _Alignas(TINY_WORKSPACE_ALIGN) unsigned char workspace[TINY_WORKSPACE_BYTES];

/* Fill them with your data, before each run: a run overwrites them. */
static void write_inputs(void)
{
    memset(tiny_input_x(&ctx), 0, TINY_INPUT_X_BYTES); /* 4x8 */
}

int main(void)
{
    tiny_status status = tiny_init(&ctx, workspace, sizeof workspace);

    if (status == TINY_OK) {
        write_inputs();
        status = tiny_run(&ctx);
    }
    if (status != TINY_OK) {
        printf("error: %s\n", tiny_strerror(status));
        return 1;
    }
    const float *const output_y = tiny_output_y(&ctx); /* 4x8 */
    for (unsigned i = 0; i < 10u; i++)
        printf("y[%u] = %g\n", i, (double)output_y[i]);
    tiny_deinit(&ctx);
    return 0;
}
