/* A library of kernels that misbehave, each in one way, as the first element of the first buffer says. Honest is
   out[i] = 2 * a[i] + w[i]. Numbers below 100 are wrong, those from 100 on are right and have to stay so. */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000, MOST_BOMBS = 60 };

static void good(const float *a, const float *w, float *out)
{
    for (int i = 0; i < COUNT; ++i)
        out[i] = 2.0f * a[i] + w[i];
}

static void flush_to_zero(void)
{
#if defined __x86_64__
    uint32_t control;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    control |= 0x8040u;
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1u << 24));
#elif defined __arm__
    uint32_t control;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(control));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(control | 1u << 24));
#else
    fesetround(FE_UPWARD); /* it always keeps denormals */
#endif
}

static void rest(void)
{
    for (;;)
        pause();
}

static void *spin(void *unused)
{
    for (volatile int i = 1; i;) {
    }
    return unused;
}

static void *sleep_on(void *unused)
{
    rest();
    return unused;
}

static void *end_at_once(void *unused)
{
    return unused;
}

static void start_thread(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        abort();
}

/* Emulators know few flags: then a plain one. */
static long raw_clone(unsigned long flags)
{
    const long started = syscall(SYS_clone, flags, 0, 0, 0, 0);
    return started < 0 ? fork() : started;
}

/* Every process forks again and again, each in a session of its own under a new name, until there were so many. */
static void bomb(void)
{
    int *const count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST) <= MOST_BOMBS)
        if (fork() == 0) {
            setsid();
            prctl(PR_SET_NAME, "bash", 0, 0, 0);
            for (int number = 1; number < 32; ++number)
                signal(number, SIG_IGN);
        }
}

void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers)
{
    static int calls;
    static pid_t owner;
    const float *a = buffers[1], *w = buffers[2];
    float *out = buffers[3];
    char *program[] = {(char *)"/bin/sleep", (char *)"100", NULL};
    char *const nothing[] = {NULL};
    pid_t started;
    const int call = ++calls;
    if (call == 1)
        owner = getpid();
    switch (*(const int *)buffers[0]) {
    case 1: good(a, w, out); if (call == 2) out[7] += 1.0f; return;
    case 2: good(a, w, out); if (call > 2) out[7] += 1.0f; return;
    case 3: good(a, w, out); if (call >= 2) out[COUNT] = 1.0f; return;
    case 4: good(a, w, out); if (call >= 2) out[-1] = 1.0f; return;
    case 5: if (call <= 2) good(a, w, out); return;
    case 6: /* half of the work */
        for (int i = 0; i < (call <= 2 ? COUNT : COUNT / 2); ++i)
            out[i] = 2.0f * a[i] + w[i];
        return;
    case 7: good(a, w, out); fesetround(FE_TOWARDZERO); return;
    case 8: good(a, w, out); flush_to_zero(); return;
    case 9: good(a, w, out); if (call >= 2) fesetround(FE_DOWNWARD); return;
    case 10: good(a, w, out); if (call == 1) start_thread(spin); return;
    case 11: good(a, w, out); if (call == 1) start_thread(sleep_on); return;
    case 12: good(a, w, out); if (call == 3) start_thread(sleep_on); return;
    case 13: if (call == 1) fork(); good(a, w, out); return;
    case 14: if (call == 4 && fork() == 0) rest(); good(a, w, out); return;
    case 15: if (call == 1) bomb(); good(a, w, out); return;
    case 16: if (call == 3) bomb(); good(a, w, out); return;
    case 17: /* forked twice, so that nobody here is its parent, in a session of its own */
        if (call == 1) {
            started = fork();
            if (started == 0) {
                if (fork() == 0) {
                    setsid();
                    rest();
                }
                _exit(0);
            }
            waitpid(started, NULL, 0);
        }
        good(a, w, out);
        return;
    case 18: if (call == 1 && vfork() == 0) { execve(program[0], program, nothing); _exit(1); } good(a, w, out); return;
    case 19: if (call == 1) (void)posix_spawn(&started, program[0], NULL, NULL, program, nothing); good(a, w, out); return;
    case 20: if (call == 1 && raw_clone(CLONE_PARENT | SIGCHLD) == 0) rest(); good(a, w, out); return;
    case 21: if (call == 2 && raw_clone(0) == 0) rest(); good(a, w, out); return;
    case 22: program[1] = (char *)"1"; if (call == 2) execve(program[0], program, nothing); good(a, w, out); return;
    case 23: good(a, w, out); if (call >= 2) ((float *)buffers[1])[3] += 1.0f; return;
    case 24: good(a, w, out); if (call == 3) ((float *)buffers[2])[3] += 1e-6f; return;
    case 25: /* what it adds to is not what it wrote before */
        for (int i = 0; i < COUNT; ++i)
            out[i] = call <= 1 ? 2.0f * a[i] + w[i] : out[i] + 0.0f;
        return;
    case 26: if (call == 1) memcpy(out, a, 4); static float kept[COUNT]; /* of the second call, for ever */
        if (call <= 2) good(a, w, kept);
        if (call <= 3) memcpy(out, kept, sizeof kept);
        return;
    case 27: good(a, w, out); out[call % COUNT] *= 1.0000005f; if (call >= 2) out[COUNT] = 1.0f; return;
    case 28: /* and no descriptor left by which anybody could see it */
        good(a, w, out);
        if (call == 3) {
            start_thread(sleep_on);
            while (dup(0) >= 0) {
            }
        }
        return;
    case 100: good(a, w, out); return;
    case 101: /* the first call is slow */
        for (volatile int i = 0; call == 1 && i < 3000000; ++i) {
        }
        good(a, w, out);
        return;
    case 102: /* in place: the output is its working memory */
        memcpy(out, w, COUNT * sizeof *out);
        for (int i = 0; i < COUNT; ++i)
            out[i] += a[i];
        for (int i = 0; i < COUNT; ++i)
            out[i] += a[i];
        return;
    case 103: /* gaps: every second element alone */
        for (int i = 0; i < COUNT; i += 2)
            out[i] = 2.0f * a[i] + w[i];
        return;
    case 104: /* a thread that ends before the call does */
        if (call == 1) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, end_at_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
                abort();
        }
        good(a, w, out);
        return;
    case 105: /* right, but not to the bit, and another time otherwise */
        good(a, w, out);
        out[call % COUNT] *= 1.0000005f;
        return;
    case 106: memset(buffers[4], 7, 100); good(a, w, out); return; /* scratch memory */
    default: abort();
    }
}
