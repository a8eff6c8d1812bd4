#include "stages/deliver/postgres_link.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/key_file.h"

enum { LOOK_MS = 100, PASSWORD_BYTES = 1024, STATE_DIGITS = 5 };
/* How long connecting may take without a connect_timeout, and how much longer than a statement its answer. */
static const int64_t CONNECT_NS = INT64_C(10000000000), ANSWER_NS = INT64_C(5000000000);
/* How much of a COPY is given to libpq at once. */
enum { PIECE_BYTES = 1 << 18 };

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* A message in one line, without the server's hints. */
static int fail_with(const mr_pg_link *link, int status, const char *text) {
    char line[400];
    size_t length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
    return mr_fail(status, "%s: %s", link->params.url, *line ? line : "the connection is lost");
}

/* By class. 22, 23 and 54 refuse a row's values, which costs the batch. */
static int status_of(const char *state) {
    static const char *const refusing[] = {"22", "23", "54"};
    static const char *const passing[] = {"08", "40", "53", "57", "58", "XX", "55P03", "25006"};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (strncmp(state, passing[i], strlen(passing[i])) == 0)
            return MR_ERROR_AGAIN;
    for (size_t i = 0; i < sizeof refusing / sizeof *refusing; i++)
        if (strncmp(state, refusing[i], 2) == 0)
            return MR_ERROR_PROTOCOL;
    if (strncmp(state, "28", 2) == 0 || strcmp(state, "42501") == 0)
        return MR_ERROR_PERMISSION;
    return strncmp(state, "3D", 2) == 0 ? MR_ERROR_NO_INPUT : MR_ERROR_DATA;
}

static int fail_result(const mr_pg_link *link, const PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return fail_with(link, state ? status_of(state) : MR_ERROR_AGAIN, words ? words : PQresultErrorMessage(result));
}

static int fail_connection(const mr_pg_link *link) {
    return fail_with(link, MR_ERROR_AGAIN, PQerrorMessage(link->connection));
}

/* libpq has no field for the SQLSTATE of a refused connection, but verbose messages have it: "FATAL:  28P01: ...". */
static bool find_state(const char *text, char state[STATE_DIGITS + 1]) {
    for (const char *at = text; (at = strstr(at, ":  ")); at++) {
        size_t count = 0;
        while (count < STATE_DIGITS && (isdigit((unsigned char)at[3 + count]) || isupper((unsigned char)at[3 + count])))
            count++;
        if (count < STATE_DIGITS || at[3 + STATE_DIGITS] != ':')
            continue;
        memcpy(state, at + 3, STATE_DIGITS);
        state[STATE_DIGITS] = 0;
        return true;
    }
    return false;
}

/* A refused user or an unknown database is wrong from the beginning. Later it may be a server that is set up anew. */
static int fail_connect(const mr_pg_link *link) {
    char state[STATE_DIGITS + 1];
    const char *text = PQerrorMessage(link->connection);
    int status = PQconnectionNeedsPassword(link->connection) ? MR_ERROR_PERMISSION
                 : find_state(text, state)                   ? status_of(state)
                                                             : MR_ERROR_AGAIN;
    return fail_with(link, link->known ? MR_ERROR_AGAIN : status, text);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static int await(const mr_pg_link *link, short events, int64_t until_ns) {
    struct pollfd one = {.fd = PQsocket(link->connection), .events = events};
    for (;;) {
        if (mr_delivery_stops(link->delivery))
            return mr_fail(MR_ERROR_CANCELLED, "stopped while %s did not answer", link->params.url);
        if (mr_now_ns() >= until_ns)
            return fail_with(link, MR_ERROR_AGAIN, "the server does not answer");
        int ready = poll(&one, 1, LOOK_MS);
        if (ready > 0)
            return MR_OK;
        if (ready < 0 && errno != EINTR)
            return fail_with(link, MR_ERROR_AGAIN, strerror(errno));
    }
}

static int64_t patience_of(const mr_pg_link *link) {
    return mr_now_ns() + link->params.timeout_ns + ANSWER_NS;
}

static int flush_out(const mr_pg_link *link) {
    for (int left; (left = PQflush(link->connection));) {
        int status = left < 0 ? fail_connection(link) : await(link, POLLIN | POLLOUT, patience_of(link));
        if (!status && !PQconsumeInput(link->connection))
            status = fail_connection(link);
        if (status)
            return status;
    }
    return MR_OK;
}

/* *result is NULL after the last one. */
static int next_result(const mr_pg_link *link, PGresult **result) {
    int status = flush_out(link);
    const int64_t until_ns = patience_of(link);
    while (!status && PQisBusy(link->connection)) {
        status = await(link, POLLIN, until_ns);
        if (!status && !PQconsumeInput(link->connection))
            status = fail_connection(link);
    }
    *result = status ? NULL : PQgetResult(link->connection);
    return status;
}

/* Reads results up to the last one, or to the first failure. */
static int read_results(const mr_pg_link *link, PGresult **last) {
    PGresult *kept = NULL, *one = NULL;
    int status;
    while (!(status = next_result(link, &one)) && one) {
        PQclear(kept);
        kept = one;
        const ExecStatusType found = PQresultStatus(one);
        if (found != PGRES_COMMAND_OK && found != PGRES_TUPLES_OK && found != PGRES_EMPTY_QUERY)
            status = fail_result(link, one);
        if (status || found == PGRES_COPY_IN)
            break;
    }
    if (status || !last) {
        PQclear(kept);
        kept = NULL;
    }
    if (last)
        *last = kept;
    return status;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

int mr_pg_run(mr_pg_link *link, const char *text, PGresult **result) {
    if (!text)
        return MR_ERROR_MEMORY;
    return PQsendQuery(link->connection, text) ? read_results(link, result) : fail_connection(link);
}

int mr_pg_ask(mr_pg_link *link, const char *text, const char *const *values, PGresult **result) {
    int count = 0;
    while (values[count])
        count++;
    if (!text)
        return MR_ERROR_MEMORY;
    return PQsendQueryParams(link->connection, text, count, NULL, values, NULL, NULL, 0) ? read_results(link, result)
                                                                                        : fail_connection(link);
}

static int put_piece(const mr_pg_link *link, const char *data, int bytes) {
    for (int taken; (taken = PQputCopyData(link->connection, data, bytes)) != 1;) {
        int status = taken < 0 ? fail_connection(link) : await(link, POLLIN | POLLOUT, patience_of(link));
        if (!status && !PQconsumeInput(link->connection))
            status = fail_connection(link);
        if (status)
            return status;
    }
    return flush_out(link);
}

int mr_pg_copy_begin(mr_pg_link *link, const char *text) {
    PGresult *begun = NULL;
    if (!text)
        return MR_ERROR_MEMORY;
    int status = PQsendQuery(link->connection, text) ? next_result(link, &begun) : fail_connection(link);
    if (!status && PQresultStatus(begun) != PGRES_COPY_IN)
        status = fail_result(link, begun);
    PQclear(begun);
    return status;
}

int mr_pg_copy_put(mr_pg_link *link, const char *data, size_t bytes) {
    int status = MR_OK;
    for (size_t at = 0, piece; at < bytes && !status; at += piece) {
        piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        status = put_piece(link, data + at, (int)piece);
    }
    return status;
}

int mr_pg_copy_end(mr_pg_link *link) {
    return PQputCopyEnd(link->connection, NULL) == 1 ? read_results(link, NULL) : fail_connection(link);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void swallow(void *context, const char *message) {
}

static int finish_connecting(mr_pg_link *link, int64_t patience_ns) {
    const int64_t until_ns = mr_now_ns() + patience_ns;
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    while (wants != PGRES_POLLING_OK) {
        int status = wants == PGRES_POLLING_FAILED
                         ? fail_connect(link)
                         : await(link, wants == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns);
        link->turn += mr_now_ns() >= until_ns;
        if (status)
            return status;
        wants = PQconnectPoll(link->connection);
    }
    return MR_OK;
}

/* A list with commas, from another item on. False: no memory. */
static bool turn_list(const char *list, unsigned turn, char **turned) {
    unsigned items = 1;
    const char *at = list;
    for (const char *next = list; (next = strchr(next, ',')); next++)
        items++;
    for (unsigned left = turn % items; left; left--)
        at = strchr(at, ',') + 1;
    return asprintf(turned, "%s%s%.*s", at, at > list ? "," : "", at > list ? (int)(at - list - 1) : 0, list) >= 0;
}

enum { HOST, ADDRESS, PORT, LISTS };
typedef struct pg_hosts {
    char *lists[LISTS]; /* NULL: not in the URL */
    int64_t patience_ns;
} pg_hosts;

/* libpq tries the next host if one refuses, but not if one does not answer: then the next try begins with the next. */
static bool find_hosts(const mr_pg_link *link, pg_hosts *hosts) {
    static const char *const names[LISTS] = {"host", "hostaddr", "port"};
    PQconninfoOption *all = PQconninfoParse(link->params.url, NULL);
    bool done = all;
    hosts->patience_ns = CONNECT_NS;
    for (const PQconninfoOption *one = all; one && one->keyword; one++) {
        const char *value = one->val ? one->val : "";
        const int64_t seconds = strcmp(one->keyword, "connect_timeout") == 0 ? strtol(value, NULL, 10) : 0;
        if (seconds > 0 && seconds < 86400)
            hosts->patience_ns = seconds * 1000000000;
        for (size_t i = 0; i < LISTS; i++)
            if (*value && strcmp(one->keyword, names[i]) == 0)
                done &= turn_list(value, link->turn, &hosts->lists[i]);
    }
    PQconninfoFree(all);
    return done;
}

static int start_connecting(mr_pg_link *link, const char *password) {
    pg_hosts hosts = {0};
    const bool found = find_hosts(link, &hosts);
    const char *const names[] = {"dbname", "fallback_application_name", "client_encoding", "tcp_user_timeout",
                                 "keepalives_idle", "user", "password", "host", "hostaddr", "port", NULL};
    const char *const values[] = {link->params.url, "millrace", "UTF8", "30000", "10", link->params.user, password,
                                  hosts.lists[HOST], hosts.lists[ADDRESS], hosts.lists[PORT],
                                  NULL}; /* without a value it is as if the name was not there */
    link->connection = found ? PQconnectStartParams(names, values, 1) : NULL;
    for (size_t i = 0; i < LISTS; i++)
        free(hosts.lists[i]);
    if (!link->connection)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    PQsetErrorVerbosity(link->connection, PQERRORS_VERBOSE);
    PQsetNoticeProcessor(link->connection, swallow, NULL);
    return PQstatus(link->connection) == CONNECTION_BAD ? fail_connect(link)
                                                           : finish_connecting(link, hosts.patience_ns);
}

/* A pooler, such as PgBouncer, gives its clients another process id than the server's. */
static int find_pooler(mr_pg_link *link) {
    PGresult *result = NULL;
    int status = mr_pg_run(link, "SELECT pg_backend_pid()", &result);
    link->pooled = !status && atoi(PQgetvalue(result, 0, 0)) != PQbackendPID(link->connection);
    PQclear(result);
    return status;
}

static int limit_statements(mr_pg_link *link, const char *verb) {
    char text[80];
    snprintf(text, sizeof text, "%s statement_timeout = %lld", verb, (long long)(link->params.timeout_ns / 1000000));
    return mr_pg_run(link, text, NULL);
}

int mr_pg_open(mr_pg_link *link, const mr_delivery *delivery) {
    char password[PASSWORD_BYTES] = "";
    link->delivery = delivery;
    int status = link->params.password_file ? mr_secret_file_read(link->params.password_file, "a password", password,
                                                                  sizeof password)
                                            : MR_OK;
    if (!status)
        status = start_connecting(link, link->params.password_file ? password : link->params.password);
    explicit_bzero(password, sizeof password);
    if (!status && PQsetnonblocking(link->connection, 1))
        status = fail_connection(link);
    if (!status)
        PQsetErrorVerbosity(link->connection, PQERRORS_DEFAULT);
    link->known |= !status;
    if (!status)
        status = find_pooler(link);
    return status || link->pooled ? status : limit_statements(link, "SET");
}

int mr_pg_begin(mr_pg_link *link) {
    return link->pooled ? limit_statements(link, "BEGIN; SET LOCAL") : mr_pg_run(link, "BEGIN", NULL);
}

void mr_pg_close(mr_pg_link *link) {
    PQfinish(link->connection);
    link->connection = NULL;
}
