/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of /proc and /sys, and what their text says. */
#ifndef EDGETUNE_AGENT_SYSTEM_H
#define EDGETUNE_AGENT_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the beginning of a file without its last line end; false (and "") where it cannot be read. */
bool read_text(const char *path, char *text, size_t room);
/* The whole number at the start of a text, of base 10 or 16; false where there is none. */
bool read_number(const char *text, unsigned base, uint64_t *value);
/* The decimal fraction at the start of a text, such as 0.75. */
bool read_fraction(const char *text, double *value);
/* Have reads and writes return at once. */
bool do_not_wait(int file);
/* A copy of a descriptor whose number is at least `lowest`; -1 where there is none. */
int copy_file(int file, int lowest);
double now_s(void); /* of a clock that only goes forward */

#endif
