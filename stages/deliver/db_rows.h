/* Tables for the results of a pipeline, and rows for a frame: shared by the sinks that write to databases.
 *
 * The first table is "frames". Each kind of results has a table with its name ("text": "texts") and the fields as
 * columns, so kinds from plugins have one too. A row belongs to a frame: (source, epoch, seq, sub) is the same in both.
 * `stage` is the stage that gave the result, and `rank` counts its elements from 1. Classes and kinds of which most
 * frames have nothing have rows from all stages, others from the newest result.
 *
 * A frame's record is its row in "frames", then its rows in other tables. Only mr_row_next reads these bytes. Texts are
 * valid UTF-8 without zeros; numbers are finite. Any thread; one at a time for each object. */
#pragma once

#include "stages/sink/record_json.h"

typedef enum mr_column_type {
    MR_COLUMN_INTEGER,
    MR_COLUMN_REAL,
    MR_COLUMN_BOOL,
    MR_COLUMN_TEXT,
    MR_COLUMN_DATE, /* ns since 1970, in `integer` */
    MR_COLUMN_JSON, /* a text */
    MR_COLUMN_TYPES
} mr_column_type;

enum { MR_COLUMN_NAME = 140 };
typedef struct mr_db_column {
    char name[MR_COLUMN_NAME];
    mr_column_type type;
    uint32_t most; /* bytes of a text, since an index has it; 0: any number */
    const mr_field *field; /* of a kind's element; NULL: stage, rank, or a column of frames */
} mr_db_column;

typedef struct mr_db_table {
    char name[MR_COLUMN_NAME];
    const mr_result_kind *kind; /* NULL: frames */
    size_t count;
    mr_db_column *columns;         /* in "frames" the key is first; in others the key is not included */
} mr_db_table;

/* The columns that identify a frame, in "frames" and before the columns of all others. */
enum { MR_KEY_COLUMNS = 4, MR_STAGE_COLUMN = 0, MR_RANK_COLUMN = 1 };

typedef struct mr_db_tables {
    size_t count;
    mr_db_table *tables;
} mr_db_tables;

/* The tables for frames at this input: with `wanted` only these kinds. Each wanted kind must be one that
 * mr_rows_find_kind knows. MR_ERROR_MEMORY. */
int mr_db_tables_create(mr_db_tables **tables, const mr_planned_input *input, const mr_strings *wanted);
void mr_db_tables_destroy(mr_db_tables **tables);
/* Refuses wanted kinds that no stage gives, and kinds whose table would have the name of another one. */
int mr_db_tables_check(mr_negotiation *negotiation, const mr_strings *wanted);

/* Writes records. All zero but `tables` is ready. */
typedef struct mr_row_writer {
    const mr_db_tables *tables;
    bool found_only; /* no record for a frame without rows in other tables */
    size_t most;     /* bytes in a record */
    mr_record json;
    char *data;
    size_t bytes, room;
    bool failed, too_large;
} mr_row_writer;

int mr_row_writer_open(mr_row_writer *at, const mr_db_tables *tables, bool found_only, size_t most);
void mr_row_writer_close(mr_row_writer *at);
/* Makes a frame's record in at->data. *bytes is 0 if there is none, and SIZE_MAX if it would have
 * more than at->most bytes; then it is not whole. MR_ERROR_MEMORY. */
int mr_row_writer_make(mr_row_writer *at, const mr_frame *frame, const char *source, size_t *bytes);

/* Reads a record: mr_row_next gives the table of the next row, or -1 at the end; then mr_row_value gives the value of
 * each of its columns in turn. */
typedef struct mr_row_reader {
    const char *at, *end;
} mr_row_reader;

typedef struct mr_row_value {
    bool null;
    int64_t integer;  /* INTEGER, BOOL, DATE */
    double real;
    const char *text; /* TEXT, JSON; not ended by a zero */
    size_t bytes;
} mr_row_value;

int mr_row_next(mr_row_reader *from);
mr_row_value mr_row_value_of(mr_row_reader *from, mr_column_type type);
