#include "engine/transport/zmq/routes.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

int mr_routes_init(mr_routes *routes, size_t most) {
    *routes = (mr_routes){.room = most, .entries = mr_calloc(most, sizeof *routes->entries)};
    return routes->entries ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu connections", most);
}

void mr_routes_fini(mr_routes *routes) {
    mr_free(routes->entries);
    *routes = (mr_routes){0};
}

static mr_route_entry *find_id(mr_routes *routes, const void *id, size_t bytes) {
    for (size_t i = 0; i < routes->count; i++)
        if (routes->entries[i].bytes == bytes && memcmp(routes->entries[i].id, id, bytes) == 0)
            return &routes->entries[i];
    return NULL;
}

static bool gives_way(const mr_route_entry *one, const mr_route_entry *to) {
    bool known = one->peer != MR_NO_PEER, to_known = to->peer != MR_NO_PEER;
    return known == to_known ? one->last_received < to->last_received : to_known;
}

static mr_route_entry *oldest(mr_routes *routes) {
    mr_route_entry *found = &routes->entries[0];
    for (size_t i = 1; i < routes->count; i++)
        if (gives_way(&routes->entries[i], found))
            found = &routes->entries[i];
    return found;
}

uint32_t mr_routes_receive(mr_routes *routes, const void *id, size_t bytes, int fd, uint32_t *forgotten) {
    mr_route_entry *entry = find_id(routes, id, bytes);
    *forgotten = MR_NO_ROUTE;
    if (!entry) {
        bool full = routes->count == routes->room;
        entry = full ? oldest(routes) : &routes->entries[routes->count++];
        if (full)
            *forgotten = entry->number;
        entry->number = routes->next++;
        entry->peer = MR_NO_PEER;
        entry->fd = -1;
        entry->broken = false;
        entry->bytes = bytes;
        memcpy(entry->id, id, bytes);
    }
    entry->last_received = ++routes->last_received;
    if (fd >= 0)
        entry->fd = fd;
    return entry->number;
}

const mr_route_entry *mr_routes_know(mr_routes *routes, uint32_t number, uint32_t peer) {
    const mr_route_entry *known = NULL;
    for (size_t i = 0; i < routes->count; i++) {
        mr_route_entry *entry = &routes->entries[i];
        if (entry->number == number) {
            entry->peer = peer;
            known = entry;
        } else if (entry->peer == peer) {
            entry->peer = MR_NO_PEER;
        }
    }
    return known;
}

mr_route_entry *mr_routes_find(const mr_routes *routes, uint32_t number) {
    for (size_t i = 0; i < routes->count; i++)
        if (routes->entries[i].number == number)
            return &routes->entries[i];
    return NULL;
}

uint32_t mr_routes_forget_broken(mr_routes *routes) {
    for (size_t i = 0; i < routes->count; i++)
        if (routes->entries[i].broken) {
            uint32_t number = routes->entries[i].number;
            routes->entries[i] = routes->entries[--routes->count];
            return number;
        }
    return MR_NO_ROUTE;
}
