/* Shared by the stages that write into databases: a frame's rows are made in process and delivered as one record.
 *
 * A stage's options must begin with mr_db_options, and its state is mr_db_sink. Threads and errors: as for a shared
 * stage; see delivery.h. */
#pragma once

#include "stages/deliver/db_rows.h"
#include "stages/deliver/delivery.h"

enum { MR_DB_FRAMES_ALL, MR_DB_FRAMES_FOUND };
extern const char *const mr_db_frames[];

typedef struct mr_db_options {
    mr_delivery_options delivery;
    mr_strings results;
    int frames;
} mr_db_options;

#define MR_DB_OPTIONS                                                                                                  \
    {.name = "results", .kind = MR_OPTION_STRINGS, .offset = offsetof(mr_db_options, results),                         \
     .example = "[objects, events]",                                                                                   \
     .help = "the kinds of results that have a table; default: all that the frames carry"},                            \
    {.name = "frames", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_db_options, frames), .fallback = "all",           \
     .choices = mr_db_frames,                                                                                          \
     .help = "which frames have a row in the table frames: all, or those for which another table has a row"},          \
    MR_DELIVERY_OPTIONS("20000", "500ms")

typedef struct mr_db_sink {
    mr_db_tables *tables;
    mr_row_writer writer;
    mr_delivery *delivery; /* NULL: the run only measures */
} mr_db_sink;

int mr_db_sink_negotiate(mr_negotiation *negotiation);
/* Makes the tables. The stage then creates its store, and calls mr_delivery_open unless the run only measures. */
int mr_db_sink_open(mr_stage *self);
int mr_db_sink_process(mr_stage *self, mr_io *io);
int mr_db_sink_flush(mr_stage *self, mr_io *io, uint32_t source);
void mr_db_sink_close(mr_stage *self);

/* What these stage types have in common. */
#define MR_DB_SINK_TYPE                                                                                                \
    .state_bytes = sizeof(mr_db_sink), .entry = MR_ENTRY_SHARED, .process = mr_db_sink_process,                    \
    .flush = mr_db_sink_flush, .close = mr_db_sink_close, .blind = true, .resumes = true
