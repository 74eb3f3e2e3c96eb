/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

struct difference compare(enum element_type type, const void *output, const void *reference, size_t bytes,
                          struct tolerance tolerance)
{
    static const uint8_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
    if (memcmp(output, reference, bytes) == 0)
        return (struct difference){.allowed = true};
    return difference_of(type, output, reference, bytes / sizes[type], tolerance);
}
