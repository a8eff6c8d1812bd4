/* An instance's outlets: the routes for each output port, and whether stages downstream need gaps. Set before the run;
 * only `stuck` changes then, and needs the instance's lock. Only outlets.c and the functions below may touch the
 * fields. Internal to the engine. */
#pragma once

#include "engine/flow/instance/slot.h"

/* An output port's destinations: for each consumer, the link that takes a source's frames (NULL: the consumer takes
 * none). */
typedef struct mr_route {
    size_t consumer_count;
    mr_link *const **links; /* [consumer][source] */
} mr_route;

typedef struct mr_outlets {
    size_t port_count;
    const mr_route *routes;  /* one for each output port; the wiring owns them */
    bool marks_gaps;         /* a join or a reordering cut follows: dropped frames must leave a gap */
    bool ends_frames;        /* some port has no consumer */
    bool hands_on;           /* one stage on the same device takes all outputs: work can be submitted together */
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
/* Call before the run. */
static inline void mr_outlets_set_gaps(mr_outlets *outlets, bool marks_gaps) {
    outlets->marks_gaps = marks_gaps;
}
void mr_outlets_set_routes(mr_outlets *outlets, const mr_route *routes, size_t port_count);
static inline void mr_outlets_set_hand_on(mr_outlets *outlets, bool hands_on) {
    outlets->hands_on = hands_on;
}

/* Whether some output port has no consumer, so that frames end here. */
static inline bool mr_outlets_end_frames(const mr_outlets *outlets) {
    return outlets->ends_frames;
}
/* Whether every lane that may get output from this source has room for one frame more than `coming`. If not, `task`
 * will be woken. */
bool mr_outlets_have_room(const mr_outlets *outlets, uint32_t source, uint32_t coming, mr_task *task);
/* Pushes to one of several consumers, with a separate reference. */
bool mr_outlets_push_copy(mr_link *link, const mr_slot_output *output, mr_task *task);
/* Pushes an output to each consumer that has not received it. If one has no room, notes that and returns false; `task`
 * will be woken when there is room. An output without a last consumer keeps the frame. */
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
/* Outputs may be pushed again. */
static inline void mr_outlets_retry(mr_outlets *outlets) {
    outlets->stuck = false;
}
/* The link that has no room for this output. */
const mr_link *mr_outlets_full_link(const mr_outlets *outlets, const mr_slot_output *output);
