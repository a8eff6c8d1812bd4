/* A journal of the frames whose records a sink has written to a pipe, a terminal, or standard output, where they cannot
 * be read again. If a process was killed, the one that is started in its place leaves those out.
 *
 * The supervisor of the processes names a folder for it, $MILLRACE_WRITTEN, which lasts until the run ends. The file is
 * mapped, so that an entry costs no system call and stays if the process is killed. It holds the last MR_JOURNAL_FRAMES
 * frames: more than can come again. If a process is killed between the writing of a record and its entry, that frame
 * comes twice. One thread. All zero is closed. */
#pragma once

#include "stages/sink/output.h"
#include "stages/sink/written.h"

enum { MR_JOURNAL_FRAMES = 1 << 18 };

typedef struct mr_journal {
    struct mr_journal_page *page; /* NULL: closed */
} mr_journal;

/* Opens an output that cannot be read again, and, if the run may be continued, the journal of this stage: its frames
 * are added to `written`, and a record that was begun and not finished is ended with `line_end`. MR_ERROR_CONFIG if the
 * run may be continued and there is no folder for journals; MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_journal_open_stream(mr_journal *journal, mr_output *output, const mr_stage *self, mr_written *written,
                           const char *line_end);
void mr_journal_close(mr_journal *journal);

/* Whether an earlier process has written the header of a table; that this one has. */
bool mr_journal_has_header(const mr_journal *journal);
void mr_journal_note_header(mr_journal *journal);
/* Called when a record is begun in pieces, and when the frame's record is written. No effect if the journal is closed.
 */
void mr_journal_begin(mr_journal *journal);
void mr_journal_note(mr_journal *journal, const mr_identity *frame);
