/* How codec parameters of FFmpeg pass to other processes (mr_media.codec is AVCodecParameters here). What comes from
 * there is not trusted: it is bounded, and decoders look at it as they look at files. Any thread. */
#ifndef MILLRACE_STAGES_MEDIA_MEDIA_CODEC_H
#define MILLRACE_STAGES_MEDIA_MEDIA_CODEC_H

#include "millrace/frame.h"

extern const mr_media_codec mr_av_codec;

#endif
