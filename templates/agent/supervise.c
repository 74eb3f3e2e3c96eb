/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "supervise.h"

#include <dirent.h>
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

#include "spare.h"
#include "store.h"
#include "system.h"
#include "trial.h"

#define MOST_ORPHANS 10000
#define MEMORY_TICK_S 0.02
#define ENDING_S 1.0 /* that a process which has told its result may take to end */

static struct trial *handed; /* what the process of a trial reads, which was there before the trial was asked for */
static struct report *report;
static int agents_lock, nothing; /* descriptors: of the advisory lock, of /dev/null */
static pid_t agent, child; /* child 0: nothing runs */
static bool told;          /* the child's result is told; what is left of it has to go by the deadline */
static bool used;          /* the process forked ahead is in use, or was */
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
    handed->report = report;
    handed->agent = agent;
    handed->counting = counting;
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
    const struct content *library = store_find(wanted->library, CONTENT_LIBRARY);
    if (library == NULL)
        return "a request names a library that was not pushed";
    for (unsigned i = 0; i < wanted->array_count; ++i) {
        const struct content *array = store_find(wanted->arrays[i].id, CONTENT_ARRAY);
        if (array == NULL)
            return "a request names an array that was not pushed";
        handed->arrays[i] = *array;
    }
    handed->library = library->file;
    memcpy(&handed->request, wanted, offsetof(struct request, arrays) + wanted->array_count * sizeof *wanted->arrays);
    return NULL;
}

static void be_child(void) __attribute__((noreturn));
static void be_child(void)
{
    trial_run(handed);
}

static void rehearse(bool (*enough)(void))
{
    trial_rehearse(handed->counting, enough);
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
    close(nothing);
    mprotect(handed, sizeof *handed, PROT_READ); /* the agent's, and out of the candidate's reach */
    trial_await(handed);
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
    const double tick = now_s() + MEMORY_TICK_S;
    if (child == 0)
        return HUGE_VAL;
    return !limits_memory && !told && tick < deadline ? tick : deadline;
}

static void kill_children(void)
{
    DIR *folder = opendir("/proc");
    if (folder == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint64_t process, parent;
        char path[64], text[512];
        if (!read_number(entry->d_name, 10, &process) || process > INT32_MAX)
            continue;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
        if (!read_text(path, text, sizeof text))
            continue;
        const char *after = strrchr(text, ')'); /* ") S 123": state and parent */
        if (after != NULL && strlen(after) > 4 && read_number(after + 4, 10, &parent) && (pid_t)parent == agent
            && (pid_t)process != spare_process())
            kill((pid_t)process, SIGKILL);
    }
    closedir(folder);
}

/* Whether there are children besides the spare. Kernels that do not list them cost us the spare. */
static bool orphans_left(void)
{
    char path[64], text[256];
    uint64_t process;
    if (!has_children())
        return false;
    if (spare_process() == 0)
        return true;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)agent);
    if (read_text(path, text, sizeof text) && read_number(text, 10, &process))
        return strchr(text, ' ') != NULL || (pid_t)process != spare_process();
    spare_drop();
    return has_children();
}

/* Kill the child and everything it started; orphans have come back to us. Returns how the child ended. */
static int clear_away(int status, bool reaped)
{
    kill(-child, SIGKILL);
    if (!reaped) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    child = 0;
    for (int i = 0; i < MOST_ORPHANS && orphans_left(); ++i) {
        kill_children();
        const pid_t ended = waitpid(-1, NULL, 0);
        spare_ended(ended);
    }
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
    told = false;
    used = true;
    number = wanted->number;
    started = asked;
    deadline = started + wanted->deadline_s;
    memory_most = limits_memory ? 0 : resident_bytes(agent) + wanted->memory_bytes;
    child = spare_start();
    if (child == 0 && spare_make(prepare_child, rehearse, be_child)) /* there was none that knows the arrays */
        child = spare_start();
    return child != 0 ? NULL : "the board cannot start a process";
}

static void tell(struct writer *out, enum ending ending, int status)
{
    const bool dead = ending == END_DIED;
    const int code = !dead ? 0 : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    const uint32_t count = report->count <= 2 * MOST_SAMPLES ? report->count : 0;
    report->reason[REASON_BYTES - 1] = '\0';
    put_number(out, number, 4);
    put_number(out, (uint64_t)ending, 1);
    put_number(out, (uint32_t)code, 4);
    put_number(out, report->phase, 1);
    put_number(out, report->verdict, 1);
    put_number(out, report->problem, 1);
    put_number(out, report->after_many, 1);
    put_number(out, report->index, 2);
    put_number(out, report->stopped, 1);
    put_number(out, report->repeat, 4);
    /* The last one: since the trial was asked for. */
    const double values[] = {report->worst_absolute,   report->worst_relative, report->problem_absolute,
                             report->problem_relative, report->load_s,         report->check_s,
                             report->time_s,           now_s() - started};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
        put_f64(out, values[i]);
    put_number(out, report->minor_faults, 8);
    put_number(out, report->major_faults, 8);
    put_text(out, report->reason);
    put_number(out, count, 4);
    for (uint32_t i = 0; i < count; ++i)
        put_f64(out, report->samples[i]);
}

bool supervise_look(struct writer *result)
{
    int status = 0;
    spare_look();
    if (child == 0)
        return false;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    const bool gone = ended == child || (ended < 0 && errno == ECHILD);
    const bool over = report->done != 0; /* set last: however the process ends now, all is said */
    const bool late = !gone && (told || !over) && now_s() >= deadline;
    const bool greedy = !gone && !over && !late && !limits_memory && resident_bytes(child) > memory_most;
    const bool tells = !told && (gone || over || late || greedy);
    if (gone || late || greedy)
        status = clear_away(status, gone);
    if (tells) {
        tell(result, over ? END_REPORTED : late ? END_LATE : greedy ? END_MEMORY : END_DIED, status);
        told = true;
        deadline = now_s() + ENDING_S;
    }
    return tells;
}

void supervise_get_ready(void)
{
    if (supervise_running() || !used)
        return;
    used = false; /* one try a trial: where memory is short it dies again and again */
    spare_make(prepare_child, rehearse, be_child);
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
