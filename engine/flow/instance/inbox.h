/* Frames and marks on their way into slots. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_INBOX_H
#define MILLRACE_FLOW_INSTANCE_INBOX_H

#include "engine/flow/link/link.h"
#include "engine/plan/plan_data.h"

enum { MR_BURST = 16, MR_MAX_PORTS = MR_SPEC_MAX_PORTS };

/* Frames and marks on their way into slots (intake.h). */
typedef struct mr_intake {
    size_t port_count;
    mr_link **ports;         /* input links, one a port */
    mr_item inbox[MR_BURST]; /* popped, not yet in a slot */
    size_t inbox_first, inbox_count, burst;
    bool held_up;            /* the last look at the queue found frames without room behind this stage */
    size_t join_turn;        /* of several ports: the source that is tried first */
    bool *away_reported;     /* likewise, by source: every port is away (gap.h), and the stages behind know */
    int64_t batch_due_ns;    /* when the batch that is gathered leaves; INT64_MAX: not set */
    uint32_t first_epoch;    /* of a source whose frames the program pushes */
} mr_intake;

#endif
