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
    bool ends_frames;        /* no stage takes the frames of some port */
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
void mr_outlets_set_routes(mr_outlets *outlets, const mr_route *routes, size_t port_count);
static inline void mr_outlets_set_hand_on(mr_outlets *outlets, bool hands_on) {
    outlets->hands_on = hands_on;
}

/* Whether there is an output port whose frames no stage takes: those frames end here. */
static inline bool mr_outlets_end_frames(const mr_outlets *outlets) {
    return outlets->ends_frames;
}
/* Whether every lane that may get output of a source has room for a frame beside `coming`; if not, `task` will be
 * woken. */
bool mr_outlets_have_room(const mr_outlets *outlets, uint32_t source, uint32_t coming, mr_task *task);
/* Pushes to one consumer of several: it gets a reference of its own. */
bool mr_outlets_push_copy(mr_link *link, const mr_slot_output *output, mr_task *task);
/* Pushes an output to the consumers that have not got it, and notes if one has no room: false, and `task` will be woken
 * when it has. What no consumer takes stays in the output. */
static inline bool mr_outlets_push(mr_outlets *outlets, mr_slot_output *output, mr_task *task) {
    const mr_route *route = &outlets->routes[output->port];
    for (; output->next < route->consumer_count; output->next++) {
        mr_link *link = route->links[output->next][output->item.source];
        const bool last = output->next + 1 == route->consumer_count;
        if (!link)
            continue;
        if (last ? !mr_link_push(link, &output->item, task) : !mr_outlets_push_copy(link, output, task)) {
            outlets->stuck = true;
            return false;
        }
        if (last)
            output->item.frame = NULL;
    }
    return true;
}
/* Nothing is stuck any more, or not yet. */
static inline void mr_outlets_retry(mr_outlets *outlets) {
    outlets->stuck = false;
}
/* The link that has no room for that output. */
const mr_link *mr_outlets_full_link(const mr_outlets *outlets, const mr_slot_output *output);

#endif
