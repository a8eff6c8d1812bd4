/* Information in a still picture's bytes apart from the picture: the orientation, whether it is a picture at all, and
 * data after the end (bytes or further pictures). Each file is decoded as far as possible. The first case in a source
 * is logged as a warning, later ones as information, and the total at the end. One thread. */
#pragma once

#include <libavutil/dict.h>

#include "millrace/stage.h"

typedef struct mr_still_notes {
    uint64_t pictures; /* that more follows */
} mr_still_notes;

/* Sets a still picture's orientation from the packet, or from texts that the decoder found. */
void mr_still_turn(mr_format *picture, const mr_frame *packet, const AVDictionary *texts);
/* Whether libavcodec would decode a still picture wrongly without an error. */
bool mr_still_would_be_wrong(const mr_frame *packet);
/* Whether an undecodable still picture is not damaged, but an unsupported kind of file, such as a video. The text is
 * then the rest of a sentence (mr_still_trouble); otherwise it is "". */
bool mr_still_is_foreign(const mr_frame *packet, char *text, size_t room);

/* Checks a packet before decoding; only still pictures count. */
void mr_still_note(mr_still_notes *notes, const mr_stage *self, const mr_frame *packet);
/* Call when the source ends. */
void mr_still_sum_up(const mr_still_notes *notes, const mr_stage *self);
