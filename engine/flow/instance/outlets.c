#include "engine/flow/instance/outlets.h"

void mr_outlets_set_routes(mr_outlets *outlets, const mr_route *routes, size_t port_count) {
    outlets->routes = routes;
    outlets->port_count = port_count;
    outlets->ends_frames = false;
    for (size_t port = 0; port < port_count; port++)
        outlets->ends_frames |= routes[port].consumer_count == 0;
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

bool mr_outlets_push_copy(mr_link *link, const mr_slot_output *output, mr_task *task) {
    mr_item item = output->item;
    if (item.frame)
        mr_frame_ref(item.frame);
    bool pushed = mr_link_push(link, &item, task);
    if (!pushed && item.frame)
        mr_frame_unref(&item.frame);
    return pushed;
}

const mr_link *mr_outlets_full_link(const mr_outlets *outlets, const mr_slot_output *output) {
    return outlets->routes[output->port].links[output->next][output->item.source];
}
