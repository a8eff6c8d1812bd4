/* A PostgreSQL schema with the tables of db_rows.h.
 *
 * A batch is one transaction: COPY into temporary tables, then INSERT ... ON CONFLICT DO NOTHING, and how far each
 * source is stored. A frame that the run has stored before is left out, with its results. So each frame is stored
 * exactly once, even if this process or the server is killed at any time.
 *
 * The schema is made if it is missing, under a lock, so several runs may start at once. It needs no right to create if
 * everything is there. A schema in which another program has tables is refused, and one of a later millrace.
 *
 * Threads: as mr_service_type says. Without libpq (postgres_store_none.c) the first two functions fail. */
#pragma once

#include "millrace/option.h"
#include "stages/deliver/db_rows.h"
#include "stages/deliver/delivery.h"

typedef struct mr_postgres_params {
    const char *url, *password_file, *schema;
    mr_credentials login;
    int64_t timeout_ns;
} mr_postgres_params;

typedef struct mr_postgres_store mr_postgres_store;

/* Checks the URL. MR_ERROR_UNAVAILABLE: this build has no libpq. MR_ERROR_CONFIG: libpq cannot read it, or it has a
 * password where plans would show it. */
int mr_postgres_store_check(const char *url);
/* All texts and `tables` must live as long as the store. */
int mr_postgres_store_create(mr_postgres_store **store, const mr_postgres_params *params, const mr_db_tables *tables);
extern const mr_service_type mr_postgres_service;
