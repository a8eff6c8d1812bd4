/* A connection to PostgreSQL that never blocks for longer than 100 ms: it polls instead of libpq's calls that wait, so
 * a run can end while the server stands still. Only name resolution blocks.
 *
 * Failures are decided by SQLSTATE. MR_ERROR_AGAIN if another try may help: the server is down, starts, stops or has no
 * room, a transaction collided, or no answer came in time. Others will recur: no permission, no such database.
 *
 * Only the delivery's thread may use it. */
#pragma once

#include <libpq-fe.h>

#include "stages/deliver/delivery.h"

typedef struct mr_pg_params {
    const char *url;             /* without user and password */
    const char *user, *password; /* NULL: as libpq finds them (PGUSER, PGPASSWORD, ~/.pgpass) */
    const char *password_file;   /* NULL: none; read at each connection */
    int64_t timeout_ns;          /* how long a statement may take */
} mr_pg_params;

/* All zero but `params` is closed. */
typedef struct mr_pg_link {
    mr_pg_params params;
    const mr_delivery *delivery;
    PGconn *connection;
    unsigned turn; /* how many times a host did not answer: tries begin with later hosts of the URL */
    bool known; /* it was connected once: the user and the database are right */
    bool pooled; /* there is a pooler: the next transaction may be in another session */
} mr_pg_link;

int mr_pg_open(mr_pg_link *link, const mr_delivery *delivery);
void mr_pg_close(mr_pg_link *link);
/* Begins a transaction. */
int mr_pg_begin(mr_pg_link *link);
/* Runs statements. With `result`, gives the last one's, which the caller must clear. NULL text: MR_ERROR_MEMORY. */
int mr_pg_run(mr_pg_link *link, const char *text, PGresult **result);
/* Runs one statement with text parameters, NULL ends them. */
int mr_pg_ask(mr_pg_link *link, const char *text, const char *const *values, PGresult **result);
/* Runs a COPY ... FROM STDIN: begin, any number of puts, end. Nothing else may run between them. put returns once the
 * system has the data, while the server may still work on it. */
int mr_pg_copy_begin(mr_pg_link *link, const char *text);
int mr_pg_copy_put(mr_pg_link *link, const char *data, size_t bytes);
int mr_pg_copy_end(mr_pg_link *link);
