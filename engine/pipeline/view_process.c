/* Threads in each of a plan's processes, and files that stages name. */
#include <string.h>

#include "engine/flow/executor/executor.h"
#include "engine/pipeline/view.h"
#include "engine/text/options.h"
#include "engine/transport/zmq/socket.h"

/* ---- threads --------------------------------------------------------------------------------------------------- */

/* The threads are counted first, then written. */
typedef struct thread_list {
    mr_view *view;
    mr_view_thread *threads; /* NULL: only count */
    size_t count;
    int node;
    bool failed;
} thread_list;

static void add(thread_list *list, const char *name, int count, const char *what, const char *stage) {
    if (count <= 0)
        return;
    if (list->threads) {
        const char *shown = mr_arena_print(&list->view->arena, "%.*s", MR_THREAD_NAME - 1, name);
        list->failed = list->failed || !shown;
        list->threads[list->count] = (mr_view_thread){list->node, shown, count, what, stage};
    }
    list->count++;
}

static bool uses(const mr_plan *plan, int node, int device) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; plan->vertices[v].node == node && i < mr_plan_parts(&plan->vertices[v]); i++)
            if (mr_plan_part(&plan->vertices[v], i) == device)
                return true;
    return false;
}

/* Threads for one end of a cut: an I/O thread, and for each socket libzmq's threads and the guard. */
static void add_cut(thread_list *list, const mr_plan_vertex *end) {
    const mr_cut *cut = mr_plan_cut_of(end);
    bool sends = end->role == MR_ROLE_CUT_OUT;
    add(list, cut->name, 1, "cut", cut->name);
    add(list, "mr-zmq-guard", sends, "cut", cut->name);
    add(list, "", MR_ZMQ_THREADS * (sends ? 1 : (int)cut->connect_count), "library", cut->name);
}

/* Threads that show a run to others. With nodes, the process that starts them has those of HTTP, and sends metrics. */
static void add_observers(thread_list *list, const mr_plan *plan) {
    const mr_spec *spec = plan->spec;
    if (spec->http.listen && !plan->node_count) {
        add(list, "mr-http", 1, "http", NULL);
        add(list, "mr-http-jobs", MR_VIEW_HTTP_JOBS, "http", NULL);
        add(list, "mr-http-results", 1, "http", NULL);
    }
    add(list, "mr-otlp", spec->otlp.endpoint && (!plan->node_count || spec->otlp.traces > 0), "otlp", NULL);
}

static void add_process(thread_list *list, const mr_plan *plan) {
    int begun = 0; /* waiting sources counted so far */
    add(list, "millrace", 1, "main", NULL);
    add(list, "mr-signals", 1, "signals", NULL);
    add_observers(list, plan);
    for (int i = 0; i < plan->workers; i++) {
        char name[MR_THREAD_NAME];
        add(list, mr_worker_name(i, name), 1, "worker", NULL);
    }
    add(list, "mr-sources", plan->spec->sources_from != NULL, "sources", NULL);
    for (size_t v = 0; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        int instances =
            vertex->node == list->node && (!vertex->offer.waits || begun++ < plan->jobs) ? vertex->calls.instances : 0;
        add(list, vertex->id, vertex->calls.blocking ? instances : 0,
            vertex->role == MR_ROLE_SOURCE ? "source" : "stage", vertex->id);
        add(list, "", vertex->calls.threads * instances, "library", vertex->id);
        if (instances && mr_plan_cut_of(vertex))
            add_cut(list, vertex);
    }
    for (size_t d = 1; d < plan->device_count; d++)
        add(list, plan->devices[d].name, uses(plan, list->node, (int)d), "device", plan->devices[d].name);
}

static void add_all(thread_list *list, const mr_plan *plan) {
    list->count = 0;
    for (size_t n = 0; n < (plan->node_count ? plan->node_count : 1); n++) {
        list->node = (int)n;
        add_process(list, plan);
    }
}

int mr_view_fill_threads(mr_view *view, const mr_plan *plan) {
    thread_list list = {.view = view};
    add_all(&list, plan);
    if (!(list.threads = mr_arena_array(&view->arena, list.count, sizeof *list.threads)))
        return MR_ERROR_MEMORY;
    add_all(&list, plan);
    view->shown.thread_count = list.count;
    view->shown.threads = list.threads;
    return list.failed ? MR_ERROR_MEMORY : MR_OK;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

typedef struct file_list {
    mr_view_file *files; /* NULL: only count */
    size_t count;
    int stage;
} file_list;

static void add_files(file_list *list, const mr_option *table, const char *fields) {
    for (const mr_option *option = table; option && option->name; option++) {
        if (option->elsewhere)
            continue;
        if (option->kind == MR_OPTION_MAP)
            add_files(list, option->fields, fields + option->offset);
        else if (option->file != MR_FILE_NONE && option->file != MR_FILE_NAME && mr_option_string(option, fields)) {
            if (list->files)
                list->files[list->count] = (mr_view_file){list->stage, option, mr_option_string(option, fields)};
            list->count++;
        }
    }
}

static void add_all_files(file_list *list, const mr_plan_view *view) {
    list->count = 0;
    for (size_t v = 0; v < view->stage_count; v++) {
        const mr_view_stage *stage = &view->stages[v];
        list->stage = (int)v;
        if (stage->role == MR_VIEW_STAGE || stage->role == MR_VIEW_SOURCE)
            add_files(list, stage->type->options, stage->options);
    }
}

int mr_view_fill_files(mr_view *view) {
    file_list list = {0};
    add_all_files(&list, &view->shown);
    if (!(list.files = mr_arena_array(&view->arena, list.count, sizeof *list.files)))
        return MR_ERROR_MEMORY;
    add_all_files(&list, &view->shown);
    view->shown.file_count = list.count;
    view->shown.files = list.files;
    return MR_OK;
}
