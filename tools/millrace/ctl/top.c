/* millrace top: shows the rates of all runs of this user on a terminal. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yajl/yajl_tree.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/ctl/client.h"
#include "tools/millrace/ctl/screen.h"
#include "tools/millrace/ctl/top_page.h"
#include "tools/millrace/summary/summary.h"

/* A run that does not answer for PATIENCE_S is shown as such, so that it does not stop the page for longer. */
enum { MOST_SOURCES = 1000, FEW_SOURCES = 20, COMMAND = 160, PATIENCE_S = 1 };

typedef struct arguments {
    const char *path;
    int pid, interval_s; /* pid 0: not given */
    bool once;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("control", "PATH", arguments, path, "only the run with that control socket"),
    MR_OPTION_NUMBER("pid", "PID", arguments, pid, 1, INT_MAX, "only the run with this process id"),
    MR_OPTION_NUMBER("interval", "SECONDS", arguments, interval_s, 1, 3600, "time between two looks; 2 by default"),
    MR_OPTION("once", NULL, arguments, once, "prints one page and ends, as it does if the output is not a terminal"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"", "--pid 4711", "--once", NULL};

static const mr_usage usage = {
    .verb = "top",
    .synopsis = "",
    .help = "Shows what all runs of this user do now: frames a second, sources and their state, and for each stage how "
            "busy it is and how long a frame takes. Rates are those between two looks. Nothing in a run waits for it: "
            "it reads the numbers that `ctl status` shows.",
    .options = options,
    .notes = "Keys: q ends; the arrows, page up and page down move; p pauses.\n\n"
             "busy: of one instance of the stage; the stage that is nearest to 100% limits the pipeline. mean, p99: "
             "from entering the stage's queue to its end; queue: most frames that ever waited there. For programs: "
             "`ctl status --json`.",
    .examples = examples,
};

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct look {
    yajl_val tree; /* NULL: none */
    mr_summary summary;
} look;

typedef struct watched {
    pid_t pid;
    char command[COMMAND], why[128];
    look before, now;
} watched;

typedef struct top {
    arguments given;
    mr_clients clients;
    watched *runs; /* one for each client, in the same order */
} top;

static void forget(look *one) {
    mr_summary_read_fini(&one->summary);
    if (one->tree)
        yajl_tree_free(one->tree);
    *one = (look){0};
}

/* Takes the status out of an answer. */
static int read_look(const char *answer, look *to) {
    bool ok;
    int status = mr_client_parse(answer, &to->tree, &ok);
    if (status)
        return status;
    yajl_val error = mr_json_member(to->tree, "error", yajl_t_string);
    if (!ok)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "%s", error ? YAJL_GET_STRING(error) : "the run refuses");
    else
        status = mr_summary_read(mr_json_member(to->tree, "status", yajl_t_object), &to->summary);
    if (status)
        forget(to);
    return status;
}

/* An error: the run has ended. If it only does not answer, `why` tells. */
static int ask(mr_client *client, watched *run) {
    const mr_question question = {.what = "status"};
    char *answer = NULL;
    look next = {0};
    int status = mr_client_ask(client, &question, &answer);
    if (status && status != MR_ERROR_AGAIN)
        return status;
    if (!status)
        status = read_look(answer, &next);
    free(answer);
    if (!status) {
        forget(&run->before);
        run->before = run->now;
        run->now = next;
    }
    mr_print_into(run->why, sizeof run->why, "%s", status ? mr_message() : "");
    return MR_OK;
}

static void drop(top *t, size_t at) {
    forget(&t->runs[at].before);
    forget(&t->runs[at].now);
    memmove(&t->runs[at], &t->runs[at + 1], (t->clients.count - at - 1) * sizeof *t->runs);
    mr_clients_remove(&t->clients, at);
}

/* Makes a row for each client that is new. */
static int follow_clients(top *t, size_t known) {
    watched *wider = realloc(t->runs, (t->clients.count + 1) * sizeof *wider);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of runs");
    t->runs = wider;
    for (size_t i = known; i < t->clients.count; i++) {
        t->runs[i] = (watched){.pid = t->clients.item[i].pid};
        mr_client_command(t->runs[i].pid, t->runs[i].command, COMMAND);
        t->clients.item[i].patience_s = PATIENCE_S;
    }
    return MR_OK;
}

static int find_one(top *t) {
    mr_client client;
    int status = t->given.path ? mr_client_connect(t->given.path, &client)
                               : mr_client_connect_pid((pid_t)t->given.pid, &client);
    if (status)
        return status;
    t->clients = (mr_clients){.count = 1, .room = 1, .item = malloc(sizeof client)};
    if (!t->clients.item) {
        mr_client_close(&client);
        t->clients = (mr_clients){0};
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of runs");
    }
    t->clients.item[0] = client;
    return MR_OK;
}

/* Finds runs and asks all. MR_ERROR_UNAVAILABLE: there is none. */
static int look_at_all(top *t) {
    const size_t known = t->clients.count;
    const bool one = t->given.path || t->given.pid;
    int status = MR_OK;
    if (!one)
        status = mr_clients_find(&t->clients);
    else if (!known)
        status = find_one(t);
    if (!status)
        status = follow_clients(t, known);
    for (size_t i = 0; !status && i < t->clients.count && !mr_screen_ended();) {
        if (ask(&t->clients.item[i], &t->runs[i]))
            drop(t, i);
        else
            i++;
    }
    if (!status && !t->clients.count)
        status = mr_clients_fail_none();
    return status;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b) {
    const mr_top_run *one = a, *other = b;
    return (one->pid > other->pid) - (one->pid < other->pid);
}

static int print_runs(const top *t, size_t most_sources, FILE *stream) {
    const size_t count = t->clients.count;
    mr_top_run *rows = calloc(count + 1, sizeof *rows);
    int status = rows ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a page");
    for (size_t i = 0; rows && i < count; i++) {
        const watched *run = &t->runs[i];
        rows[i] = (mr_top_run){.pid = run->pid, .command = run->command, .why = *run->why ? run->why : NULL,
                               .before = run->before.tree ? &run->before.summary : NULL,
                               .now = run->now.tree ? &run->now.summary : NULL};
    }
    if (rows)
        qsort(rows, count, sizeof *rows, by_pid);
    for (size_t i = 0; i < count && !status; i++) {
        if (i)
            fputs("\n", stream);
        status = mr_top_print(&rows[i], most_sources, mr_terminal_width(stdout), stream);
    }
    free(rows);
    return status;
}

static int make_page(const top *t, int looked, bool paused, char **text) {
    size_t length = 0;
    char now[16];
    const time_t seconds = time(NULL);
    struct tm at;
    FILE *stream = open_memstream(text, &length);
    if (!stream)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a page");
    strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &at));
    fprintf(stream, "millrace top  %s  %zu run%s%s  (q: end, p: pause)\n\n", now, t->clients.count,
            t->clients.count == 1 ? "" : "s", paused ? ", paused" : "");
    int status = MR_OK;
    if (looked)
        mr_print(stream, "%s\n", mr_message());
    else
        status = print_runs(t, MOST_SOURCES, stream);
    fclose(stream);
    return status;
}

static int move(mr_screen_key key, int first, int most) {
    const int page = mr_screen_lines() - 2;
    switch (key) {
    case MR_KEY_UP: first--; break;
    case MR_KEY_DOWN: first++; break;
    case MR_KEY_PAGE_UP: first -= page; break;
    case MR_KEY_PAGE_DOWN: first += page; break;
    case MR_KEY_TOP: first = 0; break;
    default: break;
    }
    first = first < most ? first : most;
    return first > 0 ? first : 0;
}

static int64_t now_ms(void) {
    return mr_now_ns() / 1000000;
}

/* Shows the page until it is time for the next look. False: the user ends. */
static bool stay(const top *t, int looked, int *first, bool *paused, int *status) {
    const int64_t until = now_ms() + t->given.interval_s * INT64_C(1000);
    for (;;) {
        char *text = NULL;
        *status = make_page(t, looked, *paused, &text);
        const int most = *status ? 0 : mr_screen_show(text, 2, *first);
        free(text);
        const int64_t left = until - now_ms();
        if (*status || (left <= 0 && !*paused))
            return !*status;
        mr_screen_key key = mr_screen_wait(*paused ? -1 : (int)left);
        if (key == MR_KEY_QUIT)
            return false;
        if (key == MR_KEY_NONE && !*paused && now_ms() >= until)
            return true;
        *paused ^= key == MR_KEY_PAUSE;
        *first = move(key, *first, most);
    }
}

static int show_all(top *t) {
    int first = 0, status = MR_OK;
    bool paused = false, more = true;
    while (more) {
        int looked = look_at_all(t);
        status = looked == MR_ERROR_MEMORY ? looked : MR_OK;
        more = !status && stay(t, looked, &first, &paused, &status);
    }
    mr_screen_end();
    return status;
}

/* Two looks, so that rates are those of now. */
static int print_once(top *t) {
    const struct timespec pause = {.tv_sec = 1};
    int status = look_at_all(t);
    if (!status) {
        nanosleep(&pause, NULL);
        status = look_at_all(t);
    }
    return status ? status : print_runs(t, FEW_SOURCES, stdout);
}

static int run_verb(int argc, char **argv) {
    top t = {.given = {.interval_s = 2}};
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, &t.given, &code))
        return code;
    if (t.given.path && t.given.pid)
        return mr_usage_error(&usage, "give either --control or --pid, not both");
    int status = !t.given.once && mr_screen_begin() ? show_all(&t) : print_once(&t);
    while (t.clients.count)
        drop(&t, t.clients.count - 1);
    mr_clients_fini(&t.clients);
    free(t.runs);
    code = status ? mr_command_failed(status) : 0;
    return code ? code : mr_flush_stdout();
}

const mr_verb mr_top_verb = {&usage, "show what all runs do now, like top", run_verb};
