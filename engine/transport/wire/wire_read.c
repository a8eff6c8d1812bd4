/* Bytes to messages: envelopes, and all messages but items. */
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

enum { MOST_ENVELOPE_BYTES = 4 << 20, MOST_PAYLOAD_BYTES = 256 << 20, MOST_ITEMS = 65536 };
enum { MOST_MEDIA = 256, MOST_MEDIA_BYTES = 16 << 20 };
/* Memory for what is read from so many bytes: a struct is larger than its shortest form on the wire, but not more
 * often than this in what anybody would write. */
enum { MEMORY_BASE = 65536, MEMORY_PER_BYTE = 64, MEMORY_MOST = 64 << 20 };

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

int mr_wire_reader_create(mr_wire_reader **reader, const mr_wire_reader_params *params) {
    mr_wire_reader *made = mr_calloc(1, sizeof *made);
    if (!made)
        return no_memory();
    made->params = *params;
    if (!made->params.most_envelope_bytes)
        made->params.most_envelope_bytes = MOST_ENVELOPE_BYTES;
    if (!made->params.most_bytes)
        made->params.most_bytes = MOST_PAYLOAD_BYTES;
    if (!made->params.most_media_bytes)
        made->params.most_media_bytes = MOST_MEDIA_BYTES;
    if (!made->params.most_items)
        made->params.most_items = MOST_ITEMS;
    made->known_count = params->most_media ? params->most_media : MOST_MEDIA;
    made->known = mr_calloc(made->known_count, sizeof *made->known);
    made->zstd = ZSTD_createDCtx();
    if (!made->known || !made->zstd) {
        mr_wire_reader_destroy(&made);
        return no_memory();
    }
    *reader = made;
    return MR_OK;
}

void mr_wire_reader_destroy(mr_wire_reader **reader) {
    mr_wire_reader *gone = *reader;
    *reader = NULL;
    if (!gone)
        return;
    for (size_t i = 0; gone->known && i < gone->known_count; i++) {
        mr_media_unref(&gone->known[i].media);
        mr_free(gone->known[i].data);
    }
    wire_arena_fini(&gone->arena);
    ZSTD_freeDCtx(gone->zstd);
    mr_free(gone->known);
    mr_free(gone);
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

int wire_read_names(mr_wire_reader *reader, char *const *names, size_t count) {
    reader->name = WIRE_NEW(&reader->arena, const char *, count);
    reader->name_count = count;
    if (!reader->name)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        int status = mr_names_keep(reader->params.names, reader->share, names[i], strlen(names[i]), &reader->name[i]);
        if (status)
            return status;
    }
    return MR_OK;
}

int wire_read_name(const mr_wire_reader *reader, uint32_t number, const char **name) {
    if (number > reader->name_count)
        return mr_fail(MR_ERROR_PROTOCOL, "a message names its name %u of %zu", number, reader->name_count);
    *name = number ? reader->name[number - 1] : NULL;
    return MR_OK;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static int read_hello(const Millrace__V1__Hello *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_HELLO;
    if (from->digest.len != MR_DIGEST_BYTES)
        return mr_fail(MR_ERROR_PROTOCOL, "a digest of %zu bytes instead of %d", from->digest.len, MR_DIGEST_BYTES);
    message->hello.oldest_version = from->oldest_version;
    message->hello.newest_version = from->newest_version;
    message->hello.name = from->name;
    message->hello.incarnation = from->incarnation;
    message->hello.attempt = from->attempt;
    memcpy(message->hello.digest, from->digest.data, MR_DIGEST_BYTES);
    message->hello.cut = from->cut;
    message->hello.formats = from->formats;
    message->hello.memory = from->memory;
    return MR_OK;
}

/* What this version does not know is not known. */
static mr_run_state read_run_state(Millrace__V1__RunState state) {
    return state == MILLRACE__V1__RUN_STATE__RUN_BEGINS     ? MR_RUN_BEGINS
           : state == MILLRACE__V1__RUN_STATE__RUN_GOES_ON ? MR_RUN_GOES_ON
                                                            : MR_RUN_UNKNOWN;
}

static int read_welcome(const Millrace__V1__Welcome *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_WELCOME;
    if (from->beat_ns > INT64_MAX)
        return mr_fail(MR_ERROR_PROTOCOL, "a welcome whose beat_ns is too large");
    message->welcome.version = from->version;
    message->welcome.attempt = from->attempt;
    message->welcome.incarnation = from->incarnation;
    message->welcome.run = from->run;
    message->welcome.beat_ns = (int64_t)from->beat_ns;
    message->welcome.live = from->live;
    message->welcome.run_state = read_run_state(from->run_state);
    message->welcome.memory = from->memory;
    return MR_OK;
}

static int read_reject(const Millrace__V1__Reject *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_REJECT;
    bool known = (unsigned)from->reason < MR_REJECT_COUNT;
    message->reject.reason = known ? (mr_reject_reason)from->reason : MR_REJECT_UNKNOWN;
    message->reject.attempt = from->attempt;
    message->reject.text = from->text;
    return MR_OK;
}

static int read_settled(const mr_wire_reader *reader, const Millrace__V1__Settled *from, mr_settled *settled) {
    static const mr_note outcome[] = {
        [MILLRACE__V1__SETTLED__OUTCOME__HELD] = MR_NOTE_NONE,
        [MILLRACE__V1__SETTLED__OUTCOME__ABSORBED] = MR_NOTE_ABSORBED,
        [MILLRACE__V1__SETTLED__OUTCOME__DELIVERED] = MR_NOTE_DELIVERED,
        [MILLRACE__V1__SETTLED__OUTCOME__DROPPED] = MR_NOTE_DROPPED};
    if ((unsigned)from->outcome >= sizeof outcome / sizeof *outcome)
        return mr_fail(MR_ERROR_PROTOCOL, "an outcome %d that there is not", (int)from->outcome);
    *settled = (mr_settled){.first = from->first, .count = from->count, .outcome = outcome[from->outcome]};
    int status = wire_read_name(reader, from->stage, &settled->stage);
    return status ? status : wire_read_name(reader, from->reason, &settled->reason);
}

static int read_report(mr_wire_reader *reader, const Millrace__V1__Report *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_REPORT;
    mr_settled *settled = WIRE_NEW(&reader->arena, mr_settled, from->n_settled);
    int status = settled ? wire_read_names(reader, from->names, from->n_names) : no_memory();
    for (size_t i = 0; !status && i < from->n_settled; i++)
        status = read_settled(reader, from->settled[i], &settled[i]);
    message->report.granted_frames = from->granted_frames;
    message->report.granted_bytes = from->granted_bytes;
    message->report.progress = from->progress;
    message->report.settled = settled;
    message->report.settled_count = from->n_settled;
    message->report.ended = from->ended;
    message->report.ended_count = from->n_ended;
    message->report.withdrawn = from->withdrawn;
    return status;
}

static int read_body(mr_wire_reader *reader, const Millrace__V1__Envelope *envelope, const mr_wire_part *parts,
                     size_t count, mr_cut_message *message) {
    bool items = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS;
    if (!items && count != 1)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu parts that has no payload", count);
    switch (envelope->body_case) {
    case MILLRACE__V1__ENVELOPE__BODY_HELLO:
        return read_hello(envelope->hello, message);
    case MILLRACE__V1__ENVELOPE__BODY_WELCOME:
        return read_welcome(envelope->welcome, message);
    case MILLRACE__V1__ENVELOPE__BODY_REJECT:
        return read_reject(envelope->reject, message);
    case MILLRACE__V1__ENVELOPE__BODY_ITEMS:
        message->kind = MR_MESSAGE_ITEMS;
        return wire_read_items(reader, envelope->items, parts + 1, count - 1, message);
    case MILLRACE__V1__ENVELOPE__BODY_REPORT:
        return read_report(reader, envelope->report, message);
    case MILLRACE__V1__ENVELOPE__BODY_BEAT:
        message->kind = MR_MESSAGE_BEAT;
        message->beat.progress = envelope->beat->progress;
        message->beat.run_state = read_run_state(envelope->beat->run_state);
        return MR_OK;
    case MILLRACE__V1__ENVELOPE__BODY_BYE:
        message->kind = MR_MESSAGE_BYE;
        message->bye.text = envelope->bye->text;
        return MR_OK;
    default:
        return mr_fail(MR_ERROR_PROTOCOL, "a message without a body that is known here");
    }
}

/* Handshakes come in any version, so that it can be agreed upon. */
static int check_version(const Millrace__V1__Envelope *envelope) {
    bool handshake = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_HELLO ||
                     envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_REJECT;
    if (handshake || (envelope->version >= MR_PROTOCOL_OLDEST && envelope->version <= MR_PROTOCOL_NEWEST))
        return MR_OK;
    return mr_fail(MR_ERROR_PROTOCOL, "a message in version %u; %d to %d are read here", envelope->version,
                   MR_PROTOCOL_OLDEST, MR_PROTOCOL_NEWEST);
}

/* Words of a stranger would stay for as long as the run does: of a message of no session only its kind is read. */
static bool is_admitted(mr_wire_reader *reader, const Millrace__V1__Envelope *envelope, mr_cut_message *message) {
    bool items = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS;
    reader->share = NULL;
    if (!reader->params.whose || (!items && envelope->body_case != MILLRACE__V1__ENVELOPE__BODY_REPORT))
        return true;
    message->kind = items ? MR_MESSAGE_ITEMS : MR_MESSAGE_REPORT;
    reader->share = reader->params.whose(reader->params.whose_context, envelope->session);
    return reader->share != NULL;
}

/* Checks length and checksum before anything is parsed. */
static int check_envelope(const mr_wire_reader *reader, const mr_wire_part *parts, size_t count) {
    const mr_wire_part *envelope = parts;
    if (!count || count > MR_WIRE_BLOCKS + 1)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu parts; it has 1 to %d", count, MR_WIRE_BLOCKS + 1);
    if (envelope->bytes < WIRE_TAIL || envelope->bytes > reader->params.most_envelope_bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope of %zu bytes; it has %d to %zu", envelope->bytes, WIRE_TAIL,
                       reader->params.most_envelope_bytes);
    const uint8_t *tail = envelope->data + envelope->bytes - WIRE_TAIL;
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum |= (uint64_t)tail[1 + i] << 8 * i;
    if (tail[0] != WIRE_TAG || sum != XXH3_64bits(envelope->data, envelope->bytes - WIRE_TAIL))
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope whose checksum is wrong");
    return MR_OK;
}

int mr_wire_read(mr_wire_reader *reader, const mr_wire_part *parts, size_t count, int64_t now_ns,
                 mr_cut_message *message) {
    int status = check_envelope(reader, parts, count);
    if (status)
        return status;
    size_t bytes = parts->bytes - WIRE_TAIL;
    size_t memory = MEMORY_PER_BYTE * bytes;
    wire_arena_reset(&reader->arena, MEMORY_BASE + (memory < MEMORY_MOST ? memory : MEMORY_MOST));
    ProtobufCAllocator allocator = wire_allocator(&reader->arena);
    reader->now_ns = now_ns;
    Millrace__V1__Envelope *envelope = millrace__v1__envelope__unpack(&allocator, bytes, parts->data);
    if (!envelope)
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope that is not built as the schema says, or takes too much memory");
    status = check_version(envelope);
    if (status)
        return status;
    mr_cut_message read = {.version = envelope->version, .session = envelope->session, .number = envelope->number};
    if (is_admitted(reader, envelope, &read))
        status = read_body(reader, envelope, parts, count, &read);
    if (!status)
        *message = read;
    return status;
}
