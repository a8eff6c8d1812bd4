/* Memory of pools: which pools there are, in which memory, how large they get, and whether a device has enough. */
#include "engine/planner/plan_memory.h"

#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/plan/cut.h"
#include "engine/planner/account.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"
#include "engine/planner/sizes.h"
#include "engine/text/options.h"
#include "engine/text/value.h"
#include "millrace/status.h"

/* For each vertex, where output buffers go, and where they can come from. */
typedef struct ways {
    bool *shared;   /* they go to another process on this host */
    int *pinned;    /* the device that copies from them; 0: none */
    bool *external; /* they can be in external memory, from a library or the program, or in a message's memory */
} ways;

/* ---- where buffers go -------------------------------------------------------------------------------------------- */

/* Where frames go in their buffers, if the memory kind depends on it: into a device's memory, into another process, or
 * from external memory. */

static int accelerator_of(const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < mr_plan_parts(vertex); i++)
        if (mr_plan_part(vertex, i))
            return mr_plan_part(vertex, i);
    return 0;
}

/* The device whose copies read a port (-1: any) in host memory, perhaps after stages that pass frames on in their
 * buffers, so that the memory must be pinned; 0: none. Stages after the vertex must have been visited. */
static int pinned_for(const mr_plan_builder *b, const int *pinned, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        int device = accelerator_of(&b->plan->vertices[link->to]);
        if (!device && pinned[link->to] && mr_plan_passes_on(b, link))
            device = pinned[link->to];
        if (device && (port < 0 || link->from_port == port))
            return device;
    }
    return 0;
}

static int find_pinned(const mr_plan_builder *b, int **pinned) {
    *pinned = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **pinned);
    for (int v = b->count - 1; *pinned && v >= 0; v--)
        (*pinned)[v] = b->plan->vertices[v].devices.at[0] ? 0 : pinned_for(b, *pinned, v, -1);
    return *pinned ? MR_OK : MR_ERROR_MEMORY;
}

/* Whether a port's output (-1: any) goes to another process on this host, perhaps through stages that pass frames on in
 * their buffers. Stages after the vertex must have been visited. */
static bool is_shared(const mr_plan_builder *b, const bool *shared, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_vertex *to = &b->plan->vertices[link->to];
        const mr_cut *cut = mr_plan_cut_of(to);
        if (port >= 0 && link->from_port != port)
            continue;
        if (cut ? cut->shared_memory : shared[link->to] && mr_plan_passes_on(b, link))
            return true;
    }
    return false;
}

/* A cut's frames are in the other process's memory, or in the message's. */
static int find_shared(const mr_plan_builder *b, bool **shared) {
    *shared = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **shared);
    for (int v = b->count - 1; *shared && v >= 0; v--) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        bool here = !mr_plan_cut_of(vertex) && vertex->devices.at[0] == 0;
        (*shared)[v] = here && is_shared(b, *shared, v, -1);
    }
    return *shared ? MR_OK : MR_ERROR_MEMORY;
}

/* Whether a vertex's frames can be in external memory, its or that of a vertex whose frames it passes on. */
static int find_external(const mr_plan_builder *b, bool **external) {
    *external = mr_arena_array(b->arena, (size_t)b->count + 1, sizeof **external);
    for (int v = 0; *external && v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        (*external)[v] = vertex->role == MR_ROLE_CUT_IN;
        for (size_t port = 0; port < vertex->output_count; port++)
            (*external)[v] = (*external)[v] || vertex->outputs[port].external;
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            const mr_plan_link *link = &b->link[b->in.item[i]];
            (*external)[v] = (*external)[v] || ((*external)[link->from] && mr_plan_passes_on(b, link));
        }
    }
    return *external ? MR_OK : MR_ERROR_MEMORY;
}

static int find_ways(const mr_plan_builder *b, ways *w) {
    bool failed = find_shared(b, &w->shared) || find_external(b, &w->external) || find_pinned(b, &w->pinned);
    return failed ? MR_ERROR_MEMORY : MR_OK;
}

static int pinned_device(const mr_plan_builder *b, const ways *w, int v, int port) {
    return pinned_for(b, w->pinned, v, port);
}

static bool goes_to_process(const mr_plan_builder *b, const ways *w, int v, int port) {
    return w->shared[v] && is_shared(b, w->shared, v, port);
}

static bool gets_external(const mr_plan_builder *b, const ways *w, int v) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (w->external[b->link[b->in.item[i]].from])
            return true;
    return false;
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* Adds the largest payload size; false if that is not known. */
static bool add_payload(const mr_format_set *set, uint64_t *bytes) {
    size_t most = mr_format_set_most_bytes(set);
    *bytes = mr_plan_plus(*bytes, mr_aligned_bytes(most));
    return most > 0 || set->payload == MR_PAYLOAD_PACKET || set->payload == MR_PAYLOAD_RESULTS;
}

bool mr_plan_frame_bytes(const mr_format_set *set, const mr_planned_result *results, bool more_results,
                         uint64_t *bytes) {
    *bytes = 0;
    bool known = add_payload(set, bytes) && !more_results;
    for (; results; results = results->next)
        if (!results->kind->fields)
            known = add_payload(&results->set, bytes) && known;
    return known;
}

static bool input_bytes(const mr_planned_input *input, uint64_t *bytes) {
    return mr_plan_frame_bytes(&input->set, input->results, input->more_results, bytes);
}

bool mr_plan_allocates(const mr_plan_vertex *vertex, size_t port, uint64_t *bytes) {
    const mr_planned_output *output = &vertex->outputs[port];
    *bytes = mr_aligned_bytes(output->buffer_bytes);
    if (output->buffer_bytes)
        return true;
    if (vertex->role == MR_ROLE_CUT_IN)
        return mr_plan_frame_bytes(&output->set, output->results, output->more_results, bytes) ? *bytes > 0 : true;
    if (vertex->copy) {
        if (!mr_plan_frame_bytes(&output->set, output->results, output->more_results, bytes))
            *bytes = 0;
        return true;
    }
    if (vertex->role == MR_ROLE_SOURCE || output->shares >= 0 || output->set.payload == MR_PAYLOAD_PACKET ||
        output->set.payload == MR_PAYLOAD_RESULTS)
        return false;
    *bytes = mr_aligned_bytes(mr_format_set_most_bytes(&output->set));
    return true;
}

/* Whether no opened file determines the output size: the largest that the formats allow would prove nothing. */
static bool is_open(const mr_planned_output *output) {
    return output->shares < 0 && mr_format_set_most_bytes(&output->set) == 0;
}

/* Whether no opened file determines the size of a stage's output, though it has one. */
static bool is_unsized(const mr_planned_output *output) {
    return is_open(output) && output->set.payload != MR_PAYLOAD_RESULTS && output->set.payload != MR_PAYLOAD_PACKET;
}

/* ---- pools ----------------------------------------------------------------------------------------------------- */

static void place_pool(const mr_plan_builder *b, const ways *w, int v, int port, mr_view_pool *pool) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    int home = vertex->devices.at[0];
    if (vertex->copy == MR_COPY_DOWNLOAD) {
        pool->memory = MR_MEMORY_PINNED;
        pool->device = home;
    } else if (home) {
        pool->memory = MR_MEMORY_DEVICE;
        pool->device = home;
    } else {
        pool->device = pinned_device(b, w, v, port);
        pool->memory = pool->device                         ? MR_MEMORY_PINNED
                       : goes_to_process(b, w, v, port) ? MR_MEMORY_SHARED
                                                            : MR_MEMORY_HOST;
    }
}

static mr_view_pool staging_of(const mr_plan_vertex *vertex) {
    mr_view_pool pool = {.memory = MR_MEMORY_DEVICE, .device = vertex->devices.at[0]};
    bool known = true;
    for (size_t i = 0; i < vertex->input_count; i++) {
        uint64_t bytes;
        known = input_bytes(&vertex->inputs[i], &bytes) && known;
        pool.bytes = bytes > pool.bytes ? bytes : pool.bytes;
    }
    /* Frames without payload memory need no upload. */
    pool.count = known && pool.bytes == 0 ? 0 : vertex->memory.staging.count;
    pool.bytes = known ? pool.bytes : 0;
    return pool;
}

enum { MOST_PINNED = 2 }; /* times the memory that stages request */

/* One for each frame that a call uploads, of those that may be in external memory; or as the stage has requested, on a
 * device. */
static mr_view_pool pinned_of(const mr_plan_builder *b, const ways *w, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    mr_view_pool pool = {
        .memory = MR_MEMORY_PINNED, .device = accelerator_of(vertex), .bytes = vertex->memory.pinned.bytes};
    bool brings = vertex->copy == MR_COPY_UPLOAD || vertex->memory.staging.count;
    bool passes = brings && gets_external(b, w, v);
    if (!pool.device || (!passes && !pool.bytes))
        return (mr_view_pool){.memory = MR_MEMORY_PINNED, .device = pool.device};
    const int64_t frames = (int64_t)vertex->calls.in_flight * mr_plan_call_frames(vertex);
    pool.count = passes ? mr_plan_cap(frames * (int64_t)vertex->input_count) : MOST_PINNED;
    if (passes)
        pool.bytes = vertex->copy ? vertex->pools[0].bytes : vertex->memory.staging.bytes;
    return pool;
}

/* As many as hold all slabs that may be in use if all are full, and one for each call under way: as much again as the
 * buffers for single frames. */
static mr_view_pool batches_of(const mr_plan_vertex *vertex) {
    if (!vertex->copy || vertex->calls.batch == 1 || !vertex->pools[0].bytes)
        return (mr_view_pool){0};
    mr_view_pool pool = vertex->pools[0];
    pool.bytes = mr_plan_times((uint64_t)vertex->calls.batch, pool.bytes);
    pool.count =
        (vertex->needs.output_buffers + vertex->calls.batch - 1) / vertex->calls.batch + vertex->calls.in_flight;
    return pool;
}

static mr_view_pool block_of(const mr_plan_vertex *vertex) {
    mr_view_pool pool = {
        .memory = MR_MEMORY_PINNED, .device = accelerator_of(vertex), .bytes = vertex->memory.batches.bytes};
    pool.count = vertex->copy == MR_COPY_UPLOAD && pool.bytes ? vertex->calls.in_flight : 0;
    return pool;
}

/* One for each call that may be under way on a device. */
static mr_view_pool results_of(const mr_plan_vertex *vertex) {
    mr_view_pool pool = {
        .memory = MR_MEMORY_PINNED, .device = accelerator_of(vertex), .bytes = vertex->memory.results.bytes};
    pool.count = pool.device && pool.bytes ? vertex->calls.in_flight : 0;
    return pool;
}

static bool is_ahead(const mr_view_pool *pool) {
    return pool->count && pool->bytes && (pool->memory == MR_MEMORY_DEVICE || pool->memory == MR_MEMORY_PINNED);
}

/* A cut's frames are in the other process's memory, or in the message's. If sizes are open, frames with many sizes can
 * arrive, and the largest possible size would be far too much. */
static void find_ahead(mr_plan_vertex *vertex) {
    bool unsized = vertex->role == MR_ROLE_CUT_IN;
    for (size_t port = 0; port < vertex->output_count; port++) {
        bool open = !vertex->copy && is_unsized(&vertex->outputs[port]);
        vertex->pools[port].ahead = vertex->role != MR_ROLE_CUT_IN && !open && is_ahead(&vertex->pools[port]);
        unsized |= open;
    }
    vertex->memory.scratch.ahead = is_ahead(&vertex->memory.scratch);
    vertex->memory.staging.ahead = is_ahead(&vertex->memory.staging);
    vertex->memory.batches.ahead = is_ahead(&vertex->memory.batches);
    vertex->memory.block.ahead = is_ahead(&vertex->memory.block);
    vertex->memory.results.ahead = is_ahead(&vertex->memory.results);
    vertex->memory.pinned.ahead = !unsized && is_ahead(&vertex->memory.pinned);
}

/* Few pictures in a folder are as large as the largest. If a stage's pool grows as buffers are needed, it is therefore
 * bounded in bytes. There must be room for twice the mean of all that can be in use, and at least for as many of the
 * largest size as the pipeline needs to make progress. */
static uint64_t bound_bytes(const mr_plan_vertex *vertex, const mr_planned_output *output, const mr_view_pool *pool) {
    uint64_t all = mr_plan_times((uint64_t)pool->count, pool->bytes);
    if (!output || !output->own_pool || pool->memory != MR_MEMORY_HOST || pool->mean == pool->bytes)
        return all;
    uint64_t least = mr_plan_times((uint64_t)vertex->needs.least_buffers, pool->bytes);
    uint64_t usual = mr_plan_times(2 * (uint64_t)pool->count, pool->mean);
    uint64_t most = least > usual ? least : usual;
    return most < all ? most : all;
}

static void finish_pool(const mr_plan_vertex *vertex, const mr_planned_output *output, int likely, mr_view_pool *pool) {
    uint64_t mean = output ? mr_aligned_bytes(output->buffer_mean_bytes) : 0;
    pool->mean = mean && mean < pool->bytes ? mean : pool->bytes;
    pool->likely = likely < pool->count ? likely : pool->count;
    pool->most = bound_bytes(vertex, output, pool);
}

/* How many calls are inside a stage at once: the workers', or its thread's. */
static void finish_pools(mr_plan_vertex *vertex) {
    int calls = vertex->calls.entries > 1 ? vertex->calls.entries : 1;
    for (size_t port = 0; port < vertex->output_count; port++)
        finish_pool(vertex, &vertex->outputs[port], vertex->needs.likely_buffers, &vertex->pools[port]);
    finish_pool(vertex, NULL, calls, &vertex->memory.scratch);
    finish_pool(vertex, NULL, vertex->memory.staging.count, &vertex->memory.staging);
    finish_pool(vertex, NULL, calls, &vertex->memory.pinned);
    finish_pool(vertex, NULL, calls, &vertex->memory.results);
    finish_pool(vertex, NULL, vertex->memory.batches.count, &vertex->memory.batches);
    finish_pool(vertex, NULL, calls, &vertex->memory.block);
}

int mr_plan_pools(mr_plan_builder *b) {
    ways w;
    if (find_ways(b, &w))
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        vertex->pools = mr_arena_array(b->arena, vertex->output_count + 1, sizeof *vertex->pools);
        if (!vertex->pools)
            return MR_ERROR_MEMORY;
        for (size_t port = 0; port < vertex->output_count; port++) {
            mr_view_pool *pool = &vertex->pools[port];
            bool some = mr_plan_allocates(vertex, port, &pool->bytes);
            if (b->params.offline && is_open(&vertex->outputs[port]))
                pool->bytes = 0;
            pool->count = some ? vertex->needs.output_buffers : 0;
            place_pool(b, &w, v, (int)port, pool);
        }
        vertex->memory.scratch.memory = vertex->devices.at[0] ? MR_MEMORY_DEVICE : MR_MEMORY_HOST;
        vertex->memory.scratch.device = vertex->devices.at[0];
        vertex->memory.scratch.count = vertex->memory.scratch.bytes ? vertex->calls.in_flight : 0;
        if (mr_plan_parts(vertex) > 1 && !vertex->copy)
            vertex->memory.staging = staging_of(vertex);
        vertex->memory.pinned = pinned_of(b, &w, v);
        vertex->memory.results = results_of(vertex);
        vertex->memory.batches = batches_of(vertex);
        vertex->memory.block = block_of(vertex);
        find_ahead(vertex);
        finish_pools(vertex);
    }
    return MR_OK;
}

uint64_t mr_plan_estimate(const mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    uint64_t bytes = mr_plan_pool_bytes(vertex, &vertex->memory.scratch);
    for (size_t i = 0; i < vertex->output_count; i++)
        bytes = mr_plan_plus(bytes, mr_plan_pool_bytes(vertex, &vertex->pools[i]));
    /* Output buffers that a copy would hold: in its slots, in the queue, and in the slots here. */
    uint64_t frames =
        2 + (uint64_t)vertex->handling.queue * mr_plan_at_once(b->plan, vertex) +
        (uint64_t)vertex->calls.in_flight * (uint64_t)mr_plan_call_frames(vertex) * (uint64_t)vertex->calls.instances;
    for (size_t i = 0; i < vertex->input_count; i++) {
        uint64_t each;
        input_bytes(&vertex->inputs[i], &each);
        bytes = mr_plan_plus(bytes, mr_plan_times(frames, each));
    }
    return bytes;
}

/* ---- limits ---------------------------------------------------------------------------------------------------- */

/* The number in the YAML that saves most if it is made as small as it may be. */
typedef struct saving {
    const char *stage, *key;
    int value;
    uint64_t bytes;
} saving;

static void offer(saving *best, const char *stage, const char *key, int value, uint64_t bytes) {
    if (bytes > best->bytes)
        *best = (saving){stage, key, value, bytes};
}

static void offer_calls(saving *best, const mr_plan_vertex *stage, uint64_t bytes) {
    if (stage->copy || stage->role == MR_ROLE_SOURCE)
        return;
    uint64_t each = mr_plan_times(bytes, (uint64_t)stage->calls.instances), calls = (uint64_t)stage->calls.in_flight,
             batch = (uint64_t)stage->calls.batch;
    offer(best, stage->id, "in_flight", stage->calls.in_flight, mr_plan_times((calls - 1) * batch, each));
    offer(best, stage->id, "batch", stage->calls.batch, mr_plan_times((batch - 1) * calls, each));
}

static bool lies_on(const mr_plan_vertex *vertex, const mr_view_pool *pool, int device) {
    if (pool->memory != MR_MEMORY_DEVICE)
        return device == 0;
    for (size_t i = 0; i < mr_plan_parts(vertex); i++)
        if (mr_plan_part(vertex, i) == device)
            return true;
    return false;
}

/* What holds one pool's buffers: the calls that fill them, and the queues and calls that read them. */
static void offer_holders(const mr_plan_builder *b, int v, int port, uint64_t bytes, saving *best) {
    offer_calls(best, &b->plan->vertices[v], bytes);
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->out.item[i]];
        const mr_plan_vertex *to = &b->plan->vertices[link->to];
        if (link->from_port != port || to->copy)
            continue;
        uint64_t sources = mr_plan_at_once(b->plan, &b->plan->vertices[v]);
        offer(best, to->id, "queue", to->handling.queue,
              mr_plan_times((uint64_t)(to->handling.queue - 1) * sources, bytes));
        offer_calls(best, to, bytes);
    }
}

static saving find_saving(const mr_plan_builder *b, int device) {
    saving best = {0};
    for (int v = 0; v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        for (size_t i = 0; i < vertex->output_count; i++)
            if (vertex->pools[i].count && lies_on(vertex, &vertex->pools[i], device))
                offer_holders(b, v, (int)i, vertex->pools[i].bytes, &best);
        if (vertex->memory.staging.count && lies_on(vertex, &vertex->memory.staging, device))
            offer_calls(&best, vertex, vertex->memory.staging.bytes);
    }
    return best;
}

/* The limit's key, or else the first key that names the device. */
static mr_location place_of(const mr_plan_builder *b, int device) {
    const mr_plan_device *limited = &b->plan->devices[device];
    for (int v = 0; v < b->count && !limited->mark.line; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        for (size_t i = 0; i < mr_plan_parts(vertex); i++)
            if (mr_plan_part(vertex, i) == device && !vertex->copy)
                return vertex->mark;
    }
    return limited->mark;
}

enum { BYTES_TEXT = 32 };

static int find_lower(mr_plan_builder *b, int d) {
    mr_plan_device *device = &b->plan->devices[d];
    char spares[BYTES_TEXT];
    saving best = find_saving(b, d);
    device->lower = NULL;
    if (best.bytes == 0)
        return MR_OK;
    mr_value_print_about(best.bytes, spares, sizeof spares);
    device->lower = mr_arena_print(b->arena, "lower %s of %s, which is %d: that saves up to %s", best.key, best.stage,
                                   best.value, spares);
    return device->lower ? MR_OK : MR_ERROR_MEMORY;
}

/* For the case that no single number saves enough: a hint with that number alone would not help. */
static void hint_more(const mr_plan_device *device, uint64_t needed, const saving *best, char *hint, size_t bytes) {
    char spares[BYTES_TEXT], little[256] = "";
    const unsigned long long mebibytes = (needed + (1 << 20) - 1) >> 20;
    if (best->bytes)
        snprintf(little, sizeof little, "; %s: 1 in %s would save %s of it", best->key, best->stage,
                 mr_value_print_about(best->bytes, spares, sizeof spares));
    if (device->limit_bytes)
        snprintf(hint, bytes, "write memory: %lluMiB, or make pictures smaller%s", mebibytes, little);
    else
        snprintf(hint, bytes, "move some of its stages to another device, or make pictures smaller%s", little);
}

/* If the limit is exceeded because of libraries' memory, that is reported too: other keys in the YAML reduce it. */
static void refuse_memory(mr_plan_builder *b, int d, uint64_t most, uint64_t libraries) {
    const mr_plan_device *device = &b->plan->devices[d];
    char others[BYTES_TEXT], beside[BYTES_TEXT + 32] = "";
    char needed[BYTES_TEXT], missing[BYTES_TEXT], has[BYTES_TEXT], hint[384];
    saving best = find_saving(b, d);
    const uint64_t all = mr_plan_plus(device->memory.bytes, libraries);
    if (libraries > best.bytes)
        snprintf(hint, sizeof hint,
                 "lower the memory that models may take, or move some of its stages to another device");
    else if (device->lower && best.bytes >= all - most)
        snprintf(hint, sizeof hint, "%s", device->lower);
    else
        hint_more(device, all, &best, hint, sizeof hint);
    mr_value_print_about(device->memory.bytes, needed, sizeof needed);
    mr_value_print_about(all - most, missing, sizeof missing);
    mr_value_print_about(most, has, sizeof has);
    if (libraries)
        snprintf(beside, sizeof beside, " and libraries %s", mr_value_print_about(libraries, others, sizeof others));
    mr_plan_error(b, place_of(b, d), hint, "%s: buffers may take %s%s of its memory, and it %s %s: %s are missing",
                  device->name, needed, beside, most == device->limit_bytes ? "is limited to" : "has", has, missing);
}

/* Some types of source have the largest size as an option; for others the media tell. */
static const char *hint_size(const mr_plan_builder *b) {
    for (size_t s = 0; s < b->plan->source_count; s++) {
        const mr_plan_vertex *source = &b->plan->vertices[s];
        if (mr_option_find(source->type->options, "size"))
            return mr_arena_print(b->arena, "write the largest size that %s gives, such as size: 1920x1080",
                                  source->id);
    }
    return "run `millrace plan` where the sources can be read: it knows their sizes";
}

static void check_limit(mr_plan_builder *b, int d) {
    const mr_plan_device *device = &b->plan->devices[d];
    uint64_t most = mr_plan_most_bytes(device), has = device->memory_bytes, libraries = device->libraries.bytes;
    if (most && device->memory.bytes > most)
        refuse_memory(b, d, most, 0);
    else if (has && mr_plan_plus(device->memory.bytes, libraries) > has)
        refuse_memory(b, d, has, libraries);
    else if (device->limit_bytes && device->memory.unknown)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, device->mark, hint_size(b),
                    "devices.%s: its limit cannot be proven, since it holds frames of unknown size", device->alias);
}

int mr_plan_memory(mr_plan_builder *b) {
    if (mr_plan_pools(b) || mr_plan_account(b))
        return MR_ERROR_MEMORY;
    for (int d = 0; d < (int)b->plan->device_count; d++) {
        if (find_lower(b, d))
            return MR_ERROR_MEMORY;
        check_limit(b, d);
    }
    return MR_OK;
}
