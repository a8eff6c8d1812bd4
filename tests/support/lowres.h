/* Decodes a JPEG with mr_still_reduce and with libavcodec's lowres, whose decoder fails on any damage. */
#pragma once

#include <libavutil/pixdesc.h>
#include <stdlib.h>
#include <string.h>

#include "stages/decode/decode_codec.h"
#include "stages/decode/still_decoder.h"

/* REFUSED: left to libavcodec. WRONG: decoded, but libavcodec reports damage or a different picture. */
typedef enum lowres_answer { LOWRES_REFUSED, LOWRES_SAME, LOWRES_WRONG } lowres_answer;

static inline AVCodecContext *open_lowres(int scale) {
    const AVCodec *decoder = avcodec_find_decoder(AV_CODEC_ID_MJPEG);
    AVCodecContext *codec = avcodec_alloc_context3(decoder);
    codec->lowres = scale;
    codec->thread_count = 1;
    codec->err_recognition |= AV_EF_EXPLODE;
    if (avcodec_open2(codec, decoder, NULL) < 0)
        abort();
    return codec;
}

static inline bool is_same_plane(const AVFrame *a, const AVFrame *b, int plane, int right, int down) {
    int width = AV_CEIL_RSHIFT(a->width, right), height = AV_CEIL_RSHIFT(a->height, down);
    for (int y = 0; y < height; y++)
        if (memcmp(a->data[plane] + y * a->linesize[plane], b->data[plane] + y * b->linesize[plane],
                   (size_t)width) != 0)
            return false;
    return true;
}

static inline bool is_same_picture(const AVFrame *a, const AVFrame *b) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(a->format);
    bool same = a->format == b->format && a->width == b->width && a->height == b->height && a->pts == b->pts &&
                a->color_range == b->color_range && a->colorspace == b->colorspace && a->key_frame == b->key_frame &&
                a->chroma_location == b->chroma_location &&
                av_cmp_q(a->sample_aspect_ratio, b->sample_aspect_ratio) == 0 &&
                av_dict_count(a->metadata) == av_dict_count(b->metadata) && a->nb_side_data == b->nb_side_data;
    for (int i = 0; same && i < about->nb_components; i++)
        same = is_same_plane(a, b, i, i ? about->log2_chroma_w : 0, i ? about->log2_chroma_h : 0);
    return same;
}

static inline void keep_data(void *data) {
}

/* Copies the data into a separate block, so that a sanitizer can see reads past the end. `jpeg` may have decoded others
 * before. */
static inline lowres_answer compare_lowres(mr_jpeg_decoder **jpeg, const uint8_t *data, size_t bytes, int scale) {
    AVCodecParameters *stream = avcodec_parameters_alloc();
    uint8_t *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    mr_buffer *buffer = mr_buffer_wrap(copy, bytes, keep_data, copy);
    mr_media media = {.references = 1, .path = (char *)"x", .still = true, .codec = stream};
    mr_frame frame = {.media = &media, .pts_ns = 7, .dts_ns = MR_NO_TIME};
    frame.plane[0] = (mr_plane){.buffer = buffer, .data = copy, .bytes = bytes};
    stream->codec_id = AV_CODEC_ID_MJPEG;
    AVCodecContext *mine = open_lowres(scale), *theirs = open_lowres(scale);
    AVPacket *packet = av_packet_alloc();
    AVFrame *seen = av_frame_alloc(), *expected = av_frame_alloc();
    lowres_answer answer = LOWRES_REFUSED;
    if (mr_still_reduce(mine, jpeg, packet, &frame, seen)) {
        bool decoded = mr_codec_send(theirs, packet, &frame, 5) >= 0 && avcodec_receive_frame(theirs, expected) >= 0;
        answer = decoded && is_same_picture(seen, expected) ? LOWRES_SAME : LOWRES_WRONG;
    }
    av_frame_free(&seen);
    av_frame_free(&expected);
    av_packet_free(&packet);
    avcodec_free_context(&mine);
    avcodec_free_context(&theirs);
    mr_buffer_unref(&buffer);
    avcodec_parameters_free(&stream);
    free(copy);
    return answer;
}
