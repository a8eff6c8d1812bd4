/* millrace.h: pipelines for programs. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "engine/data/store.h"
#include "engine/flow/copy.h"
#include "engine/flow/graph.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/taps.h"
#include "engine/flow/start.h"
#include "engine/pipeline/listed.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "engine/transport/cut/cut_stages.h"
#include "millrace/spans.h"

const mr_plan_types mr_pipeline_types = {
    .copy = &mr_copy_stage, .cut_out = &mr_cut_out_stage, .cut_in = &mr_cut_in_stage};

int mr_pipeline_plan_with(mr_plan **plan, const mr_pipeline_params *params, const mr_plan *known,
                          const mr_spec_added *added, mr_diagnostics *diagnostics) {
    const mr_spec_params spec = {
        .types = params->types,
        .plugins = params->plugins,
        .model_of = params->model_of,
        .path = params->path,
        .text = params->text,
        .override_count = params->override_count,
        .overrides = params->overrides,
        .override_names = params->override_names,
        .input_count = params->input_count,
        .inputs = params->inputs,
        .output = params->output,
        .added = added,
    };
    const mr_plan_params how = {
        .known = known,
        .added = added ? added->id : NULL,
        .inserted = &mr_pipeline_types,
        .workers = params->seed ? 1 : params->workers,
        .jobs = params->jobs,
        .offline = params->offline,
        .connect = params->connect && !params->offline,
        .force = params->force,
        .resumes = params->resume != NULL,
        .deterministic = params->seed != 0,
        .assume_count = params->assume_count,
        .assume = params->assume,
        .cuts = params->cuts,
        .node = params->node,
        .replica = params->replica,
        .process = params->process,
        .processes = params->processes,
        .host_count = params->host_count,
        .hosts = params->hosts,
        .runtime = params->runtime,
        .grace_ns = params->grace_ns,
        .cost_count = params->cost_count,
        .costs = params->costs,
    };
    return mr_plan_load(plan, &spec, &how, diagnostics);
}

int mr_pipeline_plan(mr_plan **plan, const mr_pipeline_params *params, mr_diagnostics *diagnostics) {
    return mr_pipeline_plan_with(plan, params, NULL, NULL, diagnostics);
}

static int create_graph(mr_pipeline *pipeline, const mr_pipeline_params *params) {
    const mr_graph_params own = {.seed = params->seed,
                                 .profiled = params->profile != NULL,
                                 .quiet_sources = params->quiet_sources,
                                 .check_stages = params->check_stages,
                                 .trace = params->trace,
                                 .resume = params->resume};
    return mr_graph_create(&pipeline->graph, pipeline->plan, &own);
}

static int open_pipeline(mr_pipeline **pipeline, const mr_pipeline_params *params, mr_diagnostics *diagnostics) {
    mr_pipeline *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pipeline");
    pthread_mutex_init(&made->snapshot_lock, NULL);
    made->offline = params->offline || params->assume_count > 0;
    int status = mr_pipeline_plan(&made->plan, params, diagnostics);
    if (!status && made->plan->node < 0)
        made->offline = true;
    if (!status && mr_plan_changes(made->plan))
        status = mr_pipeline_keep(made, params, diagnostics);
    if (!status && params->profile)
        status = mr_plan_discard_output(made->plan, params->profile);
    if (!status && !made->offline)
        status = create_graph(made, params);
    if (status)
        mr_pipeline_destroy(&made);
    *pipeline = made;
    return status;
}

int mr_pipeline_params_copy(mr_pipeline_params *own, const mr_pipeline_params *given, size_t given_bytes,
                            mr_diagnostics *diagnostics) {
    int status = mr_sized_copy(own, sizeof *own, given, given_bytes, MR_SIZE_THROUGH(mr_pipeline_params, path),
                               "mr_pipeline_params");
    return status ? mr_diagnose(diagnostics, MR_SEVERITY_ERROR, status, (mr_location){0}, NULL, "%s", mr_message())
                  : MR_OK;
}

int mr_pipeline_open_sized(mr_pipeline **pipeline, const mr_pipeline_params *params, size_t params_bytes,
                           mr_diagnostics *diagnostics) {
    MR_PLAIN_NUMBERS;
    mr_pipeline_params own;
    *pipeline = NULL;
    int status = mr_pipeline_params_copy(&own, params, params_bytes, diagnostics);
    return status ? status : open_pipeline(pipeline, &own, diagnostics);
}

void mr_pipeline_destroy(mr_pipeline **pipeline) {
    mr_pipeline *gone = *pipeline;
    if (!gone)
        return;
    /* Stop first, so that sources still being added end at once. */
    if (gone->listed)
        mr_control_stop(&gone->graph->run, true);
    mr_listed_stop(&gone->listed);
    mr_summary_destroy(&gone->snapshot);
    pthread_mutex_destroy(&gone->snapshot_lock);
    mr_graph_destroy(&gone->graph);
    mr_plan_destroy(&gone->plan);
    mr_diagnostics_fini(&gone->warnings);
    mr_arena_fini(&gone->arena);
    mr_free(gone);
    *pipeline = NULL;
}

/* Says that no source, no stage, or neither has this id, and which one it may have meant. */
static int fail_to_find(const mr_plan *plan, bool stages, bool sources, const char *id) {
    mr_nearest nearest = {.wanted = id};
    char meant[256];
    /* The names of sources that come and go may change meanwhile. */
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (plan->vertices[v].role == MR_ROLE_SOURCE ? sources && !mr_plan_changes(plan) : stages)
            mr_nearest_offer(&nearest, plan->vertices[v].id);
    const char *near = mr_nearest_hint(&nearest, meant, sizeof meant, NULL);
    return mr_fail(MR_ERROR_USAGE, "pipeline %s has no %s%s%s \"%s\"%s%s", plan->name, stages ? "stage" : "",
                   stages && sources ? " or " : "", sources ? "source" : "", id, near ? ": " : "", near ? near : "");
}

/* Finds the vertex with this id among sources or stages; NULL: there is none. */
static const mr_plan_vertex *find(const mr_pipeline *pipeline, const char *id, bool source) {
    for (size_t v = 0; v < pipeline->plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &pipeline->plan->vertices[v];
        if ((vertex->role == MR_ROLE_SOURCE) == source && strcmp(vertex->id, id) == 0)
            return vertex;
    }
    return NULL;
}

/* Finds a present source; NULL: there is none. If sources come and go, the slot may get another one at any time; the id
 * shows whether it has. */
static const mr_plan_vertex *find_source(const mr_pipeline *pipeline, const char *id, const char **kept) {
    mr_graph *graph = pipeline->graph;
    const mr_plan_vertex *vertex = NULL;
    if (!graph || !mr_plan_changes(pipeline->plan)) {
        vertex = find(pipeline, id, true);
        *kept = vertex ? vertex->id : NULL;
        return vertex;
    }
    uint32_t source = mr_source_find(graph->slots, id, kept);
    return source == MR_SOURCE_NONE ? NULL : &pipeline->plan->vertices[source];
}

static const mr_plan_vertex *find_external(const mr_pipeline *pipeline, const char *id, const char **kept) {
    const mr_plan_vertex *vertex = find_source(pipeline, id, kept);
    if (!vertex)
        fail_to_find(pipeline->plan, false, true, id);
    if (vertex && !vertex->type->external) {
        mr_fail(MR_ERROR_USAGE, "source %s has type %s; frames can only be pushed into sources of type push", id,
                vertex->type->name);
        return NULL;
    }
    if (vertex && !mr_plan_is_here(pipeline->plan, vertex)) {
        mr_fail(MR_ERROR_USAGE, "source %s is on another node", id);
        return NULL;
    }
    return vertex;
}

int mr_pipeline_subscribe(mr_pipeline *pipeline, const char *stage, mr_frame_function *function, void *context) {
    const mr_plan_vertex *vertex = find(pipeline, stage, false);
    if (!vertex)
        return fail_to_find(pipeline->plan, true, false, stage);
    mr_deliveries_subscribe(&pipeline->graph->run, vertex, function, context);
    return MR_OK;
}

int mr_frame_keep(const mr_frame *from, mr_frame **kept) {
    return mr_store_copy(from->store, from, kept);
}

int mr_pipeline_tap(mr_pipeline *pipeline, const char *stage, int64_t timeout_ns, mr_frame **frame,
                    const char **source) {
    const mr_plan *plan = pipeline->plan;
    const mr_plan_vertex *vertex = find(pipeline, stage, false);
    *frame = NULL;
    if (!vertex)
        vertex = find_source(pipeline, stage, source);
    if (!vertex)
        return fail_to_find(plan, true, true, stage);
    if (!pipeline->graph || !mr_plan_is_here(plan, vertex))
        return mr_fail(MR_ERROR_USAGE, "%s runs on another node", stage);
    int status = mr_taps_wait(&pipeline->graph->run, vertex, timeout_ns, frame);
    if (!status)
        *source = plan->vertices[(*frame)->identity.source].id;
    return status;
}

int mr_pipeline_start(mr_pipeline *pipeline) {
    MR_PLAIN_NUMBERS;
    if (pipeline->offline)
        return mr_fail(MR_ERROR_USAGE, pipeline->plan->node < 0
                                           ? "name the node that this process runs: each process runs one"
                                           : "a pipeline that was opened offline cannot be started");
    mr_graph *graph = pipeline->graph;
    int status = mr_graph_start(graph);
    if (!status && (status = mr_listed_start(&pipeline->listed, pipeline)))
        mr_control_stop(&graph->run, true);
    return status;
}

/* ---- pushing --------------------------------------------------------------------------------------------------- */

/* Bytes from the lowest to the highest row of a plane. A picture that lies bottom up has a negative stride. */
static size_t plane_span(const mr_push *push, int plane) {
    const ptrdiff_t stride = push->stride[plane] < 0 ? -push->stride[plane] : push->stride[plane];
    const int32_t rows = mr_plane_rows(push->format.pixel, plane, push->format.height);
    return (size_t)(rows - 1) * (size_t)stride + mr_plane_row_bytes(push->format.pixel, plane, push->format.width);
}

/* Refers to planes in the program's memory. The first plane's buffer must call the release function. */
static int wrap(mr_frame *frame, const mr_push *push) {
    bool picture = push->format.payload == MR_PAYLOAD_PICTURE;
    int planes = picture ? mr_pixel_describe(push->format.pixel)->planes : 1;
    for (int i = 0; i < planes; i++) {
        size_t bytes = picture ? plane_span(push, i) : mr_tensor_bytes(&push->format);
        void *data = (void *)(uintptr_t)push->data[i];
        mr_buffer *buffer = mr_buffer_wrap(data, bytes, i ? NULL : push->release, i ? NULL : push->context);
        if (!buffer)
            return mr_fail(MR_ERROR_MEMORY, "no memory for a pushed frame");
        frame->plane[i] = (mr_plane){buffer, buffer->data, push->stride[i], bytes};
    }
    return MR_OK;
}

static int copy(mr_frame *frame, const mr_push *push) {
    mr_buffer *buffer = mr_buffer_alloc(mr_packed_bytes(&push->format));
    mr_frame given = {.format = push->format};
    if (!buffer)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < MR_MAX_PLANES; i++)
        given.plane[i] = (mr_plane){.data = (uint8_t *)(uintptr_t)push->data[i], .stride = push->stride[i]};
    mr_frame_pack(&given, buffer->data);
    mr_frame_place(frame, &push->format, buffer, 0, 1);
    mr_buffer_unref(&buffer);
    return MR_OK;
}

static void release_nothing(void *context) {
}

/* After a failed push the program keeps the memory: the release function must not be called. */
static void disown(mr_frame *frame, const mr_push *push) {
    if (push->release && frame->plane[0].buffer)
        frame->plane[0].buffer->release = release_nothing;
}

static int push_frame(mr_pipeline *pipeline, const char *source, const mr_push *push, int64_t timeout_ns) {
    const char *id = NULL;
    const mr_plan_vertex *vertex = find_external(pipeline, source, &id);
    if (!vertex)
        return MR_ERROR_USAGE;
    char planned[MR_FORMAT_SET_TEXT], pushed[MR_FORMAT_TEXT];
    const mr_format_set set = mr_source_formats(pipeline->graph->slots, vertex->source);
    if (!mr_format_set_has(&set, &push->format))
        return mr_fail(MR_ERROR_DATA, "%s takes %s, but %s was pushed", source,
                       mr_format_set_print(&set, planned, sizeof planned),
                       mr_format_print(&push->format, pushed, sizeof pushed));
    /* In a set 0 stands for any size, and a frame has one. */
    if (!mr_packed_bytes(&push->format))
        return mr_fail(MR_ERROR_DATA, "%s was pushed a frame that is empty, or larger than memory", source);
    mr_frame *frame = NULL;
    int status = mr_store_frame(pipeline->graph->run.store, &frame);
    if (status)
        return status;
    frame->format = push->format;
    frame->pts_ns = push->pts_ns;
    status = push->release ? wrap(frame, push) : copy(frame, push);
    if (!status)
        status = mr_source_push(pipeline->graph->slots, vertex->source, id, frame, timeout_ns);
    if (status) {
        disown(frame, push);
        mr_frame_unref(&frame);
    }
    return status;
}

int mr_pipeline_push_sized(mr_pipeline *pipeline, const char *source, const mr_push *push, size_t push_bytes,
                           int64_t timeout_ns) {
    mr_push own;
    int status = mr_sized_copy(&own, sizeof own, push, push_bytes, MR_SIZE_THROUGH(mr_push, context), "mr_push");
    return status ? status : push_frame(pipeline, source, &own, timeout_ns);
}

int mr_pipeline_end(mr_pipeline *pipeline, const char *source) {
    const char *id = NULL;
    const mr_plan_vertex *vertex = find_external(pipeline, source, &id);
    if (vertex)
        mr_source_end_pushes(pipeline->graph->slots, vertex->source, id);
    return vertex ? MR_OK : MR_ERROR_USAGE;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

void mr_pipeline_stop(mr_pipeline *pipeline, bool at_once) {
    mr_control_stop(&pipeline->graph->run, at_once);
}

/* The device with this name or alias, if the run has opened it. */
static const mr_device *find_device(const mr_pipeline *pipeline, const char *name) {
    const mr_plan *plan = pipeline->plan;
    for (size_t d = 0; pipeline->graph && d < plan->device_count; d++) {
        const mr_plan_device *device = &plan->devices[d];
        if (strcmp(device->name, name) == 0 || (device->alias && strcmp(device->alias, name) == 0))
            return pipeline->graph->run.devices[d];
    }
    return NULL;
}

int mr_pipeline_enable_device(mr_pipeline *pipeline, const char *name, bool enabled) {
    const mr_device *device = find_device(pipeline, name);
    return device ? mr_graph_enable_device(pipeline->graph, device, enabled)
                  : mr_fail(MR_ERROR_USAGE, "pipeline %s does not use a device \"%s\"", pipeline->plan->name, name);
}

int mr_pipeline_trigger(mr_pipeline *pipeline, const char *id) {
    return mr_graph_trigger(pipeline->graph, id);
}

void mr_pipeline_reopen(mr_pipeline *pipeline) {
    if (pipeline->graph)
        mr_control_reopen(&pipeline->graph->run);
}

int mr_pipeline_wait(mr_pipeline *pipeline, int64_t timeout_ns) {
    int status = mr_graph_wait(pipeline->graph, timeout_ns);
    if (status != MR_ERROR_AGAIN) {
        char *message = mr_strdup(mr_message());
        mr_listed_end(pipeline->listed);
        if (status && message)
            mr_fail(status, "%s", message);
        mr_free(message);
    }
    return status;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

void mr_pipeline_follow(mr_pipeline *pipeline, double share) {
    if (pipeline->graph)
        pipeline->graph->followed = share;
}

static mr_spans *spans_of(const mr_pipeline *pipeline) {
    return pipeline->graph ? pipeline->graph->run.spans : NULL;
}

size_t mr_pipeline_spans(mr_pipeline *pipeline, mr_span *spans, size_t room) {
    return spans_of(pipeline) ? mr_spans_take(spans_of(pipeline), spans, room) : 0;
}

void mr_pipeline_forget_spans(mr_pipeline *pipeline, size_t count, size_t lost) {
    if (spans_of(pipeline))
        mr_spans_forget(spans_of(pipeline), count, lost);
}
