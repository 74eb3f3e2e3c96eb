/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: started on a board by the host, speaks frames on its standard input and output, tries candidates one at a
   time, and leaves nothing behind. It ends when its input ends, when it is told to, and when the host has said nothing
   for too long.

   --owner TEXT   who holds the board, told to whoever else wants it
   --idle S       seconds of silence after which it ends
   --lock NAME    name of the lock (default: $EDGETUNE_LOCK, then "edgetune")
   --folder DIR   where libraries go that cannot stay in memory (default: the current one)
   --unlink       remove the program's own file at the start
   --count        count instructions (under an emulator with the plugin) instead of measuring time */
#define _GNU_SOURCE
#include <errno.h>
#include <gnu/libc-version.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bytes.h"
#include "frame.h"
#include "health.h"
#include "lock.h"
#include "request.h"
#include "spare.h"
#include "store.h"
#include "supervise.h"
#include "system.h"

#define AGENT_VERSION 2u
#define SEND_PATIENCE_MS 10000
#define DEFAULT_IDLE_S 120.0
#define MOST_ANSWER (1024u + REASON_ROOM + 2u * MOST_SAMPLES * 8u)
#define REASON_ROOM 1024u
#define EXIT_BUSY 3

enum { HELLO_MEMFD = 1, HELLO_COUNTS = 2, HELLO_LIMITS_MEMORY = 4, HELLO_LOCKED = 8 };

struct options {
    const char *owner, *lock, *folder;
    double idle_s;
    bool unlink, count;
};

static uint8_t incoming[FRAME_HEADER + FRAME_MOST];
static uint8_t answer_bytes[FRAME_HEADER + MOST_ANSWER];
static volatile sig_atomic_t asked_to_end;
static double last_heard;
static int lock = -1;

static void on_signal(int number)
{
    if (number != SIGCHLD) /* that one only wakes us */
        asked_to_end = 1;
}

static struct writer answer(void)
{
    return (struct writer){answer_bytes + FRAME_HEADER, 0, MOST_ANSWER, false};
}

static void leave(int status) __attribute__((noreturn));
static void leave(int status)
{
    supervise_end();
    _exit(status);
}

/* Send what was written; a host that does not take it within the patience is gone. */
static void send_answer(enum frame_type type, const struct writer *out)
{
    size_t sent = 0;
    const size_t all = FRAME_HEADER + out->used;
    frame_header(answer_bytes, (uint16_t)type, out->base, (uint32_t)out->used);
    while (sent < all) {
        const ssize_t count = write(1, answer_bytes + sent, all - sent);
        if (count > 0) {
            sent += (size_t)count;
        } else if (count < 0 && errno == EAGAIN) {
            struct pollfd wait = {1, POLLOUT, 0};
            if (poll(&wait, 1, SEND_PATIENCE_MS) == 0)
                leave(4);
        } else if (count == 0 || errno != EINTR) {
            leave(4);
        }
    }
}

static void refuse(uint16_t type, uint32_t number, const char *why)
{
    struct writer out = answer();
    put_number(&out, type, 2);
    put_number(&out, number, 4);
    put_text(&out, why);
    send_answer(FRAME_REFUSED, &out);
}

static void say_hello(const struct options *options)
{
    struct utsname system;
    cpu_set_t cores;
    struct writer out = answer();
    if (uname(&system) != 0)
        memset(&system, 0, sizeof system);
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    const unsigned flags = (store_has_memfd() ? HELLO_MEMFD : 0u) | (options->count ? HELLO_COUNTS : 0u)
                           | (supervise_limits_memory() ? HELLO_LIMITS_MEMORY : 0u) | (lock >= 0 ? HELLO_LOCKED : 0u);
    put_number(&out, AGENT_VERSION, 2);
    put_number(&out, 8 * sizeof(void *), 1);
    put_number(&out, flags, 1);
    put_number(&out, (uint32_t)sysconf(_SC_PAGESIZE), 4);
    put_number(&out, (uint32_t)getpid(), 4);
    put_number(&out, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), 8);
    put_text(&out, system.machine);
    put_text(&out, gnu_get_libc_version());
    put_text(&out, system.release);
    const size_t count_at = out.used;
    uint8_t count = 0;
    put_number(&out, 0, 1);
    for (unsigned core = 0; core < CPU_SETSIZE && count < MOST_CORES; ++core)
        if (CPU_ISSET(core, &cores)) {
            put_number(&out, core, 2);
            ++count;
        }
    out.base[count_at] = count;
    send_answer(FRAME_HELLO, &out);
}

static void take_lock(const struct options *options)
{
    char holder[OWNER_BYTES];
    lock = lock_take(options->lock, holder);
    if (lock != -1)
        return;
    struct writer out = answer();
    uint64_t seconds = 0;
    char *end = strchr(holder, '\n');
    if (end != NULL) {
        *end = '\0';
        if (!read_number(end + 1, 10, &seconds) || seconds > UINT32_MAX)
            seconds = 0;
    }
    put_number(&out, seconds, 4);
    put_text(&out, holder);
    send_answer(FRAME_BUSY, &out);
    leave(EXIT_BUSY);
}

static void on_put(const struct frame *frame)
{
    bool complete;
    const char *problem = store_piece(frame->payload, frame->length, &complete);
    spare_drop_stale();
    if (problem != NULL) {
        refuse(FRAME_PUT, 0, problem);
    } else if (complete) {
        struct writer out = answer();
        put_bytes(&out, frame->payload, ID_BYTES + 1);
        send_answer(FRAME_STORED, &out);
    }
}

static void on_run(const struct frame *frame)
{
    static struct request request;
    const char *problem = request_parse(&request, frame);
    if (problem == NULL)
        problem = supervise_start(&request);
    if (problem != NULL)
        refuse(FRAME_RUN, request.number, problem);
}

static void on_frame(const struct frame *frame)
{
    struct reader in = {frame->payload, frame->length, false};
    struct writer out = answer();
    uint32_t number;
    const uint8_t *id;
    switch (frame->type) {
    case FRAME_PING:
        put_number(&out, get_u64(&in), 8);
        put_number(&out, supervise_running(), 1);
        put_number(&out, supervise_phase(), 1);
        send_answer(FRAME_PONG, &out);
        break;
    case FRAME_PUT: on_put(frame); break;
    case FRAME_FORGET:
        id = get_bytes(&in, ID_BYTES);
        if (id != NULL && !supervise_running())
            store_forget(id);
        spare_drop_stale(); /* it would keep what is forgotten */
        break;
    case FRAME_RUN: on_run(frame); break;
    case FRAME_CANCEL:
        if (supervise_running()) {
            supervise_cancel(&out);
            send_answer(FRAME_RESULT, &out);
        }
        break;
    case FRAME_ASK_HEALTH:
        number = get_u32(&in);
        put_number(&out, number, 4);
        out.base += 4; /* health counts its readings at the start of its part */
        out.used -= 4;
        out.room -= 4;
        health_write(&out, get_u16(&in), supervise_page_faults());
        out.base -= 4;
        out.used += 4;
        send_answer(FRAME_HEALTH, &out);
        break;
    case FRAME_BYE: leave(0);
    default: refuse(frame->type, 0, "unknown type of frame");
    }
}

/* Read what is there and answer whole frames; ends the process with its input. */
static void listen_to_host(struct frame_parser *parser)
{
    size_t room;
    uint8_t *space = frame_space(parser, &room);
    const ssize_t got = read(0, space, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        leave(0);
    frame_added(parser, (size_t)got);
    last_heard = now_s();
    struct frame frame;
    enum frame_state state;
    while ((state = frame_next(parser, &frame)) == FRAME_READY)
        on_frame(&frame);
    if (state == FRAME_BAD) {
        refuse(0, 0, parser->problem);
        leave(5);
    }
}

static void serve(const struct options *options) __attribute__((noreturn));
static void serve(const struct options *options)
{
    struct frame_parser parser;
    sigset_t while_waiting;
    frame_parser_init(&parser, incoming);
    sigprocmask(SIG_SETMASK, NULL, &while_waiting);
    sigdelset(&while_waiting, SIGCHLD);
    for (;;) {
        double wake = last_heard + options->idle_s;
        if (supervise_wake_at() < wake)
            wake = supervise_wake_at();
        const double left = wake > now_s() ? wake - now_s() : 0;
        struct timespec wait;
        wait.tv_sec = (time_t)left;
        wait.tv_nsec = (long)((left - (double)wait.tv_sec) * 1e9);
        struct pollfd ready[] = {{0, POLLIN, 0}, {lock, POLLIN, 0}};
        const int count = ppoll(ready, lock >= 0 ? 2 : 1, &wait, &while_waiting);
        struct writer out = answer();
        if (supervise_look(&out))
            send_answer(FRAME_RESULT, &out);
        if (asked_to_end || now_s() >= last_heard + options->idle_s)
            leave(0);
        if (count <= 0) {
            supervise_get_ready();
            continue;
        }
        if (ready[1].revents != 0 && lock >= 0)
            lock_tell(lock, options->owner, last_heard + options->idle_s - now_s());
        if (ready[0].revents != 0)
            listen_to_host(&parser);
    }
}

static struct options read_options(int count, char **values)
{
    const char *named = getenv("EDGETUNE_LOCK");
    struct options options = {"unknown", named != NULL ? named : "edgetune", ".", DEFAULT_IDLE_S, false, false};
    for (int i = 1; i < count; ++i) {
        const char *value = i + 1 < count ? values[i + 1] : "";
        bool taken = true;
        if (strcmp(values[i], "--owner") == 0)
            options.owner = value;
        else if (strcmp(values[i], "--lock") == 0)
            options.lock = value;
        else if (strcmp(values[i], "--folder") == 0)
            options.folder = value;
        else if (strcmp(values[i], "--idle") == 0)
            taken = read_fraction(value, &options.idle_s);
        else
            taken = false;
        i += taken;
        options.unlink |= strcmp(values[i], "--unlink") == 0 && !taken;
        options.count |= strcmp(values[i], "--count") == 0 && !taken;
    }
    return options;
}

static void remove_own_file(void)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    unlink(path);
}

int main(int count, char **values)
{
    const struct options options = read_options(count, values);
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    if (options.unlink)
        remove_own_file();
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    const int handled[] = {SIGCHLD, SIGTERM, SIGHUP, SIGINT};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; ++i)
        sigaction(handled[i], &action, NULL);
    do_not_wait(0);
    do_not_wait(1);
    last_heard = now_s();
    store_init(options.folder, (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE));
    take_lock(&options);
    const char *problem = supervise_init(options.count, lock);
    if (problem != NULL) {
        refuse(0, 0, problem);
        return 6;
    }
    say_hello(&options);
    serve(&options);
}
