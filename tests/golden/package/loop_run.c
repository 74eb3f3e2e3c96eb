#define ARENA(slot) ((void *)(arena + TINY__##slot))

/* rnn: what one step does, 6 times. */
static void tiny__loop_0(const tiny__state *s, const tiny_inputs *inputs, const tiny_outputs *outputs)
{
    unsigned char *const arena = s->workspace;
    (void)s;
    (void)inputs;
    (void)outputs;

    for (unsigned step = 0; step < 6u; step++) {
        /* rnn (matmul_add) #2 -> 1x32 */
        tiny__k_matmul_add_32(step == 0u ? tiny__w2 : ARENA(AT_7 + (step + 1u) % 2u * 32u), tiny__w3, ARENA(AT_3 + step * 128u), ARENA(AT_6));
        /* rnn (strided_slice_sigmoid_tanh_multiply_add_and_8_more) -> 1x8 */
        tiny__k_strided_slice_sigmoid_tanh_multiply_add_and_8_more(ARENA(AT_6), step == 0u ? tiny__w2 : ARENA(AT_8 + (step + 1u) % 2u * 32u), ARENA(AT_8 + step % 2u * 32u), ARENA(AT_7 + step % 2u * 32u));
    }
}

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
    unsigned char *const arena = s->workspace;

    switch (first) {
    case 0: /* rnn (matmul_add) -> 6x32 */
        tiny__k_matmul_add_6x32(inputs->rnn_x, tiny__w0, tiny__w1, ARENA(AT_3));
        NEXT_LAYER;
    case 1: /* rnn (6 steps) -> 1x8 */
        tiny__loop_0(s, inputs, outputs);
        NEXT_LAYER;
    case 2: /* rnn (copy) -> 1x1x8 */
        tiny__k_copy(ARENA(AT_7 + 32u), outputs->h);
        break;
    }
}

