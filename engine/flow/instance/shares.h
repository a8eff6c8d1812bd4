/* Chooses the device for each call, and counts the calls on each.
 *
 * A frame goes to the device that should finish it first, judged by recent costs. A device with a full queue gets one
 * only if all are full. A device so slow that the others would wait for reordering gets none, except an occasional try.
 * So each device does as much as it can.
 *
 * Copies are not distributed: they go where the frame is.
 *
 * Counts are written under the instance's lock; any thread may read them. Only shares.c and the functions below may
 * touch the fields. Internal to the engine. */
#pragma once

#include "engine/flow/instance/parts.h"
#include "engine/flow/instance/slot.h"

/* For one device. */
typedef struct mr_share {
    atomic_bool failed;   /* the device failed: others take over if there are any */
    atomic_bool disabled; /* the device was disabled: it gets no calls */
    _Atomic uint64_t frames; /* sent to it */
    _Atomic uint64_t given, done; /* calls */
    _Atomic int64_t cost_ns; /* per call, estimated from recent calls; 0: not known */
    _Atomic int64_t busy_ns; /* while the device worked, or waited for other work there */
    _Atomic int64_t done_ns; /* for copies: when the last one ended */
    atomic_uint passed;   /* calls in a row that went elsewhere while it was idle */
} mr_share;

typedef struct mr_shares {
    const mr_parts *parts;
    const mr_plan_vertex *vertex;
    size_t count;
    size_t working;          /* without the reserve, which is last */
    mr_share *share;         /* by part number */
    uint64_t spread;         /* frames that calls had room for so far */
    uint64_t turn;           /* counts groups of frames that must go to one device, from 1; 0: none yet */
    size_t turn_number;      /* that device's number */
    size_t follower_count;
    struct mr_shares **followers; /* instances downstream on the same devices, which take frames without a copy */
    uint64_t (*in_use)(void *context, size_t number);
    void *context;
} mr_shares;

/* `in_use` must return how many output buffers a device has in use. MR_ERROR_MEMORY. */
int mr_shares_create(mr_shares *shares, const mr_parts *parts, const mr_plan_vertex *vertex,
                     uint64_t (*in_use)(void *context, size_t number), void *context);
void mr_shares_destroy(mr_shares *shares);
/* Adds a follower. Call before the run. MR_ERROR_MEMORY. */
int mr_shares_add_follower(mr_shares *shares, mr_shares *follower);

/* Chooses the device for a call whose first frame is on `device`. */
size_t mr_shares_choose(mr_shares *shares, const mr_device *device);
/* Returns the device to use now: `number`, unless that device has failed or is disabled and another can take over. */
size_t mr_shares_now(mr_shares *shares, size_t number);
/* Whether calls must be counted. Calls on the host alone are done when they return, and are not. */
static inline bool mr_shares_count_calls(const mr_shares *shares) {
    return shares->count > 1 || !mr_parts_are_on_host(shares->parts, 0);
}
/* A call with frames was claimed. */
static inline void mr_shares_spread(mr_shares *shares) {
    shares->spread += (uint64_t)(shares->vertex->calls.batch > 1 ? shares->vertex->calls.batch : 1);
}
/* For calls that are counted: one begins; another device takes it over before it has begun; its work is done. */
void mr_shares_begin(mr_shares *shares, mr_slot *slot, int64_t now_ns);
void mr_shares_move(mr_shares *shares, mr_slot *slot, size_t number);
void mr_shares_end(mr_shares *shares, mr_slot *slot, int64_t now_ns);

/* Notes a failed device; the next calls go elsewhere if they can. The result says what this means. */
typedef enum mr_share_loss {
    MR_LOSS_KNOWN, /* already known, or the device was the reserve */
    MR_LOSS_ALONE, /* the instance has no other device */
    MR_LOSS_LAST,  /* no other device is left */
    MR_LOSS_TAKEN, /* `other` now does the work */
    MR_LOSS_SHARED /* the others take over */
} mr_share_loss;
mr_share_loss mr_shares_lose(mr_shares *shares, size_t number, size_t *other);
/* Whether the stage can continue without that device; true if it does not use it. */
bool mr_shares_can_spare(const mr_shares *shares, const mr_device *device);
/* Enables a device, even after a failure, or disables it. Any thread. */
void mr_shares_enable(mr_shares *shares, const mr_device *device, bool enabled);
/* Adds one device's work to the summary. */
void mr_shares_read(const mr_shares *shares, size_t number, mr_share_summary *summary);
