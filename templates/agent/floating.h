/* SPDX-License-Identifier: Apache-2.0 */
/* The control word of floating point (rounding, traps, flush to zero), which a candidate may leave changed. */
#ifndef EDGETUNE_AGENT_FLOATING_H
#define EDGETUNE_AGENT_FLOATING_H

#include <stdint.h>

static inline uint64_t floating_save(void)
{
    uint64_t word = 0;
#if defined __x86_64__
    uint32_t control;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    word = control & ~0x3fu; /* without what happened so far */
#elif defined __aarch64__
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
#elif defined __arm__ && defined __ARM_FP
    uint32_t control;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(control));
    word = control & ~0x9fu;
#elif defined __riscv_flen
    __asm__ volatile("frcsr %0" : "=r"(word));
#endif
    return word;
}

static inline void floating_restore(uint64_t word)
{
#if defined __x86_64__
    const uint32_t control = (uint32_t)word;
    __asm__ volatile("fninit\nldmxcsr %0" : : "m"(control));
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
#elif defined __arm__ && defined __ARM_FP
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)word));
#elif defined __riscv_flen
    __asm__ volatile("fscsr %0" : : "r"(word));
#else
    (void)word;
#endif
}

#endif
