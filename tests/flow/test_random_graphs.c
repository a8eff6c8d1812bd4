/* Random pipelines: what the planner accepts must end by itself, with every frame and object accounted for, and give
 * the same frames however many workers there are; also if sources come and go. MILLRACE_GRAPHS is how many are drawn,
 * MILLRACE_SEED the first. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/flow/cascade_stages.h"
#include "tests/support/flow_run.h"
#include "tests/support/flow_stages.h"
#include "tests/support/quiet.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

enum { SINKS = 48, SCHEDULES = 2 };
static const int64_t PATIENCE_NS = INT64_C(60000000000);

/* ---- stage types ------------------------------------------------------------------------------------------------- */

/* What arrived at each sink: a sum that does not depend on the order, and how many frames. */
typedef struct tally {
    uint64_t sum, count;
} tally;
static tally tallies[SINKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct tally_options {
    int64_t number;
} tally_options;

static const mr_option tally_table[] = {
    {.name = "number", .kind = MR_OPTION_INT, .offset = offsetof(tally_options, number), .required = true,
     .max = SINKS - 1, .help = "its place"},
    MR_OPTIONS_END};

/* The finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static int tally_process(mr_stage *self, mr_io *io) {
    const tally_options *given = self->options;
    const mr_frame *frame = mr_io_input(io);
    const mr_identity *id = &frame->identity;
    uint64_t sum = mix(id->seq * 64 + id->source) + mix(id->sub + UINT64_C(1000000));
    if (frame->format.payload == MR_PAYLOAD_TENSOR)
        sum += mix(*(const uint64_t *)(const void *)frame->plane[0].data + UINT64_C(2000000));
    for (const mr_result *one = frame->results; one; one = one->next)
        if (one->kind == mr_kind_tensor())
            sum += mix(*(const uint64_t *)(const void *)one->data + UINT64_C(3000000));
    pthread_mutex_lock(&lock);
    tallies[given->number].sum += mix(sum);
    tallies[given->number].count++;
    pthread_mutex_unlock(&lock);
    return MR_DONE;
}

/* None to three objects, and sometimes many. */
static int split_process(mr_stage *self, mr_io *io) {
    const uint64_t seq = mr_io_input(io)->identity.seq;
    return flow_split(io, seq % 10 == 9 ? 40 : (uint32_t)(seq * 7 % 11) % 4);
}

static int unite_process(mr_stage *self, mr_io *io) {
    return mr_io_input(io)->identity.sub ? MR_DONE : mr_io_forward(io, 0);
}

static const mr_stage_type tally_type = {.name = "tally", .summary = "counts", .inputs = in, .options = tally_table,
                                         .options_bytes = sizeof(tally_options), .entry = MR_ENTRY_SHARED,
                                         .process = tally_process};
static const mr_stage_type split = CASCADE_SPLIT(split_process);
static const mr_stage_type unite = CASCADE_UNITE(unite_process);
static const mr_stage_type *const own_types[] = {&tally_type, &split, &unite, NULL};

/* ---- drawing: forks, joins, merges, batches, cascades, several devices, and queues of the smallest sizes --------- */

enum { DRAWN_BYTES = 16384, MOST_WAYS = 40, MOST_STAGES = 14, ID_BYTES = 16 };

typedef struct drawn_graph {
    char text[DRAWN_BYTES];
    bool certain;      /* the frames that arrive do not depend on time: no queue drops frames, and no device fails */
} drawn_graph;

/* What a stage can take: a source's or a stage's output. */
typedef struct way {
    char id[ID_BYTES];
    unsigned sources;  /* a bit for each source whose frames come this way */
    int objects;       /* frames of objects: 1 + the way that has their frames; 0: whole frames */
    bool merged;       /* frames of one source come over several ways */
    bool doubled;      /* some stage makes two frames of one. The planner does not know this, so that before a join the
                          author's queues would have to be long enough. */
    bool used;
} way;

typedef struct drawing {
    drawn_graph *graph;
    uint64_t random;
    size_t length;
    way ways[MOST_WAYS];
    int count, stages;
    bool tight;        /* most queues have a length */
    bool cascades;     /* there are many */
    bool drops, fails; /* may be drawn */
    bool room;         /* sources can be added */
} drawing;

static unsigned draw(drawing *d) {
    d->random = d->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(d->random >> 33);
}

static int between(drawing *d, int low, int high) {
    return low + (int)(draw(d) % (unsigned)(high - low + 1));
}

/* True in `percent` of a hundred cases. */
static bool chance(drawing *d, int percent) {
    return between(d, 1, 100) <= percent;
}

__attribute__((format(printf, 2, 3))) static void put(drawing *d, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(d->graph->text + d->length, DRAWN_BYTES - d->length, format, arguments);
    va_end(arguments);
    d->length += (size_t)length;
    if (d->length >= DRAWN_BYTES)
        d->length = DRAWN_BYTES - 1;
}

static way *add_way(drawing *d, const char *prefix, unsigned sources) {
    way *added = &d->ways[d->count++];
    *added = (way){.sources = sources};
    snprintf(added->id, sizeof added->id, "%s%d", prefix, d->count);
    return added;
}

/* ---- sources and devices ----------------------------------------------------------------------------------------- */

static void draw_devices(drawing *d) {
    static const char *const delays[] = {"", "?max_delay=20us", "?copy=1GB/s&call=2us",
                                         "?min_delay=5us&max_delay=90us"};
    static const char *const faults[] = {"fail_after=30", "fail_every=7", "lose_after=40"};
    put(d, "devices:\n");
    for (int i = 0; i < 2; i++) {
        const char *delay = delays[between(d, 0, 3)];
        const char *fault = d->fails && chance(d, 50) ? faults[between(d, 0, 2)] : NULL;
        put(d, "  d%d: {device: \"sim:%d%s%s%s\"}\n", i, i, delay, fault ? *delay ? "&" : "?" : "", fault ? fault : "");
        d->graph->certain &= !fault;
    }
}

enum { MOST_DRAWN = 4 };

static void draw_sources(drawing *d) {
    const int count = chance(d, 40) ? 1 : between(d, 2, MOST_DRAWN);
    put(d, "sources:\n");
    if (d->room)
        put(d, "  max: %d\n  like: {type: count}\n", count + between(d, 0, 3));
    for (int i = 0; i < count; i++) {
        const way *source = add_way(d, "s", 1u << i);
        put(d, "  %s: {type: count, frames: %d", source->id, chance(d, 15) ? between(d, 0, 2) : between(d, 20, 90));
        if (chance(d, 20))
            put(d, ", period: %dus", between(d, 1, 30));
        put(d, "}\n");
    }
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void draw_handling(drawing *d, bool join);

/* The stage that takes those that are added, beside the others. */
static void draw_all(drawing *d) {
    way *all = add_way(d, "p", (2u << MOST_DRAWN) - 1);
    put(d, "  %s: {type: pass, input: sources.*", all->id);
    draw_handling(d, false);
    put(d, "}\n");
    for (int i = 0; i < d->count - 1; i++)
        d->ways[i].used = true;
}

/* A way that stages can go on from: mostly one of the newest. */
static way *choose(drawing *d) {
    const int first = chance(d, 60) && d->count > 3 ? d->count - 3 : 0;
    return &d->ways[between(d, first, d->count - 1)];
}

static void draw_handling(drawing *d, bool join) {
    if (chance(d, d->tight ? 80 : 15)) {
        const bool drops = d->drops && !join && chance(d, 20);
        put(d, ", queue: {size: %d", between(d, 1, chance(d, 70) ? 2 : 9));
        if (drops)
            put(d, ", when_full: %s", chance(d, 50) ? "drop-oldest" : "drop-newest");
        put(d, "}");
        d->graph->certain &= !drops;
    }
    if (chance(d, 20))
        put(d, ", in_flight: %d", between(d, 1, 4));
}

static void draw_device(drawing *d, bool reserve) {
    static const char *const devices[] = {"d0", "d1", "[d0, d1]"};
    if (chance(d, 40))
        return;
    put(d, ", device: %s", devices[between(d, 0, 2)]);
    if (reserve && chance(d, 20))
        put(d, ", on_device_error: cpu");
}

static void draw_batch(drawing *d) {
    if (chance(d, 25))
        return;
    put(d, ", batch: {size: %d", between(d, 1, chance(d, 70) ? 5 : 20));
    if (chance(d, 30))
        put(d, ", timeout: %dus", between(d, 0, 200));
    put(d, "}");
}

typedef enum traits { ON_DEVICE = 1, BATCHES = 2, EVERY = 4, PERIOD = 8, FAILS = 16, DOUBLES = 32 } traits;

static const struct kind {
    const char *type;
    unsigned traits;
} kinds[] = {
    {"pass", 0}, {"look", 0}, {"gate", EVERY}, {"twice", DOUBLES}, {"scale", ON_DEVICE}, {"scale", ON_DEVICE},
    {"block", ON_DEVICE | BATCHES}, {"block", ON_DEVICE | BATCHES}, {"note", ON_DEVICE}, {"note", ON_DEVICE},
    {"batcher", BATCHES}, {"batcher", BATCHES}, {"gatherer", 0}, {"sampler", ON_DEVICE | BATCHES | EVERY},
    {"slow", PERIOD}, {"broken", FAILS},
};

static way *follow(drawing *d, way *from) {
    way *made = add_way(d, "p", from->sources);
    made->objects = from->objects;
    made->merged = from->merged;
    made->doubled = from->doubled;
    from->used = true;
    return made;
}

static void draw_plain(drawing *d) {
    way *from = choose(d);
    const struct kind *kind = &kinds[between(d, 0, (int)(sizeof kinds / sizeof *kinds) - 1)];
    if (kind->traits & DOUBLES && from->objects)
        return;
    way *made = follow(d, from);
    made->doubled |= kind->traits & DOUBLES;
    put(d, "  %s: {type: %s, input: %s", made->id, kind->type, from->id);
    if (kind->traits & EVERY)
        put(d, ", every: %d", between(d, 1, 5));
    if (kind->traits & PERIOD)
        put(d, ", period: %dus", between(d, 1, 40));
    if (kind->traits & FAILS)
        put(d, ", fail_at: %d", between(d, 0, 30));
    if (kind->traits & BATCHES)
        draw_batch(d);
    if (kind->traits & ON_DEVICE)
        draw_device(d, true);
    draw_handling(d, false);
    put(d, "}\n");
    d->stages++;
}

/* Another way than `a` for a join, with frames of the same kind that share a source with it; NULL: there is none. */
static way *partner(drawing *d, const way *a) {
    for (int tries = 0; tries < 12; tries++) {
        way *b = choose(d);
        if (b != a && b->objects == a->objects && b->sources & a->sources && !a->doubled && !b->doubled)
            return b;
    }
    return NULL;
}

static void draw_join(drawing *d) {
    way *a = choose(d), *b = partner(d, a), *c = b && chance(d, 25) ? partner(d, a) : NULL;
    if (!b || a->merged || b->merged || (c && (c->merged || c == b)))
        return;
    way *made = follow(d, a);
    b->used = true;
    made->sources = a->sources | b->sources | (c ? c->sources : 0);
    put(d, "  %s: {type: meet, join: {x: %s, y: %s", made->id, a->id, b->id);
    if (c)
        put(d, ", z: %s", c->id);
    if (c)
        c->used = true;
    put(d, "}");
    draw_handling(d, true);
    put(d, "}\n");
    d->stages++;
}

static void draw_merge(drawing *d) {
    way *a = choose(d), *b = choose(d);
    if (a == b || a->objects != b->objects)
        return;
    way *made = follow(d, a);
    b->used = true;
    made->sources = a->sources | b->sources;
    made->merged = a->merged || b->merged || (a->sources & b->sources);
    made->doubled = a->doubled || b->doubled;
    put(d, "  %s: {type: pass, input: [%s, %s]", made->id, a->id, b->id);
    draw_handling(d, false);
    put(d, "}\n");
    d->stages++;
}

static void draw_split(drawing *d) {
    way *from = choose(d);
    if (from->objects || from->merged || from->doubled)
        return;
    const int of = (int)(from - d->ways);
    way *made = follow(d, from);
    made->objects = 1 + of;
    put(d, "  %s: {type: split, input: %s", made->id, from->id);
    draw_handling(d, false);
    put(d, "}\n");
    d->stages++;
}

/* Brings objects back onto their frames, directly or after stages on the frames' way. */
static void draw_unite(drawing *d) {
    way *objects = choose(d);
    if (!objects->objects || objects->merged)
        return;
    way *frames = &d->ways[objects->objects - 1], *other = chance(d, 40) ? partner(d, frames) : NULL;
    if (other && !other->merged)
        frames = other;
    way *made = follow(d, frames);
    objects->used = true;
    put(d, "  %s: {type: unite, join: {frames: %s, objects: %s}", made->id, frames->id, objects->id);
    draw_handling(d, true);
    put(d, "}\n");
    d->stages++;
}

static void draw_stage(drawing *d) {
    const int of = between(d, 1, 100), less = d->cascades ? 25 : 0;
    if (of <= 60 - less)
        draw_plain(d);
    else if (of <= 78 - less)
        draw_join(d);
    else if (of <= 84 - less)
        draw_merge(d);
    else if (of <= 91 - less / 2)
        draw_split(d);
    else
        draw_unite(d);
}

/* Every way that no stage takes ends in a sink with a number of its own. */
static void draw_sinks(drawing *d) {
    for (int i = 0, number = 0; i < d->count; i++) {
        if (d->ways[i].used && !chance(d, 5))
            continue;
        put(d, "  t%d: {type: tally, number: %d, input: %s", i, number++, d->ways[i].id);
        draw_handling(d, false);
        put(d, "}\n");
    }
}

/* The same seed draws the same pipeline. */
static void draw_graph(drawn_graph *graph, uint64_t seed, bool room) {
    drawing d = {.graph = graph, .random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1, .room = room};
    *graph = (drawn_graph){.certain = true};
    d.tight = chance(&d, 50);
    d.cascades = chance(&d, 30);
    d.drops = chance(&d, 15);
    d.fails = chance(&d, 15);
    put(&d, "version: 1\npipeline: p\n");
    draw_devices(&d);
    draw_sources(&d);
    put(&d, "stages:\n");
    if (room)
        draw_all(&d);
    const int stages = between(&d, 2, MOST_STAGES);
    for (int tries = 0; d.stages < stages && d.count < MOST_WAYS - 1 && tries < 100; tries++)
        draw_stage(&d);
    draw_sinks(&d);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mr_type_list types;

static int set_up(void **state) {
    if (mr_type_list_add(&types, own_types, false) || mr_type_list_add(&types, flow_stage_types(), false))
        return -1;
    return be_quiet(state);
}

static int tear_down(void **state) {
    mr_type_list_fini(&types);
    return 0;
}

static uint64_t number_from(const char *name, uint64_t otherwise) {
    const char *given = getenv(name);
    return given ? strtoull(given, NULL, 10) : otherwise;
}

/* NULL: the planner refuses it. */
static mr_pipeline *open_drawn(const drawn_graph *graph, uint64_t schedule, int workers) {
    const mr_pipeline_params params = {.types = types.item, .path = "p.yaml", .text = graph->text, .seed = schedule,
                                       .workers = workers};
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    if (mr_pipeline_open(&pipeline, &params, &wrong) && getenv("MILLRACE_GRAPHS"))
        for (size_t i = 0; i < wrong.count; i++)
            if (wrong.item[i].severity == MR_SEVERITY_ERROR)
                print_message("refused: %s\n", wrong.item[i].message);
    mr_diagnostics_fini(&wrong);
    return pipeline;
}

#define REQUIRE(is_so, ...)                                                                                           \
    do {                                                                                                              \
        if (!(is_so)) {                                                                                               \
            fputs(graph->text, stderr);                                                                               \
            print_message(__VA_ARGS__);                                                                               \
            fail();                                                                                                   \
        }                                                                                                             \
    } while (0)

/* Where frames stand in a run that hangs. */
static void print_state(mr_pipeline *pipeline) {
    mr_summary *summary;
    if (mr_pipeline_summarize(pipeline, &summary))
        return;
    for (size_t i = 0; i < summary->stage_count; i++) {
        const mr_stage_summary *stage = &summary->stages[i];
        print_message("%-12s %llu in, %llu out, %llu wait\n", stage->id, (unsigned long long)stage->in,
                      (unsigned long long)stage->out, (unsigned long long)stage->queued);
    }
    mr_summary_destroy(&summary);
}

static void check_accounts(const drawn_graph *graph, mr_pipeline *pipeline, uint64_t seed, int workers) {
    mr_summary *summary = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    const mr_object_summary *objects = &summary->objects;
    REQUIRE(summary->balanced && !summary->in_flight && !objects->in_flight && !objects->unaccounted &&
                summary->in == summary->delivered + summary->dropped + summary->absorbed &&
                objects->in == objects->delivered + objects->dropped + objects->absorbed,
            "seed %llu, %d workers: the accounts do not balance\n", (unsigned long long)seed, workers);
    mr_summary_destroy(&summary);
}

static void await_end(const drawn_graph *graph, mr_pipeline *pipeline, uint64_t seed, uint64_t schedule, int workers) {
    const int status = mr_pipeline_wait(pipeline, PATIENCE_NS);
    const char *const wrong = status == MR_ERROR_AGAIN ? "it hangs" : mr_message();
    if (status == MR_ERROR_AGAIN)
        print_state(pipeline);
    REQUIRE(status == MR_OK, "seed %llu, schedule %llu, %d workers: %s\n", (unsigned long long)seed,
            (unsigned long long)schedule, workers, wrong);
    check_accounts(graph, pipeline, seed, workers);
}

/* NULL: it is refused, or a device is lost before all stages are open. */
static mr_pipeline *start(const drawn_graph *graph, uint64_t seed, uint64_t schedule, int workers) {
    memset(tallies, 0, sizeof tallies);
    flow_stages_reset();
    mr_pipeline *pipeline = open_drawn(graph, schedule, workers);
    const int status = pipeline ? mr_pipeline_start(pipeline) : MR_OK;
    REQUIRE(!status || !graph->certain, "seed %llu does not start: %s\n", (unsigned long long)seed, mr_message());
    if (status)
        mr_pipeline_destroy(&pipeline);
    return pipeline;
}

/* Runs it once. False: it did not start. */
static bool run_once(const drawn_graph *graph, uint64_t seed, uint64_t schedule, int workers) {
    mr_pipeline *pipeline = start(graph, seed, schedule, workers);
    if (!pipeline)
        return false;
    await_end(graph, pipeline, seed, schedule, workers);
    mr_pipeline_destroy(&pipeline);
    return true;
}

/* Stops it at some moment, or takes a device away and gives it back. */
static void disturb(const drawn_graph *graph, uint64_t seed, uint64_t schedule, int workers) {
    mr_pipeline *pipeline = start(graph, seed, schedule, workers);
    const uint64_t drawn = mix(seed + 7);
    const int64_t pause_ns = (int64_t)(drawn >> 32) % (schedule ? 2000000 : 1000000);
    const char *device = drawn & 4 ? "d0" : "d1";
    if (!pipeline)
        return;
    mr_pipeline_wait(pipeline, pause_ns);
    if (drawn & 3)
        mr_pipeline_stop(pipeline, drawn & 1);
    else
        mr_pipeline_enable_device(pipeline, device, false);
    mr_pipeline_wait(pipeline, pause_ns / 2);
    if (!(drawn & 3))
        mr_pipeline_enable_device(pipeline, device, true);
    else if (drawn & 8)
        mr_pipeline_stop(pipeline, true);
    await_end(graph, pipeline, seed, schedule, workers);
    mr_pipeline_destroy(&pipeline);
}

/* On one thread in random orders, with 1, 4 and 16 workers, and disturbed. */
static bool run_all(const drawn_graph *graph, uint64_t seed) {
    tally first[SINKS];
    if (!run_once(graph, seed, 1, 1))
        return false;
    memcpy(first, tallies, sizeof first);
    for (uint64_t schedule = 2; schedule <= SCHEDULES; schedule++) {
        run_once(graph, seed, seed * SCHEDULES + schedule, 1);
        REQUIRE(!graph->certain || memcmp(first, tallies, sizeof first) == 0,
                "seed %llu: schedule %llu gives other frames\n", (unsigned long long)seed,
                (unsigned long long)(seed * SCHEDULES + schedule));
    }
    for (int workers = 1; workers <= 16; workers *= 4) {
        run_once(graph, seed, 0, workers);
        REQUIRE(!graph->certain || memcmp(first, tallies, sizeof first) == 0,
                "seed %llu: %d workers give other frames\n", (unsigned long long)seed, workers);
    }
    disturb(graph, seed, seed, 1);
    disturb(graph, seed, 0, 1 << seed % 5);
    return true;
}

TEST(they_end_and_give_the_same_frames) {
    static drawn_graph graph;
    const uint64_t first = number_from("MILLRACE_SEED", 1);
    const uint64_t count = number_from("MILLRACE_GRAPHS", UNDER_TSAN(30, 200));
    uint64_t ran = 0, certain = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        draw_graph(&graph, seed, false);
        if (!run_all(&graph, seed))
            continue;
        ran++;
        certain += graph.certain;
    }
    print_message("seeds %llu to %llu: %llu pipelines ran, %llu of them with certain results; %llu were refused\n",
                  (unsigned long long)first, (unsigned long long)(first + count - 1), (unsigned long long)ran,
                  (unsigned long long)certain, (unsigned long long)(count - ran));
    assert_true(count == 1 || ran * 2 > count);
}

/* ---- sources that come and go ------------------------------------------------------------------------------------ */

static void add_source(mr_pipeline *pipeline, const char *id, uint64_t drawn, bool endless) {
    char frames[16];
    const bool ends = !endless || drawn % 8;
    snprintf(frames, sizeof frames, "%d", ends ? (int)((drawn >> 8) % 60) : -1);
    const mr_override options[] = {{"frames", frames}, {"period", ends && drawn & 16 ? "0us" : "20us"}};
    mr_diagnostics wrong = {0};
    mr_pipeline_add_source(pipeline, id, 2, options, &wrong); /* refused if it is there, or all slots are taken */
    mr_diagnostics_fini(&wrong);
}

/* Adds and removes sources at some moments, and stops the run. */
static bool come_and_go(const drawn_graph *graph, uint64_t seed, uint64_t schedule, int workers) {
    enum { CHANGES = 12 };
    mr_pipeline *pipeline = start(graph, seed, schedule, workers);
    uint64_t drawn = mix(seed * 32 + (uint64_t)workers);
    if (!pipeline)
        return false;
    for (int i = 0; i < CHANGES; i++, drawn = mix(drawn + 1)) {
        char id[ID_BYTES];
        snprintf(id, sizeof id, "s%d", 1 + (int)((drawn >> 40) % (MOST_DRAWN + 3)));
        if (drawn & 1)
            add_source(pipeline, id, drawn >> 1, !schedule);
        else
            mr_pipeline_remove_source(pipeline, id, 0); /* its last frames may wait for others in a batch */
        mr_pipeline_wait(pipeline, (int64_t)((drawn >> 20) % 300000));
    }
    mr_pipeline_stop(pipeline, drawn & 2);
    await_end(graph, pipeline, seed, schedule, workers);
    mr_pipeline_destroy(&pipeline);
    return true;
}

TEST(they_end_although_sources_come_and_go) {
    static drawn_graph graph;
    const uint64_t first = number_from("MILLRACE_SEED", 1);
    const uint64_t count = number_from("MILLRACE_GRAPHS", UNDER_TSAN(10, 40));
    uint64_t ran = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        draw_graph(&graph, seed, true);
        bool runs = come_and_go(&graph, seed, seed + 1, 1);
        for (int workers = 1; runs && workers <= 16; workers *= 4)
            runs = come_and_go(&graph, seed, 0, workers);
        ran += runs;
    }
    print_message("%llu pipelines ran, %llu were refused\n", (unsigned long long)ran,
                  (unsigned long long)(count - ran));
    assert_true(count == 1 || ran * 2 > count);
}

RUN_TESTS(set_up, tear_down)
