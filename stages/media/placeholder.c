#include "stages/media/placeholder.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"
#include "stages/sketch/font.h"
#include "stages/sketch/sketch.h"

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

/* A picture that is painted in steps. */
typedef struct canvas {
    const mr_frame *frame;
    mr_font *font;
    mr_sketch sketch;
    void *memory;
} canvas;

/* Paints the sketch, and begins a new one. */
static int paint(canvas *c) {
    const mr_paint_work work = mr_sketch_work(&c->sketch, c->frame, c->memory);
    int status = mr_paint(&work);
    mr_sketch_begin(&c->sketch, &c->frame->format, c->memory);
    return status;
}

/* Adds a line in the middle of the picture's width. MR_ERROR_DATA: it is too large. */
static int add_line(mr_sketch *sketch, mr_font *font, const char *text, double top) {
    static const mr_ink white = {{255, 255, 255}, 255};
    const uint64_t left_out = sketch->left_out;
    mr_text_line line;
    int status = mr_font_line(font, text, &line);
    if (status)
        return status;
    const double left = (sketch->width - line.width) / 2 + line.left;
    const mr_area bounds = {left, top, left + line.columns, top + line.rows};
    uint8_t *cells = mr_sketch_room(sketch, bounds, line.columns, line.rows);
    if (!cells)
        return sketch->left_out == left_out ? MR_OK : mr_fail(MR_ERROR_DATA, "a text is too large to be drawn");
    memcpy(cells, line.cover, (size_t)line.columns * (size_t)line.rows);
    mr_sketch_stencil(sketch, bounds, line.columns, line.rows, white);
    return MR_OK;
}

/* Letters become smaller until the line fits into the memory of fonts and sketches. */
static int paint_line(canvas *c, const char *text, int size, double top) {
    int status = MR_ERROR_DATA;
    for (; status == MR_ERROR_DATA && size > 0; size -= (size + 3) / 4) {
        status = mr_font_resize(c->font, size, INT32_MAX);
        if (!status)
            status = add_line(&c->sketch, c->font, text, top);
    }
    return status ? status : paint(c);
}

/* Paints the lines of a text below each other, on gray. */
static int paint_lines(canvas *c, const char *text) {
    static const mr_ink gray = {{32, 32, 32}, 255};
    const int size = font_size(text, (mr_size){c->sketch.width, c->sketch.height}), pitch = size + size / 2;
    int count = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line != '\0')
        count++;
    double top = (c->sketch.height - count * pitch) / 2;
    mr_sketch_rectangle(&c->sketch, (mr_area){0, 0, c->sketch.width, c->sketch.height}, gray);
    int status = paint(c);
    while (*text && !status) {
        char line[MR_PLACEHOLDER_TEXT];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
        status = paint_line(c, line, size, top);
        text += strcspn(text, "\n");
        text += *text != '\0';
        top += pitch;
    }
    return status;
}

static int paint_words(const mr_frame *frame, mr_font *font, const char *text) {
    canvas c = {.frame = frame, .font = font, .memory = mr_alloc(MR_SKETCH_BYTES)};
    if (!c.memory)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    mr_sketch_begin(&c.sketch, &frame->format, c.memory);
    int status = paint_lines(&c, text);
    mr_free(c.memory);
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

static int describe_raw(const AVCodecParameters *like, mr_size size, AVCodecParameters **made) {
    AVCodecParameters *codec = *made = avcodec_parameters_alloc();
    if (!codec)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    size = size_of(like, size);
    codec->codec_type = AVMEDIA_TYPE_VIDEO;
    codec->codec_id = AV_CODEC_ID_RAWVIDEO;
    codec->format = layout_of(like);
    codec->codec_tag = avcodec_pix_fmt_to_codec_tag(codec->format);
    codec->width = size.width;
    codec->height = size.height;
    return MR_OK;
}

/* Grays are alike in all matrices. */
static mr_format format_of(const AVCodecParameters *codec, const AVCodecParameters *like) {
    const bool full = codec->format == AV_PIX_FMT_YUVJ420P || codec->format == AV_PIX_FMT_YUVJ422P ||
                      (like && like->color_range == AVCOL_RANGE_JPEG);
    return (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = mr_pixel_from_av(codec->format), .width = codec->width,
                       .height = codec->height, .range = full ? MR_RANGE_FULL : MR_RANGE_ANY};
}

static int draw(const mr_placeholder *placeholder, const char *text, mr_size size, const mr_reader_params *params,
                mr_packet *picture) {
    const AVCodecParameters *like = placeholder->like ? placeholder->like->codec : NULL;
    AVCodecParameters *codec = NULL;
    mr_font *font = NULL;
    int status = mr_font_open(&font, "Sans");
    if (status == MR_ERROR_NO_INPUT)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "words cannot be drawn: %s", mr_message());
    if (!status)
        status = describe_raw(like, size, &codec);
    if (!status) {
        mr_frame frame = {.format = format_of(codec, like)};
        status = mr_packet_room(picture, mr_packed_bytes(&frame.format));
        if (!status) {
            mr_lay_out(&frame.format, 1, picture->data, frame.plane);
            status = paint_words(&frame, font, text);
        }
    }
    if (!status && !(picture->media = describe(codec, placeholder->like, params)))
        status = mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (status)
        mr_packet_drop(picture);
    avcodec_parameters_free(&codec);
    mr_font_close(&font);
    return status;
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
