/* SPDX-License-Identifier: Apache-2.0 */
/* The mode of floating point (rounding, traps, flush to zero), which a candidate may leave changed. */
#ifndef EDGETUNE_AGENT_FLOATING_H
#define EDGETUNE_AGENT_FLOATING_H

#include <stdint.h>

/* The control words, without flags that tell what happened so far. */
static inline uint64_t floating_mode(void)
{
    uint64_t word = 0;
#if defined __x86_64__
    uint32_t vectors;
    uint16_t stack;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(vectors), "=m"(stack));
    word = (vectors & 0xffc0u) | (uint64_t)(stack & 0x0f3fu) << 32;
#elif defined __aarch64__
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
#elif defined __arm__ && defined __ARM_FP
    uint32_t control;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(control));
    word = control & 0x07f79f00u;
#elif defined __riscv_flen
    __asm__ volatile("frrm %0" : "=r"(word));
#endif
    return word;
}

static inline void floating_restore(uint64_t word)
{
#if defined __x86_64__
    const uint32_t vectors = (uint32_t)word;
    const uint16_t stack = (uint16_t)(word >> 32 | 0x40u); /* a bit that is always set */
    __asm__ volatile("fninit\n\tfldcw %1\n\tldmxcsr %0" : : "m"(vectors), "m"(stack));
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
#elif defined __arm__ && defined __ARM_FP
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)word));
#elif defined __riscv_flen
    __asm__ volatile("fsrm %0" : : "r"(word));
#else
    (void)word;
#endif
}

#endif
