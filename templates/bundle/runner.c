/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and times the candidates of a bundle on the GPU of this machine. It needs the CUDA driver alone:
 *     cc -O2 runner.c -o runner -ldl -lm && ./runner
 * Each candidate runs in a process of its own. Each result is one line of results.txt, on disk before the next candidate
 * starts: start the runner again after any end, and it goes on. EDGETUNE_CUDA_DRIVER names another libcuda.so.1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_BUFFERS = 64, MOST_LAUNCHES = 16, MOST_ARGUMENTS = 64, MOST_AXES = 12, SAMPLES = 11, LINE = 4096, HASH = 65 };
enum { NO_GPU = 3, OTHER_PART = 4, BAD_BUNDLE = 5, BUSY = 6 };

typedef uint64_t DevicePointer;

static struct {
    int (*init)(unsigned), (*version)(int *), (*device)(int *, int), (*name)(char *, int, int), (*attribute)(int *, int, int);
    int (*context)(void **, unsigned, int), (*load)(void **, const void *), (*function)(void **, void *, const char *);
    int (*alloc)(DevicePointer *, size_t), (*to_device)(DevicePointer, const void *, size_t);
    int (*to_host)(void *, DevicePointer, size_t), (*fill)(DevicePointer, unsigned char, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*fill_later)(DevicePointer, unsigned char, size_t, void *), (*synchronize)(void), (*event)(void **, unsigned);
    int (*record)(void *, void *), (*wait)(void *), (*elapsed)(float *, void *, void *), (*function_attribute)(void *, int, int);
} cuda;

/* An array that is drawn here: its type (o: float, d: double, h: float16, b: bfloat16, or the bytes of an integer), the
 * range of its values, the checksum of its bytes, and the axes of its layout. Index i of an axis is `step` elements of
 * the array before packing, and padding, which is zero, from `inside` on. */
typedef struct {
    char type;
    uint64_t seed, sum;
    int64_t low, high;
    unsigned axes;
    size_t extent[MOST_AXES], inside[MOST_AXES], step[MOST_AXES];
} Drawing;

/* Roles: i(nput), r (an input that is drawn), s(cratch), and outputs in float (o), in double (d), in float16 (h), in
 * bfloat16 (b), or of another type, compared exactly (e). */
#define OUTPUTS "odhbe"
typedef struct {
    size_t bytes;
    char role, data[HASH];
    Drawing drawing;
    DevicePointer at;
    unsigned char *wanted;
} Buffer;

typedef struct {
    char kernel[512];
    unsigned grid[3], block[3], dynamic, arguments, buffer[MOST_ARGUMENTS];
    size_t offset[MOST_ARGUMENTS];
} Launch;

typedef struct {
    char hash[HASH], cubin[HASH];
    double tolerance;
    unsigned buffers, launches;
    Buffer buffer[MOST_BUFFERS];
    Launch launch[MOST_LAUNCHES];
} Candidate;

static Candidate candidate;
static char bundle[HASH];
static int least_capability, part_major, toolkit, cold, launches_wanted, timeout_s, answer = -1;

static _Noreturn void stop(int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "bundle: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(code);
}

static void load_driver(void)
{
    const char *path = getenv("EDGETUNE_CUDA_DRIVER");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    const struct { void *at; const char *name; } wanted[] = {
        {&cuda.init, "cuInit"}, {&cuda.version, "cuDriverGetVersion"}, {&cuda.device, "cuDeviceGet"},
        {&cuda.name, "cuDeviceGetName"}, {&cuda.attribute, "cuDeviceGetAttribute"}, {&cuda.context, "cuCtxCreate_v2"},
        {&cuda.load, "cuModuleLoadData"}, {&cuda.function, "cuModuleGetFunction"}, {&cuda.alloc, "cuMemAlloc_v2"},
        {&cuda.to_device, "cuMemcpyHtoD_v2"}, {&cuda.to_host, "cuMemcpyDtoH_v2"}, {&cuda.fill, "cuMemsetD8_v2"},
        {&cuda.launch, "cuLaunchKernel"}, {&cuda.synchronize, "cuCtxSynchronize"}, {&cuda.event, "cuEventCreate"},
        {&cuda.record, "cuEventRecord"}, {&cuda.wait, "cuEventSynchronize"}, {&cuda.elapsed, "cuEventElapsedTime"},
        {&cuda.function_attribute, "cuFuncSetAttribute"}, {&cuda.fill_later, "cuMemsetD8Async"},
    };

    if (!library)
        stop(NO_GPU, "this machine has no CUDA driver (libcuda.so.1): run the bundle on a machine with an NVIDIA GPU");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            stop(NO_GPU, "the CUDA driver lacks %s: install a newer one", wanted[i].name);
        memcpy(wanted[i].at, &symbol, sizeof symbol);
    }
}

/* Ends the process of a candidate with its result. */
static _Noreturn void answer_with(const char *format, ...)
{
    char line[LINE];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    if (length > 0 && write(answer, line, (size_t)length) != length)
        _exit(1);
    _exit(0);
}

static void check(int error, const char *what)
{
    if (error)
        answer_with("crashed 0 - 0 %s failed with CUDA error %d", what, error);
}

static unsigned char *read_file(const char *folder, const char *hash, size_t *bytes)
{
    char path[256];
    struct stat facts;
    unsigned char *data;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, hash);
    file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &facts) || !(data = malloc((size_t)facts.st_size + 1)))
        stop(BAD_BUNDLE, "%s cannot be read: copy the bundle again", path);
    *bytes = fread(data, 1, (size_t)facts.st_size, file);
    fclose(file);
    return data;
}

/* The finaliser of splitmix64. */
static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

static const uint64_t STEP = 0x9E3779B97F4A7C15u;

/* A number that a float16 holds without rounding. */
static uint16_t half_bits(double value)
{
    int exponent;
    const double size = fabs(value), fraction = frexp(size, &exponent); /* from 0.5 on, below 1 */
    const unsigned bits = exponent > -14 ? (unsigned)(exponent + 14) << 10 | (unsigned)(fraction * 2048 - 1024)
                                         : (unsigned)ldexp(size, 24);

    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

static size_t width_of(char type)
{
    return type == 'd' ? sizeof(double) : type == 'o' ? sizeof(float) : strchr("hb", type) ? 2 : (size_t)(type - '0');
}

/* Writes the element that `random` gives: edgetune/bundle/drawn.py has the same in numpy. */
static void draw_element(const Drawing *how, uint64_t random, unsigned char *to)
{
    const int bits = how->type == 'd' ? 53 : how->type == 'o' ? 24 : how->type == 'h' ? 11 : 8;
    const uint64_t size = (uint64_t)how->high - (uint64_t)how->low + 1;
    int64_t whole;
    double wide;
    float single;
    uint16_t half;

    if (how->type >= '1' && how->type <= '8') {
        const uint64_t parts = (random & 0xFFFF) + (random >> 16 & 0xFFFF) + (random >> 32 & 0xFFFF) + (random >> 48);
        whole = how->low + (int64_t)(how->type <= '2' && size > 2 ? (parts >> 2) * size >> 16 : (random >> 32) * size >> 32);
        memcpy(to, &whole, width_of(how->type));
        return;
    }
    wide = ldexp((double)((int64_t)(random >> (64 - bits)) * 2 + 1 - ((int64_t)1 << bits)), (int)how->low - bits);
    single = (float)wide;
    if (how->type == 'd') {
        memcpy(to, &wide, sizeof wide);
    } else if (how->type == 'o') {
        memcpy(to, &single, sizeof single);
    } else if (how->type == 'h') {
        half = half_bits(wide);
        memcpy(to, &half, sizeof half);
    } else {
        memcpy(to, (unsigned char *)&single + 2, 2); /* a bfloat16 is the upper half of a float */
    }
}

static uint64_t checksum(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0;

    for (size_t at = 0, number = 1; at < bytes; at += 8, number++) {
        uint64_t word = 0;
        memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
        sum += mixed(word + mixed(number * STEP));
    }
    return sum;
}

/* The bytes of a drawn array, in the layout of the candidate; ends all where they are not those of the export. */
static unsigned char *drawn(const Buffer *buffer)
{
    const Drawing *how = &buffer->drawing;
    const unsigned last = how->axes - 1;
    const size_t width = width_of(how->type), row = how->extent[last];
    const uint64_t first = mixed(how->seed);
    unsigned char *data = calloc(1, buffer->bytes);
    size_t index[MOST_AXES] = {0};

    for (size_t at = 0; data && at < buffer->bytes / width; at += row) {
        size_t place = 1, inside = how->inside[last];
        for (unsigned axis = 0; axis < last; axis++) {
            place += index[axis] * how->step[axis];
            inside = index[axis] < how->inside[axis] ? inside : 0;
        }
        for (size_t i = 0; i < inside; i++)
            draw_element(how, mixed((place + i * how->step[last]) * STEP + first), data + (at + i) * width);
        for (unsigned axis = last; axis-- > 0;) {
            if (++index[axis] < how->extent[axis])
                break;
            index[axis] = 0;
        }
    }
    if (!data || checksum(data, buffer->bytes) != how->sum)
        stop(BAD_BUNDLE, "this machine draws other inputs than the one that exported the bundle: tell us its processor");
    return data;
}

/* Whether a line of the plan says how to draw a buffer, and its layout has as many bytes as it says. */
static int reads_drawing(const char *line, Buffer *buffer)
{
    Drawing *how = &buffer->drawing;
    int at = 0, used = 0;
    size_t elements = 1;

    if (sscanf(line, "drawn %c %zu %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNx64 " %u%n", &how->type, &buffer->bytes,
               &how->seed, &how->low, &how->high, &how->sum, &how->axes, &at) != 7
        || !how->type || !strchr("odhb1248", how->type) || how->axes < 1 || how->axes > MOST_AXES)
        return 0;
    for (unsigned axis = 0; axis < how->axes; axis++, at += used) {
        if (sscanf(line + at, " %zu:%zu:%zu%n", &how->extent[axis], &how->inside[axis], &how->step[axis], &used) != 3
            || how->inside[axis] > how->extent[axis] || !how->extent[axis]
            || elements > buffer->bytes / how->extent[axis])
            return 0;
        elements *= how->extent[axis];
    }
    buffer->role = 'r';
    return buffer->bytes % width_of(how->type) == 0 && elements == buffer->bytes / width_of(how->type);
}

static int find_device(char *name, int size, int *version)
{
    int device = 0, major = 0, minor = 0;

    load_driver();
    if (cuda.init(0) || cuda.device(&device, 0))
        stop(NO_GPU, "the CUDA driver finds no GPU");
    if (cuda.name(name, size, device) || cuda.version(version) || cuda.attribute(&major, 75, device)
        || cuda.attribute(&minor, 76, device))
        stop(NO_GPU, "the CUDA driver does not describe its GPU");
    for (char *at = name; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    if (major != part_major || major * 10 + minor < least_capability)
        stop(OTHER_PART, "the candidates are for compute capability %d.%d, and %s has %d.%d: export a bundle for it",
             least_capability / 10, least_capability % 10, name, major, minor);
    if (*version / 1000 < toolkit)
        stop(OTHER_PART, "the candidates were compiled by CUDA %d, and the driver of %s knows CUDA %d.%d: install a newer "
             "driver, or export with an older CUDA", toolkit, name, *version / 1000, *version % 1000 / 10);
    return device;
}

/* A float16: a sign, 5 bits of exponent, 10 of fraction (IEEE 754). */
static double half_value(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);

    return bits >> 15 ? -size : size;
}

/* Element `k` of an output. */
static double element_of(char role, const unsigned char *bytes, size_t k)
{
    uint16_t narrow;
    uint32_t word;
    float single;
    double wide;

    if (role == 'd') {
        memcpy(&wide, bytes + k * sizeof wide, sizeof wide);
        return wide;
    }
    if (role == 'o') {
        memcpy(&single, bytes + k * sizeof single, sizeof single);
        return (double)single;
    }
    memcpy(&narrow, bytes + k * sizeof narrow, sizeof narrow);
    if (role == 'h')
        return half_value(narrow);
    word = (uint32_t)narrow << 16; /* a bfloat16 is the upper half of a float */
    memcpy(&single, &word, sizeof single);
    return (double)single;
}

/* The largest error of an output, as a share of its largest element. */
static double error_of(const Buffer *buffer, const unsigned char *got)
{
    const size_t width = buffer->role == 'd' ? sizeof(double) : buffer->role == 'o' ? sizeof(float) : sizeof(uint16_t);
    const size_t count = buffer->bytes / width;
    double largest = 0, error = 0;

    if (buffer->role == 'e')
        return memcmp(got, buffer->wanted, buffer->bytes) ? INFINITY : 0;
    for (size_t k = 0; k < count; k++) {
        const double want = element_of(buffer->role, buffer->wanted, k), have = element_of(buffer->role, got, k);
        const int same = have == want || (have != have && want != want);
        const double off = same ? 0 : fabs(have - want);
        if (isfinite(want))
            largest = fmax(largest, fabs(want));
        error = off == off ? fmax(error, off) : INFINITY;
    }
    return largest > 0 ? error / largest : error;
}

static int is_output(const Buffer *buffer)
{
    return strchr(OUTPUTS, buffer->role) != NULL;
}

static double worst_error(void)
{
    double worst = 0;

    for (unsigned i = 0; i < candidate.buffers; i++) {
        Buffer *buffer = &candidate.buffer[i];
        unsigned char *got;

        if (!is_output(buffer))
            continue;
        got = malloc(buffer->bytes);
        check(!got || cuda.to_host(got, buffer->at, buffer->bytes), "reading an output");
        worst = fmax(worst, error_of(buffer, got));
        free(got);
    }
    return worst;
}

static void launch_all(void **functions)
{
    for (unsigned i = 0; i < candidate.launches; i++) {
        Launch *l = &candidate.launch[i];
        DevicePointer pointers[MOST_ARGUMENTS];
        void *arguments[MOST_ARGUMENTS];

        for (unsigned k = 0; k < l->arguments; k++) {
            pointers[k] = candidate.buffer[l->buffer[k]].at + l->offset[k];
            arguments[k] = &pointers[k];
        }
        check(cuda.launch(functions[i], l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                          l->dynamic, NULL, arguments, NULL), "a launch");
    }
}

/* Device memory that is filled before a timed launch, so that nothing of the candidate is left in the L2 cache: of no
 * bytes where that stays warm. */
typedef struct {
    DevicePointer at;
    size_t bytes;
} Flush;

static Flush flush_of(int device)
{
    Flush flush = {0, 0};
    int l2 = 0;

    if (!cold)
        return flush;
    if (cuda.attribute(&l2, 38, device) || l2 <= 0)
        stop(OTHER_PART, "the CUDA driver does not tell the size of the L2 cache: export the bundle without --cold");
    flush.bytes = 2 * (size_t)l2;
    check(cuda.alloc(&flush.at, flush.bytes), "allocating memory to flush the L2 cache");
    return flush;
}

/* Milliseconds of so many launches. In a flush each is timed by itself: the fill is still running when the launch is
 * queued, so that no time of the host is counted. */
static float timed(void **functions, int repeats, const Flush *flush, void *start, void *end)
{
    const int turns = flush->bytes ? repeats : 1;
    float total = 0, ms = 0;

    for (int turn = 0; turn < turns; turn++) {
        check(flush->bytes && cuda.fill_later(flush->at, (unsigned char)turn, flush->bytes, NULL), "flushing the L2 cache");
        check(cuda.record(start, NULL), "an event");
        for (int i = 0; i < repeats / turns; i++)
            launch_all(functions);
        check(cuda.record(end, NULL) || cuda.wait(end) || cuda.elapsed(&ms, start, end), "timing");
        total += ms;
    }
    return total;
}

/* The process of one candidate: checks its outputs, times it, checks them again. */
static _Noreturn void try_candidate(void)
{
    void *context, *module, *functions[MOST_LAUNCHES], *start, *end;
    char samples[2048] = "", name[256];
    size_t bytes, length = 0;
    int version, device = find_device(name, sizeof name, &version);
    unsigned char *image = read_file("cubins", candidate.cubin, &bytes);
    int repeats = 1;
    double error;
    Flush flush;

    check(cuda.context(&context, 0, device), "creating a context");
    check(cuda.load(&module, image), "loading the cubin (does it hold this architecture?)");
    for (unsigned i = 0; i < candidate.launches; i++) {
        check(cuda.function(&functions[i], module, candidate.launch[i].kernel), "finding a kernel");
        if (candidate.launch[i].dynamic > 48 * 1024)
            check(cuda.function_attribute(functions[i], 8, (int)candidate.launch[i].dynamic), "asking for shared memory");
    }
    for (unsigned i = 0; i < candidate.buffers; i++) {
        Buffer *buffer = &candidate.buffer[i];
        check(cuda.alloc(&buffer->at, buffer->bytes), "allocating device memory");
        check(cuda.fill(buffer->at, 0xA5, buffer->bytes), "filling device memory");
        if (buffer->role == 's')
            continue;
        bytes = buffer->bytes;
        unsigned char *data = buffer->role == 'r' ? drawn(buffer) : read_file("data", buffer->data, &bytes);
        if (bytes != buffer->bytes)
            stop(BAD_BUNDLE, "data/%s has the wrong size: copy the bundle again", buffer->data);
        if (is_output(buffer))
            buffer->wanted = data;
        else
            check(cuda.to_device(buffer->at, data, bytes), "writing an input");
        if (!is_output(buffer))
            free(data);
    }
    launch_all(functions);
    check(cuda.synchronize(), "the kernel");
    error = worst_error();
    if (!(error <= candidate.tolerance))
        answer_with("wrong_result 0 - %.6g the first run differs from the reference", isfinite(error) ? error : 1e30);
    check(cuda.event(&start, 0) || cuda.event(&end, 0), "creating an event");
    flush = flush_of(device);
    for (int sample = -1; sample < SAMPLES;) {
        const float ms = timed(functions, repeats, &flush, start, end);
        if (sample < 0 && ms < 1.0f && repeats < launches_wanted) {
            repeats *= 2;
            continue;
        }
        if (sample++ >= 0)
            length += (size_t)snprintf(samples + length, sizeof samples - length, "%s%.3f", length ? "," : "",
                                       (double)ms * 1e6 / repeats);
    }
    error = worst_error();
    if (!(error <= candidate.tolerance))
        answer_with("wrong_result 0 - %.6g a late run differs from the reference", isfinite(error) ? error : 1e30);
    answer_with("ok %d %s %.6g driver %d, %s", repeats, samples, error, version, name);
}

/* Runs a candidate in a process of its own; `line` gets its result. A fault of the bundle or the machine ends all. */
static void guarded(char *line, size_t size)
{
    int ends[2], status = 0;
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
        try_candidate();
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
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) >= NO_GPU)
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
    char line[LINE], whole[LINE + 256], start[2 * HASH + 2];

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

int main(int count, char **arguments)
{
    char line[LINE], name[256], *known;
    FILE *plan, *results;
    int version;

    if (count > 1 && chdir(arguments[1]))
        stop(BAD_BUNDLE, "%s is not a folder", arguments[1]);
    plan = fopen("plan.txt", "r");
    if (!plan || fscanf(plan, "edgetune-bundle 3 %64s capability %d toolkit %d cold %d budget %d timeout %d\n", bundle,
                        &least_capability, &toolkit, &cold, &launches_wanted, &timeout_s) != 6)
        stop(BAD_BUNDLE, "plan.txt is missing or of another version: export the bundle again");
    part_major = least_capability / 10;
    results = open_results(&known);
    pid_t probe = fork(); /* a driver that has been initialised does not survive a fork */
    int status = 0;
    if (probe == 0) {
        find_device(name, sizeof name, &version);
        _exit(0);
    }
    waitpid(probe, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    while (fgets(line, sizeof line, plan)) {
        Launch *l = &candidate.launch[candidate.launches];
        Buffer *b = &candidate.buffer[candidate.buffers];
        int at = 0, used = 0;

        if (sscanf(line, "candidate %64s %64s %lf", candidate.hash, candidate.cubin, &candidate.tolerance) == 3
            && is_hash(candidate.hash) && is_hash(candidate.cubin)) {
            candidate.buffers = candidate.launches = 0;
        } else if (candidate.buffers < MOST_BUFFERS
                   && sscanf(line, "buffer %c %zu %64s", &b->role, &b->bytes, b->data) == 3
                   && strchr("is" OUTPUTS, b->role) && is_hash(b->data)) {
            candidate.buffers++;
        } else if (candidate.buffers < MOST_BUFFERS && reads_drawing(line, b)) {
            candidate.buffers++;
        } else if (candidate.launches < MOST_LAUNCHES
                   && sscanf(line, "launch %511s %u %u %u %u %u %u %u %u%n", l->kernel, &l->grid[0], &l->grid[1],
                             &l->grid[2], &l->block[0], &l->block[1], &l->block[2], &l->dynamic, &l->arguments, &at) == 9
                   && l->arguments <= MOST_ARGUMENTS) {
            for (unsigned k = 0; k < l->arguments; k++, at += used)
                if (sscanf(line + at, " %u:%zu%n", &l->buffer[k], &l->offset[k], &used) != 2
                    || l->buffer[k] >= candidate.buffers)
                    stop(BAD_BUNDLE, "plan.txt is damaged: copy the bundle again");
            candidate.launches++;
        } else if (strcmp(line, "end\n") == 0) {
            tried(results, known);
        } else {
            stop(BAD_BUNDLE, "plan.txt is damaged: copy the bundle again");
        }
    }
    return 0;
}
