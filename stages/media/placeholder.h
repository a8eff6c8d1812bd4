/* Pictures with words on them that stand in for those of a stream while it gives none: packets of raw video, one after
 * the other at the stream's rate, for as long as they are shown. libavfilter draws the words, with a font that
 * fontconfig finds. One thread. */
#pragma once

#include "stages/media/media_reader.h"

enum { MR_PLACEHOLDER_TEXT = 512 };

/* A zeroed one shows nothing. */
typedef struct mr_placeholder {
    mr_media *like;           /* of the stream's last packet; NULL: none has come */
    mr_packet picture;
    char text[MR_PLACEHOLDER_TEXT]; /* on it */
    bool shown, begins;       /* begins: the next packet is the first of these */
    int64_t begun_ns, due_ns; /* CLOCK_MONOTONIC */
} mr_placeholder;

/* A packet of the stream is given: nothing is shown from now on. */
void mr_placeholder_hide(mr_placeholder *placeholder, const mr_packet *packet);
/* Shows lines of text, separated by line breaks, from now on. Size, layout, colour and rate are those of the stream's
 * last packet as far as it tells, and the size is no larger than `size`, which else it is; the rate is at most 60 a
 * second, and one if it is not known. MR_ERROR_UNAVAILABLE (no libavfilter, or no font), MR_ERROR_MEMORY: what was
 * shown is shown. */
int mr_placeholder_show(mr_placeholder *placeholder, const char *text, mr_size size, const mr_reader_params *params);
/* When the next packet is due; INT64_MAX: none is. */
int64_t mr_placeholder_due_ns(const mr_placeholder *placeholder);
/* The packet that is due. Times count from the first one, which begins an epoch. */
void mr_placeholder_take(mr_placeholder *placeholder, int64_t now_ns, mr_packet *packet);
void mr_placeholder_fini(mr_placeholder *placeholder);
