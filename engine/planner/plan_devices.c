/* The devices to plan with, and those that each stage computes on. */
#include "engine/planner/plan_devices.h"

#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/plan/assumption.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/nodes.h"
#include "engine/spec/spec_id.h"
#include "millrace/plan.h"
#include "millrace/status.h"

enum { DEFAULT_IN_FLIGHT = 2 };

const mr_card *mr_plan_keep_card(mr_plan_builder *b, const mr_card *card) {
    mr_card *kept = mr_arena_alloc(b->arena, sizeof *kept);
    if (kept)
        *kept = *card;
    return kept;
}

/* ---- the list of devices --------------------------------------------------------------------------------------- */

/* The entry of that name, alias or full name; -1 if there is none. */
static int find_device(const mr_plan_builder *b, const char *name) {
    const mr_plan_device *found = mr_index_get(&b->device_names, name);
    return found ? (int)(found - b->plan->devices) : -1;
}

static int index_device(mr_plan_builder *b, mr_plan_device *device) {
    int status = mr_index_put(&b->device_names, b->arena, device->name, device);
    return status || !device->alias ? status : mr_index_put(&b->device_names, b->arena, device->alias, device);
}

/* Adds a device that is not in the list. Returns the position, or MR_ERROR_MEMORY. */
static int add_device(mr_plan_builder *b, const mr_plan_device *device) {
    mr_plan *plan = b->plan;
    if (plan->device_count == b->device_room) {
        if (mr_arena_grow(b->arena, (void **)&plan->devices, plan->device_count, &b->device_room,
                          sizeof *plan->devices))
            return MR_ERROR_MEMORY;
        b->device_names = (mr_index){0};
        for (size_t i = 0; i < plan->device_count; i++)
            if (index_device(b, &plan->devices[i]))
                return MR_ERROR_MEMORY;
    }
    mr_plan_device *added = &plan->devices[plan->device_count];
    *added = *device;
    return index_device(b, added) ? MR_ERROR_MEMORY : (int)plan->device_count++;
}

/* A GPU named once by number and once by UUID is one device. Only the driver can resolve a UUID, and a plan that opens
 * nothing does not ask it. NULL if there is no memory. */
static const char *one_name(mr_plan_builder *b, const char *full) {
    char text[MR_DEVICE_NAME];
    if (b->params.offline || !full)
        return full;
    mr_device_number(full, text);
    return strcmp(text, full) == 0 ? full : mr_arena_print(b->arena, "%s", text);
}

static void refuse_twice(mr_plan_builder *b, const mr_spec_device *from, const mr_plan_device *other) {
    mr_plan_error(b, from->place, "keep one of them", "devices.%s: %s is %s, which already has the name \"%s\" "
                                                      "(%s:%d:%d)",
                  from->id, from->device, other->name, other->alias, other->mark.file, other->mark.line,
                  other->mark.column);
}

static int list_named(mr_plan_builder *b) {
    for (size_t i = 0; i < b->spec->device_count; i++) {
        const mr_spec_device *from = &b->spec->devices[i];
        const char *name = one_name(b, from->device);
        int known = name ? find_device(b, name) : MR_ERROR_MEMORY;
        if (!name)
            return MR_ERROR_MEMORY;
        if (known > 0) {
            refuse_twice(b, from, &b->plan->devices[known]);
            continue;
        }
        const mr_plan_device device = {.name = name,
                                       .alias = from->id,
                                       .mark = from->place,
                                       .enabled = from->enabled,
                                       .limit_bytes = (uint64_t)from->memory_bytes};
        if (strcmp(from->device, "cpu") != 0) {
            if (add_device(b, &device) < 0)
                return MR_ERROR_MEMORY;
            continue;
        }
        b->plan->devices[0] = device;
        if (!from->enabled)
            mr_plan_error(b, from->place, "remove `enabled`", "devices.%s: the processors cannot be disabled",
                          from->id);
        if (mr_index_put(&b->device_names, b->arena, from->id, &b->plan->devices[0]))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

static int assume(mr_plan_builder *b, const char *text) {
    mr_assumption parsed;
    mr_card card;
    const mr_card *kept = NULL;
    if (mr_plan_check_assumption(text)) {
        mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_USAGE, (mr_location){0}, NULL, "%s", mr_message());
        return MR_OK;
    }
    b->plan->assumed = true;
    mr_plan_parse_assumption(text, &parsed);
    if (parsed.like[0] && mr_card_open(parsed.like, &card) == MR_OK) {
        parsed.bytes = card.memory_bytes = parsed.bytes ? parsed.bytes : card.memory_bytes;
        if (!(kept = mr_plan_keep_card(b, &card)))
            return MR_ERROR_MEMORY;
    }
    for (int i = 0; i < parsed.count; i++) {
        const char *name = mr_arena_print(b->arena, "%s:%d", parsed.kind, i);
        if (!name)
            return MR_ERROR_MEMORY;
        int known = find_device(b, name);
        if (known < 0)
            known = add_device(b, &(mr_plan_device){.name = name, .enabled = true});
        if (known < 0)
            return MR_ERROR_MEMORY;
        b->plan->devices[known].assumed = true;
        b->plan->devices[known].memory_bytes = (uint64_t)parsed.bytes;
        b->plan->devices[known].card = kept;
    }
    return MR_OK;
}

static int list_devices(mr_plan_builder *b) {
    if (add_device(b, &(mr_plan_device){.name = "cpu", .enabled = true, .used = true}) < 0 || list_named(b))
        return MR_ERROR_MEMORY;
    b->plan->devices[0].used = true;
    for (size_t i = 0; i < b->params.assume_count; i++)
        if (assume(b, b->params.assume[i]))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* ---- devices that can compute ---------------------------------------------------------------------------------- */

bool mr_plan_is_cuda(const mr_plan_device *device) {
    return strncmp(device->name, "cuda:", 5) == 0;
}

int mr_plan_probe(mr_plan_builder *b, mr_plan_device *device) {
    if (b->params.offline || device->assumed || device->memory_bytes)
        return MR_OK;
    device->capability = mr_device_capability(device->name);
    return mr_device_probe(device->name, &device->memory_bytes);
}

void mr_plan_check_device(mr_plan_builder *b, const mr_spec_vertex *spec, mr_location place, int d) {
    mr_plan_device *device = &b->plan->devices[d];
    const mr_stage_type *type = spec->type;
    if (d == 0)
        return;
    if (!device->enabled)
        mr_plan_error(b, place, "remove enabled: false there, or name another device",
                      "stages.%s.device: %s is disabled (%s:%d:%d)", spec->id, device->name, device->mark.file,
                      device->mark.line, device->mark.column);
    else if (!mr_plan_works_on_devices(type))
        mr_plan_error(b, place, "remove `device`", "stages.%s.device: %s runs on the host's processors only",
                      spec->id, type->name);
    else if (mr_plan_is_cuda(device) && !type->cuda && b->plan->assumed)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place, NULL,
                    "stages.%s.device: %s has no CUDA kernel in this version; the plan is for a version that has one",
                    spec->id, type->name);
    else if (mr_plan_is_cuda(device) && !type->cuda)
        mr_plan_error(b, place, "write cpu; sim:0 does the same work asynchronously, as a GPU would",
                      "stages.%s.device: %s has no CUDA kernel in this version", spec->id, type->name);
    else if (mr_plan_probe(b, device))
        mr_plan_error(b, place, "name a device that is available, or plan for others with --assume",
                      "stages.%s.device: %s", spec->id, mr_message());
}

/* ---- named devices --------------------------------------------------------------------------------------------- */

static int named(mr_plan_builder *b, const char *name) {
    int found = find_device(b, name);
    if (found >= 0)
        return found;
    const char *full = one_name(b, mr_device_full_name(b->arena, name));
    found = full ? find_device(b, full) : MR_ERROR_MEMORY;
    return !full || found >= 0 ? found : add_device(b, &(mr_plan_device){.name = full, .enabled = true});
}

void mr_plan_name_device(mr_plan_builder *b, mr_plan_vertex *vertex) {
    const mr_plan_device *devices = b->plan->devices;
    vertex->devices.first = devices[vertex->devices.at[0]].name;
    vertex->devices.names = devices[vertex->devices.at[0]].name;
    for (size_t i = 1; i < vertex->devices.count && vertex->devices.names; i++)
        vertex->devices.names =
            mr_arena_print(b->arena, "%s, %s", vertex->devices.names, devices[vertex->devices.at[i]].name);
    if (vertex->devices.has_reserve && vertex->devices.names)
        vertex->devices.names =
            mr_arena_print(b->arena, "%s, then %s", vertex->devices.names, devices[vertex->devices.reserve].name);
}

/* Adds one name of a list; disabled devices are left out, and the reason says so. */
static int take_listed(mr_plan_builder *b, int v, size_t i, int *devices) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    mr_location place = mr_yaml_item_place(spec->node, "device", i);
    int d = named(b, spec->common.device.item[i]);
    if (d < 0)
        return d;
    const mr_plan_device *device = &b->plan->devices[d];
    if (!device->enabled) {
        vertex->devices.reason = mr_arena_print(b->arena, "%s%s%s is disabled and left out",
                                               vertex->devices.reason ? vertex->devices.reason : "",
                                               vertex->devices.reason ? "; " : "", device->name);
        return vertex->devices.reason ? MR_OK : MR_ERROR_MEMORY;
    }
    for (size_t j = 0; j < vertex->devices.count; j++)
        if (devices[j] == d) {
            mr_plan_error(b, place, "name each device once", "stages.%s.device: %s is named twice", spec->id,
                          device->name);
            return MR_OK;
        }
    if (d == 0)
        mr_plan_error(b, place, "write device: cpu, or leave cpu out of the list",
                      "stages.%s.device: the processors cannot share a stage with other devices", spec->id);
    /* A missing kernel is reported once. */
    if (mr_plan_is_elsewhere(b, v)) {
        devices[vertex->devices.count++] = d;
        return MR_OK;
    }
    if (vertex->devices.count == 0 || !mr_plan_is_cuda(device) || !spec->type || spec->type->cuda)
        mr_plan_check_device(b, spec, place, d);
    devices[vertex->devices.count++] = d;
    return MR_OK;
}

static int take_list(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    int *devices = mr_arena_array(b->arena, spec->common.device.count, sizeof *devices);
    if (!devices)
        return MR_ERROR_MEMORY;
    vertex->devices.count = 0;
    for (size_t i = 0; i < spec->common.device.count; i++)
        if (take_listed(b, v, i, devices))
            return MR_ERROR_MEMORY;
    if (vertex->devices.count == 0) {
        mr_plan_error(b, mr_yaml_item_place(spec->node, "device", 0), "remove enabled: false from one of them",
                      "stages.%s.device: all devices in the list are disabled", spec->id);
        vertex->devices.count = 1;
    }
    vertex->devices.at = devices;
    mr_plan_name_device(b, vertex);
    return MR_OK;
}

/* If a stage remembers earlier frames, all frames must go to one device. */
static void check_spread(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    if (vertex->devices.count < 2 || vertex->calls.entry == MR_ENTRY_STATELESS)
        return;
    mr_plan_error(b, mr_yaml_item_place(b->vertex[v]->node, "device", 0), "name one device",
                  "stages.%s.device: %s, so %s cannot be spread over %zu "
                  "devices",
                  vertex->id,
                  vertex->calls.entry == MR_ENTRY_PER_SOURCE ? "it remembers earlier frames of each source"
                                                       : "it remembers earlier frames",
                  vertex->type->name, vertex->devices.count);
}

/* The device that takes over if others fail. */
static int place_reserve(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    const char *name = spec->common.on_device_error;
    if (vertex->role == MR_ROLE_SOURCE || !spec->type || spec->broken || !name || strcmp(name, "drop") == 0)
        return MR_OK;
    mr_location place = mr_yaml_get(spec->node, "on_device_error")->place;
    int d = named(b, name);
    if (d < 0)
        return d;
    for (size_t i = 0; i < vertex->devices.count; i++)
        if (vertex->devices.at[i] == d && d != 0)
            mr_plan_error(b, place, "name another device, or cpu",
                          "stages.%s.on_device_error: the stage computes on %s itself", spec->id,
                          b->plan->devices[d].name);
    if (!mr_plan_is_elsewhere(b, v))
        mr_plan_check_device(b, spec, place, d);
    vertex->devices.reserve = d;
    vertex->devices.has_reserve = true;
    return MR_OK;
}

bool mr_plan_settle_reserve(mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->devices.count; i++)
        vertex->devices.has_reserve = vertex->devices.has_reserve && vertex->devices.at[i] != 0 &&
                                      vertex->devices.at[i] != vertex->devices.reserve;
    return vertex->devices.has_reserve;
}

static int place_named(mr_plan_builder *b, int v) {
    static const int processors[] = {0};
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    const mr_strings *names = &spec->common.device;
    vertex->devices.at = processors;
    vertex->devices.count = 1;
    bool each = vertex->calls.entry == MR_ENTRY_PER_SOURCE && vertex->role != MR_ROLE_SOURCE;
    vertex->calls.instances = each ? (int)mr_plan_at_once(b->plan, vertex) : 1;
    mr_plan_name_device(b, vertex);
    if (vertex->role == MR_ROLE_SOURCE || !spec->type || spec->broken || names->count == 0 || mr_plan_is_auto(spec))
        return MR_OK;
    if (mr_yaml_get(spec->node, "device")->kind == MR_YAML_LIST) {
        if (take_list(b, v))
            return MR_ERROR_MEMORY;
        check_spread(b, v);
        return MR_OK;
    }
    int *device = mr_arena_array(b->arena, 1, sizeof *device);
    if (!device || (*device = named(b, names->item[0])) < 0)
        return MR_ERROR_MEMORY;
    vertex->devices.at = device;
    mr_plan_name_device(b, vertex);
    /* Devices on other machines are checked by the node there. */
    if (!mr_plan_is_elsewhere(b, v))
        mr_plan_check_device(b, spec, mr_yaml_item_place(spec->node, "device", 0), *device);
    return MR_OK;
}

bool mr_plan_is_auto(const mr_spec_vertex *spec) {
    return spec->common.device.count == 1 && strcmp(spec->common.device.item[0], "auto") == 0;
}

static int add_remark(mr_plan_builder *b, mr_plan_vertex *vertex, const char *from) {
    const char *before = vertex->remarks.here;
    vertex->remarks.here =
        mr_arena_print(b->arena, "%s%sof %s: %s", before ? before : "", before ? "; " : "", from, mr_message());
    return vertex->remarks.here ? MR_OK : MR_ERROR_MEMORY;
}

int mr_plan_check_inputs(mr_plan_builder *b, int v, const char *device, bool remarks) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    for (int i = b->in.start[v]; vertex->type->check_input && i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_plan_vertex *from = &b->plan->vertices[link->from];
        bool otherwise = false;
        int status =
            b->unknown[link->from] || b->unknown[v]
                ? MR_OK
                : vertex->type->check_input(vertex->options, &from->outputs[link->from_port].set, device, &otherwise);
        if (status && !otherwise)
            return mr_fail(status, "%s: %s", from->id, mr_message());
        if (status && remarks && add_remark(b, vertex, from->id))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* Lets stage types object to devices that are otherwise usable. */
static void ask_types(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_spec_vertex *spec = b->vertex[v];
    if (b->params.offline || !spec->type || !spec->type->check_device || spec->broken || mr_plan_is_auto(spec) ||
        mr_plan_is_elsewhere(b, v))
        return;
    for (size_t i = 0; i < mr_plan_parts(vertex); i++) {
        int d = mr_plan_part(vertex, i);
        mr_plan_device *device = &b->plan->devices[d];
        mr_location place = i == vertex->devices.count       ? mr_yaml_get(spec->node, "on_device_error")->place
                         : spec->common.device.count > 0 ? mr_yaml_item_place(spec->node, "device", i)
                                                         : spec->place;
        if (device->assumed || !device->enabled || (d && mr_plan_probe(b, device)))
            continue;
        int status = spec->type->check_device(vertex->options, device->name);
        if (!status)
            status = mr_plan_check_inputs(b, v, device->name, true);
        if (status)
            mr_diagnose(b->diagnostics, MR_SEVERITY_ERROR, status, place, NULL, "stages.%s: %s", spec->id,
                        mr_message());
    }
}

/* A batch stays whole after the stage if all its frames went to one device. */
void mr_plan_set_turns(mr_plan_builder *b) {
    for (int v = b->count - 1; v >= 0; v--) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        vertex->devices.turn = vertex->calls.batch;
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
            const mr_plan_vertex *to = &b->plan->vertices[b->link[b->out.item[i]].to];
            if (to->devices.count > 1 && to->devices.turn > vertex->devices.turn)
                vertex->devices.turn = to->devices.turn;
        }
    }
}

int mr_plan_place(mr_plan_builder *b) {
    if (list_devices(b))
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++)
        if (place_named(b, v) || place_reserve(b, v))
            return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        if (!mr_plan_is_auto(b->vertex[v]) && mr_plan_settle_reserve(vertex))
            mr_plan_name_device(b, vertex);
        ask_types(b, v);
    }
    mr_plan_set_turns(b);
    return MR_OK;
}

uint64_t mr_plan_most_bytes(const mr_plan_device *device) {
    uint64_t limit = device->limit_bytes, memory = device->memory_bytes;
    return !limit || (memory && memory < limit) ? memory : limit;
}

/* Settings that depend on how the stage can be entered, which negotiation has decided. */
void mr_plan_set_calls(mr_plan_builder *b, int v) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    int64_t wanted = b->vertex[v]->common.in_flight;
    if (b->params.deterministic)
        vertex->calls.blocking = false;
    /* A source emits frames in one order, so only one worker may be in it. */
    bool parallel = vertex->role != MR_ROLE_SOURCE && !vertex->calls.blocking && !b->params.deterministic;
    int most = vertex->calls.entry == MR_ENTRY_STATELESS ? b->plan->workers : vertex->calls.overlap;
    vertex->calls.entries = !parallel || most < 1 ? 1 : most < b->plan->workers ? most : b->plan->workers;
    if (wanted > 0 && vertex->calls.entries > wanted)
        vertex->calls.entries = (int)wanted;
    /* Two calls per worker, or per device: while the first is unfinished, others can follow. */
    int calls = vertex->calls.entries > (int)vertex->devices.count ? vertex->calls.entries : (int)vertex->devices.count;
    vertex->calls.in_flight = wanted > 0 ? (int)wanted : DEFAULT_IN_FLIGHT * calls;
}
