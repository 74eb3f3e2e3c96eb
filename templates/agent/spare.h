/* SPDX-License-Identifier: Apache-2.0 */
/* The process of the next trial, forked ahead: what starting a process takes passes while the last answer is on its way.
   It has the arrays that were in the store when it was forked; once others come or go it is of no use. */
#ifndef EDGETUNE_AGENT_SPARE_H
#define EDGETUNE_AGENT_SPARE_H

#include <stdbool.h>
#include <sys/types.h>

/* What the process does: `prepare`; then `rehearse`, which ends early once it is `enough`; then, when it is started,
   `run`, which gets a descriptor of the library and must not return. */
struct spare_life {
    void (*prepare)(void);
    void (*rehearse)(bool (*enough)(void));
    void (*run)(int library);
};

/* Whether one waits that knows the arrays of the store. */
bool spare_is_there(void);
/* Fork one, in place of the one there. False: the board cannot start a process. */
bool spare_make(const struct spare_life *life);
/* Let the one that is there run: its process, which is the caller's from now on; 0 when there is none. */
pid_t spare_start(int library);
/* Reap the one that is there if it has ended, whoever ended it. */
void spare_look(void);
/* End the one that is there: in any case, or if it holds arrays that the store has no more. */
void spare_drop(void);
void spare_drop_stale(void);

#endif
