/* Packets of one stream -> the bytes of a container, by libavformat.
 *
 * All containers are written from their beginning to their end: a file is whole up to the last piece that was taken
 * from here, whatever becomes of the process. mp4 is fragmented; Matroska gets its duration and its index when it
 * ends. Times count from the first packet that is shown, and are repaired if they are missing or do not rise. Bytes
 * gather in memory until they are taken; so no write ever waits.
 *
 * A fragment of mp4 says how long its last picture lasts, and the next one begins at that end: so a packet waits for
 * the decoding time of the next. One thread at a time. */
#pragma once

#include <libavformat/avformat.h>

#include "millrace/stage.h"

typedef enum mr_container {
    MR_CONTAINER_MP4,
    MR_CONTAINER_MKV,
    MR_CONTAINER_TS,  /* of files of HLS, SRT and UDP */
    MR_CONTAINER_FLV, /* of RTMP */
    MR_CONTAINER_RTP  /* of RTSP */
} mr_container;

/* MR_OK if it holds packets of that codec (a name of libavcodec), else MR_ERROR_CONFIG; the message says which codecs
 * it holds. */
int mr_container_check(mr_container container, const char *codec);
const char *mr_container_name(mr_container container);
/* Of libavformat. */
const char *mr_container_format(mr_container container);

/* Times of one stream, in 1/90000 s from its first packet. */
typedef struct mr_muxer_times {
    int64_t base_ns, last_dts, last_end;
    bool begun;
} mr_muxer_times;

/* The packet, whose times begin anew, comes behind the last one. */
void mr_muxer_times_go_on(mr_muxer_times *times, const mr_frame *frame);

/* A stream of that media, with the headers that its packets may have in their place (`key` is the first one). */
int mr_muxer_add_stream(AVFormatContext *format, const mr_media *media, const mr_frame *key);
/* Fills the packet, which is empty, for a stream of that container and time base. */
int mr_muxer_fill(AVPacket *packet, mr_container container, const mr_frame *frame, mr_muxer_times *times,
                  AVRational time_base);

typedef struct mr_muxer mr_muxer;

/* `key`: the first packet, which is to be written next. MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_muxer_open(mr_muxer **muxer, mr_container container, const mr_frame *key);
int mr_muxer_write(mr_muxer *muxer, const mr_frame *frame);
/* The packet follows, if it is ever written: the one before it, which waits for it, need not wait any more. */
int mr_muxer_expect(mr_muxer *muxer, const mr_frame *frame);
/* Whether so much was written since the last cut that losing it would be felt: a second. */
bool mr_muxer_is_due(const mr_muxer *muxer);
/* Brings out all that was written: a fragment, a cluster. Of mp4 without the last packet. */
int mr_muxer_cut(mr_muxer *muxer);
/* Before the first packet of a file that goes on with the same muxer. Only of MR_CONTAINER_TS. */
void mr_muxer_repeat_headers(mr_muxer *muxer);
/* The end of the file; then only bytes are taken. */
int mr_muxer_end(mr_muxer *muxer);
/* The bytes that have come out since they were last forgotten. */
const uint8_t *mr_muxer_bytes(const mr_muxer *muxer, size_t *bytes);
/* And those that take the place of bytes before them, from that place in the file on. */
typedef struct mr_muxer_patch {
    int64_t at;
    size_t bytes;
    uint8_t *data;
} mr_muxer_patch;
const mr_muxer_patch *mr_muxer_patches(const mr_muxer *muxer, size_t *count);
void mr_muxer_forget(mr_muxer *muxer);
/* NULL is allowed. */
void mr_muxer_close(mr_muxer **muxer);
