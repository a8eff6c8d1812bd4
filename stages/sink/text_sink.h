/* Shared by the text sinks (jsonl, csv). Records are written whole, one per frame. A continued run skips those that an
 * earlier process has written.
 *
 * A path whose last part has {time} or {number} names one file per start and per `segment`; `keep_for` and `keep_bytes`
 * remove old ones (keep.h). Any other path is a single file. If the program asks for it (mr_stage_reopenings), the next
 * record goes to a new segment, or to a new file if the single one was moved. The list ".PIPELINE.STAGE.files" next to
 * them names this run's files: a continued run must find its records in all of them.
 *
 * A stage's state must begin with mr_text_sink, and its options with mr_text_options. Threads and errors: as for a
 * single-instance stage; see output.h. */
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
    const char *header;                       /* a table's header, written to each file; or NULL */
    const char *line_end;
} mr_text_form;

typedef struct mr_text_sink {
    mr_output output;
    mr_written written;    /* from an earlier process in this run */
    mr_journal journal;    /* open if the output cannot be read again and the run may be continued */
    mr_line_reader reader; /* reads what an earlier process wrote */
    mr_text_form form;
    mr_keep keep;          /* folder and pattern; no pattern: one file */
    uint64_t number;       /* next file's number */
    int64_t due_ns;        /* the next segment */
    uint64_t reopenings;   /* when the file was opened */
    bool headed;           /* the header is in the file */
    bool opened;           /* the lock is there */
    pthread_mutex_t lock;  /* guards the output's file, which mr_text_sink_sync uses on another thread */
    char folder[MR_OUTPUT_PATH], list[MR_OUTPUT_PATH], path[MR_OUTPUT_PATH];
} mr_text_sink;

/* Rows for those options in a stage's table; the options must begin with mr_text_options. */
#define MR_TEXT_SINK_OPTIONS                                                                                           \
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(mr_text_options, path),       \
     .fallback = "-",                                                                                                  \
     .help = "file to write; a new run empties it; \"-\" is standard output. Its folder is made if it does not "     \
             "exist. With {time} (20261123T081500Z) or {number} in its name each start and each segment has its "    \
             "own file"},                                                                                            \
        {.name = "segment", .kind = MR_OPTION_DURATION, .offset = offsetof(mr_text_options, segment),                  \
         .fallback = "0s", .max = 1e18,                                                                                \
         .help = "begin another file with the first frame after this time; the name then needs {time} or {number}. "   \
                 "0: one file"}, \
        MR_KEEP_OPTIONS(offsetof(mr_text_options, keep_for), offsetof(mr_text_options, keep_bytes), "stage"),          \
        MR_ON_FULL_OPTION(offsetof(mr_text_options, on_full))

/* negotiate: declares whether the path may block, and refuses invalid file names. */
int mr_text_sink_negotiate(mr_negotiation *negotiation);
/* open: opens the output, and begins it if it is known whether the run begins or continues. */
int mr_text_sink_open(mr_stage *self, const mr_text_form *form);
/* Must come first in process: true once the output has begun and the file has the header. Otherwise process must return
 * *answer. */
bool mr_text_sink_ready(mr_stage *self, mr_io *io, int *answer);
/* Once ready: whether the file has the frame's record; and the end of process, which writes it. */
bool mr_text_sink_has(mr_stage *self, const mr_frame *frame);
int mr_text_sink_put(mr_stage *self, mr_io *io, const mr_frame *frame, const char *text, size_t bytes);
/* The stage's flush and sync. */
int mr_text_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
int mr_text_sink_sync(mr_stage *self);
/* close: begins the output, with a header, even if no frame came, unless the run was stopped at once. */
void mr_text_sink_close(mr_stage *self);
