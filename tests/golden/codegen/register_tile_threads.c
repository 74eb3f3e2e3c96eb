/* Iterations begin to end - 1 of 10. Each writes elements that no other one touches. */
__attribute__((noinline))
static void sample_register_tile__part(const float *restrict x, const float *restrict w,
                                       const float *restrict b, float *restrict relu, int32_t begin,
                                       int32_t end) {
  f32x16 acc_0 = {0}, acc_1 = {0}, acc_2 = {0}, acc_3 = {0};
  f32x16 acc_4 = {0}, acc_5 = {0}, acc_6 = {0}, acc_7 = {0};
  for (int32_t o_0 = 0; o_0 < 2; ++o_0) {
    for (int32_t h_v_0 = begin; h_v_0 < end; ++h_v_0) {
      const int32_t x_at = h_v_0 / 2;
      const int32_t x_at_1 = h_v_0 % 2;
      acc_0 = acc_1 = acc_2 = acc_3 = acc_4 = acc_5 = acc_6 = acc_7 = (f32x16){0};
      for (int32_t kh = 0; kh < 3; ++kh) {
        for (int32_t kw = 0; kw < 3; ++kw) {
          for (int32_t c = 0; c < 8; ++c) {
            const int32_t w_at = o_0 * 2304 + kh * 768 + kw * 256 + c * 32;
            const int32_t x_at_2 = x_at * 80 + kh * 80 + x_at_1 * 32 + kw * 8 + c;
            acc_0 += x[x_at_2] * *(const f32x16u *)&w[w_at];
            acc_1 += x[x_at_2] * *(const f32x16u *)&w[w_at + 16];
            acc_2 += x[x_at_2 + 8] * *(const f32x16u *)&w[w_at];
            acc_3 += x[x_at_2 + 8] * *(const f32x16u *)&w[w_at + 16];
            acc_4 += x[x_at_2 + 16] * *(const f32x16u *)&w[w_at];
            acc_5 += x[x_at_2 + 16] * *(const f32x16u *)&w[w_at + 16];
            acc_6 += x[x_at_2 + 24] * *(const f32x16u *)&w[w_at];
            acc_7 += x[x_at_2 + 24] * *(const f32x16u *)&w[w_at + 16];
          }
        }
      }
      const int32_t offset = o_0 * 32;
      const int32_t relu_at = h_v_0 * 256 + offset;
      f32x16 t = acc_0 + *(const f32x16u *)&b[offset];
      sample__vmax_f32x16(&t, &(f32x16){0});
      *(f32x16u *)&relu[relu_at] = t;
      f32x16 t_1 = acc_1 + *(const f32x16u *)&b[offset + 16];
      sample__vmax_f32x16(&t_1, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 16] = t_1;
      f32x16 t_2 = acc_2 + *(const f32x16u *)&b[offset];
      sample__vmax_f32x16(&t_2, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 64] = t_2;
      f32x16 t_3 = acc_3 + *(const f32x16u *)&b[offset + 16];
      sample__vmax_f32x16(&t_3, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 80] = t_3;
      f32x16 t_4 = acc_4 + *(const f32x16u *)&b[offset];
      sample__vmax_f32x16(&t_4, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 128] = t_4;
      f32x16 t_5 = acc_5 + *(const f32x16u *)&b[offset + 16];
      sample__vmax_f32x16(&t_5, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 144] = t_5;
      f32x16 t_6 = acc_6 + *(const f32x16u *)&b[offset];
      sample__vmax_f32x16(&t_6, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 192] = t_6;
      f32x16 t_7 = acc_7 + *(const f32x16u *)&b[offset + 16];
      sample__vmax_f32x16(&t_7, &(f32x16){0});
      *(f32x16u *)&relu[relu_at + 208] = t_7;
    }
  }
}

struct sample_register_tile__part_work {
  const float *x;
  const float *w;
  const float *b;
  float *relu;
};

static void sample_register_tile__part_task(const void *work, int32_t begin, int32_t end, int32_t worker) {
  const struct sample_register_tile__part_work *const w = work;

  (void)worker;
  sample_register_tile__part(w->x, w->w, w->b, w->relu, begin, end);
}

void sample_register_tile(const float *restrict x, const float *restrict w, const float *restrict b,
                          float *restrict relu, struct sample__pool *pool) {
  const struct sample_register_tile__part_work work = {x, w, b, relu};
  sample__parallel_for(pool, sample_register_tile__part_task, &work, 10, 1);
}
