/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for a candidate's call: fenced ones, where a stray access faults, and close ones, as in a package. */
#ifndef EDGETUNE_AGENT_FENCE_H
#define EDGETUNE_AGENT_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALIGNMENT 64u
#define FILL_CHECK 0xffu /* what outputs hold before the first call: NaN as a float */
#define FILL_TIME 0x5au  /* and before the timed calls */

/* `count` bytes, 64-byte aligned, that end (but for alignment) where an inaccessible page begins; in front there are
   canary bytes up to the page boundary, and an inaccessible page before that. */
struct fence {
    uint8_t *map, *bytes;
    size_t page, pages, count;
};

bool fence_make(struct fence *fence, size_t count, uint8_t fill);
void fence_free(const struct fence *fence);
bool fence_read_only(const struct fence *fence);

enum harm { HARM_NONE = 0, HARM_BEFORE = 2, HARM_BEHIND = 3 };
enum harm fence_harm(const struct fence *fence);

/* Memory for `count` buffers one after the other, each 64-byte aligned, with guard bytes in front of each and behind;
   false if there is none. */
bool arena_make(size_t count, const size_t *sizes, uint8_t **starts);
/* Whether guard bytes were overwritten, and those of which buffer. */
enum harm arena_harm(size_t count, const size_t *sizes, uint8_t *const *starts, size_t *index);

#endif
