/* SPDX-License-Identifier: Apache-2.0 */
/* The process of the next trial, forked ahead: what starting a process takes passes while the last answer is on its way.
   It has the arrays that were in the store when it was forked; once others come or go it is of no use. */
#ifndef EDGETUNE_AGENT_SPARE_H
#define EDGETUNE_AGENT_SPARE_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether one waits that knows the arrays of the store. */
bool spare_is_there(void);
/* Its process, 0 when there is none. */
pid_t spare_process(void);
/* Fork one, in place of the one there. It calls `prepare`, then `rehearse`, which ends early once it is `enough`, then,
   when it is started, `run`, which must not return. False: the board cannot start a process. */
bool spare_make(void (*prepare)(void), void (*rehearse)(bool (*enough)(void)), void (*run)(void));
/* Let the one that is there run: its process, which is the caller's from now on; 0 when there is none. */
pid_t spare_start(void);
/* Reap the one that is there if it has ended, whoever ended it. */
void spare_look(void);
/* `process` has ended and is reaped: perhaps the one that is there. */
void spare_ended(pid_t process);
void spare_drop(void);

#endif
