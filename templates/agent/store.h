/* SPDX-License-Identifier: Apache-2.0 */
/* What the host pushed, by content id: arrays in write-protected memory, libraries in a file without a name. */
#ifndef EDGETUNE_AGENT_STORE_H
#define EDGETUNE_AGENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "request.h"

enum content_kind { CONTENT_ARRAY = 0, CONTENT_LIBRARY = 1 };

struct content {
    uint8_t id[ID_BYTES];
    uint8_t kind;
    size_t size;
    void *bytes; /* of an array */
    int file;    /* of a library */
};

/* `folder` takes libraries where memfd_create is missing; `most_bytes` limits all content together. */
void store_init(const char *folder, uint64_t most_bytes);
bool store_has_memfd(void);
const struct content *store_find(const uint8_t id[ID_BYTES], uint8_t kind);
/* One piece of a push: id, kind, total, offset, data. Returns NULL or what is wrong; `complete` tells the last piece. */
const char *store_piece(const uint8_t *payload, uint32_t length, bool *complete);
void store_forget(const uint8_t id[ID_BYTES]);
/* How often arrays came or went: a process forked at the same count has the same arrays at the same addresses. */
uint64_t store_array_changes(void);
/* Close every file of the store, in a child. */
void store_close_files(void);

#endif
