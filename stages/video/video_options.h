/* The options of the sink video. */
#pragma once

#include "stages/video/video_muxer.h"

typedef struct mr_video_options {
    const char *path, *name; /* files */
    mr_credentials login;    /* of the receiver; of SRT the password is a passphrase */
    const char *url;         /* or a receiver; with neither, packets go nowhere: a run that is only measured */
    bool overwrite;
    int on_full;
    int64_t segment, keep_for, keep_bytes, playlist;
    int64_t timeout, retry_first, retry_most;
} mr_video_options;

/* Refuses a name without {source} of a stage that several sources come to. */
int mr_video_check_sources(mr_negotiation *negotiation, const char *name);
/* Files of HLS: the name is that of the playlist. */
bool mr_video_is_hls(const mr_video_options *options);
/* The container of its files, or of its receiver's scheme. MR_ERROR_CONFIG: there is none; *option is then the name of
 * the wrong one. */
int mr_video_container(const mr_video_options *options, mr_container *container, const char **option);
