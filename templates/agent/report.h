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
enum problem { PROBLEM_NONE = 0, PROBLEM_DIFFERS, PROBLEM_BEFORE, PROBLEM_BEHIND };

struct report {
    volatile uint32_t done; /* set last */
    volatile uint8_t phase;
    uint8_t verdict, problem, after_many, stopped;
    uint16_t index; /* output or parameter of the problem; the number of arrays is the scratch memory */
    double worst_absolute, worst_relative;     /* of the outputs after the first call */
    double problem_absolute, problem_relative; /* of the output that differs */
    double load_s, check_s, time_s;
    uint64_t minor_faults, major_faults; /* while timing */
    uint32_t repeat, count;
    char reason[REASON_BYTES];
    double samples[2 * MOST_SAMPLES];
};

#endif
