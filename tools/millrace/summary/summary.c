#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/summary/loss.h"
#include "tools/millrace/summary/summary.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCES = 20 };

static void print_head(const mr_summary *summary, FILE *stream) {
    uint64_t done = summary->delivered + summary->dropped + summary->absorbed;
    mr_print(stream, "%s: %llu frames in %.2f s", summary->pipeline ? summary->pipeline : "pipeline",
             (unsigned long long)done, summary->wall_s);
    if (summary->wall_s > 0)
        fprintf(stream, " (%.1f a second)", (double)done / summary->wall_s);
    fprintf(stream, "; %.2f s of CPU, peak memory %.0f MiB\n", summary->cpu_s,
            (double)summary->peak_bytes / (1024 * 1024));
    for (size_t i = 0; i < summary->forced_count; i++)
        mr_print(stream, "  %s: %s\n", summary->forced[i].stage, summary->forced[i].why);
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

/* Prints each device's share if there are several. */
static void print_shares(const mr_stage_summary *stage, FILE *stream) {
    double all = 0;
    char cost[MR_WORDS];
    for (size_t i = 0; i < stage->share_count; i++)
        all += (double)stage->shares[i].frames;
    for (size_t i = 0; i < stage->share_count && stage->share_count > 1; i++) {
        const mr_share_summary *share = &stage->shares[i];
        mr_print(stream, "  %s on %s: %llu frames, %.0f%%", stage->id, share->device,
                 (unsigned long long)share->frames,
                 all > 0 ? 100 * (double)share->frames / all : 0);
        if (share->cost_ns) {
            fprintf(stream, ", one in %s", mr_words_duration(share->cost_ns, cost));
        }
        if (share->state != MR_DEVICE_WORKS)
            mr_print(stream, ", %s", mr_device_state_name(share->state));
        fputc('\n', stream);
    }
}

/* A source has no inputs and no queue. */
static void add_stage(mr_table *table, const char *node, const mr_stage_summary *stage) {
    char busy[MR_WORDS], p50[MR_WORDS], p99[MR_WORDS];
    if (node)
        mr_table_add(table, "%s", node);
    mr_table_add(table, "%s", stage->id);
    if (!node)
        mr_table_add(table, "%s", stage->type);
    mr_table_add(table, stage->is_source ? "%s\t-" : "%s\t%llu", stage->device, (unsigned long long)stage->in);
    mr_table_add(table, "%llu\t%s", (unsigned long long)stage->out, mr_words_duration(stage->busy_ns, busy));
    if (stage->is_source)
        mr_table_add(table, "-\t-");
    else
        mr_table_add(table, "%s\t%s", mr_words_duration(stage->p50_ns, p50), mr_words_duration(stage->p99_ns, p99));
}

static size_t add_stages(mr_table *table, const mr_named_summary *of) {
    size_t sources = 0;
    for (size_t i = 0; i < of->summary->stage_count; i++) {
        const mr_stage_summary *stage = &of->summary->stages[i];
        if (!stage->is_source || ++sources <= MOST_SOURCES)
            add_stage(table, of->name, stage);
    }
    return sources > MOST_SOURCES ? sources - MOST_SOURCES : 0;
}

int mr_stages_print(const mr_named_summary *of, size_t count, int width, FILE *stream) {
#define SHARED_COLUMNS {"device", .cut = MR_CUT_LINES}, {"in", .right = true}, {"out", .right = true},                \
                       {"busy", .right = true}, {"p50", .right = true}, {"p99", .right = true}, {0}
    static const mr_column columns[] = {{"stage", .cut = MR_CUT_MIDDLE}, {"type", .cut = MR_CUT_MIDDLE},
                                        SHARED_COLUMNS};
    static const mr_column of_nodes[] = {{"node", .cut = MR_CUT_MIDDLE}, {"stage", .cut = MR_CUT_MIDDLE},
                                         SHARED_COLUMNS};
    mr_table table = {.columns = count && of->name ? of_nodes : columns};
    size_t more = 0;
    for (size_t i = 0; i < count; i++)
        more += add_stages(&table, &of[i]);
    int status = mr_table_print(&table, width, stream);
    if (more)
        fprintf(stream, "  and %zu more sources\n", more);
    return status;
}

static void print_stages(const mr_summary *summary, int width, FILE *stream) {
    char p50[MR_WORDS], p99[MR_WORDS];
    fputc('\n', stream);
    if (mr_stages_print(&(mr_named_summary){NULL, summary}, 1, width, stream))
        fputs("  no memory for the table of stages\n", stream);
    for (size_t i = 0; i < summary->stage_count; i++)
        print_shares(&summary->stages[i], stream);
    mr_print_wrapped(width, stream, "busy: inside the stage, all instances together; p50, p99: from entering its queue "
                     "to its end");
    if (summary->delivered)
        fprintf(stream, "  from source to sink: p50 %s, p99 %s\n", mr_words_duration(summary->latency_p50_ns, p50),
                mr_words_duration(summary->latency_p99_ns, p99));
}

/* ---- cuts ------------------------------------------------------------------------------------------------------ */

/* Prints each cut's ends, with the counts from the process that has the end. */
int mr_cuts_print(const mr_named_summary *of, size_t count, int width, FILE *stream) {
    static const mr_column columns[] = {{"node", .cut = MR_CUT_MIDDLE}, {"cut", .cut = MR_CUT_MIDDLE},
                                        {"frames", .right = true},      {"again", .right = true},
                                        {"set aside", .right = true},   {"sessions", .right = true},
                                        {"refused", .right = true},     {0}};
    mr_table table = {.columns = columns + !(count && of->name)};
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < of[i].summary->cut_count; c++) {
            const mr_cut_summary *cut = &of[i].summary->cuts[c];
            if (of[i].name)
                mr_table_add(&table, "%s", of[i].name);
            mr_table_add(&table, "%s\t%llu\t%llu\t%llu\t%llu\t%llu", cut->id, (unsigned long long)cut->frames,
                         (unsigned long long)cut->again, (unsigned long long)cut->set_aside,
                         (unsigned long long)cut->sessions,
                         (unsigned long long)(cut->malformed + cut->rejected + cut->refused));
        }
    }
    if (!table.count)
        return MR_OK;
    fputc('\n', stream);
    return mr_table_print(&table, width, stream);
}

/* ---- ledger ---------------------------------------------------------------------------------------------------- */

void mr_ledger_line_print(const mr_ledger_line *line, FILE *stream) {
    mr_print(stream, "    %10llu %s by %s: %s\n", (unsigned long long)line->frames,
             line->outcome == MR_OUTCOME_DROPPED ? "dropped" : "absorbed", line->stage, line->reason);
}

uint64_t mr_lines_frames(const mr_ledger_line *lines, size_t count, mr_outcome outcome) {
    uint64_t frames = 0;
    for (size_t i = 0; i < count; i++)
        frames += lines[i].outcome == outcome ? lines[i].frames : 0;
    return frames;
}

void mr_ledger_print(uint64_t in, uint64_t delivered, uint64_t dropped, uint64_t absorbed, uint64_t in_flight,
                     bool balanced, FILE *stream) {
    mr_print(stream, "\n  ledger: %llu in = %llu delivered + %llu dropped + %llu absorbed + %llu in flight: %s\n",
             (unsigned long long)in, (unsigned long long)delivered, (unsigned long long)dropped,
             (unsigned long long)absorbed, (unsigned long long)in_flight, balanced ? "balanced" : "NOT BALANCED");
}

void mr_objects_print(const mr_object_summary *objects, FILE *stream) {
    const bool balanced = !objects->unaccounted;
    if (!objects->in)
        return;
    mr_print(stream, "  objects: %llu in = %llu delivered + %llu dropped + %llu absorbed + %llu in flight: %s\n",
             (unsigned long long)objects->in, (unsigned long long)objects->delivered,
             (unsigned long long)mr_lines_frames(objects->lines, objects->line_count, MR_OUTCOME_DROPPED),
             (unsigned long long)mr_lines_frames(objects->lines, objects->line_count, MR_OUTCOME_ABSORBED),
             (unsigned long long)objects->in_flight, balanced ? "balanced" : "NOT BALANCED");
    for (size_t i = 0; i < objects->line_count; i++)
        mr_ledger_line_print(&objects->lines[i], stream);
}

static void print_ledger(const mr_summary *summary, FILE *stream) {
    mr_ledger_print(summary->in, summary->delivered, summary->dropped, summary->absorbed, summary->in_flight,
                    summary->balanced, stream);
    for (size_t i = 0; i < summary->line_count; i++)
        mr_ledger_line_print(&summary->lines[i], stream);
    mr_objects_print(&summary->objects, stream);
}

/* ---- sources --------------------------------------------------------------------------------------------------- */

static void print_class(const mr_class_count *class, const mr_source_summary *source, int width, FILE *stream) {
    char first[32], number[32], text[512];
    double share = 100.0 * (double)class->frames / (double)source->classified;
    snprintf(first, sizeof first, "    %10llu x ", (unsigned long long)class->frames);
    snprintf(number, sizeof number, "class %d", class->index);
    mr_print_into(text, sizeof text, "%s (%.0f%% of frames, mean score %.2f)", class->label ? class->label : number,
                  share, class->mean_score);
    mr_print_filled(width, stream, first, text);
}

void mr_connection_print(const mr_source_report *report, FILE *stream) {
    char date[MR_DATE_TEXT];
    mr_print(stream, "    %s since %s", mr_link_state_name(report->phase), mr_date_text(date, report->since_ns));
    if (*report->why)
        mr_print(stream, ": %s", report->why);
    if (report->next_ns)
        mr_print(stream, "; next try at %s", mr_date_text(date, report->next_ns));
    fprintf(stream, "\n    %llu connection%s in %llu tr%s, %llu packets, %.1f MB",
            (unsigned long long)report->connections, report->connections == 1 ? "" : "s",
            (unsigned long long)report->tries, report->tries == 1 ? "y" : "ies", (unsigned long long)report->packets,
            (double)report->bytes * 1e-6);
    if (report->lost)
        fprintf(stream, ", %llu lost", (unsigned long long)report->lost);
    if (report->stills)
        fprintf(stream, ", %llu still%s while away", (unsigned long long)report->stills,
                report->stills == 1 ? "" : "s");
    if (report->jitter_ns > 0)
        fprintf(stream, ", jitter %.1f ms", report->jitter_ns * 1e-6);
    fputc('\n', stream);
}

void mr_service_print(const mr_stage_summary *stage, FILE *stream) {
    const mr_service_report *report = &stage->service;
    char date[MR_DATE_TEXT];
    if (!report->phase)
        return;
    mr_print(stream, "\n  %s: %s since %s", stage->id, mr_link_state_name(report->phase),
             mr_date_text(date, report->since_ns));
    if (*report->why)
        mr_print(stream, ": %s", report->why);
    if (report->next_ns)
        mr_print(stream, "; next try at %s", mr_date_text(date, report->next_ns));
    fprintf(stream, "\n    %llu frames in %llu batches, %.1f MB, acknowledged", (unsigned long long)report->frames,
            (unsigned long long)report->batches, (double)report->bytes * 1e-6);
    if (report->again)
        fprintf(stream, "; %llu sent again", (unsigned long long)report->again);
    if (report->waiting)
        fprintf(stream, "; %llu frames wait", (unsigned long long)report->waiting);
    if (report->dropped)
        fprintf(stream, "; %llu frames dropped", (unsigned long long)report->dropped);
    fputc('\n', stream);
}

void mr_source_print(const mr_source_summary *source, FILE *stream) {
    char missing[512];
    mr_print(stream, "\n  %s: %llu frames, %llu delivered", *source->id ? source->id : "sources removed earlier",
             (unsigned long long)source->in, (unsigned long long)source->delivered);
    if ((source->stay.removed || source->stay.leaving) && *source->id)
        fputs(source->stay.removed ? "; removed" : "; leaving", stream);
    if (source->seams)
        fprintf(stream, "; %llu seam%s in the stream", (unsigned long long)source->seams, source->seams > 1 ? "s" : "");
    if (source->status)
        mr_print(stream, "; failed: %s", *source->message ? source->message : mr_status_words(source->status));
    if (source->unaccounted)
        mr_print(stream, "; missing: %s",
                 mr_identities_print(source->unsettled, source->unsettled_count, source->unaccounted, missing,
                                     sizeof missing));
    if (source->classified)
        fprintf(stream, "; most frequent classes");
    fputc('\n', stream);
    if (source->note)
        mr_print(stream, "    %s\n", source->note);
    if (source->report.phase)
        mr_connection_print(&source->report, stream);
    for (size_t i = 0; i < source->class_count; i++)
        print_class(&source->classes[i], source, mr_terminal_width(stream), stream);
}

/* ---- accuracy --------------------------------------------------------------------------------------------------- */

enum { MOST_TRUTHS = 10 };

static int by_accuracy(const void *a, const void *b) {
    const mr_truth_count *one = a, *other = b;
    const double first = (double)one->right / (double)one->frames;
    const double second = (double)other->right / (double)other->frames;
    return first != second ? (first > second) - (first < second) : one->index - other->index;
}

/* Finds a source's classes with the lowest accuracy, in a copy, since the summary has them in folder order. */
static void print_truths(const mr_source_summary *source, FILE *stream) {
    mr_truth_count *sorted = malloc((source->truth_count + 1) * sizeof *sorted);
    if (!sorted)
        return;
    memcpy(sorted, source->truths, source->truth_count * sizeof *sorted);
    qsort(sorted, source->truth_count, sizeof *sorted, by_accuracy);
    for (size_t i = 0; i < source->truth_count && i < MOST_TRUTHS; i++)
        mr_print(stream, "    %10llu of %llu right: %s\n", (unsigned long long)sorted[i].right,
                 (unsigned long long)sorted[i].frames, sorted[i].label);
    if (source->truth_count > MOST_TRUTHS)
        fprintf(stream, "    and %zu classes that are seen better\n", source->truth_count - MOST_TRUTHS);
    free(sorted);
}

void mr_accuracy_print(const mr_source_summary *source, FILE *stream) {
    const double all = (double)source->labelled;
    mr_print(stream, "\n  %s: accuracy %.2f%% (%llu of %llu right)", source->id, 100 * (double)source->right / all,
             (unsigned long long)source->right, (unsigned long long)source->labelled);
    if (source->longest > 1)
        fprintf(stream, ", %.2f%% among the %zu best", 100 * (double)source->listed / all, source->longest);
    fputs(source->listed ? "\n" : "; no class is called as a folder is: compare `labels` with the folders\n", stream);
}

static void print_accuracy(const mr_source_summary *source, FILE *stream) {
    if (!source->labelled)
        return;
    mr_accuracy_print(source, stream);
    if (source->listed)
        print_truths(source, stream);
}

void mr_summary_print(const mr_summary *summary, FILE *stream) {
    const int width = mr_terminal_width(stream);
    print_head(summary, stream);
    print_stages(summary, width, stream);
    if (mr_cuts_print(&(mr_named_summary){NULL, summary}, 1, width, stream))
        fputs("  no memory for the table of cuts\n", stream);
    print_ledger(summary, stream);
    for (size_t i = 0; i < summary->stage_count; i++)
        mr_service_print(&summary->stages[i], stream);
    size_t left_out = 0;
    for (size_t i = 0; i < summary->source_count; i++) {
        if (i < MOST_SOURCES || summary->sources[i].status)
            mr_source_print(&summary->sources[i], stream);
        else
            left_out++;
    }
    if (left_out)
        fprintf(stream, "\n  and %zu more sources\n", left_out);
    for (size_t i = 0; i < summary->source_count; i++)
        if (i < MOST_SOURCES || summary->sources[i].status)
            print_accuracy(&summary->sources[i], stream);
    const mr_loss loss = mr_loss_of(summary);
    if (loss.lost)
        fputc('\n', stream);
    mr_loss_print(&loss, stream);
    fflush(stream);
}
