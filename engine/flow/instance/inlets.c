#include "engine/flow/instance/inlets.h"

#include <string.h>

#include "engine/base/memory.h"

int mr_inlets_create(mr_inlets *inlets, size_t port_count, size_t source_count) {
    inlets->port_count = port_count;
    inlets->source_count = source_count;
    inlets->burst = 1;
    inlets->due_ns = INT64_MAX;
    inlets->links = mr_calloc(port_count + 1, sizeof(mr_link *));
    inlets->away = mr_calloc(source_count + 1, sizeof *inlets->away);
    inlets->gathered = mr_calloc(source_count + 1, sizeof *inlets->gathered);
    return inlets->links && inlets->away && inlets->gathered ? MR_OK : MR_ERROR_MEMORY;
}

void mr_inlets_destroy(mr_inlets *inlets) {
    for (size_t i = 0; i < inlets->inbox_count; i++) {
        mr_item *item = &inlets->inbox[inlets->inbox_first + i];
        if (item->kind == MR_ITEM_FRAME)
            mr_frame_unref(&item->frame);
    }
    for (size_t port = 0; inlets->links && port < inlets->port_count; port++)
        mr_link_destroy(&inlets->links[port]);
    mr_free(inlets->links);
    mr_free(inlets->away);
    mr_free(inlets->gathered);
}

void mr_inlets_renew(mr_inlets *inlets) {
    inlets->inbox_first = inlets->inbox_count = 0;
    inlets->due_ns = INT64_MAX;
    inlets->held_up = false;
    memset(inlets->away, 0, inlets->source_count * sizeof *inlets->away);
    memset(inlets->gathered, 0, inlets->source_count * sizeof *inlets->gathered);
}
