/* What goes over a cut, in a list: what the entry has given over, and what the carrier has taken of it. Not locked:
 * whoever has the list sees to that. Internal to cut_out.c. */
#ifndef MILLRACE_TRANSPORT_CUT_ITEMS_H
#define MILLRACE_TRANSPORT_CUT_ITEMS_H

#include "engine/transport/message.h"

/* Empty when zeroed. */
typedef struct mr_cut_items {
    mr_cut_item *item;
    size_t count, room;
} mr_cut_items;

/* Takes the item's frame over; on MR_ERROR_MEMORY it stays the caller's. */
int mr_cut_items_append(mr_cut_items *list, const mr_cut_item *item);
/* Drops the frames from `next` on in the name of `stage`, since the run was stopped, and frees the list. */
void mr_cut_items_fini(mr_cut_items *list, size_t next, const char *stage);

#endif
