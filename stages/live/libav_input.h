/* A stream of the network, opened and read by libavformat: which protocols it may use, limits of the look at it before
 * it begins, and the meaning of its errors. Over HTTP libavformat gets bytes that were opened by web/web.h, and opens
 * nothing itself. Calls block until their deadline, or until `cancelled`; one thread. */
#ifndef MILLRACE_STAGES_LIVE_LIBAV_INPUT_H
#define MILLRACE_STAGES_LIVE_LIBAV_INPUT_H

#include <libavformat/avformat.h>

#include "stages/live/connection.h"
#include "stages/live/web/web.h"
#include "stages/media/media_input.h"

typedef struct mr_libav_input {
    const mr_connection_params *params; /* borrowed */
    mr_web web;                         /* also of other protocols: when calls are to give up */
    AVIOContext *io;                    /* over HTTP; else NULL */
    mr_input file;                      /* of a session description; fd -1: none */
    AVFormatContext *format;
    AVStream *stream;
    AVPacket *packet;
    mr_media *media;
    bool recorded;                      /* it has an end */
    bool timeless;                      /* its packets have no times of their own */
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
