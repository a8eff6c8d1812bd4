/* The giving side of a cut: a sink, as far as this node is concerned. */
#include "engine/transport/cut_stages.h"

static const mr_port inputs[] = {{.name = "in", .help = "frames for another node"}, {0}};

const mr_stage_type mr_cut_out_stage = {
    .name = "cut out",
    .summary = "gives frames to another node; put in by the planner",
    .inputs = inputs,
    .options_bytes = sizeof(mr_cut),
    .entry = MR_ENTRY_SHARED,
};
