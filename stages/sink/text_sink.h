/* The common part of the sinks that write text (jsonl, csv): records are written whole, one for each frame, and a run
 * that goes on leaves out those that an earlier process of it has written.
 *
 * A path whose last part has {time} or {number} names a file for each start and each `segment`; `keep_for` and
 * `keep_bytes` remove old ones (keep.h). Any other path is one file. If the program asks for it (mr_stage_reopenings),
 * the next record goes to a new segment, or to a new file if the one file was moved. A list beside the files,
 * ".PIPELINE.STAGE.files", has those of this run, so that one that goes on finds its records in all of them.
 *
 * A stage's state begins with an mr_text_sink, and its options with mr_text_options. Threads and errors: those of a
 * stage of one instance; see output.h. */
#pragma once

#include <pthread.h>

#include "stages/sink/journal.h"
#include "stages/sink/keep.h"
#include "stages/sink/output.h"
#include "stages/sink/written.h"

typedef struct mr_text_options {
    const char *path;
    int64_t segment, keep_for, keep_bytes;
    int on_full;
} mr_text_options;

/* How records are read back. */
typedef struct mr_text_form {
    int (*take)(void *written, const char *line, size_t bytes, off_t at);
    int (*finish)(void *written, off_t *end); /* or NULL */
    const char *header;                       /* of a table, in each of its files; or NULL */
    const char *line_end;
} mr_text_form;

typedef struct mr_text_sink {
    mr_output output;
    mr_written written;    /* by an earlier process of this run */
    mr_journal journal;    /* open if the output cannot be read again and the run may be continued */
    mr_line_reader reader; /* of what an earlier process has written */
    mr_text_form form;
    mr_keep keep;          /* its folder and pattern; no pattern: one file */
    uint64_t number;       /* of the next file */
    int64_t due_ns;        /* the next segment */
    uint64_t reopenings;   /* when the file was opened */
    bool headed;           /* the header is in the file */
    bool opened;           /* the lock is there */
    pthread_mutex_t lock;  /* of the output's file, which mr_text_sink_sync uses on another thread */
    char folder[MR_OUTPUT_PATH], list[MR_OUTPUT_PATH], path[MR_OUTPUT_PATH];
} mr_text_sink;

/* The rows of those options in a stage's table; its options begin with an mr_text_options. */
#define MR_TEXT_SINK_OPTIONS                                                                                           \
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(mr_text_options, path),       \
     .fallback = "-",                                                                                                  \
     .help = "file to write; a new run empties it; \"-\" is standard output. With {time} (20261123T081500Z) or "     \
             "{number} in its name each start and each segment has its own file"},                                \
        {.name = "segment", .kind = MR_OPTION_DURATION, .offset = offsetof(mr_text_options, segment),                  \
         .fallback = "0s", .max = 1e18,                                                                                \
         .help = "begin another file with the first frame after this time; the name then needs {time} or {number}. "   \
                 "0: one file"}, \
        MR_KEEP_OPTIONS(offsetof(mr_text_options, keep_for), offsetof(mr_text_options, keep_bytes), "stage"),          \
        MR_ON_FULL_OPTION(offsetof(mr_text_options, on_full))

/* negotiate: whether the path may block, and refuses a name that cannot be one of files. */
int mr_text_sink_negotiate(mr_negotiation *negotiation);
/* open: the output is opened, and begun if it is known whether the run begins or goes on. */
int mr_text_sink_open(mr_stage *self, const mr_text_form *form);
/* The beginning of process: true once the output has begun and its present file has its header; otherwise *answer is
 * the return value of process. */
bool mr_text_sink_ready(mr_stage *self, mr_io *io, int *answer);
/* Once it is ready: whether the frame's record is there; and the end of process: writes it. */
bool mr_text_sink_has(mr_stage *self, const mr_frame *frame);
int mr_text_sink_put(mr_stage *self, mr_io *io, const mr_frame *frame, const char *text, size_t bytes);
/* flush and sync of the stage. */
int mr_text_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
int mr_text_sink_sync(mr_stage *self);
/* close: an output for which no frame came is begun, too, unless the run was stopped at once, and gets its header. */
void mr_text_sink_close(mr_stage *self);
