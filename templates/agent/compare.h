/* SPDX-License-Identifier: Apache-2.0 */
/* Compares an output with its reference: equal where both are special, close enough everywhere else. */
#ifndef EDGETUNE_AGENT_COMPARE_H
#define EDGETUNE_AGENT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "request.h"

/* Largest absolute error, the same relative to the largest finite reference value, and whether it is allowed. Both are
   infinite when a NaN or an infinity is where the reference has none, or the other way round. */
struct difference {
    double absolute, relative;
    bool allowed;
};

struct difference compare(const void *output, const void *reference, size_t bytes, enum dtype dtype,
                          struct tolerance tolerance);

#endif
