/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to one candidate in the forked child: load, call once and check, time, and check calls among
   those that are timed. */
#ifndef EDGETUNE_AGENT_TRIAL_H
#define EDGETUNE_AGENT_TRIAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "report.h"
#include "request.h"
#include "store.h"

struct trial {
    struct report *report;
    pid_t agent;
    bool counting; /* instructions instead of time, by the emulator's plugin */
    int library;   /* descriptor */
    struct request request;
    struct content arrays[MOST_ARRAYS];
};

bool has_children(void);
/* Once, in the agent: candidates find the mathematics library loaded. */
void trial_prepare(bool counting);
/* In the child, before there is a trial, whose cores are guessed. No core dumps, no files. */
void trial_await(const uint16_t *cores, unsigned core_count);
/* In the child while it waits: what every trial does, so that its pages are there. Ends early once it is `enough`. */
void trial_rehearse(bool counting, bool (*enough)(void));
/* In the child; ends the process. */
void trial_run(const struct trial *trial) __attribute__((noreturn));

#endif
