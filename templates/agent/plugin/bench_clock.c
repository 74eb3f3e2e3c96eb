/* SPDX-License-Identifier: Apache-2.0 */
/* A clock for the benchmark of a package: what it reads are instructions, which the plugin counted since the program
   began. A mark takes the same number of instructions each time, so differences are exact. */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../counting.h"

uint64_t edgetune_instructions(void);

uint64_t edgetune_instructions(void)
{
    static int ends[2] = {-1, -1};
    uint64_t record[2] = {0, 0};
    if (ends[0] < 0 && pipe(ends) != 0)
        return 0;
    syscall(SYS_getppid, COUNTING_MAGIC, COUNTING_STOP, (long)ends[1]);
    if (read(ends[0], record, sizeof record) != (ssize_t)sizeof record || record[0] != COUNTING_RECORD)
        return 0;
    return record[1];
}
