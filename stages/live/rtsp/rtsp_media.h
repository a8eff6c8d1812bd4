/* Builds an mr_media for an RTP stream from its parameter sets or first picture. Any thread. */
#pragma once

#include "stages/live/rtsp/depacketize.h"
#include "stages/media/media_reader.h"

typedef struct mr_rtsp_facts {
    mr_rtp_codec codec;
    const uint8_t *sets;  /* parameter sets, in Annex B form, followed by MR_RTP_PADDING zeros */
    size_t sets_bytes;
    const uint8_t *unit;  /* a key unit; NULL: none yet */
    size_t unit_bytes;
    int width, height;    /* 0: as the decoder reads them */
    double rate;          /* pictures a second; 0: as the decoder reads it */
} mr_rtsp_facts;

/* Creates a media and surveys its pictures. What cannot be found stays unknown. MR_ERROR_MEMORY. */
int mr_rtsp_describe(mr_media **media, mr_survey *survey, const mr_rtsp_facts *facts, const mr_reader_params *params);
