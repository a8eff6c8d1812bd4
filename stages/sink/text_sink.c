#include "stages/sink/text_sink.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "stages/sink/named_file.h"
#include "stages/sink/run_files.h"

static const mr_text_options *given_to(const mr_stage *self) {
    return self->options;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *name_in(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether each start writes to a new file. */
static bool is_pattern(const char *path) {
    return !mr_output_streams(path) && mr_file_name_differs(name_in(path));
}

int mr_text_sink_negotiate(mr_negotiation *negotiation) {
    const mr_text_options *given = negotiation->options;
    const char *name = name_in(given->path);
    bool pattern = is_pattern(given->path), plain = !pattern && !mr_output_streams(given->path);
    negotiation->blocking = mr_output_blocks(given->path);
    if ((pattern || plain) && strstr(given->path, "{source}"))
        return mr_refuse(negotiation, "path", "all sources that come here share a file: remove {source}, and write a "
                         "stage for each source if each needs a file");
    if ((pattern || (plain && name[strcspn(name, "{}")])) && mr_file_name_check(name))
        return mr_refuse(negotiation, "path", "%s", mr_message());
    if (pattern || (!given->segment && !given->keep_for && !given->keep_bytes))
        return MR_OK;
    return mr_refuse(negotiation, given->segment ? "segment" : given->keep_for ? "keep_for" : "keep_bytes",
                     "with %s the name of the file needs {time} or {number}, such as results-{time}%s",
                     given->segment ? "segment" : given->keep_for ? "keep_for" : "keep_bytes",
                     mr_file_name_ending(name));
}

static int set_names(mr_stage *self) {
    mr_text_sink *sink = self->state;
    const mr_text_options *given = given_to(self);
    const char *name = name_in(given->path);
    int length = name > given->path + 1 ? (int)(name - given->path - 1) : (int)(name - given->path);
    int made = snprintf(sink->folder, sizeof sink->folder, "%.*s", length ? length : 1, length ? given->path : ".");
    int listed = snprintf(sink->list, sizeof sink->list, "%s/.%s.%s.files", sink->folder, mr_stage_pipeline(self),
                          self->id);
    for (char *at = sink->list + made + 1; listed < (int)sizeof sink->list && *at; at++)
        if (*at == '/')
            *at = '_';
    sink->keep = (mr_keep){.names = {sink->folder, is_pattern(given->path) ? name : NULL, NULL},
                           .for_ns = given->keep_for, .bytes = given->keep_bytes};
    snprintf(sink->path, sizeof sink->path, "%s", given->path);
    return made < (int)sizeof sink->folder && listed < (int)sizeof sink->list
               ? MR_OK
               : mr_fail(MR_ERROR_CONFIG, "%s: the path is too long", given->path);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void note_begin(const mr_stage *self, int64_t now_ns) {
    mr_text_sink *sink = self->state;
    const mr_text_options *given = given_to(self);
    sink->due_ns = sink->keep.names.pattern && given->segment ? now_ns + given->segment : INT64_MAX;
}

/* Makes the next file the output, after the list has the name. The lock must be held. */
static int begin_file(mr_stage *self) {
    mr_text_sink *sink = self->state;
    mr_named_file file = {0};
    int status = mr_named_file_make(&file, &sink->keep.names, sink->number, mr_clock_date_ns(), &sink->output.full,
                                    self);
    if (!status && (status = mr_run_files_add(sink->list, file.name))) {
        unlink(file.path);
        close(file.fd);
    }
    if (status)
        return status;
    mr_full full = sink->output.full;
    memcpy(sink->path, file.path, sizeof sink->path);
    sink->output = mr_output_of(file.fd, sink->path);
    sink->output.full = full;
    sink->number++;
    sink->headed = false;
    sink->written.lines = 0;
    note_begin(self, mr_now_ns());
    return MR_OK;
}

/* The list has names without a folder. False: the file no longer exists. */
static bool find_listed(const mr_text_sink *sink, const char *listed, char path[MR_OUTPUT_PATH]) {
    return snprintf(path, MR_OUTPUT_PATH, "%s/%s", sink->folder, listed) < MR_OUTPUT_PATH && !access(path, F_OK);
}

static void read_from_start(mr_text_sink *sink, const char *path) {
    sink->written.path = path;
    sink->written.lines = 0;
    sink->written.quoted = sink->written.any = false;
}

/* Continues a file from this run: its records become known, and it replaces the current output. A file that was removed
 * has none. */
static int continue_file(void *context, const char *listed) {
    mr_text_sink *sink = ((mr_stage *)context)->state;
    mr_output next;
    mr_full full = sink->output.full;
    char kept[MR_OUTPUT_PATH];
    if (!find_listed(sink, listed, kept))
        return MR_OK;
    int status = mr_output_open(&next, kept);
    read_from_start(sink, kept);
    if (!status)
        status = mr_output_begin(&next, MR_RUN_GOES_ON, &sink->reader);
    sink->written.path = sink->path;
    if (status) {
        mr_output_close(&next, context);
        return status;
    }
    mr_output_close(&sink->output, context);
    snprintf(sink->path, sizeof sink->path, "%s", kept);
    sink->output = mr_output_of(next.fd, sink->path);
    sink->output.full = full;
    note_begin(context, mr_now_ns());
    return MR_OK;
}

static int begin_files(mr_stage *self, mr_run_state state) {
    mr_text_sink *sink = self->state;
    if (state == MR_RUN_UNKNOWN)
        return MR_ERROR_AGAIN;
    sink->number = mr_keep_next(&sink->keep, self);
    int status = state == MR_RUN_BEGINS ? mr_run_files_begin(sink->list)
                                        : mr_run_files_read(sink->list, continue_file, self);
    return status || mr_output_has_begun(&sink->output) ? status : begin_file(self);
}

/* A moved file's records are in no file that will be opened again. */
static int read_moved(void *context, const char *path) {
    mr_text_sink *sink = ((mr_stage *)context)->state;
    mr_output moved;
    if (access(path, F_OK))
        return MR_OK;
    read_from_start(sink, path);
    int status = mr_output_open(&moved, path);
    if (!status)
        status = mr_output_begin(&moved, MR_RUN_GOES_ON, &sink->reader);
    mr_output_close(&moved, context);
    return status;
}

static int begin_one(mr_stage *self, mr_run_state state) {
    mr_text_sink *sink = self->state;
    int status = MR_OK;
    if (state == MR_RUN_BEGINS)
        status = mr_run_files_begin(sink->list);
    else if (state == MR_RUN_GOES_ON)
        status = mr_run_files_read(sink->list, read_moved, self);
    read_from_start(sink, sink->path);
    return status ? status : mr_output_begin(&sink->output, state, &sink->reader);
}

/* MR_ERROR_AGAIN while it is unknown whether its records are from this run. */
static int begin(mr_stage *self) {
    mr_text_sink *sink = self->state;
    if (mr_output_has_begun(&sink->output))
        return MR_OK;
    MR_LOCKED(&sink->lock);
    int status = sink->keep.names.pattern ? begin_files(self, mr_stage_run_state(self))
                                          : begin_one(self, mr_stage_run_state(self));
    return status;
}

/* Until a frame comes. A process that was started again may get none, since the producer has ended before it began. If
 * the earlier process made no file either, none is missed. */
static int begin_early(mr_stage *self) {
    const mr_text_sink *sink = self->state;
    const bool absent = !sink->keep.names.pattern && !mr_output_has_begun(&sink->output) && !sink->output.fd;
    return absent && !mr_stage_continues(self) && mr_stage_run_state(self) == MR_RUN_GOES_ON ? MR_ERROR_AGAIN
                                                                                             : begin(self);
}

int mr_text_sink_open(mr_stage *self, const mr_text_form *form) {
    mr_text_sink *sink = self->state;
    const char *path = given_to(self)->path;
    *sink = (mr_text_sink){.form = *form, .reopenings = mr_stage_reopenings(self), .due_ns = INT64_MAX};
    pthread_mutex_init(&sink->lock, NULL);
    sink->opened = true;
    sink->written = (mr_written){.self = self, .path = path, .header = form->header};
    sink->reader = (mr_line_reader){.take = form->take, .finish = form->finish, .context = &sink->written};
    int status = set_names(self);
    if (!status && mr_output_streams(path))
        status = mr_journal_open_stream(&sink->journal, &sink->output, self, &sink->written, form->line_end);
    else if (!status && !sink->keep.names.pattern)
        status = mr_output_open(&sink->output, sink->path);
    sink->output.full = mr_full_make(self, given_to(self)->on_full);
    sink->headed = mr_journal_has_header(&sink->journal);
    if (!status)
        status = begin_early(self);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

/* ---- the next file ----------------------------------------------------------------------------------------------- */

/* What the checkpoint counts as written must be on disk when the file is closed. */
static int next_file(mr_stage *self) {
    mr_text_sink *sink = self->state;
    char done[MR_OUTPUT_PATH];
    mr_output old = sink->output;
    int status = mr_stage_checkpoints(self) ? mr_output_sync(&old) : MR_OK;
    snprintf(done, sizeof done, "%s", sink->path);
    old.path = done;
    if (!status)
        status = begin_file(self);
    if (status)
        return status;
    mr_output_close(&old, self);
    mr_keep_apply(&sink->keep, self, name_in(sink->path));
    return MR_OK;
}

/* Adds the open file's present name to the list, if it still has one. */
static int list_moved(mr_stage *self) {
    mr_text_sink *sink = self->state;
    char link[64], path[MR_OUTPUT_PATH];
    snprintf(link, sizeof link, "/proc/self/fd/%d", sink->output.fd);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 && !access(path, F_OK) ? mr_run_files_add(sink->list, path) : MR_OK;
}

static int reopen(mr_stage *self) {
    mr_text_sink *sink = self->state;
    bool empty = false;
    mr_output old = sink->output;
    int status = old.regular && mr_stage_checkpoints(self) ? mr_output_sync(&old) : MR_OK;
    if (!status && old.regular && mr_output_has_moved(&old))
        status = list_moved(self);
    if (!status)
        status = mr_output_reopen(&sink->output, &empty);
    if (empty) {
        sink->headed = false;
        sink->written.lines = 0;
    }
    return status;
}

/* If the next file cannot be created, the present one stays in use, unless the stage waits for room. */
static int turn(mr_stage *self) {
    mr_text_sink *sink = self->state;
    uint64_t asked = mr_stage_reopenings(self);
    if (asked == sink->reopenings && (sink->due_ns == INT64_MAX || mr_now_ns() < sink->due_ns))
        return MR_OK;
    pthread_mutex_lock(&sink->lock);
    int status = sink->keep.names.pattern ? next_file(self) : reopen(self);
    pthread_mutex_unlock(&sink->lock);
    if (status == MR_ERROR_AGAIN)
        return status;
    if (status) {
        mr_stage_warn(self, "records still go to %s: %s", sink->output.path, mr_message());
        note_begin(self, mr_now_ns());
    }
    sink->reopenings = asked;
    return MR_OK;
}

/* Must come before the first row: there may have been no room at the start. Written again to an emptied file. */
static int write_header(mr_stage *self) {
    mr_text_sink *sink = self->state;
    struct stat about;
    if (!sink->form.header)
        return MR_OK;
    bool emptied = sink->output.regular && !fstat(sink->output.fd, &about) && about.st_size == 0;
    if ((sink->headed || sink->written.lines > 0) && !emptied)
        return MR_OK;
    int status = mr_output_write(&sink->output, self, sink->form.header, strlen(sink->form.header));
    sink->headed = !status;
    if (sink->headed)
        mr_journal_note_header(&sink->journal);
    return status;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

bool mr_text_sink_ready(mr_stage *self, mr_io *io, int *answer) {
    int status = begin(self);
    if (status) {
        *answer = mr_output_await_begin(io, status);
        return false;
    }
    status = turn(self);
    if (!status)
        status = write_header(self);
    if (status)
        *answer = mr_output_failed(io, mr_io_input(io), status);
    return !status;
}

bool mr_text_sink_has(mr_stage *self, const mr_frame *frame) {
    mr_text_sink *sink = self->state;
    return mr_written_has(&sink->written, &frame->identity);
}

int mr_text_sink_put(mr_stage *self, mr_io *io, const mr_frame *frame, const char *text, size_t bytes) {
    mr_text_sink *sink = self->state;
    if (bytes > PIPE_BUF)
        mr_journal_begin(&sink->journal);
    int status = mr_output_write(&sink->output, self, text, bytes);
    if (status)
        return mr_output_failed(io, frame, status);
    mr_journal_note(&sink->journal, &frame->identity);
    return MR_DONE;
}

/* Records written before must be on disk even if no frame follows. */
int mr_text_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    int status = begin_early(self);
    return status && status != MR_ERROR_AGAIN ? mr_io_refuse(io, status) : MR_DONE;
}

int mr_text_sink_sync(mr_stage *self) {
    mr_text_sink *sink = self->state;
    MR_LOCKED(&sink->lock);
    return mr_output_has_begun(&sink->output) ? mr_output_sync(&sink->output) : MR_ERROR_AGAIN;
}

void mr_text_sink_close(mr_stage *self) {
    mr_text_sink *sink = self->state;
    int status = MR_OK;
    if (sink->output.path && !mr_stage_cancelled(self)) {
        status = begin_early(self);
        if (!status)
            status = write_header(self);
    }
    if (status && status != MR_ERROR_AGAIN)
        mr_stage_warn(self, "%s", mr_message());
    mr_journal_close(&sink->journal);
    mr_written_fini(&sink->written);
    mr_output_close(&sink->output, self);
    if (sink->opened)
        pthread_mutex_destroy(&sink->lock);
    *sink = (mr_text_sink){0};
}
