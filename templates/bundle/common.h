/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runners of all bundles share: the plan, drawn inputs, the check of outputs, guarded processes, results. A
 * runner is `common.c`, `draw.c` and one file with a `member`, which runs the candidates of one kind:
 *     cc -O2 *.c -o runner -ldl -lm && ./runner
 * Each candidate runs in a process of its own. Each result is one line of results.txt, on disk before the next candidate
 * starts: start the runner again after any end, and it goes on.
 */
#ifndef EDGETUNE_BUNDLE_COMMON_H
#define EDGETUNE_BUNDLE_COMMON_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_BUFFERS = 64, MOST_AXES = 12, SAMPLES = 11, LINE = 4096, HASH = 65, RESULT = LINE - 2 * HASH };
enum { UNAVAILABLE = 3, OTHER_PART = 4, BAD_BUNDLE = 5, BUSY = 6 };

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

/* Roles: i(nput), r (an input that is drawn), s(cratch), and outputs: in float (o), double (d), float16 (h), bfloat16 (b),
 * in integers of 1 (y) and 2 (z) bytes or the same without sign (Y, Z), or of another type, compared exactly (e). The
 * elements of an output that no candidate writes hold the byte `fill`. */
#define OUTPUTS "odhbyYzZe"
typedef struct {
    size_t bytes;
    char role, data[HASH];
    unsigned fill;
    double relative, absolute, share; /* how far an output may be off: see accuracy.h */
    Drawing drawing;
    unsigned char *given; /* the bytes of an input, or those that are wanted of an output */
} Buffer;

typedef struct {
    char hash[HASH], binary[HASH];
    unsigned buffers;
    Buffer buffer[MOST_BUFFERS];
} Candidate;

/* What differs between the kinds of candidates. A function that reads returns whether it could. */
typedef struct {
    int (*reads_head)(const char *words);  /* the words of its own in the first line of plan.txt */
    void (*probe)(void);                   /* in a process of its own: stops all where the machine is not the target's */
    void (*begin)(void);                   /* a candidate begins in plan.txt */
    int (*reads_line)(const char *line);   /* a line of its own in plan.txt, after the buffers of a candidate */
    void (*try_candidate)(void);           /* in a process of its own, with `given` of all buffers: ends with an answer */
} Member;

extern const Member member;
extern Candidate candidate;
extern int repeats_wanted;
extern size_t cold; /* of the plan: 0 where caches stay warm; else what it means is the member's */

_Noreturn void stop(int code, const char *format, ...);        /* ends all, with a sentence */
_Noreturn void answer_with(const char *format, ...);           /* ends the process of a candidate with its result */
void need(const void *memory);                                 /* ends the process of a candidate where there is none */
unsigned char *read_file(const char *folder, const char *hash, size_t *bytes);
int reads_drawing(const char *line, Buffer *buffer);
unsigned char *drawn(const Buffer *buffer);
int is_output(const Buffer *buffer);
double error_of_output(const Buffer *buffer, const unsigned char *got); /* infinite where it is not allowed */
void judge(double error, const char *run);                              /* ends with "wrong_result" where that is infinite */

/* Samples of `timed`, which returns the nanoseconds of so many calls; `text` gets those of one call each. */
int take_samples(double (*timed)(int repeats), char *text, size_t size);

#endif
