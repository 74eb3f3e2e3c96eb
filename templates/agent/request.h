/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of a trial: which library, on which arrays, within which limits. */
#ifndef EDGETUNE_AGENT_REQUEST_H
#define EDGETUNE_AGENT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "compare.h"
#include "frame.h"

#define ID_BYTES 32u
#define MOST_ARRAYS 1024u
#define MOST_CORES 64u
#define MOST_SAMPLES 4096u

/* ROLE_PART: an output with gaps, in which the reference has bytes of FILL_TIME where it is of integers, else of
   FILL_CHECK; they must not be written. */
enum role { ROLE_INPUT = 0, ROLE_CONSTANT = 1, ROLE_OUTPUT = 2, ROLE_PART = 3 };

struct array_use {
    uint8_t id[ID_BYTES];
    uint8_t role, type; /* enum role, enum element_type */
    struct tolerance tolerance;
};

/* Nanoseconds unless said otherwise; the same as the host's TimingPolicy. */
struct policy {
    double budget, sample, warm_up, min_sampling, narrow, hopeless;
    uint32_t min_samples, max_samples, few_samples;
};

struct request {
    uint32_t number;
    uint8_t library[ID_BYTES];
    uint64_t scratch_bytes, memory_bytes, cold_bytes; /* cold_bytes: swept before every call; 0: caches stay warm */
    double deadline_s, best_ns;
    uint64_t seed; /* of what a candidate cannot foresee */
    struct policy policy;
    uint16_t core_count, array_count;
    uint16_t cores[MOST_CORES];
    struct array_use arrays[MOST_ARRAYS];
};

/* Returns NULL, or what is wrong. */
const char *request_parse(struct request *request, const struct frame *frame);

#endif
