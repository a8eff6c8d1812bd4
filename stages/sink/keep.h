/* Retention: the oldest files of a source are removed when they are too old, or too large together. The folder itself
 * is looked at each time, so files of earlier runs count, and none is remembered. A file that is being written stays.
 *
 * Only own files are removed or counted. Each file is marked when it is made, with pipeline, stage and source, as an
 * extended attribute, user.millrace.source. A file with the mark of another stage, source or pipeline is not own. One
 * without a mark (copied, or on a file system without attributes) is own if its name fits, but not if it may be that of
 * another source: if it has "-2" before its ending, or the longer id of another source of the pipeline in the place of
 * this one. One thread. */
#pragma once

#include "millrace/stage.h"
#include "stages/sink/file_name.h"

typedef struct mr_keep {
    mr_file_names names;
    const char *beside; /* ending of a file that goes with each one; NULL: none */
    int64_t for_ns;     /* 0: for ever */
    int64_t bytes;      /* all together; 0: any number */
    size_t files;       /* at most so many; 0: any number */
    bool passed_over;   /* a file without a mark was reported */
} mr_keep;

/* The options keep_for and keep_bytes of a sink whose files are those of `whom`. */
#define MR_KEEP_OPTIONS(for_offset, bytes_offset, whom)                                                                \
    {.name = "keep_for", .kind = MR_OPTION_DURATION, .offset = for_offset, .fallback = "0s", .max = 1e18,              \
     .help = "when a file is finished, files of the " whom " that are older than this are removed; 0: none are"},      \
        {.name = "keep_bytes", .kind = MR_OPTION_BYTES, .offset = bytes_offset, .fallback = "0", .max = 1e18,          \
         .help = "when a file is finished, the oldest files of the " whom " are removed until all together have at "   \
                 "most this many bytes; 0: none are"}

/* Marks a file that was made. On a file system without attributes nothing happens. */
void mr_keep_mark(const mr_stage *self, int fd);
/* Whether a file of the folder, open as `folder`, is own; *number (may be NULL) is then its {number}. */
bool mr_keep_is_own(mr_keep *keep, const mr_stage *self, int folder, const char *name, uint64_t *number);
/* Removes the files that are too many beside `spared`, a name that stays (NULL: none), and logs each as information. A
 * file that cannot be removed is reported and left. */
void mr_keep_apply(mr_keep *keep, const mr_stage *self, const char *spared);
/* The number after the highest among the files that are there; 0: there are none. */
uint64_t mr_keep_next(mr_keep *keep, const mr_stage *self);
