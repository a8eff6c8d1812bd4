/* The memory account: one row per use. All totals are sums of these rows, so that printed figures add up.
 *
 * The likely amount. A pool that is filled when the pipeline starts counts whole. Any other pool counts the buffers
 * expected to be in use at once (sizes.c), each with the arriving frames' mean size. What libraries and ZeroMQ use
 * cannot be predicted: the bound counts, but for envelopes with masks and texts. */
#include "engine/planner/account.h"

#include <stdlib.h>
#include <string.h>

#include "engine/data/kinds.h"
#include "engine/plan/cut.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"
#include "millrace/status.h"

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* Only counts if `rows` is NULL. */
typedef struct account {
    mr_plan *plan;
    mr_view_row *rows;
    size_t count;
} account;

static void put_row(account *to, mr_view_row row) {
    bool nothing = row.most.bytes == 0 && !row.most.unknown;
    if (!nothing && to->rows)
        to->rows[to->count] = row;
    to->count += !nothing;
}

uint64_t mr_plan_pool_bytes(const mr_plan_vertex *vertex, const mr_view_pool *pool) {
    return mr_plan_times(pool->most, (uint64_t)vertex->calls.instances);
}

static uint64_t likely_bytes(const mr_plan_vertex *vertex, const mr_view_pool *pool) {
    uint64_t most = mr_plan_pool_bytes(vertex, pool);
    uint64_t each = mr_plan_times((uint64_t)pool->likely, pool->mean);
    uint64_t likely = mr_plan_times(each, (uint64_t)vertex->calls.instances);
    return pool->ahead || likely > most ? most : likely;
}

static mr_view_kind kind_of(mr_memory memory) {
    return memory == MR_MEMORY_PINNED ? MR_VIEW_PINNED : memory == MR_MEMORY_SHARED ? MR_VIEW_SHARED : MR_VIEW_HOST;
}

/* A pool in device memory exists on each device. The one for processors in reserve is in host memory. */
static void put_pool(account *to, const mr_plan_vertex *vertex, const mr_view_pool *pool, const char *what) {
    mr_view_row row = {.node = vertex->node, .kind = kind_of(pool->memory), .device = pool->device, .of = vertex->id,
                       .what = what, .buffers = (int64_t)pool->count * vertex->calls.instances, .each = pool->bytes,
                       .most = {.bytes = mr_plan_pool_bytes(vertex, pool), .likely = likely_bytes(vertex, pool),
                                .unknown = pool->bytes == 0}};
    bool on_devices = pool->memory == MR_MEMORY_DEVICE;
    size_t times = on_devices ? mr_plan_parts(vertex) : 1;
    for (size_t i = 0; i < times && pool->count; i++) {
        row.device = on_devices ? mr_plan_part(vertex, i) : row.device;
        row.kind = on_devices ? row.device ? MR_VIEW_DEVICE : MR_VIEW_HOST : row.kind;
        put_row(to, row);
    }
}

/* For one vertex on one device. If the device's capability is not known, the larger figure counts. */
static uint64_t workspace_bytes(const mr_plan_vertex *vertex, const mr_plan_device *device) {
    int capability = device->card && device->card->capability ? device->card->capability : device->capability;
    size_t below = vertex->needs.stream_bytes[0], from_90 = vertex->needs.stream_bytes[1];
    size_t each = capability ? vertex->needs.stream_bytes[capability >= 90] : below > from_90 ? below : from_90;
    int entries = vertex->calls.entries > 1 ? vertex->calls.entries : 1;
    return mr_plan_times(mr_plan_times(each, (uint64_t)entries), (uint64_t)vertex->calls.instances);
}

/* Masks, corners, texts and features of the results that a vertex makes. Few results have as many as they may. */
static void put_items(account *to, const mr_plan_vertex *vertex) {
    enum { USUAL_BYTES = 64 << 10 };
    uint64_t each = 0, frames = mr_plan_times((uint64_t)vertex->needs.result_frames, (uint64_t)vertex->calls.instances);
    for (size_t i = 0; i < vertex->output_count; i++)
        for (const mr_planned_result *one = vertex->outputs[i].results; one; one = one->next)
            if (one->items_bytes && (vertex->role == MR_ROLE_CUT_IN || strcmp(one->maker, vertex->id) == 0))
                each = mr_plan_plus(each, mr_items_room(one->items_bytes));
    const uint64_t usual = each < USUAL_BYTES ? each : USUAL_BYTES;
    if (each)
        put_row(to, (mr_view_row){.node = vertex->node, .kind = MR_VIEW_HOST, .of = vertex->id, .what = "items",
                                  .buffers = (int64_t)frames, .each = each,
                                  .most = {.bytes = mr_plan_times(frames, each),
                                           .likely = mr_plan_times((frames + 1) / 2, usual)}});
}

/* Records that wait until a service takes them. */
static void put_waiting(account *to, const mr_plan_vertex *vertex) {
    const uint64_t bytes = mr_plan_times(vertex->memory.waiting_bytes, (uint64_t)vertex->calls.instances);
    if (bytes)
        put_row(to, (mr_view_row){.node = vertex->node, .kind = MR_VIEW_HOST, .of = vertex->id, .what = "waiting",
                                  .most = {.bytes = bytes, .likely = bytes}});
}

/* Memory that stages and libraries use on CUDA devices beside pools. */
static void put_others(account *to, const mr_plan_vertex *vertex) {
    bool known = vertex->needs.library_bytes != MR_BYTES_UNKNOWN;
    uint64_t instances = (uint64_t)vertex->calls.instances,
             constants = mr_plan_times(vertex->memory.constant_bytes, instances);
    uint64_t bytes = known ? mr_plan_times((uint64_t)vertex->needs.library_bytes, instances) : 0;
    for (size_t i = 0; i < mr_plan_parts(vertex); i++) {
        int device = mr_plan_part(vertex, i);
        mr_view_row row = {.node = vertex->node, .kind = MR_VIEW_DEVICE, .device = device, .of = vertex->id,
                           .what = "constants", .most = {.bytes = constants, .likely = constants}};
        if (!mr_plan_is_cuda(&to->plan->devices[device]))
            continue;
        put_row(to, row);
        row.what = "workspaces";
        row.most.bytes = row.most.likely = workspace_bytes(vertex, &to->plan->devices[device]);
        put_row(to, row);
        row.kind = MR_VIEW_LIBRARIES;
        row.what = "library";
        row.most = (mr_view_bytes){.bytes = bytes, .likely = bytes, .unknown = !known};
        put_row(to, row);
    }
}

/* "output", or "output pictures" if there are several ports. */
static const char *output_name(mr_arena *arena, const mr_plan_vertex *vertex, size_t port) {
    return vertex->output_count > 1 ? mr_arena_print(arena, "output %s", vertex->type->outputs[port].name) : "output";
}

static int put_vertex(account *to, mr_arena *arena, const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->output_count; i++) {
        const char *name = output_name(arena, vertex, i);
        if (!name)
            return MR_ERROR_MEMORY;
        put_pool(to, vertex, &vertex->pools[i], name);
    }
    put_pool(to, vertex, &vertex->memory.scratch, "work");
    put_pool(to, vertex, &vertex->memory.staging, "staging");
    put_pool(to, vertex, &vertex->memory.batches, "batches");
    put_pool(to, vertex, &vertex->memory.block, "block");
    put_pool(to, vertex, &vertex->memory.pinned, "pinned");
    put_pool(to, vertex, &vertex->memory.results, "results");
    put_items(to, vertex);
    put_waiting(to, vertex);
    put_others(to, vertex);
    return MR_OK;
}

/* ---- ZeroMQ's queues ------------------------------------------------------------------------------------------- */

/* libzmq's memory for a frame's message, beside the payload: its envelope and header. */
enum { MESSAGE_BYTES = 1024 };

/* Masks, corners and texts of objects travel in the envelope, and their number is not planned. */
static bool may_be_long(const mr_planned_input *input) {
    bool may = input->more_results;
    for (const mr_planned_result *one = input->results; one && !may; one = one->next)
        may = mr_result_kind_has_items(one->kind);
    return may;
}

/* libzmq's memory for a cut, beside pools. At the producer's end: messages sent and not settled, for all consumers
 * together, which is one window. Payload is copied there if it is compressed or not contiguous. Payload in shared
 * memory never passes through libzmq. At the consumer's end: each producing process's credit (transport/cut/cut_in.c:
 * MR_CUT_CREDIT windows) beyond the window in the pool at the cut's end. A message that a peer never finishes is not
 * included, see engine/transport/README.md. */
static void put_queues(account *to, const mr_plan_cut *entry) {
    const mr_cut *cut = entry->cut;
    bool known = cut->shared_memory || cut->window_bytes > 0;
    uint64_t payload = cut->shared_memory ? 0 : cut->window_bytes;
    const bool is_long = may_be_long(&to->plan->vertices[entry->out].inputs[0]);
    uint64_t likely = mr_plan_plus(payload, mr_plan_times((uint64_t)cut->window, MESSAGE_BYTES));
    uint64_t most = is_long ? mr_plan_plus(likely, mr_plan_times((uint64_t)cut->window, MR_CUT_MOST_ENVELOPE)) : likely;
    uint64_t more = (MR_CUT_CREDIT - 1) * (uint64_t)to->plan->nodes[entry->from].replicas;
    mr_view_row row = {.node = entry->from, .kind = MR_VIEW_QUEUES, .of = cut->name, .what = "messages",
                       .most = {.bytes = most, .likely = likely, .unknown = !known}};
    put_row(to, row);
    row.node = entry->to;
    row.most.bytes = mr_plan_times(most, more);
    row.most.likely = mr_plan_times(likely, more);
    put_row(to, row);
}

/* ---- the account ----------------------------------------------------------------------------------------------- */

static int put_all(account *to, mr_arena *arena) {
    mr_plan *plan = to->plan;
    int status = MR_OK;
    to->count = 0;
    for (size_t v = 0; v < plan->vertex_count && !status; v++)
        status = put_vertex(to, arena, &plan->vertices[v]);
    for (size_t i = 0; i < plan->cut_count; i++)
        put_queues(to, &plan->cuts[i]);
    return status;
}

/* By node, kind and device. Equal rows are in graph order, which is the order of the rows. */
static int by_place(const void *a, const void *b) {
    const mr_view_row *one = a, *other = b;
    if (one->node != other->node)
        return one->node - other->node;
    if (one->kind != other->kind)
        return (int)one->kind - (int)other->kind;
    if (one->device != other->device)
        return one->device - other->device;
    return one < other ? -1 : one > other;
}

/* qsort moves rows, so addresses cannot tell their order: it must sort pointers to them. */
static int by_pointer(const void *a, const void *b) {
    return by_place(*(const mr_view_row *const *)a, *(const mr_view_row *const *)b);
}

static int sort_rows(mr_plan_builder *b, const account *from) {
    mr_view_row *sorted = mr_arena_array(b->arena, from->count + 1, sizeof *sorted);
    const mr_view_row **order = mr_arena_array(b->arena, from->count + 1, sizeof(mr_view_row *));
    if (!sorted || !order)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < from->count; i++)
        order[i] = &from->rows[i];
    qsort(order, from->count, sizeof *order, by_pointer);
    for (size_t i = 0; i < from->count; i++)
        sorted[i] = *order[i];
    b->plan->rows = sorted;
    b->plan->row_count = from->count;
    return MR_OK;
}

static int make_rows(mr_plan_builder *b) {
    account rows = {.plan = b->plan};
    if (put_all(&rows, b->arena))
        return MR_ERROR_MEMORY;
    rows.rows = mr_arena_array(b->arena, rows.count + 1, sizeof *rows.rows);
    return !rows.rows || put_all(&rows, b->arena) || sort_rows(b, &rows) ? MR_ERROR_MEMORY : MR_OK;
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

static void add(mr_view_bytes *total, const mr_view_bytes *more) {
    total->bytes = mr_plan_plus(total->bytes, more->bytes);
    total->likely = mr_plan_plus(total->likely, more->likely);
    total->unknown = total->unknown || more->unknown;
}

static mr_view_bytes *total_of(mr_plan *plan, const mr_view_row *row) {
    mr_view_bytes *const of_host[] = {[MR_VIEW_HOST] = &plan->host,
                                      [MR_VIEW_PINNED] = &plan->pinned,
                                      [MR_VIEW_SHARED] = &plan->shared,
                                      [MR_VIEW_QUEUES] = &plan->queues};
    mr_plan_device *device = &plan->devices[row->device];
    return row->kind == MR_VIEW_DEVICE      ? &device->memory
           : row->kind == MR_VIEW_LIBRARIES ? &device->libraries
                                            : of_host[row->kind];
}

/* One process's memory on a node. */
static void add_up_node(mr_plan *plan, int node) {
    plan->host = plan->pinned = plan->shared = plan->queues = (mr_view_bytes){0};
    for (size_t d = 0; d < plan->device_count; d++)
        plan->devices[d].memory = plan->devices[d].libraries = (mr_view_bytes){0};
    for (size_t i = 0; i < plan->row_count; i++)
        if (plan->rows[i].node == node)
            add(total_of(plan, &plan->rows[i]), &plan->rows[i].most);
    const mr_view_bytes *const of_host[] = {&plan->host, &plan->pinned, &plan->shared, &plan->queues};
    for (size_t i = 0; i < sizeof of_host / sizeof *of_host; i++)
        add(&plan->devices[0].memory, of_host[i]);
}

static void note_used(mr_plan *plan, int node) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        for (size_t i = 0; plan->vertices[v].node == node && i < mr_plan_parts(&plan->vertices[v]); i++)
            plan->devices[mr_plan_part(&plan->vertices[v], i)].used = true;
}

static void raise(mr_view_bytes *most, const mr_view_bytes *other) {
    if (other->bytes > most->bytes) {
        most->bytes = other->bytes;
        most->likely = other->likely;
    }
    most->unknown = most->unknown || other->unknown;
}

/* In a plan for all nodes, the most that any one process needs: they can run on different machines. */
static int add_up_all(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    mr_view_bytes host = {0}, pinned = {0}, shared = {0}, queues = {0};
    mr_view_bytes *most = mr_arena_array(b->arena, plan->device_count, sizeof *most);
    mr_view_bytes *libraries = mr_arena_array(b->arena, plan->device_count, sizeof *libraries);
    if (!most || !libraries)
        return MR_ERROR_MEMORY;
    for (int n = 0; n < (int)plan->node_count; n++) {
        mr_view_bytes *devices = mr_arena_array(b->arena, plan->device_count, sizeof *devices);
        if (!devices)
            return MR_ERROR_MEMORY;
        add_up_node(plan, n);
        note_used(plan, n);
        plan->nodes[n].devices = devices;
        plan->nodes[n].host = plan->host;
        plan->nodes[n].pinned = plan->pinned;
        plan->nodes[n].shared = plan->shared;
        plan->nodes[n].queues = plan->queues;
        raise(&host, &plan->host);
        raise(&pinned, &plan->pinned);
        raise(&shared, &plan->shared);
        raise(&queues, &plan->queues);
        for (size_t d = 0; d < plan->device_count; d++) {
            devices[d] = plan->devices[d].memory;
            raise(&most[d], &plan->devices[d].memory);
            raise(&libraries[d], &plan->devices[d].libraries);
        }
    }
    plan->host = host;
    plan->pinned = pinned;
    plan->shared = shared;
    plan->queues = queues;
    for (size_t d = 0; d < plan->device_count; d++) {
        plan->devices[d].memory = most[d];
        plan->devices[d].libraries = libraries[d];
    }
    return MR_OK;
}

int mr_plan_account(mr_plan_builder *b) {
    if (make_rows(b) || (b->plan->node_count > 0 && add_up_all(b)))
        return MR_ERROR_MEMORY;
    if (b->plan->node < 0)
        return MR_OK;
    for (size_t d = 1; d < b->plan->device_count; d++)
        b->plan->devices[d].used = false;
    add_up_node(b->plan, b->plan->node);
    note_used(b->plan, b->plan->node);
    return MR_OK;
}
