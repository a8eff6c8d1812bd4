/* Sources that come and go while a pipeline runs: slots, accounts, and everything that should not be affected. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/flow/link/link.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/worker_counts.h"

#define STAGES                                                                                                       \
    "stages:\n"                                                                                                      \
    "  one: {type: note, input: sources.*, device: \"%1$s\"}\n"                                                      \
    "  two: {type: scale, input: one, device: \"%1$s\"}\n"                                                           \
    "  out: {type: collect, input: two}\n"

/* ---- a source that blocks -------------------------------------------------------------------------------------- */

static atomic_int opened_stuck, closed_stuck, stopped_stuck;
static pthread_mutex_t stuck_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stuck_changed = PTHREAD_COND_INITIALIZER;

typedef struct stuck_state {
    bool stopped;
} stuck_state;

static int stuck_open(mr_stage *self) {
    atomic_fetch_add(&opened_stuck, 1);
    return MR_OK;
}

static int stuck_process(mr_stage *self, mr_io *io) {
    stuck_state *state = self->state;
    pthread_mutex_lock(&stuck_lock);
    while (!state->stopped)
        pthread_cond_wait(&stuck_changed, &stuck_lock);
    pthread_mutex_unlock(&stuck_lock);
    return MR_END;
}

static void stuck_stop(mr_stage *self) {
    stuck_state *state = self->state;
    pthread_mutex_lock(&stuck_lock);
    state->stopped = true;
    pthread_cond_broadcast(&stuck_changed);
    pthread_mutex_unlock(&stuck_lock);
    atomic_fetch_add(&stopped_stuck, 1);
}

/* Like a connected source: others may remove it or look at it at this moment. */
static void stuck_close(mr_stage *self) {
    mr_stage_report(self, &(mr_source_report){.phase = MR_LINK_ENDED});
    atomic_fetch_add(&closed_stuck, 1);
}

static const mr_format_set results_only[] = {{.payload = MR_PAYLOAD_RESULTS}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port results_port[] = {{.name = "out", .help = "frames", .accepts = results_only}, {0}};
static const mr_stage_type stuck_type = {.name = "stuck", .summary = "waits until it is stopped",
                                         .outputs = results_port, .state_bytes = sizeof(stuck_state),
                                         .entry = MR_ENTRY_SHARED, .blocking = true, .open = stuck_open,
                                         .process = stuck_process, .stop = stuck_stop, .close = stuck_close};

/* Like a connected source that waits for the next picture. */
static int live_process(mr_stage *self, mr_io *io) {
    mr_stage_report(self, &(mr_source_report){.phase = MR_LINK_LIVE, .next_ns = 1, .connections = 1});
    mr_io_wake_at(io, INT64_MAX);
    return MR_WAIT;
}

static const mr_stage_type live_type = {.name = "live", .summary = "is live and gives nothing", .outputs = results_port,
                                        .entry = MR_ENTRY_SHARED, .process = live_process};
/* A program's source can give whatever a stage takes. */
static const mr_stage_type *const own_types[] = {&stuck_type, &live_type, NULL};

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static mr_pipeline *begin(const char *text, uint64_t seed, int workers) {
    mr_pipeline *pipeline = flow_open_with(own_types, text, seed, workers);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return pipeline;
}

static int add(mr_pipeline *pipeline, const char *id, const char *key, const char *value, char *why) {
    mr_diagnostics wrong = {0};
    const mr_override options[] = {{key, value}};
    int status = mr_pipeline_add_source(pipeline, id, key ? 1 : 0, options, &wrong);
    if (why)
        snprintf(why, 512, "%s", wrong.count ? wrong.item[0].message : "");
    else if (status)
        print_message("%s: %s\n", id, wrong.count ? wrong.item[0].message : mr_message());
    assert_int_equal(status != MR_OK, wrong.errors > 0);
    mr_diagnostics_fini(&wrong);
    return status;
}

/* The last row with this id; zeros if there is none. */
static mr_source_summary row_of(mr_pipeline *pipeline, const char *id) {
    mr_summary *summary;
    mr_source_summary found = {0};
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    for (size_t i = 0; i < summary->source_count; i++)
        if (strcmp(summary->sources[i].id, id) == 0)
            found = summary->sources[i];
    found.message = "";
    mr_summary_destroy(&summary);
    return found;
}

/* Lets the run continue: a seeded one has no threads. */
static void go_on(mr_pipeline *pipeline, uint64_t seed) {
    if (seed)
        mr_pipeline_wait(pipeline, 1000000);
    else
        sleep_ms(1);
}

/* Lets the run continue until the source's row is so, for a minute at most. */
#define AWAIT(pipeline, seed, id, is_so)                                                                              \
    do {                                                                                                              \
        mr_source_summary row = row_of(pipeline, id);                                                                 \
        for (int turn = 0; turn < 60000 && !(is_so); turn++, row = row_of(pipeline, id))                              \
            go_on(pipeline, seed);                                                                                    \
        assert_true(is_so);                                                                                           \
    } while (0)

static void await_end(mr_pipeline *pipeline, uint64_t seed, const char *id) {
    AWAIT(pipeline, seed, id, row.ended);
}

static void await_frames(mr_pipeline *pipeline, uint64_t seed, const char *id, uint64_t frames) {
    AWAIT(pipeline, seed, id, row.delivered >= frames);
}

static int remove_now(mr_pipeline *pipeline, uint64_t seed, const char *id) {
    int status = mr_pipeline_remove_source(pipeline, id, seed ? 0 : -1);
    for (int i = 0; i < 60000 && status == MR_ERROR_AGAIN; i++) {
        go_on(pipeline, seed);
        status = row_of(pipeline, id).ended ? MR_OK : MR_ERROR_AGAIN;
    }
    return status;
}

static mr_summary *stop(mr_pipeline *pipeline) {
    mr_pipeline_stop(pipeline, false);
    return flow_end(pipeline);
}

static void finish(mr_pipeline **pipeline) {
    mr_summary *summary = stop(*pipeline);
    flow_close(pipeline, &summary);
}

static void finish_after(mr_pipeline **pipeline, uint64_t delivered) {
    mr_summary *summary = stop(*pipeline);
    assert_int_equal(summary->delivered, delivered);
    assert_int_equal(collection_count, delivered);
    flow_close(pipeline, &summary);
}

/* ---- a run without sources --------------------------------------------------------------------------------------- */

FLOW_EVERYWHERE(begins_with_none, FLOW_SEEDS(10),
                FLOW "sources: {max: 3, like: {type: count}}\n" STAGES) {
    mr_pipeline *pipeline = begin(text, seed, workers);
    assert_int_equal(mr_pipeline_wait(pipeline, 0), MR_ERROR_AGAIN);
    assert_int_equal(add(pipeline, "a", "frames", "40", NULL), MR_OK);
    assert_int_equal(add(pipeline, "b", "frames", "25", NULL), MR_OK);
    await_end(pipeline, seed, "a");
    await_end(pipeline, seed, "b");
    assert_int_equal(mr_pipeline_wait(pipeline, 0), MR_ERROR_AGAIN);
    mr_summary *summary = stop(pipeline);
    assert_int_equal(summary->delivered, 65);
    assert_int_equal(summary->source_count, 2);
    assert_int_equal(summary->most_sources, 3);
    assert_int_equal(collection_count, 65);
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].value, collection[i].identity.seq);
    flow_close(&pipeline, &summary);
}

/* ---- again and again --------------------------------------------------------------------------------------------- */

/* An id that comes again has separate rows, distinguished by epochs; a slot has one source after another. */
FLOW_EVERYWHERE(an_id_comes_again, FLOW_SEEDS(10),
                FLOW "sources: {max: 2, like: {type: count}, named: {type: count, frames: 7}}\n" STAGES) {
    mr_pipeline *pipeline = begin(text, seed, workers);
    for (uint32_t turn = 0; turn < 4; turn++) {
        assert_int_equal(add(pipeline, "again", "frames", "12", NULL), MR_OK);
        await_end(pipeline, seed, "again");
        const mr_source_stay stay = row_of(pipeline, "again").stay;
        assert_int_equal(stay.first_epoch, turn);
        assert_int_equal(stay.last_epoch, turn);
        if (turn % 2)
            assert_int_equal(remove_now(pipeline, seed, "again"), MR_OK);
    }
    /* A source that has ended still has a row, and the slot can be given to another. */
    assert_int_equal(add(pipeline, "other", "frames", "5", NULL), MR_OK);
    await_end(pipeline, seed, "other");
    /* Epochs belong to ids, not to slots. */
    assert_int_equal(row_of(pipeline, "other").stay.first_epoch, 0);
    finish_after(&pipeline, 4 * 12 + 5 + 7);
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

FLOW_EVERYWHERE(one_is_removed, FLOW_SEEDS(10),
                FLOW "sources: {max: 2, like: {type: count, frames: -1},\n"
                     "          keep: {type: count, frames: -1, period: 1ms},\n"
                     "          go: {type: count, frames: -1, period: 1ms}}\n" STAGES) {
    char why[512];
    mr_pipeline *pipeline = begin(text, seed, workers);
    await_frames(pipeline, seed, "keep", 3);
    await_frames(pipeline, seed, "go", 3);
    assert_int_equal(mr_pipeline_remove_source(pipeline, "nobody", -1), MR_ERROR_USAGE);
    assert_int_equal(remove_now(pipeline, seed, "go"), MR_OK);
    assert_int_equal(mr_pipeline_remove_source(pipeline, "go", -1), MR_ERROR_USAGE);
    const mr_source_summary row = row_of(pipeline, "go");
    assert_true(row.ended && row.stay.removed);
    assert_int_equal(row.in, row.delivered + row.dropped + row.absorbed);
    assert_true(!row_of(pipeline, "keep").ended);
    /* Its slot is a named source's, and another can have it. */
    assert_int_equal(add(pipeline, "came", "period", "1ms", NULL), MR_OK);
    assert_int_equal(add(pipeline, "more", NULL, NULL, why), MR_ERROR_UNAVAILABLE);
    if (!strstr(why, "2 sources already (sources.max, p.yaml:3:16)"))
        fail_msg("%s", why);
    await_frames(pipeline, seed, "came", 3);
    finish(&pipeline);
}

/* Without a clock the queues after it are always full. */
TEST(a_fast_one_is_removed) {
    EACH_WORKER_COUNT(workers) {
        mr_pipeline *pipeline = begin(FLOW "sources: {max: 3, like: {type: count, frames: -1}}\n"
                                           "stages:\n"
                                           "  slow: {input: sources.*, period: 50us, queue: 2}\n"
                                           "  out: {type: \"null\", input: slow}\n", 0, workers);
        assert_int_equal(add(pipeline, "x", NULL, NULL, NULL), MR_OK);
        assert_int_equal(add(pipeline, "y", NULL, NULL, NULL), MR_OK);
        for (int i = 0; i < 20; i++) {
            await_frames(pipeline, 0, "x", 1);
            assert_int_equal(mr_pipeline_remove_source(pipeline, "x", -1), MR_OK);
            assert_int_equal(add(pipeline, "x", NULL, NULL, NULL), MR_OK);
        }
        finish(&pipeline);
    }
}

/* Its last frames wait in a batch for others, of a source that gives none: they do not wait for ever. */
FLOW_EVERYWHERE(one_is_removed_whose_frames_wait_in_a_batch, FLOW_SEEDS(10),
                FLOW "sources: {max: 3, like: {type: live}, go: {type: count, frames: 3},\n"
                     "          gone: {type: count, frames: 3, period: 1ms}}\n"
                     "stages:\n"
                     "  one: {type: batcher, input: sources.*, batch: 8}\n"
                     "  two: {type: batcher, input: one, batch: {size: 7, timeout: 1h}}\n"
                     "  out: {type: collect, input: two}\n") {
    mr_pipeline *pipeline = begin(text, seed, workers);
    assert_int_equal(add(pipeline, "x", NULL, NULL, NULL), MR_OK);
    await_end(pipeline, seed, "go");
    assert_int_equal(row_of(pipeline, "go").delivered, 3);
    assert_int_equal(remove_now(pipeline, seed, "gone"), MR_OK);
    const mr_source_summary row = row_of(pipeline, "gone");
    assert_int_equal(row.in, row.delivered);
    assert_true(!row_of(pipeline, "x").ended);
    finish(&pipeline);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

/* The linker redirects all calls here (tests/CMakeLists.txt). */
static atomic_int links_begun;
void __real_mr_link_begin(mr_link *link, uint32_t source);
void __wrap_mr_link_begin(mr_link *link, uint32_t source);

void __wrap_mr_link_begin(mr_link *link, uint32_t source) {
    atomic_fetch_add(&links_begun, 1);
    __real_mr_link_begin(link, source);
}

/* Searching all stages for each source would be quadratic: a third of ten thousand sources had begun after 15 s. */
TEST(a_source_begins_and_ends_in_its_own_stages) {
    enum { SOURCES = 300, LINKS_OF_ONE = 3 };
    char *text = malloc(SOURCES * 64 + 1024);
    assert_non_null(text);
    char *end = text + sprintf(text, FLOW "sources:\n  max: %d\n", SOURCES);
    for (int i = 0; i < SOURCES; i++)
        end += sprintf(end, "  s%d: {type: live}\n", i); /* a source that has ended begins again while the run stops */
    sprintf(end, "stages:\n  one: {type: note, input: sources.*}\n  two: {type: scale, input: one}\n"
                 "  out: {type: collect, input: two}\n");
    atomic_store(&links_begun, 0);
    mr_pipeline *pipeline = begin(text, 0, 2);
    free(text);
    mr_summary *summary = stop(pipeline);
    assert_int_equal(summary->source_count, SOURCES);
    assert_int_equal(summary->in_flight, 0);
    flow_close(&pipeline, &summary);
    assert_int_equal(atomic_load(&links_begun), SOURCES * LINKS_OF_ONE);
}

enum { BLOCKED = UNDER_TSAN(50, 500) };
static const mr_task *asked[BLOCKED];
static int asked_count, not_asked_count;
void __real_mr_task_ask_thread_to_end(mr_task *task);
void __wrap_mr_task_ask_thread_to_end(mr_task *task);
void __real_mr_task_end_thread(mr_task *task);
void __wrap_mr_task_end_thread(mr_task *task);
void __real_mr_task_fini(mr_task *task);
void __wrap_mr_task_fini(mr_task *task);

static bool is_asked(const mr_task *task) {
    for (int i = 0; i < asked_count; i++)
        if (asked[i] == task)
            return true;
    return false;
}

void __wrap_mr_task_ask_thread_to_end(mr_task *task) {
    if (task->thread && asked_count < BLOCKED && !is_asked(task))
        asked[asked_count++] = task;
    __real_mr_task_ask_thread_to_end(task);
}

void __wrap_mr_task_end_thread(mr_task *task) {
    not_asked_count += task->thread && !is_asked(task);
    __real_mr_task_end_thread(task);
}

void __wrap_mr_task_fini(mr_task *task) {
    not_asked_count += task->thread && !is_asked(task);
    __real_mr_task_fini(task);
}

/* Ending threads one after another, each when the last had ended, took longer than the grace time. */
TEST(threads_end_beside_each_other) {
    for (int places = 0; places < 2; places++) {
        char *text = malloc(BLOCKED * 64 + 1024);
        assert_non_null(text);
        char *end = text + sprintf(text, FLOW "sources:\n");
        if (places)
            end += sprintf(end, "  max: %d\n", BLOCKED);
        for (int i = 0; i < BLOCKED; i++)
            end += sprintf(end, "  s%d: {type: stuck}\n", i);
        sprintf(end, "stages:\n  out: {type: collect, input: sources.*}\n");
        atomic_store(&opened_stuck, 0);
        asked_count = not_asked_count = 0;
        mr_pipeline *pipeline = begin(text, 0, 2);
        free(text);
        await_count(&opened_stuck, BLOCKED);
        finish(&pipeline);
        assert_int_equal(asked_count, BLOCKED);
        assert_int_equal(not_asked_count, 0);
    }
}

/* ---- summaries meanwhile ---------------------------------------------------------------------------------------- */

static atomic_bool all_have_left;

static void *come_and_go(void *context) {
    for (int i = 0; i < 300; i++) {
        add(context, "s", "frames", "20", NULL);
        mr_pipeline_remove_source(context, "s", -1);
    }
    atomic_store(&all_have_left, true);
    return NULL;
}

/* A source that left while a summary was made was missing from it: neither present nor removed. */
TEST(no_summary_lacks_one_that_leaves) {
    enum { OTHERS = 200 }; /* counted first, so that there is time to leave */
    char text[64 * OTHERS], *end = text;
    uint64_t in = 0;
    pthread_t thread;
    end += sprintf(end, FLOW "sources:\n  max: %d\n  like: {type: count}\n", OTHERS + 1);
    for (int i = 0; i < OTHERS; i++)
        end += sprintf(end, "  l%d: {type: live}\n", i);
    sprintf(end, "stages: {out: {type: \"null\", input: sources.*}}\n");
    atomic_store(&all_have_left, false);
    mr_pipeline *pipeline = begin(text, 0, 2);
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, pipeline), 0);
    while (!atomic_load(&all_have_left)) {
        ENDED_BY(mr_summary_destroy) mr_summary *sums = NULL;
        assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
        assert_true(sums->in >= in);
        in = sums->in;
    }
    pthread_join(thread, NULL);
    finish(&pipeline);
}

/* ---- one that blocks --------------------------------------------------------------------------------------------- */

TEST(a_blocked_one_is_removed) {
    EACH_WORKER_COUNT(workers) {
        atomic_store(&opened_stuck, 0);
        atomic_store(&closed_stuck, 0);
        mr_pipeline *pipeline = begin(
            FLOW "sources: {max: 2, like: {type: stuck}, a: {type: count, frames: -1, period: 1ms}}\n"
                 "stages: {out: {type: \"null\", input: sources.*}}\n", 0, workers);
        for (int i = 1; i <= 5; i++) {
            assert_int_equal(add(pipeline, "s", NULL, NULL, NULL), MR_OK);
            await_count(&opened_stuck, i);
            assert_int_equal(mr_pipeline_remove_source(pipeline, "s", -1), MR_OK);
            assert_int_equal(atomic_load(&closed_stuck), i);
        }
        await_frames(pipeline, 0, "a", 3);
        /* And one that blocks while the run stops. */
        assert_int_equal(add(pipeline, "s", NULL, NULL, NULL), MR_OK);
        finish(&pipeline);
        assert_int_equal(atomic_load(&closed_stuck), atomic_load(&opened_stuck));
    }
}

/* Such a source may not have a thread yet: the slot gets one with the first source. */
TEST(a_blocking_one_is_removed_at_once) {
    enum { PLACES = 64 };
    char id[16];
    EACH_WORKER_COUNT(workers) {
        atomic_store(&opened_stuck, 0);
        atomic_store(&closed_stuck, 0);
        mr_pipeline *pipeline = begin(FLOW "sources: {max: 64, like: {type: stuck}}\n"
                                           "stages: {out: {type: \"null\", input: sources.*}}\n", 0, workers);
        for (int i = 0; i < PLACES; i++) {
            snprintf(id, sizeof id, "s%d", i);
            assert_int_equal(add(pipeline, id, NULL, NULL, NULL), MR_OK);
            int status = mr_pipeline_remove_source(pipeline, id, 0);
            assert_true(status == MR_OK || status == MR_ERROR_AGAIN);
        }
        for (int i = 0; i < PLACES; i++) {
            snprintf(id, sizeof id, "s%d", i);
            await_end(pipeline, 0, id);
        }
        finish(&pipeline);
        assert_int_equal(atomic_load(&closed_stuck), atomic_load(&opened_stuck));
    }
}

/* ---- refusals change nothing ------------------------------------------------------------------------------------- */

TEST(wrong_ones_are_refused) {
    static const struct {
        const char *id, *key, *value;
        int status;
        const char *why;
    } cases[] = {{"b", "frame", "3", MR_ERROR_CONFIG, "frame"},
                 {"b", "frames", "many", MR_ERROR_CONFIG, "sources.b.frames"},
                 {"b", "type", "camera", MR_ERROR_CONFIG, ""},
                 {"b", "type", "stuck", MR_ERROR_CONFIG, "type stuck"},
                 {"two\nlines", NULL, NULL, MR_ERROR_CONFIG, ""},
                 {"one", NULL, NULL, MR_ERROR_CONFIG, "has the id of a source"},
                 {"", NULL, NULL, MR_ERROR_CONFIG, ""},
                 {"b", "gop", "4", MR_ERROR_CONFIG, ""},
                 {"b", NULL, NULL, MR_OK, ""},
                 {"b", NULL, NULL, MR_ERROR_USAGE, ""}};
    char why[512];
    mr_pipeline *pipeline = flow_open_with(own_types,
        FLOW "sources: {max: 4, like: {type: count, frames: -1, period: 1ms}, a: {type: count}}\n"
             "stages: {one: {type: scale, input: sources.*}, out: {type: collect, input: one}}\n", 0, 2);
    assert_int_equal(add(pipeline, "b", NULL, NULL, why), MR_ERROR_USAGE);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(add(pipeline, cases[i].id, cases[i].key, cases[i].value, why), cases[i].status);
        assert_non_null(strstr(why, cases[i].why));
        if (cases[i].status == MR_ERROR_CONFIG)
            assert_null(row_of(pipeline, "b").id);
    }
    mr_pipeline_stop(pipeline, false);
    assert_int_equal(add(pipeline, "c", NULL, NULL, why), MR_ERROR_CANCELLED);
    finish(&pipeline);
}

TEST(a_plain_pipeline_has_no_room) {
    char why[512];
    mr_pipeline *pipeline = begin(FLOW "sources: {a: {type: count}}\n"
                                       "stages: {out: {type: collect, input: a}}\n", 0, 2);
    assert_int_equal(add(pipeline, "b", NULL, NULL, why), MR_ERROR_USAGE);
    assert_non_null(strstr(why, "sources: {max: 64}"));
    assert_int_equal(mr_pipeline_remove_source(pipeline, "a", -1), MR_ERROR_USAGE);
    mr_summary *summary = flow_end(pipeline);
    assert_int_equal(summary->source_count, 1);
    assert_false(summary->sources[0].stay.changes);
    flow_close(&pipeline, &summary);
}

/* Although it is no longer called, and not closed before the pipeline is. */
TEST(a_live_one_has_ended_with_the_run) {
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = begin(FLOW "sources: {a: {type: live}}\n"
            "stages: {out: {type: collect, input: a}}\n", 0, 2);
    AWAIT(pipeline, 0, "a", row.report.phase == MR_LINK_LIVE);
    mr_pipeline_stop(pipeline, false);
    assert_int_equal(ended(pipeline), MR_OK);
    const mr_source_report report = row_of(pipeline, "a").report;
    assert_int_equal(report.phase, MR_LINK_ENDED);
    assert_int_equal(report.next_ns, 0);
    assert_true(report.since_ns > 0 && report.connections == 1);
}

/* ---- changing ---------------------------------------------------------------------------------------------------- */

FLOW_EVERYWHERE(one_is_changed, FLOW_SEEDS(5),
                FLOW "sources: {max: 2, a: {type: count, frames: -1, period: 1ms}, like: {type: count}}\n" STAGES) {
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = begin(text, seed, workers);
    await_frames(pipeline, seed, "a", 2);
    const mr_override bad[] = {{"frames", "0.5"}}, good[] = {{"frames", "9"}};
    assert_int_equal(mr_pipeline_set_source(pipeline, "a", 1, bad, &wrong), MR_ERROR_CONFIG);
    assert_int_equal(mr_pipeline_set_source(pipeline, "z", 1, good, &wrong), MR_ERROR_USAGE);
    mr_diagnostics_fini(&wrong);
    assert_true(!row_of(pipeline, "a").ended);
    assert_int_equal(mr_pipeline_set_source(pipeline, "a", 1, good, &wrong), MR_OK);
    AWAIT(pipeline, seed, "a", row.delivered == 9);
    await_end(pipeline, seed, "a");
    assert_int_equal(row_of(pipeline, "a").stay.first_epoch, 1);
    /* Its other options are unchanged. */
    const mr_override more[] = {{"frames", "-1"}};
    assert_int_equal(mr_pipeline_set_source(pipeline, "a", 1, more, &wrong), MR_OK);
    await_frames(pipeline, seed, "a", 11);
    finish(&pipeline);
}

/* ---- joins and batches ------------------------------------------------------------------------------------------- */

FLOW_EVERYWHERE(joins_and_batches_go_on, FLOW_SEEDS(10),
                FLOW "sources: {max: 3, like: {type: count}}\n"
                     "stages:\n"
                     "  one: {type: scale, input: sources.*, device: \"%1$s\"}\n"
                     "  gate: {input: one, every: 2}\n"
                     "  wide: {type: batcher, input: gate, batch: 8}\n"
                     "  meet: {join: {a: one, b: wide}}\n"
                     "  out: {type: collect, input: meet}\n") {
    mr_pipeline *pipeline = begin(text, seed, workers);
    for (int i = 0; i < 6; i++) {
        char id[8];
        snprintf(id, sizeof id, "s%d", i % 3);
        assert_int_equal(add(pipeline, id, "frames", "31", NULL), MR_OK);
        if (i % 3 == 2) {
            await_end(pipeline, seed, "s0");
            await_end(pipeline, seed, "s1");
            await_end(pipeline, seed, "s2");
        }
    }
    mr_summary *summary = stop(pipeline);
    assert_int_equal(summary->in, 6 * 31);
    assert_int_equal(summary->delivered + summary->absorbed, 6 * 31);
    assert_int_equal(summary->delivered, 6 * 16);
    flow_close(&pipeline, &summary);
}

/* ---- pushed frames ----------------------------------------------------------------------------------------------- */

static int push(mr_pipeline *pipeline, const char *id, int64_t timeout_ns) {
    static const uint8_t bytes[4] = {1, 2, 3, 4};
    const mr_push frame = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = 4, .height = 1},
                           .data = {bytes}, .stride = {4}};
    return mr_pipeline_push(pipeline, id, &frame, timeout_ns);
}

TEST(programs_push) {
    EACH_WORKER_COUNT(workers) {
        mr_pipeline *pipeline = begin(FLOW "sources: {max: 2, like: {type: push, format: GRAY8 4x1}}\n"
                                           "stages: {out: {type: collect, input: sources.*}}\n", 0, workers);
        assert_int_equal(push(pipeline, "p", 0), MR_ERROR_USAGE);
        for (uint64_t turn = 1; turn <= 4; turn++) {
            assert_int_equal(add(pipeline, "p", NULL, NULL, NULL), MR_OK);
            for (int i = 0; i < 10; i++)
                assert_int_equal(push(pipeline, "p", -1), MR_OK);
            if (turn % 2) {
                mr_pipeline_end(pipeline, "p");
                await_end(pipeline, 0, "p");
                assert_int_equal(push(pipeline, "p", 0), MR_ERROR_CANCELLED);
                /* A repeated call does not end the slot's next source. */
                assert_int_equal(mr_pipeline_end(pipeline, "p"), MR_OK);
            }
            assert_int_equal(mr_pipeline_remove_source(pipeline, "p", -1), MR_OK);
            assert_int_equal(push(pipeline, "p", 0), MR_ERROR_USAGE);
        }
        assert_int_equal(add(pipeline, "p", NULL, NULL, NULL), MR_OK);
        finish_after(&pipeline, 40);
    }
}

/* ---- many, beside others ----------------------------------------------------------------------------------------- */

static size_t entries_of(const char *folder) {
    size_t count = 0;
    DIR *list = opendir(folder);
    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

static size_t resident_bytes(void) {
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

enum { STEADY = 16, FRAMES = 1000, MOST_ROWS = STEADY * FRAMES };

/* 16 sources with FRAMES frames each, and room for others. */
static void steady_text(char *text, size_t bytes, int room) {
    size_t length = (size_t)snprintf(text, bytes,
                                     FLOW "sources:\n  max: %d\n"
                                          "  like: {type: count, period: 3ms}\n",
                                     STEADY + room);
    for (int i = 0; i < STEADY; i++)
        length += (size_t)snprintf(text + length, bytes - length,
                                   "  steady%d: {type: count, frames: %d, period: 1ms}\n", i, FRAMES);
    snprintf(text + length, bytes - length,
             "stages:\n  one: {type: scale, input: sources.*}\n  two: {type: note, input: one}\n"
             "  out: {type: collect, input: two}\n");
}

/* The steady sources' frame values, by source and number. */
static void keep_values(uint64_t *values, size_t *frames) {
    *frames = 0;
    for (size_t i = 0; i < collection_count; i++) {
        const collected *one = &collection[i];
        if (one->identity.source >= STEADY || one->identity.epoch)
            continue;
        assert_true(one->identity.seq < FRAMES);
        values[one->identity.source * FRAMES + one->identity.seq] = one->value * 65536 + one->noted;
        ++*frames;
    }
}

static void run_steady(int workers, int turns, uint64_t *values, size_t *frames) {
    char text[4096], id[32];
    steady_text(text, sizeof text, 2);
    mr_pipeline *pipeline = begin(text, 0, workers);
    size_t threads = 0, files = 0, bytes = 0;
    for (int i = 0; i < turns; i++) {
        snprintf(id, sizeof id, "guest%d", i % 7);
        assert_int_equal(add(pipeline, id, "frames", i % 3 ? "4" : "-1", NULL), MR_OK);
        assert_int_equal(mr_pipeline_remove_source(pipeline, id, -1), MR_OK);
        if (i != turns / 10)
            continue;
        threads = entries_of("/proc/self/task");
        files = entries_of("/proc/self/fd");
        bytes = resident_bytes();
    }
    if (turns) {
        assert_int_equal(entries_of("/proc/self/task"), threads);
        assert_int_equal(entries_of("/proc/self/fd"), files);
        /* A sanitizer keeps freed memory. */
        const bool plain = UNDER_TSAN(false, UNDER_ASAN(false, true));
        assert_true(resident_bytes() <= bytes + (5 << 20) || !plain);
    }
    for (int i = 0; i < STEADY; i++) {
        snprintf(id, sizeof id, "steady%d", i);
        await_end(pipeline, 0, id);
    }
    mr_summary *summary = stop(pipeline);
    assert_true(summary->source_count <= STEADY + 2 + 257);
    assert_int_equal(collection_count, summary->delivered);
    flow_close(&pipeline, &summary);
    keep_values(values, frames);
}

TEST(others_do_not_notice) {
    static uint64_t alone[MOST_ROWS], among[MOST_ROWS];
    size_t alone_frames, among_frames;
    run_steady(2, 0, alone, &alone_frames);
    assert_int_equal(alone_frames, MOST_ROWS);
    for (int workers = 1; workers <= MOST_WORKERS; workers *= 4) {
        memset(among, 0, sizeof among);
        run_steady(workers, workers == 4 ? UNDER_TSAN(100, 1000) : 100, among, &among_frames);
        assert_int_equal(among_frames, MOST_ROWS);
        assert_memory_equal(alone, among, sizeof alone);
    }
}

/* ---- a list ------------------------------------------------------------------------------------------------------ */

static void await_removal(mr_pipeline *pipeline, const char *id) {
    AWAIT(pipeline, 0, id, row.stay.removed);
}

/* Every change is noticed; one made while the run stops does no harm. */
TEST_WITH(a_list_is_followed, make_temporary, remove_temporary) {
    char text[512];
    snprintf(text, sizeof text,
             FLOW "sources: {max: 3, like: {type: count, frames: -1, period: 1ms}}\n"
             "sources_from: %s\nstages: {one: {type: scale, input: sources.*}, out: {type: \"null\", input: one}}\n",
             temporary_path);
    EACH_WORKER_COUNT(workers) {
        write_temporary("a: {}\n");
        mr_pipeline *pipeline = flow_open_with(own_types, text, 0, workers);
        assert_int_equal(mr_pipeline_reload_sources(pipeline), MR_ERROR_USAGE);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        await_frames(pipeline, 0, "a", 2);
        write_temporary("a: {}\nb: {frames: 5}\n");
        await_end(pipeline, 0, "b");
        write_temporary("a: {frame: 5}\n");
        assert_int_equal(mr_pipeline_reload_sources(pipeline), MR_OK);
        write_temporary("c: {}\n");
        await_removal(pipeline, "a");
        await_frames(pipeline, 0, "c", 2);
        assert_int_equal(add(pipeline, "own", NULL, NULL, NULL), MR_OK);
        write_temporary("d: {}\n");
        assert_int_equal(mr_pipeline_reload_sources(pipeline), MR_OK);
        if (workers % 2)
            await_removal(pipeline, "c");
        finish(&pipeline);
    }
    /* Without threads the list is read on request. */
    write_temporary("a: {frames: 7}\n");
    mr_pipeline *pipeline = begin(text, 3, 1);
    await_end(pipeline, 3, "a");
    write_temporary("a: {frames: 7}\nb: {frames: 2}\n");
    assert_int_equal(mr_pipeline_reload_sources(pipeline), MR_OK);
    await_end(pipeline, 3, "b");
    finish(&pipeline);
}

/* ---- from several threads ---------------------------------------------------------------------------------------- */

typedef struct changer {
    mr_pipeline *pipeline;
    int number;
} changer;

static void *change_at_random(void *context) {
    const changer *self = context;
    mr_diagnostics wrong = {0};
    const mr_override options[] = {{"frames", "-1"}};
    for (int i = 0; i < 40; i++) {
        char id[8];
        snprintf(id, sizeof id, "x%d", (i * 7 + self->number) % 5);
        switch ((i + self->number) % 4) {
        case 0:
            mr_pipeline_remove_source(self->pipeline, id, 0);
            break;
        case 1:
            mr_pipeline_set_source(self->pipeline, id, 1, options, &wrong);
            break;
        case 2:
            mr_pipeline_remove_source(self->pipeline, id, 2000000);
            break;
        default:
            mr_pipeline_add_source(self->pipeline, id, (size_t)(i % 2), options, &wrong);
        }
        mr_diagnostics_fini(&wrong);
        ENDED_BY(mr_summary_destroy) mr_summary *summary;
        assert_int_equal(mr_pipeline_summarize(self->pipeline, &summary), MR_OK);
    }
    return NULL;
}

/* Whatever happens, everything is accounted for; the run is stopped in the middle. */
TEST(several_threads_change_it) {
    EACH_WORKER_COUNT(workers) {
        pthread_t thread[4];
        changer changers[4];
        mr_pipeline *pipeline = begin(FLOW "sources: {max: 4, like: {type: count, frames: 50}}\n"
                                           "stages: {one: {type: scale, input: sources.*, device: \"sim:0\"},\n"
                                           "         out: {type: \"null\", input: one}}\n", 0, workers);
        for (int i = 0; i < 4; i++) {
            changers[i] = (changer){pipeline, i};
            assert_int_equal(pthread_create(&thread[i], NULL, change_at_random, &changers[i]), 0);
        }
        if (workers % 4 == 0)
            mr_pipeline_stop(pipeline, workers == 8);
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], NULL);
        finish(&pipeline);
    }
}

RUN_TESTS_AT_ONCE(be_quiet, NULL)
