/* SPDX-License-Identifier: Apache-2.0 */
/* What Linux tells about the conditions of a measurement. The same as the host's edgetune/boards/environment.py. */
#ifndef EDGETUNE_AGENT_HEALTH_H
#define EDGETUNE_AGENT_HEALTH_H

#include "bytes.h"

/* Writes the number of readings (1 byte), then each: key (1 byte), kind (1 byte: 0 text, 1 whole number, 2 fraction),
   value. What the system does not tell is absent. */
void health_write(struct writer *out, unsigned core, uint64_t page_faults);

#endif
