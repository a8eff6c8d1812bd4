/* push: frames that the program provides with mr_pipeline_push. */
#include "stages/list.h"

typedef struct options {
    mr_format format;
} options;

/* Width, height and dimensions can stay open; each frame sets them. */
static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    if (given->format.payload != MR_PAYLOAD_PICTURE && given->format.payload != MR_PAYLOAD_TENSOR)
        return mr_refuse(negotiation, "format", "a program can push pictures and tensors only");
    negotiation->outputs[0].set = mr_format_set_of(&given->format);
    negotiation->outputs[0].external = true;
    return MR_OK;
}

static const mr_port outputs[] = {{.name = "out", .help = "frames from the program"}, {0}};

static const mr_option option_table[] = {
    {.name = "format", .kind = MR_OPTION_FORMAT, .offset = offsetof(options, format), .required = true,
     .help = "the frame format, such as \"RGB24 640x480\" or \"f32 3x224x224\""},
    MR_OPTIONS_END,
};

const mr_stage_type mr_push_source = {
    .name = "push",
    .summary = "frames that the embedding program pushes",
    .help = "Only a program that embeds the library can use it: mr_pipeline_push gives frames, mr_pipeline_end ends "
            "it.",
    .outputs = outputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_PER_SOURCE,
    .external = true,
    .negotiate = negotiate,
};
