/* SPDX-License-Identifier: Apache-2.0 */
/* How long a cycle of the core takes: additions that wait for each other take one each, on every core there is, also
   where another thread uses it. */
#ifndef EDGETUNE_AGENT_CYCLES_H
#define EDGETUNE_AGENT_CYCLES_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds; the least of several tries, for interrupts lengthen one. */
static inline double cycle_ns(void)
{
    size_t sum = 0, one = 1;
    int64_t least = INT64_MAX;
    __asm__ volatile("" : "+r"(one)); /* cores that add constants while they rename registers need no time for those */
#define EDGETUNE_ADD sum += one; __asm__ volatile("" : "+r"(sum));
#define EDGETUNE_ADD_8 \
    EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD EDGETUNE_ADD
    for (int attempt = 0; attempt < 3; ++attempt) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < 128; ++i) {
            EDGETUNE_ADD_8 EDGETUNE_ADD_8 EDGETUNE_ADD_8 EDGETUNE_ADD_8
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        const int64_t taken = (int64_t)(end.tv_sec - start.tv_sec) * 1000000000 + (end.tv_nsec - start.tv_nsec);
        if (taken < least)
            least = taken;
    }
#undef EDGETUNE_ADD_8
#undef EDGETUNE_ADD
    return (double)(least > 0 ? least : 1) / 4096;
}

#endif
