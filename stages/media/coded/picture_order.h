/* The order in which pictures are shown, from packets in decode order.
 *
 * Pictures of H.264 and HEVC have a number, the picture order count, which libavcodec's parsers compute; those of
 * MPEG-1 and MPEG-2 have one in their group (temporal_reference), and those of MPEG-4 the time of their clock. Codecs
 * that cannot reorder pictures show them as they come. Of others the order is not known here. One thread. All zero is
 * closed. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/media/coded/mpeg4_clock.h"
#include "stages/media/coded/packet.h"

typedef struct mr_picture_order {
    const AVCodecParameters *codec; /* that it was opened for; borrowed from the packet's media */
    mr_media *media;                /* which has them */
    AVCodecParserContext *parser;   /* NULL: none is needed, or the order is not known */
    AVCodecContext *about;
    bool as_decoded;                /* pictures are shown in decode order */
    bool grouped;                   /* MPEG-1 and MPEG-2 */
    bool clocked;                   /* MPEG-4: numbers are ticks of `clock` */
    mr_mpeg4_clock clock;
    int64_t count;                  /* of packets; grouped: of pictures before the group */
    int64_t next;                   /* grouped: the number behind the highest so far */
    int unit;                       /* between the numbers of two pictures that follow each other */
} mr_picture_order;

typedef struct mr_picture_place {
    bool known;
    bool restarts;  /* all pictures before the packet's are shown before it; numbers may begin anew */
    int64_t number; /* rises in presentation order between two that restart */
    int64_t leading; /* grouped: how many pictures of its group are shown before it */
} mr_picture_place;

/* Whether pictures of that codec are numbered in groups. */
bool mr_picture_order_is_grouped(const AVCodecParameters *codec);
/* Whether they have times of their own instead. */
bool mr_picture_order_is_clocked(const AVCodecParameters *codec);
/* The place of the next packet's picture. */
mr_picture_place mr_picture_order_next(mr_picture_order *order, const mr_packet *packet);
void mr_picture_order_fini(mr_picture_order *order);

/* How many pictures may be decoded before one that is shown before them. *sure: the stream's header says so, else it is
 * the most that its pictures allow. */
int mr_picture_order_depth(const AVCodecParameters *codec, bool *sure);
