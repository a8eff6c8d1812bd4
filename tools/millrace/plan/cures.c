/* Finds a pipeline's limit, and changes that would make it faster.
 *
 * Each resource is used for some fraction of the time: the processors, the workers, each stage's threads, each device.
 * The highest share limits the run. A cure lowers the demand for that resource, or adds more of it. The expected rate
 * is computed from the same shares. If it cannot be computed, nothing is promised. If no cure is known, none is
 * printed. */
#include <stdio.h>
#include <string.h>

#include "engine/base/thread.h"
#include "millrace/describe.h"
#include "tools/millrace/plan/plan_parts.h"
#include "tools/millrace/plan/profile.h"

/* The least share that counts as a limit. MUCH: the share of processor time that a stage must use before a cure for it
 * is printed. */
static const double BUSY = 0.85, MUCH = 0.4;
/* A stage is the bottleneck only if its threads are this much busier than all cores, because both are measured
 * values. */
static const double CLEARLY = 1.1;

typedef struct shares {
    double cores;   /* the fraction of all usable cores that this process uses */
    double crowded; /* the same, including the time that threads waited for a core */
    double workers; /* the fraction of the time that workers are inside stages */
    double device;  /* the busiest device's */
    size_t on_device, stage, of_cpu; /* vertices: main user of this device; busiest threads; most CPU */
} shares;

/* ---- shares of use --------------------------------------------------------------------------------------------- */

static double worker_share(const mr_profile *profile, const mr_plan_view *plan) {
    double inside = 0;
    for (size_t v = 0; v < plan->stage_count; v++)
        if (!plan->stages[v].calls.blocking)
            inside += profile->costs[v].inside_ns * (double)profile->costs[v].frames;
    return profile->seconds > 0 ? inside / (profile->seconds * 1e9 * plan->workers) : 0;
}

/* How busy a stage's devices are, including work for other stages on them. */
static double device_share(const mr_profile *profile, const mr_plan_view *plan, size_t v) {
    const mr_view_stage *stage = &plan->stages[v];
    double busy = 0;
    for (size_t i = 0; i < plan->stage_count; i++)
        if (strcmp(plan->stages[i].devices.names, stage->devices.names) == 0)
            busy += profile->costs[i].device_ns * (double)profile->costs[i].frames;
    return profile->seconds > 0 ? busy / (profile->seconds * 1e9 * (double)stage->devices.count) : 0;
}

/* How much of its thread capacity a stage uses. If as many threads are inside it as can be, it is fully busy, even
 * while they wait for a core. */
static double stage_share(const mr_stage_cost *cost) {
    return cost->few && cost->inside > cost->utilisation ? cost->inside : cost->utilisation;
}

static shares find_shares(const mr_profile *profile, const mr_plan_view *plan) {
    double all = mr_usable_cores();
    shares found = {.cores = profile->cores / all, .workers = worker_share(profile, plan)};
    found.crowded = (profile->cores + profile->waiting) / all;
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_stage_cost *cost = profile->costs;
        double device = device_share(profile, plan, v);
        bool more = device > found.device || cost[v].device_ns > cost[found.on_device].device_ns;
        if (device >= found.device && device > 0 && more) {
            found.device = device;
            found.on_device = v;
        }
        found.stage = stage_share(&cost[v]) > stage_share(&cost[found.stage]) ? v : found.stage;
        found.of_cpu = cost[v].cpu_share > cost[found.of_cpu].cpu_share ? v : found.of_cpu;
    }
    return found;
}

void mr_profile_find_bottleneck(mr_profile *profile, const mr_plan_view *plan, bool keeps_up) {
    shares used = find_shares(profile, plan);
    double stage = stage_share(&profile->costs[used.stage]);
    double highest = used.cores > stage ? used.cores : stage;
    highest = used.device > highest ? used.device : highest;
    profile->most_rate = highest > 0 && highest < 1 ? profile->rate / highest : profile->rate;
    profile->stage = plan->stages[used.of_cpu].id;
    if (keeps_up && highest < BUSY) {
        profile->bottleneck = MR_BOTTLENECK_SOURCES;
        return;
    }
    if (used.device >= BUSY && used.device > used.cores) {
        profile->bottleneck = MR_BOTTLENECK_DEVICE;
        profile->stage = plan->stages[used.on_device].id;
    } else if (profile->costs[used.stage].few && stage >= BUSY && stage > CLEARLY * used.cores) {
        profile->bottleneck = MR_BOTTLENECK_STAGE;
        profile->stage = plan->stages[used.stage].id;
    } else if (used.cores >= BUSY) {
        profile->bottleneck = MR_BOTTLENECK_PROCESSORS;
    } else if (plan->workers < mr_usable_cores() && used.workers >= BUSY) {
        profile->bottleneck = MR_BOTTLENECK_WORKERS;
    } else if (used.crowded >= BUSY) {
        profile->bottleneck = MR_BOTTLENECK_OTHERS;
    } else {
        profile->bottleneck = MR_BOTTLENECK_UNCLEAR;
        profile->stage = plan->stages[stage > used.device ? used.stage : used.on_device].id;
    }
}

/* ---- cures ----------------------------------------------------------------------------------------------------- */

/* `times` as fast as measured, if no other limit comes first; 0: not known. */
static void add_cure(mr_profile *profile, const char *stage, const char *set, double times, const char *why) {
    if (profile->cure_count == MR_MOST_CURES)
        return;
    mr_cure *cure = &profile->cures[profile->cure_count++];
    *cure = (mr_cure){.stage = stage, .rate = times > 1 ? profile->rate * times : 0};
    snprintf(cure->set, sizeof cure->set, "%s", set);
    snprintf(cure->why, sizeof cure->why, "%s", why);
}

/* The speedup if one share is multiplied by `factor`, up to the next limit. */
static double sped_up(double share, double factor, double other_limit) {
    double next = share * factor > other_limit ? share * factor : other_limit;
    return next > 0 && next < share ? share / next : 1;
}

static const mr_view_stage *find(const mr_plan_view *plan, const char *id, size_t *at) {
    for (*at = 0; *at < plan->stage_count; ++*at)
        if (strcmp(plan->stages[*at].id, id) == 0)
            return &plan->stages[*at];
    return NULL;
}

static const char *file_of(const mr_view_stage *vertex, const char *name) {
    const mr_option *option = mr_option_find(vertex->type->options, name);
    return option && option->file == MR_FILE_READ ? mr_option_string(option, vertex->options) : NULL;
}

/* Whether the network already computes with integers, that is, the file contains quantizing operators. */
static bool is_quantised(const char *path) {
    enum { PIECE = 1 << 16, LONGEST = 14 };
    static const char *const names[] = {"QuantizeLinear", "ConvInteger"};
    char data[LONGEST + PIECE];
    size_t kept = 0, bytes;
    FILE *file = fopen(path, "rbe");
    bool found = !file; /* If the file cannot be read, nothing is printed. */
    while (!found && (bytes = fread(data + kept, 1, PIECE, file)) > 0) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            found |= memmem(data, kept + bytes, names[i], strlen(names[i])) != NULL;
        /* A name may continue in the next piece. */
        const size_t end = kept + bytes;
        kept = end < LONGEST ? end : LONGEST;
        memmove(data, data + end - kept, kept);
    }
    found |= file && ferror(file);
    if (file)
        fclose(file);
    return found;
}

/* An integer network needs about half the time: EfficientNet-Lite0 took 3.8 to 5.4 ms instead of 7.9. Other networks
 * differ, so the factor is a rule of thumb. */
static void cure_network(mr_profile *profile, const mr_view_stage *stage) {
    const char *model = file_of(stage, "model");
    if (!model || strcmp(stage->devices.first, "cpu") != 0 || is_quantised(model))
        return;
    add_cure(profile, stage->id, "model: one of int8", 0,
             "quantised networks take about half the processor time (0.5 to 0.7 of it, for EfficientNet-Lite0); larger "
             "batches hardly help on processors");
}

/* The processor time spent before frames can be left out: reading and decoding. */
static double share_before(const mr_profile *profile, const mr_plan_view *plan) {
    double sum = 0;
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_view_stage *vertex = &plan->stages[v];
        bool decodes = vertex->input_count && vertex->inputs[0].set.payload == MR_PAYLOAD_PACKET;
        sum += vertex->role == MR_VIEW_SOURCE || decodes ? profile->costs[v].cpu_share : 0;
    }
    return sum;
}

/* Proposes half the frames if all sources can leave some out. */
static void cure_by_fewer_frames(mr_profile *profile, const mr_plan_view *plan, double share, double other_limit) {
    double before = share_before(profile, plan);
    for (size_t s = 0; s < plan->source_count; s++)
        if (!mr_option_find(plan->stages[s].type->options, "every"))
            return;
    if (before > 1 - MUCH)
        return;
    char set[MR_CURE_TEXT];
    int64_t every = 1;
    const mr_option *option = mr_option_find(plan->stages[0].type->options, "every");
    if (option->kind == MR_OPTION_INT)
        memcpy(&every, (const char *)plan->stages[0].options + option->offset, sizeof every);
    snprintf(set, sizeof set, "every: %lld", 2 * (long long)(every > 0 ? every : 1));
    add_cure(profile, plan->source_count == 1 ? plan->stages[0].id : "each source", set,
             sped_up(share, before + (1 - before) / 2, other_limit),
             "half as many pictures leave the decoder; it decodes all that these need");
}

static void cure_processors(mr_profile *profile, const mr_plan_view *plan, const shares *used) {
    const mr_view_stage *stage = &plan->stages[used->of_cpu];
    double share = used->crowded > used->cores ? used->crowded : used->cores;
    if (profile->costs[used->of_cpu].cpu_share >= MUCH)
        cure_network(profile, stage);
    cure_by_fewer_frames(profile, plan, share, used->device);
}

static void cure_stage(mr_profile *profile, const mr_plan_view *plan, const shares *used) {
    const mr_view_stage *stage = &plan->stages[used->stage];
    double share = stage_share(&profile->costs[used->stage]);
    int cores = mr_usable_cores(), calls = stage->calls.entries;
    int most = plan->workers < cores ? plan->workers : cores;
    char set[MR_CURE_TEXT];
    if (!stage->calls.blocking && stage->calls.entry == MR_ENTRY_STATELESS && calls < most) {
        snprintf(set, sizeof set, "in_flight: %d", 2 * most);
        add_cure(profile, stage->id, set, sped_up(share, (double)calls / most, used->cores),
                 "more workers may be in the stage at once");
    } else if (mr_option_find(stage->type->options, "threads") && stage->calls.threads < cores &&
               stage->calls.instances < cores) {
        snprintf(set, sizeof set, "threads: %d", cores + 1);
        add_cure(profile, stage->id, set, 0, "its library may use more cores");
    }
}

static void cure_workers(mr_profile *profile, const mr_plan_view *plan, const shares *used) {
    char set[MR_CURE_TEXT];
    int cores = mr_usable_cores();
    double next = used->device > used->cores ? used->device : used->cores;
    snprintf(set, sizeof set, "workers: %d", cores);
    add_cure(profile, NULL, set, sped_up(used->workers, (double)plan->workers / cores, next),
             "there are more cores than workers");
}

/* A device under `devices:` that no stage uses. */
static const char *find_idle(const mr_plan_view *plan) {
    for (size_t d = 1; d < plan->device_count; d++) {
        bool taken = !plan->devices[d].enabled;
        for (size_t v = 0; v < plan->stage_count && !taken; v++)
            for (size_t i = 0; i < mr_view_parts(&plan->stages[v]); i++)
                taken = taken || mr_view_part(&plan->stages[v], i) == (int)d;
        if (!taken)
            return plan->devices[d].alias ? plan->devices[d].alias : plan->devices[d].name;
    }
    return NULL;
}

static void cure_device(mr_profile *profile, const mr_plan_view *plan, const shares *used) {
    const mr_view_stage *stage = &plan->stages[used->on_device];
    double cpu = used->cores;
    char set[MR_CURE_TEXT];
    if (mr_plan_is_copy(stage))
        return;
    if (stage->type->batches && stage->calls.batch < MR_CURE_BATCH) {
        snprintf(set, sizeof set, "batch: {size: %d, timeout: 20ms}", MR_CURE_BATCH);
        add_cure(profile, stage->id, set, 0, "fewer and larger calls use a device better");
    }
    const char *idle = find_idle(plan);
    if (idle) {
        const char *own = plan->devices[stage->devices.at[0]].alias ? plan->devices[stage->devices.at[0]].alias
                                                                 : stage->devices.first;
        double before = (double)stage->devices.count, after = before + 1;
        snprintf(set, sizeof set, "device: [%s, %s]", stage->devices.count > 1 ? stage->devices.names : own, idle);
        add_cure(profile, stage->id, set, sped_up(used->device, before / after, cpu), "this device has nothing to do");
    }
}

void mr_profile_find_cures(mr_profile *profile, const mr_plan_view *plan) {
    shares used = find_shares(profile, plan);
    size_t at;
    if (!find(plan, profile->stage, &at))
        return;
    switch (profile->bottleneck) {
    case MR_BOTTLENECK_PROCESSORS:
    case MR_BOTTLENECK_OTHERS:
        cure_processors(profile, plan, &used);
        break;
    case MR_BOTTLENECK_STAGE:
        cure_stage(profile, plan, &used);
        break;
    case MR_BOTTLENECK_WORKERS:
        cure_workers(profile, plan, &used);
        break;
    case MR_BOTTLENECK_DEVICE:
        cure_device(profile, plan, &used);
        break;
    case MR_BOTTLENECK_SOURCES:
    case MR_BOTTLENECK_UNCLEAR:
        break;
    }
}
