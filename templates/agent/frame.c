/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <string.h>

#include "bytes.h"

#define CRC_COVERS 12u /* bytes of the header in front of the checksum */

uint32_t frame_crc(uint32_t crc, const uint8_t *data, size_t count)
{
    static const uint32_t nibbles[16] = {0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u,
                                         0x4db26158u, 0x5005713cu, 0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
                                         0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
    crc = ~crc;
    for (size_t i = 0; i < count; ++i) {
        crc = nibbles[(crc ^ data[i]) & 15u] ^ (crc >> 4);
        crc = nibbles[(crc ^ (uint32_t)(data[i] >> 4)) & 15u] ^ (crc >> 4);
    }
    return ~crc;
}

void frame_parser_init(struct frame_parser *parser, uint8_t *buffer)
{
    parser->buffer = buffer;
    parser->first = 0;
    parser->used = 0;
    parser->problem = NULL;
}

uint8_t *frame_space(struct frame_parser *parser, size_t *room)
{
    if (parser->first > 0) {
        memmove(parser->buffer, parser->buffer + parser->first, parser->used - parser->first);
        parser->used -= parser->first;
        parser->first = 0;
    }
    *room = parser->problem != NULL ? 0 : FRAME_HEADER + FRAME_MOST - parser->used;
    return parser->buffer + parser->used;
}

void frame_added(struct frame_parser *parser, size_t count)
{
    parser->used += count;
}

static enum frame_state bad(struct frame_parser *parser, const char *problem)
{
    parser->problem = problem;
    return FRAME_BAD;
}

enum frame_state frame_next(struct frame_parser *parser, struct frame *frame)
{
    if (parser->problem != NULL)
        return FRAME_BAD;
    const uint8_t *start = parser->buffer + parser->first;
    const size_t have = parser->used - parser->first;
    if (have < FRAME_HEADER)
        return FRAME_NONE;
    struct reader header = {start, FRAME_HEADER, false};
    if (get_u32(&header) != FRAME_MAGIC)
        return bad(parser, "a frame does not begin with its magic number");
    if (get_u16(&header) != FRAME_VERSION)
        return bad(parser, "a frame is of another version");
    frame->type = get_u16(&header);
    frame->length = get_u32(&header);
    if (frame->length > FRAME_MOST)
        return bad(parser, "a frame is longer than allowed");
    if (have < FRAME_HEADER + frame->length)
        return FRAME_NONE;
    frame->payload = start + FRAME_HEADER;
    if (frame_crc(frame_crc(0, start, CRC_COVERS), frame->payload, frame->length) != get_u32(&header))
        return bad(parser, "the checksum of a frame is wrong");
    parser->first += FRAME_HEADER + frame->length;
    return FRAME_READY;
}

void frame_header(uint8_t header[FRAME_HEADER], uint16_t type, const uint8_t *payload, uint32_t length)
{
    struct writer out = {header, 0, FRAME_HEADER, false};
    put_number(&out, FRAME_MAGIC, 4);
    put_number(&out, FRAME_VERSION, 2);
    put_number(&out, type, 2);
    put_number(&out, length, 4);
    put_number(&out, frame_crc(frame_crc(0, header, CRC_COVERS), payload, length), 4);
}
