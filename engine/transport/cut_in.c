/* The taking side of a cut: frames that the transport has pushed into its inlet go on to whatever takes them here. */
#include "engine/flow/graph.h"
#include "engine/transport/cut_stages.h"

void mr_cut_in_end(mr_instance *instance) {
    for (size_t i = 0; i < instance->vertex->source_count; i++) {
        mr_item end = {.kind = MR_ITEM_END, .source = instance->vertex->sources[i]};
        mr_link_push(instance->ports[0], &end, NULL);
    }
}

static int process(mr_stage *self, mr_io *io) {
    (void)self;
    return mr_io_forward(io, 0);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames that another node has sent"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames"}, {0}};

const mr_stage_type mr_cut_in_stage = {
    .name = "cut in",
    .summary = "takes the frames that come over a cut; put in by the planner",
    .inputs = inputs,
    .outputs = outputs,
    .options_bytes = sizeof(mr_cut),
    .entry = MR_ENTRY_SHARED,
    .process = process,
};
