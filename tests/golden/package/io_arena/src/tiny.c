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

#if TINY_ABI != 0x575ff883u
#error "tiny.h and tiny.c are of different packages: take both from the same folder"
#endif

typedef struct __attribute__((may_alias)) {
    unsigned char *workspace;
#ifndef TINY_NO_PROFILER
    tiny_profile_fn hook;
    void *user;
#endif
    uint32_t magic;
} tiny__state;

#define TINY__READY 0x575ff883u

_Static_assert(sizeof(tiny__state) <= sizeof(tiny_ctx), "an instance fits into its context");
_Static_assert(_Alignof(tiny__state) <= _Alignof(tiny_ctx), "a context is aligned for an instance");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "IEEE 754 formats");
_Static_assert(TINY_WORKSPACE_BYTES == 384u, "the memory plan below is that of the header");

/*
 * Memory plan: offsets into the workspace, in bytes.
 * Peak 384 bytes; no plan can need fewer than 384 (the largest sum of tensors alive at once, reached at
 * layer 1).
 */
#define TINY__AT_0 TINY_INPUT_X_OFFSET /* 128 bytes, layers up to 2: input x */
#define TINY__AT_2 128u /* 128 bytes, layers 0 to 1: Mul * / one + Add */
#define TINY__AT_4 256u /* 128 bytes, layers 1 to 2: second scale */
#define TINY__AT_5 TINY_OUTPUT_Y_OFFSET /* 128 bytes, layers from 2 on: output y */

/* Where the tensors of the interface are. */
_Static_assert(TINY_INPUT_X_OFFSET % TINY_WORKSPACE_ALIGN == 0u, "it is aligned as the workspace is");
_Static_assert(TINY_INPUT_X_OFFSET + TINY_INPUT_X_BYTES <= TINY_WORKSPACE_BYTES, "it lies in the workspace");
float *tiny_input_x(const tiny_ctx *ctx)
{
    const tiny__state *s = (const tiny__state *)ctx;

    if (s == NULL || s->magic != TINY__READY)
        return NULL;
    return (float *)(void *)(s->workspace + TINY_INPUT_X_OFFSET);
}

_Static_assert(TINY_OUTPUT_Y_OFFSET % TINY_WORKSPACE_ALIGN == 0u, "it is aligned as the workspace is");
_Static_assert(TINY_OUTPUT_Y_OFFSET + TINY_OUTPUT_Y_BYTES <= TINY_WORKSPACE_BYTES, "it lies in the workspace");
const float *tiny_output_y(const tiny_ctx *ctx)
{
    const tiny__state *s = (const tiny__state *)ctx;

    if (s == NULL || s->magic != TINY__READY)
        return NULL;
    return (const float *)(void *)(s->workspace + TINY_OUTPUT_Y_OFFSET);
}

size_t tiny_workspace_size(void)
{
    return TINY_WORKSPACE_BYTES;
}

tiny_status tiny_init(tiny_ctx *ctx, void *workspace, size_t bytes)
{
    tiny__state *s = (tiny__state *)ctx;

    if (ctx == NULL)
        return TINY_ERR_NULL;
    s->magic = 0;
    if (workspace == NULL)
        return TINY_ERR_NULL;
    if (bytes < TINY_WORKSPACE_BYTES)
        return TINY_ERR_WORKSPACE_SIZE;
    if ((uintptr_t)workspace % TINY_WORKSPACE_ALIGN != 0)
        return TINY_ERR_WORKSPACE_ALIGN;
    if (!tiny__cpu_supported())
        return TINY_ERR_CPU;
    s->workspace = (unsigned char *)workspace;
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

#define ARENA(slot) ((void *)(arena + TINY__##slot))

/*
 * The layers in their order: each kernel, what it reads and what it writes. Begins at layer `first`, and does that one
 * alone or all from there on. Inlined where both are known: then no layer tests anything.
 */
#define NEXT_LAYER \
    if (alone) \
        return; \
    __attribute__((fallthrough))

static inline __attribute__((always_inline)) void tiny__call_layers(
    const tiny__state *s, unsigned first, int alone)
{
    unsigned char *const arena = s->workspace;

    switch (first) {
    case 0: /* Mul * / one + Add -> 4x8 */
        tiny__k_scale_add(ARENA(AT_0), tiny__w0, ARENA(AT_2));
        NEXT_LAYER;
    case 1: /* second scale -> 4x8 */
        tiny__k_scale_add(ARENA(AT_2), tiny__w1, ARENA(AT_4));
        NEXT_LAYER;
    case 2: /* Add -> 4x8 */
        tiny__k_add(ARENA(AT_4), ARENA(AT_0), ARENA(AT_5));
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
    const tiny__state *s)
{
    const tiny_profile_fn hook = s->hook;
    void *const user = s->user;
    const char *name = tiny__layer_names;

    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        hook(user, layer, name, 0);
        tiny__call_layers(s, layer, 1);
        hook(user, layer, name, 1);
        while (*name++ != '\0')
            ;
    }
}
#endif

tiny_status tiny_run(tiny_ctx *ctx)
{
    const tiny__state *s = (const tiny__state *)ctx;

    if (ctx == NULL)
        return TINY_ERR_NULL;
    if (s->magic != TINY__READY)
        return TINY_ERR_NOT_READY;

#ifndef TINY_NO_PROFILER
    if (s->hook != NULL) {
        tiny__profile_layers(s);
        return TINY_OK;
    }
#endif
    tiny__call_layers(s, 0, 0);
    return TINY_OK;
}

const char *tiny_strerror(tiny_status status)
{
    switch (status) {
    case TINY_OK:
        return "no error";
    case TINY_ERR_NULL:
        return "a pointer is null that must not be";
    case TINY_ERR_WORKSPACE_SIZE:
        return "the workspace has fewer than TINY_WORKSPACE_BYTES bytes";
    case TINY_ERR_WORKSPACE_ALIGN:
        return "the workspace is not aligned to TINY_WORKSPACE_ALIGN bytes";
    case TINY_ERR_CPU:
        return "this CPU lacks instructions that the kernels were compiled for";
    case TINY_ERR_NOT_READY:
        return "the context is not initialised";
    case TINY_ERR_TENSOR_ALIGN:
        return "an input or output is not aligned as the header asks";
    case TINY_ERR_TENSOR_OVERLAP:
        return "an input or output overlaps the workspace, or an output another tensor";
    case TINY_ERR_WEIGHTS:
        return "the weights are not bound, too small or misaligned";
    default:
        return "unknown status";
    }
}

const char *tiny_build_info(void)
{
    return "tiny 1.0.0, model sha256 abababababababababababababababababababababababababababababababab, target plain-x86, edgetune 0.1.0, abi 575ff883";
}

/* Short names end here: another package in the same translation unit has its own. */
#undef NEXT_LAYER
#undef ARENA
