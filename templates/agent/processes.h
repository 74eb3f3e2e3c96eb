/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate starts no process. Where the kernel filters system calls, one that tries is killed by SIGSYS before
   there is a second process, root's as well; elsewhere (emulators) what it started is found and ended. */
#ifndef EDGETUNE_AGENT_PROCESSES_H
#define EDGETUNE_AGENT_PROCESSES_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __x86_64__ && !defined __ILP32__
#define EDGETUNE_AUDIT AUDIT_ARCH_X86_64
#elif defined __aarch64__ && !defined __AARCH64EB__
#define EDGETUNE_AUDIT AUDIT_ARCH_AARCH64
#elif defined __arm__ && !defined __ARMEB__
#define EDGETUNE_AUDIT AUDIT_ARCH_ARM
#elif defined __riscv && __riscv_xlen == 64
#if !defined AUDIT_ARCH_RISCV64
#define AUDIT_ARCH_RISCV64 (243 | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE)
#endif
#define EDGETUNE_AUDIT AUDIT_ARCH_RISCV64
#endif

#define EDGETUNE_FILTER_KILL 0x80000000u /* the process; before Linux 4.14 the thread, which is all there is */
#define EDGETUNE_SPEED_AS_EVER 4u        /* no slower loads for processes with a filter (Linux 4.17 to 5.15) */
#define EDGETUNE_SYS_CLONE3 435          /* the same number everywhere */

/* From now on a new process, or another program, ends this process by SIGSYS; threads are free. False: the system does
   not filter, and things are as before. */
static inline bool processes_forbid(void)
{
#if defined EDGETUNE_AUDIT
#define EDGETUNE_IS(number, code) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(number), 0, 1), BPF_STMT(BPF_RET | BPF_K, (code))
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EDGETUNE_AUDIT, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, EDGETUNE_FILTER_KILL),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#if defined __x86_64__ /* the second table of calls, of 32-bit pointers */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, EDGETUNE_FILTER_KILL),
#endif
#if defined SYS_fork
        EDGETUNE_IS(SYS_fork, EDGETUNE_FILTER_KILL),
#endif
#if defined SYS_vfork
        EDGETUNE_IS(SYS_vfork, EDGETUNE_FILTER_KILL),
#endif
        EDGETUNE_IS(SYS_execve, EDGETUNE_FILTER_KILL),
#if defined SYS_execveat
        EDGETUNE_IS(SYS_execveat, EDGETUNE_FILTER_KILL),
#endif
        /* Its flags cannot be seen; libraries then do with the older call. */
        EDGETUNE_IS(EDGETUNE_SYS_CLONE3, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)), /* little-endian: the lower half */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, EDGETUNE_FILTER_KILL),
    };
#undef EDGETUNE_IS
    struct sock_fprog program = {(unsigned short)(sizeof filter / sizeof *filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return false;
#if defined SYS_seccomp
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, EDGETUNE_SPEED_AS_EVER, &program) == 0)
        return true;
#endif
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
#else
    return false;
#endif
}

/* The number at the start of a text; 0 where there is none. New libraries have a new strtol, which old boards lack. */
static inline int32_t processes_number(const char *text)
{
    int32_t number = 0;
    for (; *text >= '0' && *text <= '9' && number < 100000000; ++text)
        number = 10 * number + (*text - '0');
    return number;
}

/* Threads that a file such as /proc/self/status tells of, however long it is (it lists the groups of the user before);
   0 where it does not. */
static inline unsigned threads_told(int file)
{
    static const char key[] = "\nThreads:\t";
    char text[512];
    size_t matched = 0;
    unsigned count = 0;
    for (ssize_t length; (length = read(file, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < length; ++i) {
            if (matched < sizeof key - 1)
                matched = text[i] == key[matched] ? matched + 1 : text[i] == key[0];
            else if (text[i] >= '0' && text[i] <= '9' && count < 100000000)
                count = 10 * count + (unsigned)(text[i] - '0');
            else
                return count;
        }
    return count;
}

/* Threads of this process; 0 where that is not told. */
static inline unsigned threads_count(void)
{
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const unsigned count = file < 0 ? 0 : threads_told(file);
    if (file >= 0)
        close(file);
    return count;
}

/* Whether there are more threads than `before`; one that is just ending is given time for it. Where the system told
   before and does not any more (all descriptors are taken), there may be. */
static inline bool threads_left(unsigned before)
{
    for (int i = 0; i < 50 && before > 0; ++i) {
        const struct timespec pause = {0, 1000000};
        const unsigned count = threads_count();
        if (count > 0 && count <= before)
            return false;
        nanosleep(&pause, NULL);
    }
    return before > 0;
}

struct edgetune_process {
    int32_t id, parent;
    bool below; /* started by us, or by one that was */
    char state;
};

enum { EDGETUNE_MOST_PROCESSES = 1 << 16 };

/* Fill `table` with all processes of the system, in the order of the system; returns how many. */
static inline size_t processes_list(struct edgetune_process *table, size_t most)
{
    size_t count = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL)
        return 0;
    for (const struct dirent *entry; count < most && (entry = readdir(folder)) != NULL;) {
        char path[64], text[512];
        const int32_t id = processes_number(entry->d_name);
        if (id == 0)
            continue;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)id);
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0)
            close(file);
        if (length <= 0)
            continue;
        text[length] = '\0';
        const char *after = strrchr(text, ')'); /* ") S 123": state and parent */
        if (after == NULL || strlen(after) < 5)
            continue;
        table[count++] = (struct edgetune_process){id, processes_number(after + 4), false, after[2]};
    }
    closedir(folder);
    return count;
}

/* Mark what this process has started, and what that has; returns how many of these are left, `spared` not counted. */
static inline size_t processes_below(struct edgetune_process *table, size_t count, int32_t spared)
{
    const int32_t us = (int32_t)getpid();
    size_t found = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; ++i) {
            if (table[i].below)
                continue;
            bool below = table[i].parent == us;
            /* Parents come before their children in all but few cases: those take another round. */
            for (size_t j = i; !below && j-- > 0;)
                if (table[j].id == table[i].parent) {
                    below = table[j].below;
                    break;
                }
            if (!below)
                for (size_t j = i + 1; j < count; ++j)
                    if (table[j].id == table[i].parent) {
                        below = table[j].below;
                        break;
                    }
            if (below) {
                table[i].below = more = true;
                found += table[i].id != spared;
            }
        }
    }
    return found;
}

/* Whether there is any process below this one but `spared`. */
static inline bool processes_any(int32_t spared)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
        return false;
    struct edgetune_process *table = malloc(EDGETUNE_MOST_PROCESSES * sizeof *table);
    if (table == NULL)
        return true;
    const size_t count = processes_list(table, EDGETUNE_MOST_PROCESSES);
    const bool any = processes_below(table, count, spared) > 0;
    free(table);
    return any;
}

/* End everything below this process, whatever it does against it: all are stopped before the first is killed, so that
   none starts another meanwhile. Orphans must come back to this process (PR_SET_CHILD_SUBREAPER). */
static inline void processes_end(void)
{
    struct edgetune_process *table = malloc(EDGETUNE_MOST_PROCESSES * sizeof *table);
    for (int round = 0; table != NULL && round < 1000; ++round) {
        size_t count = 0;
        for (bool running = true; running;) {
            running = false;
            count = processes_list(table, EDGETUNE_MOST_PROCESSES);
            processes_below(table, count, 0);
            for (size_t i = 0; i < count; ++i)
                if (table[i].below && strchr("TtZX", table[i].state) == NULL && kill(table[i].id, SIGSTOP) == 0)
                    running = true;
        }
        for (size_t i = 0; i < count; ++i)
            if (table[i].below)
                kill(table[i].id, SIGKILL);
        for (int left = 500; left > 0;) { /* those that are ours; orphans become ours as their parents end */
            const struct timespec pause = {0, 1000000};
            const pid_t ended = waitpid(-1, NULL, WNOHANG);
            if (ended < 0 && errno == ECHILD) {
                free(table);
                return;
            }
            if (ended == 0) {
                nanosleep(&pause, NULL);
                --left;
            }
        }
    }
    free(table);
}

#endif
