/* Opens files so that nothing can block forever and nothing else can be opened instead. Only regular files: FIFOs,
 * sockets and devices are refused, whatever their name.
 *
 * One thread at a time may use an mr_input. */
#pragma once

#include <libavformat/avformat.h>
#include <stdint.h>

#include "millrace/stage.h"

typedef enum mr_input_kind {
    MR_INPUT_FILE,
    MR_INPUT_FOLDER,
    MR_INPUT_GLOB,
    MR_INPUT_NUMBERED,
    MR_INPUT_LIST /* a file that lists others (manifest.h), judged by name */
} mr_input_kind;

/* Finds out what a path is. A name that is not a file is a numbered pattern if it has "%d" or "%03d", and a glob if it
 * has "*", "?" or "[". MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA (a FIFO, socket or device). */
int mr_input_look(const char *path, mr_input_kind *kind);

typedef struct mr_input {
    int fd;
    int64_t bytes;          /* size when it was opened */
    int64_t deadline_us;    /* reading fails after this av_gettime_relative time; 0: none */
    const mr_stage *stage;  /* checked for cancellation; may be NULL */
    AVIOContext *avio;      /* reads from fd; NULL until mr_input_avio */
} mr_input;

/* Opens a regular file; on failure nothing needs closing. Errors as mr_input_look. */
int mr_input_open(mr_input *input, const char *path, const mr_stage *stage);
/* Creates an AVIOContext for the input; `input` must not move while it is used. */
int mr_input_avio(mr_input *input);
/* Limits how long later reads may take. */
void mr_input_set_timeout(mr_input *input, int64_t timeout_ns);
/* Non-zero when reading should stop; for AVIOInterruptCB with the input as opaque. */
int mr_input_interrupted(void *input);
void mr_input_close(mr_input *input);

/* Detects the file's format from the first bytes and the name, with libavformat. MR_ERROR_DATA if it is unknown. */
int mr_input_probe(mr_input *input, const char *path, const AVInputFormat **format);

/* MR_ERROR_DATA if libavformat cannot name the video's codec: its packets are useless. */
int mr_input_check_codec(const AVCodecParameters *codec, const char *path);

/* The video with the most pixels within `most_pixels`. Streams with a single picture, such as a cover, come last. NULL:
 * none. */
AVStream *mr_input_best_video(const AVFormatContext *format, int64_t most_pixels);

/* MR_ERROR_DATA if the packet is encrypted (ISO/IEC 23001-7): a decoder would report damage. */
int mr_input_check_packet(const AVPacket *packet, const char *path);

/* The pixel limit for an FFmpeg decoder, which also counts padding. It must admit `pixels`, and stop much larger
 * pictures before they are allocated. */
int64_t mr_av_max_pixels(int64_t pixels);

/* FFmpeg's text for an error; per thread, valid until the next call. */
const char *mr_av_words(int error);
/* Redirects FFmpeg's log to millrace's, at level debug: stages count and report the same errors. The log belongs to the
 * process, so only the first stage that opens does this. */
void mr_av_log_capture(void);
/* Called for every line that FFmpeg logs, on the logging thread: the object that logs, the level and the format. One
 * function per process. */
typedef void mr_av_listener(void *object, int level, const char *format);
void mr_av_log_listen(mr_av_listener *listener);
/* The same for lines logged on this thread; NULL: stops. */
void mr_av_log_listen_here(mr_av_listener *listener);
/* FFmpeg's first error on this thread since mr_av_forget; "" if none, or if the log is not captured. */
const char *mr_av_complaint(void);
void mr_av_forget(void);
/* Restores a complaint, possibly on another thread than logged it. */
void mr_av_recall(const char *complaint);
/* The mr_status that fits an AVERROR. */
int mr_av_status(int error);
