/* SPDX-License-Identifier: Apache-2.0 */
/* One trial at a time in a forked child: started, watched, ended with everything that it started. */
#ifndef EDGETUNE_AGENT_SUPERVISE_H
#define EDGETUNE_AGENT_SUPERVISE_H

#include <stdbool.h>

#include "bytes.h"
#include "request.h"

enum ending { END_REPORTED = 0, END_DIED, END_LATE, END_MEMORY, END_CANCELLED };

/* Returns NULL or what is wrong. `lock`: a descriptor that no child must have, or -1. */
const char *supervise_init(bool counting, int lock);
bool supervise_limits_memory(void);
/* Fork the process of the next trial, while nobody waits for it; does nothing when that is done, or while the
   last one's is there. */
void supervise_get_ready(void);
/* Returns NULL or why it cannot be started. */
const char *supervise_start(const struct request *request);
bool supervise_running(void);
uint8_t supervise_phase(void);
double supervise_wake_at(void);             /* when to look again, on the clock of now_s() */
/* True: here is what came of the trial. Its process may still be ending; a trial that follows waits for that. */
bool supervise_look(struct writer *result);
void supervise_cancel(struct writer *result);
void supervise_end(void); /* without a word */
uint64_t supervise_page_faults(void); /* while timing, of the last trial */

#endif
