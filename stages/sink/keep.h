/* Retention: removes a source's oldest files when they are too old, or too large together. It reads the folder each
 * time, so earlier runs' files count, and nothing is remembered. A file that is being written stays.
 *
 * Only own files are removed or counted. Each new file is marked with pipeline, stage and source in the extended
 * attribute user.millrace.source. A file with another mark is not own. A file without a mark (copied, or without
 * attribute support) is own if its name fits. It must not be another source's, though: it may not have "-2" before the
 * extension, or another source's longer id instead of this one. One thread. */
#pragma once

#include "millrace/stage.h"
#include "stages/sink/file_name.h"

typedef struct mr_keep {
    mr_file_names names;
    const char *beside; /* extension of a file that accompanies each one; NULL: none */
    int64_t for_ns;     /* 0: for ever */
    int64_t bytes;      /* all together; 0: any number */
    size_t files;       /* the most files; 0: any number */
    bool passed_over;   /* a file without a mark was reported */
} mr_keep;

/* The options keep_for and keep_bytes for a sink; `whom` says whose files. */
#define MR_KEEP_OPTIONS(for_offset, bytes_offset, whom)                                                                \
    {.name = "keep_for", .kind = MR_OPTION_DURATION, .offset = for_offset, .fallback = "0s", .max = 1e18,              \
     .help = "when a file is finished, files of the " whom " that are older than this are removed; 0: none are"},      \
        {.name = "keep_bytes", .kind = MR_OPTION_BYTES, .offset = bytes_offset, .fallback = "0", .max = 1e18,          \
         .help = "when a file is finished, the oldest files of the " whom " are removed until all together have at "   \
                 "most this many bytes; 0: none are"}

/* Marks a new file. Does nothing on a file system without attributes. */
void mr_keep_mark(const mr_stage *self, int fd);
/* Whether a file in the open `folder` is own; sets *number (may be NULL) to the {number}. */
bool mr_keep_is_own(mr_keep *keep, const mr_stage *self, int folder, const char *name, uint64_t *number);
/* Removes files beyond the limits, except `spared` (NULL: none), and logs each as information. If a file cannot be
 * removed, this is reported and the file stays. */
void mr_keep_apply(mr_keep *keep, const mr_stage *self, const char *spared);
/* One more than the highest existing file number; 0: no files. */
uint64_t mr_keep_next(mr_keep *keep, const mr_stage *self);
