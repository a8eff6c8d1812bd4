/* Streams, as media's options describe them. */
#pragma once

#include "stages/live/live.h"
#include "stages/source/media_options.h"

typedef struct mr_media_stream {
    mr_live_params params;
    char *hosts, *password; /* what those refer to */
} mr_media_stream;

/* `media` describes the packets. MR_ERROR_CONFIG: two passwords. MR_ERROR_NO_INPUT and others: the password file cannot
 * be read. MR_ERROR_MEMORY. *option names the faulty one. Must be closed even after failure. `offline`: the password
 * file is not read. */
int mr_media_stream_init(mr_media_stream *stream, const mr_media_options *from, const mr_reader_params *media,
                         bool offline, const char **option);
void mr_media_stream_fini(mr_media_stream *stream);
/* negotiate for a source that is a stream. */
int mr_media_stream_negotiate(mr_negotiation *negotiation, const mr_reader_params *media);
