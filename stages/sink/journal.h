/* Remembers which frames' records a sink has written to a pipe, terminal or standard output, where they cannot be read
 * again. A process that replaces a killed one then skips those.
 *
 * The supervisor names a folder, $MILLRACE_WRITTEN, which lasts until the run ends. The file is mapped: an entry costs
 * no system call and survives a killed process. It holds the last MR_JOURNAL_FRAMES frames, more than can come again.
 * If a process is killed between writing a record and the entry, that frame comes twice. One thread. All zero is
 * closed. */
#pragma once

#include "stages/sink/output.h"
#include "stages/sink/written.h"

enum { MR_JOURNAL_FRAMES = 1 << 18 };

typedef struct mr_journal {
    struct mr_journal_page *page; /* NULL: closed */
} mr_journal;

/* Opens an output that cannot be read again. If the run may be continued, also opens this stage's journal and adds its
 * frames to `written`; an unfinished record is ended with `line_end`. MR_ERROR_CONFIG if the run may be continued but
 * there is no journal folder; MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_journal_open_stream(mr_journal *journal, mr_output *output, const mr_stage *self, mr_written *written,
                           const char *line_end);
void mr_journal_close(mr_journal *journal);

/* Whether an earlier process has written a table's header; records that this one has. */
bool mr_journal_has_header(const mr_journal *journal);
void mr_journal_note_header(mr_journal *journal);
/* Call when a record is begun in pieces, and when a frame's record is written. No effect if the journal is closed. */
void mr_journal_begin(mr_journal *journal);
void mr_journal_note(mr_journal *journal, const mr_identity *frame);
