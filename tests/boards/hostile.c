/* A kernel that misbehaves as the first element of its first buffer says. Well-behaved: out[i] = 2 * a[i] + w[i]. */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 1000 };

static void good(const float *a, const float *w, float *out)
{
    for (int i = 0; i < COUNT; ++i)
        out[i] = 2.0f * a[i] + w[i];
}

void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers)
{
    const int what = *(const int *)buffers[0];
    const float *a = buffers[1], *w = buffers[2];
    float *out = buffers[3];
    static int calls;
    ++calls;
    switch (what) {
    case 1: *(volatile int *)8 = 1; break;
    case 2:
        for (volatile int i = 1; i;) {
        }
        break;
    case 3: exit(0);
    case 4:
        for (int i = 0; i < 3; ++i)
            fork();
        break;
    case 5:
        for (;;) {
            volatile char *more = malloc(1 << 20);
            memset((void *)more, 1, 1 << 20);
        }
    case 6: out[COUNT] = 1.0f; break;
    case 7: out[-1] = 1.0f; break;
    case 8: out[COUNT + 1100] = 1.0f; break;
    case 9:
        printf("rubbish");
        fflush(NULL);
        for (int d = 0; d < 250; ++d)
            if (write(d, "ETAGrubbishrubbishrubbish", 25) < 0)
                errno = 0;
        break;
    case 10:
        good(a, w, out);
        errno = 12345;
        fesetround(FE_TOWARDZERO);
#if defined __x86_64__
        feenableexcept(FE_DIVBYZERO | FE_INVALID);
#endif
        return;
    case 11: good(a, w, out); out[7] += 1.0f; return;
    case 12: good(a, w, out); if (calls > 1) out[7] += 1.0f; return;
    case 13: ((float *)a)[0] = 1.0f; break;
    case 14: good(a, w + 50, out); return;
    case 15: good(a, w, out); out[7] = NAN; return;
    case 16: abort();
    case 17: kill(getppid(), SIGKILL); sleep(5); break;
    case 18:
        if (fork() == 0) {
            setsid();
            for (;;)
                pause();
        }
        break;
    case 19:
        for (int d = 3; d < 1024; ++d)
            close(d);
        break;
    case 20: raise(SIGSTOP); break;
    case 21:
        for (int signal_number = 1; signal_number < 32; ++signal_number)
            signal(signal_number, SIG_IGN);
        for (;;)
            pause();
    case 22:
        if (calls == 3 && fork() == 0)
            for (;;)
                pause();
        break;
    case 23: good(a, w, out); ((unsigned char *)buffers[4])[127] = 1; return;
    case 24: good(a, w, out); ((unsigned char *)buffers[4])[130] = 1; return;
    case 25: for (int i = 0; i < COUNT; ++i) out[i] += 2.0f * a[i] + w[i]; return;
    case 26: /* a process of its own session, then the end */
        if (fork() == 0) {
            setsid();
            for (;;)
                pause();
        }
        abort();
    case 27: /* the same, then a hang */
        if (fork() == 0)
            setsid();
        for (;;)
            pause();
    case 28: /* every second element alone */
        for (int i = 0; i < COUNT; i += 2)
            out[i] = 2.0f * a[i] + w[i];
        return;
    default: break;
    }
    good(a, w, out);
}
