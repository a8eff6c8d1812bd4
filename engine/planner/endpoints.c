/* The endpoint that each process of each node binds, the address that peers connect to, and the keys that it accepts.
 * If a node's processes have several cuts to bind, it has as many endpoints: at the author's port and those after it,
 * or at files whose names end in a number. */
#include "engine/planner/endpoints.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/localhost.h"
#include "engine/plan/cut.h"
#include "engine/planner/graph/builder.h"
#include "millrace/status.h"

enum { LAST_PORT = 65535 };

/* ---- the folder for sockets ------------------------------------------------------------------------------------ */

/* A name as part of a path: characters that could leave the folder are replaced. */
static const char *plain_name(mr_arena *arena, const char *name) {
    char *plain = mr_arena_text(arena, *name ? name : "pipeline", strlen(*name ? name : "pipeline"));
    for (char *at = plain; at && *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_')
            *at = '_';
    return plain;
}

static const char *runtime_folder(const mr_plan_builder *b) {
    const char *said = b->params.runtime ? b->params.runtime : getenv("MILLRACE_RUNTIME");
    if (said && *said)
        return mr_arena_text(b->arena, said, strlen(said));
    const char *user = getenv("XDG_RUNTIME_DIR"), *name = plain_name(b->arena, b->plan->name);
    if (!name)
        return NULL;
    if (user && *user)
        return mr_arena_print(b->arena, "%s/millrace-%s", user, name);
    return mr_arena_print(b->arena, "/tmp/millrace-%u-%s", (unsigned)getuid(), name);
}

/* ---- endpoints ------------------------------------------------------------------------------------------------- */

static bool is_tcp(const char *endpoint) {
    return strncmp(endpoint, "tcp://", 6) == 0;
}

static bool is_loopback(const char *endpoint) {
    const char *host = endpoint + strlen("tcp://");
    return !is_tcp(endpoint) || strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost:", 10) == 0 ||
           strncmp(host, "[::1]:", 6) == 0;
}

/* The endpoint `n` after the first of `count`. NULL: no memory, or after the last port. */
static const char *nth_endpoint(mr_arena *arena, const char *first, int n, int count) {
    if (!is_tcp(first))
        return count == 1 ? first : mr_arena_print(arena, "%s.%d", first, n + 1);
    const char *colon = strrchr(first, ':');
    return mr_arena_print(arena, "%.*s:%d", (int)(colon - first), first, atoi(colon + 1) + n);
}

static mr_location place_of(const mr_plan_builder *b, int node, const char *key) {
    const mr_spec_node *spec = &b->spec->nodes[node];
    const mr_yaml *said = mr_yaml_get(spec->node, key);
    return said ? said->place : spec->place;
}

static bool check_room(mr_plan_builder *b, int n, const char *first, int count) {
    const char *file = first + strlen("ipc://");
    struct sockaddr_un path;
    if (is_tcp(first) && atoi(strrchr(first, ':') + 1) + count - 1 > LAST_PORT) {
        mr_plan_error(b, place_of(b, n, "listen"), "write a smaller port number",
                      "nodes.%s.listen: it needs %d ports from \"%s\" on, and ports end at 65535",
                      b->plan->nodes[n].id, count, first);
        return false;
    }
    if (!is_tcp(first) && strlen(file) + (count > 1 ? 5 : 0) >= sizeof path.sun_path) {
        mr_plan_error(b, place_of(b, n, "listen"),
                      "write a shorter `listen: ipc://PATH`, or name a folder in $MILLRACE_RUNTIME",
                      "nodes.%s.listen: the path of a socket can have at most %zu bytes: \"%s\"", b->plan->nodes[n].id,
                      sizeof path.sun_path - 1, file);
        return false;
    }
    return true;
}

/* Whether that means every address of the machine, to which a peer cannot connect. */
static bool is_anywhere(const char *endpoint) {
    const char *host = endpoint + strlen("tcp://");
    return is_tcp(endpoint) && (strncmp(host, "*:", 2) == 0 || strncmp(host, "0.0.0.0:", 8) == 0 ||
                                strncmp(host, "[::]:", 5) == 0);
}

/* The machines of the processes may be known to the program that started them. */
static bool check_address(mr_plan_builder *b, int n) {
    const mr_plan_node *node = &b->plan->nodes[n];
    const char *key = b->spec->nodes[n].address ? "address" : "listen";
    if (!is_anywhere(node->address) || b->params.host_count > 0)
        return true;
    mr_plan_error(b, place_of(b, n, key), "add address: tcp://HOST:PORT, with the name of its host",
                  "nodes.%s.%s: nobody can connect to \"%s\"", node->id, key, node->address);
    return false;
}

/* The endpoint on process `process`'s machine. NULL: no memory. */
static const char *on_host(const mr_plan_builder *b, const char *endpoint, int process) {
    if (!is_anywhere(endpoint) || (size_t)process >= b->params.host_count)
        return endpoint;
    return mr_arena_print(b->arena, "tcp://%s%s", b->params.hosts[process], strrchr(endpoint, ':'));
}

/* How many processes come before the node's. */
static int first_process(const mr_plan *plan, int node) {
    int process = 0;
    for (int n = 0; n < node; n++)
        process += plan->nodes[n].replicas;
    return process;
}

/* ---- endpoints of cuts ----------------------------------------------------------------------------------------- */

static int count_given(const mr_plan *plan, int node) {
    int count = 0;
    for (size_t i = 0; i < plan->cut_count; i++)
        count += plan->cuts[i].from == node;
    return count;
}

static int set_listen(mr_plan_builder *b, int n, const char *runtime) {
    mr_plan_node *node = &b->plan->nodes[n];
    const mr_spec_node *spec = &b->spec->nodes[n];
    if (count_given(b->plan, n) == 0) {
        if (spec->listen || spec->address)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_of(b, n, spec->listen ? "listen" : "address"),
                        "remove it", "nodes.%s: no other node takes frames from it, so nobody connects to it",
                        node->id);
        return MR_OK;
    }
    node->listen = spec->listen ? spec->listen : mr_arena_print(b->arena, "ipc://%s/%s", runtime, node->id);
    node->address = spec->address ? spec->address : node->listen;
    if (!node->listen)
        return MR_ERROR_MEMORY;
    int all = count_given(b->plan, n) * node->replicas;
    if (check_address(b, n) && check_room(b, n, node->listen, all) && node->address != node->listen)
        check_room(b, n, node->address, all);
    return MR_OK;
}

static const char *normal(mr_arena *arena, const char *endpoint) {
    const char *port = mr_localhost_port(endpoint);
    return port ? mr_arena_print(arena, "tcp://127.0.0.1:%s", port) : endpoint;
}

/* Reports two that have one address. */
static int check_once(mr_plan_builder *b, mr_index *taken, int n, const char *endpoint) {
    const char *key = normal(b->arena, endpoint);
    if (!key)
        return MR_ERROR_MEMORY;
    const mr_plan_node *other = mr_index_get(taken, key);
    if (other && other != &b->plan->nodes[n])
        mr_plan_error(b, place_of(b, n, "listen"), "give one of them another port or path",
                      "nodes.%s: the node \"%s\" also listens at %s", b->plan->nodes[n].id, other->id, key);
    return other ? MR_OK : mr_index_put(taken, b->arena, key, &b->plan->nodes[n]);
}

/* The k-th of `count` cuts that each producing process binds. */
static int set_cut(mr_plan_builder *b, const mr_plan_cut *entry, mr_cut *cut, int k, int count, mr_index *taken) {
    const mr_plan_node *from = &b->plan->nodes[entry->from];
    int all = count * from->replicas, mine = b->plan->node == entry->from ? b->plan->replica : 0;
    const char **connect = mr_arena_array(b->arena, (size_t)from->replicas, sizeof *connect);
    if (!connect)
        return MR_ERROR_MEMORY;
    for (int r = 0; r < from->replicas; r++) {
        connect[r] = nth_endpoint(b->arena, from->address, r * count + k, all);
        if (connect[r])
            connect[r] = on_host(b, connect[r], first_process(b->plan, entry->from) + r);
        if (!connect[r] || check_once(b, taken, entry->from, connect[r]))
            return MR_ERROR_MEMORY;
    }
    cut->listen = nth_endpoint(b->arena, from->listen, mine * count + k, all);
    cut->connect_count = (size_t)from->replicas;
    cut->connect = connect;
    cut->shared_memory = cut->shared_memory && is_loopback(from->listen) && is_loopback(from->address);
    return cut->listen ? MR_OK : MR_ERROR_MEMORY;
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

static void check_keys(mr_plan_builder *b, const mr_plan_cut *entry) {
    const mr_plan_node *from = &b->plan->nodes[entry->from], *to = &b->plan->nodes[entry->to];
    if (!from->key && !is_loopback(from->listen))
        mr_plan_error(b, place_of(b, entry->from, "listen"),
                      "add `key` to both nodes (`millrace keygen` makes them), or listen at tcp://127.0.0.1:PORT",
                      "nodes.%s.listen: \"%s\" can be reached from other machines, but the node has no key", from->id,
                      from->listen);
    else if (from->key && !to->key)
        mr_plan_error(b, to->mark, "add `key`; `millrace keygen` makes one",
                      "nodes.%s: it takes frames from \"%s\", which accepts only nodes with a key", to->id, from->id);
}

static int set_keys(mr_plan_builder *b, const mr_plan_cut *entry, mr_cut *cut) {
    const mr_plan_node *from = &b->plan->nodes[entry->from], *to = &b->plan->nodes[entry->to];
    bool taking = b->plan->node == entry->to;
    const char **allow = mr_arena_array(b->arena, 1, sizeof *allow);
    if (!allow)
        return MR_ERROR_MEMORY;
    if (!from->key)
        return MR_OK;
    *allow = taking ? from->public_key : to->public_key;
    cut->key = taking ? to->key : from->key;
    cut->allow = allow;
    cut->allow_count = *allow ? 1 : 0;
    return MR_OK;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static const char *const *list_sources(const mr_plan_builder *b) {
    const char **ids = mr_arena_array(b->arena, b->plan->source_count, sizeof *ids);
    for (size_t s = 0; ids && s < b->plan->source_count; s++)
        ids[s] = b->plan->vertices[s].id;
    return ids;
}

/* This process's name: "worker", or "worker.0", "worker.1" and so on if there are several, as --replica counts. */
static const char *process_name(const mr_plan_builder *b, const mr_plan_cut *entry) {
    const mr_plan_node *node = &b->plan->nodes[b->plan->node < 0 ? entry->from : b->plan->node];
    return node->replicas == 1 ? node->id : mr_arena_print(b->arena, "%s.%d", node->id, b->plan->replica);
}

int mr_plan_assign_endpoints(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    mr_index taken = {0};
    int *given = mr_arena_array(b->arena, plan->node_count, sizeof *given);
    const char *runtime = runtime_folder(b), *const *sources = list_sources(b);
    if (!given || !runtime || !sources)
        return MR_ERROR_MEMORY;
    for (int n = 0; n < (int)plan->node_count; n++)
        if (set_listen(b, n, runtime))
            return MR_ERROR_MEMORY;
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_plan_cut *entry = &plan->cuts[i];
        mr_cut *cut = (mr_cut *)(uintptr_t)entry->cut;
        cut->source_count = plan->source_count;
        cut->source_ids = sources;
        cut->digest = b->spec->digest;
        cut->node = process_name(b, entry);
        int k = given[entry->from]++;
        if (!cut->node || set_cut(b, entry, cut, k, count_given(plan, entry->from), &taken) || set_keys(b, entry, cut))
            return MR_ERROR_MEMORY;
        check_keys(b, entry);
    }
    return MR_OK;
}
