/* The outlets of an instance: where the items of each output port go, and whether that way asks for gaps. Set before
 * the run; then constant but for `stuck`, which is under the instance's lock. Its fields are read and written by
 * outlets.c and the functions below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_OUTLETS_H
#define MILLRACE_FLOW_INSTANCE_OUTLETS_H

#include "engine/flow/instance/slot.h"

/* The destinations of an output port: for each consumer, the link that takes a source's frames (NULL: takes none). */
typedef struct mr_route {
    size_t consumer_count;
    mr_link *const **links; /* [consumer][source] */
} mr_route;

typedef struct mr_outlets {
    size_t port_count;
    const mr_route *routes;  /* one an output port; owned by the wiring */
    bool marks_gaps;         /* a join or a reordering cut comes behind: frames that go no further leave a gap */
    bool hands_on;           /* one stage on the same device takes all outputs: their work may be one */
    bool stuck;              /* an output found no room */
} mr_outlets;

static inline bool mr_outlets_mark_gaps(const mr_outlets *outlets) {
    return outlets->marks_gaps;
}
static inline bool mr_outlets_hand_on(const mr_outlets *outlets) {
    return outlets->hands_on;
}
static inline bool mr_outlets_are_stuck(const mr_outlets *outlets) {
    return outlets->stuck;
}
/* Before the run. */
static inline void mr_outlets_set_gaps(mr_outlets *outlets, bool marks_gaps) {
    outlets->marks_gaps = marks_gaps;
}
static inline void mr_outlets_set_routes(mr_outlets *outlets, const mr_route *routes, size_t port_count) {
    outlets->routes = routes;
    outlets->port_count = port_count;
}
static inline void mr_outlets_set_hand_on(mr_outlets *outlets, bool hands_on) {
    outlets->hands_on = hands_on;
}

/* Output ports whose frames no stage takes: those frames end here. */
size_t mr_outlets_untaken(const mr_outlets *outlets);
/* Whether every lane that may get output of a source has room for a frame beside `coming`; if not, `task` will be
 * woken. */
bool mr_outlets_have_room(const mr_outlets *outlets, uint32_t source, uint32_t coming, mr_task *task);
/* Pushes an output to the consumers that have not got it, and notes if one has no room: false, and `task` will be woken
 * when it has. What no consumer takes stays in the output. */
bool mr_outlets_push(mr_outlets *outlets, mr_slot_output *output, mr_task *task);
/* Nothing is stuck any more, or not yet. */
static inline void mr_outlets_retry(mr_outlets *outlets) {
    outlets->stuck = false;
}
/* The link that has no room for that output. */
const mr_link *mr_outlets_full_link(const mr_outlets *outlets, const mr_slot_output *output);

#endif
