/* Turns one stream's packets into container bytes with libavformat.
 *
 * Every container is written sequentially: a file is valid up to the last piece taken from here, even if the process
 * dies. mp4 is fragmented; Matroska gets duration and index at the end. Times count from the first packet shown, and
 * are repaired if they are missing or do not rise. Bytes stay in memory until they are taken, so no write can block.
 *
 * An mp4 fragment states its last picture's duration, and the next fragment begins there. A packet must therefore wait
 * for the next one's decoding time. One thread at a time. */
#pragma once

#include <libavformat/avformat.h>

#include "millrace/stage.h"

typedef enum mr_container {
    MR_CONTAINER_MP4,
    MR_CONTAINER_MKV,
    MR_CONTAINER_TS,  /* HLS files, SRT and UDP */
    MR_CONTAINER_FLV, /* RTMP */
    MR_CONTAINER_RTP  /* RTSP */
} mr_container;

/* MR_OK if the container can hold this codec (libavcodec's name), else MR_ERROR_CONFIG. The message lists the codecs it
 * can hold. */
int mr_container_check(mr_container container, const char *codec);
const char *mr_container_name(mr_container container);
/* libavformat's name. */
const char *mr_container_format(mr_container container);

/* A stream's times in 1/90000 s from its first packet. */
typedef struct mr_muxer_times {
    int64_t base_ns, last_dts, last_end;
    bool begun;
} mr_muxer_times;

/* Call if times restart at this packet: it then follows the last one. */
void mr_muxer_times_go_on(mr_muxer_times *times, const mr_frame *frame);

/* Adds a stream for this media, with the headers that packets may carry instead (`key` is the first packet). */
int mr_muxer_add_stream(AVFormatContext *format, const mr_media *media, const mr_frame *key);
/* Fills an empty packet for a stream with that container and time base. */
int mr_muxer_fill(AVPacket *packet, mr_container container, const mr_frame *frame, mr_muxer_times *times,
                  AVRational time_base);

typedef struct mr_muxer mr_muxer;

/* `key`: the first packet, which must be written next. MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_muxer_open(mr_muxer **muxer, mr_container container, const mr_frame *key);
int mr_muxer_write(mr_muxer *muxer, const mr_frame *frame);
/* Announces the next packet: the previous one, which waits for it, can then be written. */
int mr_muxer_expect(mr_muxer *muxer, const mr_frame *frame);
/* Whether losing what was written since the last cut would be noticed: a second. */
bool mr_muxer_is_due(const mr_muxer *muxer);
/* Flushes everything written, as a fragment or cluster. mp4 keeps the last packet. */
int mr_muxer_cut(mr_muxer *muxer);
/* Call before a new file's first packet if the muxer stays the same. Only for MR_CONTAINER_TS. */
void mr_muxer_repeat_headers(mr_muxer *muxer);
/* Ends the file; afterwards bytes can only be taken. */
int mr_muxer_end(mr_muxer *muxer);
/* Bytes that came since the last call to mr_muxer_forget. */
const uint8_t *mr_muxer_bytes(const mr_muxer *muxer, size_t *bytes);
/* Bytes that replace earlier ones, starting at this file position. */
typedef struct mr_muxer_patch {
    int64_t at;
    size_t bytes;
    uint8_t *data;
} mr_muxer_patch;
const mr_muxer_patch *mr_muxer_patches(const mr_muxer *muxer, size_t *count);
void mr_muxer_forget(mr_muxer *muxer);
/* NULL is allowed. */
void mr_muxer_close(mr_muxer **muxer);
