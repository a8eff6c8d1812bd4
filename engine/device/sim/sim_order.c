/* The order between work on simulated devices: by streams, by records and waits, and by work that is done already.
 *
 * A point is all work on a stream up to one piece. A stream knows the points that it was made to wait for, and a record
 * holds all points that its stream knew. So a wait's effect is known as soon as it is requested. Work without a wait is
 * found even if it would have run in time. */
#include "engine/device/sim/sim_order.h"

static sim_stream *alive;
static sim_item *records; /* that are not done */
static uint64_t last_id;

void mr_sim_order_add(sim_stream *stream) {
    stream->id = ++last_id;
    stream->next_alive = alive;
    alive = stream;
}

void mr_sim_order_remove(sim_stream *stream) {
    sim_stream **link = &alive;
    while (*link != stream)
        link = &(*link)->next_alive;
    *link = stream->next_alive;
}

uint64_t mr_sim_order_submit(sim_stream *stream) {
    return ++stream->submitted;
}

/* A stream that no longer exists has done all its work. */
bool mr_sim_order_done(sim_point point) {
    for (const sim_stream *stream = alive; stream; stream = stream->next_alive)
        if (stream->id == point.stream)
            return stream->done >= point.tick;
    return true;
}

bool mr_sim_order_covers(const sim_stream *stream, sim_point point) {
    if (stream->id == point.stream || stream->knows_all || mr_sim_order_done(point))
        return true;
    for (size_t i = 0; i < stream->known_count; i++)
        if (stream->known[i].stream == point.stream)
            return stream->known[i].tick >= point.tick;
    return false;
}

/* Forgets points that are done, to make room for others. */
static void forget_done(sim_stream *stream) {
    size_t kept = 0;
    for (size_t i = 0; i < stream->known_count; i++)
        if (!mr_sim_order_done(stream->known[i]))
            stream->known[kept++] = stream->known[i];
    stream->known_count = kept;
}

static void learn(sim_stream *stream, sim_point point) {
    if (mr_sim_order_covers(stream, point))
        return;
    for (size_t i = 0; i < stream->known_count; i++)
        if (stream->known[i].stream == point.stream) {
            stream->known[i].tick = point.tick;
            return;
        }
    /* One entry must stay free for the stream itself, in its records. */
    if (stream->known_count == SIM_KNOWN - 1)
        forget_done(stream);
    if (stream->known_count < SIM_KNOWN - 1)
        stream->known[stream->known_count++] = point;
    else
        stream->knows_all = true;
}

void mr_sim_order_record(sim_item *record) {
    sim_stream *stream = record->stream;
    forget_done(stream);
    record->known_count = 0;
    record->knows_all = stream->knows_all;
    for (size_t i = 0; i < stream->known_count; i++)
        record->u.known[record->known_count++] = stream->known[i];
    record->u.known[record->known_count++] = (sim_point){stream->id, stream->submitted};
    record->next_record = records;
    records = record;
}

void mr_sim_order_recorded(sim_item *record) {
    sim_item **link = &records;
    while (*link && *link != record)
        link = &(*link)->next_record;
    if (*link)
        *link = record->next_record;
}

void mr_sim_order_wait(sim_stream *stream, const mr_event *event) {
    const sim_item *record = records;
    while (record && record->event != event)
        record = record->next_record;
    if (!record)
        return;
    stream->knows_all |= record->knows_all;
    for (size_t i = 0; i < record->known_count; i++)
        learn(stream, record->u.known[i]);
}
