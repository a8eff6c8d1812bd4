#include "stages/deliver/db_sink.h"

/* Neither database takes larger values, and rows have more than the values. */
static const int64_t MOST_BYTES = 500000000;

const char *const mr_db_frames[] = {[MR_DB_FRAMES_ALL] = "all", [MR_DB_FRAMES_FOUND] = "found", NULL};

int mr_db_sink_negotiate(mr_negotiation *n) {
    const mr_db_options *given = n->options;
    n->shows = 0;
    int status = mr_db_tables_check(n, &given->results);
    return status ? status : mr_delivery_negotiate(n);
}

int mr_db_sink_open(mr_stage *self) {
    const mr_db_options *given = self->options;
    mr_db_sink *at = self->state;
    int status = mr_db_tables_create(&at->tables, &self->inputs[0], &given->results);
    const int64_t backlog = given->delivery.backlog;
    return status ? status : mr_row_writer_open(&at->writer, at->tables, given->frames == MR_DB_FRAMES_FOUND,
                                                (size_t)(backlog < MOST_BYTES ? backlog : MOST_BYTES));
}

int mr_db_sink_process(mr_stage *self, mr_io *io) {
    mr_db_sink *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    size_t bytes;
    int status = mr_row_writer_make(&at->writer, frame, mr_stage_source_id(self, frame->identity.source), &bytes);
    if (status || !bytes || !at->delivery)
        return status;
    return mr_delivery_put(at->delivery, io, frame, at->writer.data, bytes);
}

int mr_db_sink_flush(mr_stage *self, mr_io *io, uint32_t source) {
    mr_db_sink *at = self->state;
    return at->delivery ? mr_delivery_flush(at->delivery, io, source) : MR_DONE;
}

void mr_db_sink_close(mr_stage *self) {
    mr_db_sink *at = self->state;
    mr_delivery_close(&at->delivery);
    mr_row_writer_close(&at->writer);
    mr_db_tables_destroy(&at->tables);
}
