/* One call's inputs, outputs, marks and memory. Internal to the engine. */
#pragma once

#include "engine/device/device.h"
#include "engine/flow/instance/holds.h"
#include "engine/flow/link/link.h"

/* One item to push to every consumer on a port. */
typedef struct mr_slot_output {
    uint32_t port;
    uint32_t next; /* the consumer to push to next */
    bool made;     /* made by this call: the payload is ready when the device work is done */
    bool dropped;  /* the call failed: the frame is dropped when it would be pushed */
    mr_item item;
} mr_slot_output;

/* One input frame. */
typedef struct mr_slot_input {
    mr_frame *frame;     /* NULL once forwarded */
    int64_t entered_ns;  /* when it entered the queue */
    uint32_t source;
    bool settled;        /* dropped, absorbed or forwarded */
    bool passed;         /* the stage does no work for it (mr_io_passes) */
} mr_slot_input;

typedef enum mr_slot_state { MR_SLOT_FREE, MR_SLOT_RUNNING, MR_SLOT_DONE, MR_SLOT_HELD } mr_slot_state;

typedef struct mr_slot {
    mr_slot_state state;
    bool processed;        /* the stage type consumed the inputs */
    int64_t begun_ns;      /* when the call began, if a device counts calls or frames can be late */
    bool counted;          /* counted among the device's calls */
    bool staged;           /* this call copied some inputs to the device */
    size_t ends;           /* marks that end the objects of a frame */
    bool lost;             /* a mark says that an unknown number of frames is lost; when gathering, that some of
                              the frame's objects are lost */
    bool unended;          /* nobody can know when the device work ends */
    size_t device_number;  /* the instance's device that does the work */
    size_t frame_count;
    mr_slot_input *inputs; /* a batch, or one for each port */
    size_t mark_count, mark_room, mark_next;
    mr_item *marks;        /* arrived with or before the inputs; passed on after the outputs */
    size_t output_count, output_room, output_next, output_first; /* output_first: the call's first */
    mr_slot_output *outputs;
    const char *failure;   /* why outputs are dropped */
    mr_holds holds;        /* what the device work may still use */
    mr_event *event;       /* for the device work; NULL: none */
    mr_event_wait wait;    /* for an entry that waits on the event */
    struct mr_entry_task *awaits_turn; /* the entry to wake when all earlier calls are done; NULL: none waits */
} mr_slot;

/* Adds an input frame. There must be room: a slot can hold a batch, or one frame for each port. */
static inline void mr_slot_add_frame(mr_slot *slot, const mr_item *item) {
    mr_slot_input *input = &slot->inputs[slot->frame_count++];
    input->frame = item->frame;
    input->entered_ns = item->entered_ns;
    input->source = item->source;
    input->settled = input->passed = false;
}

/* Allocates room for this many inputs. MR_ERROR_MEMORY. */
int mr_slot_create(mr_slot *slot, size_t frames);
void mr_slot_destroy(mr_slot *slot);
int mr_slot_add_mark(mr_slot *slot, const mr_item *mark);
/* As mr_slot_next_output; makes room if there is none. */
mr_slot_output *mr_slot_grow_outputs(mr_slot *slot, const char *stage);
/* The entry for the call's next output; the caller must fill it in. NULL: no memory, with a message about the stage. */
static inline mr_slot_output *mr_slot_next_output(mr_slot *slot, const char *stage) {
    bool room = slot->output_count < slot->output_room;
    return room ? &slot->outputs[slot->output_count++] : mr_slot_grow_outputs(slot, stage);
}
/* Adds a copy of the mark for each output port. */
int mr_slot_add_mark_outputs(mr_slot *slot, size_t port_count, const mr_item *mark, const char *stage);
/* A call begins: its outputs and what it holds come after those that the slot has. */
static inline void mr_slot_begin_call(mr_slot *slot) {
    slot->output_first = slot->output_count;
    mr_holds_begin(&slot->holds);
}
/* The call failed: drops the frames among its outputs for this reason. */
void mr_slot_drop_outputs(mr_slot *slot, const char *reason);
/* Drops all references and frees the slot. If the device work has no known end, keeps the memory that it may use. NULL:
 * the streams are gone. */
void mr_slot_free(mr_slot *slot, mr_abandonment *kept);
