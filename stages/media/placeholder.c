#include "stages/media/placeholder.h"

#include <libavutil/bprint.h>
#include <libavutil/pixdesc.h>
#include <string.h>

#include "stages/media/media_input.h"
#include "stages/media/media_lavfi.h"

static const int64_t second_ns = 1000000000;

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* Eight bits, as cameras give; other layouts use 4:2:0 instead. */
static enum AVPixelFormat layout_of(const AVCodecParameters *like) {
    static const enum AVPixelFormat kept[] = {AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUVJ422P,
                                              AV_PIX_FMT_GRAY8, AV_PIX_FMT_NV12};
    for (size_t i = 0; like && i < sizeof kept / sizeof *kept; i++)
        if (like->format == kept[i])
            return kept[i];
    /* JPEG decoders give this layout, even before the first picture. */
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
    /* Glyphs are about half as wide as high; wide ones are narrower than their height. */
    int by_width = (int)(1.4 * size.width / (double)longest), by_height = size.height / 9;
    int least = by_width < by_height ? by_width : by_height;
    return least > 4 ? least : 4;
}

/* Quotes a text for the option, then that for the graph. */
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

/* Makes the media for `drawn` pictures, which replace those in `like`. */
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

static int draw(const mr_placeholder *placeholder, const char *text, mr_size size, const mr_reader_params *params,
                mr_packet *picture) {
    const AVCodecParameters *like = placeholder->like ? placeholder->like->codec : NULL;
    mr_reader *reader = NULL;
    mr_av_log_capture();
    int status = open_graph(&reader, text, size_of(like, size), layout_of(like));
    if (status)
        return status;
    status = mr_reader_read(reader, picture);
    mr_reader_destroy(&reader);
    if (status)
        return status == MR_END ? mr_fail(MR_ERROR_UNAVAILABLE, "libavfilter gives no picture") : status;
    mr_media *media = describe(picture->media->codec, placeholder->like, params);
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

int mr_placeholder_show(mr_placeholder *placeholder, const char *text, mr_size size, const mr_reader_params *params) {
    if (!placeholder->picture.buffer || strcmp(text, placeholder->text) != 0) {
        mr_packet picture = {0};
        int status = draw(placeholder, text, size, params, &picture);
        if (status)
            return status;
        mr_packet_drop(&placeholder->picture);
        placeholder->picture = picture;
        strncpy(placeholder->text, text, sizeof placeholder->text - 1);
    }
    if (!placeholder->shown)
        placeholder->begun_ns = placeholder->due_ns = 0;
    placeholder->begins |= !placeholder->shown;
    placeholder->shown = true;
    return MR_OK;
}

void mr_placeholder_hide(mr_placeholder *placeholder, const mr_packet *packet) {
    if (packet->media != placeholder->like) {
        mr_media_unref(&placeholder->like);
        placeholder->like = mr_media_ref(packet->media);
    }
    if (placeholder->shown)
        mr_packet_drop(&placeholder->picture);
    placeholder->shown = false;
}

int64_t mr_placeholder_due_ns(const mr_placeholder *placeholder) {
    return placeholder->shown ? placeholder->due_ns : INT64_MAX;
}

void mr_placeholder_take(mr_placeholder *placeholder, int64_t now_ns, mr_packet *packet) {
    int64_t period_ns = period_of(placeholder->like);
    if (placeholder->begins)
        placeholder->begun_ns = placeholder->due_ns = now_ns;
    *packet = placeholder->picture;
    packet->buffer = mr_buffer_ref(placeholder->picture.buffer);
    packet->media = mr_media_ref(placeholder->picture.media);
    packet->pts_ns = packet->dts_ns = placeholder->due_ns - placeholder->begun_ns;
    packet->duration_ns = period_ns;
    packet->captured_ns = MR_NO_TIME;
    packet->arrived_ns = now_ns;
    packet->begins_epoch = placeholder->begins;
    packet->flags = MR_FRAME_KEY | MR_FRAME_AWAY;
    placeholder->begins = false;
    /* Skips pictures that nobody took in time. */
    placeholder->due_ns += (1 + (now_ns - placeholder->due_ns) / period_ns) * period_ns;
}

void mr_placeholder_fini(mr_placeholder *placeholder) {
    mr_packet_drop(&placeholder->picture);
    mr_media_unref(&placeholder->like);
    *placeholder = (mr_placeholder){0};
}
