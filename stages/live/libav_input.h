/* A stream of the network, opened and read by libavformat: which protocols it may use, limits of the look at it before
 * it begins, and the meaning of its errors. Over HTTP libavformat gets bytes that were opened by web/web.h, or of the
 * segments of a playlist (web/hls.h), and opens nothing itself. Calls block until their deadline, or until `cancelled`; one thread. */
#ifndef MILLRACE_STAGES_LIVE_LIBAV_INPUT_H
#define MILLRACE_STAGES_LIVE_LIBAV_INPUT_H

#include <libavformat/avformat.h>

#include "stages/live/connection.h"
#include "stages/live/web/hls.h"
#include "stages/media/media_input.h"

/* How times of a stream's packets continue over the parts of it that have other clocks. */
typedef struct mr_libav_times {
    bool begun, is_anew; /* a packet was given; the next one is of another clock */
    int64_t shift_ns;    /* added to the stream's times */
    int64_t last_ns, step_ns; /* of the last packet, as given: decoding time, and duration */
} mr_libav_times;

typedef struct mr_libav_input {
    const mr_connection_params *params; /* borrowed */
    mr_web web;                         /* also of other protocols: when calls are to give up */
    AVIOContext *io;                    /* over HTTP; else NULL */
    mr_hls *hls;                        /* what it has is a playlist; else NULL */
    int wanted;                         /* number of the stream; -1: the best */
    mr_input file;                      /* of a session description; fd -1: none */
    AVFormatContext *format;
    AVStream *stream;
    AVPacket *packet;
    mr_media *media;
    bool recorded;                      /* it has an end */
    bool timeless;                      /* its packets have no times of their own */
    bool seam;                          /* something is missing before the next packet */
    mr_libav_times times;
    uint64_t gaps, noted;               /* packets that libavformat missed; those of them before the last packet */
} mr_libav_input;

/* Opens within params->open_timeout_ns; on failure, too, it is to be closed. MR_ERROR_IO, _PERMISSION, _NO_INPUT,
 * _DATA, _CONFIG (a host that is not allowed), _MEMORY, _CANCELLED. */
int mr_libav_input_open(mr_libav_input *input, const mr_connection_params *params, const atomic_bool *cancelled);
/* What is known of the stream before its packets are decoded. */
void mr_libav_input_survey(mr_libav_input *input, mr_survey *survey);
/* The next packet of the picture's stream. MR_END, or an error as above. */
int mr_libav_input_read(mr_libav_input *input, mr_packet *packet);
void mr_libav_input_close(mr_libav_input *input);

#endif
