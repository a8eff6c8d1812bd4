/* callback: passes every frame to the function that the program set with mr_pipeline_subscribe. */
#include "stages/list.h"

static int process(mr_stage *self, mr_io *io) {
    mr_stage_deliver(self, mr_io_input(io));
    return MR_DONE;
}

static const mr_port inputs[] = {{.name = "in"}, {0}};

const mr_stage_type mr_callback_stage = {
    .name = "callback",
    .summary = "hands frames to the embedding program",
    .help = "mr_pipeline_subscribe sets the function; it is called for one frame at a time, in order for each "
            "source. Without a function the frames are swallowed.",
    .inputs = inputs,
    .entry = MR_ENTRY_SHARED,
    .resumes = true,
    .process = process,
};
