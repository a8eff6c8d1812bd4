/* SQL for the tables of db_rows.h, in the dialects of several databases. All texts are in the arena. NULL or
 * MR_ERROR_MEMORY if there is no memory. Pure functions: any thread.
 *
 *   runs      one row for each run and stage: run, pipeline, stage, started
 *   sources   one row for each source of a run: name; frames, epoch and seq as far as they are stored
 *   frames, classes, objects, events, texts, and a table for each kind of a plugin: db_rows.h; `source` is sources.id
 *   T_view    the table T with the names of pipeline, run and source, and the frame's time
 *   top_classes, tracks    the best class of each frame; from when to when each track was seen */
#pragma once

#include "engine/base/arena.h"
#include "stages/deliver/db_rows.h"

typedef struct mr_sql_dialect {
    const char *types[MR_COLUMN_TYPES];
    const char *id;     /* type of a column that numbers its rows */
    const char *keyed;  /* after the table of a natural key */
    const char *prefix; /* before each table's name: "schema." or "" */
} mr_sql_dialect;

/* The version of these tables. Databases with a later one are refused. */
enum { MR_SQL_VERSION = 1 };

/* CREATE TABLE for runs and sources; for one of the tables; and its indices. Each ends in a semicolon. */
const char *mr_sql_common(mr_arena *arena, const mr_sql_dialect *dialect);
const char *mr_sql_table(mr_arena *arena, const mr_sql_dialect *dialect, const mr_db_table *table);
/* DROP VIEW and CREATE VIEW for the views of these tables. */
const char *mr_sql_views(mr_arena *arena, const mr_sql_dialect *dialect, const mr_db_tables *tables);
/* The names of all columns of a table, the key included, between commas: "source","epoch",... `before` stands before
 * each. */
const char *mr_sql_columns(mr_arena *arena, const mr_db_table *table, const char *before);
