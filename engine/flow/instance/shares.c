#include "engine/flow/instance/shares.h"

#include "engine/base/memory.h"
#include "engine/device/device.h"

/* An idle device is tried again after this many calls went elsewhere: it may have become faster. */
enum { PATIENCE = 256 };
/* How much of the difference to the last call enters the known cost. */
static const double NEWS = 0.25;
/* Calls that keep a device busy: it works on one while the next is copied there. */
enum { KEEPS_BUSY = 2 };

static uint64_t batch_of(const mr_shares *shares) {
    return (uint64_t)(shares->vertex->calls.batch > 1 ? shares->vertex->calls.batch : 1);
}

int mr_shares_create(mr_shares *shares, const mr_parts *parts, const mr_plan_vertex *vertex,
                     uint64_t (*in_use)(void *context, size_t number), void *context) {
    shares->parts = parts;
    shares->vertex = vertex;
    shares->in_use = in_use;
    shares->context = context;
    shares->count = mr_parts_count(parts);
    shares->working = vertex->devices.count;
    shares->share = mr_calloc(shares->count, sizeof *shares->share);
    return shares->share ? MR_OK : MR_ERROR_MEMORY;
}

void mr_shares_destroy(mr_shares *shares) {
    mr_free(shares->share);
    mr_free(shares->followers);
}

int mr_shares_add_follower(mr_shares *shares, mr_shares *follower) {
    mr_shares **grown = mr_realloc(shares->followers, (shares->follower_count + 1) * sizeof *grown);
    if (!grown)
        return MR_ERROR_MEMORY;
    shares->followers = grown;
    grown[shares->follower_count++] = follower;
    return MR_OK;
}

static bool is_usable(const mr_share *state) {
    return !atomic_load_explicit(&state->failed, memory_order_relaxed) &&
           !atomic_load_explicit(&state->disabled, memory_order_relaxed);
}

/* ---- work and speed of a device -------------------------------------------------------------------------------- */

static double cost_here(const mr_shares *shares, size_t number) {
    int64_t cost = atomic_load_explicit(&shares->share[number].cost_ns, memory_order_relaxed);
    return (double)cost / (double)batch_of(shares);
}

/* Nanoseconds per frame, here and in following stages on the same device; 0: at least one cost is unknown. */
static double cost_of(const mr_shares *shares, size_t number) {
    double cost = cost_here(shares, number);
    for (size_t i = 0; i < shares->follower_count && cost > 0; i++) {
        double more = cost_here(shares->followers[i], number);
        cost = more > 0 ? cost + more : 0;
    }
    return cost;
}

static uint64_t calls_of(const mr_share *state) {
    return atomic_load_explicit(&state->given, memory_order_relaxed) -
           atomic_load_explicit(&state->done, memory_order_relaxed);
}

/* Frames still to do on a device. If following stages use the same device, buffers in use count too: this stage's
 * outputs stay in use until those stages are done. */
static uint64_t backlog(mr_shares *shares, size_t number) {
    const mr_share *state = &shares->share[number];
    uint64_t frames = calls_of(state) * batch_of(shares), lying = 0;
    if (shares->follower_count && shares->vertex->pools[0].memory == MR_MEMORY_DEVICE)
        lying = shares->in_use(shares->context, number);
    return frames > lying ? frames : lying;
}

static bool has_room(const mr_shares *shares, uint64_t frames) {
    uint64_t calls =
        ((uint64_t)shares->vertex->calls.in_flight + shares->working - 1) / shares->working;
    uint64_t here = calls * batch_of(shares),
             behind = KEEPS_BUSY * (uint64_t)shares->vertex->devices.turn;
    return frames < (here > behind ? here : behind);
}

/* ---- whose turn it is ------------------------------------------------------------------------------------------ */

typedef struct bid {
    bool room;
    double finish; /* when it would finish one more call, in nanoseconds from now */
    uint64_t given;
} bid;

static bid bid_of(mr_shares *shares, size_t number, double fastest) {
    double cost = cost_of(shares, number);
    uint64_t frames = backlog(shares, number);
    return (bid){has_room(shares, frames),
                 (double)(frames + batch_of(shares)) * (cost > 0 ? cost : fastest),
                 atomic_load_explicit(&shares->share[number].given, memory_order_relaxed)};
}

static bool beats(const bid *one, const bid *other) {
    if (one->room != other->room)
        return one->room;
    return one->finish < other->finish || (one->finish == other->finish && one->given < other->given);
}

/* Frames per nanosecond for all devices together, and the fastest device's cost. */
typedef struct field {
    double frames_a_ns, fastest;
} field;

static field survey(const mr_shares *shares) {
    field all = {.fastest = 1};
    for (size_t i = 0; i < shares->working; i++) {
        double cost = is_usable(&shares->share[i]) ? cost_of(shares, i) : 0;
        if (cost > 0 && (all.frames_a_ns == 0 || cost < all.fastest))
            all.fastest = cost;
        all.frames_a_ns += cost > 0 ? 1 / cost : 0;
    }
    return all;
}

/* Whether it has been idle long enough to be tried again. */
static bool is_due(const mr_shares *shares, size_t number) {
    return atomic_load_explicit(&shares->share[number].passed, memory_order_relaxed) >= PATIENCE;
}

/* While it does one frame, the others do more frames than may wait for reordering. */
static bool is_too_slow(const mr_shares *shares, size_t number, const field *all) {
    double cost = cost_of(shares, number);
    return cost > 0 && !is_due(shares, number) &&
           cost * all->frames_a_ns - 1 > (double)(MR_PLAN_REORDERED * shares->working) / KEEPS_BUSY;
}

/* The best usable device; `working` if there is none. */
static size_t best_part(mr_shares *shares, bool any_speed) {
    const field all = survey(shares);
    size_t best = shares->working;
    bid highest = {0};
    for (size_t i = 0; i < shares->working; i++) {
        if (!is_usable(&shares->share[i]) || (!any_speed && is_too_slow(shares, i, &all)))
            continue;
        const bid made = bid_of(shares, i, all.fastest);
        if (is_due(shares, i) && made.room)
            return i;
        if (best == shares->working || beats(&made, &highest)) {
            best = i;
            highest = made;
        }
    }
    return best == shares->working && !any_speed ? best_part(shares, true) : best;
}

static size_t instead_of(mr_shares *shares, size_t number) {
    size_t best = best_part(shares, false);
    if (best < shares->working)
        return best;
    if (shares->working < shares->count &&
        !atomic_load_explicit(&shares->share[shares->working].disabled, memory_order_relaxed))
        return shares->working;
    return number;
}

size_t mr_shares_now(mr_shares *shares, size_t number) {
    bool fixed = shares->count == 1 || shares->vertex->copy || number >= shares->working;
    return fixed || is_usable(&shares->share[number]) ? number : instead_of(shares, number);
}

static uint64_t turn_now(const mr_shares *shares) {
    return shares->spread / (uint64_t)shares->vertex->devices.turn + 1;
}

size_t mr_shares_choose(mr_shares *shares, const mr_device *device) {
    size_t reserve = shares->working, number = reserve;
    for (size_t i = 0; i < shares->working && number == reserve; i++)
        number = mr_parts_stage(shares->parts, i)->device == device ? i : reserve;
    /* A copy goes to the device that has the frame. */
    if (shares->vertex->copy)
        return number < reserve || reserve < shares->count ? number : 0;
    if (number < reserve)
        return mr_shares_now(shares, number);
    /* A batch downstream can stay whole if all its frames are on one device. */
    if (shares->turn == turn_now(shares) &&
        is_usable(&shares->share[shares->turn_number]))
        return shares->turn_number;
    return instead_of(shares, 0);
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

static void count_passed(mr_shares *shares, size_t chosen) {
    for (size_t i = 0; i < shares->working; i++) {
        mr_share *state = &shares->share[i];
        unsigned passed = atomic_load_explicit(&state->passed, memory_order_relaxed);
        passed = i == chosen || calls_of(state) ? 0 : passed + 1;
        atomic_store_explicit(&state->passed, passed, memory_order_relaxed);
    }
}

static void count_in(mr_share *state, uint64_t calls, uint64_t frames) {
    atomic_fetch_add_explicit(&state->given, calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&state->frames, frames, memory_order_relaxed);
}

void mr_shares_begin(mr_shares *shares, mr_slot *slot, int64_t now_ns) {
    slot->counted = true;
    slot->begun_ns = now_ns;
    if (slot->device_number < shares->working)
        shares->turn_number = slot->device_number;
    shares->turn = slot->device_number < shares->working ? turn_now(shares) : 0;
    count_passed(shares, slot->device_number);
    count_in(&shares->share[slot->device_number], 1, slot->frame_count);
}

void mr_shares_move(mr_shares *shares, mr_slot *slot, size_t number) {
    if (number != slot->device_number && slot->counted) {
        count_in(&shares->share[slot->device_number], (uint64_t)-1, (uint64_t)-(int64_t)slot->frame_count);
        count_in(&shares->share[number], 1, slot->frame_count);
    }
    slot->device_number = number;
}

/* When the device last finished such work: copies run beside other work. */
static int64_t last_done(mr_shares *shares, size_t number, int64_t now_ns) {
    _Atomic int64_t *done =
        shares->vertex->copy ? &shares->share[number].done_ns : &mr_parts_stage(shares->parts, number)->device->done_ns;
    return atomic_exchange_explicit(done, now_ns, memory_order_relaxed);
}

void mr_shares_end(mr_shares *shares, mr_slot *slot, int64_t now_ns) {
    mr_share *state = &shares->share[slot->device_number];
    slot->counted = false;
    atomic_fetch_add_explicit(&state->done, 1, memory_order_relaxed);
    /* A failed call does not show the cost. */
    if (slot->event && mr_event_status(slot->event) < 0)
        return;
    int64_t last = last_done(shares, slot->device_number, now_ns), from = last > slot->begun_ns ? last : slot->begun_ns;
    int64_t spent = now_ns > from ? now_ns - from : 0;
    int64_t known = atomic_load_explicit(&state->cost_ns, memory_order_relaxed);
    int64_t cost = known ? known + (int64_t)(NEWS * (double)(spent - known)) : spent;
    atomic_store_explicit(&state->cost_ns, cost, memory_order_relaxed);
    atomic_fetch_add_explicit(&state->busy_ns, spent, memory_order_relaxed);
}

/* ---- losing and enabling devices --------------------------------------------------------------------------------- */

mr_share_loss mr_shares_lose(mr_shares *shares, size_t number, size_t *other) {
    if (shares->count == 1 || shares->vertex->copy)
        return MR_LOSS_ALONE;
    if (number >= shares->working || atomic_exchange(&shares->share[number].failed, true))
        return MR_LOSS_KNOWN;
    *other = instead_of(shares, number);
    if (*other == number)
        return MR_LOSS_LAST;
    return *other >= shares->working || shares->working == 1 ? MR_LOSS_TAKEN : MR_LOSS_SHARED;
}

bool mr_shares_can_spare(const mr_shares *shares, const mr_device *device) {
    bool needed = false, other = false;
    for (size_t i = 0; i < shares->count; i++) {
        const mr_share *state = &shares->share[i];
        if (mr_parts_stage(shares->parts, i)->device != device)
            other = other || is_usable(state);
        else if (i < shares->working)
            needed = needed || is_usable(state);
    }
    return shares->vertex->copy || !needed || other;
}

void mr_shares_enable(mr_shares *shares, const mr_device *device, bool enabled) {
    for (size_t i = 0; i < shares->count && !shares->vertex->copy; i++) {
        mr_share *state = &shares->share[i];
        if (mr_parts_stage(shares->parts, i)->device != device)
            continue;
        if (enabled)
            atomic_store(&state->failed, false);
        atomic_store(&state->disabled, !enabled);
    }
}

void mr_shares_read(const mr_shares *shares, size_t number, mr_share_summary *summary) {
    const mr_share *share = &shares->share[number];
    int64_t cost = atomic_load_explicit(&share->cost_ns, memory_order_relaxed) / (int64_t)batch_of(shares);
    summary->frames += atomic_load_explicit(&share->frames, memory_order_relaxed);
    summary->busy_ns += atomic_load_explicit(&share->busy_ns, memory_order_relaxed);
    summary->cost_ns = cost > summary->cost_ns ? cost : summary->cost_ns;
    if (atomic_load_explicit(&share->disabled, memory_order_relaxed))
        summary->state = MR_DEVICE_DISABLED;
    else if (atomic_load_explicit(&share->failed, memory_order_relaxed))
        summary->state = MR_DEVICE_FAILED;
}
