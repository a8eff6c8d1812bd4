/* zmq.sub: frames that other programs publish over ZeroMQ. */
#include "stages/list.h"
#include "stages/zmq/zmq_source.h"

static int open_sub(mr_stage *self) {
    return mr_zmq_source_open(self, ZMQ_SUB);
}

static const mr_port outputs[] = {{.name = "out", .help = "encoded images, or pictures or tensors with `format`"}, {0}};
static const mr_option options[] = {
    MR_ZMQ_SOURCE_OPTIONS,
    {.name = "topic", .kind = MR_OPTION_STRING, .offset = MR_ZMQ_SOURCE_FIELD(topic), .example = "camera",
     .help = "only messages whose topic begins with this text; all by default"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_zmq_sub_source = {
    .name = "zmq.sub",
    .summary = "takes images, pictures or tensors that other programs publish over ZeroMQ",
    .help = "A message is a topic, a record, at least {}, and the payload. Programs send messages with a PUB socket. "
            "The rest is as for zmq.pull, but programs never wait: if the pipeline has no room for a message, ZeroMQ "
            "discards it without counting it.",
    .outputs = outputs,
    .options = options,
    .open = open_sub,
    MR_ZMQ_SOURCE_TYPE,
};
