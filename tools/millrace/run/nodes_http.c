#include "tools/millrace/run/nodes_http.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "millrace/audit.h"
#include "tools/millrace/hub/announcer.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/control_answer.h"
#include "tools/millrace/run/node_log.h"

/* For the answers of all nodes: changes of sources take the longest, since sources are opened. A tap may wait for a
 * frame. */
enum { OPENING_S = 15, TAP_S = 12, PATIENCE_S = 3 };
/* Lines of nodes that are taken at once. */
enum { MOST_LINES = 256 };
static const int64_t NS_PER_S = 1000000000;

struct mr_nodes_http {
    mr_otlp *otlp;     /* NULL: nothing is sent */
    mr_announcer *hub; /* NULL: nothing is reported */
    mr_run_http *server;
    int log[2]; /* the supervisor's end and the nodes' */
    const mr_plan_view *plan;
    const mr_child *children;
    size_t count;
    const char *control;
    mr_observed now;
    mr_observed_process *process; /* one for each child, as the next */
    mr_summary *summary;
};

/* ---- log lines -------------------------------------------------------------------------------------------------- */

static void take_lines(mr_nodes_http *s) {
    mr_node_line line;
    for (int i = 0; i < MOST_LINES && mr_node_log_take(s->log[0], &line); i++)
        if (line.child < s->count)
            mr_run_http_log(s->server, line.level, s->children[line.child].name, line.text);
}

void mr_nodes_http_give(const mr_nodes_http *s, size_t child) {
    if (s)
        mr_node_log_give(s->log[1], child);
}

int mr_nodes_http_descriptor(const mr_nodes_http *s) {
    return s ? s->log[0] : -1;
}

void mr_nodes_http_log(const mr_nodes_http *s, mr_log_level level, const char *line) {
    if (s)
        mr_run_http_log(s->server, level, NULL, line);
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

static void forget(mr_nodes_http *s) {
    for (size_t i = 0; i < s->now.count; i++)
        if (s->process[i].summary)
            mr_child_whole_fini(&s->children[i], &s->summary[i]);
    s->now.count = 0;
}

static void fill(mr_nodes_http *s, size_t at) {
    const mr_child *child = &s->children[at];
    const bool reported = child->line || child->past_count;
    s->summary[at] = mr_child_whole(child);
    s->process[at] = (mr_observed_process){
        .name = child->name, .node = s->plan->nodes[child->node].id, .replica = child->replica,
        .state = mr_child_state(child), .pid = child->pid, .restarts = child->restarts, .exit_code = child->exit_code,
        .ready = child->pid && child->ready, .done = child->done, .summary = reported ? &s->summary[at] : NULL};
}

void mr_nodes_http_hold(mr_nodes_http *s) {
    if (!s)
        return;
    take_lines(s);
    mr_run_http_hold(s->server);
    forget(s);
}

void mr_nodes_http_show(mr_nodes_http *s, bool ending, bool final) {
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        fill(s, i);
    s->now = (mr_observed){.count = s->count, .process = s->process, .ending = ending || final, .final = final};
    mr_run_http_show(s->server, &s->now);
    mr_announcer_show(s->hub, &s->now);
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

/* A process to which a request is passed on. */
typedef struct target {
    char name[MR_CHILD_NAME];
    pid_t pid;
    int fd;      /* -1: the request was not sent */
    char *error; /* why not */
} target;

/* The processes that run, or those of one node (or one replica). The caller must free the list. */
static target *find_targets(mr_nodes_http *s, const char *node, size_t *count) {
    target *targets = calloc(s->count, sizeof *targets);
    *count = 0;
    mr_run_http_hold(s->server);
    for (size_t i = 0; targets && i < s->now.count; i++) {
        const mr_observed_process *process = &s->process[i];
        if (!process->pid || (node && strcmp(node, process->node) != 0 && strcmp(node, process->name) != 0))
            continue;
        target *to = &targets[(*count)++];
        snprintf(to->name, sizeof to->name, "%s", process->name);
        to->pid = process->pid;
    }
    mr_run_http_release(s->server);
    return targets;
}

static int connect_to(const mr_nodes_http *s, const target *to, int *fd) {
    mr_control_folders folders;
    char path[MR_CONTROL_PATH];
    const char *given = s->control;
    if (given && strcmp(given, "off") == 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "the nodes of this run have no control sockets (--control off)");
    if (given && snprintf(path, sizeof path, "%s.%s", given, to->name) < (int)sizeof path)
        return mr_control_connect(path, fd);
    mr_control_find_folders(&folders);
    int status = MR_ERROR_NO_INPUT;
    for (int i = 0; i < folders.count && status == MR_ERROR_NO_INPUT; i++) {
        status = mr_control_name(folders.path[i], to->pid, path);
        status = status ? status : mr_control_connect(path, fd);
    }
    return status == MR_ERROR_NO_INPUT
               ? mr_fail(MR_ERROR_UNAVAILABLE, "the node %s does not listen at its control socket", to->name) : status;
}

static int patience_for(const char *what) {
    static const char *const opening[] = {"add", "set", "remove"};
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
        if (strcmp(what, opening[i]) == 0)
            return OPENING_S;
    return strcmp(what, "tap") == 0 ? TAP_S : PATIENCE_S;
}

static void ask(const mr_nodes_http *s, target *to, const char *line, size_t length) {
    to->fd = -1;
    int status = connect_to(s, to, &to->fd);
    if (!status) {
        mr_control_set_patience(to->fd, PATIENCE_S);
        status = mr_control_send(to->fd, line, length);
    }
    to->error = status ? strdup(mr_message()) : NULL;
}

/* The node's answer; NULL with a message. The last of several that stand still has no more time than the first. */
static char *await(target *from, int64_t until_ns, int patience_s) {
    char *answer = NULL;
    const int64_t left_ns = until_ns - mr_now_ns();
    if (from->error) {
        mr_fail(MR_ERROR_UNAVAILABLE, "%s", from->error);
    } else {
        mr_control_set_patience(from->fd, left_ns > NS_PER_S ? (int)(left_ns / NS_PER_S) : 1);
        if (mr_control_receive(from->fd, &answer) == MR_ERROR_AGAIN)
            mr_fail(MR_ERROR_AGAIN, "the node %s has not answered for %d s", from->name, patience_s);
    }
    if (from->fd >= 0)
        close(from->fd);
    free(from->error);
    return answer;
}

static const char *text_in(yajl_val tree, const char *key) {
    return YAJL_GET_STRING(mr_json_member(tree, key, yajl_t_string));
}

/* An answer to the client: those of the nodes, and the first failure if none has done it. */
typedef struct gathered {
    yajl_gen json;
    bool ok;
    int exit_code;
    char *error;
} gathered;

static void take(gathered *all, const target *from, const char *answer) {
    yajl_val tree = answer ? mr_json_parse(answer, NULL, 0) : NULL;
    yajl_val code = mr_json_member(tree, "exit_code", yajl_t_any);
    const char *error = text_in(tree, "error");
    all->ok = all->ok || YAJL_IS_TRUE(mr_json_member(tree, "ok", yajl_t_any));
    if (!all->error && !YAJL_IS_TRUE(mr_json_member(tree, "ok", yajl_t_any))) {
        all->exit_code = YAJL_IS_INTEGER(code) ? (int)YAJL_GET_INTEGER(code)
                                               : mr_status_exit_code(MR_ERROR_UNAVAILABLE);
        all->error = strdup(error ? error : mr_message());
    }
    MR_JSON_MAP(all->json, NULL) {
        mr_json_text(all->json, "name", from->name);
        mr_json_key(all->json, "answer");
        if (tree)
            yajl_gen_number(all->json, answer, strlen(answer));
        else
            yajl_gen_null(all->json);
    }
    yajl_tree_free(tree);
}

static char *finish(gathered *all, size_t *length) {
    if (!all->ok) {
        mr_json_integer(all->json, "exit_code", all->exit_code);
        mr_json_text(all->json, "error", all->error);
    }
    mr_json_bool(all->json, "ok", all->ok);
    yajl_gen_map_close(all->json);
    free(all->error);
    return mr_json_finish_text(all->json, length);
}

static void fail(gathered *all, int status) {
    all->exit_code = mr_status_exit_code(status);
    all->error = strdup(mr_message());
}

/* As SIGTERM does, but once: a second one would end the run at once. */
static void drain(gathered *all) {
    static atomic_flag asked = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&asked))
        kill(getpid(), SIGTERM);
    mr_audit("control", mr_audit_text("do", "drain"));
    all->ok = true;
}

static void pass_on_to_all(mr_nodes_http *s, gathered *all, const char *what, const char *node, const char *line) {
    const int patience_s = patience_for(what);
    size_t count = 0, length = strlen(line);
    char *ended = NULL;
    target *targets = find_targets(s, node, &count);
    if (!count)
        fail(all, node ? mr_fail(MR_ERROR_USAGE, "no node or process \"%s\" runs", node)
                       : mr_fail(MR_ERROR_UNAVAILABLE, "no node runs"));
    if (asprintf(&ended, "%s\n", line) < 0)
        ended = NULL;
    for (size_t i = 0; ended && i < count; i++)
        ask(s, &targets[i], ended, length + 1);
    const int64_t until_ns = mr_now_ns() + patience_s * NS_PER_S;
    MR_JSON_ARRAY(all->json, "processes")
        for (size_t i = 0; ended && i < count; i++) {
            char *answer = await(&targets[i], until_ns, patience_s);
            take(all, &targets[i], answer);
            free(answer);
        }
    free(ended);
    free(targets);
}

static char *change(void *context, const char *line, size_t *length) {
    mr_nodes_http *s = context;
    yajl_val tree = mr_json_parse(line, NULL, 0);
    gathered all = {.json = mr_json_create(false)};
    const char *what = text_in(tree, "do");
    if (!all.json)
        return NULL;
    mr_json_open_map(all.json, NULL);
    mr_json_integer(all.json, "millrace", MR_CONTROL_VERSION);
    int status = YAJL_IS_OBJECT(tree) ? mr_control_check(what, text_in(tree, "argument"),
                                                         mr_json_member(tree, "options", yajl_t_any))
                                      : mr_fail(MR_ERROR_PROTOCOL, "a request is one JSON object");
    if (status)
        fail(&all, status);
    else if (strcmp(what, "drain") == 0)
        drain(&all);
    else
        pass_on_to_all(s, &all, what, text_in(tree, "node"), line);
    yajl_tree_free(tree);
    return finish(&all, length);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

int mr_nodes_http_open(mr_nodes_http **result, const mr_plan_view *plan, const mr_child *children, size_t count,
                       const char *control) {
    *result = NULL;
    mr_otlp *otlp;
    int status = mr_otlp_create(&otlp, plan, NULL);
    if (status || (!otlp && !mr_plan_view_http(plan)->listen && !mr_plan_view_hub(plan)->endpoint))
        return status;
    mr_nodes_http *s = calloc(1, sizeof *s);
    if (!s) {
        mr_otlp_destroy(&otlp);
        return mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    }
    *s = (mr_nodes_http){.otlp = otlp, .log = {-1, -1}, .plan = plan, .children = children, .count = count,
                         .control = control, .process = calloc(count, sizeof *s->process),
                         .summary = calloc(count, sizeof *s->summary)};
    status = s->process && s->summary ? mr_node_log_open(s->log) : mr_fail(MR_ERROR_MEMORY, "no memory for nodes");
    if (!status)
        status = mr_run_http_open(&s->server, plan, change, s, otlp);
    if (!status)
        status = mr_announcer_open(&s->hub, plan, mr_run_http_page(s->server));
    if (!status)
        status = mr_otlp_start(otlp);
    *result = s;
    if (status)
        mr_nodes_http_close(result, mr_status_exit_code(status));
    return status;
}

void mr_nodes_http_linger(mr_nodes_http *s, int descriptor, int64_t asked_ns) {
    if (!s)
        return;
    mr_otlp_flush(s->otlp, descriptor, asked_ns);
    mr_run_http_linger(s->server, descriptor, asked_ns);
}

void mr_nodes_http_close(mr_nodes_http **result, int exit_code) {
    mr_nodes_http *s = *result;
    if (!s)
        return;
    mr_announcer_close(&s->hub, exit_code);
    mr_otlp_stop(s->otlp);
    mr_run_http_close(&s->server);
    mr_otlp_destroy(&s->otlp);
    for (int i = 0; i < 2; i++)
        if (s->log[i] >= 0)
            close(s->log[i]);
    forget(s);
    free(s->process);
    free(s->summary);
    free(s);
    *result = NULL;
}
