/* The ring of slots of an instance: the inputs, outputs, marks and memory of its calls. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_SLOT_H
#define MILLRACE_FLOW_INSTANCE_SLOT_H

#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/flow/link/link.h"

/* One item to push to every consumer of a port. */
typedef struct mr_slot_output {
    uint32_t port;
    uint32_t next; /* consumer that gets it next */
    bool made;     /* by this call: its payload is ready when the call's device work is done */
    mr_item item;
} mr_slot_output;

typedef enum mr_slot_state { MR_SLOT_FREE, MR_SLOT_RUNNING, MR_SLOT_DONE, MR_SLOT_HELD } mr_slot_state;

typedef struct mr_slot {
    mr_slot_state state;
    bool processed;        /* the stage type has consumed the inputs */
    int64_t begun_ns;      /* begin of the call, if calls are counted to a device or may be late */
    bool counted;          /* among the calls of its device */
    bool staged;           /* some of the inputs were brought in by work of this call */
    bool lost;             /* one of its marks says that an unknown number of frames is lost */
    size_t device_number;  /* of the instance's devices, that does the work */
    size_t frame_count;
    mr_frame **frames;     /* inputs: a batch, or one for each port; NULL once forwarded */
    uint32_t *sources;     /* of each */
    int64_t *entered_ns;   /* when each entered the queue */
    bool *settled;         /* dropped, absorbed or forwarded */
    size_t mark_count, mark_room, mark_next;
    mr_item *marks;        /* that came with or before the inputs; passed on behind their outputs */
    size_t output_count, output_room, output_next;
    mr_slot_output *outputs;
    size_t held_count, held_room;
    mr_buffer **held;      /* scratch buffers that device work may still use */
    size_t result_count, result_room;
    mr_result **results;   /* that device work may still write to, even if the call failed and its frame was dropped */
    size_t kept_count, kept_room;
    mr_frame **kept;       /* frames that device work may still write to, even if a full queue dropped them */
    mr_event *event;       /* of the device work; NULL: none */
    mr_event_wait wait;    /* of an entry, for the event */
    struct mr_entry_task *awaits_turn; /* its entry, to be woken when all earlier calls are done; NULL: does not wait */
} mr_slot;

/* Adds a frame to the slot's inputs, of which it has room for a batch or one for each port. */
static inline void mr_slot_add_frame(mr_slot *slot, const mr_item *item) {
    slot->frames[slot->frame_count] = item->frame;
    slot->sources[slot->frame_count] = item->source;
    slot->entered_ns[slot->frame_count] = item->entered_ns;
    slot->settled[slot->frame_count++] = false;
}

/* The destinations of an output port: for each consumer, the link that takes a source's frames (NULL: takes none). */
typedef struct mr_route {
    size_t consumer_count;
    mr_link *const **links; /* [consumer][source] */
} mr_route;

/* The ring of slots, and the routes of their outputs (slots.h, outputs.h above this folder). */
typedef struct mr_slot_ring {
    size_t in_flight;        /* slots that may hold anything at once: the plan sizes pools for this number */
    size_t slot_count;       /* at least as many; a power of two */
    mr_slot *slots;
    uint64_t freed, pushed, claimed; /* slots, ever; freed <= pushed <= claimed */
    uint64_t released;       /* slots, ever, that hold nothing any more; at least those that are freed */
    bool stuck;              /* an output found no room */
    bool reported;           /* its end was reported to the graph */
    bool marks_gaps;         /* a join or a reordering cut comes behind: frames that go no further leave a gap */
    bool hands_on;           /* one stage on the same device takes all outputs: their work may be one */
    mr_route *routes;        /* one an output port; owned by the graph */
} mr_slot_ring;

#endif
