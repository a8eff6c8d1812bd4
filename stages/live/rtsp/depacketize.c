#include "stages/live/rtsp/depacketize.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/rtsp/assembly.h"
#include "stages/media/coded/nal.h"

/* ---- units ------------------------------------------------------------------------------------------------------- */

void mr_assembly_add(mr_assembly *assembly, const uint8_t *data, size_t bytes) {
    if (assembly->too_large || bytes > assembly->most - assembly->bytes ||
        !mr_grow_bytes((void **)&assembly->data, &assembly->room, assembly->bytes + bytes + MR_RTP_PADDING)) {
        assembly->too_large = true;
        return;
    }
    if (bytes)
        memcpy(assembly->data + assembly->bytes, data, bytes);
    assembly->bytes += bytes;
}

/* Empties the unit. It keeps its memory, unless that is much more than most units need. */
static void renew(mr_assembly *unit) {
    enum { KEPT_BYTES = 1 << 20 };
    uint8_t *data = unit->data;
    size_t room = unit->room;
    if (room > KEPT_BYTES && unit->bytes < KEPT_BYTES / 4) {
        mr_free(data);
        data = NULL;
        room = 0;
    }
    *unit = (mr_assembly){.data = data, .room = room, .most = unit->most};
}

/* ---- parameter sets ---------------------------------------------------------------------------------------------- */

static bool store(mr_set_store *to, const uint8_t *data, size_t bytes) {
    enum { MOST_BYTES = 1 << 16 };
    if (to->bytes + bytes > MOST_BYTES ||
        !mr_grow_bytes((void **)&to->data, &to->room, to->bytes + bytes + MR_RTP_PADDING))
        return false;
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    memset(to->data + to->bytes, 0, MR_RTP_PADDING);
    return true;
}

/* If a unit has other sets of this kind than the known ones, they replace those. */
static void learn_kind(mr_depacketizer *d, const mr_assembly *unit, int kind) {
    mr_set_store *known = &d->sets[kind];
    size_t at = 0;
    bool any = false, same = true;
    for (int i = 0; i < unit->set_count; i++) {
        if (unit->sets[i].kind != kind)
            continue;
        const size_t bytes = unit->sets[i].bytes;
        same = same && at + bytes <= known->bytes &&
               memcmp(known->data + at, unit->data + unit->sets[i].begin, bytes) == 0;
        at += bytes;
        any = true;
    }
    if (!any || (same && at == known->bytes))
        return;
    known->bytes = 0;
    for (int i = 0; i < unit->set_count; i++)
        if (unit->sets[i].kind == kind)
            store(known, unit->data + unit->sets[i].begin, unit->sets[i].bytes);
    d->version++;
}

static unsigned kinds_of(const mr_assembly *unit) {
    unsigned kinds = 0;
    for (int i = 0; i < unit->set_count; i++)
        kinds |= 1u << unit->sets[i].kind;
    return kinds;
}

/* Inserts the sets that a key lacks, after the access unit delimiter if there is one. */
static void complete_sets(mr_depacketizer *d, mr_assembly *unit, unsigned kinds) {
    size_t more = 0, end = unit->bytes;
    for (int kind = 0; kind < MR_SET_KINDS; kind++)
        more += kinds & 1u << kind ? 0 : d->sets[kind].bytes;
    if (!more)
        return;
    for (int kind = 0; kind < MR_SET_KINDS; kind++)
        if (!(kinds & 1u << kind))
            mr_assembly_add(unit, d->sets[kind].data, d->sets[kind].bytes);
    if (unit->too_large)
        return;
    /* Moves the sets from the end to before the picture. */
    uint8_t *moved = mr_alloc(more);
    if (!moved) {
        unit->too_large = true;
        return;
    }
    memcpy(moved, unit->data + end, more);
    memmove(unit->data + unit->lead + more, unit->data + unit->lead, end - unit->lead);
    memcpy(unit->data + unit->lead, moved, more);
    mr_free(moved);
}

static void add_set(mr_depacketizer *d, mr_nal set) {
    static const uint8_t start[] = {0, 0, 0, 1};
    const int kind = set.bytes > 0 && d->type->kind ? d->type->kind(set.data) : -1;
    if (kind < 0)
        return;
    mr_set_store *to = &d->sets[kind];
    const size_t before = to->bytes;
    while (set.bytes > 1 && set.data[set.bytes - 1] == 0)
        set.bytes--;
    if (store(to, start, sizeof start) && store(to, set.data, set.bytes))
        d->version++;
    else
        to->bytes = before;
}

void mr_depacketizer_add_set(mr_depacketizer *d, const uint8_t *data, size_t bytes) {
    mr_nals behind_codes = {data, data + bytes, 0}, ahead = behind_codes;
    mr_nal set;
    const bool coded = mr_nal_next(&ahead, &set);
    add_set(d, coded ? (mr_nal){data, (size_t)(set.data - 3 - data)} : (mr_nal){data, bytes});
    while (mr_nal_next(&behind_codes, &set))
        add_set(d, set);
}

const uint8_t *mr_depacketizer_sets(mr_depacketizer *d, size_t *bytes, uint64_t *version) {
    if (d->told_version != d->version) {
        d->told.bytes = 0;
        d->told_version = d->version;
        for (int kind = 0; kind < MR_SET_KINDS; kind++)
            if (d->sets[kind].bytes)
                store(&d->told, d->sets[kind].data, d->sets[kind].bytes);
    }
    *bytes = d->told.bytes;
    *version = d->version;
    return d->told.data;
}

/* ---- depacketizer ------------------------------------------------------------------------------------------------ */

int mr_depacketizer_create(mr_depacketizer **depacketizer, mr_rtp_codec codec, size_t most_bytes) {
    mr_depacketizer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the packets of a stream");
    made->type = codec == MR_RTP_H264 ? &mr_payload_h264 : codec == MR_RTP_HEVC ? &mr_payload_hevc : &mr_payload_jpeg;
    made->units[0].most = made->units[1].most = most_bytes;
    made->tainted = true;
    *depacketizer = made;
    return MR_OK;
}

void mr_depacketizer_destroy(mr_depacketizer **depacketizer) {
    mr_depacketizer *gone = *depacketizer;
    if (!gone)
        return;
    for (int kind = 0; kind < MR_SET_KINDS; kind++)
        mr_free(gone->sets[kind].data);
    mr_free(gone->told.data);
    mr_free(gone->tables);
    mr_free(gone->units[0].data);
    mr_free(gone->units[1].data);
    mr_free(gone);
    *depacketizer = NULL;
}

void mr_depacketizer_set_size(mr_depacketizer *d, int width, int height) {
    d->width = width;
    d->height = height;
}

void mr_depacketizer_refuse(mr_depacketizer *d, mr_assembly *unit, const char *format, int type) {
    unit->damaged = true;
    d->refused++;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(d->refusal, sizeof d->refusal, format, type);
#pragma GCC diagnostic pop
}

const char *mr_depacketizer_refused(const mr_depacketizer *d, uint64_t *count) {
    *count = d->refused;
    return d->refused ? d->refusal : NULL;
}

bool mr_depacketizer_is_open(const mr_depacketizer *d) {
    const mr_assembly *unit = &d->units[d->open];
    return unit->begun && !unit->complete && d->has_marked && !d->marker_lies;
}

/* Whether the unit cannot be given: it is too large, or has only NAL unit ends, which no decoder can use. */
static bool is_left_out(const mr_assembly *unit) {
    return unit->too_large || unit->bytes == 0;
}

/* Completes the open unit. */
static void complete(mr_depacketizer *d) {
    mr_assembly *unit = &d->units[d->open];
    d->type->finish(d, unit);
    const unsigned kinds = kinds_of(unit);
    for (int kind = 0; kind < MR_SET_KINDS; kind++)
        learn_kind(d, unit, kind);
    if (unit->key || unit->point) {
        /* Previous keys brought these sets. Here they were among the missing data and may have changed. */
        if (unit->gap && d->kinds_in_band & ~kinds)
            unit->damaged = true;
        else
            d->kinds_in_band = kinds;
        complete_sets(d, unit, kinds);
    }
    d->tainted = (d->tainted && !unit->key) || unit->damaged || unit->too_large;
    d->gap = is_left_out(unit);
    unit->complete = true;
}

/* Called when the time changes, which ends the open unit. A unit without picture data stays open: some senders give
 * parameter sets a separate time. */
static void change_time(mr_depacketizer *d, bool lossy) {
    mr_assembly *unit = &d->units[d->open];
    unit->damaged = unit->damaged || lossy;
    if (unit->picture) {
        complete(d);
        d->open = !d->open;
    } else if (unit->too_large || unit->damaged) {
        d->gap = true;
        renew(unit);
    }
}

/* Called for the first packet in a unit, or with a new time. */
static void begin_unit(mr_depacketizer *d, mr_assembly *unit, const mr_rtp_packet *packet, bool lossy) {
    const bool begins = d->type->begins(packet->payload, packet->bytes);
    /* The picture continues after its marker. */
    const bool goes_on = d->has_marked && d->marked_time == packet->time && !lossy && !begins;
    if (!unit->begun) {
        unit->gap = lossy || d->gap;
        unit->damaged = (unit->gap && !begins) || goes_on;
        d->gap = false;
    }
    d->marker_lies = d->marker_lies || goes_on;
    d->tainted = d->tainted || unit->gap;
    unit->begun = true;
    unit->time = packet->time;
    unit->timestamp = packet->timestamp;
}

/* The marker ends the open unit. */
static void end_by_marker(mr_depacketizer *d) {
    d->held = false;
    d->has_marked = true;
    d->marked_time = d->units[d->open].time;
    complete(d);
}

/* Called for the packet after the first marker: decides whether the unit continues. */
static void stop_holding(mr_depacketizer *d, const mr_rtp_packet *packet) {
    const bool same = d->units[d->open].time == packet->time;
    d->held = false;
    if (same && !d->type->begins(packet->payload, packet->bytes)) {
        d->marker_lies = true;
        return;
    }
    end_by_marker(d);
    d->open = !d->open;
}

void mr_depacketizer_release(mr_depacketizer *d) {
    if (d->held)
        end_by_marker(d);
}

bool mr_depacketizer_is_held(const mr_depacketizer *d) {
    return d->held;
}

void mr_depacketizer_put(mr_depacketizer *d, const mr_rtp_packet *packet) {
    const bool lossy = packet->lost || packet->restart || !d->begun;
    d->begun = true;
    for (int i = 0; i < 2; i++)
        if (d->units[i].complete)
            renew(&d->units[i]);
    if (d->held)
        stop_holding(d, packet);
    mr_assembly *unit = &d->units[d->open];
    if (unit->begun && unit->time == packet->time) {
        unit->damaged = unit->damaged || lossy;
        unit->nal_open = unit->nal_open && !lossy;
        d->tainted = d->tainted || lossy;
    } else {
        if (unit->begun)
            change_time(d, lossy);
        unit = &d->units[d->open];
        begin_unit(d, unit, packet, lossy);
    }
    d->type->add(d, unit, packet);
    if (!packet->marker || !unit->picture || d->marker_lies)
        return;
    /* A JPEG marks its end itself. */
    if (d->has_marked || !d->type->kind)
        end_by_marker(d);
    else
        d->held = true;
}

void mr_depacketizer_end(mr_depacketizer *d) {
    mr_assembly *unit = &d->units[d->open];
    mr_depacketizer_release(d);
    if (unit->begun && !unit->complete)
        change_time(d, d->has_marked && !d->marker_lies);
}

static bool take(mr_depacketizer *d, mr_assembly *unit, mr_rtp_unit *out) {
    if (!unit->complete || unit->given || is_left_out(unit))
        return false;
    unit->given = true;
    memset(unit->data + unit->bytes, 0, MR_RTP_PADDING);
    *out = (mr_rtp_unit){.data = unit->data, .bytes = unit->bytes, .time = unit->time, .timestamp = unit->timestamp,
                         .key = (unit->key || unit->point) && !unit->damaged, .gap = unit->gap,
                         .damaged = unit->damaged, .disposable = !unit->reference && d->type != &mr_payload_jpeg,
                         .width = unit->width, .height = unit->height};
    return true;
}

bool mr_depacketizer_take(mr_depacketizer *d, mr_rtp_unit *unit) {
    return take(d, &d->units[!d->open], unit) || take(d, &d->units[d->open], unit);
}
