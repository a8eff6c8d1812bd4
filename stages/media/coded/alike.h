/* Whether two descriptions of a stream are of the same pictures. Some cameras of H.264 send parameter sets that differ
 * in each group of pictures, but only in how their pictures may be used (timing, buffers). Any thread. */
#ifndef MILLRACE_STAGES_MEDIA_CODED_ALIKE_H
#define MILLRACE_STAGES_MEDIA_CODED_ALIKE_H

#include <libavcodec/codec_par.h>
#include <stdbool.h>

/* True if size, layout, colours and all parameters that decoding depends on are the same. Both need not be of one
 * connection. */
bool mr_codecs_are_alike(const AVCodecParameters *a, const AVCodecParameters *b);

#endif
