/* Reads file lists. A still image is one packet, read whole. media_file.c reads videos, which a list can name too, with
 * a time range. Sizes and formats may be mixed. Each image has a separate media, which names its file; images with one
 * format share codec parameters, so that the decoder need not be reopened. */
#include "stages/media/media_images.h"

#include <inttypes.h>
#include <libavcodec/avcodec.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "millrace/log.h"
#include "stages/media/media_file.h"
#include "stages/media/media_input.h"
#include "stages/media/media_list.h"
#include "stages/media/media_picture.h"
#include "stages/media/media_probe.h"
#include "stages/media/still/heif.h"
#include "stages/media/still/kinds.h"
#include "stages/media/still/still.h"

enum { MOST_CODECS = 32, HEAD_BYTES = 64 * 1024 };

/* Lives until the reader and the last media are released. */
typedef struct image_shelf {
    mr_image_list list;
    AVCodecParameters *codec[MOST_CODECS];
    int codecs;
    pthread_mutex_t lock;
    struct image_media *idle; /* guarded by lock */
    int references;           /* guarded by lock */
} image_shelf;

typedef struct image_media {
    mr_media media;
    image_shelf *shelf;
    struct image_media *next;
} image_media;

typedef struct image_reader {
    mr_reader base;
    mr_reader_params params;
    image_shelf *shelf;
    size_t at;
    bool has_videos;
    mr_reader *clip; /* reads the video in row `at`; NULL: not open */
} image_reader;

/* ---- the shelf ------------------------------------------------------------------------------------------------- */

static void free_shelf(image_shelf *shelf) {
    for (image_media *media = shelf->idle, *next; media; media = next) {
        next = media->next;
        mr_free(media);
    }
    for (int i = 0; i < shelf->codecs; i++)
        avcodec_parameters_free(&shelf->codec[i]);
    mr_image_list_fini(&shelf->list);
    pthread_mutex_destroy(&shelf->lock);
    mr_free(shelf);
}

/* Drops a reference and can keep a media for the next image. */
static void drop_shelf(image_shelf *shelf, image_media *media) {
    pthread_mutex_lock(&shelf->lock);
    if (media) {
        media->next = shelf->idle;
        shelf->idle = media;
    }
    bool last = --shelf->references == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (last)
        free_shelf(shelf);
}

static void release_media(mr_media *media) {
    image_media *self = (image_media *)media;
    drop_shelf(self->shelf, self);
}

static image_media *take_media(image_shelf *shelf) {
    pthread_mutex_lock(&shelf->lock);
    image_media *media = shelf->idle;
    if (media)
        shelf->idle = media->next;
    pthread_mutex_unlock(&shelf->lock);
    if (!media)
        media = mr_alloc(sizeof *media);
    if (!media)
        return NULL;
    pthread_mutex_lock(&shelf->lock);
    shelf->references++;
    pthread_mutex_unlock(&shelf->lock);
    return media;
}

/* A codec's parameters, created for its first image. Only the reader's thread may call this. */
static AVCodecParameters *codec_of(image_shelf *shelf, enum AVCodecID id) {
    for (int i = 0; i < shelf->codecs; i++)
        if (shelf->codec[i]->codec_id == id)
            return shelf->codec[i];
    if (shelf->codecs == MOST_CODECS)
        return NULL;
    AVCodecParameters *codec = mr_picture_codec(id);
    if (codec)
        shelf->codec[shelf->codecs++] = codec;
    return codec;
}

static mr_media *describe(image_reader *reader, const mr_image_file *file, const mr_picture_kind *kind) {
    image_shelf *shelf = reader->shelf;
    const mr_reader_params *params = &reader->params;
    AVCodecParameters *codec = codec_of(shelf, kind->id);
    image_media *media = codec ? take_media(shelf) : NULL;
    if (!media)
        return NULL;
    media->shelf = shelf;
    media->media = (mr_media){.path = file->path,
                              .is_file = true,
                              .still = true,
                              .label = file->label < 0 ? NULL : shelf->list.label[file->label],
                              .label_index = file->label,
                              .codec = codec,
                              .rotation = kind->upright.rotation,
                              .flip = kind->upright.flip,
                              .frames = (int64_t)shelf->list.count * params->loops,
                              .start_ns = params->start_ns,
                              .end_ns = params->end_ns,
                              .every = reader->has_videos ? 1 : params->every,
                              .fps = reader->has_videos ? 0 : params->fps,
                              .release = release_media};
    AVRational rate = av_d2q(params->rate, 1000000);
    media->media.rate_num = rate.num;
    media->media.rate_den = rate.den;
    mr_references_begin(&media->media.references);
    return &media->media;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* libavformat's name for a file that is not a picture; NULL if it is one, or cannot be read. */
static const char *other_kind(const char *path, const mr_stage *stage) {
    mr_packet head = {0};
    if (mr_picture_load(path, stage, HEAD_BYTES, &head))
        return NULL;
    mr_heif heif;
    AVProbeData probe = {.filename = path, .buf = head.data, .buf_size = (int)head.bytes};
    const AVInputFormat *format = av_probe_input_format(&probe, 1);
    bool other = format && !mr_input_image_codec(format) && !mr_heif_read(head.data, head.bytes, &heif);
    mr_buffer_unref(&head.buffer);
    return other ? format->long_name : NULL;
}

/* Videos whose names do not show it would all be dropped as damaged pictures. */
static int refuse_videos(const image_reader *reader) {
    const mr_image_list *list = &reader->shelf->list;
    const char *kind = reader->has_videos || mr_image_list_names_images(list)
                           ? NULL
                           : other_kind(list->file[0].path, reader->params.stage);
    if (!kind)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: %s is not a picture (%s); for videos give a folder of them, or a glob that "
                                  "matches only videos",
                   reader->params.uri, list->file[0].path, kind);
}

int mr_reader_spread(const char *uri, int (*add)(void *context, const char *uri), void *context) {
    mr_input_kind kind;
    mr_image_list list;
    bool plain = strcmp(uri, "-") != 0 && !strstr(uri, "://") && strncmp(uri, "lavfi:", 6) != 0;
    if (!plain || mr_input_look(uri, &kind) || (kind != MR_INPUT_FOLDER && kind != MR_INPUT_GLOB))
        return MR_OK;
    if (mr_video_list_make(&list, uri, kind) || list.count == 0)
        return MR_OK;
    char left_out[MR_IMAGE_LIST_TEXT];
    int status = MR_OK;
    if (kind == MR_INPUT_FOLDER && mr_image_list_says(&list, left_out))
        mr_log(MR_LOG_WARNING, "%s: %s", uri, left_out);
    if (kind == MR_INPUT_FOLDER || mr_is_video_by_name(list.file[0].path) || other_kind(list.file[0].path, NULL))
        for (size_t i = 0; i < list.count && !status; i++)
            status = add(context, list.file[i].path);
    mr_image_list_fini(&list);
    return status;
}

/* Each video in a list is an epoch, since its times restart, and so are the pictures between two videos. */
static bool begins_epoch(const mr_image_list *list, size_t row) {
    return list->file[row].video || (row > 0 && list->file[row - 1].video);
}

static size_t row_of_epoch(const mr_image_list *list, uint32_t epoch) {
    size_t row = 0;
    for (uint32_t begun = 0; row < list->count && begun < epoch;)
        begun += ++row < list->count && begins_epoch(list, row);
    return row;
}

static bool is_past_end(const image_reader *reader, int64_t pts_ns) {
    return reader->at >= reader->shelf->list.count || (reader->params.end_ns > 0 && pts_ns >= reader->params.end_ns);
}

/* An unreadable file gives an empty packet marked as damaged, so that it is counted like any other. */
static int read_image(image_reader *reader, mr_packet *packet) {
    double step_ns = 1e9 / reader->params.rate;
    int64_t pts_ns = llround((double)reader->at * step_ns);
    if (is_past_end(reader, pts_ns))
        return MR_END;
    const mr_image_file *file = &reader->shelf->list.file[reader->at];
    mr_picture_kind kind = {.id = AV_CODEC_ID_PNG};
    int status = mr_picture_load(file->path, reader->params.stage, SIZE_MAX, packet);
    if (status == MR_ERROR_MEMORY)
        return status;
    if (!status)
        mr_picture_unpack(file->path, packet, &kind);
    else if (reader->params.stage)
        mr_stage_warn(reader->params.stage, "%s", mr_message());
    packet->flags = MR_FRAME_KEY | (status ? MR_FRAME_CORRUPT : 0);
    packet->media = describe(reader, file, &kind);
    if (!packet->media) {
        mr_buffer_unref(&packet->buffer);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    packet->pts_ns = packet->dts_ns = pts_ns;
    packet->duration_ns = llround(step_ns);
    packet->begins_epoch = begins_epoch(&reader->shelf->list, reader->at);
    reader->at++;
    return MR_OK;
}

/* Opens a listed video, or the range that the row asks for. */
static int open_clip(image_reader *reader, const mr_image_file *file, bool probe, mr_reader **clip) {
    mr_reader_params params = reader->params;
    params.uri = file->path;
    params.labels = false;
    params.probe = probe;
    params.start_ns = file->start_ns;
    params.end_ns = file->end_ns;
    params.loops = 1;
    params.label = file->label < 0 ? NULL : reader->shelf->list.label[file->label];
    params.label_index = file->label;
    return mr_reader_open_file(clip, &params);
}

/* Emits an empty packet for an unreadable video, or the rest, as for an unreadable picture. */
static int mark_damaged(image_reader *reader, const mr_image_file *file, mr_packet *packet) {
    if (reader->params.stage)
        mr_stage_warn(reader->params.stage, "%s", mr_message());
    packet->flags = MR_FRAME_KEY | MR_FRAME_CORRUPT;
    mr_picture_kind kind = {.id = AV_CODEC_ID_PNG};
    packet->media = describe(reader, file, &kind);
    return packet->media ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

/* MR_END after the video's last packet. */
static int read_clip(image_reader *reader, mr_packet *packet) {
    const mr_image_file *file = &reader->shelf->list.file[reader->at];
    const bool begins = !reader->clip;
    int status = begins ? open_clip(reader, file, false, &reader->clip) : MR_OK;
    if (!status)
        status = mr_reader_read(reader->clip, packet);
    packet->begins_epoch = begins;
    if (status == MR_OK)
        return MR_OK;
    mr_reader_destroy(&reader->clip);
    reader->at++;
    if (status == MR_ERROR_MEMORY || status == MR_ERROR_CANCELLED || (status == MR_END && !begins))
        return status;
    if (status == MR_END)
        mr_fail(MR_ERROR_DATA, "%s: has no pictures from %.9g s on", file->path, (double)file->start_ns / 1e9);
    return mark_damaged(reader, file, packet);
}

static int read_file(mr_reader *base, mr_packet *packet) {
    image_reader *reader = (image_reader *)base;
    const mr_image_list *list = &reader->shelf->list;
    int status = MR_END;
    while (status == MR_END && reader->at < list->count && list->file[reader->at].video)
        status = read_clip(reader, packet);
    return status == MR_END ? read_image(reader, packet) : status;
}

static int rewind_images(mr_reader *base) {
    image_reader *reader = (image_reader *)base;
    mr_reader_destroy(&reader->clip);
    reader->at = (size_t)ceil((double)reader->params.start_ns * reader->params.rate / 1e9);
    return MR_OK;
}

static void destroy_images(mr_reader *base) {
    image_reader *reader = (image_reader *)base;
    mr_reader_destroy(&reader->clip);
    if (reader->shelf)
        drop_shelf(reader->shelf, NULL);
    mr_free(reader);
}

/* ---- survey --------------------------------------------------------------------------------------------------- */

/* Limits. Beyond MOST_FILES files, only a sample is read: it shows the usual size, but not the largest. As few bytes as
 * possible are read: libavcodec accepts a JPEG header only if a byte for every 256 pixels follows. */
enum { MOST_FILES = 10000, SAMPLE = 1000 };
static const size_t looks[] = {HEAD_BYTES, 16 * HEAD_BYTES, SIZE_MAX};

/* Probes an image's first `most` bytes with a new decoder: a decoder does not report the same size twice. */
static bool look_at(image_reader *reader, const char *path, size_t most, mr_survey *found) {
    mr_packet head = {0};
    mr_heif heif;
    if (mr_picture_load(path, reader->params.stage, most, &head))
        return false;
    if (mr_heif_read(head.data, head.bytes, &heif)) {
        mr_buffer_unref(&head.buffer);
        return mr_picture_survey_heif(&heif, found);
    }
    enum AVCodecID id = mr_picture_recognise(path, head.data, head.bytes);
    const AVCodecParameters *codec = codec_of(reader->shelf, id);
    mr_probe probe = {0};
    if (id == AV_CODEC_ID_PNG)
        mr_png_shorten(head.data, head.bytes);
    bool known = codec && mr_probe_open(&probe, codec, reader->params.max_pixels) &&
                 mr_probe_look(&probe, head.data, head.bytes);
    if (known)
        mr_probe_survey(probe.codec, NULL, found);
    mr_probe_close(&probe);
    mr_buffer_unref(&head.buffer);
    return known;
}

static bool look_at_clip(image_reader *reader, const mr_image_file *file, mr_survey *found) {
    mr_reader *clip;
    if (open_clip(reader, file, true, &clip))
        return false;
    int status = mr_reader_survey(clip, found);
    mr_reader_destroy(&clip);
    return status == MR_OK && found->mean_pixels > 0;
}

/* Reads as much as the image's header needs. */
static bool look_closer(image_reader *reader, const char *path, mr_survey *found) {
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (look_at(reader, path, looks[i], found))
            return true;
    return false;
}

/* Surveys every `step`th image. If a header cannot be read, the image cannot be decoded either. */
static void look_at_files(image_reader *reader, size_t from, size_t to, size_t step, mr_survey *survey) {
    int64_t pixels = 0, known = 0;
    for (size_t i = from; i < to; i += step) {
        const mr_image_file *file = &reader->shelf->list.file[i];
        mr_survey one = {0};
        if (!(file->video ? look_at_clip(reader, file, &one) : look_closer(reader, file->path, &one)))
            continue;
        if (known)
            mr_format_set_widen(&survey->set, &one.set);
        else
            survey->set = one.set;
        pixels += one.mean_pixels;
        known++;
        survey->references = one.references > survey->references ? one.references : survey->references;
    }
    survey->mean_pixels = known ? pixels / known : 0;
}

static int survey_images(mr_reader *base, mr_survey *survey) {
    image_reader *reader = (image_reader *)base;
    const mr_reader_params *params = &reader->params;
    size_t from = reader->at, to = reader->shelf->list.count;
    if (params->end_ns > 0) {
        double end = ceil((double)params->end_ns * params->rate / 1e9);
        to = end < (double)to ? (size_t)end : to;
    }
    mr_image_list_says(&reader->shelf->list, survey->remark);
    survey->rate = params->rate;
    survey->frames = from < to ? (int64_t)(to - from) : 0;
    survey->stills = !reader->has_videos;
    survey->epochs = reader->has_videos;
    if (survey->frames <= MOST_FILES) {
        look_at_files(reader, from, to, 1, survey);
        survey->frames = reader->has_videos ? 0 : survey->frames;
        return MR_OK;
    }
    const mr_format_set open = survey->set;
    look_at_files(reader, from, to, (size_t)survey->frames / SAMPLE, survey);
    survey->set = open;
    mr_log(MR_LOG_INFO, "%s: has %" PRId64 " images; of more than %d the plan does not find the largest",
           params->uri, survey->frames, MOST_FILES);
    survey->frames = reader->has_videos ? 0 : survey->frames;
    return MR_OK;
}

static const mr_reader_type images_type = {.survey = survey_images, .read = read_file, .rewind = rewind_images,
                                           .destroy = destroy_images};

static bool names_videos(const mr_image_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->file[i].video)
            return true;
    return false;
}

int mr_reader_open_images(mr_reader **result, const mr_reader_params *params) {
    mr_input_kind kind;
    int status = mr_input_look(params->uri, &kind);
    if (status)
        return status;
    image_reader *reader = mr_calloc(1, sizeof *reader);
    image_shelf *shelf = mr_calloc(1, sizeof *shelf);
    if (!reader || !shelf) {
        mr_free(reader);
        mr_free(shelf);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    pthread_mutex_init(&shelf->lock, NULL);
    shelf->references = 1;
    *reader = (image_reader){.base.type = &images_type, .params = *params, .shelf = shelf};
    status = mr_image_list_make(&shelf->list, params->uri, kind, params->labels, params->start_number);
    reader->has_videos = !status && names_videos(&shelf->list);
    if (reader->has_videos && (params->start_ns || params->end_ns))
        status = mr_fail(MR_ERROR_DATA, "%s: names videos, each with its own range: remove start and duration",
                         params->uri);
    if (!status && kind != MR_INPUT_FOLDER && kind != MR_INPUT_FILE)
        status = refuse_videos(reader);
    if (status) {
        destroy_images(&reader->base);
        return status;
    }
    if (shelf->list.missing && params->stage)
        mr_stage_warn(params->stage, "%s is missing: pictures with higher numbers are not read", shelf->list.missing);
    char left_out[MR_IMAGE_LIST_TEXT];
    if (params->stage && mr_image_list_says(&shelf->list, left_out))
        mr_stage_warn(params->stage, "%s: %s", params->uri, left_out);
    rewind_images(&reader->base);
    if (reader->has_videos)
        reader->at = row_of_epoch(&shelf->list, params->first_epoch);
    *result = &reader->base;
    return MR_OK;
}
