/* media's options: for files, for streams, and for both. */
#pragma once

#include "millrace/stage.h"

/* values for `start` other than a time */
enum { MR_START_FIRST, MR_START_KEY };

typedef struct mr_media_options {
    const char *uri;
    mr_credentials credentials; /* from the URL */
    double fps;
    int64_t every;
    int64_t stream;
    int64_t max_pixels;
    int64_t start; /* a time, or MR_DURATION_WORD and MR_START_... */
    /* files */
    bool labels;
    const char *loop;
    int64_t duration;
    bool realtime;
    double rate, framerate;
    int64_t start_number;
    int64_t timeout;
    /* streams */
    const char *user, *password_file;
    int transport; /* mr_transport */
    int64_t latency, open_timeout, stall, poll;
    int auth; /* 0: any, 1: digest */
    struct {
        bool given;
        int64_t first, most, give_up; /* give_up: MR_DURATION_WORD is never */
    } reconnect;
    mr_size size;
    int clock;   /* mr_live_clock */
    int on_away; /* mr_live_away */
    const char *ca_file;
    mr_strings allow_hosts;
    struct {
        bool given;
        mr_size size;
        double rate;
        int format; /* mr_camera_format */
    } camera;
} mr_media_options;

extern const mr_option mr_media_option_table[];

/* Refuses stream options for a file and file options for a stream, and names the option's position. MR_OK or
 * MR_ERROR_CONFIG. */
int mr_media_check_options(mr_negotiation *negotiation, bool is_stream);
/* Times to play: 1 for false, -1 for true; 0 if the text is neither nor a count. */
int64_t mr_media_parse_loop(const char *text);
