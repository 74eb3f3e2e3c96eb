/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an image share: the parameters of the candidate, and the report, which is all that it prints. */
#ifndef EDGETUNE_IMAGE_H
#define EDGETUNE_IMAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float real; /* of these cores, few compute with double */
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#include "../accuracy.h"

enum role { INPUT, CONSTANT, OUTPUT, SCRATCH }; /* an output has its reference in `given` */

/* A parameter, or the scratch, which comes last. `live` is what the candidate gets; where it is in RAM, `GUARD` bytes
   lie before and after it. `given` lies in flash (NULL: nothing is given). The layout is that of the assembler file. */
struct parameter {
    uint8_t *live;
    const uint8_t *given;
    uint32_t bytes, elements, type, role;
    uint32_t fills[2]; /* the bytes that an output holds before each call */
    struct tolerance tolerance;
};
_Static_assert(sizeof(struct parameter) == 11 * 4, "as the assembler file lays it out");

enum { GUARD = 64 };

extern const uint32_t image_identity; /* begins the report, so that none of an earlier image is taken for it */
extern const struct parameter image_parameters[];
extern const uint32_t image_parameter_count; /* the scratch among them, where there is one */
extern uint32_t image_sums[];                /* room for one sum of each */
extern void *const image_pointers[];         /* of the parameters, as the candidate gets them */

void edgetune_call(void *const *buffers); /* the candidate */

enum verdict { RIGHT, DIFFERS, BEFORE, BEHIND, CHANGED, MODE, CODE, STACK, FAULT };

/* Each member is printed as 8 hexadecimal digits. `call` is 1 or more, `worst` the relative error of the worst output;
   floats are their bits. A fault has its registers instead of differences. */
struct report {
    uint32_t verdict, call, parameter, absolute, relative, worst, stack;
};

void report(const uint32_t *words, unsigned count); /* print the identity and the words, and end the image */
void run(void);                                     /* try the candidate; does not return */
void image_tick(void);                              /* the interrupt of SysTick */
void image_board(void);                             /* set up what a board needs before anything runs */

/* How a call is counted: marks.c where an emulator does it, cycles.c on a board. */
enum { MOST_COUNTED_CALLS = 5 };
extern const unsigned counted_calls; /* how often the candidate is called to be counted */
extern const unsigned counted_words; /* words of the report after its members: cycles of no call, and of each of these */
void count_start(void);
uint32_t count(void (*function)(void *const *)); /* cycles of a call; 0 where the image does not learn them */
#endif
