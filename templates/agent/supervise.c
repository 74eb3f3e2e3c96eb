/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "supervise.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store.h"
#include "system.h"
#include "trial.h"

#define MOST_ORPHANS 10000
#define MEMORY_TICK_S 0.02

static struct trial trial;
static struct request request;
static struct report *report;
static pid_t agent, child; /* child 0: nothing runs */
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

const char *supervise_init(bool counting)
{
    void *shared = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return "no memory for the report of a trial";
    report = shared;
    agent = getpid();
    trial.counting = counting;
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

static const char *resolve(const struct request *wanted)
{
    request = *wanted;
    trial.request = &request;
    trial.report = report;
    trial.library = store_find(request.library, CONTENT_LIBRARY);
    if (trial.library == NULL)
        return "a request names a library that was not pushed";
    for (unsigned i = 0; i < request.array_count; ++i) {
        trial.arrays[i] = store_find(request.arrays[i].id, CONTENT_ARRAY);
        if (trial.arrays[i] == NULL)
            return "a request names an array that was not pushed";
    }
    return NULL;
}

static void be_child(const int *close_first, int close_count) __attribute__((noreturn));
static void be_child(const int *close_first, int close_count)
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
    for (int i = 0; i < close_count; ++i)
        close(close_first[i]);
    store_close_files(trial.library->file);
    const int null = open("/dev/null", O_RDWR);
    for (int standard = 0; standard < 3 && null >= 0; ++standard)
        dup2(null, standard);
    if (null > 2)
        close(null);
    trial_run(&trial);
}

const char *supervise_start(const struct request *wanted, const int *close_first, int close_count)
{
    if (child != 0)
        return "a trial is under way already";
    const char *problem = resolve(wanted);
    if (problem != NULL)
        return problem;
    memset(report, 0, sizeof *report);
    started = now_s();
    deadline = started + request.deadline_s;
    memory_most = resident_bytes(agent) + request.memory_bytes;
    child = fork();
    if (child == 0)
        be_child(close_first, close_count);
    if (child < 0) {
        child = 0;
        return "the board cannot start a process";
    }
    return NULL;
}

bool supervise_running(void)
{
    return child != 0;
}

uint8_t supervise_phase(void)
{
    return report->phase;
}

double supervise_wake_at(void)
{
    const double tick = now_s() + MEMORY_TICK_S;
    return !limits_memory && tick < deadline ? tick : deadline;
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
        if (after != NULL && strlen(after) > 4 && read_number(after + 4, 10, &parent) && (pid_t)parent == agent)
            kill((pid_t)process, SIGKILL);
    }
    closedir(folder);
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
    for (int i = 0; i < MOST_ORPHANS && has_children(); ++i) {
        kill_children();
        while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return status;
}

static void tell(struct writer *out, enum ending ending, int status)
{
    const bool dead = ending == END_DIED;
    const int code = !dead ? 0 : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    const uint32_t count = report->count <= 2 * MOST_SAMPLES ? report->count : 0;
    report->reason[REASON_BYTES - 1] = '\0';
    put_number(out, request.number, 4);
    put_number(out, (uint64_t)ending, 1);
    put_number(out, (uint32_t)code, 4);
    put_number(out, report->phase, 1);
    put_number(out, report->verdict, 1);
    put_number(out, report->problem, 1);
    put_number(out, report->after_many, 1);
    put_number(out, report->index, 2);
    put_number(out, report->stopped, 1);
    put_number(out, report->repeat, 4);
    /* The last one: from before the child began until nothing was left of it. */
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
    if (child == 0)
        return false;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    const bool gone = ended == child || (ended < 0 && errno == ECHILD);
    const bool late = !gone && now_s() >= deadline;
    const bool greedy = !gone && !late && !limits_memory && resident_bytes(child) > memory_most;
    if (!gone && !late && !greedy)
        return false;
    status = clear_away(status, gone);
    const bool reported = gone && report->done != 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    tell(result, reported ? END_REPORTED : late ? END_LATE : greedy ? END_MEMORY : END_DIED, status);
    return true;
}

void supervise_cancel(struct writer *result)
{
    if (child == 0)
        return;
    clear_away(0, false);
    tell(result, END_CANCELLED, 0);
}

void supervise_end(void)
{
    if (child != 0)
        clear_away(0, false);
}

uint64_t supervise_page_faults(void)
{
    return report->minor_faults + report->major_faults;
}
