/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to one candidate in the forked child: load, call once and check, time, check again. */
#ifndef EDGETUNE_AGENT_TRIAL_H
#define EDGETUNE_AGENT_TRIAL_H

#include <stdbool.h>

#include "report.h"
#include "request.h"
#include "store.h"

struct trial {
    const struct request *request;
    const struct content *library;
    const struct content *arrays[MOST_ARRAYS];
    struct report *report;
    bool counting; /* instructions instead of time, by the emulator's plugin */
};

/* Runs in the child; ends the process. */
void trial_run(const struct trial *trial) __attribute__((noreturn));
bool has_children(void);
/* Once, in the agent: what children would otherwise do again each. Candidates find the mathematics library loaded, and an
   emulator has translated already what every trial runs. */
void trial_prepare(bool counting);

#endif
