/* Messages to bytes: envelopes, and all messages but items. */
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

int mr_wire_writer_create(mr_wire_writer **writer, const mr_wire_writer_params *params) {
    mr_wire_writer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return no_memory();
    made->params = *params;
    made->slot_count = 256;
    made->slot = mr_calloc(made->slot_count, sizeof *made->slot);
    if (params->compression == MR_COMPRESSION_ZSTD)
        made->zstd = ZSTD_createCCtx();
    if (!made->slot || (params->compression == MR_COMPRESSION_ZSTD && !made->zstd)) {
        mr_wire_writer_destroy(&made);
        return no_memory();
    }
    *writer = made;
    return MR_OK;
}

void mr_wire_writer_destroy(mr_wire_writer **writer) {
    mr_wire_writer *gone = *writer;
    *writer = NULL;
    if (!gone)
        return;
    wire_forget_media(gone);
    wire_forget_gathered(gone);
    wire_arena_fini(&gone->arena);
    ZSTD_freeCCtx(gone->zstd);
    mr_free(gone->envelope);
    mr_free(gone->slot);
    mr_free(gone->name);
    mr_free(gone->format_of);
    mr_free(gone->format);
    mr_free(gone);
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static name_slot *slot_of(mr_wire_writer *writer, const char *name) {
    size_t at = ((uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (writer->slot_count - 1);
    while (writer->slot[at].message == writer->message && writer->slot[at].name != name)
        at = (at + 1) & (writer->slot_count - 1);
    return &writer->slot[at];
}

static int more_slots(mr_wire_writer *writer) {
    size_t count = writer->slot_count * 2;
    name_slot *slot = mr_calloc(count, sizeof *slot);
    if (!slot)
        return no_memory();
    mr_free(writer->slot);
    writer->slot = slot;
    writer->slot_count = count;
    for (size_t i = 0; i < writer->name_count; i++)
        *slot_of(writer, writer->name[i]) =
            (name_slot){.name = writer->name[i], .number = (uint32_t)i + 1, .message = writer->message};
    return MR_OK;
}

static int add_name(mr_wire_writer *writer, const char *name) {
    if (writer->name_count == writer->name_room) {
        size_t room = writer->name_room ? writer->name_room * 2 : 64;
        char **more = mr_realloc(writer->name, room * sizeof *more);
        if (!more)
            return no_memory();
        writer->name = more;
        writer->name_room = room;
    }
    /* protobuf-c only reads what its structs point to, though not through const pointers. */
    memcpy(&writer->name[writer->name_count++], &name, sizeof name);
    return writer->name_count * 2 > writer->slot_count ? more_slots(writer) : MR_OK;
}

int wire_write_name(mr_wire_writer *writer, const char *name, uint32_t *number) {
    *number = 0;
    if (!name)
        return MR_OK;
    name_slot *slot = slot_of(writer, name);
    if (slot->message != writer->message) {
        *slot = (name_slot){.name = name, .number = (uint32_t)writer->name_count + 1, .message = writer->message};
        *number = slot->number;
        return add_name(writer, name);
    }
    *number = slot->number;
    return MR_OK;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* A string that protobuf-c will only read. */
static char *text(const char *from) {
    char *same;
    memcpy(&same, &from, sizeof same);
    return same;
}

static int write_settled(mr_wire_writer *writer, const mr_cut_message *message, Millrace__V1__Report *report) {
    static const Millrace__V1__Settled__Outcome outcome[] = {
        [MR_NOTE_NONE] = MILLRACE__V1__SETTLED__OUTCOME__HELD,
        [MR_NOTE_ABSORBED] = MILLRACE__V1__SETTLED__OUTCOME__ABSORBED,
        [MR_NOTE_DELIVERED] = MILLRACE__V1__SETTLED__OUTCOME__DELIVERED,
        [MR_NOTE_DROPPED] = MILLRACE__V1__SETTLED__OUTCOME__DROPPED};
    size_t count = message->report.settled_count;
    report->settled = WIRE_NEW(&writer->arena, Millrace__V1__Settled *, count);
    Millrace__V1__Settled *settled = WIRE_NEW(&writer->arena, Millrace__V1__Settled, count);
    if (!report->settled || !settled)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        const mr_settled *from = &message->report.settled[i];
        millrace__v1__settled__init(&settled[i]);
        settled[i].first = from->first;
        settled[i].count = from->count;
        settled[i].outcome = outcome[from->outcome];
        if (wire_write_name(writer, from->stage, &settled[i].stage) ||
            wire_write_name(writer, from->reason, &settled[i].reason))
            return MR_ERROR_MEMORY;
        report->settled[i] = &settled[i];
    }
    report->n_settled = count;
    return MR_OK;
}

static int write_report(mr_wire_writer *writer, const mr_cut_message *message, Millrace__V1__Report *report) {
    report->granted_frames = message->report.granted_frames;
    report->granted_bytes = message->report.granted_bytes;
    report->progress = message->report.progress;
    report->withdrawn = message->report.withdrawn;
    report->n_ended = message->report.ended_count;
    report->ended = WIRE_NEW(&writer->arena, uint32_t, message->report.ended_count);
    if (!report->ended)
        return no_memory();
    for (size_t i = 0; i < message->report.ended_count; i++)
        report->ended[i] = message->report.ended[i];
    int status = write_settled(writer, message, report);
    report->names = writer->name;
    report->n_names = writer->name_count;
    return status;
}

/* Packs an envelope and puts its checksum behind it. */
static int seal(mr_wire_writer *writer, const Millrace__V1__Envelope *envelope) {
    size_t bytes = millrace__v1__envelope__get_packed_size(envelope);
    if (bytes + WIRE_TAIL > writer->envelope_room) {
        uint8_t *more = mr_realloc(writer->envelope, 2 * (bytes + WIRE_TAIL));
        if (!more)
            return no_memory();
        writer->envelope = more;
        writer->envelope_room = 2 * (bytes + WIRE_TAIL);
    }
    millrace__v1__envelope__pack(envelope, writer->envelope);
    uint64_t sum = XXH3_64bits(writer->envelope, bytes);
    uint8_t *tail = writer->envelope + bytes;
    tail[0] = WIRE_TAG;
    for (int i = 0; i < 8; i++)
        tail[1 + i] = (uint8_t)(sum >> 8 * i);
    writer->part[0] = (mr_wire_part){.data = writer->envelope, .bytes = bytes + WIRE_TAIL};
    return MR_OK;
}

/* Fills in the body of a message that refers to nothing but the message itself. */
static void write_handshake(const mr_cut_message *message, Millrace__V1__Hello *hello, Millrace__V1__Welcome *welcome,
                            uint8_t digest[MR_DIGEST_BYTES]) {
    if (message->kind == MR_MESSAGE_HELLO) {
        hello->oldest_version = message->hello.oldest_version;
        hello->newest_version = message->hello.newest_version;
        hello->name = text(message->hello.name);
        hello->incarnation = message->hello.incarnation;
        hello->attempt = message->hello.attempt;
        memcpy(digest, message->hello.digest, MR_DIGEST_BYTES);
        hello->digest = (ProtobufCBinaryData){.len = MR_DIGEST_BYTES, .data = digest};
        hello->cut = text(message->hello.cut);
        hello->formats = text(message->hello.formats);
        hello->memory = text(message->hello.memory);
    } else {
        welcome->version = message->welcome.version;
        welcome->attempt = message->welcome.attempt;
        welcome->incarnation = message->welcome.incarnation;
        welcome->run = message->welcome.run;
        welcome->beat_ns = (uint64_t)message->welcome.beat_ns;
        welcome->live = message->welcome.live;
        welcome->run_state = (Millrace__V1__RunState)message->welcome.run_state;
        welcome->memory = text(message->welcome.memory);
    }
}

static int write_body(mr_wire_writer *writer, const mr_cut_message *message, size_t *parts) {
    Millrace__V1__Envelope envelope = MILLRACE__V1__ENVELOPE__INIT;
    Millrace__V1__Hello hello = MILLRACE__V1__HELLO__INIT;
    Millrace__V1__Welcome welcome = MILLRACE__V1__WELCOME__INIT;
    Millrace__V1__Reject reject = MILLRACE__V1__REJECT__INIT;
    Millrace__V1__Items items = MILLRACE__V1__ITEMS__INIT;
    Millrace__V1__Report report = MILLRACE__V1__REPORT__INIT;
    Millrace__V1__Beat beat = MILLRACE__V1__BEAT__INIT;
    Millrace__V1__Bye bye = MILLRACE__V1__BYE__INIT;
    uint8_t digest[MR_DIGEST_BYTES];
    int status = MR_OK;
    envelope.version = message->version;
    envelope.session = message->session;
    envelope.number = message->number;
    switch (message->kind) {
    case MR_MESSAGE_HELLO:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_HELLO;
        envelope.hello = &hello;
        write_handshake(message, &hello, NULL, digest);
        break;
    case MR_MESSAGE_WELCOME:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_WELCOME;
        envelope.welcome = &welcome;
        write_handshake(message, NULL, &welcome, digest);
        break;
    case MR_MESSAGE_REJECT:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_REJECT;
        envelope.reject = &reject;
        reject.reason = (Millrace__V1__Reject__Reason)message->reject.reason;
        reject.attempt = message->reject.attempt;
        reject.text = text(message->reject.text);
        break;
    case MR_MESSAGE_ITEMS:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_ITEMS;
        envelope.items = &items;
        status = wire_write_items(writer, message, &items);
        break;
    case MR_MESSAGE_REPORT:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_REPORT;
        envelope.report = &report;
        status = write_report(writer, message, &report);
        break;
    case MR_MESSAGE_BEAT:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_BEAT;
        envelope.beat = &beat;
        beat.progress = message->beat.progress;
        beat.run_state = (Millrace__V1__RunState)message->beat.run_state;
        break;
    case MR_MESSAGE_BYE:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_BYE;
        envelope.bye = &bye;
        bye.text = text(message->bye.text);
        break;
    }
    if (!status && envelope.body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS)
        status = wire_finish_blocks(writer, &items, parts);
    return status ? status : seal(writer, &envelope);
}

int mr_wire_write(mr_wire_writer *writer, const mr_cut_message *message, int64_t now_ns, const mr_wire_part **parts,
                  size_t *count) {
    size_t part_count = 1;
    wire_arena_reset(&writer->arena, SIZE_MAX / 2);
    writer->now_ns = now_ns;
    writer->message++;
    writer->name_count = writer->format_count = writer->gathered_bytes = writer->used_media_count = 0;
    writer->block_count = writer->gathered_block = 0;
    int status = write_body(writer, message, &part_count);
    if (status)
        return status;
    *parts = writer->part;
    *count = part_count;
    return MR_OK;
}
