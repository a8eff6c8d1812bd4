/* Retention: the oldest files of a source are removed when they are too old, or too large together. The folder itself
 * is looked at each time, so files of earlier runs count, and none is remembered. A file that is being written stays.
 * One thread. */
#ifndef MILLRACE_STAGES_VIDEO_VIDEO_KEEP_H
#define MILLRACE_STAGES_VIDEO_VIDEO_KEEP_H

#include "millrace/stage.h"
#include "stages/video/video_name.h"

typedef struct mr_video_keep {
    mr_video_names names;
    const char *beside; /* ending of a file that goes with each one; NULL: none */
    int64_t for_ns;     /* 0: for ever */
    int64_t bytes;      /* all together; 0: any number */
    size_t files;       /* at most so many; 0: any number */
} mr_video_keep;

/* Removes the files that are too many beside `spared`, a name that stays (NULL: none). A file that cannot be removed is
 * reported and left. */
void mr_video_keep_apply(const mr_video_keep *keep, const mr_stage *self, const char *spared);
/* The number after the highest among the files that are there; 0: there are none. */
uint64_t mr_video_keep_next(const mr_video_keep *keep);

#endif
