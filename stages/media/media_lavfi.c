/* Test patterns: a libavfilter graph whose pictures become raw video packets and pass through decode like any source.
 * Only filters that read nothing but their input are allowed. Filters open files while a graph is parsed, so names must
 * be checked before. */
#include "stages/media/media_lavfi.h"

#include <dlfcn.h>
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavutil/avstring.h>
#include <libavutil/imgutils.h>
#include <libavutil/macros.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/media_probe.h"

/* ---- libavfilter ----------------------------------------------------------------------------------------------- */

/* Loaded when a test pattern is first used: the library and its dependencies would cost every other run 20 MB and a
 * tenth of a second. Functions are called through members with the same names. */
#define AVFILTER_FUNCTIONS(X)                                                                                     \
    X(avfilter_graph_alloc)                                                                                          \
    X(avfilter_graph_free)                                                                                           \
    X(avfilter_graph_parse2)                                                                                         \
    X(avfilter_graph_create_filter)                                                                                  \
    X(avfilter_graph_config)                                                                                         \
    X(avfilter_get_by_name)                                                                                          \
    X(avfilter_inout_free)                                                                                           \
    X(avfilter_link)                                                                                                 \
    X(avfilter_pad_get_type)                                                                                         \
    X(av_buffersink_get_w)                                                                                           \
    X(av_buffersink_get_h)                                                                                           \
    X(av_buffersink_get_format)                                                                                      \
    X(av_buffersink_get_frame)                                                                                       \
    X(av_buffersink_get_frame_rate)                                                                                  \
    X(av_buffersink_get_sample_aspect_ratio)                                                                         \
    X(av_buffersink_get_time_base)

typedef struct avfilter_api {
#define X(name) __typeof__(&name) name;
    AVFILTER_FUNCTIONS(X)
#undef X
} avfilter_api;

static const char library_name[] = "libavfilter.so." AV_STRINGIFY(LIBAVFILTER_VERSION_MAJOR);
static avfilter_api functions;
static bool loaded;
static char reason[256];

/* Sets a member to the named function. ISO C cannot convert dlsym's pointer to a function pointer. */
static bool look_up(void *library, const char *name, void *member) {
    void *found = dlsym(library, name);
    memcpy(member, &found, sizeof found);
    return found != NULL;
}

/* False if the process's FFmpeg has other file names, as in a wheel, or is linked statically. libavfilter would then
 * load a second libavutil, whose frames may differ. Each libavutil returns the address of its own text. */
static bool shares_avutil(void) {
    __typeof__(&av_version_info) version;
    void *library = dlopen("libavutil.so." AV_STRINGIFY(LIBAVUTIL_VERSION_MAJOR), RTLD_LAZY | RTLD_NOLOAD);
    bool shared = library && look_up(library, "av_version_info", &version) && version() == av_version_info();
    if (library)
        dlclose(library);
    return shared;
}

static void load_library(void) {
    if (!shares_avutil()) {
        snprintf(reason, sizeof reason, "this program's own FFmpeg comes without it, and the system's does not fit; "
                 "make a video, as with ffmpeg -f lavfi -i testsrc=duration=10 pattern.mp4");
        return;
    }
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    loaded = library != NULL;
#define X(name) loaded = loaded && look_up(library, #name, &functions.name);
    AVFILTER_FUNCTIONS(X)
#undef X
    if (!loaded)
        snprintf(reason, sizeof reason, "%s; install it (Debian: libavfilter%d), or make a video, as with ffmpeg "
                 "-f lavfi -i testsrc=duration=10 pattern.mp4", library ? "it lacks a function" : dlerror(),
                 LIBAVFILTER_VERSION_MAJOR);
}

/* Loads the library and keeps it loaded. NULL, with a message, on failure. Any thread. */
static const avfilter_api *load_avfilter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    if (loaded)
        return &functions;
    mr_fail(MR_ERROR_UNAVAILABLE, "test patterns need %s: %s", library_name, reason);
    return NULL;
}

static const char *const harmless[] = {
    "testsrc",   "testsrc2",  "smptebars",  "smptehdbars", "color",     "rgbtestsrc", "yuvtestsrc", "pal75bars",
    "pal100bars", "allrgb",   "allyuv",     "mandelbrot",  "gradients", "sierpinski", "nullsrc",    "colorspectrum",
    "colorchart", "mptestsrc", "format",    "scale",       "crop",      "pad",        "hflip",      "vflip",
    "transpose", "rotate",    "fps",        "settb",       "setpts",    "setsar",     "setdar",     "setparams",
    "setfield",  "setrange",  "trim",       "fade",        "hue",       "eq",         "noise",      "drawbox",
    "drawgrid",  "negate",    "null",       "split",       "hstack",    "vstack",     "xstack",     "overlay",
    "concat",    "interlace", "tinterlace", "gblur",       "boxblur",   "unsharp",    "select",
    "colorchannelmixer"};


typedef struct lavfi_reader {
    mr_reader base;
    mr_reader_params params;
    const avfilter_api *api;
    AVFilterGraph *graph;
    AVFilterContext *sink;
    AVFrame *frame;
    mr_media *media;
    int64_t origin; /* first picture's time, in the sink's time base */
} lavfi_reader;

/* ---- allowed filters ------------------------------------------------------------------------------------------- */

static const char *skip_spaces(const char *at) {
    return at + strspn(at, " \n\t\r");
}

static int skip_labels(const char **at) {
    for (*at = skip_spaces(*at); **at == '['; *at = skip_spaces(*at)) {
        (*at)++;
        char *label = av_get_token(at, "]");
        av_free(label);
        if (!label || **at != ']')
            return mr_fail(MR_ERROR_CONFIG, "lavfi: a link label has no closing bracket");
        (*at)++;
    }
    return MR_OK;
}

static int check_name(char *name) {
    name[strcspn(name, "@")] = '\0';
    if (!*name)
        return mr_fail(MR_ERROR_CONFIG, "lavfi: name a filter, as in testsrc=size=640x480:duration=10");
    mr_nearest nearest = {.wanted = name};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (strcmp(name, harmless[i]) == 0)
            return MR_OK;
        mr_nearest_offer(&nearest, harmless[i]);
    }
    if (nearest.best)
        return mr_fail(MR_ERROR_CONFIG, "lavfi: unknown filter \"%s\"; did you mean \"%s\"?", name, nearest.best);
    return mr_fail(MR_ERROR_CONFIG,
                   "lavfi: the filter \"%s\" is not allowed: only test patterns and filters that open no files are "
                   "allowed",
                   name);
}

/* Parses the text exactly as libavfilter does, with the same tokenizer. */
int mr_reader_check_lavfi(const char *at) {
    for (;;) {
        int status = skip_labels(&at);
        if (status)
            return status;
        char *name = av_get_token(&at, "=,;[");
        status = name ? check_name(name) : mr_fail(MR_ERROR_MEMORY, "out of memory");
        av_free(name);
        if (status)
            return status;
        if (*at == '=') {
            at++;
            char *arguments = av_get_token(&at, "[],;");
            av_free(arguments);
        }
        status = skip_labels(&at);
        if (status || *at == '\0')
            return status;
        if (*at != ',' && *at != ';')
            return mr_fail(MR_ERROR_CONFIG, "lavfi: syntax error at \"%s\"", at);
        at++;
    }
}

/* ---- the graph ------------------------------------------------------------------------------------------------- */

/* libavfilter logs which option in which filter is wrong, and returns only that one is. */
static int fail_graph(const char *text, int error) {
    const char *complaint = mr_av_complaint();
    return mr_fail(MR_ERROR_CONFIG, "lavfi: %s: %s", text, *complaint ? complaint : mr_av_words(error));
}

static int build(lavfi_reader *reader, const char *text, AVFilterInOut **in, AVFilterInOut **out) {
    AVFilterGraph *graph = reader->graph;
    graph->nb_threads = 1;
    int error = reader->api->avfilter_graph_parse2(graph, text, in, out);
    if (error < 0)
        return fail_graph(text, error);
    if (*in || !*out || (*out)->next ||
        reader->api->avfilter_pad_get_type((*out)->filter_ctx->output_pads, (*out)->pad_idx) != AVMEDIA_TYPE_VIDEO)
        return mr_fail(MR_ERROR_CONFIG, "lavfi: %s: the graph must have no open input and one open video output",
                       text);
    const AVFilter *buffersink = reader->api->avfilter_get_by_name("buffersink");
    error = reader->api->avfilter_graph_create_filter(&reader->sink, buffersink, "millrace", NULL, NULL, graph);
    if (error >= 0)
        error = reader->api->avfilter_link((*out)->filter_ctx, (unsigned)(*out)->pad_idx, reader->sink, 0);
    if (error >= 0)
        error = reader->api->avfilter_graph_config(graph, NULL);
    return error < 0 ? fail_graph(text, error) : MR_OK;
}

static int open_graph(lavfi_reader *reader) {
    const char *text = reader->params.uri + strlen("lavfi:");
    if (!reader->api && !(reader->api = load_avfilter()))
        return MR_ERROR_UNAVAILABLE;
    reader->graph = reader->api->avfilter_graph_alloc();
    if (!reader->graph)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    AVFilterInOut *in = NULL, *out = NULL;
    mr_av_forget();
    int status = build(reader, text, &in, &out);
    reader->api->avfilter_inout_free(&in);
    reader->api->avfilter_inout_free(&out);
    if (status)
        return status;
    int width = reader->api->av_buffersink_get_w(reader->sink);
    int height = reader->api->av_buffersink_get_h(reader->sink);
    if ((int64_t)width * height > reader->params.max_pixels)
        return mr_fail(MR_ERROR_DATA, "lavfi: pictures of %dx%d are larger than max_pixels allows", width, height);
    reader->origin = AV_NOPTS_VALUE;
    return MR_OK;
}

static int describe(lavfi_reader *reader) {
    AVCodecParameters *codec = avcodec_parameters_alloc();
    if (!codec)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    codec->codec_type = AVMEDIA_TYPE_VIDEO;
    codec->codec_id = AV_CODEC_ID_RAWVIDEO;
    codec->format = reader->api->av_buffersink_get_format(reader->sink);
    codec->width = reader->api->av_buffersink_get_w(reader->sink);
    codec->height = reader->api->av_buffersink_get_h(reader->sink);
    codec->sample_aspect_ratio = reader->api->av_buffersink_get_sample_aspect_ratio(reader->sink);
    codec->codec_tag = avcodec_pix_fmt_to_codec_tag(codec->format);
    reader->media = mr_reader_describe(&reader->params, reader->params.uri, codec);
    avcodec_parameters_free(&codec);
    if (!reader->media)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    AVRational rate = reader->api->av_buffersink_get_frame_rate(reader->sink);
    if (rate.num > 0 && rate.den > 0) {
        reader->media->rate_num = rate.num;
        reader->media->rate_den = rate.den;
    }
    return MR_OK;
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static int copy_picture(const AVFrame *frame, mr_packet *packet) {
    const int bytes = av_image_get_buffer_size(frame->format, frame->width, frame->height, 1);
    const int status = bytes < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : mr_packet_room(packet, (size_t)bytes);
    if (!status)
        av_image_copy_to_buffer(packet->data, bytes, (const uint8_t *const *)frame->data, frame->linesize,
                                frame->format, frame->width, frame->height, 1);
    return status;
}

static int read_lavfi(mr_reader *base, mr_packet *packet) {
    lavfi_reader *reader = (lavfi_reader *)base;
    av_frame_unref(reader->frame);
    int error = reader->api->av_buffersink_get_frame(reader->sink, reader->frame);
    if (error == AVERROR_EOF)
        return MR_END;
    if (error < 0)
        return mr_fail(mr_av_status(error), "%s: %s", reader->params.uri, mr_av_words(error));
    if (reader->origin == AV_NOPTS_VALUE)
        reader->origin = reader->frame->pts;
    AVRational time_base = reader->api->av_buffersink_get_time_base(reader->sink);
    int64_t pts_ns = mr_ticks_ns(reader->frame->pts, reader->origin, time_base);
    if (reader->params.end_ns > 0 && pts_ns >= reader->params.end_ns)
        return MR_END;
    int status = copy_picture(reader->frame, packet);
    if (status)
        return status;
    packet->pts_ns = packet->dts_ns = pts_ns;
    packet->duration_ns = mr_media_interval_ns(reader->media);
    packet->flags = MR_FRAME_KEY;
    packet->media = mr_media_ref(reader->media);
    return MR_OK;
}

static int rewind_lavfi(mr_reader *base) {
    lavfi_reader *reader = (lavfi_reader *)base;
    reader->api->avfilter_graph_free(&reader->graph);
    return open_graph(reader);
}

static void destroy_lavfi(mr_reader *base) {
    lavfi_reader *reader = (lavfi_reader *)base;
    av_frame_free(&reader->frame);
    if (reader->api)
        reader->api->avfilter_graph_free(&reader->graph);
    mr_media_unref(&reader->media);
    mr_free(reader);
}

static int survey_lavfi(mr_reader *base, mr_survey *survey) {
    const mr_media *media = ((lavfi_reader *)base)->media;
    mr_probe probe;
    if (mr_probe_open(&probe, media->codec, ((lavfi_reader *)base)->params.max_pixels))
        mr_probe_survey(probe.codec, media, survey);
    mr_probe_close(&probe);
    survey->rate = media->rate_num ? (double)media->rate_num / media->rate_den : 0;
    return MR_OK;
}

static const mr_reader_type lavfi_type = {.survey = survey_lavfi, .read = read_lavfi, .rewind = rewind_lavfi,
                                          .destroy = destroy_lavfi};

int mr_reader_open_lavfi(mr_reader **result, const mr_reader_params *params) {
    lavfi_reader *reader = mr_calloc(1, sizeof *reader);
    if (!reader)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *reader = (lavfi_reader){.base.type = &lavfi_type, .params = *params, .frame = av_frame_alloc()};
    int status = reader->frame ? open_graph(reader) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status)
        status = describe(reader);
    if (status) {
        destroy_lavfi(&reader->base);
        return status;
    }
    *result = &reader->base;
    return MR_OK;
}
