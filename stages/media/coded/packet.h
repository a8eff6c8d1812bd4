/* Packets of readers (media_reader.h), and facts about them before they are read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "millrace/format_set.h"
#include "millrace/frame.h"

/* One packet. Both buffers and the media reference belong to the caller. The payload is followed by at least 64 zeroed
 * bytes inside its buffer, which FFmpeg's bitstream readers need. */
typedef struct mr_packet {
    mr_buffer *buffer;      /* NULL if an image could not be read: then bytes is 0 and MR_FRAME_CORRUPT is set */
    uint8_t *data;
    size_t bytes;
    mr_buffer *side;        /* side data as media_codec.h writes it; NULL for most packets */
    mr_media *media;
    int64_t pts_ns, dts_ns; /* from the start of the stream; MR_NO_TIME unknown */
    int64_t duration_ns;
    int64_t captured_ns;    /* live: when the camera took it, ns since 1970; MR_NO_TIME unknown */
    int64_t arrived_ns;     /* live: when its last byte came, CLOCK_MONOTONIC; MR_NO_TIME: not live */
    bool begins_epoch;      /* the first of a new connection, or of a row of a list beside which are videos */
    uint32_t flags;
} mr_packet;

enum { MR_SURVEY_REMARK = 512 };
/* Facts about a reader's packets before they are read. */
typedef struct mr_survey {
    mr_format_set set;  /* packets, with the size and layout of their pictures */
    double rate;        /* packets a second; 0: not known */
    int64_t frames;     /* packets of one turn; 0: not known, or without end */
    int64_t mean_pixels; /* of a picture; 0: not known */
    int references;     /* pictures that a decoder keeps for those to come; 0: not known */
    char remark[MR_SURVEY_REMARK]; /* what may not be expected of it (mr_negotiation.remark); "": nothing */
    bool stills;        /* each packet is a still picture */
    bool epochs;        /* one turn has several, one for each video of a list */
} mr_survey;
