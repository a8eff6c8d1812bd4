/* The shares of devices in the work of an instance: chooses the device of the next call, and counts calls there.
 *
 * A frame goes to the device that, by the cost of its last calls, will finish it first; to a device whose queue is full
 * only if all are. A device so slow that the others would wait for the order to be restored gets none, except for a try
 * now and then. So each device does as much as it can, whatever its speed at the time.
 *
 * Copies are not placed: they go where a frame is.
 *
 * Counts are written under the instance's lock, and read by any thread. Fields are read and written by shares.c and the
 * functions below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_SHARES_H
#define MILLRACE_FLOW_INSTANCE_SHARES_H

#include "engine/flow/instance/parts.h"
#include "engine/flow/instance/slot.h"

/* Of one device. */
typedef struct mr_share {
    atomic_bool failed;   /* its device failed: others take over, as long as there are any */
    atomic_bool disabled; /* gets no calls: the device was disabled */
    _Atomic uint64_t frames; /* that went to it */
    _Atomic uint64_t given, done; /* calls */
    _Atomic int64_t cost_ns; /* of a call on its device, by the last calls; 0: not known */
    _Atomic int64_t busy_ns; /* while its device worked, or waited for other work there */
    _Atomic int64_t done_ns; /* of copies: end of the last one */
    atomic_uint passed;   /* calls in a row that went elsewhere while it had none */
} mr_share;

typedef struct mr_shares {
    const mr_parts *parts;
    const mr_plan_vertex *vertex;
    size_t count;
    size_t working;          /* without the one in reserve, which is the last */
    mr_share *share;         /* by the number of the part */
    uint64_t spread;         /* frames that calls had room for so far */
    uint64_t turn;           /* number of the frames in a row that go to one device, from 1; 0: none yet */
    size_t turn_number;      /* number of that device */
    size_t follower_count;
    struct mr_shares **followers; /* of instances behind on the same devices, which take frames from here without a
                                     copy */
    uint64_t (*in_use)(void *context, size_t number);
    void *context;
} mr_shares;

/* `in_use`: output buffers that are in use on a device. MR_ERROR_MEMORY. */
int mr_shares_create(mr_shares *shares, const mr_parts *parts, const mr_plan_vertex *vertex,
                     uint64_t (*in_use)(void *context, size_t number), void *context);
void mr_shares_destroy(mr_shares *shares);
/* Before the run: one of its followers. MR_ERROR_MEMORY. */
int mr_shares_add_follower(mr_shares *shares, mr_shares *follower);

/* The number of the device for a call whose first frame is on that device. */
size_t mr_shares_choose(mr_shares *shares, const mr_device *device);
/* The device that takes over from that one: itself, unless it has failed or is disabled and there are others. */
size_t mr_shares_now(mr_shares *shares, size_t number);
/* Whether calls are counted: not those of the host alone, which are done when they return. */
static inline bool mr_shares_count_calls(const mr_shares *shares) {
    return shares->count > 1 || !mr_parts_are_on_host(shares->parts, 0);
}
/* A call with frames is claimed. */
static inline void mr_shares_spread(mr_shares *shares) {
    shares->spread += (uint64_t)(shares->vertex->calls.batch > 1 ? shares->vertex->calls.batch : 1);
}
/* Of calls that are counted: the call begins; another device takes it over before it has begun; its work is done. */
void mr_shares_begin(mr_shares *shares, mr_slot *slot, int64_t now_ns);
void mr_shares_move(mr_shares *shares, mr_slot *slot, size_t number);
void mr_shares_end(mr_shares *shares, mr_slot *slot, int64_t now_ns);

/* A device has failed: the next calls go elsewhere, if possible. */
typedef enum mr_share_loss {
    MR_LOSS_KNOWN, /* it was known, or the device was in reserve */
    MR_LOSS_ALONE, /* the instance has no other device */
    MR_LOSS_LAST,  /* no other device is left */
    MR_LOSS_TAKEN, /* `other` does the work from now on */
    MR_LOSS_SHARED /* the others take over */
} mr_share_loss;
mr_share_loss mr_shares_lose(mr_shares *shares, size_t number, size_t *other);
/* Whether calls could go on without that device; true if none go there. */
bool mr_shares_can_spare(const mr_shares *shares, const mr_device *device);
/* Enables calls on that device, even if they failed before, or disables them. Any thread. */
void mr_shares_enable(mr_shares *shares, const mr_device *device, bool enabled);
/* Adds the work of one of the devices. */
void mr_shares_read(const mr_shares *shares, size_t number, mr_share_summary *summary);

#endif
