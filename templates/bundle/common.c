/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef double real;
#include "accuracy.h"

Candidate candidate;
int repeats_wanted;
size_t cold;
static char bundle[HASH];
static int timeout_s, answer = -1;

_Noreturn void stop(int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "bundle: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(code);
}

/* Ends the process of a candidate with its result. */
_Noreturn void answer_with(const char *format, ...)
{
    char line[RESULT];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    length = length < (int)sizeof line ? length : (int)sizeof line - 1;
    if (length > 0 && write(answer, line, (size_t)length) != length)
        _exit(1);
    _exit(0);
}

void need(const void *memory)
{
    if (!memory)
        answer_with("crashed 0 - 0 no memory");
}

unsigned char *read_file(const char *folder, const char *hash, size_t *bytes)
{
    char path[256];
    struct stat facts;
    unsigned char *data;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, hash);
    file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &facts))
        stop(BAD_BUNDLE, "%s cannot be read (%s): copy the bundle again", path, strerror(errno));
    need(data = malloc((size_t)facts.st_size + 1));
    *bytes = fread(data, 1, (size_t)facts.st_size, file);
    fclose(file);
    return data;
}

int is_output(const Buffer *buffer)
{
    return strchr(OUTPUTS, buffer->role) != NULL;
}

double error_of_output(const Buffer *buffer, const unsigned char *got)
{
    static const struct { char role; enum element_type type; size_t width; } types[] = {
        {'o', F32, 4}, {'d', F64, 8}, {'h', F16, 2}, {'b', BF16, 2}, {'y', I8, 1},
        {'Y', U8, 1}, {'z', I16, 2}, {'Z', U16, 2}, {'e', U8, 1},
    };
    const struct tolerance tolerance = {buffer->relative, buffer->absolute, buffer->share};
    size_t i = 0;

    while (types[i].role != buffer->role)
        i++;
    const struct difference found =
        difference_of(types[i].type, got, buffer->given, buffer->bytes / types[i].width, tolerance);
    return found.allowed ? found.relative : (double)INFINITY;
}

void judge(double error, const char *run)
{
    if (!isfinite(error))
        answer_with("wrong_result 0 - 1e30 the %s run differs from the reference", run);
}

int take_samples(double (*timed)(int), char *text, size_t size)
{
    int repeats = 1;
    size_t length = 0;

    for (int sample = -1; sample < SAMPLES;) {
        const double ns = timed(repeats);
        /* Another process may have had the core meanwhile: a long sample counts where the next one is long as well. */
        if (sample < 0 && repeats < repeats_wanted && (ns < 1e6 || timed(repeats) < 1e6)) {
            repeats *= 2;
            continue;
        }
        if (sample++ >= 0 && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%.3f", length ? "," : "", ns / repeats);
    }
    return repeats;
}

/* Gives the process of a candidate the bytes of its buffers. */
static void fill_buffers(void)
{
    for (unsigned i = 0; i < candidate.buffers; i++) {
        Buffer *buffer = &candidate.buffer[i];
        size_t bytes = buffer->bytes;

        if (buffer->role != 's')
            buffer->given = buffer->role == 'r' ? drawn(buffer) : read_file("data", buffer->data, &bytes);
        if (bytes != buffer->bytes)
            stop(BAD_BUNDLE, "data/%s has the wrong size: copy the bundle again", buffer->data);
    }
}

/* The status with which a process ended. */
static int status_of(pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            stop(1, "a process was lost: %s", strerror(errno));
    return status;
}

/* Runs a candidate in a process of its own; `line` gets its result. A fault of the bundle or the machine ends all. */
static void guarded(char *line, size_t size)
{
    int ends[2], status;
    ssize_t got = 0, length = 0;
    struct pollfd waiting;
    pid_t child, parent = getpid();

    if (pipe(ends) || (child = fork()) < 0)
        stop(1, "no process can be started: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        answer = ends[1];
        fill_buffers();
        member.try_candidate();
        _exit(1);
    }
    close(ends[1]);
    waiting = (struct pollfd){ends[0], POLLIN, 0};
    for (;;) {
        int ready = poll(&waiting, 1, timeout_s * 1000);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            kill(child, SIGKILL);
            length = snprintf(line, size, "timeout 0 - 0 no answer within %d s", timeout_s);
            break;
        }
        got = read(ends[0], line + length, size - 1 - (size_t)length);
        if (got <= 0)
            break;
        length += got;
    }
    close(ends[0]);
    status = status_of(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) >= UNAVAILABLE)
        exit(WEXITSTATUS(status)); /* the child has said why */
    if (length == 0)
        length = snprintf(line, size, "crashed 0 - 0 the process of the candidate ended with status %d", status);
    line[length] = 0;
}

/* What is in results.txt ends with a whole line, after a kill at any moment. */
static FILE *open_results(char **known)
{
    int fd = open("results.txt", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    struct stat facts;
    char *text;
    ssize_t bytes;

    if (fd < 0 || fstat(fd, &facts) || !S_ISREG(facts.st_mode))
        stop(1, "results.txt cannot be written: %s", strerror(errno));
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB); tries++) /* the child of a killed runner ends in a moment */
        if (tries < 20)
            usleep(50000);
        else
            stop(BUSY, "another runner has this bundle: wait for its end");
    fstat(fd, &facts);
    text = calloc(1, (size_t)facts.st_size + 1);
    bytes = text ? pread(fd, text, (size_t)facts.st_size, 0) : -1;
    if (bytes < 0)
        stop(1, "results.txt cannot be read: %s", strerror(errno));
    while (bytes > 0 && text[bytes - 1] != '\n')
        bytes--;
    text[bytes] = 0;
    if (ftruncate(fd, bytes) || lseek(fd, bytes, SEEK_SET) < 0)
        stop(1, "results.txt cannot be written: %s", strerror(errno));
    *known = text;
    return fdopen(fd, "r+");
}

/* Whether a name in the plan is a hash, or the - of a buffer without data: no path out of the folder. */
static int is_hash(const char *name)
{
    return !strcmp(name, "-") || (strspn(name, "0123456789abcdef") == HASH - 1 && !name[HASH - 1]);
}

static void tried(FILE *results, const char *known)
{
    char line[RESULT], whole[LINE + 1], start[2 * HASH + 2];

    snprintf(start, sizeof start, "%s %s ", candidate.hash, bundle);
    for (const char *at = known; (at = strstr(at, start)); at++)
        if (at == known || at[-1] == '\n')
            return;
    guarded(line, sizeof line);
    for (char *at = line; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    int length = snprintf(whole, sizeof whole, "%s %s %s\n", candidate.hash, bundle, line);
    if (write(fileno(results), whole, (size_t)length) != length || fsync(fileno(results)))
        stop(1, "results.txt cannot be written: %s", strerror(errno));
}

/* Reads a line of the plan that describes a buffer. */
static int reads_buffer(const char *line, Buffer *b)
{
    int at = 0, used = 0;

    if (sscanf(line, "buffer %c %zu %64s%n", &b->role, &b->bytes, b->data, &at) != 3)
        return reads_drawing(line, b);
    if (!strchr("is" OUTPUTS, b->role) || !is_hash(b->data))
        return 0;
    return !is_output(b)
           || (sscanf(line + at, " %lf %lf %lf %u%n", &b->relative, &b->absolute, &b->share, &b->fill, &used) == 4
               && b->fill < 256);
}

/* Reads the first line of the plan. */
static int reads_head(FILE *plan)
{
    char line[LINE];
    int at = 0;

    return fgets(line, sizeof line, plan)
           && sscanf(line, "edgetune-bundle 4 %64s cold %zu budget %d timeout %d%n", bundle, &cold, &repeats_wanted, &timeout_s,
                     &at) == 4
           && member.reads_head(line + at);
}

int main(int count, char **arguments)
{
    char line[LINE], *known;
    FILE *plan, *results;
    int status;

    if (count > 1 && chdir(arguments[1]))
        stop(BAD_BUNDLE, "%s is not a folder", arguments[1]);
    plan = fopen("plan.txt", "r");
    if (!plan || !reads_head(plan))
        stop(BAD_BUNDLE, "plan.txt is missing or of another version: export the bundle again");
    results = open_results(&known);
    pid_t probe = fork(); /* a driver that has been initialised does not survive a fork */
    if (probe == 0) {
        member.probe();
        _exit(0);
    }
    if (probe < 0)
        stop(1, "no process can be started: %s", strerror(errno));
    status = status_of(probe);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    while (fgets(line, sizeof line, plan)) {
        char hash[HASH], binary[HASH];

        if (sscanf(line, "candidate %64s %64s", hash, binary) == 2 && is_hash(hash) && is_hash(binary)) {
            memcpy(candidate.hash, hash, HASH);
            memcpy(candidate.binary, binary, HASH);
            candidate.buffers = 0;
            member.begin();
        } else if (candidate.buffers < MOST_BUFFERS && reads_buffer(line, &candidate.buffer[candidate.buffers])) {
            candidate.buffers++;
        } else if (strcmp(line, "end\n") == 0) {
            tried(results, known);
        } else if (!member.reads_line(line)) {
            stop(BAD_BUNDLE, "plan.txt is damaged: copy the bundle again");
        }
    }
    fclose(plan);
    fclose(results);
    free(known);
    return 0;
}
