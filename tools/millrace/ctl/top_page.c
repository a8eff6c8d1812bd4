#include "tools/millrace/ctl/top_page.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/table.h"

/* Two summaries of one run, and the seconds between them. */
typedef struct span {
    const mr_summary *before, *now;
    double seconds;
} span;

static double rate(const span *of, uint64_t before, uint64_t now) {
    return of->seconds > 0 && now >= before ? (double)(now - before) / of->seconds : 0;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void print_head(const mr_top_run *run, const span *of, FILE *stream) {
    const mr_summary *now = of->now;
    const long long up = (long long)now->wall_s;
    char text[MR_WORDS];
    mr_print(stream, "%s  pid %ld  %s\n", now->pipeline ? now->pipeline : "", run->pid, run->command);
    mr_print(stream, "  up %lld:%02lld:%02lld, %.1f frames/s, CPU %.0f%%, memory at most %s%s%s%s\n", up / 3600,
             up / 60 % 60, up % 60, rate(of, of->before->delivered, now->delivered),
             of->seconds > 0 ? 100 * (now->cpu_s - of->before->cpu_s) / of->seconds : 0,
             mr_words_bytes(now->peak_bytes, text), now->draining_ns ? ", draining" : "", run->why ? "; " : "",
             run->why ? run->why : "");
    mr_print(stream, "  %llu in = %llu delivered + %llu dropped + %llu absorbed + %llu in flight%s\n",
             (unsigned long long)now->in, (unsigned long long)now->delivered, (unsigned long long)now->dropped,
             (unsigned long long)now->absorbed, (unsigned long long)now->in_flight,
             now->balanced ? "" : ": NOT BALANCED");
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

typedef struct source_row {
    const mr_source_summary *now;
    size_t trouble; /* sorted by it, the most first */
    size_t at;
} source_row;

static const mr_source_summary *find_source(const mr_summary *in, size_t near, const char *id) {
    static const mr_source_summary none;
    for (size_t i = 0; i < in->source_count; i++) {
        const mr_source_summary *one = &in->sources[(near + i) % in->source_count];
        if (one->id && id && strcmp(one->id, id) == 0)
            return one;
    }
    return &none;
}

static const char *state_of(const mr_source_summary *source) {
    if (source->status)
        return "failed";
    if (source->stay.leaving)
        return "leaving";
    if (source->ended)
        return "ended";
    return source->report.phase ? mr_link_state_name(source->report.phase) : "runs";
}

static size_t trouble_of(const mr_source_summary *source) {
    const mr_link_state phase = source->report.phase;
    if (source->status || phase == MR_LINK_FAILED)
        return 3;
    return phase == MR_LINK_AWAY || phase == MR_LINK_STALLED ? 2 : !source->ended;
}

static int by_trouble(const void *a, const void *b) {
    const source_row *one = a, *other = b;
    return one->trouble != other->trouble ? (one->trouble < other->trouble) - (one->trouble > other->trouble)
                                          : (one->at > other->at) - (one->at < other->at);
}

static void add_source(mr_table *table, const span *of, const source_row *row) {
    const mr_source_summary *now = row->now, *before = find_source(of->before, row->at, now->id);
    const char *why = now->message && *now->message ? now->message : now->report.why;
    mr_table_add(table, "%s\t%s\t%.1f\t%llu\t%llu\t%llu\t%llu\t%s", now->id ? now->id : "", state_of(now),
                 rate(of, before->in, now->in), (unsigned long long)now->in, (unsigned long long)now->delivered,
                 (unsigned long long)now->dropped, (unsigned long long)now->in_flight, why);
}

static int print_sources(const span *of, size_t most, int width, FILE *stream) {
    static const mr_column columns[] = {{"source", .cut = MR_CUT_MIDDLE}, {.title = "state"},
                                        {"in/s", .right = true},          {"in", .right = true},
                                        {"delivered", .right = true},     {"dropped", .right = true},
                                        {"in flight", .right = true},     {"why", .cut = MR_CUT_MIDDLE},
                                        {0}};
    const size_t count = of->now->source_count;
    mr_table table = {.columns = columns};
    source_row *rows = calloc(count + 1, sizeof *rows);
    size_t shown = 0;
    if (!rows)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table");
    for (size_t i = 0; i < count; i++)
        rows[i] = (source_row){&of->now->sources[i], trouble_of(&of->now->sources[i]), i};
    qsort(rows, count, sizeof *rows, by_trouble);
    for (; shown < count && shown < most; shown++)
        add_source(&table, of, &rows[shown]);
    int status = shown ? mr_table_print(&table, width, stream) : MR_OK;
    if (shown < count)
        mr_print(stream, "  and %zu more sources\n", count - shown);
    free(rows);
    return status;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* The bound of the bucket in which the 99th percentile of the frames between the two summaries lies. */
static int64_t p99_ns(const mr_durations *before, const mr_durations *now) {
    const uint64_t count = now->count - before->count;
    uint64_t above = 0;
    int i = MR_DURATION_BUCKETS;
    while (i > 1 && above * 100 <= count) {
        i--;
        above += now->bucket[i] - before->bucket[i];
    }
    return mr_duration_bound_ns(above * 100 > count ? i : 0);
}

/* How busy each of the stage's instances was, in percent. */
static double busy_of(const span *of, const mr_stage_summary *before, const mr_stage_summary *now) {
    const double seconds = of->seconds * (now->instances > 0 ? now->instances : 1);
    return seconds > 0 ? (double)(now->busy_ns - before->busy_ns) * 1e-7 / seconds : 0;
}

static void add_stage(mr_table *table, const span *of, const mr_stage_summary *before, const mr_stage_summary *now) {
    const uint64_t frames = now->latency.count - before->latency.count;
    char mean[MR_WORDS], p99[MR_WORDS];
    mr_table_add(table, "%s\t%s\t%s\t%.1f\t%.1f\t%.0f%%", now->id, now->type, now->device,
                 rate(of, before->in, now->in), rate(of, before->out, now->out), busy_of(of, before, now));
    if (frames)
        mr_table_add(table, "%s\t< %s",
                     mr_words_duration((int64_t)((now->latency.sum_ns - before->latency.sum_ns) / frames), mean),
                     mr_words_duration(p99_ns(&before->latency, &now->latency), p99));
    else
        mr_table_add(table, "-\t-");
    mr_table_add(table, "%d", now->queue_peak);
}

static int print_stages(const span *of, int width, FILE *stream) {
    static const mr_column columns[] = {{"stage", .cut = MR_CUT_MIDDLE},  {"type", .cut = MR_CUT_MIDDLE},
                                        {"device", .cut = MR_CUT_MIDDLE}, {"in/s", .right = true},
                                        {"out/s", .right = true},         {"busy", .right = true},
                                        {"mean", .right = true},          {"p99", .right = true},
                                        {"queue", .right = true},         {0}};
    static const mr_stage_summary none;
    mr_table table = {.columns = columns};
    for (size_t i = 0; i < of->now->stage_count; i++) {
        const mr_stage_summary *now = &of->now->stages[i];
        const bool same = i < of->before->stage_count && strcmp(of->before->stages[i].id, now->id) == 0;
        add_stage(&table, of, same ? &of->before->stages[i] : &none, now);
    }
    return mr_table_print(&table, width, stream);
}

/* Devices of stages that have several, or that do not work as planned. */
static void print_devices(const span *of, FILE *stream) {
    char text[MR_WORDS];
    for (size_t i = 0; i < of->now->stage_count; i++)
        for (size_t s = 0; s < of->now->stages[i].share_count; s++) {
            const mr_share_summary *share = &of->now->stages[i].shares[s];
            if (share->state != MR_DEVICE_WORKS)
                mr_print(stream, "  %s: %s %s\n", of->now->stages[i].id, share->device,
                         mr_device_state_name(share->state));
        }
    for (size_t i = 0; i < of->now->device_count; i++)
        mr_print(stream, "  %s: at most %s in pools\n", of->now->devices[i].name,
                 mr_words_bytes(of->now->devices[i].bytes, text));
}

int mr_top_print(const mr_top_run *run, size_t most_sources, int width, FILE *stream) {
    static const mr_summary none;
    if (!run->now) {
        mr_print(stream, "pid %ld  %s\n  %s\n", run->pid, run->command, run->why ? run->why : "");
        return MR_OK;
    }
    span of = {.before = run->before ? run->before : &none, .now = run->now};
    of.seconds = of.now->wall_s - of.before->wall_s;
    print_head(run, &of, stream);
    fputs("\n", stream);
    int status = print_sources(&of, most_sources, width, stream);
    if (!status)
        status = print_stages(&of, width, stream);
    print_devices(&of, stream);
    return status;
}
