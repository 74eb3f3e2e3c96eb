/* SPDX-License-Identifier: Apache-2.0 */
/* The advisory lock of a board: an abstract unix socket, which vanishes with the process that bound it. Whoever connects
   reads who has the board and for how many seconds at most. */
#ifndef EDGETUNE_AGENT_LOCK_H
#define EDGETUNE_AGENT_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#define OWNER_BYTES 256u

/* Returns the listening socket; -1: somebody else has it, and `holder` says who (a text, a line end, seconds); -2: there
   are no such sockets here. */
int lock_take(const char *name, char holder[OWNER_BYTES]);
/* Tell one visitor. */
void lock_tell(int lock, const char *owner, double expires_s);

#endif
