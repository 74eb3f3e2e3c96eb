/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how often to call a kernel: enough to trust the median, no longer than the budget, briefly when hopeless.
   The same rules as the host's edgetune/boards/sampling.py. */
#ifndef EDGETUNE_AGENT_SAMPLING_H
#define EDGETUNE_AGENT_SAMPLING_H

#include <stdint.h>

#include "request.h"

enum stop { STOP_NONE = 0, STOP_NARROW, STOP_BUDGET, STOP_SLOW, STOP_COUNT };

struct sampling {
    uint32_t count, repeat;
    enum stop stopped;
};

/* How calls are made: `take` writes `count` samples of `repeat` calls each, in nanoseconds per call; `watch` makes one
   call over outputs that hold a pattern, compares after it, and writes its nanoseconds. False: it cannot be told. */
struct calls {
    bool (*take)(void *user, uint32_t repeat, uint32_t count, double *samples);
    bool (*watch)(void *user, double *nanoseconds);
    void *user;
};

/* `samples` has room for policy->max_samples + policy->few_samples. With `single`, every sample is one call. Watched
   are the first call, a pair in a row drawn by `seed`, and the last call. */
bool sample(const struct calls *calls, const struct policy *policy, double best_ns, bool single, uint64_t seed,
            double *samples, struct sampling *sampling);

/* Width of the 95 % confidence interval of the median over the median, outliers left out: see statistics.py. */
double relative_width(const double *samples, uint32_t count);

#endif
