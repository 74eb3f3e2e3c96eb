/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how often to call a kernel: enough to trust the median, no longer than the budget, briefly when hopeless.
   The same rules as the host's edgetune/measure/sampling.py. */
#ifndef EDGETUNE_AGENT_SAMPLING_H
#define EDGETUNE_AGENT_SAMPLING_H

#include <stdint.h>

#include "request.h"

enum stop { STOP_NONE = 0, STOP_NARROW, STOP_BUDGET, STOP_SLOW, STOP_COUNT };

struct sampling {
    uint32_t count, repeat;
    enum stop stopped;
};

/* Writes `count` samples of `repeat` calls each, in nanoseconds per call; false: it cannot be told. */
typedef bool (*take_fn)(void *user, uint32_t repeat, uint32_t count, double *samples);

/* `samples` has room for policy->max_samples + policy->few_samples. With `single`, every sample is one call. */
bool sample(take_fn take, void *user, const struct policy *policy, double best_ns, bool single, double *samples,
            struct sampling *sampling);

/* Width of the 95 % confidence interval of the median over the median, outliers left out: see statistics.py. */
double relative_width(const double *samples, uint32_t count);

#endif
