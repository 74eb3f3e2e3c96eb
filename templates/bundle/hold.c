/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command while it holds the lock of this machine, which is that of edgetune's agent (lock.h):
 *     ./hold OWNER SECONDS COMMAND [ARGUMENT ...]
 * ends with the status of the command, or after SECONDS with 124. Where somebody else has the lock it runs nothing, says
 * who on stderr, and ends with 75. A command whose holder is killed is killed as well.
 */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRONG_USE = 2, TAKEN = 75, OUT_OF_TIME = 124, NO_COMMAND = 127, KILLED = 128, LOOK_MS = 20 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pid_t start(char **words)
{
    const pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    execvp(words[0], words);
    fprintf(stderr, "hold: %s cannot be started: %s\n", words[0], strerror(errno));
    _exit(NO_COMMAND);
}

int main(int count, char **values)
{
    char holder[OWNER_BYTES];
    int status = 0, late = 0;

    if (count < 4) {
        fprintf(stderr, "hold: give OWNER SECONDS COMMAND\n");
        return WRONG_USE;
    }
    const char *named = getenv("EDGETUNE_LOCK");
    const int lock = lock_take(named != NULL ? named : "edgetune", holder);
    if (lock == -1) {
        fprintf(stderr, "held: %.*s\n", (int)strcspn(holder, "\n"), holder);
        return TAKEN;
    }
    const double end = now_s() + strtod(values[2], NULL);
    const pid_t child = start(values + 3);
    if (child < 0) {
        fprintf(stderr, "hold: no process can be started: %s\n", strerror(errno));
        return 1;
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd visitor = {lock, POLLIN, 0}; /* a lock of -2, of a system without such sockets, is ignored */
        if (now_s() >= end) {
            kill(child, SIGKILL);
            late = 1;
        }
        if (poll(&visitor, 1, LOOK_MS) > 0 && lock >= 0)
            lock_tell(lock, values[1], end - now_s());
    }
    if (late && WIFSIGNALED(status))
        return OUT_OF_TIME;
    return WIFEXITED(status) ? WEXITSTATUS(status) : KILLED + WTERMSIG(status);
}
