/* SPDX-License-Identifier: Apache-2.0 */
/* Tries one candidate: a call into outputs full of one byte, then counted calls into outputs full of another. After each
   it looks at the outputs, at what lies around each buffer, at what the candidate must only read, and at the stack. */
#include "image.h"

enum { LONG_CALL = 1 << 24 }; /* cycles from which on one sample is enough */
enum { PATTERN = 0xA5, STACK_WORD = 0x5AC35AC3, OWN_STACK = 256 };
enum { MODE_BITS = 0x07C00000 }; /* AHP, DN, FZ, RMode of FPSCR (ARMv7-M B1.4.7) */

extern uint32_t image_stack_start[], image_stack_end[];
extern const uint32_t image_text_start[], image_text_end[];

static struct {
    struct report report;
    uint32_t cycles[1 + MOST_COUNTED_CALLS]; /* of no call, and of each counted one */
} result;
static struct report *const found = &result.report;
static uint32_t code_sum;

static void conclude(void)
{
    report((const uint32_t *)&result, sizeof result.report / sizeof(uint32_t) + counted_words);
}

static void blame(enum verdict verdict, uint32_t parameter)
{
    found->verdict = verdict;
    found->parameter = parameter;
    conclude();
}

static uint32_t bits_of(real value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t mode(void)
{
    uint32_t status = 0;

#ifdef __ARM_FP
    __asm__ volatile("vmrs %0, fpscr" : "=r"(status));
#endif
    return status & (uint32_t)MODE_BITS;
}

static uint32_t sum_of(const uint8_t *bytes, size_t count)
{
    uint32_t sum = 1;

    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 16777619u; /* FNV-1 */
    return sum;
}

static uint32_t sum_of_code(void)
{
    return sum_of((const uint8_t *)image_text_start, (size_t)((uintptr_t)image_text_end - (uintptr_t)image_text_start));
}

static bool in_ram(const struct parameter *one)
{
    return one->live != one->given;
}

static void place(const struct parameter *one, unsigned call)
{
    memset(one->live - GUARD, PATTERN, GUARD);
    memset(one->live + one->bytes, PATTERN, GUARD);
    if (one->role == INPUT)
        memcpy(one->live, one->given, one->bytes);
    else
        memset(one->live, (int)one->fills[call], one->bytes);
}

static bool whole(const uint8_t *guard)
{
    for (unsigned i = 0; i < GUARD; i++)
        if (guard[i] != PATTERN)
            return false;
    return true;
}

static void look_around(void)
{
    for (uint32_t i = 0; i < image_parameter_count; i++) {
        const struct parameter *one = &image_parameters[i];
        if (in_ram(one) && !whole(one->live - GUARD))
            blame(BEFORE, i);
        if (in_ram(one) && !whole(one->live + one->bytes))
            blame(BEHIND, i);
    }
}

static void judge(void)
{
    real worst = 0;

    for (uint32_t i = 0; i < image_parameter_count; i++) {
        const struct parameter *one = &image_parameters[i];
        if (one->role != OUTPUT || memcmp(one->live, one->given, one->bytes) == 0)
            continue;
        const struct difference difference =
            difference_of((enum element_type)one->type, one->live, one->given, one->elements, one->tolerance);
        if (difference.absolute > worst) {
            worst = difference.absolute;
            found->worst = bits_of(difference.relative);
        }
        if (!difference.allowed && found->verdict == RIGHT) {
            found->verdict = DIFFERS;
            found->parameter = i;
            found->absolute = bits_of(difference.absolute);
            found->relative = bits_of(difference.relative);
        }
    }
}

static void look_at_what_is_read(void)
{
    for (uint32_t i = 0; i < image_parameter_count; i++) {
        const struct parameter *one = &image_parameters[i];
        if (one->role == INPUT && memcmp(one->live, one->given, one->bytes) != 0)
            blame(CHANGED, i);
        if (one->role == CONSTANT && sum_of(one->given, one->bytes) != image_sums[i])
            blame(CHANGED, i);
    }
    if (sum_of_code() != code_sum)
        blame(CODE, 0);
}

static uint32_t stack_used(void)
{
    const uint32_t *lowest = image_stack_start;

    while (lowest < image_stack_end && *lowest == (uint32_t)STACK_WORD)
        lowest++;
    return (uint32_t)((uintptr_t)image_stack_end - (uintptr_t)lowest);
}

static __attribute__((noinline)) void nothing(void *const *buffers)
{
    __asm__ volatile("" ::"r"(buffers));
}

/* Call it once more; `call` 0 is not counted, as what counts it may interrupt the candidate and use its stack. */
static void attempt(unsigned call)
{
    const uint32_t before = mode();

    found->call = call + 1;
    for (uint32_t i = 0; i < image_parameter_count; i++)
        if (in_ram(&image_parameters[i]))
            place(&image_parameters[i], call % 2);
    if (call != 0)
        result.cycles[call] = count(edgetune_call);
    else
        edgetune_call(image_pointers);
    const uint32_t after = mode();
    if (call == 0)
        found->stack = stack_used();
    if (*image_stack_start != (uint32_t)STACK_WORD)
        blame(STACK, 0);
    look_around();
    judge();
    if (found->verdict != RIGHT)
        conclude();
    if (before != after)
        blame(MODE, 0);
    look_at_what_is_read();
}

void run(void)
{
    uint32_t here;

    for (uint32_t *at = image_stack_start; (uintptr_t)at < (uintptr_t)&here - OWN_STACK; at++)
        *at = (uint32_t)STACK_WORD;
    code_sum = sum_of_code();
    for (uint32_t i = 0; i < image_parameter_count; i++)
        if (image_parameters[i].role == CONSTANT)
            image_sums[i] = sum_of(image_parameters[i].given, image_parameters[i].bytes);
    count_start();
    result.cycles[0] = count(nothing);
    for (unsigned call = 0; call <= counted_calls && (call < 2 || result.cycles[call - 1] < (uint32_t)LONG_CALL); call++)
        attempt(call);
    conclude();
}
