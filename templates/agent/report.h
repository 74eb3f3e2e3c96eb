/* SPDX-License-Identifier: Apache-2.0 */
/* What a trial says, in memory that the agent shares with the forked child. While the candidate runs, the child has no
   access to it, so a stray write faults instead of changing the verdict. */
#ifndef EDGETUNE_AGENT_REPORT_H
#define EDGETUNE_AGENT_REPORT_H

#include <stdint.h>

#include "request.h"

#define REASON_BYTES 512u

enum phase { PHASE_START = 0, PHASE_LOAD, PHASE_CHECK, PHASE_TIME };
enum verdict { VERDICT_OK = 0, VERDICT_WRONG, VERDICT_NOT_LOADED, VERDICT_FORKED, VERDICT_FAILED };
enum problem {
    PROBLEM_NONE = 0,
    PROBLEM_DIFFERS,
    PROBLEM_BEFORE,
    PROBLEM_BEHIND,
    PROBLEM_INPUT,   /* changed */
    PROBLEM_MODE,    /* of floating point, left changed */
    PROBLEM_THREADS, /* left running */
};
enum moment { MOMENT_FIRST = 0, MOMENT_LATER, MOMENT_END }; /* first call, a watched one of those timed, after all */

struct report {
    volatile uint32_t done; /* set last */
    volatile uint8_t phase;
    uint8_t verdict, problem, moment, stopped;
    uint8_t filtered; /* the system lets no candidate start a process */
    uint16_t index; /* output or parameter of the problem; the number of arrays is the scratch memory */
    uint32_t call;  /* number of the call after which it showed, from 1 */
    double worst_absolute, worst_relative;     /* of the outputs after the first call */
    double problem_absolute, problem_relative; /* of the output that differs */
    double load_s, check_s, time_s;
    double cycle_ns; /* of the core, after timing */
    uint64_t minor_faults, major_faults; /* while timing */
    uint32_t repeat, count;
    char reason[REASON_BYTES];
    double samples[2 * MOST_SAMPLES];
};

#endif
