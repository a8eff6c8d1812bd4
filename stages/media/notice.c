#include "stages/media/notice.h"

#include <libavutil/bprint.h>
#include <libavutil/pixdesc.h>
#include <string.h>

#include "stages/media/media_input.h"
#include "stages/media/media_lavfi.h"

static const int64_t second_ns = 1000000000;

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* Eight bits, as cameras give them; others take pictures of 4:2:0 instead. */
static enum AVPixelFormat layout_of(const AVCodecParameters *like) {
    static const enum AVPixelFormat kept[] = {AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUVJ422P,
                                              AV_PIX_FMT_GRAY8, AV_PIX_FMT_NV12};
    for (size_t i = 0; like && i < sizeof kept / sizeof *kept; i++)
        if (like->format == kept[i])
            return kept[i];
    /* Decoders of JPEG give this one, before the first picture unsaid. */
    return like && like->codec_id == AV_CODEC_ID_MJPEG ? AV_PIX_FMT_YUVJ420P : AV_PIX_FMT_YUV420P;
}

static mr_size size_of(const AVCodecParameters *like, mr_size most) {
    bool fits = like && like->width > 0 && like->height > 0 && like->width <= most.width && like->height <= most.height;
    return fits ? (mr_size){like->width, like->height} : most;
}

static int font_size(const char *text, mr_size size) {
    size_t longest = 1;
    for (const char *line = text; *line; line += strspn(line, "\n")) {
        size_t length = strcspn(line, "\n");
        longest = length > longest ? length : longest;
        line += length;
    }
    /* Signs are about half as wide as they are high, and wide ones less than their height. */
    int by_width = (int)(1.4 * size.width / (double)longest), by_height = size.height / 9;
    int least = by_width < by_height ? by_width : by_height;
    return least > 4 ? least : 4;
}

/* Quoted for the option, and that for the graph. */
static void print_quoted(AVBPrint *to, const char *text) {
    AVBPrint once;
    av_bprint_init(&once, 0, AV_BPRINT_SIZE_UNLIMITED);
    av_bprint_escape(&once, text, ":", AV_ESCAPE_MODE_BACKSLASH, 0);
    av_bprint_escape(to, once.str, "[],;", AV_ESCAPE_MODE_BACKSLASH, 0);
    av_bprint_finalize(&once, NULL);
}

static int open_graph(mr_reader **reader, const char *text, mr_size size, enum AVPixelFormat layout) {
    AVBPrint graph;
    int high = font_size(text, size);
    av_bprint_init(&graph, 0, AV_BPRINT_SIZE_UNLIMITED);
    av_bprintf(&graph,
               "lavfi:color=c=0x202020:s=%dx%d:r=1,format=%s,drawtext=expansion=none:font=Sans:fontcolor=white:"
               "fontsize=%d:line_spacing=%d:x=(w-text_w)/2:y=(h-text_h)/2:text=",
               size.width, size.height, av_get_pix_fmt_name(layout), high, high / 2);
    print_quoted(&graph, text);
    mr_reader_params params = {.uri = graph.str, .loops = 1, .max_pixels = INT32_MAX};
    int status = mr_reader_open_lavfi(reader, &params);
    if (status == MR_ERROR_CONFIG)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "words cannot be drawn: %s; that takes libavfilter with drawtext, and a "
                         "font, such as those of fonts-dejavu-core", mr_av_complaint());
    av_bprint_finalize(&graph, NULL);
    return status;
}

/* The media of pictures of `drawn`, which stand in for those of `like`. */
static mr_media *describe(const AVCodecParameters *drawn, const mr_media *like, const mr_reader_params *params) {
    AVCodecParameters *made = avcodec_parameters_alloc();
    mr_media *media = NULL;
    if (made && avcodec_parameters_copy(made, drawn) >= 0) {
        const AVCodecParameters *from = like ? like->codec : NULL;
        if (from) {
            made->sample_aspect_ratio = from->sample_aspect_ratio;
            made->color_range = from->color_range;
            made->color_primaries = from->color_primaries;
            made->color_trc = from->color_trc;
            made->color_space = from->color_space;
            made->chroma_location = from->chroma_location;
        }
        media = mr_reader_describe(params, params->uri, made);
    }
    avcodec_parameters_free(&made);
    return media;
}

static int draw(const mr_notice *notice, const char *text, mr_size size, const mr_reader_params *params,
                mr_packet *picture) {
    const AVCodecParameters *like = notice->like ? notice->like->codec : NULL;
    mr_reader *reader = NULL;
    mr_av_log_capture();
    int status = open_graph(&reader, text, size_of(like, size), layout_of(like));
    if (status)
        return status;
    status = mr_reader_read(reader, picture);
    mr_reader_destroy(&reader);
    if (status)
        return status == MR_END ? mr_fail(MR_ERROR_UNAVAILABLE, "libavfilter gives no picture") : status;
    mr_media *media = describe(picture->media->codec, notice->like, params);
    mr_media_unref(&picture->media);
    picture->media = media;
    if (media)
        return MR_OK;
    mr_packet_drop(picture);
    return mr_fail(MR_ERROR_MEMORY, "out of memory");
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

static int64_t period_of(const mr_media *like) {
    enum { MOST = 60 };
    const int64_t known_ns = like ? mr_media_interval_ns(like) : 0, period_ns = known_ns ? known_ns : second_ns;
    return period_ns > second_ns / MOST ? period_ns : second_ns / MOST;
}

int mr_notice_show(mr_notice *notice, const char *text, mr_size size, const mr_reader_params *params) {
    if (!notice->picture.buffer || strcmp(text, notice->text) != 0) {
        mr_packet picture = {0};
        int status = draw(notice, text, size, params, &picture);
        if (status)
            return status;
        mr_packet_drop(&notice->picture);
        notice->picture = picture;
        strncpy(notice->text, text, sizeof notice->text - 1);
    }
    if (!notice->shown)
        notice->begun_ns = notice->due_ns = 0;
    notice->begins |= !notice->shown;
    notice->shown = true;
    return MR_OK;
}

void mr_notice_hide(mr_notice *notice, const mr_packet *packet) {
    if (packet->media != notice->like) {
        mr_media_unref(&notice->like);
        notice->like = mr_media_ref(packet->media);
    }
    if (notice->shown)
        mr_packet_drop(&notice->picture);
    notice->shown = false;
}

int64_t mr_notice_due_ns(const mr_notice *notice) {
    return notice->shown ? notice->due_ns : INT64_MAX;
}

void mr_notice_take(mr_notice *notice, int64_t now_ns, mr_packet *packet) {
    int64_t period_ns = period_of(notice->like);
    if (notice->begins)
        notice->begun_ns = notice->due_ns = now_ns;
    *packet = notice->picture;
    packet->buffer = mr_buffer_ref(notice->picture.buffer);
    packet->media = mr_media_ref(notice->picture.media);
    packet->pts_ns = packet->dts_ns = notice->due_ns - notice->begun_ns;
    packet->duration_ns = period_ns;
    packet->captured_ns = MR_NO_TIME;
    packet->arrived_ns = now_ns;
    packet->begins_epoch = notice->begins;
    packet->flags = MR_FRAME_KEY | MR_FRAME_AWAY;
    notice->begins = false;
    /* Those that nobody has taken in time are left out. */
    notice->due_ns += (1 + (now_ns - notice->due_ns) / period_ns) * period_ns;
}

void mr_notice_fini(mr_notice *notice) {
    mr_packet_drop(&notice->picture);
    mr_media_unref(&notice->like);
    *notice = (mr_notice){0};
}
