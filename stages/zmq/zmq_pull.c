/* zmq.pull: frames that other programs push over ZeroMQ. */
#include "stages/list.h"
#include "stages/zmq/zmq_source.h"

static int open_pull(mr_stage *self) {
    return mr_zmq_source_open(self, ZMQ_PULL);
}

static const mr_port outputs[] = {{.name = "out", .help = "encoded images, or pictures or tensors with `format`"}, {0}};
static const mr_option options[] = {MR_ZMQ_SOURCE_OPTIONS, MR_OPTIONS_END};

const mr_stage_type mr_zmq_pull_source = {
    .name = "zmq.pull",
    .summary = "takes images, pictures or tensors that other programs push over ZeroMQ",
    .help = "A message is a record, at least {}, followed by the payload. Programs send messages with a PUSH socket. "
            "Of the record, in JSON or protobuf, pts (seconds; pts_ns in protobuf), format and end are used; id, file "
            "and label reappear in the frame's records. Frames are numbered in order of arrival. If the pipeline has "
            "no room, the programs wait. Any other message is refused and counted as dropped.",
    .outputs = outputs,
    .options = options,
    .open = open_pull,
    MR_ZMQ_SOURCE_TYPE,
};
