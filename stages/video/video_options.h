/* The options of the sink video. */
#pragma once

#include "stages/video/video_muxer.h"

typedef struct mr_video_options {
    const char *path, *name; /* files */
    mr_credentials login;    /* for the receiver; SRT uses the password as passphrase */
    const char *url;         /* or a receiver; with neither, packets are discarded: a run that only measures */
    bool overwrite;
    int on_full;
    int64_t segment, keep_for, keep_bytes, playlist;
    int64_t timeout, retry_first, retry_most;
} mr_video_options;

/* Refuses a name without {source} if the stage has several sources. */
int mr_video_check_sources(mr_negotiation *negotiation, const char *name);
/* HLS files: the name is the playlist's. */
bool mr_video_is_hls(const mr_video_options *options);
/* The container for the files, or for the receiver's scheme. MR_ERROR_CONFIG: there is none, and *option names the
 * wrong option. */
int mr_video_container(const mr_video_options *options, mr_container *container, const char **option);
