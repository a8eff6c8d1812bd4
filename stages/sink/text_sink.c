#include "stages/sink/text_sink.h"

#include <limits.h>

int mr_text_sink_begin(mr_stage *self) {
    mr_text_sink *sink = self->state;
    if (mr_output_has_begun(&sink->output))
        return MR_OK;
    return mr_output_begin(&sink->output, mr_stage_run_state(self), &sink->reader);
}

int mr_text_sink_open(mr_stage *self, const char *path, int on_full, const mr_text_form *form) {
    mr_text_sink *sink = self->state;
    sink->written = (mr_written){.self = self, .path = path, .header = form->header};
    sink->reader = (mr_line_reader){.take = form->take, .finish = form->finish, .context = &sink->written};
    int status = mr_output_streams(path) ? mr_journal_open_stream(&sink->journal, &sink->output, self, &sink->written,
                                                                  form->line_end)
                                         : mr_output_open(&sink->output, path);
    sink->output.full = mr_full_make(self, on_full);
    return status ? status : mr_text_sink_begin(self);
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

/* Records that were written before must be there even if no frame comes any more. */
int mr_text_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    int status = mr_text_sink_begin(self);
    (void)source;
    return status && status != MR_ERROR_AGAIN ? mr_io_refuse(io, status) : MR_DONE;
}

int mr_text_sink_sync(mr_stage *self) {
    const mr_text_sink *sink = self->state;
    return mr_output_has_begun(&sink->output) ? mr_output_sync(&sink->output) : MR_ERROR_AGAIN;
}

void mr_text_sink_close(mr_stage *self, int (*last)(mr_stage *self)) {
    mr_text_sink *sink = self->state;
    int status = MR_OK;
    if (sink->output.path && !mr_stage_cancelled(self)) {
        status = mr_text_sink_begin(self);
        if (!status && last)
            status = last(self);
    }
    if (status && status != MR_ERROR_AGAIN)
        mr_stage_warn(self, "%s", mr_message());
    mr_journal_close(&sink->journal);
    mr_written_fini(&sink->written);
    mr_output_close(&sink->output, self);
    *sink = (mr_text_sink){0};
}
