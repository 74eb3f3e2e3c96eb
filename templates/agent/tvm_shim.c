/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded into a session of TVM's RPC server: checks and times candidates in a forked child, so that one that crashes
   or hangs ends neither the session nor the server. A candidate is the same library that any other transport loads:
   this file is the only one that knows TVM's calling convention, by its own declarations. It needs no header of TVM
   and, linked without libraries, no version of any libc: the server's process has them all.

   Each entry returns a code (enum) as an integer. Texts go into a byte tensor, zero-terminated. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cycles.h"
#include "floating.h"
#include "processes.h"

enum { MOST_TENSORS = 64, MOST_SAMPLES = 4096, ALIGN = 64, GAP = 128, CANARY = 0xA5, FIRST_FILL = 0xFF, LATER_FILL = 0x5A };
enum { OK = 0, NOT_LOADED = 1, ENDED = 2, LATE = 3, HARM = 4, STARTED_PROCESS = 5, NO_MEMORY = 6, UNCONFINED = 7,
       LEFT_MODE = 8, LEFT_THREADS = 9, DIFFERS = 10, CHANGED_INPUT = 11, MISUSE = -1 };
enum { TAKE = 0, WATCH = 1, END = 2 };
enum { ANY_INT = 1, ANY_DLTENSOR = 7, ANY_TEXT = 8 };

typedef struct {
    int32_t type;
    uint32_t length;
    union {
        int64_t integer;
        const void *pointer;
    } v;
} any;

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef void (*call_fn)(void *const *buffers);

typedef struct {
    uint8_t *map, *bytes; /* one inaccessible page, canary, bytes, canary up to the next inaccessible page */
    size_t pages, count;
} fence;

typedef struct {
    uint64_t token;
    int64_t what, repeat, count;
} order;

typedef struct {
    uint64_t token;
    int64_t code;
} answer;

typedef struct {
    double samples[MOST_SAMPLES];
    char text[512];
    int filtered; /* the system lets the candidate start no process */
} shared_page;

static struct {
    pid_t child; /* 0: none */
    int socket;
    uint64_t token;
    int tensors; /* the scratch comes behind them */
    int buffers;
    char roles[MOST_TENSORS + 1];
    fence fences[MOST_TENSORS + 1];
    uint8_t *arena;
    size_t arena_bytes;
    void *close_by[MOST_TENSORS + 1];
    shared_page *page;
} now;

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static size_t bytes_of(const dl_tensor *t)
{
    size_t count = (size_t)(t->bits * t->lanes + 7) / 8;
    for (int i = 0; i < t->ndim; ++i)
        count *= (size_t)t->shape[i];
    return count;
}

static uint8_t *data_of(const dl_tensor *t) { return (uint8_t *)t->data + t->byte_offset; }

static int finish(any *ret, int64_t code)
{
    ret->type = ANY_INT;
    ret->length = 0;
    ret->v.integer = code;
    return 0;
}

static void tell(const dl_tensor *to, const char *text)
{
    const size_t room = bytes_of(to);
    if (room > 0) {
        const size_t length = strnlen(text, room - 1);
        memcpy(data_of(to), text, length);
        data_of(to)[length] = 0;
    }
}

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *map_shared(size_t count)
{
    void *map = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* o: an output; p: one with gaps, in which the reference has bytes of FIRST_FILL; q: of LATER_FILL. */
static int is_output(char role) { return role == 'o' || role == 'p' || role == 'q'; }

static int make_fence(fence *f, size_t count, uint8_t fill)
{
    const size_t page = page_size(), room = round_up(count > 0 ? count : 1, ALIGN);
    f->count = count;
    f->pages = round_up(room + ALIGN, page);
    f->map = map_shared(f->pages + 2 * page);
    if (f->map == NULL)
        return -1;
    memset(f->map + page, CANARY, f->pages);
    f->bytes = f->map + page + f->pages - room;
    memset(f->bytes, fill, count);
    return 0;
}

static const char *harm_of(const fence *f)
{
    const uint8_t *end = f->map + page_size() + f->pages;
    for (const uint8_t *p = f->map + page_size(); p < f->bytes; ++p)
        if (*p != CANARY)
            return "before its start";
    for (const uint8_t *p = f->bytes + f->count; p < end; ++p)
        if (*p != CANARY)
            return "after its end";
    return NULL;
}

/* ---- the child ---- */

static void reply(int64_t code)
{
    const answer a = {now.token, code};
    if (write(now.socket, &a, sizeof a) != (ssize_t)sizeof a)
        _exit(97);
}

/* A limit that is stricter already stays. */
static int limit(int kind, uint64_t value)
{
    struct rlimit l;
    if (getrlimit((__rlimit_resource_t)kind, &l) != 0)
        return -1;
    if (value < (uint64_t)l.rlim_max)
        l.rlim_max = (rlim_t)value;
    l.rlim_cur = l.rlim_max;
    return setrlimit((__rlimit_resource_t)kind, &l);
}

/* `cores`: numbers with commas between them; without any, all that there are. */
static int keep_on(const char *cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (*cores == 0)
        return 0;
    while (*cores != 0) {
        size_t core = 0;
        if (*cores < '0' || *cores > '9')
            return -1;
        for (; *cores >= '0' && *cores <= '9' && core < CPU_SETSIZE; ++cores)
            core = 10 * core + (size_t)(*cores - '0');
        if (core >= CPU_SETSIZE)
            return -1;
        CPU_SET(core, &set);
        cores += *cores == ',';
    }
    return sched_setaffinity(0, sizeof set, &set);
}

/* Returns why that is not possible, NULL when it is done. */
static const char *confine(const char *cores, int64_t memory_bytes, int64_t cpu_s)
{
    unsigned long present = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm != NULL) {
        if (fscanf(statm, "%lu", &present) != 1)
            present = 0;
        fclose(statm);
    }
    if (present == 0)
        return "/proc/self/statm cannot be read there";
    if ((memory_bytes > 0 && limit(RLIMIT_AS, (uint64_t)present * page_size() + (uint64_t)memory_bytes) != 0) ||
        limit(RLIMIT_CPU, (uint64_t)cpu_s) != 0 || limit(RLIMIT_CORE, 0) != 0 || limit(RLIMIT_FSIZE, 0) != 0)
        return "a limit cannot be set there";
    for (int number = 1; number < 32; ++number)
        signal(number, SIG_DFL);
    if (keep_on(cores) != 0)
        return "a candidate cannot be kept on its cores there";
    const int null = open("/dev/null", O_RDWR);
    for (int descriptor = 0; descriptor < 3; ++descriptor)
        dup2(null, descriptor);
    for (int descriptor = 3; descriptor < 1024; ++descriptor)
        if (descriptor != now.socket)
            close(descriptor);
    return NULL;
}

/* Returns whether it left the mode of floating point changed. */
static int first_call(call_fn call)
{
    const size_t page = page_size();
    const uint64_t mode = floating_mode();
    void *buffers[MOST_TENSORS + 1];
    for (int i = 0; i < now.buffers; ++i) {
        fence *f = &now.fences[i];
        mprotect(f->map, page, PROT_NONE);
        mprotect(f->map + page + f->pages, page, PROT_NONE);
        if (i < now.tensors && !is_output(now.roles[i]))
            mprotect(f->map + page, f->pages, PROT_READ);
        buffers[i] = f->bytes;
    }
    call(buffers);
    const int changed = floating_mode() != mode;
    floating_restore(mode);
    return changed;
}

/* The outputs of the first call are to stay as they are; inputs come close to each other for the others. */
static void fill_arena(void)
{
    for (int i = 0; i < now.buffers; ++i) {
        mprotect(now.fences[i].map + page_size(), now.fences[i].pages, PROT_READ);
        if (i < now.tensors && !is_output(now.roles[i]))
            memcpy(now.close_by[i], now.fences[i].bytes, now.fences[i].count);
    }
}

/* Have the outputs hold a pattern, so that a call which writes nothing is found out. */
static void refill(void)
{
    for (int i = 0; i < now.tensors; ++i)
        if (is_output(now.roles[i]))
            memset(now.close_by[i], now.roles[i] == 'p' ? FIRST_FILL : LATER_FILL, now.fences[i].count);
}

/* Returns whether the mode of floating point was left changed. */
static int take_samples(call_fn call, int64_t repeat, int64_t count, pid_t owner)
{
    const uint64_t mode = floating_mode();
    int changed = 0;
    for (int64_t s = 0; s < count; ++s) {
        const int64_t start = clock_ns();
        for (int64_t r = 0; r < repeat; ++r)
            call(now.close_by);
        const int64_t end = clock_ns();
        changed |= floating_mode() != mode;
        floating_restore(mode);
        if (getpid() != owner)
            _exit(99);
        now.page->samples[s] = (double)(end - start) / (double)repeat;
    }
    return changed;
}

/* What the candidate has left so far. */
static int64_t what_is_left(int mode_changed, unsigned threads)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        return STARTED_PROCESS;
    if (mode_changed)
        return LEFT_MODE;
    return threads_left(threads) ? LEFT_THREADS : OK;
}

/* Whether the outputs are those of the first call, which were looked at. */
static int64_t compare_with_first(void)
{
    for (int i = 0; i < now.tensors; ++i)
        if (is_output(now.roles[i]) && memcmp(now.close_by[i], now.fences[i].bytes, now.fences[i].count) != 0)
            return DIFFERS;
    return OK;
}

static int64_t obey(const order *o, call_fn call, pid_t owner, unsigned threads)
{
    if (o->what == END) {
        const int64_t code = what_is_left(0, threads);
        now.page->samples[0] = cycle_ns();
        return code;
    }
    if (o->what == WATCH)
        refill();
    if (take_samples(call, o->repeat, o->count, owner))
        return LEFT_MODE;
    return o->what == WATCH ? compare_with_first() : OK;
}

static void be_child(const char *path, const char *cores, int64_t memory_bytes, int64_t cpu_s)
{
    const pid_t owner = getpid();
    const unsigned threads = threads_count();
    const uint64_t mode = floating_mode();
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    const char *problem = confine(cores, memory_bytes, cpu_s);
    now.page->filtered = processes_forbid();
    if (problem != NULL) {
        snprintf(now.page->text, sizeof now.page->text, "%s", problem);
        reply(UNCONFINED);
        _exit(0);
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    floating_restore(mode); /* what a library does when it is loaded is its toolchain's choice */
    call_fn call = NULL;
    if (library != NULL)
        *(void **)&call = dlsym(library, "edgetune_call");
    if (call == NULL) {
        const char *why = dlerror();
        snprintf(now.page->text, sizeof now.page->text, "%s", why != NULL ? why : "no symbol edgetune_call");
        reply(NOT_LOADED);
        _exit(0);
    }
    reply(OK);
    const int changed = first_call(call);
    if (getpid() != owner) /* a kernel that forks: the copy ends here */
        _exit(99);
    reply(what_is_left(changed, threads));
    fill_arena();
    order o;
    while (read(now.socket, &o, sizeof o) == (ssize_t)sizeof o && o.token == now.token)
        reply(obey(&o, call, owner, threads));
    _exit(0);
}

/* ---- the session ---- */

/* Kill the child and all it started; orphans come back to this process. Returns the child's status. */
static int clear_away(void)
{
    int status = 0;
    if (now.child == 0)
        return 0;
    kill(-now.child, SIGKILL);
    kill(now.child, SIGKILL);
    while (waitpid(now.child, &status, 0) < 0 && errno == EINTR)
        continue;
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        processes_end();
    close(now.socket);
    now.child = 0;
    return status;
}

static void unmap_all(void)
{
    clear_away();
    for (int i = 0; i < now.buffers; ++i)
        if (now.fences[i].map != NULL)
            munmap(now.fences[i].map, now.fences[i].pages + 2 * page_size());
    if (now.arena != NULL)
        munmap(now.arena, now.arena_bytes);
    if (now.page != NULL)
        munmap(now.page, sizeof *now.page);
    memset(&now, 0, sizeof now);
}

static int64_t say_end(const dl_tensor *text, const char *phase, int late)
{
    char line[128];
    int ended = 0, status = 0;
    if (late) {
        clear_away();
        snprintf(line, sizeof line, "still in phase '%s' at its deadline", phase);
    } else {
        for (int i = 0; i < 100 && !ended; ++i) { /* it closed its end: it is about to end */
            siginfo_t info = {0};
            ended = waitid(P_PID, (id_t)now.child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
            if (!ended)
                usleep(1000);
        }
        status = clear_away();
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
            return STARTED_PROCESS;
        if (WIFSIGNALED(status))
            snprintf(line, sizeof line, "killed by signal %d in phase '%s'", WTERMSIG(status), phase);
        else
            snprintf(line, sizeof line, "exit code %d in phase '%s'", WEXITSTATUS(status), phase);
        late = WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU;
    }
    tell(text, line);
    return late ? LATE : ENDED;
}

/* Whether there is a process that the candidate started, where the system does not keep it from that. */
static int any_started(void) { return !now.page->filtered && processes_any(now.child); }

/* Wait for the child's answer until `deadline`: its code, or ENDED or LATE with the reason in `text`. */
static int64_t await_answer(int64_t deadline, const dl_tensor *text, const char *phase)
{
    for (;;) {
        const int64_t left = (deadline - clock_ns()) / 1000000;
        struct pollfd p = {now.socket, POLLIN, 0};
        const int wait = (int)(!now.page->filtered && left > 20 ? 20 : left);
        const int ready = left > 0 ? poll(&p, 1, wait) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0 && left > wait) {
            if (!any_started())
                continue;
            clear_away();
            return STARTED_PROCESS;
        }
        if (ready <= 0)
            return say_end(text, phase, 1);
        answer a = {0, 0};
        const ssize_t got = recv(now.socket, &a, sizeof a, 0);
        if (got <= 0)
            return say_end(text, phase, 0);
        if (got == (ssize_t)sizeof a && a.token == now.token)
            return a.code;
        /* a kernel's rubbish is passed over: messages keep their bounds on this socket */
    }
}

/* The guard bytes before buffer i; with i one too large, those after the last. Returns how many there are. */
static size_t guard_of(int i, uint8_t **at)
{
    uint8_t *const end = i < now.buffers ? now.close_by[i] : now.arena + now.arena_bytes;
    *at = i > 0 ? now.close_by[i - 1] + now.fences[i - 1].count : now.arena;
    return (size_t)(end - *at);
}

/* OK, or HARM with what was overwritten in `text`. */
static int64_t look_at_guards(const dl_tensor *text)
{
    for (int i = 0; i <= now.buffers; ++i) {
        uint8_t *guard;
        const size_t room = guard_of(i, &guard);
        for (size_t b = 0; b < room; ++b) {
            const int behind = i == now.buffers || (i > 0 && b < room / 2), whose = behind ? i - 1 : i;
            char line[96], name[32] = "scratch";
            if (guard[b] == CANARY)
                continue;
            if (whose < now.tensors)
                snprintf(name, sizeof name, "parameter %d", whose);
            snprintf(line, sizeof line, "writes to %s %s", name, behind ? "after its end" : "before its start");
            tell(text, line);
            return HARM;
        }
    }
    return OK;
}

static int prepare(const any *tensors, int count, const char *roles, int64_t scratch_bytes)
{
    size_t end = GAP, offsets[MOST_TENSORS + 1];
    now.tensors = count;
    now.buffers = count + (scratch_bytes > 0);
    now.page = map_shared(sizeof *now.page);
    if (now.page == NULL)
        return -1;
    for (int i = 0; i < now.buffers; ++i) {
        const dl_tensor *given = i < count ? tensors[i].v.pointer : NULL;
        const size_t bytes = given != NULL ? bytes_of(given) : (size_t)scratch_bytes;
        if (make_fence(&now.fences[i], bytes, given != NULL && roles[i] == 'q' ? LATER_FILL : FIRST_FILL) != 0)
            return -1;
        if (given != NULL && !is_output(roles[i]))
            memcpy(now.fences[i].bytes, data_of(given), bytes);
        offsets[i] = end;
        end += round_up(bytes, ALIGN) + GAP;
    }
    strcpy(now.roles, roles);
    now.arena_bytes = round_up(end, page_size());
    now.arena = map_shared(now.arena_bytes);
    for (int i = 0; now.arena != NULL && i < now.buffers; ++i)
        now.close_by[i] = now.arena + offsets[i];
    if (now.arena == NULL)
        return -1;
    for (int i = 0; i <= now.buffers; ++i) {
        uint8_t *guard;
        const size_t room = guard_of(i, &guard);
        memset(guard, CANARY, room);
    }
    return 0;
}

static void copy_outputs(const any *tensors, int from_fences)
{
    for (int i = 0; i < now.tensors; ++i)
        if (is_output(now.roles[i]))
            memcpy(data_of(tensors[i].v.pointer), from_fences ? now.fences[i].bytes : now.close_by[i],
                   now.fences[i].count);
}

static int are(const any *args, int32_t n, const char *kinds)
{
    int i = 0;
    for (; kinds[i] != 0; ++i)
        if (i >= n || args[i].type != (kinds[i] == 'i' ? ANY_INT : kinds[i] == 's' ? ANY_TEXT : ANY_DLTENSOR))
            return 0;
    for (; i < n; ++i)
        if (args[i].type != ANY_DLTENSOR)
            return 0;
    return 1;
}

/* (path, cores, memory_bytes, cpu_s, scratch_bytes, timeout_ms, roles, text, tensors...): load a candidate in a child
   and call it once on fenced buffers; outputs are copied into their tensors. `roles` has one letter each, o for an
   output, p or q for one with gaps. Whatever ran before is ended. */
int __tvm_ffi_edgetune_open(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_open(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    const int tensors = n - 8;
    if (!are(args, n, "ssiiiist") || tensors > MOST_TENSORS || strlen(args[6].v.pointer) != (size_t)tensors)
        return finish(ret, MISUSE);
    const dl_tensor *text = args[7].v.pointer;
    const int64_t deadline = clock_ns() + args[5].v.integer * 1000000;
    int ends[2];
    unmap_all();
    if (prepare(args + 8, tensors, args[6].v.pointer, args[4].v.integer) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        unmap_all();
        tell(text, "the board has no memory for its arrays");
        return finish(ret, NO_MEMORY);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (random < 0 || read(random, &now.token, sizeof now.token) != (ssize_t)sizeof now.token)
        now.token = (uint64_t)clock_ns();
    if (random >= 0)
        close(random);
    now.child = fork();
    now.socket = ends[now.child == 0];
    if (now.child == 0)
        be_child(args[0].v.pointer, args[1].v.pointer, args[2].v.integer, args[3].v.integer);
    close(ends[1]);
    if (now.child < 0) {
        now.child = 0;
        close(now.socket);
        tell(text, "the board cannot start a process");
        return finish(ret, NO_MEMORY);
    }
    int64_t code = await_answer(deadline, text, "load");
    if (code == NOT_LOADED || code == UNCONFINED)
        tell(text, now.page->text);
    if (code != OK)
        return finish(ret, code);
    code = await_answer(deadline, text, "check");
    if (code == OK && any_started()) {
        clear_away();
        code = STARTED_PROCESS;
    }
    for (int i = 0; code == OK && i < now.buffers; ++i) {
        const char *harm = harm_of(&now.fences[i]);
        char line[96];
        if (harm != NULL) {
            if (i == now.tensors)
                snprintf(line, sizeof line, "writes to scratch %s", harm);
            else
                snprintf(line, sizeof line, "writes to parameter %d %s", i, harm);
            tell(text, line);
            code = HARM;
        }
    }
    copy_outputs(args + 8, 1);
    return finish(ret, code);
}

/* Send an order, wait for its answer. */
static int64_t have_done(const order *o, int64_t timeout_ms, const dl_tensor *text)
{
    const int64_t deadline = clock_ns() + timeout_ms * 1000000;
    if (send(now.socket, o, sizeof *o, MSG_NOSIGNAL) != (ssize_t)sizeof *o)
        return say_end(text, "time", 0);
    return await_answer(deadline, text, "time");
}

/* (watch, repeat, count, timeout_ms, text, samples): `count` samples in nanoseconds per call, each over `repeat` calls.
   With `watch` 1, over outputs that hold a pattern, and DIFFERS when they are not those of the first call. */
int __tvm_ffi_edgetune_sample(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_sample(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    if (!are(args, n, "iiiitt") || n != 6 || now.child == 0)
        return finish(ret, MISUSE);
    const order o = {now.token, args[0].v.integer == WATCH ? WATCH : TAKE, args[1].v.integer, args[2].v.integer};
    const dl_tensor *text = args[4].v.pointer, *samples = args[5].v.pointer;
    if (o.count < 1 || o.count > MOST_SAMPLES || (size_t)o.count * sizeof(double) > bytes_of(samples))
        return finish(ret, MISUSE);
    int64_t code = have_done(&o, args[3].v.integer, text);
    const int64_t harm = (code == OK || code == DIFFERS) && o.what == WATCH ? look_at_guards(text) : OK;
    if (harm != OK)
        code = harm;
    if (code == OK || code == DIFFERS)
        memcpy(data_of(samples), now.page->samples, (size_t)o.count * sizeof(double));
    return finish(ret, code);
}

/* (timeout_ms, text, samples): after all calls, look at what the candidate left; the first sample is how long a cycle
   of the core takes, in nanoseconds. */
int __tvm_ffi_edgetune_end(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_end(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    if (!are(args, n, "itt") || n != 3 || now.child == 0)
        return finish(ret, MISUSE);
    const order o = {now.token, END, 0, 0};
    const dl_tensor *text = args[1].v.pointer;
    int64_t code = have_done(&o, args[0].v.integer, text);
    if (code == OK && any_started())
        code = STARTED_PROCESS;
    for (int i = 0; code == OK && i < now.tensors; ++i)
        if (!is_output(now.roles[i]) && memcmp(now.close_by[i], now.fences[i].bytes, now.fences[i].count) != 0) {
            char line[32];
            snprintf(line, sizeof line, "%d", i);
            tell(text, line);
            code = CHANGED_INPUT;
        }
    if (code == OK)
        memcpy(data_of(args[2].v.pointer), now.page->samples, sizeof(double));
    return finish(ret, code);
}

/* (tensors...): copy the outputs of the last call into their tensors. */
int __tvm_ffi_edgetune_outputs(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_outputs(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    if (!are(args, n, "") || n != now.tensors)
        return finish(ret, MISUSE);
    copy_outputs(args, 0);
    return finish(ret, OK);
}

/* End the candidate. */
int __tvm_ffi_edgetune_close(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_close(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    (void)args;
    if (n != 0)
        return finish(ret, MISUSE);
    unmap_all();
    return finish(ret, OK);
}

/* (patterns, text): files whose names match one of the patterns (a line each), as "name\nbytes\ncontent" one after the
   other; returns the bytes used. What does not fit is left out. */
int __tvm_ffi_edgetune_read(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_read(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    if (!are(args, n, "st") || n != 2)
        return finish(ret, MISUSE);
    char *patterns = strdup(args[0].v.pointer), *rest = NULL, *content = malloc(1 << 16);
    uint8_t *to = data_of(args[1].v.pointer);
    const size_t room = bytes_of(args[1].v.pointer);
    size_t used = 0;
    for (char *p = patterns != NULL ? strtok_r(patterns, "\n", &rest) : NULL; p != NULL && content != NULL;
         p = strtok_r(NULL, "\n", &rest)) {
        glob_t found = {0};
        if (glob(p, 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; ++i) {
                char head[512];
                ssize_t got = 0, length = 0;
                const int file = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                while (file >= 0 && length < (1 << 16) && (got = read(file, content + length, (1 << 16) - (size_t)length)) > 0)
                    length += got;
                if (file < 0)
                    continue;
                close(file);
                const int heading = snprintf(head, sizeof head, "%s\n%zd\n", found.gl_pathv[i], length);
                if (heading < (int)sizeof head && used + (size_t)heading + (size_t)length <= room) {
                    memcpy(to + used, head, (size_t)heading);
                    memcpy(to + used + heading, content, (size_t)length);
                    used += (size_t)heading + (size_t)length;
                }
            }
        globfree(&found);
    }
    free(content);
    free(patterns);
    return finish(ret, (int64_t)used);
}

/* The cores that this process may use, as "0-1,3-3"; "" where that does not fit. */
static void list_cores(char *to, size_t room)
{
    cpu_set_t set;
    size_t used = 0;
    to[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int first = 0; first < CPU_SETSIZE; ++first) {
        int last = first;
        if (!CPU_ISSET((size_t)first, &set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET((size_t)last + 1, &set))
            ++last;
        used += (size_t)snprintf(to + used, room - used, "%s%d-%d", used > 0 ? "," : "", first, last);
        if (used >= room) {
            to[0] = 0;
            return;
        }
        first = last;
    }
}

/* (text): what this system is, "key=value" a line. */
int __tvm_ffi_edgetune_facts(void *self, const any *args, int32_t n, any *ret);
int __tvm_ffi_edgetune_facts(void *self, const any *args, int32_t n, any *ret)
{
    (void)self;
    if (!are(args, n, "t") || n != 1)
        return finish(ret, MISUSE);
    struct utsname u = {0};
    char libc[64] = "", cores[256], line[1024];
    uname(&u);
    list_cores(cores, sizeof cores);
    confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc);
    snprintf(line, sizeof line, "machine=%s\nkernel=%s\nlibc=%s\nbits=%d\ncores=%ld\nallowed=%s\npage_bytes=%zu\nmemory_bytes=%lld\n",
             u.machine, u.release, libc, (int)(8 * sizeof(void *)), sysconf(_SC_NPROCESSORS_ONLN), cores, page_size(),
             (long long)sysconf(_SC_PHYS_PAGES) * (long long)page_size());
    tell(args[0].v.pointer, line);
    return finish(ret, OK);
}
