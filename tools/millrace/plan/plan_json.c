/* The plan as JSON. Values are exact, in bytes, nanoseconds and frames a second. Keys always have this order. */
#include <string.h>

#include "tools/millrace/plan/plan_parts.h"
#include "tools/millrace/plan/plan_print.h"

/* null if the value is 0: not known, or none. */
static void put_known(yajl_gen json, const char *key, int64_t value) {
    if (value)
        mr_json_integer(json, key, value);
    else
        mr_json_text(json, key, NULL);
}

static void put_bounds(yajl_gen json, const char *key, mr_bounds bounds) {
    if (bounds.max == 0) {
        mr_json_text(json, key, NULL);
    } else if (bounds.min == bounds.max) {
        mr_json_integer(json, key, bounds.max);
    } else {
        MR_JSON_MAP(json, key) {
            mr_json_integer(json, "min", bounds.min);
            mr_json_integer(json, "max", bounds.max);
        }
    }
}

/* The names for the values in a set. */
static void put_members(yajl_gen json, const char *key, uint32_t members, const char *(*name)(int value)) {
    MR_JSON_ARRAY(json, key)
        for (int value = 0; value < 32; value++)
            if (members & MR_IN_SET(value))
                mr_json_text(json, NULL, name(value));
}

static const char *pixel_name(int value) {
    return mr_pixel_describe((mr_pixel)value)->name;
}

static const char *dtype_name(int value) {
    return mr_dtype_name((mr_dtype)value);
}

static const char *layout_name(int value) {
    static const char *const names[] = {
        [MR_LAYOUT_ANY] = "any", [MR_LAYOUT_NCHW] = "NCHW", [MR_LAYOUT_NHWC] = "NHWC", [MR_LAYOUT_FLAT] = "flat"};
    return names[value];
}

static void put_format(yajl_gen json, const char *key, const mr_format_set *set) {
    char text[MR_FORMAT_SET_TEXT];
    MR_JSON_MAP(json, key) {
        mr_json_text(json, "text", mr_format_set_print(set, text, sizeof text));
        mr_json_text(json, "payload", mr_payload_name(set->payload));
        mr_json_text(json, "codec", set->codec);
        put_members(json, "pixels", set->pixels, pixel_name);
        put_bounds(json, "width", set->width);
        put_bounds(json, "height", set->height);
        put_members(json, "dtypes", set->dtypes, dtype_name);
        put_members(json, "layouts", set->layouts, layout_name);
        MR_JSON_ARRAY(json, "shape")
            for (int i = 0; i < set->rank; i++)
                put_bounds(json, NULL, set->dims[i]);
    }
}

static void put_node(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *vertex) {
    mr_json_text(json, "node", plan->node_count > 0 ? plan->nodes[vertex->node].id : NULL);
}

/* ---- sources and stages ---------------------------------------------------------------------------------------- */

static void put_source(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *source) {
    bool lasts = source->offer.frames > 0 && source->offer.rate > 0;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", source->id);
        mr_json_text(json, "type", source->type->name);
        mr_json_text(json, "place", source->place);
        put_node(json, plan, source);
        put_format(json, "format", &source->outputs[0].set);
        mr_json_key(json, "rate");
        if (source->offer.rate > 0)
            mr_json_number(json, NULL, source->offer.rate);
        else
            yajl_gen_null(json);
        mr_json_bool(json, "paced", source->offer.paced);
        put_known(json, "frames", source->offer.frames);
        put_known(json, "duration_ns", lasts ? (int64_t)((double)source->offer.frames / source->offer.rate * 1e9) : 0);
        put_known(json, "deadline_ns", source->offer.deadline_ns);
        mr_json_bool(json, "blocking", source->calls.blocking);
        mr_json_text(json, "note", source->remarks.anywhere);
    }
}

static void put_pool(yajl_gen json, const char *key, const mr_plan_view *plan, const mr_view_pool *pool) {
    static const char *const kinds[] = {
        [MR_MEMORY_HOST] = "host",
        [MR_MEMORY_PINNED] = "pinned",
        [MR_MEMORY_DEVICE] = "device",
        [MR_MEMORY_SHARED] = "shared",
    };
    if (pool->count == 0) {
        mr_json_text(json, key, NULL);
        return;
    }
    MR_JSON_MAP(json, key) {
        mr_json_text(json, "memory", kinds[pool->memory]);
        mr_json_text(json, "device", plan->devices[pool->device].name);
        mr_json_integer(json, "buffers", pool->count);
        put_known(json, "buffer_bytes", (int64_t)pool->bytes);
        put_known(json, "most_bytes", (int64_t)pool->most);
        mr_json_bool(json, "ahead", pool->ahead);
    }
}

static void put_instances(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *stage) {
    /* An instance that serves one source after another belongs to no single source. */
    bool each = stage->calls.entry == MR_ENTRY_PER_SOURCE && (size_t)stage->calls.instances == stage->source_count;
    MR_JSON_ARRAY(json, "instances")
        for (int i = 0; i < stage->calls.instances; i++)
            MR_JSON_MAP(json, NULL)
                mr_json_text(json, "source", each ? plan->stages[stage->sources[i]].id : NULL);
}

static void put_devices_of(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *stage) {
    mr_json_text(json, "device", stage->devices.first);
    mr_json_text(json, "device_reason", stage->devices.reason);
    mr_json_text(json, "remark", stage->remarks.here);
    mr_json_text(json, "note", stage->remarks.anywhere);
    MR_JSON_ARRAY(json, "devices")
        for (size_t i = 0; i < stage->devices.count; i++)
            mr_json_text(json, NULL, plan->devices[stage->devices.at[i]].name);
    mr_json_text(json, "on_device_error",
                 stage->devices.has_reserve ? plan->devices[stage->devices.reserve].name : NULL);
}

static void put_pools(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *stage) {
    MR_JSON_ARRAY(json, "pools")
        for (size_t port = 0; port < stage->output_count; port++)
            put_pool(json, NULL, plan, &stage->pools[port]);
    put_pool(json, "scratch", plan, &stage->memory.scratch);
    put_pool(json, "staging", plan, &stage->memory.staging);
    put_pool(json, "batches", plan, &stage->memory.batches);
    put_pool(json, "block", plan, &stage->memory.block);
    put_pool(json, "pinned", plan, &stage->memory.pinned);
    put_pool(json, "results", plan, &stage->memory.results);
    mr_json_integer(json, "constant_bytes", (int64_t)stage->memory.constant_bytes);
}

static void put_stage(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *stage) {
    static const char *const entries[] = {[MR_ENTRY_STATELESS] = "stateless",
                                          [MR_ENTRY_PER_SOURCE] = "per-source",
                                          [MR_ENTRY_SHARED] = "shared"};
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", stage->id);
        mr_json_text(json, "type", stage->type->name);
        mr_json_text(json, "place", stage->place);
        put_node(json, plan, stage);
        put_devices_of(json, plan, stage);
        mr_json_text(json, "entry", entries[stage->calls.entry]);
        put_instances(json, plan, stage);
        mr_json_integer(json, "workers", stage->calls.entries);
        mr_json_bool(json, "blocking", stage->calls.blocking);
        mr_json_integer(json, "library_threads", stage->calls.threads);
        mr_json_integer(json, "batch", stage->calls.batch);
        put_known(json, "batch_timeout_ns", stage->calls.batch_timeout_ns);
        put_known(json, "gathers", stage->calls.gathers > 1 ? stage->calls.gathers : 0);
        mr_json_integer(json, "in_flight", stage->calls.in_flight);
        mr_json_text(json, "on_error", stage->on_error);
        put_pools(json, plan, stage);
    }
}

/* ---- links and copies ------------------------------------------------------------------------------------------ */

static void put_link(yajl_gen json, const mr_plan_view *plan, const mr_view_link *edge) {
    const mr_view_stage *from = &plan->stages[edge->from], *to = &plan->stages[edge->to];
    uint64_t bytes = mr_plan_link_bytes(plan, edge), sources = mr_plan_link_sources(plan, edge);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "from", from->id);
        mr_json_text(json, "output", from->type->outputs[edge->from_port].name);
        mr_json_text(json, "to", to->id);
        mr_json_text(json, "input", to->inputs[edge->to_port].port);
        put_format(json, "format", mr_plan_link_set(plan, edge));
        put_known(json, "frame_bytes", (int64_t)bytes);
        mr_json_integer(json, "queue", to->queue);
        mr_json_integer(json, "sources", (int64_t)sources);
        mr_json_text(json, "when_full", to->when_full);
        put_known(json, "memory_bytes", (int64_t)(bytes * sources * (uint64_t)to->queue));
    }
}

static void put_copy(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *copy) {
    static const char *const kinds[] = {
        [MR_VIEW_UPLOAD] = "upload", [MR_VIEW_DOWNLOAD] = "download", [MR_VIEW_PEER] = "peer"};
    uint64_t bytes = copy->output_bytes[0];
    double rate = mr_plan_rate(plan, copy);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", copy->id);
        mr_json_text(json, "kind", kinds[copy->role]);
        mr_json_text(json, "device", copy->devices.first);
        put_format(json, "format", &copy->outputs[0].set);
        put_known(json, "frame_bytes", (int64_t)bytes);
        put_known(json, "bytes_a_second", (int64_t)((double)bytes * rate));
    }
}

/* ---- the process and its memory -------------------------------------------------------------------------------- */

static void put_thread(yajl_gen json, const mr_view_thread *thread) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", thread->name[0] ? thread->name : NULL);
        mr_json_integer(json, "count", thread->count);
        mr_json_text(json, "what", thread->what);
        mr_json_text(json, "stage", thread->stage);
    }
}

static void put_processes(yajl_gen json, const mr_plan_view *plan) {
    MR_JSON_ARRAY(json, "processes")
        for (size_t i = 0; i < mr_plan_told_nodes(plan); i++) {
            int node = mr_plan_told_node(plan, i);
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", plan->node_count > 0 ? plan->nodes[node].id : "millrace");
                MR_JSON_ARRAY(json, "threads")
                    for (size_t t = 0; t < plan->thread_count; t++)
                        if (plan->threads[t].node == node)
                            put_thread(json, &plan->threads[t]);
                mr_plan_put_needs(json, plan, node);
            }
        }
}

static void put_device(yajl_gen json, const mr_view_device *device) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", device->name);
        mr_json_text(json, "alias", device->alias);
        mr_json_bool(json, "enabled", device->enabled);
        mr_json_bool(json, "assumed", device->assumed);
        mr_json_bool(json, "used", device->used);
        put_known(json, "limit_bytes", (int64_t)device->limit_bytes);
        put_known(json, "memory_bytes", (int64_t)device->memory_bytes);
        mr_plan_put_bytes(json, "pools", &device->memory);
        mr_plan_put_bytes(json, "libraries", &device->libraries);
    }
}

static void put_memory(yajl_gen json, const mr_plan_view *plan) {
    MR_JSON_ARRAY(json, "devices")
        for (size_t i = 0; i < plan->device_count; i++)
            put_device(json, &plan->devices[i]);
    MR_JSON_MAP(json, "memory") {
        mr_plan_put_bytes(json, "host", &plan->host);
        mr_plan_put_bytes(json, "pinned", &plan->pinned);
        mr_plan_put_bytes(json, "shared", &plan->shared);
        mr_plan_put_bytes(json, "queues", &plan->queues);
    }
    mr_plan_put_account(json, plan);
}

/* The number of waiting sources, and the number open at a time. */
static void put_jobs(yajl_gen json, const mr_plan_view *plan) {
    MR_JSON_MAP(json, "jobs") {
        mr_json_integer(json, "at_a_time", plan->jobs);
        mr_json_integer(json, "of", (int64_t)plan->waiting);
    }
}

void mr_plan_put_json(yajl_gen json, const mr_plan_view *plan) {
    mr_json_text(json, "pipeline", plan->name);
    mr_json_text(json, "file", plan->file);
    mr_json_text(json, "digest", plan->digest);
    mr_json_integer(json, "workers", plan->workers);
    mr_json_integer(json, "busy_poll_ns", plan->busy_poll_ns);
    put_jobs(json, plan);
    mr_json_integer(json, "most_sources", (int64_t)plan->most_sources);
    mr_json_bool(json, "assumed", plan->assumed);
    MR_JSON_ARRAY(json, "sources")
        for (size_t v = 0; v < plan->source_count; v++)
            if (mr_plan_is_told(plan, &plan->stages[v]))
                put_source(json, plan, &plan->stages[v]);
    MR_JSON_ARRAY(json, "stages")
        for (size_t v = plan->source_count; v < plan->stage_count; v++)
            if (mr_plan_is_authored(&plan->stages[v]) && mr_plan_is_told(plan, &plan->stages[v]))
                put_stage(json, plan, &plan->stages[v]);
    MR_JSON_ARRAY(json, "links")
        for (size_t e = 0; e < plan->link_count; e++)
            if (mr_plan_is_inner(plan, &plan->links[e]))
                put_link(json, plan, &plan->links[e]);
    MR_JSON_ARRAY(json, "copies")
        for (size_t v = plan->source_count; v < plan->stage_count; v++)
            if (mr_plan_is_copy(&plan->stages[v]) && mr_plan_is_told(plan, &plan->stages[v]))
                put_copy(json, plan, &plan->stages[v]);
    mr_plan_put_cuts(json, plan);
    put_processes(json, plan);
    put_memory(json, plan);
    mr_plan_put_expected(json, plan);
}
