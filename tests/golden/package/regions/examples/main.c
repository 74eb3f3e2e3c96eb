/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the smallest program that runs the network.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#include "tiny.h"

#include <stdio.h>

/* All memory is here, and static: nothing is allocated later. */
static tiny_ctx ctx;
static __attribute__((section(".bss.tiny_workspace_dtcm"))) _Alignas(TINY_WORKSPACE_ALIGN) unsigned char workspace_dtcm[TINY_WORKSPACE_DTCM_BYTES];
static _Alignas(TINY_WORKSPACE_ALIGN) unsigned char workspace_sram[TINY_WORKSPACE_SRAM_BYTES];
static const tiny_workspaces workspaces = {
    .dtcm = workspace_dtcm, .dtcm_bytes = sizeof workspace_dtcm,
    .sram = workspace_sram, .sram_bytes = sizeof workspace_sram,
};
static _Alignas(4) float input_x[32]; /* 4x8: fill with your data */
static _Alignas(4) float output_y[32]; /* 4x8 */

int main(void)
{
    const tiny_inputs inputs = { .x = input_x };
    const tiny_outputs outputs = { .y = output_y };
    tiny_status status = tiny_init(&ctx, &workspaces);

    if (status == TINY_OK)
        status = tiny_run(&ctx, &inputs, &outputs);
    if (status != TINY_OK) {
        printf("error: %s\n", tiny_strerror(status));
        return 1;
    }
    for (unsigned i = 0; i < 10u; i++)
        printf("y[%u] = %g\n", i, (double)output_y[i]);
    tiny_deinit(&ctx);
    return 0;
}
