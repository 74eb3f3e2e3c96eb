/* SPDX-License-Identifier: Apache-2.0 */
#include "fence.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CANARY 0xa5u
#define GAP (2u * ALIGNMENT)

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint8_t *memory(size_t count)
{
    void *map = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

bool fence_make(struct fence *fence, size_t count, uint8_t fill)
{
    const size_t room = round_up(count > 0 ? count : 1, ALIGNMENT);
    fence->page = (size_t)sysconf(_SC_PAGESIZE);
    fence->pages = round_up(room + ALIGNMENT, fence->page);
    fence->count = count;
    fence->map = memory(fence->pages + 2 * fence->page);
    if (fence->map == NULL)
        return false;
    uint8_t *const end = fence->map + fence->page + fence->pages;
    fence->bytes = end - room;
    memset(fence->map + fence->page, CANARY, fence->pages);
    memset(fence->bytes, fill, count);
    return mprotect(fence->map, fence->page, PROT_NONE) == 0 && mprotect(end, fence->page, PROT_NONE) == 0;
}

void fence_free(const struct fence *fence)
{
    munmap(fence->map, fence->pages + 2 * fence->page);
}

bool fence_read_only(const struct fence *fence)
{
    return mprotect(fence->map + fence->page, fence->pages, PROT_READ) == 0;
}

enum harm fence_harm(const struct fence *fence)
{
    for (const uint8_t *at = fence->map + fence->page; at < fence->bytes; ++at)
        if (*at != CANARY)
            return HARM_BEFORE;
    for (const uint8_t *at = fence->bytes + fence->count; at < fence->map + fence->page + fence->pages; ++at)
        if (*at != CANARY)
            return HARM_BEHIND;
    return HARM_NONE;
}

bool arena_make(size_t count, const size_t *sizes, uint8_t **starts)
{
    size_t end = GAP;
    for (size_t i = 0; i < count; ++i)
        end += round_up(sizes[i], ALIGNMENT) + GAP;
    uint8_t *at = memory(end);
    if (at == NULL)
        return false;
    memset(at, CANARY, GAP);
    at += GAP;
    for (size_t i = 0; i < count; ++i) {
        const size_t room = round_up(sizes[i], ALIGNMENT) + GAP;
        starts[i] = at;
        memset(at + sizes[i], CANARY, room - sizes[i]);
        at += room;
    }
    return true;
}

enum harm arena_harm(size_t count, const size_t *sizes, uint8_t *const *starts, size_t *index)
{
    for (size_t i = 0; i <= count; ++i) { /* the guard in front of buffer i */
        const uint8_t *const end = i > 0 ? starts[i - 1] + sizes[i - 1] : starts[0] - GAP;
        const size_t room = i < count ? (size_t)(starts[i] - end) : round_up(sizes[i - 1], ALIGNMENT) + GAP - sizes[i - 1];
        for (size_t at = 0; at < room; ++at) {
            if (end[at] == CANARY)
                continue;
            const bool behind = i == count || (i > 0 && at < room / 2); /* nearer to the one before */
            *index = behind ? i - 1 : i;
            return behind ? HARM_BEHIND : HARM_BEFORE;
        }
    }
    return HARM_NONE;
}
