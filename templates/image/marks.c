/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a call where an emulator runs the image: between two marks that its plugin knows (plugin/regions.c), the same
   instructions each time, and the call. The image itself learns nothing. */
#include "image.h"

const unsigned counted_calls = 1, counted_words = 0;

void count_start(void)
{
}

__attribute__((noinline)) uint32_t count(void (*function)(void *const *))
{
    __asm__ volatile(".inst.n 0x46c9" ::: "memory");
    function(image_pointers);
    __asm__ volatile(".inst.n 0x46d2" ::: "memory");
    return 0;
}
