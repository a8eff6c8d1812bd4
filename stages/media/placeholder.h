/* Text pictures that replace a stream's pictures while it gives none: raw video packets at the stream's rate.
 * Fonts as for draw (stages/sketch/font.h). One thread. */
#pragma once

#include "stages/media/media_reader.h"

enum { MR_PLACEHOLDER_TEXT = 512 };

/* A zeroed one shows nothing. */
typedef struct mr_placeholder {
    mr_media *like;           /* the stream's last packet's; NULL: none has come */
    mr_packet picture;
    char text[MR_PLACEHOLDER_TEXT]; /* on it */
    bool shown, begins;       /* a text is shown; the next packet is the first with it */
    int64_t begun_ns, due_ns; /* CLOCK_MONOTONIC */
} mr_placeholder;

/* Call when the stream gives a packet: hides the text. */
void mr_placeholder_hide(mr_placeholder *placeholder, const mr_packet *packet);
/* Shows lines of text, separated by line breaks. Size, layout, colour and rate follow the stream's last packet as far
 * as known. `size` limits the size, and is the default. The rate is at most 60 a second, and 1 if unknown.
 * MR_ERROR_UNAVAILABLE (no font), MR_ERROR_MEMORY: the previous text stays. */
int mr_placeholder_show(mr_placeholder *placeholder, const char *text, mr_size size, const mr_reader_params *params);
/* When the next packet is due; INT64_MAX: none is. */
int64_t mr_placeholder_due_ns(const mr_placeholder *placeholder);
/* Takes the packet that is due. Times count from the first one, which begins an epoch. */
void mr_placeholder_take(mr_placeholder *placeholder, int64_t now_ns, mr_packet *packet);
void mr_placeholder_fini(mr_placeholder *placeholder);
