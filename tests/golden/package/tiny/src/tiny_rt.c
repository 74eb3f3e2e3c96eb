/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the runtime.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#include "tiny_rt.h"

#include <stddef.h>
#include <stdint.h>

#include <cpuid.h>

/* Asks the CPU itself: the compiler's own check would need its runtime library. Wanted: sse2. */
int tiny__cpu_supported(void)
{
    unsigned eax, ebx, ecx, edx;

    /* sse2 */
    if (!__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx) || (edx & 0x4000000u) != 0x4000000u)
        return 0;
    return 1;
}
