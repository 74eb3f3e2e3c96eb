/* Iterations begin to end - 1 of 10. Each writes elements that no other one touches. */
__attribute__((noinline))
static void sample_register_tile__part(const float *restrict x, const float *restrict w, const float *restrict b,
                                       float *restrict relu, int32_t begin, int32_t end)
{
    f32x16 acc_0_0 = {0}, acc_0_1 = {0}, acc_1_0 = {0}, acc_1_1 = {0};
    f32x16 acc_2_0 = {0}, acc_2_1 = {0}, acc_3_0 = {0}, acc_3_1 = {0};
    for (int32_t o_o = 0; o_o < 2; o_o++) {
        for (int32_t h_v_o = begin; h_v_o < end; h_v_o++) {
            const int32_t x_at = h_v_o / 2;
            const int32_t x_at_1 = h_v_o % 2;
            acc_0_0 = acc_0_1 = acc_1_0 = acc_1_1 = acc_2_0 = acc_2_1 = acc_3_0 = acc_3_1 = (f32x16){0};
            for (int32_t kh = 0; kh < 3; kh++) {
                for (int32_t kw = 0; kw < 3; kw++) {
                    for (int32_t c = 0; c < 8; c++) {
                        const int32_t w_at = o_o * 2304 + kh * 768 + kw * 256 + c * 32;
                        const int32_t x_at_2 = x_at * 80 + kh * 80 + x_at_1 * 32 + kw * 8 + c;
                        acc_0_0 += x[x_at_2] * *(const f32x16u *)&w[w_at];
                        acc_0_1 += x[x_at_2] * *(const f32x16u *)&w[w_at + 16];
                        acc_1_0 += x[x_at_2 + 8] * *(const f32x16u *)&w[w_at];
                        acc_1_1 += x[x_at_2 + 8] * *(const f32x16u *)&w[w_at + 16];
                        acc_2_0 += x[x_at_2 + 16] * *(const f32x16u *)&w[w_at];
                        acc_2_1 += x[x_at_2 + 16] * *(const f32x16u *)&w[w_at + 16];
                        acc_3_0 += x[x_at_2 + 24] * *(const f32x16u *)&w[w_at];
                        acc_3_1 += x[x_at_2 + 24] * *(const f32x16u *)&w[w_at + 16];
                    }
                }
            }
            const int32_t offset = o_o * 32;
            const int32_t relu_at = h_v_o * 256 + offset;
            f32x16 relu_0_0 = acc_0_0 + *(const f32x16u *)&b[offset];
            sample__vmax_f32x16(&relu_0_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at] = relu_0_0;
            f32x16 relu_0_1 = acc_0_1 + *(const f32x16u *)&b[offset + 16];
            sample__vmax_f32x16(&relu_0_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 16] = relu_0_1;
            f32x16 relu_1_0 = acc_1_0 + *(const f32x16u *)&b[offset];
            sample__vmax_f32x16(&relu_1_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 64] = relu_1_0;
            f32x16 relu_1_1 = acc_1_1 + *(const f32x16u *)&b[offset + 16];
            sample__vmax_f32x16(&relu_1_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 80] = relu_1_1;
            f32x16 relu_2_0 = acc_2_0 + *(const f32x16u *)&b[offset];
            sample__vmax_f32x16(&relu_2_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 128] = relu_2_0;
            f32x16 relu_2_1 = acc_2_1 + *(const f32x16u *)&b[offset + 16];
            sample__vmax_f32x16(&relu_2_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 144] = relu_2_1;
            f32x16 relu_3_0 = acc_3_0 + *(const f32x16u *)&b[offset];
            sample__vmax_f32x16(&relu_3_0, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 192] = relu_3_0;
            f32x16 relu_3_1 = acc_3_1 + *(const f32x16u *)&b[offset + 16];
            sample__vmax_f32x16(&relu_3_1, &(f32x16){0});
            *(f32x16u *)&relu[relu_at + 208] = relu_3_1;
        }
    }
}

struct sample_register_tile__part_work {
    const float *x;
    const float *w;
    const float *b;
    float *relu;
};

static void sample_register_tile__part_task(const void *work, int32_t begin, int32_t end, int32_t worker)
{
    const struct sample_register_tile__part_work *const w = work;

    (void)worker;
    sample_register_tile__part(w->x, w->w, w->b, w->relu, begin, end);
}

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu, struct sample__pool *pool)
{
    const struct sample_register_tile__part_work work = {x, w, b, relu};
    sample__parallel_for(pool, sample_register_tile__part_task, &work, 10, 1);
}
