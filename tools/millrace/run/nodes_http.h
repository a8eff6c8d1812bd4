/* What the supervisor shows over HTTP and reports to the hub, for all nodes, and the changes that it passes on to their
 * control sockets.
 *
 * The supervisor's thread calls these functions. With NULL they do nothing: there is neither. */
#pragma once

#include "tools/millrace/http/run_http.h"
#include "tools/millrace/run/children.h"

typedef struct mr_nodes_http mr_nodes_http;

/* As mr_run_http_open and mr_announcer_open. `control`: as mr_supervision has it. The children must outlive it. */
int mr_nodes_http_open(mr_nodes_http **http, const mr_plan_view *plan, const mr_child *children, size_t count,
                       const char *control);
/* The children's reports may only be changed between these two calls. */
void mr_nodes_http_hold(mr_nodes_http *http);
void mr_nodes_http_show(mr_nodes_http *http, bool ending, bool final);
/* In a child of this process, before it becomes the process of s->children[child]: its log lines will be shown. */
void mr_nodes_http_give(const mr_nodes_http *http, size_t child);
/* Readable once lines of nodes wait for hold; -1: never. */
int mr_nodes_http_descriptor(const mr_nodes_http *http);
/* A line of the supervisor. */
void mr_nodes_http_log(const mr_nodes_http *http, mr_log_level level, const char *line);
void mr_nodes_http_linger(mr_nodes_http *http, int descriptor, int64_t asked_ns);
void mr_nodes_http_close(mr_nodes_http **http, int exit_code);
