/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on the pipe: magic "ETAG", version, type, length of the payload, CRC-32 of all this and the payload; then the
   payload. A stream that breaks this is of no use any more: FRAME_BAD is final. */
#ifndef EDGETUNE_AGENT_FRAME_H
#define EDGETUNE_AGENT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC 0x47415445u
#define FRAME_VERSION 2u
#define FRAME_HEADER 16u
#define FRAME_MOST (1u << 20) /* bytes of payload */

enum frame_type {
    /* to the agent */
    FRAME_PING = 1,
    FRAME_PUT = 2,
    FRAME_FORGET = 3,
    FRAME_RUN = 4,
    FRAME_CANCEL = 5,
    FRAME_ASK_HEALTH = 6,
    FRAME_BYE = 7,
    /* from the agent */
    FRAME_HELLO = 64,
    FRAME_PONG = 65,
    FRAME_STORED = 66,
    FRAME_RESULT = 67,
    FRAME_HEALTH = 68,
    FRAME_REFUSED = 69,
    FRAME_BUSY = 70
};

enum frame_state { FRAME_NONE, FRAME_READY, FRAME_BAD };

struct frame {
    uint16_t type;
    uint32_t length;
    const uint8_t *payload; /* valid until the next call on the parser */
};

struct frame_parser {
    uint8_t *buffer; /* FRAME_HEADER + FRAME_MOST bytes, the caller's */
    size_t first, used;
    const char *problem; /* NULL, or what is wrong with the stream */
};

void frame_parser_init(struct frame_parser *parser, uint8_t *buffer);
/* Where to put bytes that arrive, and how many fit (never 0 unless the stream is bad, or frames wait to be taken). */
uint8_t *frame_space(struct frame_parser *parser, size_t *room);
void frame_added(struct frame_parser *parser, size_t count);
/* The next whole frame, if there is one. */
enum frame_state frame_next(struct frame_parser *parser, struct frame *frame);

/* Write the header of a frame with this payload. */
void frame_header(uint8_t header[FRAME_HEADER], uint16_t type, const uint8_t *payload, uint32_t length);
uint32_t frame_crc(uint32_t crc, const uint8_t *data, size_t count);

#endif
