/* SPDX-License-Identifier: Apache-2.0 */
/* Ours and the candidate's turns in the process of a trial, and how it ends: with a verdict. */
#ifndef EDGETUNE_AGENT_TURNS_H
#define EDGETUNE_AGENT_TURNS_H

#include "trial.h"

/* The trial of this process, from `turns_begin` on. */
extern const struct trial *now;
extern bool mode_changed; /* of floating point, by the candidate; it is as before again */

void turns_begin(const struct trial *trial);
bool is_owner(void); /* no: a copy of the process of the trial, made by a candidate that forks */
/* The candidate's turn: the report is out of its reach. */
void their_turn(void);
void our_turn(void);
void enter(enum phase phase);
void finish(enum verdict verdict) __attribute__((noreturn));
void fail(const char *what) __attribute__((noreturn)); /* with errno in words */

#endif
