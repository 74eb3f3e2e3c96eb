/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "spare.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store.h"

static pid_t spare;    /* 0: there is none */
static int gate = -1;  /* a byte through it, with the library, starts the spare; its end ends it */
static uint64_t known; /* the arrays that it has, by the store's count of changes */

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

void spare_drop_stale(void)
{
    if (!spare_is_there())
        spare_drop();
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

union control { /* room for one descriptor, aligned */
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static bool send_library(int through, int library)
{
    char byte = 0;
    union control control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control};
    memset(&control, 0, sizeof control);
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof library);
    memcpy(CMSG_DATA(head), &library, sizeof library);
    return sendmsg(through, &message, MSG_NOSIGNAL) == 1;
}

/* In the spare: wait for the library. -1: the agent has no use for us, or is gone. */
static int receive_library(int through)
{
    char byte;
    int library = -1;
    union control control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control};
    ssize_t got;
    memset(&control, 0, sizeof control);
    message.msg_controllen = sizeof control.bytes;
    while ((got = recvmsg(through, &message, 0)) < 0 && errno == EINTR)
        ;
    const struct cmsghdr *const head = CMSG_FIRSTHDR(&message);
    if (got == 1 && head != NULL && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof library))
        memcpy(&library, CMSG_DATA(head), sizeof library);
    return library;
}

/* In the spare: whether its trial is there, or the agent has gone. */
static bool is_open(void)
{
    struct pollfd started = {gate, POLLIN, 0};
    return poll(&started, 1, 0) != 0;
}

static void wait_and_run(int from, const struct spare_life *life) __attribute__((noreturn));
static void wait_and_run(int from, const struct spare_life *life)
{
    gate = from;
    life->prepare();
    life->rehearse(is_open);
    const int library = receive_library(from);
    if (library < 0)
        _exit(96);
    close(from);
    life->run(library);
    _exit(95);
}

bool spare_make(const struct spare_life *life)
{
    int ends[2];
    spare_drop();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    const pid_t made = fork();
    if (made == 0) {
        close(ends[1]);
        wait_and_run(ends[0], life);
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

pid_t spare_start(int library)
{
    if (!spare_is_there() || !send_library(gate, library)) { /* none, of no use, or dead meanwhile */
        spare_drop();
        return 0;
    }
    const pid_t started = spare;
    forget();
    return started;
}
