#include "stages/media/coded/picture_order.h"

#include <limits.h>

#include "stages/media/coded/recovery.h"

static bool has_counts(enum AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC;
}

bool mr_picture_order_is_grouped(const AVCodecParameters *codec) {
    return codec->codec_id == AV_CODEC_ID_MPEG1VIDEO || codec->codec_id == AV_CODEC_ID_MPEG2VIDEO;
}

bool mr_picture_order_is_clocked(const AVCodecParameters *codec) {
    return codec->codec_id == AV_CODEC_ID_MPEG4;
}

static bool may_reorder(enum AVCodecID codec) {
    const AVCodecDescriptor *about = avcodec_descriptor_get(codec);
    return !about || about->props & AV_CODEC_PROP_REORDER;
}

void mr_picture_order_fini(mr_picture_order *order) {
    if (order->parser)
        av_parser_close(order->parser);
    avcodec_free_context(&order->about);
    mr_media_unref(&order->media);
    *order = (mr_picture_order){0};
}

static void read_header(mr_picture_order *order) {
    int64_t time;
    mr_mpeg4_clock_read(&order->clock, order->codec->extradata, (size_t)order->codec->extradata_size, &time);
}

/* Without memory the order stays unknown. H.264 frames have even counts: fields may use the odd ones. */
static void open_for(mr_picture_order *order, mr_media *media) {
    mr_picture_order_fini(order);
    order->media = mr_media_ref(media);
    order->codec = media->codec;
    order->as_decoded = !may_reorder(order->codec->codec_id);
    order->grouped = mr_picture_order_is_grouped(order->codec);
    order->clocked = mr_picture_order_is_clocked(order->codec);
    order->unit = order->codec->codec_id == AV_CODEC_ID_H264 ? 2 : 1;
    if (order->clocked)
        read_header(order);
    if (!has_counts(order->codec->codec_id))
        return;
    order->parser = av_parser_init((int)order->codec->codec_id);
    order->about = avcodec_alloc_context3(NULL);
    if (!order->parser || !order->about || avcodec_parameters_to_context(order->about, order->codec) < 0) {
        if (order->parser)
            av_parser_close(order->parser);
        order->parser = NULL;
        return;
    }
    order->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
}

static mr_picture_place parse(mr_picture_order *order, const mr_packet *packet) {
    AVCodecParserContext *parser = order->parser;
    uint8_t *out;
    int bytes;
    parser->output_picture_number = INT_MIN;
    av_parser_parse2(parser, order->about, &out, &bytes, packet->data, (int)packet->bytes, AV_NOPTS_VALUE,
                     AV_NOPTS_VALUE, 0);
    const int number = parser->output_picture_number;
    const bool known = number != INT_MIN && !(packet->flags & MR_FRAME_CORRUPT);
    order->unit = known && number % 2 ? 1 : order->unit;
    return (mr_picture_place){.known = known, .number = number,
                              .restarts = known && packet->flags & MR_FRAME_KEY && mr_recovery_restarts(packet)};
}

/* ISO/IEC 13818-2, 6.2.2.6 and 6.2.3. */
static mr_picture_place place_in_group(mr_picture_order *order, const mr_packet *packet) {
    enum { PICTURE = 0, GROUP = 0xb8 };
    mr_nals from = {packet->data, packet->data + packet->bytes, 0};
    for (mr_nal one; mr_nal_next(&from, &one);) {
        if (one.bytes && one.data[0] == GROUP)
            order->count = order->next;
        if (one.bytes < 3 || one.data[0] != PICTURE)
            continue;
        const int64_t leading = one.data[1] << 2 | one.data[2] >> 6, number = order->count + leading;
        order->next = number >= order->next ? number + 1 : order->next;
        return (mr_picture_place){.known = !(packet->flags & MR_FRAME_CORRUPT), .number = number, .leading = leading};
    }
    return (mr_picture_place){0};
}

/* Pictures follow each other at the stream's rate. */
static mr_picture_place place_by_clock(mr_picture_order *order, const mr_packet *packet) {
    const mr_media *media = packet->media;
    int64_t time = 0;
    const bool known = mr_mpeg4_clock_read(&order->clock, packet->data, packet->bytes, &time);
    if (known && media->rate_num > 0 && media->rate_den > 0) {
        const int64_t unit = av_rescale(order->clock.rate, media->rate_den, media->rate_num);
        order->unit = unit < 1 ? 1 : unit > INT_MAX ? INT_MAX : (int)unit;
    }
    return (mr_picture_place){.known = known && !(packet->flags & MR_FRAME_CORRUPT), .number = time};
}

mr_picture_place mr_picture_order_next(mr_picture_order *order, const mr_packet *packet) {
    mr_media *media = packet->media;
    if (!media || !media->codec || !packet->data || packet->bytes > INT_MAX)
        return (mr_picture_place){0};
    if (order->codec != media->codec)
        open_for(order, media);
    if (order->parser)
        return parse(order, packet);
    if (order->grouped)
        return place_in_group(order, packet);
    if (order->clocked)
        return place_by_clock(order, packet);
    return (mr_picture_place){.known = order->as_decoded, .number = order->count++};
}

int mr_picture_order_depth(const AVCodecParameters *codec, bool *sure) {
    enum { MOST_GUESSED = 4 };
    mr_reorder read = {.depth = may_reorder(codec->codec_id), .sure = true};
    if (has_counts(codec->codec_id))
        read = mr_recovery_reorder(codec);
    *sure = read.sure;
    const int most = read.sure || read.depth < MOST_GUESSED ? read.depth : MOST_GUESSED;
    return most > codec->video_delay ? most : codec->video_delay;
}
