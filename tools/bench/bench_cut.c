/* What a cut costs without a transport: results of 1 KiB (an embedding of 256 floats) go through sender, wire and
 * receiver, and their outcomes come back, all in one thread.
 *
 *   bench_cut [FRAMES]
 *
 * Prints nanoseconds a frame for writing, for reading, and for all of it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/transport/session/session.h"
#include "engine/transport/wire/wire.h"
#include "millrace/status.h"

enum { WINDOW = 1024, BATCH = 64, FLOATS = 256 };

typedef struct bench {
    mr_store *store;
    mr_names *names;
    mr_wire_writer *writer, *back_writer;
    mr_wire_reader *reader, *back_reader;
    mr_sender *sender;
    mr_receiver *receiver;
    uint64_t ticket[WINDOW];
    size_t tickets;
    uint64_t offered, settled, messages;
    int64_t writing_ns, reading_ns;
} bench;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static mr_session_self self_of(const char *name) {
    return (mr_session_self){.name = name, .incarnation = 1, .cut = "a->b", .formats = "results", .memory = "",
                             .source_count = 1, .lane_count = 1,
                             .timing = {.hello_ns = 1000000000, .beat_ns = 1000000000, .silence_ns = 60000000000,
                                        .report_ns = 1000000, .alone_ns = 1000000000}};
}

static int open_bench(bench *b) {
    const mr_sender_params sender = {.self = self_of("a"), .run = 1, .receivers = 1, .most_peers = 1,
                                     .window_frames = WINDOW, .window_bytes = UINT64_C(1) << 30,
                                     .batch_frames = BATCH, .batch_bytes = 1 << 20, .stage = "b"};
    const mr_receiver_params receiver = {.self = self_of("b"), .senders = 1, .credit_frames = WINDOW,
                                         .credit_bytes = UINT64_C(1) << 30, .memory = WINDOW};
    const mr_wire_writer_params writing = {.compression = MR_COMPRESSION_NONE};
    int status = mr_store_create(&b->store);
    if (!status)
        status = mr_names_create(&b->names, 100, 10000);
    const mr_wire_reader_params reading = {.source_count = 1, .names = b->names, .store = b->store};
    if (!status)
        status = mr_sender_create(&b->sender, &sender);
    if (!status)
        status = mr_receiver_create(&b->receiver, &receiver);
    if (!status)
        status = mr_wire_writer_create(&b->writer, &writing);
    if (!status)
        status = mr_wire_writer_create(&b->back_writer, &writing);
    if (!status)
        status = mr_wire_reader_create(&b->reader, &reading);
    return status ? status : mr_wire_reader_create(&b->back_reader, &reading);
}

static void close_bench(bench *b) {
    mr_sender_destroy(&b->sender);
    mr_receiver_destroy(&b->receiver);
    mr_wire_writer_destroy(&b->writer);
    mr_wire_writer_destroy(&b->back_writer);
    mr_wire_reader_destroy(&b->reader);
    mr_wire_reader_destroy(&b->back_reader);
    mr_store_release(&b->store);
    mr_names_destroy(&b->names);
}

static int offer(bench *b) {
    static float floats[FLOATS];
    static const int64_t count = FLOATS;
    mr_frame *frame;
    mr_result *result;
    int status = mr_store_frame(b->store, &frame);
    if (!status)
        status = mr_store_result(b->store, mr_kind_tensor(), 0, &result);
    if (status)
        return status;
    frame->format.payload = MR_PAYLOAD_RESULTS;
    frame->identity.seq = b->offered;
    result->stage = "features";
    result->name = "embedding";
    result->format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &count);
    result->data = floats;
    frame->results = result;
    const mr_cut_item item = {
        .kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .bytes = mr_wire_frame_bytes(frame)};
    b->offered++;
    return mr_sender_offer(b->sender, &item, now_ns());
}

static int arrive(bench *b, mr_cut_message *message) {
    int status = mr_receiver_receive(b->receiver, 0, message, now_ns());
    for (size_t i = 0; message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++) {
        mr_cut_item *item = &message->items.item[i];
        b->ticket[b->tickets++] = item->ticket;
        mr_frame_unref(&item->frame);
    }
    return status;
}

static int drive_sender(bench *b) {
    mr_action action;
    int status = MR_OK;
    while (!status && mr_sender_next(b->sender, now_ns(), &action)) {
        const mr_wire_part *parts;
        mr_cut_message message;
        size_t count;
        if (action.kind == MR_ACTION_SETTLE) {
            b->settled++;
            mr_frame_unref(&action.item.frame);
        }
        if (action.kind != MR_ACTION_SEND)
            continue;
        int64_t begin_ns = now_ns();
        status = mr_wire_write(b->writer, &action.message, begin_ns, &parts, &count);
        int64_t middle_ns = now_ns();
        if (!status)
            status = mr_wire_read(b->reader, parts, count, middle_ns, &message);
        b->writing_ns += middle_ns - begin_ns;
        b->reading_ns += now_ns() - middle_ns;
        b->messages++;
        if (!status)
            status = arrive(b, &message);
    }
    return status;
}

static int drive_receiver(bench *b) {
    mr_action action;
    int status = MR_OK;
    for (size_t i = 0; i < b->tickets; i++) {
        mr_receiver_take(b->receiver, b->ticket[i]);
        mr_receiver_settle(b->receiver, b->ticket[i], MR_NOTE_DELIVERED, NULL, NULL, now_ns());
    }
    b->tickets = 0;
    while (!status && mr_receiver_next(b->receiver, now_ns(), &action)) {
        const mr_wire_part *parts;
        mr_cut_message message;
        size_t count;
        if (action.kind != MR_ACTION_SEND)
            continue;
        status = mr_wire_write(b->back_writer, &action.message, now_ns(), &parts, &count);
        if (!status)
            status = mr_wire_read(b->back_reader, parts, count, now_ns(), &message);
        if (!status)
            status = mr_sender_receive(b->sender, 0, &message, now_ns());
    }
    return status;
}

int main(int count, char **words) {
    static bench b;
    uint64_t frames = count > 1 ? strtoull(words[1], NULL, 10) : 1000000;
    int status = open_bench(&b);
    int64_t begin_ns = now_ns();
    while (!status && b.settled < frames) {
        for (int i = 0; i < BATCH && !status && b.offered < frames && mr_sender_has_room(b.sender, 4 * FLOATS); i++)
            status = offer(&b);
        if (!status)
            status = drive_sender(&b);
        if (!status)
            status = drive_receiver(&b);
    }
    double all_ns = (double)(now_ns() - begin_ns);
    if (status)
        fprintf(stderr, "bench_cut: %s\n", mr_message());
    else
        printf("%llu frames of %d bytes in %llu messages: writing %.0f ns, reading %.0f ns, all %.0f ns a frame, %.0f "
               "a second\n", (unsigned long long)frames, 4 * FLOATS, (unsigned long long)b.messages,
               (double)b.writing_ns / (double)frames, (double)b.reading_ns / (double)frames, all_ns / (double)frames,
               (double)frames * 1e9 / all_ns);
    close_bench(&b);
    return mr_status_exit_code(status);
}
