/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: self-test. Exit status 0 and a last line PASS, or a line for each thing that is wrong.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#define TINY_NO_ATTRIBUTES /* null pointers are passed on purpose */
#include "tiny.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tiny_vectors.h"

/* Without NaN and infinity (-ffinite-math-only, so -ffast-math and -Ofast too) comparisons here would not hold. */
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "NaN and infinity must count here: add to the end of this file's flags: -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros -fno-finite-math-only"
#endif

#define GUARD 64 /* bytes watched on both sides of every buffer the library writes */
#define CANARY 0xC5

typedef enum { F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64 } element_type;

/* An output passes where |error| <= absolute + relative * (largest magnitude expected). */
typedef struct {
    const char *name;
    size_t elements;
    size_t bytes;
    element_type type;
    double relative;
    double absolute;
} tensor;

static const tensor outputs_of_model[] = {
    {"y", 32, 128, F32, 0x1.a36e2eb1c432dp-14, 0x0p+0},
};

/* An instance with its memory, every writable part of it between guards. */
typedef struct {
    tiny_ctx ctx;
    _Alignas(64) unsigned char workspace[GUARD + TINY_WORKSPACE_BYTES + GUARD];
    _Alignas(64) unsigned char output_y[GUARD + TINY_OUTPUT_Y_BYTES + GUARD];
} instance;

static instance first, second;
static int failures;

static void expect(int good, const char *what)
{
    if (!good) {
        printf("FAIL: %s\n", what);
        failures++;
    }
}

static double half_value(uint16_t bits)
{
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    const int exponent = (bits >> 10) & 31;
    const double fraction = (double)(bits & 0x3ffu);

    if (exponent == 31)
        return fraction > 0.0 ? (double)NAN : sign * (double)INFINITY;
    return exponent == 0 ? sign * ldexp(fraction, -24) : sign * ldexp(fraction + 1024.0, exponent - 25);
}

static double bfloat_value(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float result;

    memcpy(&result, &wide, 4);
    return (double)result;
}

static double value(const void *data, element_type type, size_t i)
{
    switch (type) {
    case F32:
        return (double)((const float *)data)[i];
    case F64:
        return ((const double *)data)[i];
    case F16:
        return half_value(((const uint16_t *)data)[i]);
    case BF16:
        return bfloat_value(((const uint16_t *)data)[i]);
    case I8:
        return ((const int8_t *)data)[i];
    case I16:
        return ((const int16_t *)data)[i];
    case I32:
        return ((const int32_t *)data)[i];
    case I64:
        return (double)((const int64_t *)data)[i];
    case U8:
        return ((const uint8_t *)data)[i];
    case U16:
        return ((const uint16_t *)data)[i];
    case U32:
        return ((const uint32_t *)data)[i];
    default:
        return (double)((const uint64_t *)data)[i];
    }
}

/* Position of a float among all floats of its format; the value itself for integers, less 2^63 for U64. */
static int64_t position(const void *data, element_type type, size_t i)
{
    int64_t wide;
    uint64_t whole;
    int32_t bits;
    uint16_t half;

    switch (type) {
    case I64:
        return ((const int64_t *)data)[i];
    case U64: /* less 2^63, so that the order stays */
        whole = ((const uint64_t *)data)[i] ^ 0x8000000000000000u;
        memcpy(&wide, &whole, 8);
        return wide;
    case F32:
        memcpy(&bits, (const unsigned char *)data + 4 * i, 4);
        return bits < 0 ? -(int64_t)(bits & 0x7fffffff) : bits;
    case F64:
        memcpy(&wide, (const unsigned char *)data + 8 * i, 8);
        return wide < 0 ? -(wide & 0x7fffffffffffffff) : wide;
    case F16:
    case BF16:
        memcpy(&half, (const unsigned char *)data + 2 * i, 2);
        return half > 0x7fffu ? -(int64_t)(half & 0x7fffu) : half;
    default:
        return (int64_t)value(data, type, i);
    }
}

/* Floats of the format that lie between two values: the distance in units of the last place. */
static double distance(int64_t a, int64_t b)
{
    if ((a < 0) != (b < 0))
        return fabs((double)a) + fabs((double)b);
    return fabs((double)(a - b));
}

/* Prints the distance of one output from its golden vector and says whether it is near enough. */
static int near_enough(const tensor *t, const void *got, const void *wanted, unsigned index, unsigned number)
{
    double largest = 0.0, max_abs = 0.0, max_rel = 0.0, max_ulp = 0.0, differing = 0.0;
    int good = 1;

    for (size_t i = 0; i < t->elements; i++) {
        const double magnitude = fabs(value(wanted, t->type, i));
        if (isfinite(magnitude) && magnitude > largest)
            largest = magnitude;
    }
    const double bound = t->absolute + t->relative * (largest > 0.0 ? largest : 1.0);
    for (size_t i = 0; i < t->elements; i++) {
        const double a = value(got, t->type, i), b = value(wanted, t->type, i);
        if (!isfinite(a) || !isfinite(b)) {
            good = good && ((isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && signbit(a) == signbit(b)));
            continue;
        }
        const double error = fabs(a - b);
        differing += error > 0.0 ? 1.0 : 0.0;
        const double ulp = distance(position(got, t->type, i), position(wanted, t->type, i));
        max_abs = error > max_abs ? error : max_abs;
        max_ulp = ulp > max_ulp ? ulp : max_ulp;
        if (fabs(b) > 0.0 && error / fabs(b) > max_rel)
            max_rel = error / fabs(b);
    }
    good = good && max_abs <= bound;
    if ((t->type == I64 || t->type == U64) && bound <= 0.0) /* a double cannot tell neighbours apart there */
        good = good && memcmp(got, wanted, t->bytes) == 0;
    printf("case %u output %u max_abs %.9g max_rel %.9g ulp %.9g differing %.6f bound %.9g %s (%s)\n", number, index,
           max_abs, max_rel, max_ulp, t->elements > 0 ? differing / (double)t->elements : 0.0, bound, good ? "ok" : "WRONG", t->name);
    return good;
}

static int guarded(const unsigned char *buffer, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (buffer[i] != CANARY || buffer[GUARD + bytes + i] != CANARY)
            return 0;
    }
    return 1;
}

static tiny_status run(instance *it, unsigned number)
{
    tiny_inputs inputs;
    tiny_outputs outputs;

    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    inputs.x = (const float *)tiny_vector_inputs[number][0];
    outputs.y = (float *)(void *)(it->output_y + GUARD);
    return tiny_run(&it->ctx, &inputs, &outputs);
}

static void prepare(instance *it, unsigned char filler)
{
    memset(it->workspace, CANARY, sizeof it->workspace);
    memset(it->workspace + GUARD, filler, TINY_WORKSPACE_BYTES);
    memset(it->output_y, CANARY, sizeof it->output_y);
    expect(tiny_init(&it->ctx, it->workspace + GUARD, TINY_WORKSPACE_BYTES) == TINY_OK, "init of a good workspace");
}

static void compare(const instance *it, unsigned number)
{
    expect(near_enough(&outputs_of_model[0], it->output_y + GUARD, tiny_vector_outputs[number][0], 0, number),
           "an output is too far from its golden vector");
    expect(guarded(it->output_y, TINY_OUTPUT_Y_BYTES), "something was written beside an output");
    expect(guarded(it->workspace, TINY_WORKSPACE_BYTES), "something was written beside the workspace");
}

/* Runs the whole second instance in the middle of a run of the first: they must not know of each other. */

#ifndef TINY_NO_PROFILER
static void interrupt(void *user, unsigned layer, const char *name, int end)
{
    unsigned *seen = (unsigned *)user;

    expect(name != NULL && name[0] != '\0', "a layer has a name");
    if (!end && layer == TINY_LAYERS / 2)
        expect(run(&second, 0) == TINY_OK, "a second instance inside a run of the first");
    *seen += end ? 1u : 0u;
}
#endif

static void check_refusals(void)
{
    tiny_ctx ctx;
    unsigned char *workspace = first.workspace + GUARD;
    tiny_inputs inputs;
    tiny_outputs outputs;

    memset(&ctx, 0, sizeof ctx);
    expect(tiny_run(&ctx, NULL, NULL) == TINY_ERR_NULL, "null structs are refused");
    expect(tiny_init(NULL, workspace, TINY_WORKSPACE_BYTES) == TINY_ERR_NULL, "a null context is refused");
    expect(tiny_init(&ctx, NULL, TINY_WORKSPACE_BYTES) == TINY_ERR_NULL, "a null workspace is refused");
    expect(tiny_init(&ctx, workspace, TINY_WORKSPACE_BYTES - 1u) == TINY_ERR_WORKSPACE_SIZE, "a workspace that is too small is refused");
    expect(tiny_init(&ctx, workspace + 1, TINY_WORKSPACE_BYTES) == TINY_ERR_WORKSPACE_ALIGN, "a misaligned workspace is refused");
    tiny_deinit(&first.ctx);
    expect(run(&first, 0) == TINY_ERR_NOT_READY, "a run after deinit is refused");
    tiny_deinit(NULL);
    prepare(&first, 0);
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    expect(tiny_run(&first.ctx, &inputs, &outputs) == TINY_ERR_NULL, "null tensors are refused");
    inputs.x = (const float *)(const void *)workspace;
    expect(tiny_run(&first.ctx, &inputs, &outputs) == TINY_ERR_TENSOR_OVERLAP, "an input in the workspace is refused");
    memset(&inputs, 0, sizeof inputs);
    inputs.x = (const float *)tiny_vector_inputs[0][0];
    outputs.y = (float *)(void *)(first.output_y + GUARD);
    inputs.x = (const float *)(const void *)(first.output_y + GUARD);
    expect(tiny_run(&first.ctx, &inputs, &outputs) == TINY_ERR_TENSOR_OVERLAP, "an output over an input is refused");
    expect(tiny_workspace_size() == TINY_WORKSPACE_BYTES, "workspace_size() is the macro");
    for (int status = TINY_OK; status >= TINY_ERR_WEIGHTS; status--)
        expect(tiny_strerror((tiny_status)status) != NULL, "every status has a sentence");
}

int main(void)
{
#ifndef TINY_NO_PROFILER
    unsigned seen = 0;
#endif

    printf("%s\n", tiny_build_info());
    if (tiny_init(&first.ctx, first.workspace + GUARD, TINY_WORKSPACE_BYTES) == TINY_ERR_CPU) {
        printf("FAIL: %s\n", tiny_strerror(TINY_ERR_CPU));
        return 1;
    }
    for (unsigned number = 0; number < TINY_CASES; number++) {
        prepare(&first, number % 2 == 0 ? 0xFF : 0x00); /* what the workspace holds before must not matter */
        if (number == 0) {
            prepare(&second, 0x7F);
#ifndef TINY_NO_PROFILER
            tiny_set_profiler(&first.ctx, interrupt, &seen);
#else
            expect(run(&second, 0) == TINY_OK, "a second instance");
#endif
        }
        expect(run(&first, number) == TINY_OK, "a run");
        compare(&first, number);
        if (number == 0) {
#ifndef TINY_NO_PROFILER
            expect(seen == TINY_LAYERS, "the profiler sees every layer");
#endif
            compare(&second, 0);
        }
    }
    check_refusals();
    if (failures != 0) {
        printf("FAIL (%d)\n", failures);
        return 1;
    }
    printf("PASS\n");
    return 0;
}
