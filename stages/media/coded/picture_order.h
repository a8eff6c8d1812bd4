/* Finds the display order from packets in decode order.
 *
 * Numbers that give the display order. H.264 and HEVC have the picture order count, which libavcodec's parsers compute;
 * MPEG-1 and MPEG-2 a number within the group (temporal_reference); MPEG-4 a clock. Codecs that cannot reorder show
 * pictures as they come. For other codecs the order is unknown here. One thread. All zero is closed. */
#pragma once

#include <libavcodec/avcodec.h>

#include "stages/media/coded/mpeg4_clock.h"
#include "stages/media/coded/packet.h"

typedef struct mr_picture_order {
    const AVCodecParameters *codec; /* what it was opened for; borrowed from the packet's media */
    mr_media *media;                /* which has them */
    AVCodecParserContext *parser;   /* NULL: not needed, or the order is unknown */
    AVCodecContext *about;
    bool as_decoded;                /* pictures are shown in decode order */
    bool grouped;                   /* MPEG-1 and MPEG-2 */
    bool clocked;                   /* MPEG-4: numbers are `clock` ticks */
    mr_mpeg4_clock clock;
    int64_t count;                  /* packets; grouped: pictures before the group */
    int64_t next;                   /* grouped: the number after the highest so far */
    int unit;                       /* between two successive pictures */
} mr_picture_order;

typedef struct mr_picture_place {
    bool known;
    bool restarts;  /* all pictures before this packet are shown before it; numbers may restart */
    int64_t number; /* rises in presentation order between two restarts */
    int64_t leading; /* grouped: how many pictures in its group are shown before it */
} mr_picture_place;

/* Whether this codec numbers pictures within groups. */
bool mr_picture_order_is_grouped(const AVCodecParameters *codec);
/* Whether this codec's pictures carry times instead. */
bool mr_picture_order_is_clocked(const AVCodecParameters *codec);
/* Places the next packet's picture. */
mr_picture_place mr_picture_order_next(mr_picture_order *order, const mr_packet *packet);
void mr_picture_order_fini(mr_picture_order *order);

/* How many pictures can be decoded before one that is shown earlier. *sure: the stream header says so; else it is the
 * most that the pictures allow. */
int mr_picture_order_depth(const AVCodecParameters *codec, bool *sure);
