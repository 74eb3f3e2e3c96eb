/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: golden vectors. 3 inputs, and what the reference computed for them.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#ifndef TINY_VECTORS_H
#define TINY_VECTORS_H

#include <stdint.h>

#define TINY_CASES 3

/* case 0: input x */
static const float tiny_input_0_0[32] __attribute__((aligned(64))) = {
    0x1.427a32p-10f, 0x1.31ea5ap-2f, -0x1.18b798p-2f, -0x1.c7fba8p-1f, -0x1.d19538p-2f, -0x1.fbb918p-1f,
    0x1.ecb246p-5f, 0x1.571858p+0f, -0x1.f804fcp-2f, -0x1.3daee2p-1f, 0x1.f59928p-2f, 0x1.6d73cap-2f,
    0x1.afc6dap-4f, -0x1.dc664ep-1f, -0x1.df430ap-6f, 0x1.63fec8p-1f, -0x1.581e72p+0f, -0x1.d4993ap-2f,
    -0x1.e6b688p+0f, -0x1.4a1f26p+0f, -0x1.d77bf2p+0f, -0x1.e17776p-3f, -0x1.44776p+0f, 0x1.15c652p-2f,
    0x1.4106b6p-3f, -0x1.7ed5a6p-3f, -0x1.42252ep+1f, -0x1.13cf8ep-1f, -0x1.8d51dap-5f, 0x1.d01d16p-4f,
    -0x1.87b6fap+0f, -0x1.e93828p-2f,
};
/* case 0: output y */
static const float tiny_output_0_0[32] __attribute__((aligned(64))) = {
    0x1.9f4086p+0f, 0x1.297bb2p+0f, 0x1.e8404cp-1f, -0x1.0b464p-3f, 0x1.14d3p-4f, -0x1.a3f1p-3f,
    -0x1.5ef374p-6f, -0x1.b76cecp+1f, 0x1.65a17ap+1f, 0x1.c3297p+0f, 0x1.54eac8p+0f, 0x1.33f11p+0f,
    0x1.551e3ep-1f, -0x1.65ef18p-3f, 0x1.2ec77cp-5f, -0x1.e6be8cp+0f, 0x1.345214p+2f, 0x1.a7ef3ap+0f,
    0x1.2fdfp-3f, -0x1.1d25dap-1f, -0x1.6a3e9cp+0f, 0x1.5addb2p-3f, 0x1.b0ef8p-1f, -0x1.c9db8p-1f,
    0x1.40b202p+0f, 0x1.7aae2ep+0f, -0x1.4001ep-3f, 0x1.f70dd8p-3f, 0x1.00e2bcp-1f, 0x1.5dfe5ep-2f,
    0x1.04629ap+0f, 0x1.c4f2acp-1f,
};
/* case 1: input x */
static const float tiny_input_1_0[32] __attribute__((aligned(64))) = {
    -0x1.f50074p-1f, -0x1.9e1feap-1f, 0x1.0f970ep+0f, -0x1.9d753p-1f, -0x1.0a6af6p-5f, 0x1.c4cecp-1f,
    -0x1.2acdaep-1f, -0x1.c987fcp-4f, 0x1.c4760cp-4f, 0x1.05400ap-4f, -0x1.399d42p+0f, 0x1.37ded2p-4f,
    0x1.5bdbdap+0f, -0x1.8c11acp+0f, 0x1.b80102p-1f, 0x1.e8dfc4p-4f, -0x1.486ecep-1f, 0x1.000da6p+1f,
    0x1.8646e8p-1f, -0x1.330498p+0f, 0x1.3137eep-4f, 0x1.2743dcp-1f, -0x1.82a034p-3f, 0x1.5da66ap-1f,
    -0x1.107478p-4f, 0x1.55a178p-1f, 0x1.704304p+0f, -0x1.59f068p-1f, 0x1.a00722p-3f, -0x1.da6d4ep-2f,
    0x1.04a54ep-3f, -0x1.2febfcp+0f,
};
/* case 1: output y */
static const float tiny_output_1_0[32] __attribute__((aligned(64))) = {
    0x1.f97848p+1f, 0x1.e2a728p+0f, 0x1.9d443ap+0f, -0x1.55d42p-5f, 0x1.09a16cp-1f, 0x1.726118p-1f,
    0x1.988f44p-2f, 0x1.f517ap-7f, 0x1.5cd67ap+0f, 0x1.50c3eap+0f, 0x1.ee99bp-2f, 0x1.ce3d86p-1f,
    0x1.00c43p+1f, -0x1.eb7bdp-2f, -0x1.1634eap-1f, -0x1.11227p-1f, 0x1.9301cap+1f, 0x1.9fbbp-5f,
    0x1.776e48p+0f, -0x1.d783f8p-2f, 0x1.44356ep-1f, 0x1.24696cp-1f, 0x1.210fdp-3f, -0x1.df35ap+0f,
    0x1.c87148p+0f, 0x1.d7c058p-1f, 0x1.cd1bfp+0f, 0x1.96707p-4f, 0x1.8a996ap-1f, 0x1.ce3a7p-5f,
    -0x1.0b4ae4p-4f, 0x1.48e83cp+1f,
};
/* case 2: input x */
static const float tiny_input_2_0[32] __attribute__((aligned(64))) = {
    -0x1.289a38p-1f, -0x1.91cf32p-3f, 0x1.cc2ac8p-1f, 0x1.252d44p+0f, -0x1.52d2b8p+0f, -0x1.96db5ep-1f,
    0x1.4b36ecp-1f, -0x1.fe0f3ap+0f, -0x1.da4934p-2f, -0x1.8e7cbcp-4f, 0x1.41cbbcp+0f, 0x1.60f98cp-1f,
    -0x1.4f1108p-2f, -0x1.796bf6p-2f, -0x1.00333ap-2f, 0x1.860606p+0f, -0x1.b64c2cp-2f, -0x1.36f7fep-2f,
    0x1.690d1cp-2f, -0x1.eeacfep-4f, -0x1.9409cp-3f, -0x1.1d3382p+0f, -0x1.798914p-7f, -0x1.c63a28p-2f,
    0x1.2a875ap+0f, 0x1.4e619ep-1f, -0x1.8b91a8p-6f, 0x1.56360ap-1f, -0x1.5c06c4p-2f, 0x1.0d5828p+0f,
    -0x1.61dd98p-8f, 0x1.2ab118p-1f,
};
/* case 2: output y */
static const float tiny_output_2_0[32] __attribute__((aligned(64))) = {
    0x1.801b92p+1f, 0x1.7c3ab6p+0f, 0x1.88b99cp+0f, 0x1.05d3f2p+1f, -0x1.b8e46cp-1f, -0x1.b8891p-4f,
    -0x1.9e5238p-2f, 0x1.1ed90ap+2f, 0x1.5ccdbcp+1f, 0x1.6bb18p+0f, 0x1.b61cfep+0f, 0x1.8eeddcp+0f,
    0x1.a16c9p-3f, 0x1.a7251p-4f, 0x1.73333cp-3f, -0x1.ef2724p+1f, 0x1.521e9cp+1f, 0x1.8e32fp+0f,
    0x1.43872cp+0f, 0x1.627a5cp-1f, 0x1.5eec6cp-2f, -0x1.1002bp-2f, 0x1.9fd936p-6f, 0x1.9b650cp-1f,
    -0x1.250176p+0f, 0x1.dc7c52p-1f, 0x1.13cc5ep+0f, 0x1.892d34p+0f, 0x1.85b81p-3f, 0x1.9ce1b4p-1f,
    0x1.5e585ap-6f, -0x1.a2b24cp+0f,
};


/* input tensors of each case, in the order of tiny_inputs */
static const void *const tiny_vector_inputs[TINY_CASES][1] = {
    { tiny_input_0_0 },
    { tiny_input_1_0 },
    { tiny_input_2_0 },
};
/* output tensors of each case, in the order of tiny_outputs */
static const void *const tiny_vector_outputs[TINY_CASES][1] = {
    { tiny_output_0_0 },
    { tiny_output_1_0 },
    { tiny_output_2_0 },
};

#endif
