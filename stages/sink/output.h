/* Output of the sinks that write text (jsonl, csv): a file or standard output that takes whole records; numbers as
 * text.
 *
 * A record is written before mr_output_write returns, with one write(2) where the file takes it whole, so that a frame
 * counts as delivered only once its record has left the process. One stage at a time writes to standard output, and a
 * regular file is locked while it is open: two sinks, or two programs, never write into each other. If a write fails,
 * all later ones fail with the same message. If a regular file cannot take a record whole, the part that was written is
 * removed, so that the file ends with a whole record. Regular files are appended to (O_APPEND): one that another
 * program makes shorter is continued at its end.
 *
 * One thread at a time. Errors: MR_ERROR_IO (a full disk, a closed pipe), MR_ERROR_CLOSED (a closed pipe that is
 * standard output), MR_ERROR_PERMISSION, MR_ERROR_MEMORY, MR_ERROR_CANCELLED (the run is stopped at once while a write
 * waits for the reader, or was asked to end and the reader still takes nothing, see mr_stage_gives_up). A thread that
 * writes to a pipe has SIGPIPE blocked from then on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "millrace/stage.h"
#include "stages/sink/full.h"

typedef struct mr_output {
    int fd;            /* 0 if it is not open: standard input is never written to */
    bool regular;
    bool awaits_reader; /* a FIFO that nobody reads yet: the first write opens it, and waits for a reader */
    _Atomic bool begun;
    mr_full full;      /* the action if the disk is full; set by the caller of mr_output_open, else it is a failure */
    int status;        /* of the first write that failed */
    const char *path;  /* borrowed; in messages "standard output" in place of "-" */
    char message[256]; /* of the failure */
} mr_output;

/* For negotiate: whether writing to `path` may block, which a pipe or a terminal does and a file does not. */
bool mr_output_blocks(const char *path);
/* Whether records cannot be read again from there: standard output, a pipe or a terminal. */
bool mr_output_streams(const char *path);

/* All zero is closed. mr_output_open locks a regular file that is there; mr_output_begin, once it is known whether the
 * run begins or goes on (mr_stage_run_state), empties it, or appends to it. So nothing of it is lost if this process
 * replaces one that was killed. Standard output, pipes and terminals have begun once they are open.
 *
 * mr_output_begin returns MR_ERROR_AGAIN while that is not known (mr_output_await_begin), and MR_OK if it has begun
 * already. In a run that goes on, complete records stay, a last one that was cut off is removed, and `reader` is shown
 * each line, in the order of the file. MR_ERROR_NO_INPUT if the file does not exist any more. */
int mr_output_open(mr_output *output, const char *path);
typedef struct mr_line_reader {
    /* A line without its end, which begins at that place of the file. MR_ERROR_AGAIN: its record goes on in the next
     * one; another failure ends the reading. */
    int (*take)(void *context, const char *line, size_t bytes, off_t at);
    /* Sets *end, the end of the complete records, to the offset at which the file is to be cut; NULL: at *end. */
    int (*finish)(void *context, off_t *end);
    void *context;
} mr_line_reader;
int mr_output_begin(mr_output *output, mr_run_state state, const mr_line_reader *reader);
/* Whether it has: any thread. */
bool mr_output_has_begun(const mr_output *output);
/* An output whose file was opened, locked and is to be appended to by the caller: it has begun. `path` is borrowed. */
mr_output mr_output_of(int fd, const char *path);
/* If another file, or none, has the path by now (it was moved: logrotate), opens or makes that one and closes the old.
 * *empty: the output is now a file without content. If it cannot be opened, the old one stays. Standard output, pipes
 * and terminals stay. */
bool mr_output_has_moved(const mr_output *output);
int mr_output_reopen(mr_output *output, bool *empty);
/* The return value of process if mr_output_begin has not begun: after MR_ERROR_AGAIN it is called again soon; a failure
 * stops the run with all frames unsettled (mr_io_refuse). */
int mr_output_await_begin(mr_io *io, int status);
/* Flushes the file to the disk. Any thread, beside mr_output_write. */
int mr_output_sync(const mr_output *output);
/* MR_ERROR_AGAIN: the disk is full, nothing of the record is written, and it is to be tried again. */
int mr_output_write(mr_output *output, const mr_stage *self, const char *text, size_t bytes);
/* The return value of process if the record of `frame` could not be written: the failure, which stops the run; after
 * MR_ERROR_AGAIN MR_WAIT; or, if the run is being stopped at once anyway, MR_DONE with the frame dropped. */
int mr_output_failed(mr_io *io, const mr_frame *frame, int status);
void mr_output_close(mr_output *output, const mr_stage *self);

enum { MR_NUMBER_TEXT = 32 };
/* A decimal of eight digits, or nine where eight do not read back as the same float; "" if it is not finite. With a
 * point, whatever the locale. Returns the length. */
size_t mr_float_text(char text[MR_NUMBER_TEXT], float value);
/* The same of a double: 15 digits, or 17. */
size_t mr_double_text(char text[MR_NUMBER_TEXT], double value);
/* Nanoseconds as seconds, exactly: "1.033333333", "2"; "" for MR_NO_TIME. Returns the length. */
size_t mr_seconds_text(char text[MR_NUMBER_TEXT], int64_t time_ns);
/* Element `index` of a dense array as text, as in mr_float_text. */
size_t mr_element_text(char text[MR_NUMBER_TEXT], mr_dtype dtype, const uint8_t *data, size_t index);

/* Of anything but packets, which are damaged, too, if decode drops their pictures. */
bool mr_frame_is_damaged(const mr_frame *frame);
