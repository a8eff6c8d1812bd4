/* What the writing sinks (jsonl, csv) share: a file or standard output that takes whole records; numbers as text.
 *
 * A record is written before mr_output_write returns, with one write(2) where the file takes it whole, so that a
 * frame counts as delivered only once its record has left the process. One stage at a time writes to standard output,
 * and a regular file is locked while it is open: two sinks, or two programs, never write into each other. Once a
 * write has failed, all later ones fail with the same message. What a regular file could not take whole is taken
 * back, so that it ends with a whole record.
 *
 * One thread at a time. Errors: MR_ERROR_IO (a full disk, a closed pipe), MR_ERROR_CLOSED (a closed pipe that is
 * standard output),
 * MR_ERROR_PERMISSION, MR_ERROR_MEMORY, MR_ERROR_CANCELLED (the run is stopped at once while a reader keeps us
 * waiting, or was asked to end and the reader goes on taking nothing, see mr_stage_gives_up). A thread that writes to
 * a pipe has SIGPIPE blocked from then on. */
#ifndef MILLRACE_STAGES_SINK_OUTPUT_H
#define MILLRACE_STAGES_SINK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "millrace/stage.h"
#include "stages/sink/full.h"

typedef struct mr_output {
    int fd;            /* 0 where it is not open: standard input is never written to */
    bool regular;
    _Atomic bool begun;
    mr_full full;      /* what happens when the disk is; set by who opens it, else that is a failure */
    int status;        /* of the first write that failed */
    const char *path;  /* borrowed; in messages "standard output" in place of "-" */
    char message[256]; /* of the failure */
} mr_output;

/* For negotiate: whether writing to `path` may block, which a pipe or a terminal does and a file does not. */
bool mr_output_blocks(const char *path);
/* Whether what is written there cannot be read again: standard output, a pipe or a terminal. */
bool mr_output_streams(const char *path);
/* Whether any output of this process was opened on standard output ("-"). Any thread. */
bool mr_output_takes_stdout(void);

/* All zero is closed. mr_output_open locks a regular file that is there; mr_output_begin, once it is known whether the
 * run begins or goes on (mr_stage_run_state), empties it, or goes on behind what it has. So nothing of it is lost where
 * this process is one that comes back. Standard output, pipes and terminals have begun once they are open.
 *
 * mr_output_begin answers MR_ERROR_AGAIN while that is not known (mr_output_await_begin), MR_OK also where it has begun already.
 * In a run that goes on, complete records stay, a last one that was cut off is removed, and `reader` is shown each line, in
 * the order of the file. MR_ERROR_NO_INPUT where the file is gone. */
int mr_output_open(mr_output *output, const char *path);
typedef struct mr_line_reader {
    /* A line without its end, which begins at that place of the file. MR_ERROR_AGAIN: its record goes on in the next one;
     * another failure ends the reading. */
    int (*take)(void *context, const char *line, size_t bytes, off_t at);
    /* Where the file is to be cut, which has complete records up to *end; NULL: there. */
    int (*finish)(void *context, off_t *end);
    void *context;
} mr_line_reader;
int mr_output_begin(mr_output *output, mr_run_state state, const mr_line_reader *reader);
/* Whether it has: any thread. */
bool mr_output_has_begun(const mr_output *output);
/* What process answers where mr_output_begin has not begun: after MR_ERROR_AGAIN it is called again soon; a failure stops the
 * run with all frames unsettled (mr_io_refuse). */
int mr_output_await_begin(mr_io *io, int status);
/* What was written is on the disk. Any thread, beside mr_output_write. */
int mr_output_sync(const mr_output *output);
/* MR_ERROR_AGAIN: the disk is full, nothing of the record is written, and it is to be tried again. */
int mr_output_write(mr_output *output, const mr_stage *self, const char *text, size_t bytes);
/* What process answers where the record of `frame` could not be written: the failure, which stops the run; after
 * MR_ERROR_AGAIN that it waits; or, where the run is being stopped at once anyway, MR_DONE with the frame dropped. */
int mr_output_failed(mr_io *io, const mr_frame *frame, int status);
void mr_output_close(mr_output *output, const mr_stage *self);

enum { MR_NUMBER_TEXT = 32 };
/* A decimal of eight digits, or nine where eight do not read back as the same float; "" for what is not a number
 * or not finite. With a point, whatever the locale. Returns the length. */
size_t mr_float_text(char text[MR_NUMBER_TEXT], float value);
/* Nanoseconds as seconds, exactly: "1.033333333", "2"; "" for MR_NO_TIME. Returns the length. */
size_t mr_seconds_text(char text[MR_NUMBER_TEXT], int64_t time_ns);
/* Element `index` of a dense array as text, as in mr_float_text. */
size_t mr_element_text(char text[MR_NUMBER_TEXT], mr_dtype dtype, const uint8_t *data, size_t index);

/* Whether frame->media->path names the file that the frame was read from. */
bool mr_frame_is_file(const mr_frame *frame);

#endif
