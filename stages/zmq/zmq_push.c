/* zmq.push: sends frames as messages, each to one connected program. */
#include <zmq.h>

#include "stages/list.h"
#include "stages/zmq/zmq_sink.h"

/* Without a connected peer nothing is accepted, so that nothing waits for a connection that never comes. */
static int open_push(mr_stage *self) {
    static const int switches[] = {ZMQ_IMMEDIATE, 0};
    return mr_zmq_sink_open(self, ZMQ_PUSH, switches);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with any payload"}, {0}};
static const mr_option options[] = {MR_ZMQ_SINK_OPTIONS, MR_OPTIONS_END};

const mr_stage_type mr_zmq_push_stage = {
    .name = "zmq.push",
    .summary = "sends frames to other programs over ZeroMQ, each to one program",
    .help = "A message is a record and, if asked for, the payload. Programs receive messages with a PULL socket and "
            "share the work; while none has room, the pipeline waits. A frame is delivered once its message was "
            "written to a connection. If a program dies or its connection breaks, messages that waited for it or were "
            "on the way are lost, and neither end counts them. Use `nodes` where frames must not be lost.",
    .inputs = inputs,
    .options = options,
    .open = open_push,
    MR_ZMQ_SINK_TYPE,
};
