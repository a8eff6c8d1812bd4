/* Prints a pipeline's nodes in one table, or as one JSON object. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/run/children.h"
#include "tools/millrace/summary/summary.h"

/* The number of sources per node that are printed one by one. */
enum { MOST_SOURCES = 20 };

const char *mr_child_state(const mr_child *child) {
    return child->given_up ? "given up" : child->done ? "ended" : child->ready ? "runs" : "starts";
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
        mr_table_add(&table, "%s\t%s\t%d", child->name, mr_child_state(child), child->restarts);
        if (child->done && child->exit_code > 128)
            mr_table_add(&table, "signal %d", child->exit_code - 128);
        else if (child->done)
            mr_table_add(&table, "%d", child->exit_code);
        else
            mr_table_add(&table, "-");
        mr_table_add(&table, "%.2f s\t%s", child->report.cpu_s, mr_words_bytes(child->report.peak_bytes, text));
    }
    return mr_table_print(&table, width, stream);
}

/* ---- the ledger ------------------------------------------------------------------------------------------------ */

static void print_lines(const mr_source_summary *source, mr_outcome outcome, FILE *stream) {
    for (size_t i = 0; i < source->line_count; i++)
        if (source->lines[i].outcome == outcome)
            mr_ledger_line_print(&source->lines[i], stream);
}

/* Prints the missing frames, as far as they have names. */
static void print_missing(const mr_child *child, const mr_source_summary *source, uint64_t missing, FILE *stream) {
    char text[512];
    mr_print(stream, "    %10llu missing of %s, read by %s: %s\n", (unsigned long long)missing, source->id, child->name,
             mr_identities_print(source->unsettled, source->unsettled_count, missing, text, sizeof text));
}

/* Prints a source that failed or does not balance, with dropped and absorbed frames. */
static void print_source(const mr_child *child, const mr_source_summary *source, FILE *stream) {
    const mr_tally_of_nodes tally = mr_child_tally(child, source);
    if (source->message)
        mr_print(stream, "  %s of %s failed: %s\n", source->id, child->name, source->message);
    if (source->seams)
        mr_print(stream, "    %10llu seams in the stream of %s\n", (unsigned long long)source->seams, source->id);
    if (source->note)
        mr_print(stream, "  %s %s\n", source->id, source->note);
    if (source->report.phase) {
        mr_print(stream, "  %s\n", source->id);
        mr_connection_print(&source->report, stream);
    }
    print_lines(source, MR_OUTCOME_DROPPED, stream);
    print_lines(source, MR_OUTCOME_ABSORBED, stream);
    if (tally.missing)
        print_missing(child, source, tally.missing, stream);
}

/* Prints the frames that a child's earlier processes lost when they died, if it reads sources. */
static void print_lives(const mr_child *child, FILE *stream) {
    const mr_ledger_line lines[] = {
        {MR_OUTCOME_DROPPED, child->name, MR_CHILD_LOST, child->before.dropped},
        {MR_OUTCOME_ABSORBED, child->name, MR_CHILD_ABSORBED, child->before.absorbed}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i].frames)
            mr_ledger_line_print(&lines[i], stream);
    if (!child->before.in && child->restarts)
        mr_print(stream, "  %s was started again, and has %s\n", child->name,
                 child->resumes ? "continued: what was done before is absorbed"
                                 : "read its sources from the beginning");
    if (child->done && !child->finished)
        mr_print(stream, "  %s was ended before it could report what it had read last\n", child->name);
}

static void print_sources(const mr_child *child, FILE *stream) {
    bool reads = false;
    for (size_t s = 0; s < child->report.source_count; s++) {
        const mr_source_summary *source = &child->report.sources[s];
        if (source->elsewhere)
            continue;
        reads = true;
        if (s < MOST_SOURCES || source->message || mr_child_tally(child, source).missing)
            print_source(child, source, stream);
    }
    if (reads || child->before.in)
        print_lives(child, stream);
}

static void print_ledger(const mr_child *children, size_t count, FILE *stream) {
    const mr_tally_of_nodes all = mr_children_tally(children, count);
    mr_ledger_print(all.in, all.delivered, all.dropped, all.absorbed, all.in_flight, all.balanced, stream);
    for (size_t i = 0; i < count; i++)
        print_sources(&children[i], stream);
    for (size_t i = 0; i < count; i++)
        mr_objects_print(&children[i].report.objects, stream);
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < children[i].report.stage_count; s++)
            mr_service_print(&children[i].report.stages[s], stream);
}

/* ---- accuracy --------------------------------------------------------------------------------------------------- */

static void add_truths(mr_source_summary *sum, const mr_child *child) {
    for (size_t s = 0; s < child->report.source_count; s++) {
        const mr_source_summary *source = &child->report.sources[s];
        sum->labelled += source->labelled;
        sum->right += source->right;
        sum->listed += source->listed;
        sum->longest = source->longest > sum->longest ? source->longest : sum->longest;
    }
}

/* Sums the replicas of the first node that gets classes for labelled frames: another node would count the same frames
 * again. */
static mr_source_summary sum_truths(const mr_child *children, size_t count) {
    mr_source_summary sum = {.id = "all sources"};
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

/* Prints the stage and cut tables. */
static int print_tables(const mr_child *children, size_t count, int width, FILE *stream) {
    mr_named_summary *of = calloc(count + 1, sizeof *of);
    if (!of)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        of[i] = (mr_named_summary){children[i].name, &children[i].report};
    int status = mr_stages_print(of, count, width, stream);
    status = status ? status : mr_cuts_print(of, count, width, stream);
    free(of);
    return status;
}

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
    status = status ? status : print_tables(children, count, width, stream);
    print_ledger(children, count, stream);
    mr_children_print_sources(children, count, stream);
    const mr_source_summary truths = sum_truths(children, count);
    if (truths.labelled)
        mr_accuracy_print(&truths, stream);
    const mr_loss loss = mr_children_loss(children, count);
    mr_loss_print(&loss, stream);
    return status;
}

static void put_child(yajl_gen json, const mr_plan_view *plan, const mr_child *child) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "node", plan->nodes[child->node].id);
        mr_json_integer(json, "replica", child->replica);
        mr_json_text(json, "state", mr_child_state(child));
        mr_json_integer(json, "restarts", child->restarts);
        mr_json_integer(json, "exit_code", child->exit_code);
        mr_json_key(json, "summary");
        /* The line is JSON already. */
        if (child->line)
            yajl_gen_number(json, child->line, strlen(child->line));
        else
            yajl_gen_null(json);
    }
}

static void put_line(yajl_gen json, const char *source, const char *stage, const char *reason, int64_t frames) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "source", source);
        mr_json_text(json, "stage", stage);
        mr_json_text(json, "reason", reason);
        mr_json_integer(json, "frames", frames);
    }
}

static void put_before(yajl_gen json, const mr_child *child, uint64_t frames, const char *reason) {
    if (frames)
        put_line(json, NULL, child->name, reason, (int64_t)frames);
}

/* Writes dropped or absorbed frames by source, stage and reason. */
static void put_lines(yajl_gen json, const mr_child *child, mr_outcome outcome) {
    for (size_t s = 0; s < child->report.source_count; s++) {
        const mr_source_summary *source = &child->report.sources[s];
        for (size_t k = 0; k < source->line_count && !source->elsewhere; k++)
            if (source->lines[k].outcome == outcome)
                put_line(json, source->id, source->lines[k].stage, source->lines[k].reason,
                         (int64_t)source->lines[k].frames);
    }
}

static void put_missing(yajl_gen json, const mr_child *child) {
    for (size_t s = 0; s < child->report.source_count; s++) {
        const mr_source_summary *source = &child->report.sources[s];
        const bool misses = !source->elsewhere && mr_child_tally(child, source).missing;
        for (size_t k = 0; k < source->unsettled_count && misses; k++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "node", child->name);
                mr_json_text(json, "source", source->id);
                mr_json_integer(json, "epoch", source->unsettled[k].epoch);
                mr_json_integer(json, "seq", (int64_t)source->unsettled[k].seq);
                mr_json_integer(json, "sub", source->unsettled[k].sub);
            }
    }
}

static void put_ledger(yajl_gen json, const mr_child *children, size_t count) {
    const mr_tally_of_nodes all = mr_children_tally(children, count);
    MR_JSON_MAP(json, "ledger") {
        mr_json_integer(json, "in", (int64_t)all.in);
        mr_json_integer(json, "delivered", (int64_t)all.delivered);
        MR_JSON_ARRAY(json, "dropped")
            for (size_t i = 0; i < count; i++) {
                put_lines(json, &children[i], MR_OUTCOME_DROPPED);
                put_before(json, &children[i], children[i].before.dropped, MR_CHILD_LOST);
            }
        MR_JSON_ARRAY(json, "absorbed")
            for (size_t i = 0; i < count; i++) {
                put_lines(json, &children[i], MR_OUTCOME_ABSORBED);
                put_before(json, &children[i], children[i].before.absorbed, MR_CHILD_ABSORBED);
            }
        mr_json_integer(json, "in_flight", (int64_t)all.in_flight);
        MR_JSON_ARRAY(json, "missing")
            for (size_t i = 0; i < count; i++)
                put_missing(json, &children[i]);
        mr_json_integer(json, "missing_frames", (int64_t)all.missing);
        mr_json_bool(json, "balanced", all.balanced);
    }
}

int mr_children_print_json(const mr_plan_view *plan, const mr_child *children, size_t count, double wall_s,
                           int exit_code, const char *error, FILE *stream) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "pipeline", plan->name);
        mr_json_text(json, "digest", plan->digest);
        mr_json_integer(json, "exit_code", exit_code);
        mr_json_text(json, "error", error);
        mr_json_number(json, "wall_s", wall_s);
        put_ledger(json, children, count);
        const mr_source_summary truths = sum_truths(children, count);
        mr_accuracy_put_json(json, &truths);
        MR_JSON_ARRAY(json, "nodes")
            for (size_t i = 0; i < count; i++)
                put_child(json, plan, &children[i]);
    }
    return mr_json_finish(json, stream);
}
