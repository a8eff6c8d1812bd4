/* A journal of the frames whose records a sink has written where they cannot be read again: to a pipe, a terminal, or
 * standard output. A process that is started again in place of one that was killed leaves those out.
 *
 * Who watches over the processes offers a place for it, $MILLRACE_WRITTEN, which outlives them but not the run; the
 * file is mapped, so that a note costs no system call, and what was noted stays when the process is killed. It holds
 * the last MR_JOURNAL_FRAMES frames: more than can come again. A process that is killed after a record was written
 * and before that is noted leaves one frame that comes twice. One thread. All zero is closed. */
#ifndef MILLRACE_STAGES_SINK_JOURNAL_H
#define MILLRACE_STAGES_SINK_JOURNAL_H

#include "stages/sink/output.h"
#include "stages/sink/written.h"

enum { MR_JOURNAL_FRAMES = 1 << 18 };

typedef struct mr_journal {
    struct mr_journal_page *page; /* NULL: closed */
} mr_journal;

/* Opens an output that cannot be read again, and, if the run may be continued, the journal of this stage: what it has is
 * added to `written`, and a record that was begun and not finished is ended with `line_end`. MR_ERROR_CONFIG if the run
 * may be continued and there is no place for journals; MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_journal_open_stream(mr_journal *journal, mr_output *output, const mr_stage *self, mr_written *written,
                           const char *line_end);
void mr_journal_close(mr_journal *journal);

/* Whether an earlier process has written the header of a table; that this one has. */
bool mr_journal_has_header(const mr_journal *journal);
void mr_journal_note_header(mr_journal *journal);
/* Around the writing of a record: that it is begun in pieces; that the frame's record is written. Nothing where the
 * journal is closed. */
void mr_journal_begin(mr_journal *journal);
void mr_journal_note(mr_journal *journal, const mr_identity *frame);

#endif
