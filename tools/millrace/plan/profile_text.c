/* Profiling results as text and JSON. */
#include <string.h>

#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/plan/plan_parts.h"
#include "tools/millrace/plan/profile.h"

static const char *const bottlenecks[] = {[MR_BOTTLENECK_SOURCES] = "sources",
                                          [MR_BOTTLENECK_PROCESSORS] = "processors",
                                          [MR_BOTTLENECK_STAGE] = "stage",
                                          [MR_BOTTLENECK_DEVICE] = "device",
                                          [MR_BOTTLENECK_WORKERS] = "workers",
                                          [MR_BOTTLENECK_OTHERS] = "other processes",
                                          [MR_BOTTLENECK_UNCLEAR] = "unclear"};

/* ---- as text --------------------------------------------------------------------------------------------------- */

static void add_cost(mr_table *table, const char *id, const mr_stage_cost *cost, bool devices) {
    char text[MR_WORDS], inside[MR_WORDS];
    mr_table_add(table, "%s\t%llu\t%s\t%s\t%.0f%%\t%.0f%%", id, (unsigned long long)cost->frames,
                 mr_words_duration((int64_t)cost->cpu_ns, text), mr_words_duration((int64_t)cost->inside_ns, inside),
                 cost->cpu_share * 100, cost->utilisation * 100);
    if (devices)
        mr_table_add(table, "%s", cost->device_ns > 0 ? mr_words_duration((int64_t)cost->device_ns, text) : "-");
}

/* Adds up the sources if there are several: one among a thousand means little. */
static mr_stage_cost sum_sources(const mr_profile *profile, const mr_plan_view *plan) {
    mr_stage_cost sum = {0};
    for (size_t s = 0; s < plan->source_count; s++) {
        const mr_stage_cost *cost = &profile->costs[s];
        sum.frames += cost->frames;
        sum.cpu_ns += cost->cpu_ns * (double)cost->frames;
        sum.inside_ns += cost->inside_ns * (double)cost->frames;
        sum.cpu_share += cost->cpu_share;
        sum.utilisation = cost->utilisation > sum.utilisation ? cost->utilisation : sum.utilisation;
    }
    sum.cpu_ns /= sum.frames ? (double)sum.frames : 1;
    sum.inside_ns /= sum.frames ? (double)sum.frames : 1;
    return sum;
}

static bool has_devices(const mr_profile *profile, const mr_plan_view *plan) {
    bool some = false;
    for (size_t v = 0; v < plan->stage_count; v++)
        some = some || profile->costs[v].device_ns > 0;
    return some;
}

static int print_costs(const mr_profile *profile, const mr_plan_view *plan, int width, FILE *stream) {
    bool devices = has_devices(profile, plan);
    const mr_column columns[] = {{"measured", .cut = MR_CUT_MIDDLE},
                                 {"frames", .right = true},
                                 {"CPU a frame", .right = true},
                                 {"time a frame", .right = true},
                                 {"of all CPU", .right = true},
                                 {"busy", .right = true},
                                 {devices ? "of a device" : NULL, .right = true},
                                 {0}};
    mr_table table = {.columns = columns};
    mr_stage_cost sources = sum_sources(profile, plan);
    double known = sources.cpu_share;
    add_cost(&table, plan->source_count > 1 ? "all sources" : plan->stages[0].id, &sources, devices);
    for (size_t v = plan->source_count; v < plan->stage_count; v++) {
        add_cost(&table, plan->stages[v].id, &profile->costs[v], devices);
        known += profile->costs[v].cpu_share;
    }
    int status = mr_table_print(&table, width, stream);
    mr_print_wrapped(width, stream, "the rest of the processor time, %.0f%%, is that of queues, batches and the ledger",
                     known < 1 ? 100 * (1 - known) : 0);
    return status;
}

static void print_bottleneck(const mr_profile *profile, int width, FILE *stream) {
    /* Before and after the stage's id. */
    static const char *const words[][2] = {
        [MR_BOTTLENECK_SOURCES] = {"none, all keeps up with the sources; the limit would be ", ""},
        [MR_BOTTLENECK_PROCESSORS] = {"the processors, and of the stages ", ""},
        [MR_BOTTLENECK_STAGE] = {"", ", whose threads are busy while cores are free"},
        [MR_BOTTLENECK_DEVICE] = {"the device of ", ", which is busy while cores are free"},
        [MR_BOTTLENECK_WORKERS] = {"the workers, all busy while cores are free; of the stages ", ""},
        [MR_BOTTLENECK_OTHERS] = {"other processes use the cores; of the stages ", " needs them most"},
        [MR_BOTTLENECK_UNCLEAR] = {"unclear, cores, devices and stages are all free at times; ", " is busiest"}};
    char more[MR_WORDS + 64] = "", rate[MR_WORDS];
    if (profile->bottleneck == MR_BOTTLENECK_SOURCES)
        snprintf(more, sizeof more, ", at %s", mr_words_rate(profile->most_rate, rate));
    else if (profile->bottleneck == MR_BOTTLENECK_OTHERS)
        snprintf(more, sizeof more, "; on average %.2f threads were waiting for a core", profile->waiting);
    mr_print_wrapped(width, stream, "bottleneck: %s%s%s%s", words[profile->bottleneck][0], profile->stage,
                     words[profile->bottleneck][1], more);
}

static void print_cures(const mr_profile *profile, int width, FILE *stream) {
    char rate[MR_WORDS], expected[MR_WORDS + 32];
    for (size_t i = 0; i < profile->cure_count; i++) {
        const mr_cure *cure = &profile->cures[i];
        snprintf(expected, sizeof expected, "; expected then: %s", mr_words_rate(cure->rate, rate));
        mr_print_wrapped(width, stream, "what may help: %s%s%s: %s%s", cure->stage ? cure->stage : "",
                         cure->stage ? ": " : "", cure->set, cure->why, cure->rate > 0 ? expected : "");
    }
}

static void print_expected(const mr_profile *profile, int width, FILE *stream) {
    char rate[MR_WORDS], drops[MR_WORDS] = "", first[MR_WORDS], end[MR_WORDS];
    double frames = (double)(profile->frames ? profile->frames : 1);
    if (profile->dropped)
        snprintf(drops, sizeof drops, ", of which %.0f%% are dropped", 100 * (double)profile->dropped / frames);
    mr_words_duration((int64_t)(profile->first_s * 1e9), first);
    mr_words_duration((int64_t)(profile->run_s * 1e9), end);
    mr_print_wrapped(width, stream, "expected: %s%s%s%s%s%s", mr_words_rate(profile->rate, rate), drops,
                     profile->first_s > 0 ? "; the first frame after " : "", profile->first_s > 0 ? first : "",
                     profile->run_s > 0 ? ", the end after " : "", profile->run_s > 0 ? end : "");
}

int mr_profile_print(const mr_profile *profile, const mr_plan_view *plan, int width, FILE *stream) {
    char peak[MR_WORDS], frames[MR_WORDS], rest[MR_WORDS];
    fputc('\n', stream);
    int status = print_costs(profile, plan, width, stream);
    uint64_t foreign =
        profile->peak_bytes > profile->buffer_bytes ? profile->peak_bytes - profile->buffer_bytes : 0;
    fputc('\n', stream);
    mr_print_wrapped(width, stream, "profiled for %.1f s, sinks writing nowhere; %.2f cores busy", profile->seconds,
                     profile->cores);
    print_expected(profile, width, stream);
    print_bottleneck(profile, width, stream);
    print_cures(profile, width, stream);
    if (profile->deadlines)
        fprintf(stream, "  deadlines: %zu of %zu can be met\n", profile->deadlines - profile->late.count,
                profile->deadlines);
    mr_print_wrapped(width, stream, "resident at most %s, of it %s frames and %s libraries",
                     mr_words_bytes(profile->peak_bytes, peak), mr_words_bytes(profile->buffer_bytes, frames),
                     mr_words_bytes(foreign, rest));
    return status;
}

/* ---- as JSON --------------------------------------------------------------------------------------------------- */

static void put_cost(yajl_gen json, const char *id, const mr_stage_cost *cost) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", id);
        mr_json_integer(json, "frames", (int64_t)cost->frames);
        mr_json_integer(json, "cpu_ns", (int64_t)cost->cpu_ns);
        mr_json_integer(json, "time_ns", (int64_t)cost->inside_ns);
        mr_json_known(json, "device_ns", (double)(int64_t)cost->device_ns);
        mr_json_number(json, "cpu_share", cost->cpu_share);
        mr_json_number(json, "busy", cost->utilisation);
    }
}

static void put_cures(yajl_gen json, const mr_profile *profile) {
    MR_JSON_ARRAY(json, "cures")
        for (size_t i = 0; i < profile->cure_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "stage", profile->cures[i].stage);
                mr_json_text(json, "set", profile->cures[i].set);
                mr_json_text(json, "why", profile->cures[i].why);
                mr_json_known(json, "rate", profile->cures[i].rate);
            }
}

void mr_profile_put_json(yajl_gen json, const mr_profile *profile, const mr_plan_view *plan) {
    MR_JSON_MAP(json, "profile") {
        mr_json_number(json, "seconds", profile->seconds);
        mr_json_bool(json, "ended", profile->ended);
        mr_json_integer(json, "frames", (int64_t)profile->frames);
        mr_json_integer(json, "dropped", (int64_t)profile->dropped);
        mr_json_number(json, "cores", profile->cores);
        mr_json_number(json, "waiting", profile->waiting);
        MR_JSON_ARRAY(json, "costs")
            for (size_t v = 0; v < plan->stage_count; v++)
                put_cost(json, plan->stages[v].id, &profile->costs[v]);
        MR_JSON_MAP(json, "bottleneck") {
            mr_json_text(json, "kind", bottlenecks[profile->bottleneck]);
            mr_json_text(json, "stage", profile->stage);
        }
        put_cures(json, profile);
        MR_JSON_MAP(json, "expected") {
            mr_json_known(json, "rate", profile->rate);
            mr_json_known(json, "most_rate", profile->most_rate);
            mr_json_known(json, "first_s", profile->first_s);
            mr_json_known(json, "run_s", profile->run_s);
        }
        mr_json_integer(json, "deadlines", (int64_t)profile->deadlines);
        mr_complaints_put(json, &profile->late);
        mr_json_integer(json, "peak_bytes", (int64_t)profile->peak_bytes);
        mr_json_integer(json, "buffer_bytes", (int64_t)profile->buffer_bytes);
    }
}
