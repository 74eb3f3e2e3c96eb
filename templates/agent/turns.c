/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "turns.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "floating.h"
#include "system.h"

const struct trial *now;
bool mode_changed;
static pid_t owner;
static uint64_t mode;
static double phase_began;

bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static void note_seconds(void)
{
    const double seconds = now_s() - phase_began;
    switch (now->report->phase) {
    case PHASE_LOAD: now->report->load_s = seconds; break;
    case PHASE_CHECK: now->report->check_s = seconds; break;
    case PHASE_TIME: now->report->time_s = seconds; break;
    default: break;
    }
}

void turns_begin(const struct trial *trial)
{
    now = trial;
    owner = getpid();
    mode = floating_mode();
}

bool is_owner(void)
{
    return getpid() == owner;
}

void enter(enum phase phase)
{
    note_seconds();
    now->report->phase = (uint8_t)phase;
    phase_began = now_s();
}

void finish(enum verdict verdict)
{
    note_seconds();
    now->report->verdict = (uint8_t)verdict;
    __atomic_store_n(&now->report->done, 1, __ATOMIC_RELEASE); /* the agent may read it at once */
    kill(now->agent, SIGCHLD); /* it need not wait for our end */
    sched_yield();             /* nor, on a board of one core, for the system to clear us away */
    kill(owner, SIGKILL);      /* emulators take milliseconds over an orderly exit */
    _exit(0); /* no clean-up: this memory is whatever the candidate made of it */
}

void fail(const char *what)
{
    snprintf(now->report->reason, REASON_BYTES, "%s: %s", what, strerror(errno));
    finish(VERDICT_FAILED);
}

void their_turn(void)
{
    if (mprotect(now->report, sizeof *now->report, PROT_NONE) != 0)
        _exit(98);
}

void our_turn(void)
{
    mode_changed |= floating_mode() != mode;
    floating_restore(mode);
    if (!is_owner()) /* a kernel that forks: the copy ends here */
        _exit(99);
    if (mprotect(now->report, sizeof *now->report, PROT_READ | PROT_WRITE) != 0)
        _exit(98);
}
