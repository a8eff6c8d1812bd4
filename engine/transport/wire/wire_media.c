/* Packs the media descriptions that packets and pictures refer to, and unpacks them. A description is packed once, and
 * its bytes identify it. So one stream's frames share one mr_media at both ends. */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_codec(const mr_codec_description *from, Millrace__V1__Codec *codec) {
    codec->name = mr_wire_text(from->name);
    codec->pixel = mr_wire_text(from->pixel);
    codec->extra.len = from->extra_bytes;
    memcpy(&codec->extra.data, &from->extra, sizeof codec->extra.data);
    codec->tag = from->tag;
    codec->width = from->width;
    codec->height = from->height;
    codec->profile = from->profile;
    codec->level = from->level;
    codec->sar_num = from->sar_num;
    codec->sar_den = from->sar_den;
    codec->field_order = from->field_order;
    codec->range = from->range;
    codec->primaries = from->primaries;
    codec->transfer = from->transfer;
    codec->matrix = from->matrix;
    codec->siting = from->siting;
    codec->bits = from->bits;
    codec->delay = from->delay;
}

static int pack(mr_wire_writer *writer, const mr_media *from, packed_media *to) {
    Millrace__V1__Media media = MILLRACE__V1__MEDIA__INIT;
    Millrace__V1__Codec codec = MILLRACE__V1__CODEC__INIT;
    media.path = mr_wire_text(from->path);
    media.still = from->still;
    media.live = from->live;
    media.is_file = from->is_file;
    media.labelled = from->label != NULL;
    media.label = mr_wire_text(from->label);
    media.label_index = from->label_index;
    media.rate_num = (uint32_t)from->rate_num;
    media.rate_den = (uint32_t)from->rate_den;
    media.frames = from->frames;
    media.x264_build = (uint32_t)from->x264_build;
    media.rotation = (uint32_t)from->rotation;
    media.flip = from->flip;
    media.start_ns = from->start_ns;
    media.end_ns = from->end_ns;
    media.every = from->every;
    media.fps = from->fps;
    if (from->codec && writer->params.codec) {
        mr_codec_description description = {0};
        writer->params.codec->describe(from->codec, &description);
        write_codec(&description, &codec);
        media.codec = &codec;
    }
    size_t bytes = millrace__v1__media__get_packed_size(&media);
    if (bytes > to->room) {
        uint8_t *more = mr_realloc(to->data, 2 * bytes);
        if (!more)
            return mr_fail(MR_ERROR_MEMORY, "no memory for a description of %zu bytes", bytes);
        to->data = more;
        to->room = 2 * bytes;
    }
    to->bytes = millrace__v1__media__pack(&media, to->data);
    return MR_OK;
}

/* A media's packed form, reused from recent messages if possible. */
static int packed_form(mr_wire_writer *writer, mr_media *media, const packed_media **form) {
    for (int i = 0; i < WIRE_MEDIA_KEPT; i++)
        if (writer->media[i].media == media) {
            *form = &writer->media[i];
            return MR_OK;
        }
    packed_media *to = &writer->media[writer->media_turn++ % WIRE_MEDIA_KEPT];
    mr_media_unref(&to->media);
    int status = pack(writer, media, to);
    if (!status)
        to->media = mr_media_ref(media);
    *form = to;
    return status;
}

int mr_wire_write_media(mr_wire_writer *writer, mr_media *media, uint32_t *number) {
    const packed_media *form;
    *number = 0;
    if (!media)
        return MR_OK;
    for (size_t i = writer->used_media_count; i-- > 0;)
        if (writer->used_media[i] == media) {
            *number = (uint32_t)i + 1;
            return MR_OK;
        }
    int status = packed_form(writer, media, &form);
    if (status)
        return status;
    /* A message may use more media than are kept. */
    uint8_t *data = mr_wire_arena_give(&writer->arena, form->bytes);
    if (!data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    memcpy(data, form->data, form->bytes);
    writer->used_media[writer->used_media_count] = media;
    writer->packed[writer->used_media_count++] = (ProtobufCBinaryData){.len = form->bytes, .data = data};
    *number = (uint32_t)writer->used_media_count;
    return MR_OK;
}

void mr_wire_forget_media(mr_wire_writer *writer) {
    for (int i = 0; i < WIRE_MEDIA_KEPT; i++) {
        mr_media_unref(&writer->media[i].media);
        mr_free(writer->media[i].data);
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct read_media {
    mr_media media;
    const mr_media_codec *codec;
} read_media;

static void release(mr_media *media) {
    read_media *self = (read_media *)media;
    if (media->codec)
        self->codec->release(media->codec);
    mr_free(media->path);
    mr_free(media->label);
    mr_free(self);
}

static mr_codec_description describe(const Millrace__V1__Codec *from) {
    return (mr_codec_description){
        .name = from->name, .pixel = from->pixel, .extra = from->extra.data, .extra_bytes = from->extra.len,
        .tag = from->tag, .width = from->width, .height = from->height, .sar_num = from->sar_num,
        .sar_den = from->sar_den, .field_order = from->field_order, .range = from->range,
        .primaries = from->primaries, .transfer = from->transfer, .matrix = from->matrix, .siting = from->siting,
        .bits = from->bits, .delay = from->delay, .profile = from->profile, .level = from->level};
}

static const char *find_fault(const Millrace__V1__Media *from) {
    if (from->rotation > 270 || from->rotation % 90)
        return "a rotation that is not a quarter turn";
    if (!isfinite(from->fps) || from->fps < 0 || from->every < 0)
        return "an invalid rate";
    if (from->rate_num > INT32_MAX || from->rate_den > INT32_MAX || from->frames < 0 || from->x264_build > INT32_MAX)
        return "numbers that are too large";
    return NULL;
}

static int make(mr_wire_reader *reader, const Millrace__V1__Media *from, mr_media **media) {
    read_media *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a description of media");
    made->codec = reader->params.codec;
    made->media = (mr_media){.path = mr_strdup(from->path), .still = from->still,
                             .live = from->live, .is_file = from->is_file,
                             .label = from->labelled ? mr_strdup(from->label) : NULL, .label_index = from->label_index,
                             .rate_num = (int32_t)from->rate_num, .rate_den = (int32_t)from->rate_den,
                             .frames = from->frames, .rotation = (int16_t)from->rotation, .flip = from->flip,
                             .start_ns = from->start_ns, .end_ns = from->end_ns, .every = from->every,
                             .fps = from->fps, .x264_build = (int32_t)from->x264_build, .release = release};
    mr_references_begin(&made->media.references);
    int status = MR_OK;
    if (!made->media.path || (from->labelled && !made->media.label))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a description of media");
    if (!status && from->codec && made->codec) {
        mr_codec_description description = describe(from->codec);
        status = made->codec->make(&description, &made->media.codec);
        if (status == MR_ERROR_DATA)
            status = MR_ERROR_PROTOCOL;
    }
    if (status)
        release(&made->media);
    else
        *media = &made->media;
    return status;
}

/* Unpacks a description into a new media. */
static int unpack(mr_wire_reader *reader, const ProtobufCBinaryData *packed, mr_media **media) {
    ProtobufCAllocator allocator = mr_wire_allocator(&reader->arena);
    Millrace__V1__Media *from = millrace__v1__media__unpack(&allocator, packed->len, packed->data);
    const char *fault = from ? find_fault(from) : "no description at all, or one that takes too much memory";
    if (fault)
        return mr_fail(MR_ERROR_PROTOCOL, "a description of media with %s", fault);
    return make(reader, from, media);
}

static void forget(mr_wire_reader *reader, known_media *known) {
    mr_media_unref(&known->media);
    mr_free(known->data);
    reader->known_bytes -= known->bytes;
    *known = (known_media){0};
}

/* The oldest entries make room. An entry above the limit for all is not kept and is read again the next time; so is one
 * if memory is out. */
static void keep(mr_wire_reader *reader, mr_media *media, uint64_t hash, const ProtobufCBinaryData *packed) {
    uint8_t *data = packed->len <= reader->params.most_media_bytes ? mr_alloc(packed->len + 1) : NULL;
    if (!data)
        return;
    known_media *known = &reader->known[reader->known_turn];
    forget(reader, known);
    for (size_t i = 1; reader->known_bytes + packed->len > reader->params.most_media_bytes; i++)
        forget(reader, &reader->known[(reader->known_turn + i) % reader->known_count]);
    if (packed->len) /* a peer may send nothing, and then there is no pointer */
        memcpy(data, packed->data, packed->len);
    *known = (known_media){.media = mr_media_ref(media), .hash = hash, .data = data, .bytes = packed->len};
    reader->known_bytes += packed->len;
    reader->known_turn = (reader->known_turn + 1) % reader->known_count;
}

int mr_wire_read_media(mr_wire_reader *reader, const ProtobufCBinaryData *packed, mr_media **media) {
    uint64_t hash = XXH3_64bits(packed->data, packed->len);
    for (size_t i = 0; i < reader->known_count; i++) {
        const known_media *known = &reader->known[i];
        if (known->media && known->hash == hash && known->bytes == packed->len && packed->len &&
            memcmp(known->data, packed->data, packed->len) == 0) {
            *media = mr_media_ref(known->media);
            return MR_OK;
        }
    }
    int status = unpack(reader, packed, media);
    if (!status)
        keep(reader, *media, hash, packed);
    return status;
}
