/* Peers of a ROUTER: a number for each routing id, which libzmq assigns to connections (or peers choose; ids are any 1
 * to 255 bytes). Bounded, since any program may connect: the route that was silent for longest is forgotten, identified
 * ones last. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_ROUTE_ID_BYTES = 255 };
static const uint32_t MR_NO_ROUTE = UINT32_MAX, MR_NO_PEER = UINT32_MAX;

typedef struct mr_route_entry {
    uint32_t number; /* never reused */
    uint64_t last_received;  /* when, counted in messages */
    int fd;          /* the connection that the last message came over; -1: not known */
    uint32_t peer;   /* the peer that it belongs to; MR_NO_PEER: not known */
    bool broken;     /* nothing can be sent there; messages that came before may be unread */
    size_t bytes;
    uint8_t id[MR_ROUTE_ID_BYTES];
} mr_route_entry;

typedef struct mr_routes {
    size_t count, room;
    uint32_t next;
    uint64_t last_received;
    mr_route_entry *entries;
} mr_routes;

/* MR_ERROR_MEMORY. */
int mr_routes_init(mr_routes *routes, size_t most);
void mr_routes_fini(mr_routes *routes);
/* The number for that id, which sent a message over that connection (-1: not known). If it is new and there is no room,
 * another route is forgotten and its number is *forgotten; else that is MR_NO_ROUTE. */
uint32_t mr_routes_receive(mr_routes *routes, const void *id, size_t bytes, int fd, uint32_t *forgotten);
/* That route belongs to that peer from now on, and no other route does. Returns the entry. NULL if it was forgotten. */
const mr_route_entry *mr_routes_know(mr_routes *routes, uint32_t number, uint32_t peer);
/* The entry with that number. NULL if it was forgotten. */
mr_route_entry *mr_routes_find(const mr_routes *routes, uint32_t number);
/* Forgets a broken route and returns the number. MR_NO_ROUTE: there is none. */
uint32_t mr_routes_forget_broken(mr_routes *routes);
