/* Streams, as media's options describe them. */
#pragma once

#include "stages/live/live.h"
#include "stages/source/media_options.h"

typedef struct mr_media_stream {
    mr_live_params params;
    char *hosts, *password; /* that those refer to */
} mr_media_stream;

/* `media`: for the description of its packets. MR_ERROR_CONFIG (two passwords), MR_ERROR_NO_INPUT and others (a file of
 * a password that cannot be read), MR_ERROR_MEMORY, with *option naming the one at fault. On failure, too, it is to be
 * closed. `offline`: the file is not read. */
int mr_media_stream_init(mr_media_stream *stream, const mr_media_options *from, const mr_reader_params *media,
                         bool offline, const char **option);
void mr_media_stream_fini(mr_media_stream *stream);
/* The answer of a source that is a stream. */
int mr_media_stream_negotiate(mr_negotiation *negotiation, const mr_reader_params *media);
