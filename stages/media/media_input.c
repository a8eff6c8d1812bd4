#include "stages/media/media_input.h"

#include <errno.h>
#include <fcntl.h>
#include <libavcodec/avcodec.h>
#include <libavutil/error.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
#include <libavutil/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/url.h"
#include "millrace/log.h"
#include "stages/media/manifest.h"

enum { AVIO_BYTES = 64 * 1024 };

const char *mr_av_words(int error) {
    static _Thread_local char words[AV_ERROR_MAX_STRING_SIZE];
    if (av_strerror(error, words, sizeof words) < 0)
        memcpy(words, "unknown error", sizeof "unknown error");
    return words;
}

static _Thread_local char complaint[256];

const char *mr_av_complaint(void) {
    return complaint;
}

void mr_av_forget(void) {
    complaint[0] = '\0';
}

void mr_av_recall(const char *text) {
    snprintf(complaint, sizeof complaint, "%s", text);
}

static mr_av_listener *_Atomic listening;
static _Thread_local mr_av_listener *listening_here;

void mr_av_log_listen_here(mr_av_listener *listener) {
    listening_here = listener;
}

void mr_av_log_listen(mr_av_listener *listener) {
    atomic_store(&listening, listener);
}

static void take_log_line(void *context, int level, const char *format, va_list arguments) {
    mr_av_listener *listener = atomic_load(&listening);
    if (listener)
        listener(context, level, format);
    if (listening_here)
        listening_here(context, level, format);
    bool verbose = mr_log_get_level() >= MR_LOG_DEBUG, first = level <= AV_LOG_ERROR && !complaint[0];
    if (level > AV_LOG_WARNING || (!verbose && !first))
        return;
    char line[512];
    int prefix = 1;
    av_log_format_line2(context, level, format, arguments, line, sizeof line, &prefix);
    line[strcspn(line, "\n")] = '\0';
    mr_url_hide(line);
    /* Removes FFmpeg's object names, which contain addresses. */
    const char *text = line;
    for (const char *end = text; *text == '[' && (end = strstr(text, "] "));)
        text = end + 2;
    if (first)
        snprintf(complaint, sizeof complaint, "%.250s", text);
    if (verbose)
        mr_log(MR_LOG_DEBUG, "FFmpeg: %s", line);
}

static void capture_log(void) {
    av_log_set_callback(take_log_line);
}

void mr_av_log_capture(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, capture_log);
}

int mr_input_check_codec(const AVCodecParameters *codec, const char *path) {
    return codec->codec_id != AV_CODEC_ID_NONE
               ? MR_OK : mr_fail(MR_ERROR_DATA, "%s: its video is of a format that is not known", path);
}

static int64_t rank_of(const AVStream *stream, int64_t most_pixels) {
    const AVCodecParameters *codec = stream->codecpar;
    const int64_t pixels = (int64_t)codec->width * codec->height;
    const bool lasts = !(stream->disposition & AV_DISPOSITION_ATTACHED_PIC) && stream->nb_frames != 1;
    return (lasts && codec->codec_id ? INT64_C(1) << 62 : 0) + (pixels <= most_pixels ? pixels + 1 : 0);
}

AVStream *mr_input_best_video(const AVFormatContext *format, int64_t most_pixels) {
    AVStream *best = NULL;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        if (stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
            (!best || rank_of(stream, most_pixels) > rank_of(best, most_pixels)))
            best = stream;
    }
    return best;
}

int mr_input_check_packet(const AVPacket *packet, const char *path) {
    return av_packet_get_side_data(packet, AV_PKT_DATA_ENCRYPTION_INFO, NULL)
               ? mr_fail(MR_ERROR_DATA, "%s: its video is encrypted, which is not supported: decrypt it first", path)
               : MR_OK;
}

int64_t mr_av_max_pixels(int64_t pixels) {
    int64_t limit = pixels + pixels / 2 + 65536;
    return limit < INT32_MAX ? limit : INT32_MAX;
}

int mr_av_status(int error) {
    switch (error) {
    case AVERROR(ENOMEM):
    case AVERROR(EMFILE):
    case AVERROR(ENFILE):
    case AVERROR(EAGAIN): /* no thread */
        return MR_ERROR_MEMORY;
    case AVERROR(ENOENT):
        return MR_ERROR_NO_INPUT;
    case AVERROR(EACCES):
    case AVERROR(EPERM):
        return MR_ERROR_PERMISSION;
    case AVERROR(EIO):
    case AVERROR(ETIMEDOUT):
        return MR_ERROR_IO;
    case AVERROR_EXIT:
        return MR_ERROR_CANCELLED;
    default:
        return MR_ERROR_DATA;
    }
}

static int fail_errno(const char *path, int error) {
    return mr_fail(mr_file_status(error), "%s: %s", path, strerror(error));
}

static int refuse_special(const char *path, mode_t mode) {
    if (S_ISDIR(mode)) /* folders that list rows name */
        return mr_fail(MR_ERROR_DATA, "%s: is a folder, and a file is needed", path);
    const char *what = S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
    return mr_fail(MR_ERROR_DATA, "%s: is %s; only files and folders are read", path, what);
}

int mr_input_look(const char *path, mr_input_kind *kind) {
    struct stat status;
    if (stat(path, &status)) {
        bool numbered = errno == ENOENT && av_filename_number_test(path);
        if (errno != ENOENT || (!numbered && !strpbrk(path, "*?[")))
            return fail_errno(path, errno);
        *kind = numbered ? MR_INPUT_NUMBERED : MR_INPUT_GLOB;
        return MR_OK;
    }
    if (S_ISDIR(status.st_mode))
        *kind = MR_INPUT_FOLDER;
    else if (S_ISREG(status.st_mode))
        *kind = mr_is_manifest_by_name(path) ? MR_INPUT_LIST : MR_INPUT_FILE;
    else
        return refuse_special(path, status.st_mode);
    return MR_OK;
}

int mr_input_open(mr_input *input, const char *path, const mr_stage *stage) {
    *input = (mr_input){.fd = -1, .stage = stage};
    /* Non-blocking: if a FIFO replaces the file between look and open, this must not wait. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path, errno);
    struct stat status;
    if (fstat(fd, &status)) {
        int error = errno;
        close(fd);
        return fail_errno(path, error);
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return refuse_special(path, status.st_mode);
    }
    if (status.st_size == 0) {
        close(fd);
        return mr_fail(MR_ERROR_DATA, "%s: the file is empty", path);
    }
    input->fd = fd;
    input->bytes = status.st_size;
    return MR_OK;
}

int mr_input_interrupted(void *opaque) {
    const mr_input *input = opaque;
    if (input->stage && mr_stage_cancelled(input->stage))
        return 1;
    return input->deadline_us && av_gettime_relative() > input->deadline_us;
}

static int read_some(void *opaque, uint8_t *data, int bytes) {
    mr_input *input = opaque;
    if (input->stage && mr_stage_cancelled(input->stage))
        return AVERROR_EXIT;
    if (mr_input_interrupted(input))
        return AVERROR(ETIMEDOUT);
    ssize_t count;
    do
        count = read(input->fd, data, (size_t)bytes);
    while (count < 0 && errno == EINTR);
    return count > 0 ? (int)count : count == 0 ? AVERROR_EOF : AVERROR(errno);
}

static int64_t seek_to(void *opaque, int64_t offset, int whence) {
    mr_input *input = opaque;
    if (whence & AVSEEK_SIZE)
        return input->bytes;
    off_t position = lseek(input->fd, offset, whence & ~AVSEEK_FORCE);
    return position < 0 ? AVERROR(errno) : position;
}

int mr_input_avio(mr_input *input) {
    uint8_t *block = av_malloc(AVIO_BYTES);
    if (block)
        input->avio = avio_alloc_context(block, AVIO_BYTES, 0, input, read_some, NULL, seek_to);
    if (!input->avio) {
        av_free(block);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    return MR_OK;
}

void mr_input_set_timeout(mr_input *input, int64_t timeout_ns) {
    input->deadline_us = timeout_ns > 0 ? av_gettime_relative() + timeout_ns / 1000 : 0;
}

void mr_input_close(mr_input *input) {
    if (input->avio) {
        av_freep(&input->avio->buffer);
        avio_context_free(&input->avio);
    }
    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
}

int mr_input_probe(mr_input *input, const char *path, const AVInputFormat **format) {
    int error = av_probe_input_buffer2(input->avio, format, path, NULL, 0, 0);
    if (error >= 0)
        return MR_OK;
    if (error == AVERROR_EXIT || error == AVERROR(ETIMEDOUT) || error == AVERROR(EIO))
        return mr_fail(mr_av_status(error), "%s: %s", path, mr_av_words(error));
    return mr_fail(MR_ERROR_DATA, "%s is not a video or image of a known format", path);
}
