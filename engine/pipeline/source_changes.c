/* millrace.h: adds, changes and removes sources while the pipeline runs. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/graph.h"
#include "engine/flow/run/sources.h"
#include "engine/pipeline/pipeline.h"
#include "engine/spec/digest.h"
#include "engine/spec/spec_id.h"
#include "millrace/status.h"

/* ---- parameters of later plans ----------------------------------------------------------------------------------- */

static int keep_text(mr_arena *arena, const char *text, const char **kept) {
    *kept = text ? mr_arena_text(arena, text, strlen(text)) : NULL;
    return text && !*kept ? MR_ERROR_MEMORY : MR_OK;
}

static int keep_overrides(mr_pipeline *pipeline, const mr_pipeline_params *params) {
    mr_override *kept = mr_arena_array(&pipeline->arena, params->override_count + 1, sizeof *kept);
    int status = kept ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < params->override_count && !status; i++)
        if (keep_text(&pipeline->arena, params->overrides[i].key, &kept[i].key) ||
            keep_text(&pipeline->arena, params->overrides[i].value, &kept[i].value))
            status = MR_ERROR_MEMORY;
    pipeline->params.override_count = params->override_count;
    pipeline->params.overrides = kept;
    return status;
}

static int keep_inputs(mr_pipeline *pipeline, const mr_pipeline_params *params) {
    const char **kept = mr_arena_array(&pipeline->arena, params->input_count + 1, sizeof *kept);
    int status = kept ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < params->input_count && !status; i++)
        status = keep_text(&pipeline->arena, params->inputs[i], &kept[i]);
    pipeline->params.input_count = params->input_count;
    pipeline->params.inputs = kept;
    return status;
}

static void give(const mr_diagnostic *from, mr_diagnostics *to) {
    mr_diagnose(to, from->severity, from->status, from->place, from->hint, "%s", from->message);
}

/* Keeps the text: the file may change, and standard input cannot be read again. */
int mr_pipeline_keep(mr_pipeline *pipeline, const mr_pipeline_params *params, const mr_diagnostics *diagnostics) {
    mr_pipeline_params *own = &pipeline->params;
    *own = (mr_pipeline_params){.types = params->types, .plugins = params->plugins, .workers = params->workers,
                                .grace_ns = params->grace_ns, .seed = params->seed, .force = params->force,
                                .model_of = params->model_of};
    own->text = pipeline->plan->spec->text;
    if (keep_overrides(pipeline, params) || keep_inputs(pipeline, params) ||
        keep_text(&pipeline->arena, params->path, &own->path) ||
        keep_text(&pipeline->arena, params->output, &own->output))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pipeline");
    for (size_t i = 0; i < diagnostics->count; i++)
        give(&diagnostics->item[i], &pipeline->warnings);
    return MR_OK;
}

/* ---- proving ----------------------------------------------------------------------------------------------------- */

static int report(mr_diagnostics *diagnostics, int status) {
    return mr_diagnose(diagnostics, MR_SEVERITY_ERROR, status, (mr_location){0}, NULL, "%s", mr_message());
}

static int find_added(const mr_plan *with, const char *id, mr_candidate *candidate) {
    for (uint32_t s = 0; s < with->spec->source_count; s++)
        if (strcmp(with->spec->sources[s].id, id) == 0) {
            candidate->source = s;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_CONFIG, "%s: its uri names several videos: add a source for each", id);
}

/* The sources of the running plan, as they are now: others may come and go while the pipeline is planned. */
static int copy_sources(const mr_pipeline *pipeline, mr_plan *known) {
    const mr_plan *plan = pipeline->plan;
    *known = (mr_plan){.spec = plan->spec, .vertices = mr_calloc(plan->source_count + 1, sizeof *known->vertices)};
    if (!known->vertices)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a plan");
    mr_sources_lock(pipeline->graph->run.sources);
    memcpy(known->vertices, plan->vertices, plan->source_count * sizeof *known->vertices);
    mr_sources_unlock(pipeline->graph->run.sources);
    return MR_OK;
}

static bool is_at(const mr_location *a, const mr_location *b) {
    return a->line == b->line && a->column == b->column && strcmp(a->file ? a->file : "", b->file ? b->file : "") == 0;
}

/* Whether the caller already got this warning when the pipeline was opened. */
static bool was_given(const mr_pipeline *pipeline, const mr_diagnostic *one) {
    for (size_t i = 0; i < pipeline->warnings.count; i++)
        if (is_at(&pipeline->warnings.item[i].place, &one->place) &&
            strcmp(pipeline->warnings.item[i].message, one->message) == 0)
            return true;
    return false;
}

/* Gives the caller all that is due to this source. */
static void give_news(const mr_pipeline *pipeline, const mr_diagnostics *found, mr_diagnostics *diagnostics) {
    for (size_t i = 0; i < found->count; i++)
        if (found->item[i].severity == MR_SEVERITY_ERROR || !was_given(pipeline, &found->item[i]))
            give(&found->item[i], diagnostics);
}

/* Plans the pipeline with this source. */
static int prove(mr_pipeline *pipeline, const mr_spec_added *added, mr_candidate *candidate,
                 mr_diagnostics *diagnostics) {
    mr_pipeline_params params = pipeline->params;
    mr_plan known;
    int status = copy_sources(pipeline, &known);
    if (status)
        return report(diagnostics, status);
    status = mr_pipeline_plan_with(&candidate->with, &params, &known, added, diagnostics);
    mr_free(known.vertices);
    if (!status && (status = find_added(candidate->with, added->id, candidate)))
        report(diagnostics, status);
    return status;
}

static int check_room(const mr_pipeline *pipeline) {
    if (!pipeline->graph || !mr_plan_changes(pipeline->plan))
        return mr_fail(MR_ERROR_USAGE,
                       "pipeline %s has no room for other sources: write sources: {max: 64} in its file",
                       pipeline->plan->name);
    return MR_OK;
}

static const char unchanged[] = "nothing to change: it has these options";

/* ---- changing ---------------------------------------------------------------------------------------------------- */

typedef int take_slot(mr_source_slots *slots, mr_candidate *candidate);

/* The file's content may have changed under the same name. */
static bool names_secret(const mr_spec_added *added) {
    for (size_t i = 0; i < added->option_count; i++)
        if (strcmp(added->options[i].key, "password_file") == 0)
            return true;
    return false;
}

/* Whether the source would stay as it is. `added->node` must hold the current options. */
static bool changes_nothing(const mr_pipeline *pipeline, const mr_spec_added *added, const mr_candidate *candidate) {
    char before[MR_DIGEST_TEXT], after[MR_DIGEST_TEXT];
    const mr_yaml *node = candidate->with->spec->sources[candidate->source].node;
    return node && mr_source_gives(pipeline->graph->slots, added->id) &&
           !mr_yaml_digest_with_secrets(added->node, before) && !mr_yaml_digest_with_secrets(node, after) &&
           strcmp(before, after) == 0;
}

static int bring(mr_pipeline *pipeline, const mr_spec_added *added, take_slot *take, mr_diagnostics *diagnostics) {
    mr_candidate candidate = {0};
    mr_diagnostics found = {0};
    int status = prove(pipeline, added, &candidate, &found);
    bool sets = take == mr_source_replace && added->option_count && !names_secret(added);
    bool same = !status && sets && changes_nothing(pipeline, added, &candidate);
    if (same)
        mr_diagnose(diagnostics, MR_SEVERITY_WARNING, MR_OK, (mr_location){0}, NULL, "%s", unchanged);
    else if (!status && (status = take(pipeline->graph->slots, &candidate)))
        report(&found, status);
    if (!same)
        give_news(pipeline, &found, diagnostics);
    mr_diagnostics_fini(&found);
    mr_plan_destroy(&candidate.with);
    return status;
}

int mr_pipeline_add_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics) {
    const mr_spec_added added = {.id = id, .node = node};
    return bring(pipeline, &added, mr_source_admit, diagnostics);
}

int mr_pipeline_set_node(mr_pipeline *pipeline, const char *id, const mr_yaml *node, mr_diagnostics *diagnostics) {
    const mr_spec_added added = {.id = id, .node = node};
    return bring(pipeline, &added, mr_source_replace, diagnostics);
}

int mr_pipeline_add_source(mr_pipeline *pipeline, const char *id, size_t option_count, const mr_override *options,
                           mr_diagnostics *diagnostics) {
    MR_PLAIN_NUMBERS;
    const mr_spec_added added = {.id = id, .option_count = option_count, .options = options};
    int status = check_room(pipeline);
    if (!status && (!mr_spec_source_id_is_plain(id) || strcmp(id, "sources") == 0))
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" cannot be the id of a source: use letters, digits, - and _, up to %d "
                         "bytes", id, MR_SPEC_ID_BYTES);
    if (!status)
        status = mr_source_may_come(pipeline->graph->slots, id);
    return status ? report(diagnostics, status) : bring(pipeline, &added, mr_source_admit, diagnostics);
}

int mr_pipeline_set_source(mr_pipeline *pipeline, const char *id, size_t option_count, const mr_override *options,
                           mr_diagnostics *diagnostics) {
    MR_PLAIN_NUMBERS;
    mr_arena arena = {0};
    mr_yaml *node = NULL;
    int status = check_room(pipeline);
    if (!status)
        status = mr_source_options(pipeline->graph->slots, id, &arena, &node);
    const mr_spec_added added = {.id = id, .node = node, .option_count = option_count, .options = options};
    if (!status && !option_count) {
        mr_diagnose(diagnostics, MR_SEVERITY_WARNING, MR_OK, (mr_location){0}, NULL, "%s", unchanged);
        mr_arena_fini(&arena);
        return MR_OK;
    }
    status = status ? report(diagnostics, status) : bring(pipeline, &added, mr_source_replace, diagnostics);
    mr_arena_fini(&arena);
    return status;
}

int mr_pipeline_remove_source(mr_pipeline *pipeline, const char *id, int64_t timeout_ns) {
    int status = check_room(pipeline);
    if (!status)
        status = mr_source_remove(pipeline->graph->slots, id);
    return status ? status : mr_source_await_removal(pipeline->graph->slots, id, timeout_ns);
}
