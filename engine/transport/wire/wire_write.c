/* Messages to bytes: frames and marks, envelopes. Payload is in wire_blocks.c, what items share in wire_shared.c. */
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/transport/wire/elements.h"
#include "engine/transport/wire/wire.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

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
    if (!mr_grow((void **)&writer->name, writer->name_count, &writer->name_room, sizeof *writer->name))
        return no_memory();
    /* protobuf-c only reads through these pointers, though they are not const. */
    memcpy(&writer->name[writer->name_count++], &name, sizeof name);
    return writer->name_count * 2 > writer->slot_count ? more_slots(writer) : MR_OK;
}

/* A name's number in this message. 0 for NULL. */
static int write_name(mr_wire_writer *writer, const char *name, uint32_t *number) {
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

/* Bytes from the first to the last row of a plane. */
static size_t plane_span(const mr_row *row, size_t stride) {
    return row->rows > 0 ? (size_t)(row->rows - 1) * stride + row->bytes : 0;
}

static int plane_count(const mr_frame *frame) {
    if (frame->format.payload == MR_PAYLOAD_PICTURE)
        return mr_pixel_describe(frame->format.pixel)->planes;
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        return frame->plane[1].buffer ? 2 : frame->plane[0].buffer ? 1 : 0;
    return frame->format.payload == MR_PAYLOAD_TENSOR;
}

uint64_t mr_wire_frame_bytes(const mr_frame *frame) {
    const bool picture = frame->format.payload == MR_PAYLOAD_PICTURE;
    uint64_t bytes = picture ? mr_packed_bytes(&frame->format) : 0;
    for (int i = 0; !picture && i < plane_count(frame); i++)
        bytes += frame->plane[i].bytes;
    for (const mr_result *result = frame->results; result; result = result->next)
        bytes += result->kind->fields ? 0 : mr_result_bytes(result);
    return bytes;
}

uint64_t mr_wire_elements_bytes(const mr_frame *frame) {
    uint64_t bytes = 0;
    for (const mr_result *result = frame->results; result; result = result->next)
        bytes += result->kind->fields ? mr_elements_bytes(result) : 0;
    return bytes;
}

/* ---- planes ------------------------------------------------------------------------------------------------------ */

/* Copies rows that do not lie one after the other, the first first, so that they do. */
static int gather_rows(mr_wire_writer *writer, const mr_plane *from, size_t row_bytes, size_t rows, wire_spot *spot) {
    uint8_t *copy;
    int status = mr_wire_gather(writer, row_bytes * rows, &copy, spot);
    for (size_t i = 0; !status && i < rows; i++)
        memcpy(copy + i * row_bytes, from->data + (ptrdiff_t)i * from->stride, row_bytes);
    return status;
}

static int write_picture_plane(mr_wire_writer *writer, const mr_frame *frame, int i, Millrace__V1__Plane *plane,
                               wire_spot *spot) {
    const mr_plane *from = &frame->plane[i];
    mr_row row = {.plane = i};
    mr_next_plane(&frame->format, &row);
    const bool in_order = from->stride >= (ptrdiff_t)row.bytes;
    plane->stride = in_order ? (uint64_t)from->stride : row.bytes;
    plane->bytes = plane_span(&row, plane->stride);
    if (in_order)
        return mr_wire_put(writer, from->buffer, from->data, plane->bytes, 0, spot);
    return gather_rows(writer, from, row.bytes, (size_t)row.rows, spot);
}

/* The bytes from the first plane's start to the last one's end, if all planes are in one buffer in order. They can then
 * be one part instead of one each. */
static int write_picture_at_once(mr_wire_writer *writer, const mr_frame *frame, int planes) {
    const mr_plane *first = &frame->plane[0], *last = &frame->plane[planes - 1];
    wire_spot spot;
    for (int i = 0; i < planes; i++)
        if (frame->plane[i].buffer != first->buffer || frame->plane[i].stride <= 0 ||
            (i && frame->plane[i].data < frame->plane[i - 1].data))
            return MR_OK;
    mr_row row = {.plane = planes - 1};
    mr_next_plane(&frame->format, &row);
    return mr_wire_put(writer, first->buffer, first->data,
                       (size_t)(last->data - first->data) + plane_span(&row, (size_t)last->stride), 0, &spot);
}

static int write_plane(mr_wire_writer *writer, const mr_frame *frame, int i, Millrace__V1__Plane *plane) {
    const mr_plane *from = &frame->plane[i];
    wire_spot spot = {0};
    int status = MR_OK;
    if (from->buffer && from->buffer->memory == MR_MEMORY_DEVICE)
        return mr_fail(MR_ERROR_DATA, "a frame whose payload is in a device's memory cannot be sent");
    if (frame->format.payload == MR_PAYLOAD_PICTURE) {
        status = write_picture_plane(writer, frame, i, plane, &spot);
    } else if (from->buffer) {
        bool packet = frame->format.payload == MR_PAYLOAD_PACKET && i == 0;
        plane->bytes = from->bytes;
        status = mr_wire_put(writer, from->buffer, from->data, from->bytes, packet ? WIRE_PADDING : 0, &spot);
    }
    plane->block = spot.block;
    plane->offset = spot.offset;
    return status;
}

static int write_planes(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    int count = plane_count(frame), status = MR_OK;
    item->planes = WIRE_NEW(&writer->arena, Millrace__V1__Plane *, (size_t)count);
    Millrace__V1__Plane *planes = WIRE_NEW(&writer->arena, Millrace__V1__Plane, (size_t)count);
    if (!item->planes || !planes)
        return no_memory();
    bool large = frame->format.payload == MR_PAYLOAD_PICTURE && mr_wire_frame_bytes(frame) >= 65536;
    if (large)
        status = write_picture_at_once(writer, frame, count);
    for (int i = 0; i < count && !status; i++) {
        millrace__v1__plane__init(&planes[i]);
        item->planes[i] = &planes[i];
        status = write_plane(writer, frame, i, &planes[i]);
    }
    item->n_planes = (size_t)count;
    return status;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int write_packed_name(void *context, const char *name, uint32_t *number) {
    return write_name(context, name, number);
}

static int write_elements(mr_wire_writer *writer, const mr_result *from, Millrace__V1__Result *result) {
    const mr_element_names names = {.write = write_packed_name, .context = writer};
    const size_t bytes = mr_elements_bytes(from);
    uint8_t *to = WIRE_NEW(&writer->arena, uint8_t, bytes);
    if (!to)
        return no_memory();
    result->elements = (ProtobufCBinaryData){.len = bytes, .data = to};
    return mr_elements_write(from, &names, to, &result->count);
}

static int write_array(mr_wire_writer *writer, const mr_result *from, Millrace__V1__Result *result) {
    wire_spot spot;
    if (from->buffer && from->buffer->memory == MR_MEMORY_DEVICE)
        return mr_fail(MR_ERROR_DATA, "a result in a device's memory cannot be sent");
    int status = mr_wire_number_format(writer, &from->format, &result->format);
    if (!status)
        status = mr_wire_put(writer, from->buffer, from->data, mr_tensor_bytes(&from->format), 0, &spot);
    if (status)
        return status;
    result->block = spot.block;
    result->offset = spot.offset;
    return MR_OK;
}

static bool is_same_origin(const void *one, const void *other) {
    const mr_result *a = one, *b = other;
    return a->kind == b->kind && a->stage == b->stage && a->name == b->name;
}

/* The number in this message for a result's origin. */
static int number_origin(mr_wire_writer *writer, const mr_result *from, uint32_t *number) {
    if ((*number = mr_wire_find_shared(&writer->origins, from, is_same_origin)))
        return MR_OK;
    Millrace__V1__Origin *origin = WIRE_NEW(&writer->arena, Millrace__V1__Origin, 1);
    if (!origin)
        return no_memory();
    millrace__v1__origin__init(origin);
    origin->kind = mr_kinds_id(&writer->kinds, from->kind);
    if (!origin->kind)
        return mr_fail(MR_ERROR_DATA, "%s adds results of the kind \"%.64s\", which its stage type does not list in "
                       "`kinds`", from->stage, from->kind->name);
    int status = write_name(writer, from->stage, &origin->stage);
    if (!status)
        status = write_name(writer, from->name, &origin->name);
    return status ? status : mr_wire_add_shared(&writer->origins, from, origin, number);
}

static int write_result(mr_wire_writer *writer, const mr_result *from, Millrace__V1__Result *result) {
    int status = number_origin(writer, from, &result->origin);
    if (status)
        return status;
    result->cut = from->cut;
    return from->kind->fields ? write_elements(writer, from, result) : write_array(writer, from, result);
}

static int write_results(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    size_t count = 0;
    for (const mr_result *from = frame->results; from; from = from->next)
        count++;
    item->results = WIRE_NEW(&writer->arena, Millrace__V1__Result *, count);
    Millrace__V1__Result *results = WIRE_NEW(&writer->arena, Millrace__V1__Result, count);
    if (!item->results || !results)
        return no_memory();
    for (const mr_result *from = frame->results; from; from = from->next) {
        Millrace__V1__Result *result = results++;
        millrace__v1__result__init(result);
        item->results[item->n_results++] = result;
        int status = write_result(writer, from, result);
        if (status)
            return status;
    }
    return MR_OK;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static int write_frame(mr_wire_writer *writer, const mr_frame *frame, Millrace__V1__Item *item) {
    int status = mr_wire_number_format(writer, &frame->format, &item->format);
    if (!status)
        status = mr_wire_number_geometry(writer, &frame->geometry, &item->geometry);
    if (status)
        return status;
    item->pts_ns = frame->pts_ns;
    item->dts_ns = frame->dts_ns;
    item->duration_ns = frame->duration_ns;
    item->age_ns = writer->now_ns - frame->born_ns;
    item->captured_ns = frame->captured_ns;
    const mr_frame_names names = mr_frame_given_names(frame);
    item->id = mr_wire_text(names.id);
    item->file = mr_wire_text(names.file);
    item->label = mr_wire_text(names.label);
    int64_t remaining_ns = frame->deadline_ns - writer->now_ns;
    if (frame->deadline_ns)
        item->remaining_ns = remaining_ns ? remaining_ns : -1; /* 0 stands for none */
    item->flags = frame->flags;
    status = mr_wire_write_media(writer, frame->media, &item->media);
    if (!status)
        status = write_planes(writer, frame, item);
    return status ? status : write_results(writer, frame, item);
}

static int write_item(mr_wire_writer *writer, const mr_cut_item *from, Millrace__V1__Item *item) {
    millrace__v1__item__init(item);
    item->kind = (Millrace__V1__Item__Kind)from->kind;
    item->position = from->position;
    item->source = from->identity.source;
    item->epoch = from->identity.epoch;
    item->seq = from->identity.seq;
    item->sub = from->identity.sub;
    item->trace_high = from->context.trace[0];
    item->trace_low = from->context.trace[1];
    item->span = from->context.span;
    if (from->kind == MR_CUT_FRAME)
        return write_frame(writer, from->frame, item);
    int status = from->kind == MR_CUT_FORMAT ? mr_wire_number_format(writer, from->format, &item->format) : MR_OK;
    return status ? status : write_name(writer, from->reason, &item->reason);
}

static int write_items(mr_wire_writer *writer, const mr_cut_message *message, Millrace__V1__Items *items) {
    size_t count = message->items.count;
    items->items = WIRE_NEW(&writer->arena, Millrace__V1__Item *, count);
    Millrace__V1__Item *item = WIRE_NEW(&writer->arena, Millrace__V1__Item, count);
    writer->packed = WIRE_NEW(&writer->arena, ProtobufCBinaryData, count);
    writer->used_media = WIRE_NEW(&writer->arena, const mr_media *, count);
    if (!items->items || !item || !writer->packed || !writer->used_media)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        int status = write_item(writer, &message->items.item[i], &item[i]);
        if (status)
            return status;
        items->items[i] = &item[i];
    }
    items->n_items = count;
    items->made_by = message->items.made_by;
    items->names = writer->name;
    items->n_names = writer->name_count;
    items->formats = (Millrace__V1__Format **)(void *)writer->formats.written;
    items->n_formats = writer->formats.count;
    items->geometries = (Millrace__V1__Geometry **)(void *)writer->geometries.written;
    items->n_geometries = writer->geometries.count;
    items->origins = (Millrace__V1__Origin **)(void *)writer->origins.written;
    items->n_origins = writer->origins.count;
    items->media = writer->packed;
    items->n_media = writer->used_media_count;
    return MR_OK;
}

int mr_wire_writer_create(mr_wire_writer **writer, const mr_wire_writer_params *params) {
    mr_wire_writer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return no_memory();
    made->params = *params;
    if (!made->params.most_envelope_bytes)
        made->params.most_envelope_bytes = MR_WIRE_MOST_ENVELOPE;
    made->kinds = params->kinds ? *params->kinds : mr_kinds_built_in();
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
    mr_wire_forget_media(gone);
    mr_wire_forget_gathered(gone);
    mr_wire_arena_fini(&gone->arena);
    ZSTD_freeCCtx(gone->zstd);
    mr_free(gone->envelope);
    mr_free(gone->slot);
    mr_free(gone->name);
    mr_free(gone->formats.of);
    mr_free(gone->formats.written);
    mr_free(gone->geometries.of);
    mr_free(gone->geometries.written);
    mr_free(gone->origins.of);
    mr_free(gone->origins.written);
    mr_free(gone);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

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
        if (write_name(writer, from->stage, &settled[i].stage) ||
            write_name(writer, from->reason, &settled[i].reason))
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

/* Packs an envelope and appends its checksum. */
static int seal(mr_wire_writer *writer, const Millrace__V1__Envelope *envelope) {
    size_t bytes = millrace__v1__envelope__get_packed_size(envelope);
    if (bytes + WIRE_TAIL > writer->params.most_envelope_bytes)
        return mr_fail(MR_ERROR_DATA, "a message whose envelope has %zu bytes: at most %zu are allowed; let the stages "
                       "before the cut find fewer objects, or leave out their masks", bytes + WIRE_TAIL,
                       writer->params.most_envelope_bytes);
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
        hello->name = mr_wire_text(message->hello.name);
        hello->incarnation = message->hello.incarnation;
        hello->attempt = message->hello.attempt;
        memcpy(digest, message->hello.digest, MR_DIGEST_BYTES);
        hello->digest = (ProtobufCBinaryData){.len = MR_DIGEST_BYTES, .data = digest};
        hello->cut = mr_wire_text(message->hello.cut);
        hello->formats = mr_wire_text(message->hello.formats);
        hello->memory = mr_wire_text(message->hello.memory);
        hello->refused = message->hello.refused;
        hello->kinds = (uint32_t *)(uintptr_t)message->hello.kinds; /* protobuf-c only reads it */
        hello->n_kinds = message->hello.kind_count;
    } else {
        welcome->version = message->welcome.version;
        welcome->attempt = message->welcome.attempt;
        welcome->incarnation = message->welcome.incarnation;
        welcome->run = message->welcome.run;
        welcome->beat_ns = (uint64_t)message->welcome.beat_ns;
        welcome->live = message->welcome.live;
        welcome->run_state = (Millrace__V1__RunState)message->welcome.run_state;
        welcome->memory = mr_wire_text(message->welcome.memory);
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
        reject.text = mr_wire_text(message->reject.text);
        break;
    case MR_MESSAGE_ITEMS:
        envelope.body_case = MILLRACE__V1__ENVELOPE__BODY_ITEMS;
        envelope.items = &items;
        status = write_items(writer, message, &items);
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
        bye.text = mr_wire_text(message->bye.text);
        break;
    }
    if (!status && envelope.body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS)
        status = mr_wire_finish_blocks(writer, &items, parts);
    return status ? status : seal(writer, &envelope);
}

int mr_wire_write(mr_wire_writer *writer, const mr_cut_message *message, int64_t now_ns, const mr_wire_part **parts,
                  size_t *count) {
    size_t part_count = 1;
    mr_wire_arena_reset(&writer->arena, SIZE_MAX / 2);
    writer->now_ns = now_ns;
    writer->message++;
    writer->name_count = writer->formats.count = writer->geometries.count = writer->origins.count = 0;
    writer->gathered_bytes = writer->used_media_count = 0;
    writer->block_count = writer->gathered_block = 0;
    int status = write_body(writer, message, &part_count);
    if (status)
        return status;
    *parts = writer->part;
    *count = part_count;
    return MR_OK;
}
