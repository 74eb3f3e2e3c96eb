/* SPDX-License-Identifier: Apache-2.0 */
/* Compares an output with its reference. */
#ifndef EDGETUNE_AGENT_COMPARE_H
#define EDGETUNE_AGENT_COMPARE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef double real;
#include "../accuracy.h"

struct difference compare(enum element_type type, const void *output, const void *reference, size_t bytes,
                          struct tolerance tolerance);

#endif
