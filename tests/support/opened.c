#include "tests/support/opened.h"
#include "tests/support/suite.h"

#include <stdio.h>

mr_pipeline *opened(const mr_pipeline_params *params) {
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    if (mr_pipeline_open(&pipeline, params, &wrong)) {
        mr_diagnostics_print(&wrong, stderr);
        fail_msg("%s (seed %llu) is refused", params->path, (unsigned long long)params->seed);
    }
    mr_diagnostics_fini(&wrong);
    return pipeline;
}

int64_t patience_ns(void) {
    return is_emulated() ? INT64_C(600000000000) : INT64_C(120000000000);
}

int ended(mr_pipeline *pipeline) {
    int status = mr_pipeline_wait(pipeline, patience_ns());
    if (status == MR_ERROR_AGAIN)
        fail_msg("it hangs");
    return status;
}

mr_summary *summed(mr_pipeline *pipeline) {
    mr_summary *summary = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    assert_true(summary->balanced);
    assert_int_equal(summary->in_flight, 0);
    return summary;
}

int run_opened(mr_pipeline *pipeline, mr_summary **summary) {
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    const int status = ended(pipeline);
    *summary = summed(pipeline);
    return status;
}
