/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent and the emulator's plugin agree on. */
#ifndef EDGETUNE_AGENT_COUNTING_H
#define EDGETUNE_AGENT_COUNTING_H

#define COUNTING_MAGIC 0x45544350L
#define COUNTING_START 1L
#define COUNTING_STOP 2L
#define COUNTING_RECORD 0x4554434f554e5431u /* in front of each count that is written */

#endif
