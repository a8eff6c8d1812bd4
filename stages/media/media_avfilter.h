/* libavfilter, loaded when a test pattern is first asked for: with all that it drags in, it would cost every other
 * run 20 MB and a tenth of a second. The functions are called as always, through the table's members of the same
 * names. */
#ifndef MILLRACE_STAGES_MEDIA_MEDIA_AVFILTER_H
#define MILLRACE_STAGES_MEDIA_MEDIA_AVFILTER_H

#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>

#define MR_AVFILTER_FUNCTIONS(X)                                                                                     \
    X(avfilter_graph_alloc)                                                                                          \
    X(avfilter_graph_free)                                                                                           \
    X(avfilter_graph_parse2)                                                                                         \
    X(avfilter_graph_create_filter)                                                                                  \
    X(avfilter_graph_config)                                                                                         \
    X(avfilter_get_by_name)                                                                                          \
    X(avfilter_inout_free)                                                                                           \
    X(avfilter_link)                                                                                                 \
    X(avfilter_pad_get_type)                                                                                         \
    X(av_buffersink_get_w)                                                                                           \
    X(av_buffersink_get_h)                                                                                           \
    X(av_buffersink_get_format)                                                                                      \
    X(av_buffersink_get_frame)                                                                                       \
    X(av_buffersink_get_frame_rate)                                                                                  \
    X(av_buffersink_get_sample_aspect_ratio)                                                                         \
    X(av_buffersink_get_time_base)

typedef struct mr_avfilter {
#define X(name) __typeof__(&name) name;
    MR_AVFILTER_FUNCTIONS(X)
#undef X
} mr_avfilter;

/* The library, which stays loaded. NULL, with a message, where it cannot be had. Any thread. */
const mr_avfilter *mr_avfilter_load(void);

#endif
