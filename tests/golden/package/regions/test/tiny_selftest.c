/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: self-test. Exit status 0 and a last line PASS, or a line for each thing that is wrong.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#define TINY_NO_ATTRIBUTES /* null pointers are passed on purpose */
#include "tiny.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tiny_vectors.h"

/* Without NaN and infinity (-ffinite-math-only, so -ffast-math and -Ofast too) comparisons here would not hold. */
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "NaN and infinity must count here: add to the end of this file's flags: -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros -fno-finite-math-only"
#endif

#define GUARD 64 /* bytes watched on both sides of every buffer the library writes */
#define CANARY 0xC5

typedef double real;

enum element_type { BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 }; /* F64: where `real` is double */

/* An output is right where it has the NaN and infinities of its reference, and no other element is further off than
   `absolute`, or than `relative` times the largest finite magnitude of the reference (1 where all of it is zero). At
   most a `share` of the elements, or one, may be further off than that product alone. BOOL is always exact. */
struct tolerance {
    real relative, absolute, share;
};

/* The largest error, its ratio to the largest magnitude of the reference, what is allowed, and the verdict. */
struct difference {
    real absolute, relative, bound;
    bool allowed;
};

/* Position of a float among all floats, from its bits; `lowest` are the bits of -0. */
static inline int64_t ordered(int64_t bits, int64_t lowest)
{
    return bits < 0 ? lowest - bits : bits;
}

/* Position of an element among all values of its type: the value of an integer (U64: less 2^63), else as `ordered`. */
static inline int64_t position_of(enum element_type type, const void *data, size_t i)
{
    int32_t narrow;
    int64_t wide;

    switch (type) {
    case I8: return ((const int8_t *)data)[i];
    case I16: return ((const int16_t *)data)[i];
    case I32: return ((const int32_t *)data)[i];
    case I64: return ((const int64_t *)data)[i];
    case U16: return ((const uint16_t *)data)[i];
    case U32: return ((const uint32_t *)data)[i];
    case U64: return (int64_t)(((const uint64_t *)data)[i] ^ 0x8000000000000000u);
    case F16:
    case BF16: return ordered(((const int16_t *)data)[i], INT16_MIN);
    case F32:
        memcpy(&narrow, (const float *)data + i, 4);
        return ordered(narrow, INT32_MIN);
    case F64:
        memcpy(&wide, (const real *)data + i, 8);
        return ordered(wide, INT64_MIN);
    default: return ((const uint8_t *)data)[i];
    }
}

/* Distance of two elements: the difference of integers; of floats, units in the last place. */
static inline uint64_t steps_between(enum element_type type, const void *a, const void *b, size_t i)
{
    const int64_t one = position_of(type, a, i), other = position_of(type, b, i);
    return one > other ? (uint64_t)one - (uint64_t)other : (uint64_t)other - (uint64_t)one;
}

static inline real half_value(uint16_t bits)
{
    const unsigned exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    const real sign = (bits & 0x8000u) != 0 ? -1 : 1;

    if (exponent == 31)
        return fraction != 0 ? (real)NAN : sign * (real)INFINITY;
    if (exponent == 0)
        return sign * (real)fraction * (real)0x1p-24f;
    return sign * (real)(1024 + fraction) * (real)(1u << exponent) * (real)0x1p-25f;
}

static inline real value_of(enum element_type type, const void *data, size_t i)
{
    uint32_t bits;
    float value;

    switch (type) {
    case F16: return half_value(((const uint16_t *)data)[i]);
    case BF16:
        bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        memcpy(&value, &bits, 4);
        return (real)value;
    case F32: return (real)((const float *)data)[i];
    case F64: return ((const real *)data)[i];
    case U64: return (real)((const uint64_t *)data)[i];
    default: return (real)position_of(type, data, i);
    }
}

/* Error of an element, exact for integers: 0 for two NaN or equal infinities, infinite for any other pair with one. */
static inline real error_of(enum element_type type, const void *output, const void *reference, size_t i)
{
    if (type < F16)
        return (real)steps_between(type, output, reference, i);
    const real a = value_of(type, output, i), b = value_of(type, reference, i);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? (real)0 : (real)INFINITY;
    return a > b ? a - b : (a < b ? b - a : (real)0);
}

static inline struct difference difference_of(enum element_type type, const void *output, const void *reference,
                                              size_t elements, struct tolerance tolerance)
{
    real largest = 0, absolute = 0;

    if (type == BOOL)
        tolerance = (struct tolerance){0, 0, 1};
    for (size_t i = 0; i < elements; i++) {
        const real value = value_of(type, reference, i), error = error_of(type, output, reference, i);
        const real magnitude = value < 0 ? -value : value;
        if (magnitude > largest && magnitude < (real)INFINITY)
            largest = magnitude;
        if (error > absolute)
            absolute = error;
    }
    if (!(largest > 0))
        largest = 1;
    const real product = tolerance.relative * largest;
    const real bound = tolerance.absolute > product ? tolerance.absolute : product;
    bool allowed = absolute <= bound && absolute < (real)INFINITY;
    if (allowed && tolerance.share < 1) {
        size_t off = 0;
        for (size_t i = 0; i < elements; i++)
            off += error_of(type, output, reference, i) > product;
        allowed = off <= 1 || (real)off <= tolerance.share * (real)elements;
    }
    return (struct difference){absolute, absolute / largest, bound, allowed};
}

typedef struct {
    const char *name;
    size_t elements;
    enum element_type type;
    struct tolerance tolerance;
} tensor;

static const tensor outputs_of_model[] = {
    {"y", 32, F32, {.relative = 0x1.a36e2eb1c432dp-14, .absolute = 0x0p+0, .share = 0x1p+0}},
};

/* The memory of the package, with every part that the library writes between guards. */
static __attribute__((section(".bss.tiny_workspace_dtcm"))) _Alignas(64) unsigned char watched_workspace_dtcm[GUARD + TINY_WORKSPACE_DTCM_BYTES + GUARD];
static _Alignas(64) unsigned char watched_workspace_sram[GUARD + TINY_WORKSPACE_SRAM_BYTES + GUARD];
static struct {
    tiny_ctx ctx;
    _Alignas(64) unsigned char output_y[GUARD + TINY_OUTPUT_Y_BYTES + GUARD];
} tested;

static int failures;

static void expect(int good, const char *what)
{
    if (!good) {
        printf("FAIL: %s\n", what);
        failures++;
    }
}

/* Prints the distance of one output from its golden vector and says whether it is near enough. */
static int near_enough(const tensor *t, const void *got, const void *wanted, unsigned index, unsigned number)
{
    const struct difference found = difference_of(t->type, got, wanted, t->elements, t->tolerance);
    uint64_t ulp = 0;
    size_t differing = 0;

    for (size_t i = 0; i < t->elements; i++) {
        if (error_of(t->type, got, wanted, i) > 0) {
            const uint64_t steps = steps_between(t->type, got, wanted, i);
            ulp = steps > ulp ? steps : ulp;
            differing++;
        }
    }
    const real share = t->elements > 0 ? (real)differing / (real)t->elements : 0;
    printf("case %u output %u max_abs %.9g max_rel %.9g ulp %.9g differing %.6f bound %.9g %s (%s)\n", number, index,
           found.absolute, found.relative, (double)ulp, share, found.bound, found.allowed ? "ok" : "WRONG", t->name);
    return found.allowed;
}

static int guarded(const unsigned char *buffer, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (buffer[i] != CANARY || buffer[GUARD + bytes + i] != CANARY)
            return 0;
    }
    return 1;
}

static tiny_status run(tiny_ctx *ctx, unsigned number)
{
    tiny_inputs inputs;
    tiny_outputs outputs;

    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    inputs.x = (const float *)tiny_vector_inputs[number][0];
    outputs.y = (float *)(void *)(tested.output_y + GUARD);
    return tiny_run(ctx, &inputs, &outputs);
}

static tiny_workspaces all_workspaces(void)
{
    const tiny_workspaces all = {
        .dtcm = watched_workspace_dtcm + GUARD, .dtcm_bytes = TINY_WORKSPACE_DTCM_BYTES,
        .sram = watched_workspace_sram + GUARD, .sram_bytes = TINY_WORKSPACE_SRAM_BYTES,
    };

    return all;
}

static tiny_status init(tiny_ctx *ctx)
{
    const tiny_workspaces all = all_workspaces();

    return tiny_init(ctx, &all);
}

static tiny_status start(tiny_ctx *ctx)
{
    return init(ctx);
}

static void prepare(unsigned char filler)
{
    memset(watched_workspace_dtcm, CANARY, sizeof watched_workspace_dtcm);
    memset(watched_workspace_dtcm + GUARD, filler, TINY_WORKSPACE_DTCM_BYTES);
    memset(watched_workspace_sram, CANARY, sizeof watched_workspace_sram);
    memset(watched_workspace_sram + GUARD, filler, TINY_WORKSPACE_SRAM_BYTES);
    memset(tested.output_y, CANARY, sizeof tested.output_y);
    expect(start(&tested.ctx) == TINY_OK, "good workspaces");
}

static void compare(unsigned number)
{
    expect(near_enough(&outputs_of_model[0], tested.output_y + GUARD, tiny_vector_outputs[number][0], 0, number),
           "an output is too far from its golden vector");
    expect(guarded(tested.output_y, TINY_OUTPUT_Y_BYTES), "something was written beside an output");
    expect(guarded(watched_workspace_dtcm, TINY_WORKSPACE_DTCM_BYTES), "something was written beside the workspace in dtcm");
    expect(guarded(watched_workspace_sram, TINY_WORKSPACE_SRAM_BYTES), "something was written beside the workspace in sram");
}

#ifndef TINY_NO_PROFILER
/* Before the first layer nothing lies in the workspace yet. So another instance may use it for a whole run of another
   case: no pointer of one run may reach the other. */
static void interrupt(void *user, unsigned layer, const char *name, int end)
{
    unsigned *seen = (unsigned *)user;

    expect(name != NULL && name[0] != '\0', "a layer has a name");
    if (!end && layer == 0) {
        tiny_ctx other;

        expect(start(&other) == TINY_OK && run(&other, TINY_CASES - 1) == TINY_OK, "another instance inside a run");
        compare(TINY_CASES - 1);
    }
    *seen += end ? 1u : 0u;
}
#endif

static void check_refusals(void)
{
    tiny_ctx ctx;
    const tiny_workspaces good = all_workspaces();
    tiny_workspaces bad = good;
    tiny_inputs inputs;
    tiny_outputs outputs;

    memset(&ctx, 0, sizeof ctx);
    expect(tiny_run(&ctx, NULL, NULL) == TINY_ERR_NULL, "null structs are refused");
    expect(tiny_init(NULL, &good) == TINY_ERR_NULL, "a null context is refused");
    expect(tiny_init(&ctx, NULL) == TINY_ERR_NULL, "a null struct of workspaces is refused");
    bad.dtcm = NULL;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_NULL, "the workspace in dtcm is refused where it is null");
    bad.dtcm = watched_workspace_dtcm + GUARD + 1;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_WORKSPACE_ALIGN, "the workspace in dtcm is refused where it is misaligned");
    bad = good;
    bad.dtcm_bytes--;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_WORKSPACE_SIZE, "the workspace in dtcm is refused where it is too small");
    bad = good;
    bad.sram = NULL;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_NULL, "the workspace in sram is refused where it is null");
    bad.sram = watched_workspace_sram + GUARD + 1;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_WORKSPACE_ALIGN, "the workspace in sram is refused where it is misaligned");
    bad = good;
    bad.sram_bytes--;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_WORKSPACE_SIZE, "the workspace in sram is refused where it is too small");
    bad = good;
    bad.sram = bad.dtcm;
    expect(tiny_init(&ctx, &bad) == TINY_ERR_WORKSPACE_SIZE, "workspaces that overlap are refused");
    tiny_deinit(&tested.ctx);
    expect(run(&tested.ctx, 0) == TINY_ERR_NOT_READY, "a run after deinit is refused");
    tiny_deinit(NULL);
    prepare(0);
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    expect(tiny_run(&tested.ctx, &inputs, &outputs) == TINY_ERR_NULL, "null tensors are refused");
    inputs.x = (const float *)(const void *)good.dtcm;
    expect(tiny_run(&tested.ctx, &inputs, &outputs) == TINY_ERR_TENSOR_OVERLAP, "an input in the workspace in dtcm is refused");
    inputs.x = (const float *)(const void *)good.sram;
    expect(tiny_run(&tested.ctx, &inputs, &outputs) == TINY_ERR_TENSOR_OVERLAP, "an input in the workspace in sram is refused");
    memset(&inputs, 0, sizeof inputs);
    inputs.x = (const float *)tiny_vector_inputs[0][0];
    outputs.y = (float *)(void *)(tested.output_y + GUARD);
    inputs.x = (const float *)(const void *)(tested.output_y + GUARD);
    expect(tiny_run(&tested.ctx, &inputs, &outputs) == TINY_ERR_TENSOR_OVERLAP, "an output over an input is refused");
    expect(tiny_workspace_dtcm_size() == TINY_WORKSPACE_DTCM_BYTES, "workspace_dtcm_size() is the macro");
    expect(tiny_workspace_sram_size() == TINY_WORKSPACE_SRAM_BYTES, "workspace_sram_size() is the macro");
    for (int status = TINY_OK; status >= TINY_ERR_WEIGHTS; status--)
        expect(tiny_strerror((tiny_status)status) != NULL, "every status has a sentence");
}

int main(void)
{
#ifndef TINY_NO_PROFILER
    unsigned seen = 0;
#endif

    printf("%s\n", tiny_build_info());
    if (init(&tested.ctx) == TINY_ERR_CPU) {
        printf("FAIL: %s\n", tiny_strerror(TINY_ERR_CPU));
        return 1;
    }
    for (unsigned number = 0; number < TINY_CASES; number++) {
        prepare(number % 2 == 0 ? 0xFF : 0x00); /* what the workspace holds before must not matter */
#ifndef TINY_NO_PROFILER
        if (number == 0)
            tiny_set_profiler(&tested.ctx, interrupt, &seen);
#endif
        expect(run(&tested.ctx, number) == TINY_OK, "a run");
        compare(number);
    }
#ifndef TINY_NO_PROFILER
    expect(seen == TINY_LAYERS, "the profiler sees every layer");
#endif
    check_refusals();
    if (failures != 0) {
        printf("FAIL (%d)\n", failures);
        return 1;
    }
    printf("PASS\n");
    return 0;
}
