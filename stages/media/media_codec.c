#include "stages/media/media_codec.h"

#include <libavcodec/avcodec.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* ---- parameters ------------------------------------------------------------------------------------------------ */

/* Limits. No stream header is longer, and no decoder gives pictures with more rows or columns. */
enum { MOST_EXTRA_BYTES = 1 << 20, MOST_SIDE = 65536, MOST_DELAY = 256 };

static void describe(const void *codec, mr_codec_description *description) {
    const AVCodecParameters *from = codec;
    const char *pixel = from->format == AV_PIX_FMT_NONE ? NULL : av_get_pix_fmt_name(from->format);
    *description = (mr_codec_description){
        .name = avcodec_get_name(from->codec_id), .pixel = pixel ? pixel : "", .extra = from->extradata,
        .extra_bytes = (size_t)from->extradata_size, .tag = from->codec_tag, .width = (uint32_t)from->width,
        .height = (uint32_t)from->height, .sar_num = (uint32_t)from->sample_aspect_ratio.num,
        .sar_den = (uint32_t)from->sample_aspect_ratio.den, .field_order = from->field_order,
        .range = from->color_range, .primaries = from->color_primaries, .transfer = from->color_trc,
        .matrix = from->color_space, .siting = from->chroma_location,
        .bits = (uint32_t)from->bits_per_coded_sample, .delay = (uint32_t)from->video_delay,
        .profile = from->profile, .level = from->level};
}

static const char *find_fault(const mr_codec_description *from) {
    if (from->extra_bytes > MOST_EXTRA_BYTES)
        return "a header that is too long";
    if (from->width > MOST_SIDE || from->height > MOST_SIDE || from->delay > MOST_DELAY || from->bits > 64 ||
        from->sar_num > INT32_MAX || from->sar_den > INT32_MAX)
        return "sizes that are too large";
    if (from->field_order > AV_FIELD_BT || from->range >= AVCOL_RANGE_NB || from->primaries >= AVCOL_PRI_NB ||
        from->transfer >= AVCOL_TRC_NB || from->matrix >= AVCOL_SPC_NB || from->siting >= AVCHROMA_LOC_NB)
        return "a colour or a field order that does not exist";
    if (*from->pixel && av_get_pix_fmt(from->pixel) == AV_PIX_FMT_NONE)
        return "an unknown pixel format";
    return NULL;
}

/* Zeros must follow a header, since bitstream readers need them. */
static bool copy_extra(AVCodecParameters *to, const mr_codec_description *from) {
    if (!from->extra_bytes)
        return true;
    to->extradata = av_mallocz(from->extra_bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!to->extradata)
        return false;
    memcpy(to->extradata, from->extra, from->extra_bytes);
    to->extradata_size = (int)from->extra_bytes;
    return true;
}

static void fill(AVCodecParameters *to, const mr_codec_description *from, enum AVCodecID id) {
    to->codec_type = AVMEDIA_TYPE_VIDEO;
    to->codec_id = id;
    to->codec_tag = from->tag;
    to->format = *from->pixel ? av_get_pix_fmt(from->pixel) : AV_PIX_FMT_NONE;
    to->width = (int)from->width;
    to->height = (int)from->height;
    to->sample_aspect_ratio = (AVRational){(int)from->sar_num, (int)from->sar_den};
    to->field_order = (enum AVFieldOrder)from->field_order;
    to->color_range = (enum AVColorRange)from->range;
    to->color_primaries = (enum AVColorPrimaries)from->primaries;
    to->color_trc = (enum AVColorTransferCharacteristic)from->transfer;
    to->color_space = (enum AVColorSpace)from->matrix;
    to->chroma_location = (enum AVChromaLocation)from->siting;
    to->bits_per_coded_sample = (int)from->bits;
    to->video_delay = (int)from->delay;
    to->profile = from->profile;
    to->level = from->level;
}

static int make(const mr_codec_description *description, void **codec) {
    const AVCodecDescriptor *known = avcodec_descriptor_get_by_name(description->name);
    const char *fault = find_fault(description);
    if (!known || known->type != AVMEDIA_TYPE_VIDEO)
        return mr_fail(MR_ERROR_DATA, "packets of %.40s, which is not a known video codec",
                       description->name);
    if (fault)
        return mr_fail(MR_ERROR_DATA, "packets of %s with %s", known->name, fault);
    AVCodecParameters *made = avcodec_parameters_alloc();
    if (!made || !copy_extra(made, description)) {
        avcodec_parameters_free(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the parameters of %s", known->name);
    }
    fill(made, description, known->id);
    *codec = made;
    return MR_OK;
}

static void release(void *codec) {
    AVCodecParameters *gone = codec;
    avcodec_parameters_free(&gone);
}

const mr_media_codec mr_av_codec = {.describe = describe, .make = make, .release = release};

/* ---- side data ------------------------------------------------------------------------------------------------- */

typedef struct record {
    uint32_t type, bytes;
} record;

static bool is_needed(enum AVPacketSideDataType type) {
    return type == AV_PKT_DATA_PALETTE || type == AV_PKT_DATA_NEW_EXTRADATA;
}

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

int mr_side_pack(const AVPacket *packet, mr_buffer **buffer) {
    size_t total = 0;
    for (int i = 0; i < packet->side_data_elems; i++)
        if (is_needed(packet->side_data[i].type))
            total += sizeof(record) + padded(packet->side_data[i].size);
    if (total == 0)
        return MR_OK;
    *buffer = mr_buffer_alloc(total);
    if (!*buffer)
        return MR_ERROR_MEMORY;
    uint8_t *block = memset((*buffer)->data, 0, total);
    for (int i = 0; i < packet->side_data_elems; i++) {
        const AVPacketSideData *side = &packet->side_data[i];
        if (!is_needed(side->type))
            continue;
        memcpy(block, &(record){(uint32_t)side->type, (uint32_t)side->size}, sizeof(record));
        memcpy(block + sizeof(record), side->data, side->size);
        block += sizeof(record) + padded(side->size);
    }
    return MR_OK;
}

int mr_side_unpack(const mr_plane *plane, AVPacket *packet) {
    const uint8_t *at = plane->data;
    for (size_t left = at ? plane->bytes : 0; left > 0;) {
        record head;
        if (left < sizeof head)
            return mr_fail(MR_ERROR_DATA, "side data of a packet is cut off");
        memcpy(&head, at, sizeof head);
        size_t whole = sizeof head + padded(head.bytes);
        if (left < whole || !is_needed((enum AVPacketSideDataType)head.type))
            return mr_fail(MR_ERROR_DATA, "side data of a packet is malformed");
        uint8_t *copy = av_packet_new_side_data(packet, (enum AVPacketSideDataType)head.type, head.bytes);
        if (!copy)
            return mr_fail(MR_ERROR_MEMORY, "out of memory");
        memcpy(copy, at + sizeof head, head.bytes);
        at += whole;
        left -= whole;
    }
    return MR_OK;
}

/* ---- payload ---------------------------------------------------------------------------------------------------- */

static void release_buffer(void *opaque, uint8_t *data) {
    mr_buffer *buffer = opaque;
    mr_buffer_unref(&buffer);
}

AVBufferRef *mr_buffer_lend(mr_buffer *buffer, uint8_t *data, size_t bytes) {
    AVBufferRef *reference =
        av_buffer_create(data, bytes, release_buffer, mr_buffer_ref(buffer), AV_BUFFER_FLAG_READONLY);
    if (!reference)
        mr_buffer_unref(&buffer);
    return reference;
}

static void release_av_buffer(void *context) {
    AVBufferRef *reference = context;
    av_buffer_unref(&reference);
}

mr_buffer *mr_buffer_borrow(uint8_t *data, size_t bytes, AVBufferRef *reference) {
    return mr_buffer_wrap(data, bytes, release_av_buffer, reference);
}

static int av_flags(uint32_t flags) {
    return (flags & MR_FRAME_KEY ? AV_PKT_FLAG_KEY : 0) | (flags & MR_FRAME_CORRUPT ? AV_PKT_FLAG_CORRUPT : 0) |
           (flags & MR_FRAME_HIDDEN ? AV_PKT_FLAG_DISCARD : 0);
}

static int64_t av_time(int64_t time_ns) {
    return time_ns == MR_NO_TIME ? AV_NOPTS_VALUE : time_ns;
}

int mr_packet_lend(AVPacket *packet, const mr_frame *frame) {
    const mr_plane *plane = &frame->plane[0];
    packet->data = plane->data;
    packet->size = (int)plane->bytes;
    packet->pts = av_time(frame->pts_ns);
    packet->dts = av_time(frame->dts_ns);
    packet->duration = frame->duration_ns;
    packet->flags = av_flags(frame->flags);
    if (mr_side_unpack(&frame->plane[1], packet))
        return AVERROR_INVALIDDATA;
    size_t padded = plane->bytes + AV_INPUT_BUFFER_PADDING_SIZE;
    if ((size_t)(plane->buffer->data + plane->buffer->bytes - plane->data) < padded)
        return 0;
    packet->buf = mr_buffer_lend(plane->buffer, plane->data, padded);
    return packet->buf ? 0 : AVERROR(ENOMEM);
}

void mr_packet_replace(AVPacket *packet, AVBufferRef *buffer, size_t bytes) {
    av_buffer_unref(&packet->buf);
    packet->buf = buffer;
    packet->data = buffer->data;
    packet->size = (int)bytes;
}

int mr_packet_keep(AVPacket *packet, mr_plane *plane) {
    if (av_packet_make_refcounted(packet) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    mr_buffer *buffer =
        mr_buffer_borrow(packet->data, (size_t)packet->size + AV_INPUT_BUFFER_PADDING_SIZE, packet->buf);
    if (!buffer)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *plane = (mr_plane){.buffer = buffer, .data = packet->data, .bytes = (size_t)packet->size};
    packet->buf = NULL;
    return MR_OK;
}

int64_t mr_ticks_ns(int64_t ticks, int64_t origin, AVRational base) {
    int64_t since;
    if (ticks == AV_NOPTS_VALUE || origin == AV_NOPTS_VALUE || __builtin_sub_overflow(ticks, origin, &since))
        return MR_NO_TIME;
    return mr_time_bound(av_rescale_q(since, base, (AVRational){1, 1000000000}));
}

static int64_t bound(int64_t ticks, AVRational base) {
    const bool within = ticks >= -MR_MOST_TIME_NS && ticks <= MR_MOST_TIME_NS;
    return within && mr_ticks_ns(ticks, 0, base) != MR_NO_TIME ? ticks : AV_NOPTS_VALUE;
}

void mr_packet_bound(AVPacket *packet, AVRational base) {
    static const int64_t day_ns = INT64_C(86400000000000);
    const int64_t lasts_ns = mr_ticks_ns(packet->duration, 0, base);
    packet->pts = bound(packet->pts, base);
    packet->dts = bound(packet->dts, base);
    if (lasts_ns < 0 || lasts_ns > day_ns)
        packet->duration = 0;
}

uint32_t mr_packet_flags(const AVPacket *packet) {
    uint32_t flags = 0;
    if (packet->flags & AV_PKT_FLAG_KEY)
        flags |= MR_FRAME_KEY;
    if (packet->flags & AV_PKT_FLAG_DISPOSABLE)
        flags |= MR_FRAME_DISPOSABLE;
    if (packet->flags & AV_PKT_FLAG_CORRUPT)
        flags |= MR_FRAME_CORRUPT;
    if (packet->flags & AV_PKT_FLAG_DISCARD)
        flags |= MR_FRAME_HIDDEN;
    return flags;
}
