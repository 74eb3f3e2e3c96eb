/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a candidate: the first on fenced buffers, then those that are timed, some of them watched: made over
   outputs that hold a pattern, and compared after it. */
#ifndef EDGETUNE_AGENT_CALLS_H
#define EDGETUNE_AGENT_CALLS_H

#include "count.h"

/* Before the candidate is loaded. */
void calls_begin(void);
/* Both end the process when a call went wrong. */
void calls_check(call_fn entry);
void calls_measure(call_fn entry);

#endif
