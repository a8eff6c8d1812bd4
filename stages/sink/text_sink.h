/* The common part of the sinks that write text (jsonl, csv): records are written whole, one for each frame, and a run
 * that goes on leaves out those that an earlier process of it has written.
 *
 * A stage's state begins with an mr_text_sink. Threads and errors: those of a stage of one instance; see output.h. */
#ifndef MILLRACE_STAGES_SINK_TEXT_SINK_H
#define MILLRACE_STAGES_SINK_TEXT_SINK_H

#include "stages/sink/journal.h"
#include "stages/sink/output.h"
#include "stages/sink/written.h"

typedef struct mr_text_sink {
    mr_output output;
    mr_written written;    /* by an earlier process of this run */
    mr_journal journal;    /* open if the output cannot be read again and the run may be continued */
    mr_line_reader reader; /* of what an earlier process has written */
} mr_text_sink;

/* How records are read back; borrowed. */
typedef struct mr_text_form {
    int (*take)(void *written, const char *line, size_t bytes, off_t at);
    int (*finish)(void *written, off_t *end); /* or NULL */
    const char *header;                       /* of a table, or NULL */
    const char *line_end;
} mr_text_form;

/* open: the output is opened, and begun if it is known whether the run begins or goes on. MR_ERROR_AGAIN if it is
 * not. */
int mr_text_sink_open(mr_stage *self, const char *path, int on_full, const mr_text_form *form);
/* Begins the output, once. MR_ERROR_AGAIN while it is not known whether the records in it are of this run. */
int mr_text_sink_begin(mr_stage *self);
/* Once it has begun: whether the frame's record is there; and the end of process: writes it. */
bool mr_text_sink_has(mr_stage *self, const mr_frame *frame);
int mr_text_sink_put(mr_stage *self, mr_io *io, const mr_frame *frame, const char *text, size_t bytes);
/* flush and sync of the stage. */
int mr_text_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
int mr_text_sink_sync(mr_stage *self);
/* close: an output for which no frame came is begun, too, unless the run was stopped at once, and then gets what `last`
 * writes (NULL: nothing). */
void mr_text_sink_close(mr_stage *self, int (*last)(mr_stage *self));

#endif
