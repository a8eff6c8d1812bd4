/* Prints the plan in tables. Rows that differ only in ids become one row with a count. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/plan/plan_parts.h"
#include "tools/millrace/plan/plan_print.h"

/* The most kinds of sources and links, and thread names, to print; the rest is only counted. */
enum { MOST_ROWS = 40, MOST_NAMES = 8, NAME = 160 };
/* 128 bits; --json has all. */
enum { SHOWN_DIGEST = 32 };

static bool same_set(const mr_format_set *a, const mr_format_set *b) {
    char one[MR_FORMAT_SET_TEXT], other[MR_FORMAT_SET_TEXT];
    return strcmp(mr_format_set_print(a, one, sizeof one), mr_format_set_print(b, other, sizeof other)) == 0;
}

/* ---- sources --------------------------------------------------------------------------------------------------- */

static bool alike(const mr_view_stage *a, const mr_view_stage *b) {
    return a->type == b->type && a->node == b->node && a->offer.rate == b->offer.rate &&
           a->offer.paced == b->offer.paced && a->offer.frames == b->offer.frames &&
           same_set(&a->outputs[0].set, &b->outputs[0].set);
}

static const char *rate_text(const mr_view_stage *source, char text[MR_WORDS]) {
    if (source->offer.rate <= 0)
        return source->offer.paced ? "by the clock" : "as taken";
    mr_words_rate(source->offer.rate, text);
    size_t length = strlen(text);
    snprintf(text + length, MR_WORDS - length, source->offer.paced ? "" : ", as taken");
    return text;
}

static void add_source(mr_table *table, const mr_view_stage *first, const mr_view_stage *last) {
    char text[MR_WORDS], format[MR_FORMAT_SET_TEXT];
    if (first == last)
        mr_table_add(table, "%s", first->id);
    else
        mr_table_add(table, "%s .. %s (%td)", first->id, last->id, last - first + 1);
    mr_table_add(table, "%s\t%s\t%s", first->type->name, mr_plan_format(&first->outputs[0].set, format),
                 rate_text(first, text));
    if (first->offer.frames > 0)
        mr_table_add(table, "%lld", (long long)first->offer.frames);
    else
        mr_table_add(table, "?");
    bool known = first->offer.frames > 0 && first->offer.rate > 0;
    mr_table_add(table, "%s",
                 known ? mr_words_duration((int64_t)((double)first->offer.frames / first->offer.rate * 1e9), text)
                       : "?");
}

static int print_sources(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column columns[] = {{"source", .cut = MR_CUT_MIDDLE},
                                        {.title = "type"},
                                        {"gives", .cut = MR_CUT_LINES},
                                        {.title = "rate"},
                                        {"frames", .right = true},
                                        {"duration", .right = true},
                                        {0}};
    mr_table table = {.columns = columns};
    size_t rows = 0, at = 0;
    while (at < plan->source_count && rows < MOST_ROWS) {
        size_t last = at;
        if (!mr_plan_is_told(plan, &plan->stages[at])) {
            at++;
            continue;
        }
        rows++;
        while (last + 1 < plan->source_count && alike(&plan->stages[at], &plan->stages[last + 1]))
            last++;
        add_source(&table, &plan->stages[at], &plan->stages[last]);
        at = last + 1;
    }
    /* A node may have no sources. */
    int status = rows ? mr_table_print(&table, width, stream) : MR_OK;
    if (at < plan->source_count)
        fprintf(stream, "  and %zu more sources (--json has all)\n", plan->source_count - at);
    size_t waiting = plan->waiting;
    if (plan->most_sources)
        mr_print(stream, "  up to %zu sources at a time; +N is a place for one that is added while it runs\n",
                 plan->most_sources);
    if ((size_t)plan->jobs < waiting)
        mr_print(stream, "  %d of %zu sources at a time (jobs)\n", plan->jobs, waiting);
    if (rows)
        fputc('\n', stream);
    return status;
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

static void add_threads(mr_table *table, const mr_view_stage *stage) {
    const char *each = stage->calls.instances > 1 ? " each" : "";
    if (stage->calls.blocking && stage->calls.threads)
        mr_table_add(table, "own + %d of library%s", stage->calls.threads, each);
    else if (stage->calls.blocking)
        mr_table_add(table, "own%s", each);
    else if (stage->calls.threads)
        mr_table_add(table, "worker + %d of library%s", stage->calls.threads, each);
    else if (stage->calls.entries > 1)
        mr_table_add(table, "up to %d workers", stage->calls.entries);
    else
        mr_table_add(table, "1 worker%s", each);
}

/* "cuda:0", or "cuda:0 cuda:1" if frames are spread. */
static const char *devices_text(const mr_plan_view *plan, const mr_view_stage *stage, char text[NAME]) {
    snprintf(text, NAME, "%s", stage->devices.first);
    for (size_t i = 1; i < stage->devices.count; i++) {
        size_t length = strlen(text);
        snprintf(text + length, NAME - length, " %s", plan->devices[stage->devices.at[i]].name);
    }
    size_t length = strlen(text);
    if (stage->devices.has_reserve)
        snprintf(text + length, NAME - length, " then %s", plan->devices[stage->devices.reserve].name);
    return text;
}

static void add_stage(mr_table *table, const mr_plan_view *plan, const mr_view_stage *stage) {
    char text[MR_WORDS], devices[NAME];
    mr_table_add(table, "%s\t%s\t%d\t%s", stage->id, stage->type->name, stage->calls.instances,
                 devices_text(plan, stage, devices));
    add_threads(table, stage);
    if (stage->calls.batch > 1 && stage->calls.batch_timeout_ns > 0)
        mr_table_add(table, "%d in %s", stage->calls.batch, mr_words_duration(stage->calls.batch_timeout_ns, text));
    else if (stage->calls.gathers > 1)
        mr_table_add(table, "1 to %d", stage->calls.gathers);
    else
        mr_table_add(table, "%d", stage->calls.batch);
    mr_table_add(table, "%d", stage->calls.in_flight);
    if (plan->node_count > 0)
        mr_table_add(table, "%s", plan->nodes[stage->node].id);
}

static int print_stages(const mr_plan_view *plan, int width, FILE *stream) {
    /* The last column needs nodes. */
    const mr_column columns[] = {{"stage", .cut = MR_CUT_MIDDLE},
                                 {"type", .cut = MR_CUT_MIDDLE},
                                 {"times", .right = true},
                                 {"device", .cut = MR_CUT_LINES},
                                 {"threads", .cut = MR_CUT_LINES},
                                 {"batch", .right = true},
                                 {"in flight", .right = true},
                                 {.title = plan->node_count > 0 ? "node" : NULL},
                                 {0}};
    mr_table table = {.columns = columns};
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        if (mr_plan_is_authored(&plan->stages[v]) && mr_plan_is_told(plan, &plan->stages[v]))
            add_stage(&table, plan, &plan->stages[v]);
    int status = mr_table_print(&table, width, stream);
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        if (plan->stages[v].devices.reason && mr_plan_is_told(plan, &plan->stages[v]))
            mr_print_wrapped(width, stream, "%s is on %s: %s", plan->stages[v].id,
                             plan->stages[v].devices.names, plan->stages[v].devices.reason);
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        if (plan->stages[v].remarks.here && mr_plan_is_told(plan, &plan->stages[v]))
            mr_print_wrapped(width, stream, "%s on %s, %s", plan->stages[v].id, plan->stages[v].devices.names,
                             plan->stages[v].remarks.here);
    for (size_t v = 0; v < plan->stage_count; v++)
        if (plan->stages[v].remarks.anywhere && mr_plan_is_told(plan, &plan->stages[v]))
            mr_print_wrapped(width, stream, "%s %s", plan->stages[v].id, plan->stages[v].remarks.anywhere);
    return status;
}

/* ---- links ----------------------------------------------------------------------------------------------------- */

/* "decode", or "split.left" if there are several ports. For either end of a cut, the cut's name. */
static const char *from_name(const mr_plan_view *plan, const mr_view_link *edge, char text[NAME]) {
    const mr_view_stage *from = &plan->stages[edge->from];
    const mr_view_cut *cut = from->cut;
    bool several = from->output_count > 1;
    snprintf(text, NAME, "%s%s%s", cut ? cut->name : from->id, several ? "." : "",
             several ? from->type->outputs[edge->from_port].name : "");
    return text;
}

static const char *to_name(const mr_plan_view *plan, const mr_view_link *edge, char text[NAME]) {
    const mr_view_stage *to = &plan->stages[edge->to];
    bool several = to->input_count > 1;
    snprintf(text, NAME, "%s%s%s", to->id, several ? "." : "", several ? to->inputs[edge->to_port].port : "");
    return text;
}

/* Sources with the same formats and the same way share a row. */
static bool like_links(const mr_plan_view *plan, const mr_view_link *a, const mr_view_link *b) {
    return mr_plan_is_inner(plan, b) && a->to == b->to && a->to_port == b->to_port &&
           plan->stages[a->from].role == MR_VIEW_SOURCE && plan->stages[b->from].role == MR_VIEW_SOURCE &&
           same_set(mr_plan_link_set(plan, a), mr_plan_link_set(plan, b));
}

static void add_link(mr_table *table, const mr_plan_view *plan, const mr_view_link *first, const mr_view_link *last) {
    char from[NAME], to[NAME], format[MR_FORMAT_SET_TEXT], text[MR_WORDS];
    const mr_view_stage *consumer = &plan->stages[first->to];
    const mr_format_set *set = mr_plan_link_set(plan, first);
    size_t sources = 0;
    for (const mr_view_link *edge = first; edge <= last; edge++)
        sources += mr_plan_link_sources(plan, edge);
    if (first == last)
        mr_table_add(table, "%s", from_name(plan, first, from));
    else
        mr_table_add(table, "%td sources", last - first + 1);
    mr_table_add(table, "%s\t%s\t%s", to_name(plan, first, to), mr_plan_format(set, format),
                 mr_plan_bytes(mr_plan_link_bytes(plan, first), text));
    if (sources == 1)
        mr_table_add(table, "%d", consumer->queue);
    else
        mr_table_add(table, "%d x %zu", consumer->queue, sources);
    mr_table_add(table, "%s", consumer->when_full);
}

static int print_links(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column columns[] = {{"from", .cut = MR_CUT_MIDDLE},
                                        {"to", .cut = MR_CUT_MIDDLE},
                                        {"carries", .cut = MR_CUT_LINES},
                                        {"a frame", .right = true},
                                        {"queue", .right = true},
                                        {.title = "policy"},
                                        {0}};
    mr_table table = {.columns = columns};
    size_t rows = 0, left_out = 0;
    for (size_t at = 0; at < plan->link_count; at++) {
        size_t first = at;
        if (!mr_plan_is_inner(plan, &plan->links[at]))
            continue;
        if (plan->stages[plan->links[at].from].role == MR_VIEW_SOURCE && rows++ >= MOST_ROWS) {
            left_out++;
            continue;
        }
        while (at + 1 < plan->link_count && like_links(plan, &plan->links[first], &plan->links[at + 1]))
            at++;
        add_link(&table, plan, &plan->links[first], &plan->links[at]);
    }
    int status = mr_table_print(&table, width, stream);
    if (left_out)
        fprintf(stream, "  and %zu more links from sources (--json has all)\n", left_out);
    return status;
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

/* Prints a copy, or the uploads for a stage on several devices. */
static void add_copy(mr_table *table, const mr_plan_view *plan, const mr_view_stage *copy) {
    static const char *const kinds[] = {[MR_VIEW_STAGE] = "to its devices",
                                        [MR_VIEW_UPLOAD] = "host to device",
                                        [MR_VIEW_DOWNLOAD] = "device to host",
                                        [MR_VIEW_PEER] = "device to device"};
    char format[MR_FORMAT_SET_TEXT], text[MR_WORDS];
    uint64_t bytes = mr_plan_is_copy(copy) ? copy->output_bytes[0] : copy->memory.staging.bytes;
    double rate = mr_plan_rate(plan, copy);
    mr_table_add(table, "%s\t%s\t%s\t%s", copy->id, kinds[copy->role], mr_plan_format(&copy->inputs[0].set, format),
                 mr_plan_bytes(bytes, text));
    if (rate > 0 && bytes)
        mr_table_add(table, "%s", mr_words_bytes((uint64_t)((double)bytes * rate), text));
    else
        mr_table_add(table, "?");
}

/* Whether a stage on several devices uploads frames itself. False if earlier stages already put them there. */
static bool brings_in(const mr_plan_view *plan, int v) {
    const mr_view_stage *to = &plan->stages[v];
    for (size_t e = 0; e < plan->link_count && to->memory.staging.count; e++)
        if (plan->links[e].to == v &&
            strcmp(plan->stages[plan->links[e].from].devices.names, to->devices.names) != 0)
            return true;
    return false;
}

static int print_copies(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column columns[] = {{"copy", .cut = MR_CUT_MIDDLE},
                                        {.title = "from and to"},
                                        {"of", .cut = MR_CUT_LINES},
                                        {"a frame", .right = true},
                                        {"a second", .right = true},
                                        {0}};
    mr_table table = {.columns = columns};
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        if (mr_plan_is_told(plan, &plan->stages[v]) &&
            (mr_plan_is_copy(&plan->stages[v]) || brings_in(plan, (int)v)))
            add_copy(&table, plan, &plan->stages[v]);
    if (table.count == 0 && !table.out_of_memory) {
        mr_print_wrapped(width, stream, "no copies: every stage reads what the one before it has written");
        if (plan->node_count)
            fputc('\n', stream);
        return MR_OK;
    }
    int status = mr_table_print(&table, width, stream);
    fputc('\n', stream);
    return status;
}

/* ---- the process ----------------------------------------------------------------------------------------------- */

/* Collects all thread names in one growing text. */
typedef struct thread_list {
    const mr_plan_view *plan;
    char *text;
    size_t bytes;
    FILE *stream; /* into `text` */
    int threads, workers, sources;
} thread_list;

static void list_thread(thread_list *list, const mr_view_thread *thread) {
    const char *before = list->threads ? ", " : "";
    bool worker = strcmp(thread->what, "worker") == 0;
    list->threads += thread->count;
    if (worker && list->workers++ > 0)
        return;
    if (strcmp(thread->what, "source") == 0 && list->plan->source_count > MOST_NAMES) {
        if (list->sources++ == 0)
            mr_print(list->stream, "%sone for each source that waits for its files", before);
        return;
    }
    if (worker && list->plan->workers > 1)
        mr_print(list->stream, "%s%s to %s", before, thread->name, thread[list->plan->workers - 1].name);
    else if (thread->name[0] == 0)
        mr_print(list->stream, "%s%d of libraries for %s", before, thread->count, thread->stage);
    else if (thread->count > 1)
        mr_print(list->stream, "%s%d %s", before, thread->count, thread->name);
    else
        mr_print(list->stream, "%s%s", before, thread->name);
}

static void print_busy_poll(int64_t poll_ns, int width, FILE *stream) {
    char text[MR_WORDS];
    if (poll_ns)
        mr_print_wrapped(width, stream, "  keeps a core busy for %s after the last frame, before it sleeps (busy_poll)",
                         mr_words_duration(poll_ns, text));
}

static int print_process(const mr_plan_view *plan, int node, int width, FILE *stream) {
    thread_list list = {.plan = plan};
    list.stream = open_memstream(&list.text, &list.bytes);
    if (!list.stream)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of threads");
    for (size_t i = 0; i < plan->thread_count; i++)
        if (plan->threads[i].node == node)
            list_thread(&list, &plan->threads[i]);
    fclose(list.stream);
    if (plan->node_count == 0)
        mr_print_wrapped(width, stream, "one process with %d threads: %s", list.threads, list.text);
    else
        mr_print_wrapped(width, stream, "node %s: %d process%s with %d threads%s: %s", plan->nodes[node].id,
                         plan->nodes[node].replicas, plan->nodes[node].replicas == 1 ? "" : "es", list.threads,
                         plan->nodes[node].replicas == 1 ? "" : " each", list.text);
    free(list.text);
    print_busy_poll(plan->node_count ? plan->nodes[node].busy_poll_ns : plan->busy_poll_ns, width, stream);
    mr_plan_print_needs(plan, node, width, stream);
    return MR_OK;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void print_bound(const char *of, const mr_view_bytes *bound, int width, FILE *stream) {
    char text[MR_PLAN_BOUND];
    mr_print_wrapped(width, stream, "  %-6s  %s", of, mr_plan_bound(bound, text));
}

static void print_device(const mr_view_device *device, int width, FILE *stream) {
    char text[MR_PLAN_BOUND], room[MR_WORDS], limit[NAME] = "";
    if (device->limit_bytes)
        snprintf(limit, NAME, " of %s that it may take", mr_words_bytes(device->limit_bytes, room));
    else if (device->memory_bytes)
        snprintf(limit, NAME, " of %s that it has", mr_words_bytes(device->memory_bytes, room));
    mr_print_wrapped(width, stream, "  %-6s  %s%s%s", device->name, mr_plan_bound(&device->memory, text), limit,
                     device->assumed ? " (assumed)" : "");
    if (device->libraries.bytes)
        mr_print_wrapped(width, stream, "          libraries at most %s%s",
                         mr_words_bytes(device->libraries.bytes, room),
                         device->libraries.unknown ? ", and models without provider_memory" : "");
    else if (device->libraries.unknown)
        mr_print_wrapped(width, stream, "          and what models take: provider_memory limits it");
}

static void print_memory(const mr_plan_view *plan, int width, FILE *stream) {
    mr_print_wrapped(width, stream, "memory for frames that millrace allocates%s:",
                     plan->node < 0 ? ", in the process that takes most" : "");
    print_bound("host", &plan->host, width, stream);
    const mr_view_bytes *const others[] = {&plan->pinned, &plan->shared, &plan->queues};
    static const char *const names[] = {"pinned", "shared", "ZeroMQ"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i]->bytes || others[i]->unknown)
            print_bound(names[i], others[i], width, stream);
    for (size_t i = 1; i < plan->device_count; i++)
        if (plan->devices[i].used)
            print_device(&plan->devices[i], width, stream);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

int mr_plan_print(const mr_plan_view *plan, int width, FILE *stream) {
    mr_print(stream, "%s: %s, %d worker%s%s\n", plan->name, plan->file, plan->workers,
             plan->workers == 1 ? "" : "s", plan->assumed ? ", for hardware that is assumed" : "");
    mr_print(stream, "digest %.*s\n\n", SHOWN_DIGEST, plan->digest);
    int status = print_sources(plan, width, stream);
    status = status ? status : print_stages(plan, width, stream);
    fputc('\n', stream);
    status = status ? status : print_links(plan, width, stream);
    fputc('\n', stream);
    status = status ? status : print_copies(plan, width, stream);
    status = status ? status : mr_plan_print_cuts(plan, width, stream);
    for (size_t i = 0; i < mr_plan_told_nodes(plan); i++)
        status = status ? status : print_process(plan, mr_plan_told_node(plan, i), width, stream);
    if (plan->node < 0)
        mr_print_wrapped(width, stream,
                         "and one process that starts these and watches over them; where it keeps checkpoints "
                         "for them, they have one thread more");
    fputc('\n', stream);
    status = status ? status : mr_plan_print_account(plan, width, stream);
    print_memory(plan, width, stream);
    return status ? status : mr_plan_print_expected(plan, width, stream);
}
