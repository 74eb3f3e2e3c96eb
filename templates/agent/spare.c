/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "spare.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store.h"

static pid_t spare;        /* 0: there is none */
static int gate = -1;      /* a byte through it starts the spare, its end ends it */
static uint64_t known;     /* the arrays that it has, by the store's count of changes */

static void forget(void)
{
    close(gate);
    gate = -1;
    spare = 0;
}

void spare_drop(void)
{
    if (spare == 0)
        return;
    kill(spare, SIGKILL);
    while (waitpid(spare, NULL, 0) < 0 && errno == EINTR)
        ;
    forget();
}

void spare_look(void)
{
    if (spare != 0 && waitpid(spare, NULL, WNOHANG) != 0)
        forget();
}

bool spare_is_there(void)
{
    return spare != 0 && known == store_array_changes();
}

void spare_ended(pid_t process)
{
    if (spare != 0 && process == spare)
        forget();
}

pid_t spare_process(void)
{
    return spare;
}

/* In the spare: whether its trial is there, or the agent has gone. */
static bool is_open(void)
{
    struct pollfd started = {gate, POLLIN, 0};
    return poll(&started, 1, 0) != 0;
}

static void wait_and_run(int from, void (*prepare)(void), void (*rehearse)(bool (*enough)(void)), void (*run)(void))
    __attribute__((noreturn));
static void wait_and_run(int from, void (*prepare)(void), void (*rehearse)(bool (*enough)(void)), void (*run)(void))
{
    char byte;
    ssize_t got;
    gate = from;
    prepare();
    rehearse(is_open);
    while ((got = read(from, &byte, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1)
        _exit(96); /* the agent has no use for it, or is gone */
    close(from);
    run();
    _exit(95);
}

bool spare_make(void (*prepare)(void), void (*rehearse)(bool (*enough)(void)), void (*run)(void))
{
    int ends[2];
    spare_drop();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    const pid_t made = fork();
    if (made == 0) {
        close(ends[1]);
        wait_and_run(ends[0], prepare, rehearse, run);
    }
    close(ends[0]);
    if (made < 0) {
        close(ends[1]);
        return false;
    }
    spare = made;
    gate = ends[1];
    known = store_array_changes();
    return true;
}

pid_t spare_start(void)
{
    if (!spare_is_there()) {
        spare_drop();
        return 0;
    }
    const pid_t started = spare;
    if (write(gate, "", 1) != 1) { /* it has died meanwhile */
        spare_drop();
        return 0;
    }
    forget();
    return started;
}
