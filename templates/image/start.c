/* SPDX-License-Identifier: Apache-2.0 */
/* Starts an image: vectors, floating-point unit, variables; reports what it finds, or the fault that ends it. */
#include "image.h"

/* Places that the linker script defines: only their addresses mean something. */
extern uint32_t image_stack_start[], image_stack_end[], image_bss_start[], image_bss_end[], image_data_start[], image_data_end[];
extern const uint32_t image_data_load[];

void image_reset(void);
void image_fault(const uint32_t *frame, uint32_t exception);

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector;

static const vector vectors[16];

/* Semihosting (ARM, "Semihosting for AArch32 and AArch64"), which emulators and debuggers answer. */
static void semihost(uint32_t call, const void *argument)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static char *hexadecimal(char *at, uint32_t word)
{
    *at++ = ' ';
    for (int shift = 28; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[word >> shift & 15u];
    return at;
}

void report(const uint32_t *words, unsigned count)
{
    static char line[16 + 9 * 16] = "edgetune:";
    char *at = hexadecimal(line + 9, image_identity);

    for (unsigned i = 0; i < count; i++)
        at = hexadecimal(at, words[i]);
    *at++ = '\n';
    *at = 0;
    semihost(0x04, line);                     /* SYS_WRITE0 */
    semihost(0x18, (const void *)0x20026u);   /* SYS_EXIT, ADP_Stopped_ApplicationExit */
    for (;;)
        continue;
}

void image_reset(void)
{
    const uint32_t *from = image_data_load;

#ifdef __ARM_FP
    volatile uint32_t *const coprocessor_access = (volatile uint32_t *)0xE000ED88u; /* CPACR, ARMv7-M B3.2.20 */
    *coprocessor_access |= 0xFu << 20;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    *(volatile uint32_t *)0xE000ED08u = (uint32_t)(uintptr_t)vectors; /* VTOR: a boot loader or a debugger came first */
    for (uint32_t *to = image_data_start; to < image_data_end; to++)
        *to = *from++;
    for (uint32_t *to = image_bss_start; to < image_bss_end; to++)
        *to = 0;
    image_board();
    __asm__ volatile("cpsie i" ::: "memory"); /* SysTick interrupts; a boot loader may have left them off */
    run();
}

/* The frame is what the core has pushed (ARMv7-M B1.5.6): r0 to r3, r12, lr, pc, xpsr. Where the stack has overflowed,
   there is none. */
__attribute__((used)) void image_fault(const uint32_t *frame, uint32_t exception)
{
    if (frame < image_stack_start || frame + 8 > image_stack_end) {
        const struct report overflow = {.verdict = STACK};
        report((const uint32_t *)&overflow, sizeof overflow / sizeof(uint32_t));
    }
    uint32_t words[] = {FAULT, exception & 0x1FFu, frame[6], 0, 0, 0, 0, 0};

#if __ARM_ARCH > 6
    words[3] = *(volatile uint32_t *)0xE000ED28u; /* CFSR */
    words[4] = *(volatile uint32_t *)0xE000ED2Cu; /* HFSR */
    words[5] = *(volatile uint32_t *)0xE000ED34u; /* MMFAR */
    words[6] = *(volatile uint32_t *)0xE000ED38u; /* BFAR */
#endif
#if __ARM_ARCH >= 8 && defined __ARM_FEATURE_CMSE
    words[7] = *(volatile uint32_t *)0xE000EDE4u; /* SFSR */
#endif
    report(words, sizeof words / sizeof *words);
}

/* On a stack of its own: that of the candidate may be what is wrong. */
static __attribute__((naked)) void fault(void)
{
    __asm__ volatile("mrs r0, msp\n\tmrs r1, ipsr\n\tldr r2, =image_fault_stack_end\n\tmsr msp, r2\n\t"
                     "ldr r2, =image_fault\n\tbx r2\n\t.ltorg");
}

void image_tick(void) __attribute__((weak, alias("fault"))); /* cycles.c has its own */

__attribute__((weak)) void image_board(void)
{
}

/* The vector table (ARMv7-M B1.5.3): initial stack pointer, reset, and the exceptions of the core. */
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {.stack = image_stack_end}, {.handler = image_reset}, {.handler = fault}, {.handler = fault},
    {.handler = fault},         {.handler = fault},       {.handler = fault}, {.handler = fault},
    {.handler = fault},         {.handler = fault},       {.handler = fault}, {.handler = fault},
    {.handler = fault},         {.handler = fault},       {.handler = fault}, {.handler = image_tick},
};
