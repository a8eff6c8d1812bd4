/* zmq.pub: sends frames as messages to every subscriber. XPUB, unlike PUB, reports subscribers. */
#include <zmq.h>

#include "stages/list.h"
#include "stages/zmq/zmq_sink.h"

static int open_pub(mr_stage *self) {
    static const int fair[] = {ZMQ_XPUB_VERBOSER, 0}, whole[] = {ZMQ_XPUB_VERBOSER, ZMQ_XPUB_NODROP, 0};
    const mr_zmq_sink_options *given = self->options;
    return mr_zmq_sink_open(self, ZMQ_XPUB, given->slow == MR_ZMQ_SLOW_DROP ? whole : fair);
}

static const char *const slow[] = {[MR_ZMQ_SLOW_DROP] = "drop", [MR_ZMQ_SLOW_LEAVE_OUT] = "leave-out", NULL};
static const mr_port inputs[] = {{.name = "in", .help = "frames with any payload"}, {0}};
static const mr_option options[] = {
    MR_ZMQ_SINK_OPTIONS,
    {.name = "topic", .kind = MR_OPTION_STRING, .offset = MR_ZMQ_SINK_FIELD(topic), .example = "results",
     .help = "each message's first part, by which subscribers choose; if not given, the frame's source id"},
    {.name = "subscribers", .kind = MR_OPTION_INT, .offset = MR_ZMQ_SINK_FIELD(subscribers), .fallback = "0", .min = 0,
     .max = 1000000, .unit = "subscriptions", .help = "wait for this many subscribers before the first message"},
    {.name = "slow", .kind = MR_OPTION_ENUM, .offset = MR_ZMQ_SINK_FIELD(slow), .fallback = "drop", .choices = slow,
     .help = "action while a subscriber has high_water messages waiting: drop frames for all subscribers, and count "
             "them; or skip them for that one, which can detect it only by their numbers"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_zmq_pub_stage = {
    .name = "zmq.pub",
    .summary = "sends frames to all programs that have subscribed, over ZeroMQ",
    .help = "A message is a topic, a record and, if asked for, the payload. Programs receive messages with a SUB "
            "socket. The pipeline never waits for a slow subscriber: a frame that all of them got is delivered, and "
            "one that a subscriber had no room for is dropped, \"slow subscriber\". A subscriber that connects later "
            "misses the frames before.",
    .inputs = inputs,
    .options = options,
    .open = open_pub,
    MR_ZMQ_SINK_TYPE,
};
