/* Readers give the media source its packets.
 *
 * A reader turns one uri into compressed packets in decode order. There are four: a container through libavformat
 * (media_file.h); still images, one packet per file (media_images.h); libavfilter test patterns as raw video packets
 * (media_lavfi.h); streams (stages/live).
 *
 * One thread at a time may use a reader. Reading can block on the disk. It returns MR_ERROR_CANCELLED if `stage` is
 * cancelled, and MR_ERROR_IO if a call exceeds the timeout. */
#pragma once

#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <stdint.h>

#include "millrace/stage.h"
#include "stages/media/coded/packet.h"

typedef struct mr_reader mr_reader;

typedef struct mr_reader_params {
    const char *uri;        /* a file, a folder, a glob, a numbered pattern, or "lavfi:" and a filter graph */
    bool labels;            /* a folder with one subfolder per class */
    bool probe;             /* only check that it can be read, and survey it: no packet will be read */
    int stream;             /* video stream index in the container; -1: the best one */
    int64_t start_ns;       /* counted from the stream's start */
    int64_t end_ns;         /* 0: to the end */
    int64_t loops;          /* how often it will be read; 0: endlessly. Only used to estimate the frame count */
    int32_t every;
    double fps;             /* 0: all */
    double rate;            /* pictures a second for media without times: image lists, joined pictures */
    const char *label;      /* a video's class; NULL: none */
    int32_t label_index;
    uint32_t first_epoch;   /* for a list with epochs: start reading there */
    int start_number;       /* numbered pattern: the first number, or one of the next four */
    int64_t timeout_ns;
    int64_t max_pixels;
    const mr_stage *stage;  /* NULL while planning */
} mr_reader_params;

/* Gives an empty packet room for `bytes` bytes, and after them the zeros that decoders need. MR_ERROR_MEMORY. */
int mr_packet_room(mr_packet *packet, size_t bytes);
/* Moves payload and side data from libavcodec's packet to `packet`, and refers to `media`. MR_ERROR_MEMORY: `packet`
 * then has none of them. */
int mr_packet_take(mr_packet *packet, AVPacket *from, mr_media *media);
/* Drops the content; an empty packet is allowed. */
void mr_packet_drop(mr_packet *packet);

typedef struct mr_reader_type {
    int (*survey)(mr_reader *reader, mr_survey *survey);
    int (*read)(mr_reader *reader, mr_packet *packet);
    int (*rewind)(mr_reader *reader);
    void (*destroy)(mr_reader *reader);
} mr_reader_type;

/* Every reader begins with it. */
struct mr_reader {
    const mr_reader_type *type;
};

/* MR_OK with a packet, MR_END, or an error, after which the caller must destroy the reader. */
int mr_reader_read(mr_reader *reader, mr_packet *packet);
/* Reads only as far as needed; afterwards the reader must not be read. MR_ERROR_MEMORY, MR_ERROR_CANCELLED. What cannot
 * be found stays unknown. */
int mr_reader_survey(mr_reader *reader, mr_survey *survey);
/* Back to the first packet (or to `start`). */
int mr_reader_rewind(mr_reader *reader);
/* Destroys the reader and sets it to NULL; NULL is allowed. Packets and media stay valid. */
void mr_reader_destroy(mr_reader **reader);

/* Makes a media with copies of `path` and `codec`, and the picture selection in `params`; NULL: no memory. */
mr_media *mr_reader_describe(const mr_reader_params *params, const char *path, const AVCodecParameters *codec);
