/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's asynchronous copies into shared memory (cuda_pipeline.h, the instruction cp.async) on the CPU. Part of
 * cuda_runtime.h.
 *
 * A copy is there once the thread that began it has waited for its group, and for other threads after a barrier that
 * follows. Until then the words that it fills are NaN, and an access to them ends the program. So does a thread that
 * ends before it has waited.
 */
#ifndef CUDA_ON_CPU_PIPELINE_H
#define CUDA_ON_CPU_PIPELINE_H

namespace cuda_on_cpu {

struct Copy {
    void *to;
    unsigned char data[16];
    size_t bytes, group;
};

/* Marks the words of shared memory that a copy fills, or that it has filled. */
__attribute__((no_sanitize("thread"))) inline void mark_filling(const void *to, size_t bytes, bool filling)
{
    const uintptr_t at = (uintptr_t)to, first = (uintptr_t)shared_first, asked = (uintptr_t)dynamic_shared;
    const bool dynamic = at >= asked && at < asked + dynamic_bytes;
    Shadow *const words = dynamic ? dynamic_shadow.data() : shadow.data();
    const size_t place = at - (dynamic ? asked : first);

    if (!dynamic && (at < first || at >= (uintptr_t)shared_end))
        fail("an asynchronous copy writes what is not shared memory");
    for (size_t word = place / WORD; word <= (place + bytes - 1) / WORD; word++)
        words[word].filling = filling;
}

} /* namespace cuda_on_cpu */

/* Begins to copy `bytes` bytes (4, 8 or 16) into shared memory, the last `zeroes` of which are zero and not read. */
__attribute__((no_sanitize("thread"))) inline void __pipeline_memcpy_async(
    void *to, const void *from, size_t bytes, size_t zeroes = 0)
{
    using namespace cuda_on_cpu;
    Fiber &fiber = fibers[running];

    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeroes > bytes)
        fail("an asynchronous copy is of 4, 8 or 16 bytes");
    if (zeroes < bytes && (uintptr_t)from % bytes != 0)
        fail("an asynchronous copy begins at an address that is no multiple of its size");
    if (zeroes < bytes)
        touch(from, bytes - zeroes, false);
    touch_aligned(to, bytes, true);
    mark_filling(to, bytes, true);
    if (fiber.under_way == fiber.room) {
        fiber.room = 2 * fiber.room + 16;
        fiber.copies = (Copy *)realloc(fiber.copies, fiber.room * sizeof *fiber.copies);
        if (fiber.copies == nullptr)
            fail("no memory");
    }
    Copy &copy = fiber.copies[fiber.under_way++];
    copy.to = to;
    copy.bytes = bytes;
    copy.group = fiber.groups;
    memset(copy.data, 0, sizeof copy.data);
    if (zeroes < bytes)
        memcpy(copy.data, from, bytes - zeroes);
    memset(to, POISON, bytes);
}

/* Closes the group of the copies that the running thread has begun since the last one. */
__attribute__((no_sanitize("thread"))) inline void __pipeline_commit()
{
    cuda_on_cpu::fibers[cuda_on_cpu::running].groups++;
}

/* Waits for all closed groups of the running thread but the last `later`. */
__attribute__((no_sanitize("thread"))) inline void __pipeline_wait_prior(size_t later)
{
    using namespace cuda_on_cpu;
    Fiber &fiber = fibers[running];
    size_t done = 0;

    for (; done < fiber.under_way && fiber.copies[done].group + later < fiber.groups; done++) {
        const Copy &copy = fiber.copies[done];
        mark_filling(copy.to, copy.bytes, false);
        touch(copy.to, copy.bytes, true);
        memcpy(copy.to, copy.data, copy.bytes);
    }
    fiber.under_way -= done;
    if (done != 0)
        memmove(fiber.copies, fiber.copies + done, fiber.under_way * sizeof *fiber.copies);
}

#endif
