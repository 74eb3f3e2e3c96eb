/* libFuzzer: what the agent reads. An input whose first byte is even goes to the frame parser as it is, cut into pieces;
   otherwise the rest becomes the payload of a valid frame, so that requests and pushes are reached behind the checksum.

   clang-19 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I templates/agent \
     tests/fuzz/agent_frames.c templates/agent/frame.c templates/agent/request.c -o build/fuzz-agent
   build/fuzz-agent tests/fuzz/corpus */
#define _GNU_SOURCE
#include <stdlib.h>

#include "store.c" /* with its state, which each input finds empty */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t incoming[FRAME_HEADER + FRAME_MOST];

static void obey(const struct frame *frame)
{
    static struct request request;
    bool complete;
    switch (frame->type) {
    case FRAME_RUN:
        if (request_parse(&request, frame) == NULL && request.array_count > MOST_ARRAYS)
            abort();
        break;
    case FRAME_PUT:
        if (store_piece(frame->payload, frame->length, &complete) != NULL && complete)
            abort();
        break;
    default: break;
    }
}

static void empty_store(void)
{
    drop_arriving();
    while (content_count > 0)
        store_forget(contents[0].id);
    if (bytes_used != 0)
        abort();
}

static void listen_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
    struct frame_parser parser;
    struct frame frame;
    frame_parser_init(&parser, incoming);
    while (size > 0) {
        size_t room;
        uint8_t *space = frame_space(&parser, &room);
        const size_t count = size < piece ? size : piece;
        if (room < count)
            return;
        memcpy(space, data, count);
        frame_added(&parser, count);
        data += count;
        size -= count;
        enum frame_state state;
        while ((state = frame_next(&parser, &frame)) == FRAME_READY)
            obey(&frame);
        if (state == FRAME_BAD)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    store_init("/nowhere", 1u << 20);
    if (data[0] % 2 == 0) {
        listen_in_pieces(data + 1, size - 1, 1u + data[0]);
    } else {
        static uint8_t whole[FRAME_HEADER + 4096];
        const size_t length = size - 2 < 4096 ? size - 2 : 4096;
        memcpy(whole + FRAME_HEADER, data + 2, length);
        frame_header(whole, data[1], whole + FRAME_HEADER, (uint32_t)length);
        for (int twice = 0; twice < 2; ++twice)
            listen_in_pieces(whole, FRAME_HEADER + length, 1u + data[0]);
    }
    empty_store();
    return 0;
}
