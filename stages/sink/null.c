/* null, the stage: passes every frame on unchanged, or absorbs it if nothing follows. For tests and benchmarks, and as
 * the gauge for how much code a stage needs. */
#include "stages/list.h"

static int process(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

static const mr_port inputs[] = {{.name = "in"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames", .optional = true}, {0}};

const mr_stage_type mr_null_stage = {
    .name = "null",
    .summary = "passes frames on unchanged; swallows them if nothing comes after it",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .entry = MR_ENTRY_STATELESS,
    .process = process,
};
