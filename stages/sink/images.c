/* images: every picture as a PNG file. Pictures are converted to RGB, or gray, with their own matrix, range and
 * chroma siting; samples of more than 8 bits become 16. They are written as they are stored, not turned. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "stages/list.h"
#include "stages/media/picture_format.h"
#include "stages/sink/output.h"

enum { NAME_BYTES = 256, PATH_BYTES = 4096 };

typedef struct images_options {
    const char *path;
    const char *name;
    bool overwrite;
    int64_t compression;
    int on_full;
} images_options;

typedef struct images_state {
    mr_format format;          /* that the parts below were made for */
    struct SwsContext *scaler;
    AVCodecContext *encoder;
    AVFrame *picture;          /* converted */
    AVPacket *packet;
    bool encoded;              /* the packet waits for room on the disk */
    bool held_files;           /* the folder, when it was opened */
    bool begun, overwrite;     /* it is known whether those are of this run; files may be written again */
    mr_full full;
} images_state;

#define FIELD(name) offsetof(images_options, name)
static const mr_option options[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_FOLDER, .offset = FIELD(path), .required = true,
     .example = "pictures",
     .help = "folder to write to; it is made if it does not exist"},
    {.name = "name", .kind = MR_OPTION_STRING, .file = MR_FILE_NAME, .offset = FIELD(name),
     .fallback = "{source}-{seq}.png",
     .help = "name of each file; {source}, {epoch}, {seq} and {sub} are replaced, {seq} by six digits, which from "
             "the second turn of a loop on have the epoch before them if the name has no {epoch}"},
    {.name = "overwrite", .kind = MR_OPTION_BOOL, .offset = FIELD(overwrite), .fallback = "false",
     .help = "write into a folder that holds files already, over those of the same name"},
    {.name = "compression", .kind = MR_OPTION_INT, .offset = FIELD(compression), .fallback = "3", .min = 0, .max = 9,
     .help = "of the files: 0 fastest, 9 smallest"},
    MR_ON_FULL_OPTION(FIELD(on_full)),
    MR_OPTIONS_END};

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures of any size and layout", .accepts = pictures}, {0}};

/* ---- names ----------------------------------------------------------------------------------------------------- */

static const char *const tokens[] = {"{source}", "{epoch}", "{seq}", "{sub}"};
enum { SOURCE, EPOCH, SEQ, SUB, TOKENS };

/* The token that the text begins with; TOKENS if there is none. */
static int token_at(const char *text) {
    int token = 0;
    while (token < TOKENS && strncmp(text, tokens[token], strlen(tokens[token])) != 0)
        token++;
    return token;
}

/* 0 if every brace belongs to a token, and the text has no slash and has {seq}. */
static int check_name(const char *name) {
    bool numbered = false;
    for (const char *at = name; *at; at++) {
        int token = token_at(at);
        if (*at == '/' || (token == TOKENS && (*at == '{' || *at == '}')))
            return -1;
        numbered |= token == SEQ;
        if (token < TOKENS)
            at += strlen(tokens[token]) - 1;
    }
    return numbered ? 0 : -1;
}

static int print_token(char *text, size_t room, int token, const mr_stage *self, const mr_identity *identity,
                       bool with_epoch) {
    switch (token) {
    case SOURCE:
        return snprintf(text, room, "%s", mr_stage_source_id(self, identity->source));
    case EPOCH:
        return snprintf(text, room, "%" PRIu32, identity->epoch);
    case SUB:
        return snprintf(text, room, "%" PRIu32, identity->sub);
    default:
        if (with_epoch)
            return snprintf(text, room, "%" PRIu32 "-%06" PRIu64, identity->epoch, identity->seq);
        return snprintf(text, room, "%06" PRIu64, identity->seq);
    }
}

static int file_name(const mr_stage *self, const mr_identity *identity, char name[NAME_BYTES]) {
    const images_options *given = self->options;
    bool with_epoch = identity->epoch > 0 && !strstr(given->name, tokens[EPOCH]);
    size_t length = 0;
    for (const char *at = given->name; *at;) {
        int token = token_at(at), added = 1;
        if (token < TOKENS)
            added = print_token(name + length, NAME_BYTES - length, token, self, identity, with_epoch);
        else
            name[length] = *at;
        at += token < TOKENS ? strlen(tokens[token]) : 1;
        length += (size_t)added;
        if (length >= NAME_BYTES)
            return mr_fail(MR_ERROR_IO, "the name of a picture's file is longer than %d bytes", NAME_BYTES - 1);
    }
    name[length] = '\0';
    for (char *slash = name; (slash = strchr(slash, '/'));)
        *slash = '_';
    return MR_OK;
}

/* ---- start ----------------------------------------------------------------------------------------------------- */

/* If it is not a folder, or cannot be opened, the check of all outputs refuses it. */
static bool holds_files(const char *path) {
    DIR *folder = opendir(path);
    bool found = false;
    if (!folder)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(folder));)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return found;
}

static const char HOLDS_FILES[] = "%s is not empty: remove its files, or set overwrite: true";

static int negotiate(mr_negotiation *negotiation) {
    const images_options *given = negotiation->options;
    if (check_name(given->name))
        return mr_refuse(negotiation, "name",
                         "name must hold {seq}, may hold {source}, {epoch} and {sub}, and no slash: \"%s\"",
                         given->name);
    if (!negotiation->offline && !negotiation->returns && !given->overwrite && holds_files(given->path))
        return mr_refuse(negotiation, "path", HOLDS_FILES, given->path);
    return MR_OK;
}

/* Files of this run may be there if it goes on: those of frames that come again are written again. MR_ERROR_AGAIN while
 * that is not known. */
static int begin(mr_stage *self) {
    const images_options *given = self->options;
    images_state *state = self->state;
    if (state->begun)
        return MR_OK;
    mr_run_state run = mr_stage_run_state(self);
    if (run == MR_RUN_UNKNOWN)
        return MR_ERROR_AGAIN;
    if (run == MR_RUN_BEGINS && state->held_files && !state->overwrite)
        return mr_fail(MR_ERROR_CONFIG, HOLDS_FILES, given->path);
    state->overwrite |= run == MR_RUN_GOES_ON;
    state->begun = true;
    return MR_OK;
}

static int open_images(mr_stage *self) {
    const images_options *given = self->options;
    images_state *state = self->state;
    int status = mr_file_make_folder(given->path);
    if (status)
        return status;
    state->full = mr_full_make(self, given->on_full);
    state->overwrite = given->overwrite;
    state->held_files = holds_files(given->path);
    status = begin(self);
    if (status && status != MR_ERROR_AGAIN)
        return status;
    state->picture = av_frame_alloc();
    state->packet = av_packet_alloc();
    return state->picture && state->packet ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

static void close_parts(images_state *state) {
    sws_freeContext(state->scaler);
    state->scaler = NULL;
    avcodec_free_context(&state->encoder);
    if (state->picture)
        av_frame_unref(state->picture);
}

static void close_images(mr_stage *self) {
    images_state *state = self->state;
    close_parts(state);
    av_frame_free(&state->picture);
    av_packet_free(&state->packet);
}

/* ---- conversion ------------------------------------------------------------------------------------------------ */

static enum AVPixelFormat png_format(mr_pixel pixel) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    const AVPixFmtDescriptor *av = av_pix_fmt_desc_get(mr_pixel_to_av(pixel));
    if (pixel == MR_PIXEL_YA8)
        return AV_PIX_FMT_YA8;
    if (info->components == 1)
        return info->depth > 8 ? AV_PIX_FMT_GRAY16BE : AV_PIX_FMT_GRAY8;
    if (info->depth > 8)
        return AV_PIX_FMT_RGB48BE;
    return av->flags & AV_PIX_FMT_FLAG_ALPHA ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
}

static int make_encoder(const mr_stage *self, images_state *state, const mr_format *format, enum AVPixelFormat to) {
    const images_options *given = self->options;
    const AVCodec *png = avcodec_find_encoder(AV_CODEC_ID_PNG);
    AVCodecContext *encoder = png ? avcodec_alloc_context3(png) : NULL;
    if (!encoder)
        return mr_fail(MR_ERROR_UNAVAILABLE, "this FFmpeg has no PNG encoder");
    state->encoder = encoder;
    encoder->width = format->width;
    encoder->height = format->height;
    encoder->pix_fmt = to;
    encoder->time_base = (AVRational){1, 25};
    encoder->thread_count = 1;
    encoder->compression_level = (int)given->compression;
    if (format->sar_num > 0 && format->sar_den > 0)
        encoder->sample_aspect_ratio = (AVRational){format->sar_num, format->sar_den};
    int error = avcodec_open2(encoder, png, NULL);
    return error < 0 ? mr_fail(MR_ERROR_DATA, "the PNG encoder does not start: error %d", error) : MR_OK;
}

static bool same_parts(const mr_format *a, const mr_format *b) {
    return a->pixel == b->pixel && a->width == b->width && a->height == b->height && a->matrix == b->matrix &&
           a->range == b->range && a->siting == b->siting && a->sar_num == b->sar_num && a->sar_den == b->sar_den;
}

/* Makes scaler, encoder and picture for a format, if those at hand are for another. */
static int prepare(const mr_stage *self, images_state *state, const mr_format *format) {
    if (state->encoder && same_parts(&state->format, format))
        return MR_OK;
    close_parts(state);
    enum AVPixelFormat to = png_format(format->pixel);
    const mr_picture_target target = {format->width, format->height, to, mr_swscale_matrix(format)};
    state->picture->format = to;
    state->picture->width = format->width;
    state->picture->height = format->height;
    int status = av_frame_get_buffer(state->picture, 0) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
    if (!status)
        status = mr_picture_scaler(&state->scaler, format, &target);
    if (!status)
        status = make_encoder(self, state, format, to);
    if (status)
        close_parts(state);
    state->format = *format;
    return status;
}

static int encode(images_state *state, const mr_frame *frame) {
    uint8_t *planes[4];
    int strides[4];
    mr_picture_planes(frame, planes, strides);
    if (av_frame_make_writable(state->picture) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    sws_scale(state->scaler, (const uint8_t *const *)planes, strides, 0, frame->format.height, state->picture->data,
              state->picture->linesize);
    int error = avcodec_send_frame(state->encoder, state->picture);
    if (error >= 0)
        error = avcodec_receive_packet(state->encoder, state->packet);
    return error < 0 ? mr_fail(MR_ERROR_DATA, "a picture could not be written as PNG: error %d", error) : MR_OK;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int write_all(int fd, const uint8_t *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(fd, data + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return -1;
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

static int fail_file(const mr_stage *self, const char *path, int error) {
    images_state *state = self->state;
    int status = mr_full_meet(&state->full, self, error, path);
    return status ? status : mr_fail(MR_ERROR_IO, "%s: %s", path, strerror(error));
}

/* A file that could not be written whole is removed. MR_ERROR_AGAIN: to be tried again. */
static int write_file(const mr_stage *self, const char *name, const AVPacket *packet) {
    const images_options *given = self->options;
    images_state *state = self->state;
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", given->path, name) >= sizeof path)
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", given->path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (state->overwrite ? O_TRUNC : O_EXCL), 0666);
    if (fd < 0)
        return fail_file(self, path, errno);
    int failed = write_all(fd, packet->data, (size_t)packet->size), error = errno;
    if (close(fd) && !failed) {
        failed = -1;
        error = errno;
    }
    if (!failed) {
        mr_full_pass(&state->full, self, path);
        return MR_OK;
    }
    unlink(path);
    return fail_file(self, path, error);
}

static int process(mr_stage *self, mr_io *io) {
    images_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    char name[NAME_BYTES];
    int status = begin(self);
    if (status)
        return mr_output_await_begin(io, status);
    if (!state->encoded)
        status = prepare(self, state, &frame->format);
    if (!status && !state->encoded)
        status = encode(state, frame);
    if (status == MR_ERROR_DATA) {
        mr_stage_warn(self, "%s", mr_message());
        mr_io_drop(io, frame, "cannot be written");
        return MR_DONE;
    }
    if (!status)
        status = file_name(self, &frame->identity, name);
    if (!status)
        status = write_file(self, name, state->packet);
    state->encoded = status == MR_ERROR_AGAIN;
    if (!state->encoded)
        av_packet_unref(state->packet);
    return status ? mr_output_failed(io, frame, status) : MR_DONE;
}

const mr_stage_type mr_images_stage = {
    .name = "images",
    .summary = "writes pictures as PNG files",
    .help = "Converts with the picture's own matrix, range and chroma siting; gray stays gray, alpha is "
            "kept, samples of more than 8 bits become 16. Pictures are written as they are stored, not "
            "turned.",
    .inputs = inputs,
    .options = options,
    .options_bytes = sizeof(images_options),
    .state_bytes = sizeof(images_state),
    .entry = MR_ENTRY_SHARED,
    .blocking = true,
    .negotiate = negotiate,
    .open = open_images,
    .process = process,
    .resumes = true,
    .close = close_images,
};
