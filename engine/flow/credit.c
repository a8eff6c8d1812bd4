#include "engine/flow/credit.h"

#include "engine/base/memory.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/control.h"

int mr_credit_create(mr_instance *instance) {
    const mr_plan_vertex *vertex = instance->vertex;
    if (!instance->ring.marks_gaps || instance->self.source != MR_SOURCE_NONE || vertex->source_count < 2)
        return MR_OK;
    instance->intake.credit = mr_calloc(instance->run->plan->source_count, sizeof *instance->intake.credit);
    return instance->intake.credit ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
}

void mr_credit_destroy(mr_instance *instance) {
    mr_free(instance->intake.credit);
    instance->intake.credit = NULL;
}

/* Its frames go no further, so they need no room. */
static bool drops_all(const mr_instance *instance) {
    return mr_control_is_cancelled(instance->run) ||
           atomic_load_explicit(&instance->failed, memory_order_relaxed);
}

static bool routes_have_room(mr_entry_task *entry, uint32_t source) {
    const mr_instance *instance = entry->instance;
    for (size_t port = 0; port < instance->vertex->output_count; port++) {
        const mr_route *route = &instance->ring.routes[port];
        for (size_t i = 0; i < route->consumer_count; i++) {
            mr_link *link = route->links[i][source];
            if (link && !mr_link_has_room(link, source, instance->intake.credit[source], &entry->task))
                return false;
        }
    }
    return true;
}

static bool type_has_room(mr_instance *instance, uint32_t source) {
    const mr_stage_hooks *hooks = instance->self.type->hooks;
    return !hooks || !hooks->has_room ||
           hooks->has_room(&instance->placement.states[0].self, source, instance->intake.credit[source]);
}

bool mr_credit_take(mr_entry_task *entry, uint32_t source) {
    mr_instance *instance = entry->instance;
    if (!instance->intake.credit)
        return true;
    const bool has_room = drops_all(instance) || (type_has_room(instance, source) && routes_have_room(entry, source));
    instance->intake.credit[source] += has_room;
    instance->intake.held_up |= !has_room;
    return has_room;
}
