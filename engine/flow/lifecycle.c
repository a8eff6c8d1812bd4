/* Creates, opens and destroys instances. */
#include "engine/flow/lifecycle.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/flow/link/link.h"
#include "engine/flow/pools.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/run/sources.h"
#include "engine/plan/folders.h"
#include "engine/plan/renewal.h"

static int create_ring(mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    /* Slots done before earlier ones may wait for them in the ring; a copy takes a batch's frames one by one. */
    size_t several = vertex->devices.count > 1 ? vertex->devices.count : 0;
    size_t reordered = MR_PLAN_REORDERED * several * (vertex->copy ? (size_t)vertex->devices.turn : 1);
    return mr_ring_create(&instance->ring, (size_t)vertex->calls.in_flight, reordered, mr_instance_room(instance));
}

static int create_parts(mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    int status = mr_parts_create(&instance->parts, mr_plan_parts(vertex), mr_instance_pools(instance), &instance->self);
    return status ? status
                  : mr_shares_create(&instance->shares, &instance->parts, vertex, mr_instance_in_use, instance);
}

static int create_again(mr_instance *instance) {
    const mr_plan *plan = instance->run->plan;
    const mr_plan_vertex *vertex = instance->vertex;
    int maker;
    return !vertex->output_count && mr_plan_again(plan, vertex, &maker) == MR_AGAIN_LEFT_OUT
               ? mr_again_create(&instance->again, plan->source_count) : MR_OK;
}

static int create_entry(mr_instance *instance, mr_entry_task *entry, void (*run)(void *entry)) {
    const mr_plan_vertex *vertex = instance->vertex;
    size_t parts = mr_plan_parts(vertex);
    bool joins = mr_inlets_join(&instance->inlets) && instance->self.source == MR_SOURCE_NONE;
    entry->instance = instance;
    entry->wait_count = (joins ? vertex->source_count : 1) + 1;
    mr_task_init(&entry->task, instance->run->executor, run, entry);
    entry->io = (mr_io){.instance = instance, .entry = entry};
    entry->waits = mr_calloc(entry->wait_count, sizeof *entry->waits);
    entry->pool_waits = mr_calloc(mr_instance_pools(instance) + 1, sizeof *entry->pool_waits);
    entry->streams = mr_calloc(parts, sizeof(mr_stream *));
    entry->staging = mr_calloc(parts, sizeof(mr_stream *));
    return entry->waits && entry->pool_waits && entry->streams && entry->staging ? MR_OK : MR_ERROR_MEMORY;
}

static int create_entries(mr_instance *instance, void (*run)(void *entry)) {
    const mr_plan_vertex *vertex = instance->vertex;
    instance->entry_count = vertex->calls.entries > 1 ? (size_t)vertex->calls.entries : 1;
    instance->shared = instance->entry_count > 1;
    mr_inlets_set_burst(&instance->inlets, instance->shared ? 1 : MR_BURST);
    instance->entries = mr_calloc(instance->entry_count, sizeof *instance->entries);
    int status = instance->entries ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < instance->entry_count && !status; i++)
        status = create_entry(instance, &instance->entries[i], run);
    return status;
}

int mr_instance_create(mr_instance **instance, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source,
                       void (*run_entry)(void *entry)) {
    mr_instance *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for stage %s", vertex->id);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->pools_lock, NULL);
    mr_abandonment_init(&made->abandoned);
    made->run = run;
    made->vertex = vertex;
    mr_opening_init(&made->opening, source != MR_SOURCE_NONE && run->plan->vertices[source].offer.waits);
    mr_closing_init(&made->closing, source == MR_SOURCE_NONE ? vertex->source_count : 1);
    made->self = (mr_stage){
        .id = vertex->id,
        .type = vertex->type,
        .options = vertex->options,
        .place = vertex->place,
        .input_count = vertex->input_count,
        .inputs = vertex->inputs,
        .outputs = vertex->formats,
        .source = source,
        .source_id = source == MR_SOURCE_NONE ? NULL : run->plan->vertices[source].id,
        .entries = vertex->calls.entries > 1 ? vertex->calls.entries : 1,
        .threads = vertex->calls.threads,
        .batch = vertex->calls.batch > 1 ? vertex->calls.batch : 1,
        .output_buffers = vertex->needs.output_buffers,
        .output_least = vertex->needs.least_buffers - vertex->needs.retained,
        .output_largest = vertex->output_count ? (size_t)vertex->pools[0].bytes : 0,
        .output_most_bytes = vertex->output_count ? vertex->pools[0].most : 0,
        .flow = made,
    };
    size_t ports = vertex->role == MR_ROLE_SOURCE ? vertex->type->external : vertex->input_count;
    if (mr_inlets_create(&made->inlets, ports, vertex->source_count) ||
        mr_shedder_init(&made->shedder, run, vertex, source) || create_parts(made) ||
        mr_spacing_create(&made->spacing, &vertex->calls, run->plan->source_count) || create_again(made) ||
        create_entries(made, run_entry) || create_ring(made)) {
        mr_instance_destroy(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for stage %s", vertex->id);
    }
    *instance = made;
    return MR_OK;
}

/* The only stage that takes this vertex's frames; NULL if there are none or several. */
static const mr_plan_vertex *follower_of(const mr_plan *plan, const mr_plan_vertex *vertex) {
    const mr_plan_vertex *found = NULL;
    for (size_t e = 0; e < plan->edge_count; e++) {
        if (&plan->vertices[plan->edges[e].from] != vertex)
            continue;
        if (found)
            return NULL;
        found = &plan->vertices[plan->edges[e].to];
    }
    return found;
}

/* Whether this stage's work can be submitted together with the next stage's: calls need no order among streams, and the
 * next stage needs only one call's output. Copies use separate streams, so that they run beside computing. */
static bool hands_on(const mr_plan *plan, const mr_plan_vertex *vertex) {
    const mr_plan_vertex *follower = follower_of(plan, vertex);
    if (!follower || vertex->copy || follower->copy || vertex->calls.entry != MR_ENTRY_STATELESS)
        return false;
    bool one = mr_plan_parts(vertex) == 1 && mr_plan_parts(follower) == 1;
    return one && vertex->devices.at[0] == follower->devices.at[0] && follower->input_count == 1 &&
           follower->calls.batch <= vertex->calls.batch;
}

void mr_instance_set_devices(mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    mr_device *_Atomic *devices = instance->run->devices;
    for (size_t i = 0; i < mr_parts_count(&instance->parts); i++) {
        mr_stage *self = mr_parts_stage(&instance->parts, i);
        mr_parts_set_device(&instance->parts, i, devices[mr_plan_part(vertex, i)]);
        if (vertex->output_count == 0)
            continue;
        self->output_memory = vertex->pools[0].memory;
        self->output_device =
            self->output_memory == MR_MEMORY_DEVICE ? self->device : devices[vertex->pools[0].device];
        self->output_bytes = vertex->pools[0].ahead ? (size_t)vertex->pools[0].bytes : 0;
        if (self->output_device->type->kind == MR_DEVICE_CPU && self->output_memory != MR_MEMORY_SHARED)
            self->output_memory = MR_MEMORY_HOST;
    }
    instance->self.device = mr_parts_stage(&instance->parts, 0)->device;
    /* A stage downstream that leaves a source's frames in the queue (credit.h) would also leave this work undone. */
    const bool all_are_taken = !mr_outlets_mark_gaps(&instance->outlets) || vertex->source_count < 2;
    mr_outlets_set_hand_on(&instance->outlets, all_are_taken && hands_on(instance->run->plan, vertex));
}

static int open_part(mr_instance *instance, size_t number) {
    mr_stage *self = mr_parts_stage(&instance->parts, number);
    for (size_t i = 0; i < instance->entry_count; i++) {
        int status = mr_stream_create_for(self->device, self->type->urgent, &instance->entries[i].streams[number]);
        if (!status && mr_instance_brings_in(instance))
            status = mr_stream_create(self->device, &instance->entries[i].staging[number]);
        if (status)
            return status;
        instance->entries[i].streams[number]->stage = self;
    }
    int status = mr_instance_fill_pools(instance, number);
    return status ? status : mr_parts_open(&instance->parts, number);
}

int mr_instance_open(mr_instance *instance) {
    int status = mr_plan_make_folders(instance->self.type->options, instance->self.options);
    if (instance->self.type->external)
        instance->first_epoch = mr_stage_first_epoch(&instance->self);
    for (size_t i = 0; i < mr_parts_count(&instance->parts) && !status; i++)
        status = open_part(instance, i);
    return status;
}

bool mr_instance_is_stopped(const mr_instance *instance) {
    return mr_control_is_stopping(instance->run) ||
           (instance->vertex->role == MR_ROLE_SOURCE && mr_source_is_to_leave(instance->run, instance->self.source));
}

void mr_instance_tell_stop(mr_instance *instance) {
    if (!instance->self.type->stop || !mr_opening_is_ready(&instance->opening))
        return;
    if (mr_opening_waits(&instance->opening))
        pthread_mutex_lock(&instance->lock);
    mr_parts_stop(&instance->parts);
    if (mr_opening_waits(&instance->opening))
        pthread_mutex_unlock(&instance->lock);
}

bool mr_instance_trigger(mr_instance *instance, const char *id) {
    const mr_stage *self = &instance->self;
    bool triggered = false;
    if (!self->type->trigger || !mr_opening_is_ready(&instance->opening))
        return false;
    pthread_mutex_lock(&instance->lock);
    if (strcmp(self->id, id) == 0 || (self->source_id && strcmp(self->source_id, id) == 0))
        triggered = mr_parts_trigger(&instance->parts);
    pthread_mutex_unlock(&instance->lock);
    return triggered;
}

/* A stop sets the flag, then looks for ready instances. The order here is reversed, so that at least one side stops the
 * stage type. */
static void set_ready(mr_instance *instance) {
    mr_opening_set_ready(&instance->opening);
    if (mr_instance_is_stopped(instance))
        mr_instance_tell_stop(instance);
}

void mr_instance_start(mr_instance *instance) {
    set_ready(instance);
    mr_instance_wake_all(instance);
}

/* Opens an instance on its own thread. False if it cannot open. */
static bool open_itself(mr_instance *instance) {
    if (!mr_opening_try(&instance->opening))
        return false;
    int status = mr_instance_open(instance);
    if (!status)
        set_ready(instance);
    else
        mr_ending_fail_start(instance->run->ending, status, "%s: %s: %s", instance->self.place, instance->self.id,
                         mr_message_or(status));
    mr_ending_note_opening(instance->run->ending);
    return !status;
}

/* A source that will not be read need not be opened. */
static bool is_needless(const mr_instance *instance) {
    return instance->vertex->role == MR_ROLE_SOURCE &&
           (mr_instance_is_stopped(instance) || mr_resume_over(instance->run->resume, instance->self.source));
}

static void fail_late(const mr_instance *instance, int status) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s: %s", instance->self.place, instance->self.id,
             mr_message_or(status));
    if (instance->vertex->role == MR_ROLE_SOURCE)
        mr_source_fail(instance->run, instance->self.source, status, mr_message_or(status));
    else
        mr_control_fail(instance->run, status, text);
}

/* Opens an instance whose source waited. If it cannot open, it drops its inputs. An interrupted source that cannot
 * open is not a failure. */
static void open_late(mr_instance *instance) {
    int status = is_needless(instance) ? MR_ERROR_CANCELLED : mr_instance_open(instance);
    if (status && is_needless(instance))
        status = MR_ERROR_CANCELLED;
    if (status) {
        atomic_store(&instance->failed, true);
        if (status != MR_ERROR_CANCELLED)
            fail_late(instance, status);
    }
    set_ready(instance);
}

bool mr_instance_get_ready(mr_instance *instance) {
    if (mr_opening_is_ready(&instance->opening))
        return true;
    if (!mr_opening_waits(&instance->opening))
        return open_itself(instance);
    if (!mr_opening_has_begun(&instance->opening))
        return false;
    open_late(instance);
    return true;
}

void mr_instance_finish(mr_instance *instance) {
    for (size_t i = 0; instance->entries && i < instance->entry_count; i++) {
        mr_entry_task *entry = &instance->entries[i];
        for (size_t number = 0; entry->staging && number < mr_parts_count(&instance->parts); number++)
            mr_stream_destroy(&entry->staging[number]);
        for (size_t number = 0; entry->streams && number < mr_parts_count(&instance->parts); number++)
            mr_stream_destroy(&entry->streams[number]);
    }
    mr_abandonment_release(&instance->abandoned);
}

/* The lock keeps out a stop that is about to call the stage. Who stops the run must not wait for a driver that hangs in
 * close, so that is called without it. */
static void close_parts(mr_instance *instance) {
    pthread_mutex_lock(&instance->lock);
    mr_parts_begin_close(&instance->parts);
    pthread_mutex_unlock(&instance->lock);
    mr_parts_close(&instance->parts);
}

/* Frames that still exist keep their buffers. Outputs from other stages may refer to the stage's state, so those stages
 * close at the end. */
void mr_instance_put_away(mr_instance *instance) {
    for (size_t i = 0; i < instance->entry_count; i++)
        mr_task_end_thread(&instance->entries[i].task);
    if (instance->vertex->role == MR_ROLE_SOURCE)
        close_parts(instance);
    /* With several devices, the number of buffers in use is still needed. */
    if (mr_parts_count(&instance->parts) == 1)
        mr_parts_release_pools(&instance->parts);
}

/* ---- for the next source ----------------------------------------------------------------------------------------- */

/* Makes late wakes ineffective and waits until no run is under way. */
static bool keep_out(mr_instance *instance) {
    mr_opening_withdraw(&instance->opening);
    for (size_t i = 0; i < instance->entry_count; i++)
        mr_task_end_thread(&instance->entries[i].task);
    for (size_t i = 0; i < instance->entry_count; i++)
        if (!mr_task_has_ended(&instance->entries[i].task) && !mr_task_is_quiet(&instance->entries[i].task))
            return false;
    return true;
}

static void forget_waits(mr_instance *instance) {
    for (size_t e = 0; e < instance->entry_count; e++) {
        mr_entry_task *entry = &instance->entries[e];
        for (size_t i = 0; i < entry->wait_count; i++)
            mr_event_forget(&entry->waits[i]);
        for (size_t i = 0; i <= mr_instance_pools(instance); i++)
            mr_pool_forget(&entry->pool_waits[i]);
    }
}

bool mr_instance_vacate(mr_instance *instance) {
    if (!keep_out(instance))
        return false;
    if (instance->vertex->role == MR_ROLE_SOURCE)
        mr_meter_renew(&instance->entries[0].meter);
    forget_waits(instance);
    close_parts(instance);
    pthread_mutex_lock(&instance->lock);
    mr_parts_clear_states(&instance->parts);
    mr_inlets_renew(&instance->inlets);
    mr_shedder_renew(&instance->shedder);
    mr_spacing_renew(&instance->spacing);
    mr_ring_renew(&instance->ring);
    mr_outlets_retry(&instance->outlets);
    mr_closing_renew(&instance->closing);
    pthread_mutex_unlock(&instance->lock);
    mr_instance_finish(instance);
    mr_parts_release_pools(&instance->parts);
    atomic_store(&instance->failed, false);
    atomic_store(&instance->complained, false);
    return true;
}

void mr_instance_rename(mr_instance *instance) {
    const mr_plan *plan = instance->run->plan;
    mr_stage *const own = &instance->self;
    own->source_id = plan->vertices[own->source].id;
    own->id = instance->vertex->id;
    own->options = instance->vertex->options;
    own->place = instance->vertex->place;
    mr_parts_rename(&instance->parts, own);
}

static void destroy_entry(mr_instance *instance, mr_entry_task *entry) {
    for (size_t i = 0; entry->waits && i < entry->wait_count; i++)
        mr_event_forget(&entry->waits[i]);
    for (size_t i = 0; entry->pool_waits && i <= mr_instance_pools(instance); i++)
        mr_pool_forget(&entry->pool_waits[i]);
    mr_task_fini(&entry->task);
    mr_free(entry->waits);
    mr_free(entry->pool_waits);
    mr_free(entry->streams);
    mr_free(entry->staging);
    mr_free(entry->traced);
    mr_free(entry->spans);
}

void mr_instance_destroy(mr_instance **instance) {
    mr_instance *gone = *instance;
    if (!gone)
        return;
    mr_parts_close(&gone->parts);
    mr_ring_destroy(&gone->ring);
    mr_inlets_destroy(&gone->inlets);
    mr_credit_destroy(&gone->credit);
    mr_instance_finish(gone);
    for (size_t i = 0; gone->entries && i < gone->entry_count; i++)
        destroy_entry(gone, &gone->entries[i]);
    mr_shares_destroy(&gone->shares);
    mr_parts_destroy(&gone->parts);
    mr_free(gone->entries);
    mr_shedder_fini(&gone->shedder);
    mr_spacing_destroy(&gone->spacing);
    mr_again_destroy(&gone->again);
    pthread_mutex_destroy(&gone->lock);
    pthread_mutex_destroy(&gone->pools_lock);
    mr_abandonment_fini(&gone->abandoned);
    mr_free(gone);
    *instance = NULL;
}

/* ---- waking ------------------------------------------------------------------------------------------------------ */

/* `unfinished` may be stale. The wake can then reach an entry that must first finish its slot; it takes inputs after
 * that. */
void mr_instance_wake(void *context) {
    mr_instance *instance = context;
    mr_entry_task *running = NULL; /* it will look for inputs again */
    for (size_t i = 0; instance->shared && i < instance->entry_count; i++) {
        mr_entry_task *entry = &instance->entries[i];
        if (atomic_load_explicit(&entry->unfinished, memory_order_relaxed))
            continue;
        if (mr_task_wake_idle(&entry->task))
            return;
        running = running ? running : entry;
    }
    mr_task_wake(running ? &running->task : &instance->entries[0].task);
}

void mr_instance_wake_all(mr_instance *instance) {
    for (size_t i = 0; i < instance->entry_count; i++)
        mr_task_wake(&instance->entries[i].task);
}

/* ---- stages of opening ------------------------------------------------------------------------------------------- */

int mr_instance_give_thread(mr_instance *instance) {
    return mr_task_detach(&instance->entries[0].task, instance->self.id);
}

void mr_instance_let_open_itself(mr_instance *instance) {
    mr_opening_let_open_itself(&instance->opening);
    mr_ending_expect_opening(instance->run->ending);
}

void mr_instance_fail(mr_instance *instance) {
    atomic_store(&instance->failed, true);
}

void mr_instance_leave_shut(mr_instance *instance) {
    for (size_t e = 0; e < instance->entry_count; e++)
        mr_task_return(&instance->entries[e].task);
    mr_instance_fail(instance);
    mr_opening_set_ready(&instance->opening);
}

bool mr_instance_is_open(const mr_instance *instance) {
    return mr_parts_are_open(&instance->parts);
}

int mr_instance_sync(mr_instance *instance) {
    mr_stage *self = mr_parts_stage(&instance->parts, 0);
    return self->type->sync ? self->type->sync(self) : MR_OK;
}
