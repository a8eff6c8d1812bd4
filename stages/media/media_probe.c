#include "stages/media/media_probe.h"

#include <stdio.h>

#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

bool mr_probe_open(mr_probe *probe, const AVCodecParameters *parameters, int64_t max_pixels) {
    const AVCodec *decoder = avcodec_find_decoder(parameters->codec_id);
    *probe = (mr_probe){.codec = decoder ? avcodec_alloc_context3(decoder) : NULL, .packet = av_packet_alloc(),
                        .picture = av_frame_alloc()};
    if (probe->codec && probe->packet && probe->picture &&
        avcodec_parameters_to_context(probe->codec, parameters) >= 0) {
        probe->codec->thread_count = 1;
        probe->codec->max_pixels = mr_av_max_pixels(max_pixels);
        int error = avcodec_open2(probe->codec, decoder, NULL);
        if (error >= 0)
            return true;
    }
    mr_probe_close(probe);
    return false;
}

void mr_probe_close(mr_probe *probe) {
    avcodec_free_context(&probe->codec);
    av_packet_free(&probe->packet);
    av_frame_free(&probe->picture);
}

static bool look(mr_probe *probe, const uint8_t *data, size_t bytes, enum AVDiscard skip) {
    probe->codec->skip_frame = skip;
    probe->packet->data = (uint8_t *)(uintptr_t)data;
    probe->packet->size = (int)bytes;
    avcodec_send_packet(probe->codec, probe->packet);
    avcodec_receive_frame(probe->codec, probe->picture);
    av_frame_unref(probe->picture);
    probe->packet->data = NULL;
    probe->packet->size = 0;
    return probe->codec->width > 0 && probe->codec->height > 0 && probe->codec->pix_fmt != AV_PIX_FMT_NONE;
}

/* When told to skip pictures, most decoders still read headers. The others read nothing and must decode. */
bool mr_probe_look(mr_probe *probe, const uint8_t *data, size_t bytes) {
    return look(probe, data, bytes, AVDISCARD_ALL) || look(probe, data, bytes, AVDISCARD_DEFAULT);
}

mr_format_set mr_probe_tell(const AVCodecContext *codec, const mr_media *media) {
    mr_format_set set = {.payload = MR_PAYLOAD_PACKET, .codec = avcodec_get_name(codec->codec_id)};
    mr_pixel pixel = mr_pixel_carried(codec->pix_fmt);
    if (codec->width <= 0 || codec->height <= 0)
        return set;
    set.width = (mr_bounds){codec->width, codec->width};
    set.height = (mr_bounds){codec->height, codec->height};
    if (!pixel)
        return set;
    const AVFrame picture = {.width = codec->width, .height = codec->height, .format = codec->pix_fmt,
                             .colorspace = codec->colorspace, .color_range = codec->color_range,
                             .chroma_location = codec->chroma_sample_location,
                             .sample_aspect_ratio = codec->sample_aspect_ratio};
    mr_format format;
    mr_format_describe(&format, &picture, pixel, codec, media, (mr_untagged){0});
    const mr_format_set described = mr_format_set_of(&format);
    set.pixels = described.pixels;
    set.look = described.look;
    return set;
}

int mr_probe_references(const AVCodecContext *codec) {
    static const struct {
        enum AVCodecID codec;
        int references;
    } few[] = {{AV_CODEC_ID_MPEG1VIDEO, 3}, {AV_CODEC_ID_MPEG2VIDEO, 3}, {AV_CODEC_ID_MPEG4, 3},
               {AV_CODEC_ID_MSMPEG4V1, 3},  {AV_CODEC_ID_MSMPEG4V2, 3},  {AV_CODEC_ID_MSMPEG4V3, 3},
               {AV_CODEC_ID_H263, 3},       {AV_CODEC_ID_WMV1, 3},       {AV_CODEC_ID_WMV2, 3},
               {AV_CODEC_ID_VP8, 4},        {AV_CODEC_ID_VP9, 9}};
    const AVCodecDescriptor *about = avcodec_descriptor_get(codec->codec_id);
    /* The last picture, kept for error concealment, and the one emitted last. */
    const int current = 2, least_delay = 2;
    if (about && (about->mime_types || (about->props & AV_CODEC_PROP_INTRA_ONLY)))
        return current;
    /* The header holds how many reference pictures there are, and how many wait for display. */
    if (codec->codec_id == AV_CODEC_ID_H264 && codec->refs > 0)
        return codec->refs + (codec->has_b_frames > least_delay ? codec->has_b_frames : least_delay) + current;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (few[i].codec == codec->codec_id)
            return few[i].references;
    return 0;
}

/* Properties of such pictures that no stage handles. */
static void remark(const AVCodecContext *codec, char text[MR_SURVEY_REMARK]) {
    const char *hdr = codec->color_trc == AVCOL_TRC_SMPTE2084      ? "PQ"
                      : codec->color_trc == AVCOL_TRC_ARIB_STD_B67 ? "HLG"
                                                                   : NULL;
    const bool interlaced = codec->field_order > AV_FIELD_PROGRESSIVE;
    const char *fields = "is interlaced: its pictures are not deinterlaced";
    if (hdr)
        snprintf(text, MR_SURVEY_REMARK, "is HDR (%s): its values are taken as those of SDR, and not mapped to it%s%s",
                 hdr, interlaced ? "; it " : "", interlaced ? fields : "");
    else
        snprintf(text, MR_SURVEY_REMARK, "%s", interlaced ? fields : "");
}

void mr_probe_survey(const AVCodecContext *codec, const mr_media *media, mr_survey *survey) {
    remark(codec, survey->remark);
    survey->set = mr_probe_tell(codec, media);
    survey->mean_pixels = (int64_t)codec->width * codec->height;
    survey->references = mr_probe_references(codec);
}
