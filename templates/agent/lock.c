/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 1000

static socklen_t address(struct sockaddr_un *place, const char *name)
{
    const size_t length = strnlen(name, sizeof place->sun_path - 1);
    memset(place, 0, sizeof *place);
    place->sun_family = AF_UNIX;
    memcpy(place->sun_path + 1, name, length); /* the first byte is 0: no file */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static void ask(const struct sockaddr_un *place, socklen_t size, char holder[OWNER_BYTES])
{
    holder[0] = '\0';
    const int visit = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (visit < 0)
        return;
    size_t used = 0;
    if (connect(visit, (const struct sockaddr *)place, size) == 0) {
        struct pollfd wait = {visit, POLLIN, 0};
        while (used < OWNER_BYTES - 1 && poll(&wait, 1, PATIENCE_MS) > 0) {
            const ssize_t got = read(visit, holder + used, OWNER_BYTES - 1 - used);
            if (got <= 0)
                break;
            used += (size_t)got;
        }
    }
    close(visit);
    holder[used] = '\0';
}

int lock_take(const char *name, char holder[OWNER_BYTES])
{
    struct sockaddr_un place;
    const socklen_t size = address(&place, name);
    const int lock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lock < 0)
        return -2;
    if (bind(lock, (const struct sockaddr *)&place, size) == 0 && listen(lock, 4) == 0)
        return lock;
    const bool taken = errno == EADDRINUSE;
    close(lock);
    if (!taken)
        return -2;
    ask(&place, size, holder);
    return -1;
}

void lock_tell(int lock, const char *owner, double expires_s)
{
    char text[OWNER_BYTES];
    const int visitor = accept4(lock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (visitor < 0)
        return;
    const int length = snprintf(text, sizeof text, "%.200s\n%.0f\n", owner, expires_s);
    if (length > 0 && send(visitor, text, (size_t)length, MSG_NOSIGNAL) < 0) {
        /* the visitor has left */
    }
    close(visitor);
}
