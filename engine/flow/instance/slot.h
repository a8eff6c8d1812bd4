/* A slot: the inputs, outputs, marks and memory of one call. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_SLOT_H
#define MILLRACE_FLOW_INSTANCE_SLOT_H

#include "engine/device/device.h"
#include "engine/flow/instance/holds.h"
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
    mr_holds holds;        /* what its device work may still use */
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

/* Room for that number of inputs. MR_ERROR_MEMORY. */
int mr_slot_create(mr_slot *slot, size_t frames);
void mr_slot_destroy(mr_slot *slot);
int mr_slot_add_mark(mr_slot *slot, const mr_item *mark);
/* mr_slot_next_output if there is no room yet. */
mr_slot_output *mr_slot_grow_outputs(mr_slot *slot, mr_frame *frame, const char *stage);
/* The place of the next output of a call, to be filled in by the caller. If there is no memory for it, `frame` (may be
 * NULL) is dropped in the stage's name and the result is NULL. */
static inline mr_slot_output *mr_slot_next_output(mr_slot *slot, mr_frame *frame, const char *stage) {
    bool room = slot->output_count < slot->output_room;
    return room ? &slot->outputs[slot->output_count++] : mr_slot_grow_outputs(slot, frame, stage);
}
/* Adds a mark for each of that many output ports. */
int mr_slot_add_mark_outputs(mr_slot *slot, size_t port_count, const mr_item *mark, const char *stage);
/* It is not known when its device work is done: keeps all memory that the work may use. */
void mr_slot_abandon(const mr_slot *slot, mr_abandonment *kept);
/* Drops the slot's references and makes it free. */
void mr_slot_reset(mr_slot *slot);

#endif
