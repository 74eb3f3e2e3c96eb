/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: a neural network as plain C. Target: plain-x86.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_H
#define TINY_H

/*
 * Model:   tiny
 *          SHA-256 abababababababababababababababababababababababababababababababab
 *
 * Use:     allocate an instance (tiny_ctx) and its workspaces, call tiny_init() once,
 *          then tiny_run() as often as wanted.
 * Memory:  the caller owns all of it. The library has no heap, no stdio and no writable globals, so any
 *          number of instances may run at once, each with its own context and its own workspaces. One
 *          instance is not to be used by two threads at the same time.
 * Regions: a workspace for each of 2 memory regions of plain-x86. The plan has what is touched most in the fastest one;
 *          results are the same wherever each workspace lies.
 * Errors:  tiny_run() checks its arguments first. If it returns an error nothing is computed, and the outputs hold
 *          what they held before.
 * Indices: indices that are data (Gather, Scatter and their kin) are clamped to their axis, after negative ones have been
 *          counted from its end: one out of range reads or changes another element of the same tensor.
 * Floats:  the floating-point environment is the caller's. The library changes neither rounding mode nor flushing of
 *          denormals, and clears no exception flags; they may be raised. Results are for rounding to nearest.
 *
 * Macros that may be defined before this header is included:
 *   TINY_NO_ATTRIBUTES   leaves out warn_unused_result and nonnull
 *   TINY_API   goes before every function, to export it: __attribute__((visibility("default"))), __declspec(dllexport)
 * Macros that may be defined for the library (-D...), and then before this header is included too:
 *   TINY_NO_PROFILER   leaves out tiny_set_profiler() and the names of the layers: less flash
 * Macros that may be defined when the library is compiled (-D...):
 *   TINY_WEIGHTS_SECTION '".section"'   places the weights in a linker section
 */

#include <stddef.h>
#include <stdint.h>

/* Version of this package, and the generator's. */
#define TINY_VERSION_MAJOR 1
#define TINY_VERSION_MINOR 0
#define TINY_VERSION_PATCH 0
#define TINY_GENERATOR "edgetune 0.1.0"

/* Fingerprint of everything below. The sources of the library refuse to compile against another header. */
#define TINY_ABI 0x9d80a5edu

/* Bytes of the workspace in each region, and alignment of all: intermediate tensors and the scratch of the kernels. */
#define TINY_WORKSPACE_DTCM_BYTES 128u
#define TINY_WORKSPACE_SRAM_BYTES 192u
#define TINY_WORKSPACE_ALIGN 64u

/* Bytes of weights, constant data inside the library. */
#define TINY_WEIGHTS_BYTES 128u

/* Layers that a profiler sees in one run. */
#define TINY_LAYERS 3u

/* Extents of single tensors by axis, and their sizes. */
#define TINY_INPUT_X_DIM0 4u
#define TINY_INPUT_X_DIM1 8u
#define TINY_INPUT_X_ELEMENTS 32u
#define TINY_INPUT_X_BYTES 128u
#define TINY_OUTPUT_Y_DIM0 4u
#define TINY_OUTPUT_Y_DIM1 8u
#define TINY_OUTPUT_Y_ELEMENTS 32u
#define TINY_OUTPUT_Y_BYTES 128u

#if !defined(TINY_NO_ATTRIBUTES) && (defined(__GNUC__) || defined(__clang__))
#define TINY_CHECKED __attribute__((warn_unused_result))
#define TINY_NONNULL __attribute__((nonnull))
#define TINY_NONNULL_FIRST __attribute__((nonnull(1)))
#else
#define TINY_CHECKED
#define TINY_NONNULL
#define TINY_NONNULL_FIRST
#endif

#ifndef TINY_API
#define TINY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tiny_status {
    TINY_OK = 0,
    TINY_ERR_NULL = -1,            /* a pointer is null that must not be */
    TINY_ERR_WORKSPACE_SIZE = -2,  /* a workspace has fewer bytes than its macro says, or overlaps another */
    TINY_ERR_WORKSPACE_ALIGN = -3, /* a workspace is not aligned to TINY_WORKSPACE_ALIGN bytes */
    TINY_ERR_CPU = -4,             /* this CPU lacks instructions that the kernels were compiled for */
    TINY_ERR_NOT_READY = -5,       /* init was not called, failed, or deinit was called */
    TINY_ERR_TENSOR_ALIGN = -6,    /* an input or output is less aligned than its comment below says */
    TINY_ERR_TENSOR_OVERLAP = -7,  /* an input or output overlaps a workspace, or an output another tensor */
    TINY_ERR_WEIGHTS = -8          /* not used by this package */
} tiny_status;

/* One instance. Complete, so that the caller can allocate it; what is inside is not for the caller. */
typedef struct tiny_ctx {
    uint64_t opaque[9];
} tiny_ctx;

/* The memory of an instance: a workspace in each region, and how many bytes it has. */
typedef struct tiny_workspaces {
    void *dtcm; /* in region dtcm: TINY_WORKSPACE_DTCM_BYTES bytes, aligned to TINY_WORKSPACE_ALIGN */
    size_t dtcm_bytes;
    void *sram; /* in region sram: TINY_WORKSPACE_SRAM_BYTES bytes, aligned to TINY_WORKSPACE_ALIGN */
    size_t sram_bytes;
} tiny_workspaces;

/* What a run reads: dense arrays in C order, last axis fastest, owned by the caller, outside the workspaces; inputs may
 * overlap each other. */
typedef struct tiny_inputs {
    /* x: 4x8, IEEE 754 single precision, aligned to 4 bytes */
    const float *x;
} tiny_inputs;

/* What a run writes: dense arrays in C order, last axis fastest, owned by the caller, outside the workspaces,
 * none of them overlapping another tensor (TINY_ERR_TENSOR_OVERLAP). */
typedef struct tiny_outputs {
    /* y: 4x8, IEEE 754 single precision, aligned to 4 bytes */
    float *y;
} tiny_outputs;

#ifndef TINY_NO_PROFILER
/* Called before (end == 0) and after (end == 1) each layer. The hook brings its own clock; it may feed a watchdog. */
typedef void (*tiny_profile_fn)(void *user, unsigned layer, const char *name, int end);
#endif

/* TINY_WORKSPACE_DTCM_BYTES, for callers that cannot use the macro. */
TINY_API size_t tiny_workspace_dtcm_size(void);

/* TINY_WORKSPACE_SRAM_BYTES, for callers that cannot use the macro. */
TINY_API size_t tiny_workspace_sram_size(void);

/* Makes *ctx an instance that works in `workspaces`, whose memory stays the caller's and must outlive it; the
 * struct need not. What context or memory
 * holds before the call does not matter. On a CPU that is too old, returns TINY_ERR_CPU and
 * executes none of the instructions that it lacks. */
TINY_API tiny_status tiny_init(tiny_ctx *ctx, const tiny_workspaces *workspaces)
    TINY_CHECKED TINY_NONNULL;

/* Computes all outputs. Nothing is kept from one run to the next. Tensors that are null, misaligned or overlap where
 * they must not are refused before anything is written. */
TINY_API tiny_status tiny_run(tiny_ctx *ctx, const tiny_inputs *inputs, const tiny_outputs *outputs)
    TINY_CHECKED TINY_NONNULL;

#ifndef TINY_NO_PROFILER
/* Sets the hook around every layer, after init, from the next run on; null removes it. */
TINY_API void tiny_set_profiler(tiny_ctx *ctx, tiny_profile_fn hook, void *user)
    TINY_NONNULL_FIRST;
#endif

/* Ends the instance; the workspaces are free for other use. A null ctx is allowed. */
TINY_API void tiny_deinit(tiny_ctx *ctx);

/* A sentence for a status, never null. */
TINY_API const char *tiny_strerror(tiny_status status);

/* Model hash, target and generator in one line. */
TINY_API const char *tiny_build_info(void);

#ifdef __cplusplus
}
#endif

#endif /* TINY_H */
