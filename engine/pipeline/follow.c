/* spans.h: the spans of frames that are followed. */
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "millrace/spans.h"

void mr_pipeline_follow(mr_pipeline *pipeline, double share) {
    if (pipeline->graph)
        pipeline->graph->followed = share;
}

static mr_spans *spans_of(const mr_pipeline *pipeline) {
    return pipeline->graph ? pipeline->graph->run.spans : NULL;
}

size_t mr_pipeline_spans(mr_pipeline *pipeline, mr_span *spans, size_t room) {
    return spans_of(pipeline) ? mr_spans_take(spans_of(pipeline), spans, room) : 0;
}

void mr_pipeline_forget_spans(mr_pipeline *pipeline, size_t count, size_t lost) {
    if (spans_of(pipeline))
        mr_spans_forget(spans_of(pipeline), count, lost);
}
