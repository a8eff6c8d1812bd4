#include "stages/sink/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/millrace.h"

/* How long to wait for a stalled reader before checking whether the run is still wanted. */
enum { PATIENCE_MS = 100 };
/* Interval between tries to open a FIFO without a reader. */
enum { OPEN_AGAIN_NS = 20000000 };
/* Polling interval until it is known whether the run continues. */
static const int64_t ASK_NS = 20000000;

static atomic_bool stdout_taken; /* at some time */
static atomic_bool stdout_open;  /* now */

bool mr_output_takes_stdout(void) {
    return atomic_load(&stdout_taken);
}

static bool is_stdout(const char *path) {
    return strcmp(path, "-") == 0;
}

bool mr_output_blocks(const char *path) {
    struct stat found;
    int missing = is_stdout(path) ? fstat(STDOUT_FILENO, &found) : stat(path, &found);
    return !missing && !S_ISREG(found.st_mode);
}

bool mr_output_streams(const char *path) {
    return is_stdout(path) || mr_output_blocks(path);
}

static bool is_fifo(const char *path) {
    struct stat found;
    return !stat(path, &found) && S_ISFIFO(found.st_mode);
}

static int take_stdout(mr_output *output) {
    struct stat found;
    output->path = "standard output";
    if (fstat(STDOUT_FILENO, &found))
        return mr_file_fail("write to", output->path);
    if (atomic_exchange(&stdout_open, true))
        return mr_fail(MR_ERROR_IO, "standard output is being written by another stage");
    output->fd = STDOUT_FILENO;
    output->regular = S_ISREG(found.st_mode);
    atomic_store(&stdout_taken, true);
    return MR_OK;
}

/* A FIFO without a reader is opened by the first write, which may wait. */
static int take_stream(mr_output *output, const char *path) {
    int status = is_stdout(path) ? take_stdout(output) : mr_file_take(path, &output->fd, &output->regular);
    output->awaits_reader = status && errno == ENXIO && is_fifo(path);
    status = output->awaits_reader ? MR_OK : status;
    atomic_store(&output->begun, !status);
    return status;
}

int mr_output_open(mr_output *output, const char *path) {
    *output = (mr_output){.path = path};
    if (mr_output_streams(path))
        return take_stream(output, path);
    output->regular = true;
    int status = mr_file_continue(path, &output->fd);
    return status == MR_ERROR_NO_INPUT ? mr_file_can_make(path) : status;
}

/* Passes each complete line to the reader; *end is after the last complete record. */
static int read_lines(int fd, const mr_line_reader *reader, off_t *end) {
    FILE *file = fdopen(dup(fd), "r");
    char *line = NULL;
    size_t room = 0;
    off_t at = 0;
    int status = file ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory to read the file");
    *end = 0;
    for (ssize_t bytes; !status && (bytes = getline(&line, &room, file)) > 0 && line[bytes - 1] == '\n'; at += bytes) {
        line[bytes - 1] = '\0';
        status = reader->take(reader->context, line, (size_t)bytes - 1, at);
        if (!status)
            *end = at + bytes;
        status = status == MR_ERROR_AGAIN ? MR_OK : status;
    }
    if (!status && reader->finish)
        status = reader->finish(reader->context, end);
    free(line);
    if (file)
        fclose(file);
    return status;
}

/* Not for standard output, whose file description other processes share. */
static void append_always(const mr_output *output) {
    int flags = output->regular && output->fd != STDOUT_FILENO ? fcntl(output->fd, F_GETFL) : -1;
    if (flags >= 0)
        fcntl(output->fd, F_SETFL, flags | O_APPEND);
}

bool mr_output_has_begun(const mr_output *output) {
    return atomic_load_explicit(&output->begun, memory_order_acquire);
}

/* Continues after the last complete record. */
static int go_on(mr_output *output, const mr_line_reader *reader) {
    off_t end = 0;
    if (!output->fd)
        return mr_fail(MR_ERROR_NO_INPUT,
                       "%s does not exist any more, but this run continues one that has written to it: restore the "
                       "file, or end all nodes and start a new run", output->path);
    int status = read_lines(output->fd, reader, &end);
    if (!status && (ftruncate(output->fd, end) || lseek(output->fd, end, SEEK_SET) != end))
        status = mr_file_fail("continue", output->path);
    return status;
}

int mr_output_begin(mr_output *output, mr_run_state state, const mr_line_reader *reader) {
    if (mr_output_has_begun(output))
        return MR_OK;
    if (state == MR_RUN_UNKNOWN)
        return MR_ERROR_AGAIN;
    int status = state == MR_RUN_GOES_ON ? go_on(output, reader)
                 : output->fd            ? mr_file_empty(output->path, output->fd)
                                         : mr_file_take(output->path, &output->fd, &output->regular);
    if (!status)
        append_always(output);
    atomic_store_explicit(&output->begun, !status, memory_order_release);
    return status;
}

mr_output mr_output_of(int fd, const char *path) {
    mr_output output = {.fd = fd, .regular = true, .path = path};
    append_always(&output);
    atomic_store(&output.begun, true);
    return output;
}

bool mr_output_has_moved(const mr_output *output) {
    struct stat open_one, named;
    return !fstat(output->fd, &open_one) && (stat(output->path, &named) || named.st_ino != open_one.st_ino ||
                                             named.st_dev != open_one.st_dev);
}

int mr_output_reopen(mr_output *output, bool *empty) {
    struct stat about;
    int fd = 0;
    *empty = false;
    if (!output->regular || output->fd == STDOUT_FILENO || !mr_output_has_moved(output))
        return MR_OK;
    int status = mr_file_append(output->path, &fd);
    if (status)
        return status;
    *empty = !fstat(fd, &about) && about.st_size == 0;
    close(output->fd);
    output->fd = fd;
    append_always(output);
    return MR_OK;
}

int mr_output_await_begin(mr_io *io, int status) {
    if (status != MR_ERROR_AGAIN)
        return mr_io_refuse(io, status);
    mr_io_wake_at(io, mr_io_now_ns(io) + ASK_NS);
    return MR_WAIT;
}

int mr_output_sync(const mr_output *output) {
    return output->regular && fdatasync(output->fd) ? mr_file_fail("write to", output->path) : MR_OK;
}

/* A pipe's reader may be slow. Writes what fits without blocking, and checks for cancellation in between. If the run
 * was asked to end, it does not wait forever. */
static int await_reader(const mr_output *output, const mr_stage *self) {
    struct pollfd one = {.fd = output->fd, .events = POLLOUT};
    while (!mr_stage_cancelled(self)) {
        int ready = poll(&one, 1, PATIENCE_MS);
        if (ready > 0)
            return MR_OK;
        if (ready < 0 && errno != EINTR)
            return MR_ERROR_IO;
        if (mr_stage_gives_up(self))
            break;
    }
    return mr_fail(MR_ERROR_CANCELLED, "stopped while the reader of %s took nothing", output->path);
}

/* Opening a FIFO for writing fails without a reader. O_WRONLY alone would block and could not be cancelled. */
static int await_open(mr_output *output, const mr_stage *self) {
    const struct timespec pause = {.tv_nsec = OPEN_AGAIN_NS};
    for (bool told = false; output->awaits_reader;) {
        int status = mr_file_take(output->path, &output->fd, &output->regular);
        if (status && errno != ENXIO)
            return status;
        output->awaits_reader = status;
        if (!status)
            break;
        if (mr_stage_gives_up(self))
            return mr_fail(MR_ERROR_CANCELLED, "stopped while %s had no reader", output->path);
        if (!told)
            mr_stage_warn(self, "waits until a program reads %s", output->path);
        told = true;
        nanosleep(&pause, NULL);
    }
    return MR_OK;
}

/* Removes a partly written record. Uses errno. */
static int refuse(mr_output *output, const mr_stage *self, off_t written) {
    int error = errno;
    off_t end = output->regular ? lseek(output->fd, 0, SEEK_CUR) : -1;
    if (written > 0 && end >= written && !ftruncate(output->fd, end - written))
        lseek(output->fd, end - written, SEEK_SET);
    /* `| head` has closed the pipe: not a pipeline error. */
    if (error == EPIPE && output->fd == STDOUT_FILENO)
        return mr_fail(MR_ERROR_CLOSED, "the reader of standard output has closed it");
    int status = output->regular ? mr_full_meet(&output->full, self, error, output->path) : MR_OK;
    errno = error;
    return status ? status : mr_file_fail("write to", output->path);
}

static int write_all(mr_output *output, const mr_stage *self, const char *text, size_t bytes) {
    off_t written = 0;
    int opened = await_open(output, self);
    if (opened)
        return opened;
    while (bytes > 0) {
        int status = output->regular ? MR_OK : await_reader(output, self);
        if (status == MR_ERROR_CANCELLED)
            return status;
        size_t piece = output->regular || bytes < PIPE_BUF ? bytes : PIPE_BUF;
        ssize_t done = status ? -1 : write(output->fd, text, piece);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return refuse(output, self, written);
        if (done > 0) {
            text += done;
            bytes -= (size_t)done;
            written += done;
        }
    }
    mr_full_pass(&output->full, self, output->path);
    return MR_OK;
}

/* A host program may not expect SIGPIPE. Outputs that can block are written on a separate thread, which blocks the
 * signal. */
static void block_sigpipe(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int mr_output_write(mr_output *output, const mr_stage *self, const char *text, size_t bytes) {
    if (output->status)
        return mr_fail(output->status, "%s", output->message);
    if (!output->regular)
        block_sigpipe();
    int status = write_all(output, self, text, bytes);
    if (status && status != MR_ERROR_AGAIN) {
        output->status = status;
        snprintf(output->message, sizeof output->message, "%s", mr_message());
    }
    return status;
}

int mr_output_failed(mr_io *io, const mr_frame *frame, int status) {
    if (status == MR_ERROR_AGAIN)
        return mr_full_wait(io);
    if (status != MR_ERROR_CANCELLED)
        return status;
    mr_io_drop(io, frame, "cancelled");
    return MR_DONE;
}

void mr_output_close(mr_output *output, const mr_stage *self) {
    if (output->fd == STDOUT_FILENO)
        atomic_store(&stdout_open, false);
    else if (output->fd && close(output->fd))
        mr_stage_warn(self, "%s: %s", output->path, strerror(errno));
    *output = (mr_output){0};
}

bool mr_frame_is_damaged(const mr_frame *frame) {
    return frame->flags & MR_FRAME_CORRUPT && frame->format.payload != MR_PAYLOAD_PACKET;
}
