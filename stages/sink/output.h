/* Output for text sinks (jsonl, csv): a file or standard output that takes complete records.
 *
 * A record is written before mr_output_write returns, with one write(2) if the file takes it whole. A frame therefore
 * counts as delivered only after its record has left the process. Only one stage at a time can write to standard
 * output, and an open regular file is locked: two sinks or programs never mix their output. After a failed write, all
 * later writes fail with the same message. If a regular file takes only part of a record, that part is removed, so that
 * the file ends with a complete record. Regular files are opened with O_APPEND: if another program truncates one,
 * writing continues at the new end.
 *
 * One thread at a time. Errors: MR_ERROR_IO (a full disk, a closed pipe), MR_ERROR_CLOSED (standard output is a closed
 * pipe), MR_ERROR_PERMISSION, MR_ERROR_MEMORY. MR_ERROR_CANCELLED: while a write waits for the reader, the run is
 * stopped, or was asked to end and the reader still takes nothing (mr_stage_gives_up). Writing to a pipe blocks SIGPIPE
 * in that thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "millrace/stage.h"
#include "stages/sink/full.h"

typedef struct mr_output {
    int fd;            /* 0 if not open: standard input is never written to */
    bool regular;
    bool awaits_reader; /* a FIFO without a reader: the first write opens it and waits for one */
    _Atomic bool begun;
    mr_full full;      /* what to do if the disk is full; set it before mr_output_open, otherwise it is a failure */
    int status;        /* first failed write's status */
    const char *path;  /* borrowed; messages show "standard output" for "-" */
    char message[256]; /* failure message */
} mr_output;

/* Call in negotiate: whether writing to `path` may block. A pipe or terminal may, a file does not. */
bool mr_output_blocks(const char *path);
/* Whether records there cannot be read again: standard output, a pipe or a terminal. */
bool mr_output_streams(const char *path);

/* All zero is closed. mr_output_open locks an existing regular file. Once it is known whether the run begins or
 * continues (mr_stage_run_state), mr_output_begin empties it or appends to it. Nothing is lost if this process replaces
 * a killed one. Standard output, pipes and terminals begin when opened.
 *
 * mr_output_begin returns MR_ERROR_AGAIN while that is unknown (mr_output_await_begin), and MR_OK if it has begun
 * before. In a continued run, complete records stay, an incomplete last one is removed, and `reader` gets each line in
 * file order. MR_ERROR_NO_INPUT if the file has disappeared. */
int mr_output_open(mr_output *output, const char *path);
typedef struct mr_line_reader {
    /* Takes a line, without the line break, that begins at this file offset. MR_ERROR_AGAIN: its record continues on
     * the next line. Any other failure ends the reading. */
    int (*take)(void *context, const char *line, size_t bytes, off_t at);
    /* May lower *end, the end of the complete records: the file is cut there. NULL: leaves *end. */
    int (*finish)(void *context, off_t *end);
    void *context;
} mr_line_reader;
int mr_output_begin(mr_output *output, mr_run_state state, const mr_line_reader *reader);
/* Whether it has: any thread. */
bool mr_output_has_begun(const mr_output *output);
/* An output for a file that the caller has opened and locked for appending: it has begun. `path` is borrowed. */
mr_output mr_output_of(int fd, const char *path);
/* If the path now names another file or none (it was moved: logrotate), opens or creates that one and closes the old.
 * *empty: the output is now an empty file. If opening fails, the old one stays. Standard output, pipes and terminals
 * stay. */
bool mr_output_has_moved(const mr_output *output);
int mr_output_reopen(mr_output *output, bool *empty);
/* What process must return if mr_output_begin has not begun. After MR_ERROR_AGAIN it is called again soon; a failure
 * stops the run with all frames unsettled (mr_io_refuse). */
int mr_output_await_begin(mr_io *io, int status);
/* Flushes the file to disk. Any thread, also during mr_output_write. */
int mr_output_sync(const mr_output *output);
/* MR_ERROR_AGAIN: the disk is full, nothing was written, and the record must be tried again. */
int mr_output_write(mr_output *output, const mr_stage *self, const char *text, size_t bytes);
/* What process must return if the record for `frame` could not be written. Normally the failure, which stops the run;
 * MR_WAIT after MR_ERROR_AGAIN; MR_DONE, with the frame dropped, if the run is being stopped anyway. */
int mr_output_failed(mr_io *io, const mr_frame *frame, int status);
void mr_output_close(mr_output *output, const mr_stage *self);

/* For anything but packets: those are damaged too if decode drops their pictures. */
bool mr_frame_is_damaged(const mr_frame *frame);
