/* Cuts, and each process's needs, as text and JSON. */
#include <string.h>

#include "tools/millrace/cli/table.h"
#include "tools/millrace/plan/plan_parts.h"

/* Whether a cut begins or ends in a printed node. */
static bool is_told(const mr_plan_view *plan, const mr_view_cut *cut) {
    return plan->node < 0 || cut->from == plan->node || cut->to == plan->node;
}

/* ---- cuts ------------------------------------------------------------------------------------------------------ */

static void add_cut(mr_table *table, const mr_plan_view *plan, const mr_view_cut *cut) {
    char format[MR_FORMAT_SET_TEXT], frame[MR_WORDS], window[MR_WORDS];
    const char *payload = cut->shared_memory                      ? "shared"
                          : strcmp(cut->compression, "none") == 0 ? "inline"
                                                                  : cut->compression;
    mr_table_add(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s", cut->name, plan->nodes[cut->from].id,
                 mr_plan_format(&plan->stages[cut->out].inputs[0].set, format), mr_plan_bytes(cut->frame_bytes, frame),
                 cut->mode, cut->window, mr_plan_bytes(cut->window_bytes, window), payload);
}

int mr_plan_print_cuts(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column columns[] = {{"cut", .cut = MR_CUT_MIDDLE},
                                        {"from", .cut = MR_CUT_MIDDLE},
                                        {"carries", .cut = MR_CUT_LINES},
                                        {"a frame", .right = true},
                                        {.title = "mode"},
                                        {"window", .right = true},
                                        {"at most", .right = true},
                                        {.title = "payload"},
                                        {0}};
    mr_table table = {.columns = columns};
    if (plan->node_count == 0)
        return MR_OK;
    for (size_t i = 0; i < plan->cut_count; i++)
        if (is_told(plan, &plan->cuts[i]))
            add_cut(&table, plan, &plan->cuts[i]);
    if (plan->cut_count == 0) {
        fprintf(stream, "  no cuts: no node takes frames from another\n\n");
        return MR_OK;
    }
    int status = mr_table_print(&table, width, stream);
    fputc('\n', stream);
    return status;
}

void mr_plan_put_cuts(yajl_gen json, const mr_plan_view *plan) {
    MR_JSON_ARRAY(json, "cuts")
        for (size_t i = 0; i < plan->cut_count; i++) {
            const mr_view_cut *cut = &plan->cuts[i];
            if (!is_told(plan, &plan->cuts[i]))
                continue;
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", cut->name);
                mr_json_text(json, "from", plan->nodes[cut->from].id);
                mr_json_text(json, "to", plan->nodes[cut->to].id);
                mr_json_text(json, "mode", cut->mode);
                mr_json_text(json, "compress", cut->compression);
                mr_json_text(json, "checksum", cut->checksum_payload ? "payload" : "envelope");
                mr_json_bool(json, "shared_memory", cut->shared_memory);
                mr_json_bool(json, "keys", cut->keys);
                mr_json_integer(json, "window", cut->window);
                mr_json_integer(json, "frame_bytes", (int64_t)cut->frame_bytes);
                mr_json_integer(json, "window_bytes", (int64_t)cut->window_bytes);
                mr_json_text(json, "listen", cut->listen);
                MR_JSON_ARRAY(json, "connect")
                    for (size_t k = 0; k < cut->connect_count; k++)
                        mr_json_text(json, NULL, cut->connect[k]);
            }
        }
}

/* ---- needs of a process ---------------------------------------------------------------------------------------- */

static bool is_read(const mr_view_file *file) {
    return file->option->file == MR_FILE_READ;
}

static void print_files(const mr_plan_view *plan, int node, int width, FILE *stream) {
    for (size_t i = 0; i < plan->file_count; i++) {
        const mr_view_file *file = &plan->files[i];
        if (mr_plan_has_file(plan, node, file))
            mr_print_wrapped(width, stream, "  %s %s, %s of %s", is_read(file) ? "reads" : "writes",
                             strcmp(file->path, "-") == 0 ? "to standard output" : file->path, file->option->name,
                             plan->stages[file->stage].id);
    }
}

static void print_cut_ends(const mr_plan_view *plan, int node, int width, FILE *stream) {
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_view_cut *cut = &plan->cuts[i];
        if (plan->cuts[i].from == node)
            mr_print_wrapped(width, stream, "  listens at %s for %s", cut->listen, plan->nodes[cut->to].id);
        else if (plan->cuts[i].to == node)
            mr_print_wrapped(width, stream, "  connects to %s of %s%s", cut->connect[0], plan->nodes[cut->from].id,
                             cut->connect_count > 1 ? ", to each of its processes" : "");
    }
}

static void print_bound(const char *of, const char *what, const mr_view_bytes *most, int width, FILE *stream) {
    char text[MR_PLAN_BOUND];
    if (most->bytes || most->unknown)
        mr_print_wrapped(width, stream, "  %s%s: %s", of, what, mr_plan_bound(most, text));
}

/* The file with which a node identifies a consumer or producer; NULL: none is needed. */
static const char *key_of_peer(const mr_plan_view *plan, int node, int peer) {
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_view_cut *cut = &plan->cuts[i];
        bool between = (cut->from == node && cut->to == peer) || (cut->from == peer && cut->to == node);
        if (between && plan->nodes[cut->from].key)
            return plan->nodes[peer].public_key;
    }
    return NULL;
}

static void print_keys(const mr_plan_view *plan, int node, int width, FILE *stream) {
    if (plan->nodes[node].key)
        mr_print_wrapped(width, stream, "  needs the secret key %s", plan->nodes[node].key);
    for (int peer = 0; peer < (int)plan->node_count; peer++) {
        const char *key = key_of_peer(plan, node, peer);
        if (key)
            mr_print_wrapped(width, stream, "  needs the public key %s of %s", key, plan->nodes[peer].id);
    }
}

static void put_keys(yajl_gen json, const mr_plan_view *plan, int node) {
    mr_json_text(json, "key", plan->nodes[node].key);
    MR_JSON_ARRAY(json, "public_keys")
        for (int peer = 0; peer < (int)plan->node_count; peer++)
            if (key_of_peer(plan, node, peer))
                mr_json_text(json, NULL, key_of_peer(plan, node, peer));
}

void mr_plan_print_needs(const mr_plan_view *plan, int node, int width, FILE *stream) {
    static const char frames[] = " memory for frames";
    if (plan->node_count == 0)
        return;
    const mr_view_node *of = &plan->nodes[node];
    print_cut_ends(plan, node, width, stream);
    print_keys(plan, node, width, stream);
    print_files(plan, node, width, stream);
    print_bound("host", frames, &of->host, width, stream);
    print_bound("pinned", frames, &of->pinned, width, stream);
    print_bound("shared", frames, &of->shared, width, stream);
    print_bound("in ZeroMQ's queues", "", &of->queues, width, stream);
    for (size_t d = 1; d < plan->device_count; d++)
        print_bound(plan->devices[d].name, frames, &of->devices[d], width, stream);
}

static void put_files(yajl_gen json, const mr_plan_view *plan, int node, const char *key, bool reads) {
    MR_JSON_ARRAY(json, key)
        for (size_t i = 0; i < plan->file_count; i++) {
            const mr_view_file *file = &plan->files[i];
            if (is_read(file) != reads || !mr_plan_has_file(plan, node, file))
                continue;
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "path", file->path);
                mr_json_text(json, "stage", plan->stages[file->stage].id);
                mr_json_text(json, "option", file->option->name);
            }
        }
}

static void put_devices(yajl_gen json, const mr_plan_view *plan, int node) {
    MR_JSON_ARRAY(json, "devices")
        for (size_t d = 0; d < plan->device_count; d++)
            if (mr_plan_node_uses(plan, node, (int)d))
                mr_json_text(json, NULL, plan->devices[d].name);
}

static void put_memory(yajl_gen json, const mr_plan_view *plan, const mr_view_node *of) {
    MR_JSON_MAP(json, "memory") {
        mr_plan_put_bytes(json, "host", &of->host);
        mr_plan_put_bytes(json, "pinned", &of->pinned);
        mr_plan_put_bytes(json, "shared", &of->shared);
        mr_plan_put_bytes(json, "queues", &of->queues);
        for (size_t d = 1; d < plan->device_count; d++)
            if (of->devices[d].bytes || of->devices[d].unknown)
                mr_plan_put_bytes(json, plan->devices[d].name, &of->devices[d]);
    }
}

void mr_plan_put_needs(yajl_gen json, const mr_plan_view *plan, int node) {
    if (plan->node_count == 0)
        return;
    const mr_view_node *of = &plan->nodes[node];
    mr_json_integer(json, "replicas", of->replicas);
    mr_json_integer(json, "busy_poll_ns", of->busy_poll_ns);
    MR_JSON_ARRAY(json, "listens")
        for (size_t i = 0; i < plan->cut_count; i++)
            if (plan->cuts[i].from == node)
                mr_json_text(json, NULL, plan->cuts[i].listen);
    put_keys(json, plan, node);
    put_files(json, plan, node, "reads", true);
    put_files(json, plan, node, "writes", false);
    put_devices(json, plan, node);
    put_memory(json, plan, of);
}
