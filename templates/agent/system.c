/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "system.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "start.h"

OLD_SYMBOL(fcntl); /* of 2.28 on 32-bit machines otherwise */

bool read_text(const char *path, char *text, size_t room)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    while (file >= 0 && used + 1 < room) {
        const ssize_t got = read(file, text + used, room - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (file >= 0)
        close(file);
    while (used > 0 && (text[used - 1] == '\n' || text[used - 1] == ' '))
        --used;
    text[used] = '\0';
    return used > 0;
}

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10u;
    return 16u;
}

bool read_number(const char *text, unsigned base, uint64_t *value)
{
    *value = 0;
    if (base == 16 && text[0] == '0' && text[1] == 'x')
        text += 2;
    if (digit(*text) >= base)
        return false;
    for (; digit(*text) < base; ++text) {
        if (*value > (UINT64_MAX - 15) / base)
            return false;
        *value = *value * base + digit(*text);
    }
    return true;
}

bool read_fraction(const char *text, double *value)
{
    uint64_t digits;
    double scale = 1;
    if (!read_number(text, 10, &digits))
        return false;
    while (digit(*text) < 10)
        ++text;
    for (text += *text == '.'; digit(*text) < 10 && digits < UINT64_MAX / 100; ++text, scale *= 10)
        digits = digits * 10 + digit(*text);
    *value = (double)digits / scale;
    return true;
}

bool do_not_wait(int file)
{
    const int flags = fcntl(file, F_GETFL);
    return flags >= 0 && fcntl(file, F_SETFL, flags | O_NONBLOCK) == 0;
}

int copy_file(int file, int lowest)
{
    return fcntl(file, F_DUPFD, lowest);
}

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
