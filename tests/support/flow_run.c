#include "tests/support/flow_run.h"
#include "tests/support/suite.h"

#include <stdio.h>

#include "tests/support/opened.h"
#include "tests/support/worker_counts.h"

mr_pipeline *flow_open(const char *text, uint64_t seed, int workers) {
    const mr_pipeline_params params = {
        .types = flow_stage_types(), .path = "p.yaml", .text = text, .seed = seed, .workers = workers};
    flow_stages_reset();
    return opened(&params);
}

mr_summary *flow_end(mr_pipeline *pipeline) {
    mr_summary *summary;
    assert_int_equal(ended(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    assert_true(summary->balanced);
    assert_int_equal(summary->in_flight, 0);
    return summary;
}

mr_summary *flow_run(mr_pipeline *pipeline) {
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return flow_end(pipeline);
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
