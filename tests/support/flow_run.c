#include "tests/support/flow_run.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/opened.h"
#include "tests/support/worker_counts.h"

mr_pipeline *flow_open(const char *text, uint64_t seed, int workers) {
    return flow_open_with(NULL, text, seed, workers);
}

mr_pipeline *flow_open_with(const mr_stage_type *const *own, const char *text, uint64_t seed, int workers) {
    static mr_type_list types; /* pipelines refer to it */
    static const mr_stage_type *const *added;
    if (own && own != added) {
        mr_type_list_fini(&types);
        assert_int_equal(mr_type_list_add(&types, own, false), MR_OK);
        assert_int_equal(mr_type_list_add(&types, flow_stage_types(), false), MR_OK);
        assert_int_equal(mr_type_list_add(&types, mr_stage_types(), false), MR_OK);
        added = own;
    }
    const mr_pipeline_params params = {.types = own ? types.item : flow_stage_types(), .path = "p.yaml", .text = text,
                                       .seed = seed, .workers = workers};
    flow_stages_reset();
    return opened(&params);
}

static mr_summary *end_with(mr_pipeline *pipeline, int status) {
    assert_int_equal(ended(pipeline), status);
    return summed(pipeline);
}

mr_summary *flow_end(mr_pipeline *pipeline) {
    return end_with(pipeline, MR_OK);
}

mr_summary *flow_run(mr_pipeline *pipeline) {
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return flow_end(pipeline);
}

void flow_close(mr_pipeline **pipeline, mr_summary **summary) {
    mr_summary_destroy(summary);
    mr_pipeline_destroy(pipeline);
}

void flow_expect(const mr_summary *summary, uint64_t frames, uint64_t stages) {
    assert_int_equal(summary->delivered + summary->dropped, frames);
    assert_int_equal(collection_count, summary->delivered);
    for (size_t i = 0; i < summary->line_count; i++)
        assert_string_equal(summary->lines[i].reason, "device error");
    for (size_t i = 0; i < collection_count; i++) {
        assert_true(i == 0 || collection[i].identity.seq > collection[i - 1].identity.seq);
        assert_int_equal(collection[i].value, collection[i].identity.seq + stages);
    }
}

void flow_everywhere(const char *format, uint64_t seeds, flow_run_function *run, void *context) {
    static const char *const devices[] = {"cpu", "sim:0"};
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        char text[4096];
        int length = snprintf(text, sizeof text, format, devices[d]);
        assert_true(length > 0 && length < (int)sizeof text);
        for (uint64_t seed = 1; seed <= seeds; seed++)
            run(text, seed, 1, context);
        EACH_WORKER_COUNT(workers)
            run(text, 0, workers, context);
    }
}

/* A source's frames are in order, none twice, at each collector. */
static void check_order(void) {
    enum { SOURCES = 64 };
    const mr_identity *last[2][SOURCES] = {{NULL}};
    for (size_t i = 0; i < collection_count; i++) {
        const mr_identity *one = &collection[i].identity, **before = &last[collection[i].first][one->source];
        assert_true(one->source < SOURCES);
        assert_true(!*before || mr_identity_compare(*before, one) < 0);
        *before = one;
    }
}

static void check_count(uint64_t count, uint64_t wanted) {
    if (wanted == FLOW_SOME)
        assert_true(count > 0);
    else if (wanted != FLOW_ANY)
        assert_int_equal(count, wanted);
}

void flow_check(const char *text, uint64_t seed, int workers, const flow_outcome *wanted) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    mr_summary *summary = end_with(pipeline, wanted->status);
    assert_int_equal(summary->in, summary->delivered + summary->dropped + summary->absorbed);
    check_count(summary->in, wanted->in ? wanted->in : FLOW_ANY);
    check_count(summary->delivered, wanted->delivered);
    check_count(summary->dropped, wanted->dropped);
    check_count(summary->absorbed, wanted->absorbed);
    assert_int_equal(collection_count, wanted->collected ? wanted->collected : summary->delivered);
    for (size_t i = 0; wanted->adds && i < collection_count; i++)
        assert_int_equal(collection[i].value, collection[i].identity.seq + (uint64_t)wanted->adds);
    if (!wanted->unordered)
        check_order();
    if (wanted->stage)
        assert_string_equal(summary->lines[0].stage, wanted->stage);
    if (wanted->reason)
        assert_string_equal(summary->lines[0].reason, wanted->reason);
    if (wanted->check)
        wanted->check(summary);
    flow_close(&pipeline, &summary);
}

void flow_check_all(const char *text, uint64_t seeds, const flow_outcome *wanted) {
    for (uint64_t seed = 1; seed <= seeds; seed++)
        flow_check(text, seed, 1, wanted);
    EACH_WORKER_COUNT(workers)
        flow_check(text, 0, workers, wanted);
}

static void check_given(const char *text, uint64_t seed, int workers, void *context) {
    flow_check(text, seed, workers, *(const flow_outcome **)context);
}

void flow_check_everywhere(const char *format, uint64_t seeds, const flow_outcome *wanted) {
    flow_everywhere(format, seeds, check_given, &wanted);
}

const mr_source_summary *flow_source(const mr_summary *summary, const char *id) {
    for (size_t i = 0; i < summary->source_count; i++)
        if (strcmp(summary->sources[i].id, id) == 0)
            return &summary->sources[i];
    fail_msg("there is no source %s", id);
    return NULL;
}

const mr_stage_summary *flow_stage(const mr_summary *summary, const char *id) {
    for (size_t i = 0; i < summary->stage_count; i++)
        if (strcmp(summary->stages[i].id, id) == 0)
            return &summary->stages[i];
    fail_msg("there is no stage %s", id);
    return NULL;
}
