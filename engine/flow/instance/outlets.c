#include "engine/flow/instance/outlets.h"

size_t mr_outlets_untaken(const mr_outlets *outlets) {
    size_t untaken = 0;
    for (size_t port = 0; port < outlets->port_count; port++)
        untaken += outlets->routes[port].consumer_count == 0;
    return untaken;
}

bool mr_outlets_have_room(const mr_outlets *outlets, uint32_t source, uint32_t coming, mr_task *task) {
    for (size_t port = 0; port < outlets->port_count; port++) {
        const mr_route *route = &outlets->routes[port];
        for (size_t i = 0; i < route->consumer_count; i++) {
            mr_link *link = route->links[i][source];
            if (link && !mr_link_has_room(link, source, coming, task))
                return false;
        }
    }
    return true;
}

/* Pushes to one consumer; if others want the frame too, this one gets a reference of its own. */
static bool push_to(mr_link *link, mr_slot_output *output, bool last, mr_task *task) {
    if (last) {
        if (!mr_link_push(link, &output->item, task))
            return false;
        output->item.frame = NULL;
        return true;
    }
    mr_item item = output->item;
    if (item.frame)
        mr_frame_ref(item.frame);
    bool pushed = mr_link_push(link, &item, task);
    if (!pushed && item.frame)
        mr_frame_unref(&item.frame);
    return pushed;
}

bool mr_outlets_push(mr_outlets *outlets, mr_slot_output *output, mr_task *task) {
    const mr_route *route = &outlets->routes[output->port];
    for (; output->next < route->consumer_count; output->next++) {
        mr_link *link = route->links[output->next][output->item.source];
        if (link && !push_to(link, output, output->next + 1 == route->consumer_count, task)) {
            outlets->stuck = true;
            return false;
        }
    }
    return true;
}

const mr_link *mr_outlets_full_link(const mr_outlets *outlets, const mr_slot_output *output) {
    return outlets->routes[output->port].links[output->next][output->item.source];
}
