/* All nodes of a pipeline in one table, and as one object of JSON. */
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/run/children.h"
#include "tools/millrace/run/children_sources.h"
#include "tools/millrace/run/summary.h"

/* Sources of one node that are printed one by one. */
enum { MOST_SOURCES = 20 };

static const char *state_of(const mr_child *child) {
    return child->given_up ? "given up" : child->done ? "ended" : child->ready ? "runs" : "starts";
}

static void add_milliseconds(mr_table *table, double ms) {
    char text[MR_WORDS];
    mr_table_add(table, "%s", mr_words_duration((int64_t)(ms * 1e6), text));
}

/* ---- the processes --------------------------------------------------------------------------------------------- */

static int print_processes(const mr_child *children, size_t count, int width, FILE *stream) {
    static const mr_column columns[] = {{"node", .cut = MR_CUT_MIDDLE}, {.title = "state"},
                                        {"restarts", .right = true},    {"exit", .right = true},
                                        {"CPU", .right = true},         {"peak memory", .right = true},
                                        {0}};
    mr_table table = {.columns = columns};
    char text[MR_WORDS];
    for (size_t i = 0; i < count; i++) {
        const mr_child *child = &children[i];
        mr_table_add(&table, "%s", child->name);
        mr_table_add(&table, "%s", state_of(child));
        mr_table_add(&table, "%d", child->restarts);
        if (child->done && child->exit_code > 128)
            mr_table_add(&table, "signal %d", child->exit_code - 128);
        else if (child->done)
            mr_table_add(&table, "%d", child->exit_code);
        else
            mr_table_add(&table, "-");
        mr_table_add(&table, "%.2f s", mr_report_number(child->report, "cpu_s"));
        mr_table_add(&table, "%s", mr_words_bytes((uint64_t)mr_report_integer(child->report, "peak_bytes"), text));
    }
    return mr_table_print(&table, width, stream);
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

static bool is_source(yajl_val report, const char *id) {
    size_t count;
    yajl_val *sources = mr_report_array(report, "sources", &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(mr_report_text(sources[i], "id"), id) == 0)
            return true;
    return false;
}

static void add_stage(mr_table *table, const mr_child *child, yajl_val stage, bool source) {
    mr_table_add(table, "%s", child->name);
    mr_table_add(table, "%s", mr_report_text(stage, "id"));
    mr_table_add(table, "%s", mr_report_text(stage, "device"));
    if (source)
        mr_table_add(table, "-");
    else
        mr_table_add(table, "%lld", (long long)mr_report_integer(stage, "in"));
    mr_table_add(table, "%lld", (long long)mr_report_integer(stage, "out"));
    add_milliseconds(table, mr_report_number(stage, "busy_s") * 1e3);
    if (source) {
        mr_table_add(table, "-");
        mr_table_add(table, "-");
        return;
    }
    add_milliseconds(table, mr_report_number(stage, "p50_ms"));
    add_milliseconds(table, mr_report_number(stage, "p99_ms"));
}

static int print_stages(const mr_child *children, size_t count, int width, FILE *stream) {
    static const mr_column columns[] = {{"node", .cut = MR_CUT_MIDDLE}, {"stage", .cut = MR_CUT_MIDDLE},
                                        {"device", .cut = MR_CUT_LINES}, {"in", .right = true},
                                        {"out", .right = true},         {"busy", .right = true},
                                        {"p50", .right = true},         {"p99", .right = true},
                                        {0}};
    mr_table table = {.columns = columns};
    for (size_t i = 0; i < count; i++) {
        size_t stages, sources = 0;
        yajl_val *stage = mr_report_array(children[i].report, "stages", &stages);
        for (size_t s = 0; s < stages; s++) {
            bool source = is_source(children[i].report, mr_report_text(stage[s], "id"));
            if (!source || ++sources <= MOST_SOURCES)
                add_stage(&table, &children[i], stage[s], source);
        }
    }
    return mr_table_print(&table, width, stream);
}

/* ---- cuts ------------------------------------------------------------------------------------------------------ */

/* Each end of each cut, as reported by the process that has it. */
static int print_cuts(const mr_child *children, size_t count, int width, FILE *stream) {
    static const mr_column columns[] = {{"node", .cut = MR_CUT_MIDDLE}, {"cut", .cut = MR_CUT_MIDDLE},
                                        {"frames", .right = true},      {"again", .right = true},
                                        {"set aside", .right = true},   {"sessions", .right = true},
                                        {"refused", .right = true},     {0}};
    static const char *const counts[] = {"frames", "again", "set_aside", "sessions"};
    mr_table table = {.columns = columns};
    for (size_t i = 0; i < count; i++) {
        size_t cuts;
        yajl_val *cut = mr_report_array(children[i].report, "cuts", &cuts);
        for (size_t c = 0; c < cuts; c++) {
            mr_table_add(&table, "%s", children[i].name);
            mr_table_add(&table, "%s", mr_report_text(cut[c], "id"));
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                mr_table_add(&table, "%lld", (long long)mr_report_integer(cut[c], counts[k]));
            mr_table_add(&table, "%lld", (long long)(mr_report_integer(cut[c], "malformed") +
                                                     mr_report_integer(cut[c], "rejected") +
                                                     mr_report_integer(cut[c], "refused")));
        }
    }
    if (!table.count)
        return MR_OK;
    fputc('\n', stream);
    return mr_table_print(&table, width, stream);
}

/* ---- the ledger ------------------------------------------------------------------------------------------------ */

static void print_lines(yajl_val ledger, const char *what, FILE *stream) {
    size_t count;
    yajl_val *lines = mr_report_array(ledger, what, &count);
    for (size_t i = 0; i < count; i++)
        mr_print(stream, "    %10lld %s by %s: %s\n", (long long)mr_report_integer(lines[i], "frames"), what,
                 mr_report_text(lines[i], "stage"), mr_report_text(lines[i], "reason"));
}

/* The missing frames, as far as they were named. */
static void print_missing(const mr_child *child, yajl_val source, uint64_t missing, FILE *stream) {
    mr_identity frames[MR_UNSETTLED_FRAMES];
    char text[512];
    size_t named, count = 0;
    yajl_val *frame = mr_report_array(source, "unsettled", &named);
    for (; count < named && count < MR_UNSETTLED_FRAMES; count++)
        frames[count] = mr_report_frame(frame[count]);
    mr_print(stream, "    %10llu missing of %s, read by %s: %s\n", (unsigned long long)missing,
             mr_report_text(source, "id"), child->name, mr_identities_print(frames, count, missing, text, sizeof text));
}

static void print_connection(yajl_val source, FILE *stream) {
    static const char *const way[] = {"connection", NULL};
    yajl_val of = yajl_tree_get(source, (const char **)way, yajl_t_object);
    if (!of)
        return;
    mr_print(stream, "  %s\n", mr_report_text(source, "id"));
    mr_connection_print(&(mr_connection_words){mr_report_text(of, "state"), mr_report_text(of, "since"),
                                               mr_report_text(of, "why"), mr_report_text(of, "next_try"),
                                               mr_report_integer(of, "tries"), mr_report_integer(of, "connections"),
                                               mr_report_integer(of, "packets"), mr_report_integer(of, "bytes"),
                                               mr_report_integer(of, "lost"), mr_report_integer(of, "stills"),
                                               mr_report_number(of, "jitter_ms")},
                        stream);
}

/* A source that failed or does not balance, and its dropped and absorbed frames. */
static void print_source(const mr_child *child, yajl_val source, FILE *stream) {
    const char *error = mr_report_text(source, "error");
    const mr_tally_of_nodes tally = mr_child_tally(child, source);
    if (*error)
        mr_print(stream, "  %s of %s failed: %s\n", mr_report_text(source, "id"), child->name, error);
    if (mr_report_integer(source, "seams"))
        mr_print(stream, "    %10lld seams in the stream of %s\n", (long long)mr_report_integer(source, "seams"),
                mr_report_text(source, "id"));
    if (*mr_report_text(source, "note"))
        mr_print(stream, "  %s %s\n", mr_report_text(source, "id"), mr_report_text(source, "note"));
    print_connection(source, stream);
    print_lines(source, "dropped", stream);
    print_lines(source, "absorbed", stream);
    if (tally.missing)
        print_missing(child, source, tally.missing, stream);
}

/* What the earlier processes of a child that reads sources left behind when they died. */
static void print_lives(const mr_child *child, FILE *stream) {
    if (child->before.dropped)
        mr_print(stream, "    %10llu dropped by %s: in it when it died, or before\n",
                 (unsigned long long)child->before.dropped, child->name);
    if (child->before.absorbed)
        mr_print(stream, "    %10llu absorbed by %s: before it died\n", (unsigned long long)child->before.absorbed,
                 child->name);
    if (!child->before.in && child->restarts)
        mr_print(stream, "  %s was started again, and has %s\n", child->name,
                 child->resumes ? "continued: what was done before is absorbed"
                                 : "read its sources from the beginning");
    if (child->done && !child->finished)
        mr_print(stream, "  %s was ended before it could report what it had read last\n", child->name);
}

static void print_sources(const mr_child *child, FILE *stream) {
    size_t sources;
    bool reads = false;
    yajl_val *source = mr_report_array(child->report, "sources", &sources);
    for (size_t s = 0; s < sources; s++) {
        if (mr_report_true(source[s], "elsewhere"))
            continue;
        reads = true;
        if (s < MOST_SOURCES || *mr_report_text(source[s], "error") || mr_child_tally(child, source[s]).missing)
            print_source(child, source[s], stream);
    }
    if (reads || child->before.in)
        print_lives(child, stream);
}

static void print_ledger(const mr_child *children, size_t count, FILE *stream) {
    const mr_tally_of_nodes all = mr_children_tally(children, count);
    mr_print(stream, "\n  ledger: %llu in = %llu delivered + %llu dropped + %llu absorbed + %llu in flight: %s\n",
             (unsigned long long)all.in, (unsigned long long)all.delivered, (unsigned long long)all.dropped,
             (unsigned long long)all.absorbed, (unsigned long long)all.in_flight,
             all.balanced ? "balanced" : "NOT BALANCED");
    for (size_t i = 0; i < count; i++)
        print_sources(&children[i], stream);
}

/* ---- accuracy --------------------------------------------------------------------------------------------------- */

typedef struct sum_of_truths {
    uint64_t labelled, right, listed;
    size_t longest;
} sum_of_truths;

static void add_truths(sum_of_truths *sum, const mr_child *child) {
    size_t sources;
    yajl_val *source = mr_report_array(child->report, "sources", &sources);
    for (size_t s = 0; s < sources; s++) {
        const char *const path[] = {"accuracy", NULL};
        yajl_val accuracy = yajl_tree_get(source[s], (const char **)path, yajl_t_object);
        size_t k = (size_t)mr_report_integer(accuracy, "k");
        sum->labelled += (uint64_t)mr_report_integer(accuracy, "frames");
        sum->right += (uint64_t)mr_report_integer(accuracy, "right");
        sum->listed += (uint64_t)mr_report_integer(accuracy, "listed");
        sum->longest = k > sum->longest ? k : sum->longest;
    }
}

/* Sums the replicas of the first node that gets classes of labelled frames: another node would count the same frames
 * again. */
static sum_of_truths sum_truths(const mr_child *children, size_t count) {
    sum_of_truths sum = {0};
    int node = -1;
    for (size_t i = 0; i < count; i++) {
        if (node < 0 || node == children[i].node)
            add_truths(&sum, &children[i]);
        if (sum.labelled)
            node = children[i].node;
    }
    return sum;
}

/* ---- the whole report ------------------------------------------------------------------------------------------ */

int mr_children_print(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s, FILE *stream) {
    const mr_tally_of_nodes all = mr_children_tally(children, count);
    uint64_t done = all.delivered + all.dropped + all.absorbed;
    int width = mr_terminal_width(stream);
    mr_print(stream, "%s: %llu frames in %.2f s", plan->name, (unsigned long long)done, wall_s);
    if (wall_s > 0)
        fprintf(stream, " (%.1f a second)", (double)done / wall_s);
    fprintf(stream, "; %zu processes\n\n", count);
    int status = print_processes(children, count, width, stream);
    fputc('\n', stream);
    status = status ? status : print_stages(children, count, width, stream);
    status = status ? status : print_cuts(children, count, width, stream);
    print_ledger(children, count, stream);
    mr_children_print_sources(children, count, stream);
    const sum_of_truths truths = sum_truths(children, count);
    if (truths.labelled)
        mr_accuracy_print("all sources", truths.labelled, truths.right, truths.listed, truths.longest, stream);
    const mr_loss loss = mr_children_loss(children, count);
    mr_loss_print(&loss, stream);
    return status;
}

static void put_child(yajl_gen json, const mr_plan_view *plan, const mr_child *child) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "node", plan->nodes[child->node].id);
    mr_json_integer(json, "replica", child->replica);
    mr_json_text(json, "state", state_of(child));
    mr_json_integer(json, "restarts", child->restarts);
    mr_json_integer(json, "exit_code", child->exit_code);
    mr_json_key(json, "summary");
    /* It is JSON already, and is written as it is. */
    if (child->line)
        yajl_gen_number(json, child->line, strlen(child->line));
    else
        yajl_gen_null(json);
    yajl_gen_map_close(json);
}

static void put_line(yajl_gen json, const char *source, const char *stage, const char *reason, int64_t frames) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "source", source);
    mr_json_text(json, "stage", stage);
    mr_json_text(json, "reason", reason);
    mr_json_integer(json, "frames", frames);
    yajl_gen_map_close(json);
}

static void put_before(yajl_gen json, const mr_child *child, uint64_t frames, const char *reason) {
    if (frames)
        put_line(json, NULL, child->name, reason, (int64_t)frames);
}

/* Dropped and absorbed frames, by source, stage and reason. */
static void put_lines(yajl_gen json, const char *what, const mr_child *child, yajl_val source) {
    size_t lines;
    (void)child;
    yajl_val *line = mr_report_array(source, what, &lines);
    for (size_t k = 0; k < lines; k++)
        put_line(json, mr_report_text(source, "id"), mr_report_text(line[k], "stage"),
                 mr_report_text(line[k], "reason"), mr_report_integer(line[k], "frames"));
}

static void put_missing(yajl_gen json, const char *what, const mr_child *child, yajl_val source) {
    size_t frames;
    yajl_val *frame = mr_report_array(source, what, &frames);
    for (size_t k = 0; k < frames && mr_child_tally(child, source).missing; k++) {
        const mr_identity identity = mr_report_frame(frame[k]);
        mr_json_open_map(json, NULL);
        mr_json_text(json, "node", child->name);
        mr_json_text(json, "source", mr_report_text(source, "id"));
        mr_json_integer(json, "epoch", identity.epoch);
        mr_json_integer(json, "seq", (int64_t)identity.seq);
        mr_json_integer(json, "sub", identity.sub);
        yajl_gen_map_close(json);
    }
}

/* Calls put for each source that one of the children reads. */
static void put_sources(yajl_gen json, const char *what, const mr_child *child,
                        void (*put)(yajl_gen json, const char *what, const mr_child *child, yajl_val source)) {
    size_t sources;
    yajl_val *source = mr_report_array(child->report, "sources", &sources);
    for (size_t s = 0; s < sources; s++)
        if (!mr_report_true(source[s], "elsewhere"))
            put(json, what, child, source[s]);
}

static void put_ledger(yajl_gen json, const mr_child *children, size_t count) {
    const mr_tally_of_nodes all = mr_children_tally(children, count);
    mr_json_open_map(json, "ledger");
    mr_json_integer(json, "in", (int64_t)all.in);
    mr_json_integer(json, "delivered", (int64_t)all.delivered);
    mr_json_open_array(json, "dropped");
    for (size_t i = 0; i < count; i++) {
        put_sources(json, "dropped", &children[i], put_lines);
        put_before(json, &children[i], children[i].before.dropped, "in it when it died, or before");
    }
    yajl_gen_array_close(json);
    mr_json_open_array(json, "absorbed");
    for (size_t i = 0; i < count; i++) {
        put_sources(json, "absorbed", &children[i], put_lines);
        put_before(json, &children[i], children[i].before.absorbed, "before it died");
    }
    yajl_gen_array_close(json);
    mr_json_integer(json, "in_flight", (int64_t)all.in_flight);
    mr_json_open_array(json, "missing");
    for (size_t i = 0; i < count; i++)
        put_sources(json, "unsettled", &children[i], put_missing);
    yajl_gen_array_close(json);
    mr_json_integer(json, "missing_frames", (int64_t)all.missing);
    mr_json_bool(json, "balanced", all.balanced);
    yajl_gen_map_close(json);
}

int mr_children_print_json(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s,
                           int exit_code, const char *error, FILE *stream) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_json_open_map(json, NULL);
    mr_json_text(json, "pipeline", plan->name);
    mr_json_text(json, "digest", plan->digest);
    mr_json_integer(json, "exit_code", exit_code);
    mr_json_text(json, "error", error);
    mr_json_number(json, "wall_s", wall_s);
    put_ledger(json, children, count);
    const sum_of_truths truths = sum_truths(children, count);
    if (mr_accuracy_open_json(json, truths.labelled, truths.right, truths.listed, truths.longest))
        yajl_gen_map_close(json);
    mr_json_open_array(json, "nodes");
    for (size_t i = 0; i < count; i++)
        put_child(json, plan, &children[i]);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
    return mr_json_finish(json, stream);
}
