/* Delivery of records to a service that is slow, away or fails on demand. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stages/deliver/delivery.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { MOST = 4096 };

/* The service: how it behaves, and the numbers of the frames that it has acknowledged. Only the delivery's thread
 * changes the latter while a run lasts. */
static struct {
    int connect_failures; /* it refuses so many connections */
    int send_failures;    /* it takes so many batches without an acknowledgement */
    int hard_failure;     /* the status of all batches; 0: none */
    int64_t pause_ns;     /* it asks for such pauses */
    bool refuses_third;   /* it refuses the third record of each batch */
    atomic_int idle_failures; /* it breaks off so many times while nothing is sent */
    atomic_int idles, ends;
    atomic_bool stands;   /* batches wait until it is false */
    atomic_int connects, sends, largest;
    size_t count;
    uint64_t seqs[MOST];
    bool again;
} service;

static int connect_to(void *context, const mr_delivery *delivery) {
    service.connects++;
    return service.connect_failures-- > 0 ? mr_fail(MR_ERROR_AGAIN, "nobody is there") : MR_OK;
}

static int send_to(void *context, const mr_delivery *delivery, const mr_batch *batch) {
    const struct timespec moment = {.tv_nsec = 1000000};
    service.sends++;
    service.largest = (int)batch->count > service.largest ? (int)batch->count : service.largest;
    while (service.stands) {
        if (mr_delivery_stops(delivery))
            return mr_fail(MR_ERROR_CANCELLED, "stopped");
        nanosleep(&moment, NULL);
    }
    if (service.hard_failure)
        return mr_fail(service.hard_failure, "it does not like that");
    service.again |= batch->again;
    if (service.send_failures-- > 0)
        return mr_fail(MR_ERROR_AGAIN, "it broke off");
    batch->items[batch->count > 2 ? 2 : 0].refused = service.refuses_third && batch->count > 2;
    if (service.refuses_third)
        mr_fail(MR_ERROR_PROTOCOL, "it does not like the third");
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->items[i].refused)
            continue;
        assert_int_equal(batch->items[i].bytes, sizeof(uint64_t));
        memcpy(&service.seqs[service.count++], batch->data + batch->items[i].at, sizeof(uint64_t));
    }
    return MR_OK;
}

static void disconnect(void *context) {
}

static int idle(void *context, const mr_delivery *delivery) {
    service.idles++;
    return service.idle_failures-- > 0 ? mr_fail(MR_ERROR_AGAIN, "it has left") : MR_OK;
}

static void end(void *context, const mr_delivery *delivery) {
    service.ends++;
}

static int64_t pause_of(void *context) {
    return service.pause_ns;
}

static mr_service_type kind = {
    .connect = connect_to, .send = send_to, .disconnect = disconnect, .pause = pause_of};

typedef struct sink {
    mr_delivery *delivery;
} sink;

static int open_sink(mr_stage *self) {
    return mr_delivery_open(&((sink *)self->state)->delivery, self, &kind, NULL);
}

static int process(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    return mr_delivery_put(((sink *)self->state)->delivery, io, frame, &frame->identity.seq, sizeof(uint64_t));
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    return mr_delivery_flush(((sink *)self->state)->delivery, io, source);
}

static void close_sink(mr_stage *self) {
    mr_delivery_close(&((sink *)self->state)->delivery);
}

static const mr_port inputs[] = {{.name = "in"}, {0}};
static const mr_option options[] = {MR_DELIVERY_OPTIONS("50", "5ms"), MR_OPTIONS_END};
static const mr_stage_type sends = {.name = "sends", .summary = "for tests", .inputs = inputs, .options = options,
                                    .options_bytes = sizeof(mr_delivery_options), .state_bytes = sizeof(sink),
                                    .entry = MR_ENTRY_SHARED, .negotiate = mr_delivery_negotiate, .open = open_sink,
                                    .process = process, .flush = flush, .close = close_sink};
static const mr_stage_type *const types[] = {&sends, NULL};

static void reset(void) {
    memset(&service, 0, sizeof service);
    kind.connects_late = false;
    kind.idle = NULL;
    kind.end = NULL;
}

static mr_pipeline *open_pipeline(int frames, const char *how) {
    char text[512];
    snprintf(text, sizeof text, FLOW "sources: {a: {type: count, frames: %d}}\nstages:\n  sends: {input: a%s}\n",
             frames, how);
    return flow_open_with(types, text, 0, 2);
}

static void expect_all(size_t frames) {
    assert_int_equal(service.count, frames);
    for (size_t i = 0; i < frames; i++)
        assert_int_equal(service.seqs[i], i);
}

static const mr_service_report *report_of(const mr_summary *summary) {
    return &flow_stage(summary, "sends")->service;
}

TEST(records_arrive_once_in_order_in_batches) {
    reset();
    mr_pipeline *pipeline = open_pipeline(1000, "");
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, 1000);
    expect_all(1000);
    assert_in_range(service.largest, 1, 50);
    assert_int_equal(report_of(summary)->frames, 1000);
    assert_int_equal(report_of(summary)->bytes, 8000);
    assert_int_equal(report_of(summary)->waiting, 0);
    assert_int_equal(report_of(summary)->waiting_bytes, 0);
    assert_int_equal(report_of(summary)->phase, MR_LINK_ENDED);
    flow_close(&pipeline, &summary);
}

TEST(what_is_not_acknowledged_is_sent_again) {
    reset();
    service.connect_failures = 2;
    service.send_failures = 3;
    mr_pipeline *pipeline = open_pipeline(300, ", retry: 1ms");
    mr_summary *summary = NULL;
    summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, 300);
    expect_all(300);
    assert_true(service.again);
    assert_int_equal(report_of(summary)->again, 3);
    assert_int_equal(report_of(summary)->tries, service.connects);
    assert_int_equal(report_of(summary)->connections, 4);
    flow_close(&pipeline, &summary);
}

TEST(a_failure_that_will_recur_ends_the_run) {
    reset();
    service.hard_failure = MR_ERROR_DATA;
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = open_pipeline(100000, "");
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "it does not like that"));
    assert_int_equal(service.count, 0);
}

TEST(give_up_ends_the_run) {
    reset();
    service.connect_failures = 1000000;
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = open_pipeline(100, ", retry: 1ms, give_up: 20ms");
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    int status = MR_OK;
    status = mr_pipeline_wait(pipeline, -1);
    assert_int_equal(status, MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "longer than give_up allows"));
}

/* A pause that the service asks for does not outlast give_up. */
TEST(give_up_ends_a_long_pause) {
    reset();
    service.connect_failures = 1000000;
    service.pause_ns = INT64_C(86400000000000);
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = open_pipeline(100, ", give_up: 20ms");
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_ERROR_IO);
}

/* A service that is reached by sending is connected once it has acknowledged a batch. */
TEST(sending_may_be_what_connects) {
    reset();
    kind.connects_late = true;
    service.send_failures = 3;
    mr_pipeline *pipeline = open_pipeline(300, ", retry: 1ms");
    mr_summary *summary = flow_run(pipeline);
    expect_all(300);
    assert_int_equal(report_of(summary)->tries, 4);
    assert_int_equal(report_of(summary)->connections, 1);
    flow_close(&pipeline, &summary);
}

/* A refusal is an answer: the next batch goes over the same connection. */
TEST(a_refusal_keeps_what_sending_connects) {
    reset();
    kind.connects_late = true;
    service.hard_failure = MR_ERROR_PROTOCOL;
    mr_pipeline *pipeline = open_pipeline(300, ", send_frames: 10");
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(report_of(summary)->dropped, 300);
    assert_true(service.sends > 1);
    assert_int_equal(service.connects, 1);
    assert_int_equal(report_of(summary)->connections, 1);
    flow_close(&pipeline, &summary);
}

/* A batch that only waits for more frames is sent when there is no room for them, with any on_full. */
TEST(a_backlog_of_one_batch_does_not_wait_for_the_batch_to_age) {
    static const char *const policies[] = {"wait", "fail", "drop-oldest", "drop-newest"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        char how[128];
        reset();
        snprintf(how, sizeof how, ", send_bytes: 4096, send_frames: 100000, backlog: 4096, send_after: 1h, on_full: %s",
                 policies[i]);
        mr_pipeline *pipeline = open_pipeline(i ? 60 : 500, how); /* 60: more than half of the backlog */
        mr_summary *summary = flow_run(pipeline);
        expect_all(i ? 60 : 500);
        assert_true(service.sends > 1);
        flow_close(&pipeline, &summary);
    }
}

/* Waits until the service has a batch and the rest of the frames are in the ledger or the backlog. */
static void await_batch(void) {
    const struct timespec moment = {.tv_nsec = 1000000};
    while (!service.sends)
        nanosleep(&moment, NULL);
}

static void *let_go_later(void *pipeline) {
    const struct timespec moment = {.tv_nsec = 1000000};
    await_batch();
    for (uint64_t dropped = 0; !dropped;) {
        ENDED_BY(mr_summary_destroy) mr_summary *summary = NULL;
        nanosleep(&moment, NULL);
        assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
        dropped = summary->dropped;
        assert_true(report_of(summary)->waiting_bytes <= 4096 + 4096 / 2);
    }
    service.stands = false;
    return NULL;
}

static void check_drops(const char *how, bool first_are_kept) {
    pthread_t thread;
    reset();
    service.stands = true;
    mr_pipeline *pipeline = open_pipeline(3000, how);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, pipeline), 0);
    mr_summary *summary = flow_run(pipeline);
    pthread_join(thread, NULL);
    assert_true(summary->dropped > 0);
    assert_int_equal(summary->delivered + summary->dropped, 3000);
    assert_int_equal(service.count, summary->delivered);
    assert_int_equal(report_of(summary)->dropped, summary->dropped);
    assert_string_equal(summary->lines[0].reason, "queue full");
    assert_int_equal(service.seqs[first_are_kept ? 0 : service.count - 1], first_are_kept ? 0 : 2999);
    for (size_t i = 1; i < service.count; i++)
        assert_true(service.seqs[i] > service.seqs[i - 1]);
    flow_close(&pipeline, &summary);
}

TEST(a_full_backlog_drops_the_oldest) {
    check_drops(", on_full: drop-oldest, send_bytes: 1024, send_frames: 10, backlog: 4096", false);
}

TEST(a_full_backlog_drops_the_newest) {
    check_drops(", on_full: drop-newest, send_bytes: 1024, send_frames: 10, backlog: 4096", true);
}

TEST(a_full_backlog_fails) {
    reset();
    service.stands = true;
    mr_pipeline *pipeline = open_pipeline(3000, ", on_full: fail, send_bytes: 1024, backlog: 4096");
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "the backlog is full"));
    mr_pipeline_destroy(&pipeline);
}

TEST(a_run_that_is_asked_to_end_does_not_wait_for_ever) {
    reset();
    service.stands = true;
    mr_pipeline *pipeline = open_pipeline(3000, ", send_bytes: 1024, backlog: 4096");
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    await_batch();
    mr_pipeline_stop(pipeline, false);
    mr_pipeline_wait(pipeline, -1);
    mr_summary *summary = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    assert_true(summary->balanced);
    assert_int_equal(summary->in_flight, 0);
    assert_int_equal(service.count, 0);
    assert_int_equal(summary->delivered, 0);
    flow_close(&pipeline, &summary);
}

/* Only that record's frame is dropped, and the reason is in the state. */
TEST(a_record_that_is_refused_is_dropped_alone) {
    reset();
    service.refuses_third = true;
    mr_pipeline *pipeline = open_pipeline(50, ", send_after: 1h, send_frames: 10");
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, 45);
    assert_int_equal(summary->dropped, 5);
    assert_string_equal(summary->lines[0].reason, "refused");
    assert_int_equal(report_of(summary)->frames, 45);
    assert_int_equal(report_of(summary)->bytes, 45 * sizeof(uint64_t));
    assert_int_equal(report_of(summary)->dropped, 5);
    assert_int_equal(service.count, 45);
    flow_close(&pipeline, &summary);
}

/* A connection that breaks while there is nothing to send is made again; the service hears of the end. */
TEST(an_idle_connection_is_looked_after) {
    reset();
    kind.idle = idle;
    kind.end = end;
    service.idle_failures = 2;
    mr_pipeline *pipeline = open_pipeline(1, ", send_after: 600ms, retry: 1ms");
    mr_summary *summary = flow_run(pipeline);
    expect_all(1);
    assert_true(service.idles > 2);
    assert_int_equal(report_of(summary)->connections, 3);
    assert_int_equal(report_of(summary)->again, 0);
    flow_close(&pipeline, &summary);
    assert_int_equal(service.ends, 1);
}

RUN_TESTS(be_quiet, NULL)
