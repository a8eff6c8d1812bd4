/* A SQLite database with the tables of db_rows.h.
 *
 * A batch is one transaction: the frames, their results, and how far each source is stored. A frame that the run has
 * stored before is left out, with its results. So each frame is stored exactly once, also after a killed process.
 *
 * A database in which another program has tables is refused, and one that a later version of millrace has made.
 * Columns that are missing are added. While another program locks the database, the store waits.
 *
 * Threads: as mr_service_type says. Without SQLite (sqlite_store_none.c) the first two functions fail. */
#pragma once

#include "stages/deliver/delivery.h"
#include "stages/deliver/db_rows.h"

typedef struct mr_sqlite_store mr_sqlite_store;

/* Checks, without changing anything, whether millrace can use this file, which need not exist. MR_ERROR_UNAVAILABLE:
 * this build has no SQLite. MR_ERROR_DATA: the file is something else. MR_ERROR_PERMISSION, MR_ERROR_IO. */
int mr_sqlite_store_check(const char *path);
/* `path` and `tables` must live as long as the store. */
int mr_sqlite_store_create(mr_sqlite_store **store, const char *path, const mr_db_tables *tables);
extern const mr_service_type mr_sqlite_service;
