#include "stages/zmq/zmq_message.h"

#include <libavcodec/avcodec.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "proto/results.pb-c.h"
#include "stages/sink/output.h"

typedef Millrace__Results__Record record;
typedef Millrace__Results__Class class;
typedef Millrace__Results__Classes classes;
typedef Millrace__Results__Tensor tensor;

/* Parts of the message in the making, in blocks that are kept for the next one. */
typedef struct block {
    struct block *next;
    size_t bytes, used;
    max_align_t data[];
} block;

struct mr_zmq_message {
    bool features, tensors;
    block *blocks; /* the first is the one that is being filled */
    bool failed;   /* no memory */
    uint8_t *packed;
    size_t room;
};

enum { BLOCK_BYTES = 16384 };

int mr_zmq_message_create(mr_zmq_message **message, bool features, bool tensors) {
    mr_zmq_message *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for messages");
    made->features = features;
    made->tensors = tensors;
    *message = made;
    return MR_OK;
}

void mr_zmq_message_destroy(mr_zmq_message **message) {
    mr_zmq_message *gone = *message;
    if (!gone)
        return;
    for (block *one = gone->blocks; one;) {
        block *next = one->next;
        mr_free(one);
        one = next;
    }
    mr_free(gone->packed);
    mr_free(gone);
    *message = NULL;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void forget(mr_zmq_message *at) {
    for (block *one = at->blocks; one; one = one->next)
        one->used = 0;
    at->failed = false;
}

/* Zeroed. */
static void *take(mr_zmq_message *at, size_t bytes) {
    size_t padded = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    block *one = at->blocks;
    while (one && one->bytes - one->used < padded)
        one = one->next;
    if (!one) {
        size_t room = padded > BLOCK_BYTES ? padded : BLOCK_BYTES;
        one = mr_alloc(sizeof *one + room);
        if (!one) {
            at->failed = true;
            return NULL;
        }
        *one = (block){.next = at->blocks, .bytes = room};
        at->blocks = one;
    }
    void *taken = (char *)one->data + one->used;
    one->used += padded;
    return memset(taken, 0, bytes);
}

/* An array of `count` pointers to elements of `bytes` bytes; they stand one behind the other. */
static void **take_list(mr_zmq_message *at, size_t count, size_t bytes) {
    void **list = take(at, count * sizeof *list);
    char *elements = take(at, count * bytes);
    for (size_t i = 0; list && elements && i < count; i++)
        list[i] = elements + i * bytes;
    return elements ? list : NULL;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* Texts of protobuf are UTF-8; names of files need not be. The field is not const, but only read. */
static char *text_of(mr_zmq_message *at, const char *text) {
    const size_t length = text ? strlen(text) : 0;
    if (!length || mr_utf8_fit(text, length) == length)
        return (char *)(uintptr_t)(text ? text : "");
    char *mended = take(at, length + 1);
    if (!mended)
        return (char *)(uintptr_t)"";
    memcpy(mended, text, length);
    mr_utf8_mend(mended);
    return mended;
}

/* ---- the record ------------------------------------------------------------------------------------------------ */

static class **put_classes(mr_zmq_message *at, const mr_result *from, size_t *count) {
    *count = 0;
    class **list = (class **)take_list(at, from->count, sizeof(class));
    for (size_t i = 0; list && i < from->count; i++) {
        millrace__results__class__init(list[i]);
        list[i]->index = from->classes[i].index;
        list[i]->label = text_of(at, from->classes[i].label);
        list[i]->score = from->classes[i].score;
    }
    *count = list ? from->count : 0;
    return list;
}

/* The newest of each stage, if several stages gave classes. */
static void put_stages(mr_zmq_message *at, const mr_frame *frame, record *to) {
    size_t most = 0;
    for (const mr_result *one = frame->results; one; one = one->next)
        most += one->kind == mr_kind_classes();
    if (most < 2)
        return;
    to->classes_by_stage = (classes **)take_list(at, most, sizeof(classes));
    for (const mr_result *one = frame->results; to->classes_by_stage && one; one = one->next) {
        if (one->kind != mr_kind_classes() || mr_frame_result(frame, mr_kind_classes(), one->stage) != one)
            continue;
        classes *entry = to->classes_by_stage[to->n_classes_by_stage++];
        millrace__results__classes__init(entry);
        entry->stage = text_of(at, one->stage);
        entry->classes = put_classes(at, one, &entry->n_classes);
    }
}

static void fill_tensor(mr_zmq_message *at, tensor *to, const mr_format *format, const uint8_t *data) {
    millrace__results__tensor__init(to);
    to->dtype = (char *)(uintptr_t)mr_dtype_name(format->dtype);
    to->shape = take(at, sizeof *to->shape * MR_MAX_RANK);
    for (int32_t i = 0; to->shape && i < format->rank; i++)
        to->shape[to->n_shape++] = format->dims[i];
    to->data.data = (uint8_t *)(uintptr_t)data;
    to->data.len = mr_tensor_bytes(format);
}

static void put_tensors(mr_zmq_message *at, const mr_frame *frame, record *to) {
    size_t count = 0;
    for (const mr_result *one = frame->results; one; one = one->next)
        count += one->kind == mr_kind_tensor();
    to->tensors = count ? (tensor **)take_list(at, count, sizeof(tensor)) : NULL;
    for (const mr_result *one = frame->results; to->tensors && one; one = one->next) {
        if (one->kind != mr_kind_tensor())
            continue;
        tensor *entry = to->tensors[to->n_tensors++];
        fill_tensor(at, entry, &one->format, one->data);
        entry->stage = text_of(at, one->stage);
        entry->name = text_of(at, one->name);
    }
}

static void put_frame(mr_zmq_message *at, const mr_frame *frame, record *to) {
    const mr_result *newest = mr_frame_result(frame, mr_kind_classes(), NULL);
    to->epoch = frame->identity.epoch;
    to->seq = frame->identity.seq;
    to->sub = frame->identity.sub;
    if (frame->pts_ns != MR_NO_TIME) {
        to->time_case = MILLRACE__RESULTS__RECORD__TIME_PTS_NS;
        to->pts_ns = frame->pts_ns;
    }
    to->captured_ns = frame->captured_ns;
    to->id = text_of(at, mr_frame_id(frame));
    to->damaged = mr_frame_is_damaged(frame);
    to->away = frame->flags & MR_FRAME_AWAY;
    to->file = text_of(at, mr_frame_file(frame));
    to->label = text_of(at, mr_frame_label(frame));
    if (newest)
        to->classes = put_classes(at, newest, &to->n_classes);
    put_stages(at, frame, to);
    if (at->features && frame->format.payload == MR_PAYLOAD_TENSOR && (to->features = take(at, sizeof(tensor))))
        fill_tensor(at, to->features, &frame->format, frame->plane[0].data);
    if (at->tensors)
        put_tensors(at, frame, to);
}

static int pack(mr_zmq_message *at, const record *from, const uint8_t **data, size_t *bytes) {
    size_t needed = millrace__results__record__get_packed_size(from);
    if (needed > at->room) {
        uint8_t *wider = mr_realloc(at->packed, needed + needed / 2);
        at->failed |= !wider;
        at->packed = wider ? wider : at->packed;
        at->room = wider ? needed + needed / 2 : at->room;
    }
    if (at->failed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    *bytes = millrace__results__record__pack(from, at->packed);
    *data = at->packed;
    return MR_OK;
}

int mr_zmq_message_make(mr_zmq_message *message, const mr_stage *self, const mr_frame *frame, const char *format,
                        const uint8_t **data, size_t *bytes) {
    record made = MILLRACE__RESULTS__RECORD__INIT;
    forget(message);
    made.source = text_of(message, mr_stage_source_id(self, frame->identity.source));
    made.format = text_of(message, format);
    put_frame(message, frame, &made);
    return pack(message, &made, data, bytes);
}

int mr_zmq_message_make_end(mr_zmq_message *message, const char *source, const uint8_t **data, size_t *bytes) {
    record made = MILLRACE__RESULTS__RECORD__INIT;
    forget(message);
    made.source = text_of(message, source);
    made.end = true;
    return pack(message, &made, data, bytes);
}

/* ---- the payload ----------------------------------------------------------------------------------------------- */

const char *mr_zmq_payload_format(const mr_frame *frame, char text[MR_FORMAT_TEXT]) {
    const mr_format *format = &frame->format;
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    int length = 0;
    switch (format->payload) {
    case MR_PAYLOAD_PICTURE:
        snprintf(text, MR_FORMAT_TEXT, "%s %dx%d", mr_pixel_describe(format->pixel)->name, (int)format->width,
                 (int)format->height);
        return text;
    case MR_PAYLOAD_TENSOR:
        length = snprintf(text, MR_FORMAT_TEXT, "%s ", mr_dtype_name(format->dtype));
        for (int32_t i = 0; i < format->rank; i++)
            length += snprintf(text + length, (size_t)(MR_FORMAT_TEXT - length), i ? "x%lld" : "%lld",
                               (long long)format->dims[i]);
        return text;
    case MR_PAYLOAD_PACKET:
        snprintf(text, MR_FORMAT_TEXT, "%s", codec ? avcodec_get_name(codec->codec_id) : "unknown");
        return text;
    default:
        return NULL;
    }
}

static size_t row_bytes(const mr_format *format, int plane) {
    return mr_plane_row_bytes(format->pixel, plane, format->width);
}

size_t mr_zmq_payload_bytes(const mr_frame *frame) {
    const mr_format *format = &frame->format;
    size_t bytes = 0;
    if (format->payload == MR_PAYLOAD_PACKET)
        return frame->plane[0].bytes;
    if (format->payload == MR_PAYLOAD_TENSOR)
        return mr_tensor_bytes(format);
    if (format->payload != MR_PAYLOAD_PICTURE)
        return 0;
    for (int i = 0; i < mr_pixel_describe(format->pixel)->planes; i++)
        bytes += row_bytes(format, i) * (size_t)mr_plane_rows(format->pixel, i, format->height);
    return bytes;
}

void mr_zmq_payload_copy(const mr_frame *frame, uint8_t *to) {
    const mr_format *format = &frame->format;
    if (format->payload != MR_PAYLOAD_PICTURE) {
        memcpy(to, frame->plane[0].data, mr_zmq_payload_bytes(frame));
        return;
    }
    for (int i = 0; i < mr_pixel_describe(format->pixel)->planes; i++)
        for (int32_t row = 0; row < mr_plane_rows(format->pixel, i, format->height); row++) {
            memcpy(to, frame->plane[i].data + row * frame->plane[i].stride, row_bytes(format, i));
            to += row_bytes(format, i);
        }
}
