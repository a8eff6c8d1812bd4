/* decode's messages about one source: packets without pictures, unplanned sizes, files that hold more than their
 * picture, and the counts at the end. One thread. */
#pragma once

#include <libavutil/frame.h>

#include "millrace/stage.h"

typedef struct mr_decode_report {
    uint64_t packets;  /* that were to be decoded */
    uint64_t pictures; /* decoded well */
    uint64_t left;     /* packets that were not needed */
    int last_error;    /* an AVERROR */
    bool outsized;     /* pictures are larger than planned; reported */
    bool outgrown;     /* one was larger than announced; reported */
    bool damaged;      /* a picture was dropped as damaged; reported */
    mr_media *lost;    /* last still picture in a file that was dropped as damaged; NULL: none */
    char trouble[256]; /* why that file is not a supported picture; "": it is damaged */
    uint64_t trailed;  /* still pictures after whose end more follows */
} mr_decode_report;

/* What happens: a packet that was to be decoded is not sent; a packet is not needed; another decoder begins; a picture
 * comes out, and is well, or dropped as damaged. */
typedef enum mr_decode_event {
    MR_DECODE_PACKET, MR_DECODE_LEFT, MR_DECODE_DECODER, MR_DECODE_PICTURE, MR_DECODE_DAMAGED
} mr_decode_event;
void mr_decode_report_note(mr_decode_report *report, mr_decode_event event);
/* Call when a packet is sent to the decoder. */
void mr_decode_report_sent(mr_decode_report *report, const mr_stage *self, const mr_frame *packet);
/* The decoder gave that error. */
void mr_decode_report_error(mr_decode_report *report, int error);
/* Whether any picture was decoded well. */
bool mr_decode_report_has_pictures(const mr_decode_report *report);
/* Whether this size exceeds what the plan allows for the live source. Such pictures are dropped. */
bool mr_decode_report_outsized(mr_decode_report *report, const mr_stage *self, const mr_media *media, int width,
                               int height);
/* Call when a picture is emitted. If the plan has no room for it, it gets a new pool. */
void mr_decode_report_emitted(mr_decode_report *report, const mr_stage *self, const AVFrame *picture);
/* Call when a packet is dropped as damaged or too large. Returns the reason. The first case in a source is logged as a
 * warning, later ones as information. */
const char *mr_decode_report_damaged(mr_decode_report *report, const mr_stage *self, const mr_frame *packet);
/* Call at the source's end: logs counts, and fails with a message if nothing could be decoded. */
int mr_decode_report_end(const mr_decode_report *report, const mr_stage *self);
void mr_decode_report_fini(mr_decode_report *report);
