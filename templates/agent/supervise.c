/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"
#include "spare.h"
#include "store.h"
#include "system.h"
#include "trial.h"

#define TICK_S 0.02
#define ENDING_S 1.0 /* that a process which has told its result may take to end */

static struct trial *handed; /* shared: what the process of a trial reads, which was there before it was asked for */
static struct report *report;
static bool counts;                    /* instructions instead of time */
static uint16_t last_cores[MOST_CORES]; /* of the last request: most often the next one's too */
static unsigned last_core_count;
static int library; /* descriptor of the trial's */
static int agents_lock, nothing; /* descriptors: of the advisory lock, of /dev/null */
static pid_t agent, child; /* child 0: nothing runs */
static bool told;          /* the child's result is told; what is left of it has to go by the deadline */
static bool used;          /* the process forked ahead is in use, or was */
static bool repeated;      /* the trial was started anew, its first process having died before it began */
static double seconds_given;
static uint32_t number;    /* of the trial */
static double started, deadline;
static bool limits_memory;
static uint64_t memory_most; /* resident bytes, where the address space cannot be limited */

/* Emulators pass limits of the address space over; then the agent looks at the child's memory itself. */
static bool limit_holds(void)
{
    struct rlimit before, wanted, after;
    if (getrlimit(RLIMIT_AS, &before) != 0)
        return false;
    wanted = before;
    wanted.rlim_cur = (rlim_t)1 << (sizeof(void *) == 8 ? 46 : 30);
    if (wanted.rlim_cur > before.rlim_max)
        wanted.rlim_cur = before.rlim_max - 1;
    if (setrlimit(RLIMIT_AS, &wanted) != 0 || getrlimit(RLIMIT_AS, &after) != 0)
        return false;
    setrlimit(RLIMIT_AS, &before);
    return after.rlim_cur == wanted.rlim_cur;
}

static void *share(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

const char *supervise_init(bool counting, int lock)
{
    report = share(sizeof *report);
    handed = share(sizeof *handed);
    if (report == NULL || handed == NULL)
        return "no memory for the report of a trial";
    nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return "/dev/null cannot be opened";
    agents_lock = lock;
    agent = getpid();
    counts = counting;
    limits_memory = limit_holds();
    trial_prepare(counting);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return NULL;
}

bool supervise_limits_memory(void)
{
    return limits_memory;
}

static uint64_t resident_bytes(pid_t process)
{
    char path[64], text[128];
    uint64_t pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)process);
    if (!read_text(path, text, sizeof text))
        return 0;
    const char *second = strchr(text, ' ');
    if (second == NULL || !read_number(second + 1, 10, &pages))
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Hand the trial over: only what the request uses of its room, most of which is empty. */
static const char *hand_over(const struct request *wanted)
{
    const struct content *found = store_find(wanted->library, CONTENT_LIBRARY);
    if (found == NULL)
        return "a request names a library that was not pushed";
    for (unsigned i = 0; i < wanted->array_count; ++i) {
        const struct content *array = store_find(wanted->arrays[i].id, CONTENT_ARRAY);
        if (array == NULL)
            return "a request names an array that was not pushed";
        handed->arrays[i] = *array;
    }
    library = found->file;
    memcpy(&handed->request, wanted, offsetof(struct request, arrays) + wanted->array_count * sizeof *wanted->arrays);
    last_core_count = wanted->core_count;
    memcpy(last_cores, wanted->cores, wanted->core_count * sizeof *last_cores);
    return NULL;
}

/* The trial as its process has it: a copy, for what is shared a candidate could change for those after it. */
static void be_child(int received) __attribute__((noreturn));
static void be_child(int received)
{
    static struct trial own;
    const struct request *const wanted = &handed->request;
    const unsigned arrays = wanted->array_count <= MOST_ARRAYS ? wanted->array_count : 0;
    memcpy(&own.request, wanted, offsetof(struct request, arrays) + arrays * sizeof *wanted->arrays);
    memcpy(own.arrays, handed->arrays, arrays * sizeof *own.arrays);
    munmap(handed, sizeof *handed);
    own.report = report;
    own.agent = agent;
    own.counting = counts;
    own.library = received;
    trial_run(&own);
}

static void rehearse(bool (*enough)(void))
{
    trial_rehearse(counts, enough);
}

/* In the child, before there is a trial. */
static void prepare_child(void)
{
    static const int defaults[] = {SIGPIPE, SIGTERM, SIGHUP, SIGINT, SIGCHLD};
    sigset_t none;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != agent) /* it died before the call */
        _exit(97);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; ++i)
        signal(defaults[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (agents_lock >= 0)
        close(agents_lock);
    store_close_files();
    for (int standard = 0; standard < 3; ++standard)
        dup2(nothing, standard);
    if (nothing > 2)
        close(nothing);
    trial_await(last_cores, last_core_count);
}

static const struct spare_life life = {prepare_child, rehearse, be_child};

/* Start the trial at hand, in the process forked ahead or in one that is forked now. */
static bool launch(void)
{
    child = spare_start(library);
    if (child == 0 && spare_make(&life))
        child = spare_start(library);
    deadline = now_s() + seconds_given;
    return child != 0;
}

bool supervise_running(void)
{
    return child != 0 && !told;
}

uint8_t supervise_phase(void)
{
    return report->phase;
}

double supervise_wake_at(void)
{
    const double tick = now_s() + TICK_S;
    if (child == 0)
        return HUGE_VAL;
    return (!limits_memory || !report->filtered) && !told && tick < deadline ? tick : deadline;
}

/* Kill the child and everything it started; orphans have come back to us, and there is no spare while there is a child.
   Returns how the child ended. */
static int clear_away(int status, bool reaped)
{
    kill(-child, SIGKILL);
    if (!reaped) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    child = 0;
    if (has_children())
        processes_end();
    return status;
}

const char *supervise_start(const struct request *wanted)
{
    const double asked = now_s();
    if (supervise_running())
        return "a trial is under way already";
    if (child != 0)
        clear_away(0, false);
    const char *problem = hand_over(wanted);
    if (problem != NULL)
        return problem;
    memset(report, 0, sizeof *report);
    told = repeated = false;
    used = true;
    number = wanted->number;
    started = asked;
    seconds_given = wanted->deadline_s;
    memory_most = limits_memory ? 0 : resident_bytes(agent) + wanted->memory_bytes;
    return launch() ? NULL : "the board cannot start a process";
}

static void tell(struct writer *out, enum ending ending, int status)
{
    const bool dead = ending == END_DIED;
    const int code = !dead ? 0 : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    static struct report said; /* a copy: threads of the candidate may still write */
    memcpy(&said, report, offsetof(struct report, samples));
    const uint32_t count = said.count <= 2 * MOST_SAMPLES ? said.count : 0;
    memcpy(said.samples, report->samples, count * sizeof *said.samples);
    said.reason[REASON_BYTES - 1] = '\0';
    put_number(out, number, 4);
    put_number(out, (uint64_t)ending, 1);
    put_number(out, (uint32_t)code, 4);
    put_number(out, said.phase, 1);
    put_number(out, said.verdict, 1);
    put_number(out, said.problem, 1);
    put_number(out, said.moment, 1);
    put_number(out, said.index, 2);
    put_number(out, said.call, 4);
    put_number(out, said.stopped, 1);
    put_number(out, said.repeat, 4);
    /* The last but one: since the trial was asked for. */
    const double values[] = {said.worst_absolute,   said.worst_relative, said.problem_absolute,
                             said.problem_relative, said.load_s,         said.check_s,
                             said.time_s,           now_s() - started, said.cycle_ns};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
        put_f64(out, values[i]);
    put_number(out, said.minor_faults, 8);
    put_number(out, said.major_faults, 8);
    put_text(out, said.reason);
    put_number(out, count, 4);
    for (uint32_t i = 0; i < count; ++i)
        put_f64(out, said.samples[i]);
}

bool supervise_look(struct writer *result)
{
    int status = 0;
    spare_look();
    if (child == 0)
        return false;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    const bool gone = ended == child || (ended < 0 && errno == ECHILD);
    /* Set last: however the process ends now, all is said. */
    const bool over = __atomic_load_n(&report->done, __ATOMIC_ACQUIRE) != 0;
    const bool late = !gone && (told || !over) && now_s() >= deadline;
    const bool greedy = !gone && !over && !late && !limits_memory && resident_bytes(child) > memory_most;
    /* Where the system does not keep it from that, it is seen when the candidate has started a process. */
    const bool started_any = !told && report->phase != PHASE_START && !report->filtered && processes_any(gone ? 0 : child);
    const bool tells = !told && (gone || over || late || greedy || started_any);
    if (gone || late || greedy || started_any)
        status = clear_away(status, gone);
    if (gone && tells && !over && report->phase == PHASE_START && !repeated) {
        repeated = true; /* nothing of the candidate has run: its process was killed while it waited */
        if (launch())
            return false;
    }
    if (started_any)
        report->verdict = VERDICT_FORKED;
    if (tells) {
        tell(result, over || started_any ? END_REPORTED : late ? END_LATE : greedy ? END_MEMORY : END_DIED, status);
        told = true;
        deadline = now_s() + ENDING_S;
    }
    return tells;
}

void supervise_get_ready(void)
{
    if (child != 0 || !used)
        return;
    used = false; /* one try a trial: where memory is short it dies again and again */
    spare_make(&life);
}

void supervise_cancel(struct writer *result)
{
    if (!supervise_running())
        return;
    clear_away(0, false);
    tell(result, END_CANCELLED, 0);
}

void supervise_end(void)
{
    if (child != 0)
        clear_away(0, false);
    spare_drop();
}

uint64_t supervise_page_faults(void)
{
    return report->minor_faults + report->major_faults;
}
