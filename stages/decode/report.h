/* decode's messages about one source: packets without pictures, sizes larger than planned, and the counts at the end.
 * One thread. */
#pragma once

#include "stages/decode/jpeg/decode_reduced.h"

typedef struct mr_decode_report {
    const mr_stage *self;
    int64_t live_pixels; /* the largest picture accepted from a live source */
    uint64_t packets;  /* that were to be decoded */
    uint64_t pictures; /* decoded well */
    uint64_t left;     /* packets that were not needed */
    uint64_t scaled[MR_REDUCED_MOST + 1]; /* pictures that were sent, by log2 of the reduction */
    int last_error;    /* an AVERROR */
    bool came;         /* a picture came out, damaged or not */
    bool outsized;     /* pictures are larger than planned; reported */
    bool damaged;      /* a picture was dropped as damaged; reported */
    mr_media *lost;    /* last still picture in a file that was dropped as damaged; NULL: none */
    char trouble[256]; /* why that file is not a supported picture; "": it is damaged */
} mr_decode_report;

/* What happens: a packet is to be decoded; a packet is not needed; another decoder begins; a picture comes out, and is
 * well, or dropped as damaged. */
typedef enum mr_decode_event {
    MR_DECODE_PACKET, MR_DECODE_LEFT, MR_DECODE_DECODER, MR_DECODE_PICTURE, MR_DECODE_DAMAGED
} mr_decode_event;
void mr_decode_report_init(mr_decode_report *report, const mr_stage *self);
void mr_decode_report_note(mr_decode_report *report, mr_decode_event event);
/* The decoder gave that error. */
void mr_decode_report_error(mr_decode_report *report, int error);
/* The packet is sent to a decoder that reduces pictures by 2 to the power of `scale`. */
void mr_decode_report_scale(mr_decode_report *report, int scale);
/* Whether no picture has come out yet. */
bool mr_decode_report_is_empty(const mr_decode_report *report);
/* Whether this size exceeds what the plan allows for the live source. Such pictures are dropped. */
bool mr_decode_report_outsized(mr_decode_report *report, const mr_media *media, int width, int height);
/* Call when a packet is dropped as damaged or too large. Returns the reason. The first case in a source is logged as a
 * warning, later ones as information. */
const char *mr_decode_report_damaged(mr_decode_report *report, const mr_frame *packet);
/* The same for a still picture's file. `trouble`: why it is no supported picture, as the rest of a sentence; NULL: it
 * is damaged. */
const char *mr_decode_report_damaged_file(mr_decode_report *report, mr_media *media, const char *file,
                                          const char *trouble);
/* Call at the source's end: logs counts, and fails with a message if nothing could be decoded. */
int mr_decode_report_end(const mr_decode_report *report);
void mr_decode_report_fini(mr_decode_report *report);
