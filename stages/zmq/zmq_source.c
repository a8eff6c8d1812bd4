#include "stages/zmq/zmq_source.h"

#include <errno.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/media/media_input.h"
#include "stages/media/media_list.h"
#include "stages/media/media_picture.h"
#include "stages/media/media_reader.h"
#include "stages/media/still/kinds.h"

/* ---- planning -------------------------------------------------------------------------------------------------- */

static mr_format_set images_up_to(mr_size size) {
    mr_format_set set = {.payload = MR_PAYLOAD_PACKET};
    if (size.width > 0 && size.height > 0) {
        set.width = (mr_bounds){1, size.width};
        set.height = (mr_bounds){1, size.height};
    }
    return set;
}

int mr_zmq_source_negotiate(mr_negotiation *negotiation) {
    const mr_zmq_source_options *given = negotiation->options;
    mr_payload payload = given->format.payload;
    if (payload && payload != MR_PAYLOAD_PICTURE && payload != MR_PAYLOAD_TENSOR)
        return mr_refuse(negotiation, "format",
                         "messages bring pictures or tensors, or, without `format`, encoded images");
    if (payload && given->size.width)
        return mr_refuse(negotiation, "size", "`size` is for encoded images; `format` includes the size");
    negotiation->outputs[0].external = true;
    negotiation->outputs[0].set = payload ? mr_format_set_of(&given->format) : images_up_to(given->size);
    return mr_zmq_link_negotiate(negotiation, &given->link);
}

int mr_zmq_source_open(mr_stage *self, int type) {
    const mr_zmq_source_options *given = self->options;
    mr_zmq_source *at = self->state;
    const char *topic = given->topic ? given->topic : "";
    at->topics = type == ZMQ_SUB;
    at->epoch = mr_stage_first_epoch(self);
    mr_av_log_capture();
    int status = mr_zmq_link_create(&at->socket, self, &given->link, type, given->max_message);
    if (!status && at->topics &&
        zmq_setsockopt(mr_zmq_handle(at->socket), ZMQ_SUBSCRIBE, topic, strlen(topic)))
        status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses a topic: %s", zmq_strerror(errno));
    return status ? status : mr_zmq_link_attach(at->socket, self, &given->link);
}

void mr_zmq_source_close(mr_stage *self) {
    mr_zmq_source *at = self->state;
    mr_zmq_close(&at->socket, 0);
    mr_media_unref(&at->media);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

enum { TOPIC, RECORD, PAYLOAD, PARTS };

typedef struct message {
    zmq_msg_t part[PARTS];
    int count; /* received parts, including excess ones */
    mr_zmq_record fields;
} message;

static void forget(message *got) {
    for (int i = 0; i < PARTS; i++)
        zmq_msg_close(&got->part[i]);
}

/* Receives one whole message, which must be available. Without a topic, parts start after its slot. */
static int receive(mr_zmq_source *at, message *got) {
    int first = at->topics ? TOPIC : RECORD, more = 1;
    for (int i = 0; i < PARTS; i++)
        zmq_msg_init(&got->part[i]);
    for (got->count = 0; more; got->count++) {
        zmq_msg_t beyond;
        zmq_msg_init(&beyond);
        zmq_msg_t *to = first + got->count < PARTS ? &got->part[first + got->count] : &beyond;
        if (mr_zmq_receive(at->socket, to) < 0)
            return MR_ERROR_AGAIN;
        more = zmq_msg_more(to);
        zmq_msg_close(&beyond);
    }
    got->count += first;
    return MR_OK;
}

/* Waits for the next message. MR_END: none will come, or none is wanted. */
static int await(mr_stage *self, mr_io *io, message *got) {
    const mr_zmq_source_options *given = self->options;
    mr_zmq_source *at = self->state;
    if (!at->heard_ns)
        at->heard_ns = mr_io_now_ns(io);
    for (;;) {
        int ready = mr_zmq_link_wait(at->socket, self, ZMQ_POLLIN);
        if (ready < 0)
            return ready == MR_ERROR_CANCELLED ? MR_END : ready;
        if (ready && receive(at, got) == MR_OK) {
            at->heard_ns = mr_io_now_ns(io);
            return MR_OK;
        }
        if (ready)
            forget(got);
        if (given->idle && mr_io_now_ns(io) - at->heard_ns >= given->idle)
            return MR_END;
    }
}

/* ---- payloads -------------------------------------------------------------------------------------------------- */

static void release_part(void *context) {
    zmq_msg_close(context);
    mr_free(context);
}

/* The frame takes over ZeroMQ's memory. If that is not aligned for the elements, it is copied. */
static mr_buffer *keep_payload(zmq_msg_t *part, size_t alignment) {
    size_t bytes = zmq_msg_size(part);
    if ((uintptr_t)zmq_msg_data(part) % alignment) {
        mr_buffer *copy = mr_buffer_alloc(bytes);
        if (copy)
            memcpy(copy->data, zmq_msg_data(part), bytes);
        return copy;
    }
    zmq_msg_t *kept = mr_alloc(sizeof *kept);
    if (!kept)
        return NULL;
    zmq_msg_init(kept);
    zmq_msg_move(kept, part);
    mr_buffer *buffer = mr_buffer_wrap(zmq_msg_data(kept), bytes, release_part, kept);
    if (!buffer)
        release_part(kept);
    return buffer;
}

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

/* An image's stream: it stays the same until codec or orientation changes. */
static mr_media *media_of(mr_stage *self, const mr_picture_kind *kind) {
    mr_zmq_source *at = self->state;
    const mr_zmq_source_options *given = self->options;
    const AVCodecParameters *known = at->media ? at->media->codec : NULL;
    if (known && known->codec_id == kind->id && at->media->rotation == kind->upright.rotation &&
        at->media->flip == kind->upright.flip)
        return mr_media_ref(at->media);
    AVCodecParameters *codec = mr_picture_codec(kind->id);
    mr_media_unref(&at->media);
    if (codec)
        at->media = mr_reader_describe(&(mr_reader_params){.every = 1}, given->link.endpoint, codec);
    avcodec_parameters_free(&codec);
    if (!at->media)
        return NULL;
    at->media->still = true;
    at->media->rotation = kind->upright.rotation;
    at->media->flip = kind->upright.flip;
    return mr_media_ref(at->media);
}

/* HEIF is unpacked from a copy, as when it is read from a file. */
static int take_heif(mr_stage *self, zmq_msg_t *part, mr_frame *frame) {
    mr_packet packet = {0};
    mr_picture_kind kind;
    char why[256] = "is a picture of HEIF that is not whole";
    if (mr_still_trouble(NULL, zmq_msg_data(part), zmq_msg_size(part), why, sizeof why))
        return mr_fail(MR_ERROR_DATA, "the payload %s", why);
    if (mr_packet_room(&packet, zmq_msg_size(part)))
        return no_memory();
    memcpy(packet.data, zmq_msg_data(part), packet.bytes);
    mr_picture_unpack("", &packet, &kind);
    int status = kind.id == AV_CODEC_ID_PNG ? mr_fail(MR_ERROR_DATA, "the payload %s", why) : MR_OK;
    if (!status && !(frame->media = media_of(self, &kind)))
        status = no_memory();
    if (status) {
        mr_buffer_unref(&packet.buffer);
        return status;
    }
    frame->plane[0] = (mr_plane){.buffer = packet.buffer, .data = packet.data, .bytes = packet.bytes};
    frame->format = (mr_format){.payload = MR_PAYLOAD_PACKET};
    frame->flags = MR_FRAME_KEY;
    return MR_OK;
}

static int take_image(mr_stage *self, message *got, mr_frame *frame) {
    zmq_msg_t *part = &got->part[PAYLOAD];
    size_t bytes = zmq_msg_size(part);
    mr_heif heif;
    if (mr_heif_read(zmq_msg_data(part), bytes, &heif))
        return take_heif(self, part, frame);
    enum AVCodecID id = mr_image_codec_by_content(zmq_msg_data(part), bytes);
    if (!id)
        return mr_fail(MR_ERROR_DATA, "the payload, %zu bytes, is not an image of a known format", bytes);
    frame->media = media_of(self, &(mr_picture_kind){.id = id});
    frame->plane[0].buffer = frame->media ? keep_payload(part, 1) : NULL;
    if (!frame->plane[0].buffer)
        return no_memory();
    frame->format = (mr_format){.payload = MR_PAYLOAD_PACKET};
    frame->plane[0].data = frame->plane[0].buffer->data;
    frame->plane[0].bytes = bytes;
    frame->flags = MR_FRAME_KEY;
    return MR_OK;
}

static int check_format(const mr_stage *self, const message *got, mr_format *format) {
    const mr_zmq_source_options *given = self->options;
    const mr_format_set set = mr_format_set_of(&given->format);
    const char *text = got->fields.format_text;
    char wanted[MR_FORMAT_SET_TEXT];
    *format = *text ? got->fields.format : given->format;
    bool whole = format->payload == MR_PAYLOAD_PICTURE ? format->pixel && format->width > 0 && format->height > 0
                                                       : mr_tensor_bytes(format) > 0;
    if (whole && mr_format_set_has(&set, format))
        return MR_OK;
    mr_format_set_print(&set, wanted, sizeof wanted);
    return *text ? mr_fail(MR_ERROR_DATA, "the record has the format \"%s\", and %s was expected", text, wanted)
                 : mr_fail(MR_ERROR_DATA, "the record has no format, and %s was expected", wanted);
}

static int take_raw(mr_stage *self, message *got, mr_frame *frame) {
    mr_format format;
    zmq_msg_t *part = &got->part[PAYLOAD];
    int status = check_format(self, got, &format);
    if (status)
        return status;
    size_t wanted = mr_packed_bytes(&format), element = mr_dtype_bytes(format.dtype);
    if (format.payload == MR_PAYLOAD_PICTURE)
        element = mr_pixel_describe(format.pixel)->depth > 8 ? 2 : 1;
    if (zmq_msg_size(part) != wanted || !wanted)
        return mr_fail(MR_ERROR_DATA, "the payload has %zu bytes, and %zu were expected", zmq_msg_size(part), wanted);
    mr_buffer *buffer = keep_payload(part, element);
    if (!buffer)
        return no_memory();
    mr_frame_place(frame, &format, buffer, 0, 1);
    mr_buffer_unref(&buffer);
    return MR_OK;
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static int read_message(mr_stage *self, message *got) {
    const mr_zmq_source *at = self->state;
    int status = mr_zmq_record_read(&got->fields, zmq_msg_data(&got->part[RECORD]), zmq_msg_size(&got->part[RECORD]));
    if (!status && got->count != PARTS && !got->fields.end)
        status = mr_fail(MR_ERROR_DATA, "a message has %d part%s: expected %srecord and payload",
                         got->count - (at->topics ? TOPIC : RECORD),
                         got->count - (at->topics ? TOPIC : RECORD) == 1 ? "" : "s", at->topics ? "topic, " : "");
    return status;
}

/* A message that cannot become a frame counts as a dropped frame, under the sender's name for it. */
static int refuse(mr_stage *self, mr_io *io, const message *got, mr_frame *frame) {
    const char *name = *got->fields.id ? got->fields.id : got->fields.file;
    mr_stage_warn(self, "a message%s%.200s was refused: %s", *name ? " " : "", name, mr_message());
    mr_io_drop(io, frame, "bad message");
    mr_frame_unref(&frame);
    return MR_DONE;
}

/* Emits the message's frame, or counts it as lost. */
static int give(mr_stage *self, mr_io *io, message *got, int status) {
    const mr_zmq_source_options *given = self->options;
    mr_zmq_source *at = self->state;
    mr_frame *frame = NULL;
    char why[256];
    snprintf(why, sizeof why, "%s", mr_message());
    int made = mr_io_originate(io, &(mr_identity){.epoch = at->epoch, .seq = at->next}, &frame);
    if (made)
        return made;
    at->next++;
    if (status)
        mr_fail(status, "%s", why);
    else
        status = given->format.payload ? take_raw(self, got, frame) : take_image(self, got, frame);
    if (!status)
        status = mr_frame_name(frame, &(mr_frame_names){got->fields.id, got->fields.file, got->fields.label});
    if (status)
        return refuse(self, io, got, frame);
    frame->pts_ns = got->fields.pts_ns;
    return mr_io_emit(io, 0, frame);
}

int mr_zmq_source_process(mr_stage *self, mr_io *io) {
    const mr_zmq_source_options *given = self->options;
    mr_zmq_source *at = self->state;
    message got;
    int status = await(self, io, &got);
    if (status)
        return status;
    status = read_message(self, &got);
    if (status || !got.fields.end)
        status = give(self, io, &got, status);
    else
        status = ++at->ends == given->ends ? MR_END : MR_WAIT;
    forget(&got);
    if (status == MR_WAIT)
        mr_io_wake_at(io, mr_io_now_ns(io));
    return status;
}
