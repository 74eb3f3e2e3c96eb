/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the cycles of a call on a board: by the cycle counter of the debug unit (DWT, ARMv7-M C1.8) where it counts, else
   by SysTick (ARMv7-M B3.3), whose 24 bits an interrupt extends. SysTick runs in any case: it tells a call of 2^32 cycles or
   more, which is reported as 2^32 - 1, from one of a few. */
#include "image.h"

#ifndef REGISTER /* a test has its own */
#define REGISTER(address) (*(volatile uint32_t *)(address))
#endif
#define SYSTICK_CONTROL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define INTERRUPT_STATE REGISTER(0xE000ED04u) /* ICSR, ARMv7-M B3.2.4 */
#define DEBUG_CONTROL REGISTER(0xE000EDFCu) /* DEMCR */
#define DWT_CONTROL REGISTER(0xE0001000u)
#define DWT_CYCLES REGISTER(0xE0001004u)
#define DWT_LOCK REGISTER(0xE0001FB0u) /* of a Cortex-M7; others ignore it */

enum { CALLS = MOST_COUNTED_CALLS, COUNTER_BITS = 24, RELOAD = (1 << COUNTER_BITS) - 1 };
enum { ENABLE = 1, INTERRUPT = 2, CORE_CLOCK = 4, PENDING = 1 << 26, TRACE_ENABLE = 1 << 24 };

const unsigned counted_calls = CALLS, counted_words = 1 + CALLS;

static volatile uint32_t rounds;
static bool has_cycles;

void image_tick(void)
{
    rounds++;
}

void count_start(void)
{
#if __ARM_ARCH > 6
    DEBUG_CONTROL |= (uint32_t)TRACE_ENABLE;
    DWT_LOCK = 0xC5ACCE55u;
    DWT_CYCLES = 0;
    DWT_CONTROL |= (uint32_t)ENABLE;
    const uint32_t before = DWT_CYCLES;
    __asm__ volatile("nop\n\tnop\n\tnop\n\tnop" ::: "memory");
    has_cycles = DWT_CYCLES != before;
#endif
}

static uint32_t cycles_of_debug_unit(void)
{
    return has_cycles ? DWT_CYCLES : 0;
}

/* Cycles since SysTick was started. A round is pending until its interrupt has counted it. */
static uint64_t elapsed(void)
{
    uint32_t before, value;

    do {
        before = rounds;
        value = SYSTICK_VALUE;
    } while ((INTERRUPT_STATE & (uint32_t)PENDING) != 0 || before != rounds); /* in this order: it may come between both */
    return ((uint64_t)before << COUNTER_BITS) + ((uint32_t)RELOAD - value);
}

__attribute__((noinline)) uint32_t count(void (*function)(void *const *))
{
    rounds = 0;
    SYSTICK_RELOAD = RELOAD;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = ENABLE | INTERRUPT | CORE_CLOCK;
    while (SYSTICK_VALUE == 0) /* until it is reloaded */
        continue;
    const uint64_t began = elapsed();
    const uint32_t first = cycles_of_debug_unit();
    function(image_pointers);
    const uint32_t last = cycles_of_debug_unit();
    const uint64_t all = elapsed() - began;
    SYSTICK_CONTROL = 0;
    if (all > UINT32_MAX)
        return UINT32_MAX;
    return has_cycles ? last - first : (uint32_t)all;
}
