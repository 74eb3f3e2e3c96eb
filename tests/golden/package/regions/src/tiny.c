/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: the call order and the memory plan.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_NO_ATTRIBUTES
#ifdef TINY_H
#error "include tiny.c before tiny.h, or define TINY_NO_ATTRIBUTES: here null must not be assumed away"
#endif
#define TINY_NO_ATTRIBUTES /* arguments are checked here, so null must not be assumed away */
#endif
#include "tiny.h"

#include "tiny_kernels.h"
#include "tiny_rt.h"
#include "tiny_weights.h"

#if TINY_ABI != 0x9d80a5edu
#error "tiny.h and tiny.c are of different packages: take both from the same folder"
#endif

typedef struct __attribute__((may_alias)) {
    struct {
        unsigned char *dtcm;
        unsigned char *sram;
    } at; /* the workspaces */
#ifndef TINY_NO_PROFILER
    tiny_profile_fn hook;
    void *user;
#endif
    uint32_t magic;
} tiny__state;

#define TINY__READY 0x9d80a5edu

_Static_assert(sizeof(tiny__state) <= sizeof(tiny_ctx), "an instance fits into its context");
_Static_assert(_Alignof(tiny__state) <= _Alignof(tiny_ctx), "a context is aligned for an instance");
_Static_assert(sizeof(tiny_inputs) == 1 * sizeof(void *), "inputs are pointers only");
_Static_assert(sizeof(tiny_outputs) == 1 * sizeof(void *), "outputs are pointers only");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "IEEE 754 formats");
_Static_assert(TINY_WORKSPACE_DTCM_BYTES == 128u, "the memory plan below is that of the header");
_Static_assert(TINY_WORKSPACE_SRAM_BYTES == 192u, "the memory plan below is that of the header");

/*
 * Memory plan: offsets into the workspace of each region, in bytes.
 * In all 320 bytes; no plan can need fewer than 256 (the largest sum of tensors alive at once, reached at
 * layer 1).
 */
/* In the workspace in dtcm: */
#define TINY__SCRATCH_0 0u /* 64 bytes, layers 0 to 0: scratch of Mul * / one + Add */
#define TINY__AT_4 0u /* 128 bytes, layers 1 to 2: second scale */
/* In the workspace in sram: */
#define TINY__AT_2 0u /* 128 bytes, layers 0 to 1: Mul * / one + Add */
#define TINY__SCRATCH_1 128u /* 64 bytes, layers 1 to 1: scratch of second scale */

/* Kernels take the caller's tensors as restrict: no two may share a byte where one of them is written. */
static int tiny__overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;

    return a_bytes != 0 && b_bytes != 0 && first < second + b_bytes && second < first + a_bytes;
}

static tiny_status tiny__check(const tiny__state *s, const void *tensor, size_t bytes, size_t alignment)
{
    if (tensor == NULL)
        return TINY_ERR_NULL;
    if ((uintptr_t)tensor % alignment != 0)
        return TINY_ERR_TENSOR_ALIGN;
    if (tiny__overlap(tensor, bytes, s->at.dtcm, TINY_WORKSPACE_DTCM_BYTES))
        return TINY_ERR_TENSOR_OVERLAP;
    if (tiny__overlap(tensor, bytes, s->at.sram, TINY_WORKSPACE_SRAM_BYTES))
        return TINY_ERR_TENSOR_OVERLAP;
    return TINY_OK;
}

size_t tiny_workspace_dtcm_size(void)
{
    return TINY_WORKSPACE_DTCM_BYTES;
}

size_t tiny_workspace_sram_size(void)
{
    return TINY_WORKSPACE_SRAM_BYTES;
}

/* One workspace of `bytes` bytes, of which `least` are needed. */
static tiny_status tiny__check_workspace(const void *workspace, size_t bytes, size_t least)
{
    if (workspace == NULL)
        return TINY_ERR_NULL;
    if (bytes < least)
        return TINY_ERR_WORKSPACE_SIZE;
    if ((uintptr_t)workspace % TINY_WORKSPACE_ALIGN != 0)
        return TINY_ERR_WORKSPACE_ALIGN;
    return TINY_OK;
}

tiny_status tiny_init(tiny_ctx *ctx, const tiny_workspaces *workspaces)
{
    tiny__state *s = (tiny__state *)ctx;
    tiny_status status;

    if (ctx == NULL)
        return TINY_ERR_NULL;
    s->magic = 0;
    if (workspaces == NULL)
        return TINY_ERR_NULL;
    status = tiny__check_workspace(workspaces->dtcm, workspaces->dtcm_bytes, TINY_WORKSPACE_DTCM_BYTES);
    if (status != TINY_OK)
        return status;
    status = tiny__check_workspace(workspaces->sram, workspaces->sram_bytes, TINY_WORKSPACE_SRAM_BYTES);
    if (status != TINY_OK)
        return status;
    if (tiny__overlap(workspaces->sram, TINY_WORKSPACE_SRAM_BYTES, workspaces->dtcm, TINY_WORKSPACE_DTCM_BYTES))
        return TINY_ERR_WORKSPACE_SIZE;
    if (!tiny__cpu_supported())
        return TINY_ERR_CPU;
    s->at.dtcm = (unsigned char *)workspaces->dtcm;
    s->at.sram = (unsigned char *)workspaces->sram;
#ifndef TINY_NO_PROFILER
    s->hook = NULL;
    s->user = NULL;
#endif
    s->magic = TINY__READY;
    return TINY_OK;
}

#ifndef TINY_NO_PROFILER
void tiny_set_profiler(tiny_ctx *ctx, tiny_profile_fn hook, void *user)
{
    tiny__state *s = (tiny__state *)ctx;

    if (ctx == NULL)
        return;
    s->hook = hook;
    s->user = user;
}
#endif

void tiny_deinit(tiny_ctx *ctx)
{
    if (ctx != NULL)
        ((tiny__state *)ctx)->magic = 0;
}

#define ARENA(region, slot) ((void *)(s->at.region + TINY__##slot))

/*
 * The layers in their order: each kernel, what it reads and what it writes. Begins at layer `first`, and does that one
 * alone or all from there on. Inlined where both are known: then no layer tests anything.
 */
#define NEXT_LAYER \
    if (alone) \
        return; \
    __attribute__((fallthrough))

static inline __attribute__((always_inline)) void tiny__call_layers(
    const tiny__state *s, const tiny_inputs *inputs, const tiny_outputs *outputs, unsigned first, int alone)
{

    switch (first) {
    case 0: /* Mul * / one + Add -> 4x8 */
        tiny__k_scale_add(inputs->x, tiny__w0, ARENA(sram, AT_2), ARENA(dtcm, SCRATCH_0));
        NEXT_LAYER;
    case 1: /* second scale -> 4x8 */
        tiny__k_scale_add(ARENA(sram, AT_2), tiny__w1, ARENA(dtcm, AT_4), ARENA(sram, SCRATCH_1));
        NEXT_LAYER;
    case 2: /* Add -> 4x8 */
        tiny__k_add(ARENA(dtcm, AT_4), inputs->x, outputs->y);
        break;
    }
}

#ifndef TINY_NO_PROFILER
/* One after the other: an array of pointers would be written by a loader. */
static const char tiny__layer_names[] =
    "Mul * / one + Add" "\0"
    "second scale" "\0"
    "Add" "\0"
    "";

static __attribute__((noinline)) void tiny__profile_layers(
    const tiny__state *s, const tiny_inputs *inputs, const tiny_outputs *outputs)
{
    const tiny_profile_fn hook = s->hook;
    void *const user = s->user;
    const char *name = tiny__layer_names;

    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        hook(user, layer, name, 0);
        tiny__call_layers(s, inputs, outputs, layer, 1);
        hook(user, layer, name, 1);
        while (*name++ != '\0')
            ;
    }
}
#endif

tiny_status tiny_run(tiny_ctx *ctx, const tiny_inputs *inputs, const tiny_outputs *outputs)
{
    const tiny__state *s = (const tiny__state *)ctx;
    tiny_status status;

    if (ctx == NULL || inputs == NULL || outputs == NULL)
        return TINY_ERR_NULL;
    if (s->magic != TINY__READY)
        return TINY_ERR_NOT_READY;
    status = tiny__check(s, inputs->x, TINY_INPUT_X_BYTES, 4);
    if (status != TINY_OK)
        return status;
    status = tiny__check(s, outputs->y, TINY_OUTPUT_Y_BYTES, 4);
    if (status != TINY_OK)
        return status;
    if (tiny__overlap(outputs->y, TINY_OUTPUT_Y_BYTES, inputs->x, TINY_INPUT_X_BYTES))
        return TINY_ERR_TENSOR_OVERLAP;

#ifndef TINY_NO_PROFILER
    if (s->hook != NULL) {
        tiny__profile_layers(s, inputs, outputs);
        return status;
    }
#endif
    tiny__call_layers(s, inputs, outputs, 0, 0);
    return status;
}

const char *tiny_strerror(tiny_status status)
{
    switch (status) {
    case TINY_OK:
        return "no error";
    case TINY_ERR_NULL:
        return "a pointer is null that must not be";
    case TINY_ERR_WORKSPACE_SIZE:
        return "a workspace has fewer bytes than its macro says, or overlaps another";
    case TINY_ERR_WORKSPACE_ALIGN:
        return "a workspace is not aligned to TINY_WORKSPACE_ALIGN bytes";
    case TINY_ERR_CPU:
        return "this CPU lacks instructions that the kernels were compiled for";
    case TINY_ERR_NOT_READY:
        return "the context is not initialised";
    case TINY_ERR_TENSOR_ALIGN:
        return "an input or output is not aligned as the header asks";
    case TINY_ERR_TENSOR_OVERLAP:
        return "an input or output overlaps a workspace, or an output another tensor";
    case TINY_ERR_WEIGHTS:
        return "the weights are not bound, too small or misaligned";
    default:
        return "unknown status";
    }
}

const char *tiny_build_info(void)
{
    return "tiny 1.0.0, model sha256 abababababababababababababababababababababababababababababababab, target plain-x86, edgetune 0.1.0, abi 9d80a5ed";
}

/* Short names end here: another package in the same translation unit has its own. */
#undef NEXT_LAYER
#undef ARENA
