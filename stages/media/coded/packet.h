/* Packets of readers (media_reader.h), and facts about them before they are read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "millrace/format_set.h"
#include "millrace/frame.h"

/* One packet. The caller owns both buffers and the media reference. At least 64 zero bytes must follow the payload
 * within its buffer, since FFmpeg's bitstream readers need them. */
typedef struct mr_packet {
    mr_buffer *buffer;      /* NULL for an unreadable image: bytes is then 0 and MR_FRAME_CORRUPT is set */
    uint8_t *data;
    size_t bytes;
    mr_buffer *side;        /* side data as media_codec.h writes it; NULL for most packets */
    mr_media *media;
    int64_t pts_ns, dts_ns; /* counted from the stream's start; MR_NO_TIME unknown */
    int64_t duration_ns;
    int64_t captured_ns;    /* live: when the camera took it, ns since 1970; MR_NO_TIME unknown */
    int64_t arrived_ns;     /* live: when the last byte came, CLOCK_MONOTONIC; MR_NO_TIME: not live */
    bool begins_epoch;      /* first in a new connection, or in a list row next to videos */
    uint32_t flags;
} mr_packet;

enum { MR_SURVEY_REMARK = 512 };
/* Facts about a reader's packets before they are read. */
typedef struct mr_survey {
    mr_format_set set;  /* packets, with picture size and layout */
    double rate;        /* packets a second; 0: not known */
    int64_t frames;     /* packets in one turn; 0: unknown or endless */
    int64_t span_ns;    /* how long a file lasts, from its beginning; 0: unknown */
    int64_t mean_pixels; /* per picture; 0: not known */
    int references;     /* pictures that a decoder keeps for later ones; 0: not known */
    char remark[MR_SURVEY_REMARK]; /* what the stream cannot provide (mr_negotiation.remark); "": nothing to say */
    bool stills;        /* each packet is a still picture */
    bool epochs;        /* a turn has several epochs, one per video in a list */
} mr_survey;
