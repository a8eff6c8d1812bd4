/* What the tables and the JSON of `millrace plan` both tell of a plan. */

#include "engine/text/options.h"
#include "engine/transport/zmq/socket.h"
#include "tools/millrace/plan/plan.h"

size_t mr_plan_edge_sources(const mr_plan *plan, const mr_plan_edge *edge) {
    const mr_plan_vertex *from = &plan->vertices[edge->from];
    return from->role == MR_ROLE_SOURCE ? 1 : from->source_count;
}

const mr_format_set *mr_plan_edge_set(const mr_plan *plan, const mr_plan_edge *edge) {
    return &plan->vertices[edge->from].outputs[edge->from_port].set;
}

uint64_t mr_plan_output_bytes(const mr_plan_vertex *vertex, size_t port) {
    const mr_plan_pool *pool = &vertex->pools[port];
    uint64_t bytes = mr_format_set_most_bytes(&vertex->outputs[port].set);
    /* A batch may share one buffer; a decoder's is larger than its picture. */
    uint64_t part = pool->count > 0 ? pool->bytes / (uint64_t)vertex->batch : 0;
    return part > bytes ? part : bytes;
}

uint64_t mr_plan_edge_bytes(const mr_plan *plan, const mr_plan_edge *edge) {
    return mr_plan_output_bytes(&plan->vertices[edge->from], (size_t)edge->from_port);
}

double mr_plan_rate(const mr_plan *plan, const mr_plan_vertex *vertex) {
    double rate = 0;
    for (size_t i = 0; i < vertex->source_count; i++) {
        const mr_plan_vertex *source = &plan->vertices[vertex->sources[i]];
        if (source->rate <= 0)
            return 0;
        rate += source->rate;
    }
    return rate;
}

const char *mr_plan_policy_name(mr_policy policy) {
    static const char *const names[] = {[MR_POLICY_BLOCK] = "block",
                                        [MR_POLICY_DROP_OLDEST] = "drop-oldest",
                                        [MR_POLICY_DROP_NEWEST] = "drop-newest"};
    return names[policy];
}

int mr_plan_refuse_external(const mr_plan *plan) {
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].type->external && mr_plan_is_told(plan, &plan->vertices[s]))
            return mr_fail(MR_ERROR_USAGE, "source %s is of type %s: only a program of its own can run this",
                           plan->vertices[s].id, plan->vertices[s].type->name);
    return MR_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

size_t mr_plan_told_nodes(const mr_plan *plan) {
    return plan->node < 0 ? plan->node_count : 1;
}

int mr_plan_told_node(const mr_plan *plan, size_t i) {
    return plan->node < 0 ? (int)i : plan->node;
}

bool mr_plan_is_told(const mr_plan *plan, const mr_plan_vertex *vertex) {
    return plan->node < 0 || vertex->node == plan->node;
}

bool mr_plan_is_authored(const mr_plan_vertex *vertex) {
    return vertex->copy == MR_COPY_NONE && !mr_plan_cut_of(vertex);
}

bool mr_plan_is_inner(const mr_plan *plan, const mr_plan_edge *edge) {
    const mr_plan_vertex *from = &plan->vertices[edge->from], *to = &plan->vertices[edge->to];
    return from->node == to->node && mr_plan_is_told(plan, to);
}

static void tell_files(const mr_plan_vertex *vertex, const mr_option *table, const char *fields,
                       mr_plan_file_function *function, void *context) {
    for (const mr_option *option = table; option && option->name; option++) {
        if (option->elsewhere)
            continue;
        if (option->kind == MR_OPTION_MAP)
            tell_files(vertex, option->fields, fields + option->offset, function, context);
        else if (option->file != MR_FILE_NONE && option->file != MR_FILE_NAME && mr_option_string(option, fields))
            function(context, vertex, option, mr_option_string(option, fields));
    }
}

void mr_plan_files(const mr_plan *plan, int node, mr_plan_file_function *function, void *context) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (plan->vertices[v].node == node && mr_plan_is_authored(&plan->vertices[v]))
            tell_files(&plan->vertices[v], plan->vertices[v].type->options, plan->vertices[v].options, function,
                       context);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

static void tell(mr_plan_thread_function *function, void *context, const char *name, int count, const char *what,
                 const char *stage) {
    mr_plan_thread thread = {.count = count, .what = what, .stage = stage};
    snprintf(thread.name, sizeof thread.name, "%.*s", MR_THREAD_NAME - 1, name);
    if (count > 0)
        function(context, &thread);
}

bool mr_plan_node_uses(const mr_plan *plan, int node, int device) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; plan->vertices[v].node == node && i < mr_plan_parts(&plan->vertices[v]); i++)
            if (mr_plan_part(&plan->vertices[v], i) == device)
                return true;
    return false;
}

/* What an end of a cut starts: its I/O thread, and what libzmq and the guard start for each socket. */
static void tell_cut(const mr_plan_vertex *end, mr_plan_thread_function *function, void *context) {
    const mr_cut *cut = mr_plan_cut_of(end);
    bool gives = end->role == MR_ROLE_CUT_OUT;
    tell(function, context, cut->name, 1, "cut", cut->name);
    tell(function, context, "mr-zmq-guard", gives, "cut", cut->name);
    tell(function, context, "", MR_ZMQ_THREADS * (gives ? 1 : (int)cut->connect_count), "library", cut->name);
}

void mr_plan_threads(const mr_plan *plan, int node, mr_plan_thread_function *function, void *context) {
    int begun = 0; /* of the sources that wait for their turn */
    tell(function, context, "millrace", 1, "main", NULL);
    tell(function, context, "mr-signals", 1, "signals", NULL);
    for (int i = 0; i < plan->workers; i++) {
        char name[MR_THREAD_NAME];
        tell(function, context, mr_worker_name(i, name), 1, "worker", NULL);
    }
    for (size_t v = 0; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        int instances = vertex->node == node && (!vertex->waits || begun++ < plan->jobs) ? vertex->instances : 0;
        tell(function, context, vertex->id, vertex->blocking ? instances : 0, vertex->role == MR_ROLE_SOURCE ? "source" : "stage",
             vertex->id);
        tell(function, context, "", vertex->threads * instances, "library", vertex->id);
        if (instances && mr_plan_cut_of(vertex))
            tell_cut(vertex, function, context);
    }
    for (size_t d = 1; d < plan->device_count; d++)
        tell(function, context, plan->devices[d].name, mr_plan_node_uses(plan, node, (int)d), "device",
             plan->devices[d].name);
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

const char *mr_words_bytes(uint64_t bytes, char text[MR_WORDS]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024; unit++)
        value /= 1024;
    snprintf(text, MR_WORDS, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value, units[unit]);
    return text;
}

const char *mr_words_rate(double rate, char text[MR_WORDS]) {
    snprintf(text, MR_WORDS, "%.4g fps", rate);
    if (rate >= 10000)
        snprintf(text, MR_WORDS, "%.0f fps", rate);
    return text;
}

const char *mr_words_duration(int64_t ns, char text[MR_WORDS]) {
    double s = (double)ns * 1e-9;
    if (ns < 1000)
        snprintf(text, MR_WORDS, "%d ns", (int)ns);
    else if (s < 1e-3)
        snprintf(text, MR_WORDS, "%.3g us", s * 1e6);
    else if (s < 1)
        snprintf(text, MR_WORDS, "%.3g ms", s * 1e3);
    else if (s < 600)
        snprintf(text, MR_WORDS, "%.4g s", s);
    else if (s < 36000)
        snprintf(text, MR_WORDS, "%.4g min", s / 60);
    else
        snprintf(text, MR_WORDS, "%.4g h", s / 3600);
    return text;
}
