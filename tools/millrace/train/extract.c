#include "tools/millrace/train/extract_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "engine/base/thread.h"
#include "millrace/describe.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/extract_sources.h"
#include "tools/millrace/train/set.h"
#include "tools/millrace/train/stop.h"

enum { MOST_ZEROS = 64 };
static const int64_t LOOK_NS = 50000000;
static const char callback_id[] = "evaluate-classes", given_id[] = "evaluate-given";

typedef struct mr_tap_type {
    mr_stage_type type; /* must be first: the engine uses this type */
    const mr_stage_type *original;
    mr_extraction *extraction;
    mr_option *options; /* the tap's table */
} mr_tap_type;

/* ---- taps -------------------------------------------------------------------------------------------------------- */

static const mr_tap_type *tap_of(const mr_stage *self) {
    return (const mr_tap_type *)(const void *)self->type;
}

/* Keeps the first failure's message and ends the run. */
static void note_failure(mr_extraction *extraction, int status) {
    if (!status || extraction->status)
        return;
    extraction->status = status;
    snprintf(extraction->message, sizeof extraction->message, "%s", mr_message());
    mr_pipeline_stop(extraction->pipeline, true);
}

/* Finds the frame's file number; false if it is none of the files, or an earlier step failed. */
static bool find_file(const mr_extraction *extraction, const mr_frame *frame, mr_taken *from) {
    const mr_media *media = frame->media;
    char key[MR_EXTRACTION_KEY];
    if (!media || !media->path || extraction->status)
        return false;
    mr_extraction_key(media->path, media->start_ns, media->end_ns, key);
    size_t found = (size_t)(uintptr_t)mr_index_get(&extraction->index->index, key);
    *from = (mr_taken){.file = found - 1,
                       .at_ns = media->still || frame->pts_ns < 0 ? 0 : frame->pts_ns,
                       .frame = frame->identity};
    return found != 0;
}

static bool is_small(const mr_extraction *extraction, const mr_frame *frame) {
    return frame->format.payload == MR_PAYLOAD_PICTURE &&
           (frame->format.width < extraction->least_side || frame->format.height < extraction->least_side);
}

static void take_vector(mr_extraction *extraction, const mr_frame *frame) {
    static const float zeros[MOST_ZEROS];
    mr_frame_vector vector;
    mr_taken from;
    MR_LOCKED(&extraction->lock);
    if (find_file(extraction, frame, &from)) {
        int status = mr_frame_find_vector(frame, extraction->tensor, &vector);
        if (!status && vector.length <= MOST_ZEROS && is_small(extraction, frame))
            vector.data = zeros;
        note_failure(extraction,
                     status ? status : extraction->take_vector(extraction->user, &from, vector.data, vector.length));
    }
}

static void take_classes(void *context, const char *source, const mr_frame *frame) {
    mr_extraction *extraction = context;
    const mr_result *result = mr_frame_result(frame, mr_kind_classes(), extraction->classify->id);
    mr_taken from;
    MR_LOCKED(&extraction->lock);
    if (result && find_file(extraction, frame, &from))
        note_failure(extraction, extraction->take_classes(extraction->user, &from, result->classes, result->count));
}

static void take_given(void *context, const char *source, const mr_frame *frame) {
    mr_extraction *extraction = context;
    mr_taken from;
    MR_LOCKED(&extraction->lock);
    if (find_file(extraction, frame, &from))
        note_failure(extraction, extraction->take_given(extraction->user, &from, frame));
}

/* Another classify than the trained one passes its frames on to later stages. */
static int process_tap(mr_stage *self, mr_io *io) {
    mr_extraction *extraction = tap_of(self)->extraction;
    const bool chosen = strcmp(self->id, extraction->classify->id) == 0;
    int status = MR_OK;
    for (size_t i = 0; i < mr_io_count(io) && !status; i++) {
        if (!chosen) {
            status = mr_io_forward(io, i);
            continue;
        }
        take_vector(extraction, mr_io_input_at(io, 0, i));
        mr_io_absorb(io, mr_io_input_at(io, 0, i), "vector taken");
    }
    return status;
}

/* A negotiation does not know its type, so only one extraction can be planned at a time. */
static mr_extraction *planned;
static const mr_stage_type *planned_classify;

static int note_lineage(mr_extraction *extraction, mr_negotiation *n) {
    mr_lineage lineage;
    int status = mr_planned_lineage(n, 0, &lineage);
    if (status)
        return mr_refuse_status(n, status, NULL, "%s", mr_message());
    free(extraction->lineage);
    extraction->lineage = strdup(lineage.stages);
    snprintf(extraction->digest, sizeof extraction->digest, "%s", lineage.digest);
    snprintf(extraction->cache_key, sizeof extraction->cache_key, "%s%s", extraction->digest, extraction->where);
    return extraction->lineage ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the stages");
}

/* The tap requires the same input as classify, but classify's files need not exist. */
static int negotiate_tap(mr_negotiation *n) {
    const bool offline = n->offline;
    n->offline = true;
    int status = planned_classify->negotiate(n);
    n->offline = offline;
    if (status || strcmp(n->id, planned->classify->id) != 0)
        return status;
    mr_format vector;
    if (mr_planned_find_vector(&n->inputs[0], planned->tensor, &vector) == MR_PLANNED_FOUND)
        planned->length = mr_vector_length(&vector);
    if (!planned->lineage)
        status = note_lineage(planned, n);
    return status;
}

static int process_muted(mr_stage *self, mr_io *io) {
    return MR_DONE;
}

static bool is_sink(const mr_stage_type *type) {
    return type->inputs && !type->outputs;
}

/* Copies classify's options, but none may name a file: the head need not exist yet. */
static int copy_options(mr_tap_type *tap) {
    size_t count = 0;
    while (tap->original->options[count].name)
        count++;
    tap->options = calloc(count + 1, sizeof *tap->options);
    if (!tap->options)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the stage types");
    memcpy(tap->options, tap->original->options, (count + 1) * sizeof *tap->options);
    for (size_t i = 0; i < count; i++)
        tap->options[i].file = MR_FILE_NONE;
    tap->type.options = tap->options;
    return MR_OK;
}

static int make_tap(mr_tap_type *tap) {
    mr_stage_type *type = &tap->type;
    planned = tap->extraction;
    planned_classify = tap->original;
    type->check_device = NULL;
    type->open = NULL;
    type->close = NULL;
    type->flush = NULL;
    type->state_bytes = 0;
    type->negotiate = negotiate_tap;
    type->process = process_tap;
    return copy_options(tap);
}

static void make_muted(mr_tap_type *tap) {
    const mr_stage_type *from = tap->original;
    tap->type = (mr_stage_type){.name = from->name,
                                .summary = from->summary,
                                .inputs = from->inputs,
                                .options = from->options,
                                .options_bytes = from->options_bytes,
                                .entry = MR_ENTRY_SHARED,
                                .resumes = true,
                                .process = process_muted};
}

int mr_extraction_wrap(mr_extraction *extraction, bool tapped) {
    size_t count = 0;
    while (extraction->plan->types[count])
        count++;
    extraction->types = calloc(count, sizeof *extraction->types);
    extraction->list = calloc(count + 1, sizeof *extraction->list);
    if (!extraction->types || !extraction->list)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the stage types");
    extraction->type_count = count;
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        mr_tap_type *tap = &extraction->types[i];
        const mr_stage_type *original = extraction->list[i] = extraction->plan->types[i];
        *tap = (mr_tap_type){.type = *original, .original = original, .extraction = extraction};
        if (tapped && original == extraction->classify->type)
            status = make_tap(tap);
        else if (is_sink(original) && strcmp(original->name, "callback") != 0)
            make_muted(tap);
        else
            continue;
        extraction->list[i] = &tap->type;
    }
    return status;
}

void mr_extraction_unwrap(mr_extraction *extraction) {
    for (size_t i = 0; i < extraction->type_count; i++)
        free(extraction->types[i].options);
    free(extraction->types);
    free(extraction->list);
    extraction->types = NULL;
    extraction->list = NULL;
    extraction->type_count = 0;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static bool is_classify(const mr_view_stage *stage) {
    return stage->role == MR_VIEW_STAGE && strcmp(stage->type->name, "classify") == 0;
}

static int find_classify(mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    size_t found = 0;
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_view_stage *stage = &plan->stages[v];
        if (!is_classify(stage) || (extraction->stage && strcmp(stage->id, extraction->stage) != 0))
            continue;
        extraction->classify = stage;
        found++;
    }
    if (found == 1)
        return MR_OK;
    if (extraction->stage)
        return mr_fail(MR_ERROR_CONFIG, "%s: no stage of type classify has the id \"%s\"", plan->file,
                       extraction->stage);
    if (found)
        return mr_fail(MR_ERROR_CONFIG, "%s: %zu stages are of type classify: choose one with --stage ID", plan->file,
                       found);
    return mr_fail(MR_ERROR_CONFIG,
                   "%s: no stage is of type classify: it takes the vectors, as in classify: {input: hog, "
                   "head: \"${HEAD:-head}\"}",
                   plan->file);
}

static const void *value_of(const mr_extraction *extraction, const char *name) {
    const mr_option *option = mr_option_find(extraction->source->type->options, name);
    return (const char *)extraction->source->options + option->offset;
}

static void find_choice(mr_extraction *extraction) {
    mr_picture_choice *choice = &extraction->choice;
    memcpy(&choice->every, value_of(extraction, "every"), sizeof choice->every);
    memcpy(&choice->stream, value_of(extraction, "stream"), sizeof choice->stream);
    memcpy(&choice->fps, value_of(extraction, "fps"), sizeof choice->fps);
}

/* An option's text; NULL: not given, or there is no such option. */
static const char *text_of(const mr_view_stage *stage, const char *name) {
    const mr_option *option = mr_option_find(stage->type->options, name);
    return option ? mr_option_string(option, stage->options) : NULL;
}

const char *mr_extraction_own_head(const mr_extraction *extraction) {
    return text_of(extraction->classify, "head");
}

/* Skips copies that the planner inserted. */
const mr_view_stage *mr_extraction_before(const mr_extraction *extraction, const mr_view_stage *stage, int *port) {
    const mr_plan_view *plan = extraction->plan;
    const mr_view_stage *found;
    do {
        found = NULL;
        for (size_t l = 0; l < plan->link_count; l++) {
            if (&plan->stages[plan->links[l].to] != stage)
                continue;
            if (found)
                return NULL;
            found = &plan->stages[plan->links[l].from];
            *port = plan->links[l].from_port;
        }
        stage = found;
    } while (found && found->role != MR_VIEW_STAGE && found->role != MR_VIEW_SOURCE);
    return found;
}

/* Writes extraction->stages, and a digest over device kinds to extraction->where. */
static void name_marked(mr_extraction *extraction, const bool *before) {
    const mr_plan_view *plan = extraction->plan;
    mr_content_key devices = {0};
    bool elsewhere = false;
    size_t used = 0;
    for (size_t v = plan->source_count; v < plan->stage_count; v++) {
        const mr_view_stage *stage = &plan->stages[v];
        if (!before[v] || stage->role != MR_VIEW_STAGE)
            continue;
        if (used < sizeof extraction->stages)
            used += (size_t)snprintf(extraction->stages + used, sizeof extraction->stages - used, "%s%s",
                                     used ? ", " : "", stage->id);
        elsewhere = elsewhere || strcmp(stage->devices.names, "cpu") != 0;
        for (size_t d = 0; d < stage->devices.count; d++) {
            const mr_view_device *device = &plan->devices[stage->devices.at[d]];
            devices = mr_content_key_join(&devices, device->name, strcspn(device->name, ":"));
            if (device->card)
                devices = mr_content_key_join(&devices, device->card->name, strlen(device->card->name));
        }
    }
    if (elsewhere)
        snprintf(extraction->where, sizeof extraction->where, "-%016" PRIx64, devices.low);
}

static int name_stages(mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    bool *before = calloc(plan->stage_count, sizeof *before);
    if (!before)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the plan");
    mr_extraction_mark(plan, (int)(extraction->classify - plan->stages), before);
    name_marked(extraction, before);
    free(before);
    return MR_OK;
}

static int read_typed(mr_extraction *extraction) {
    size_t room = 0;
    if (extraction->text || strcmp(extraction->path, "-") != 0)
        return MR_OK;
    errno = 0;
    const ssize_t bytes = getdelim(&extraction->typed, &room, 0, stdin);
    if (bytes < 0 && errno)
        return mr_file_fail("read", "standard input");
    if (bytes > 0 && !extraction->typed[bytes - 1])
        return mr_fail(MR_ERROR_DATA, "standard input: has a zero byte in it, and is not a pipeline");
    extraction->text = bytes > 0 ? extraction->typed : "";
    return MR_OK;
}

static int plan(mr_extraction *extraction) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = extraction->path, .text = extraction->text, .offline = true};
    mr_overrides_apply(extraction->overrides, &params);
    int status = mr_plan_view_open(&extraction->plan, &params, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    return mr_status_exit_code(status);
}

int mr_extraction_prepare(mr_extraction *extraction) {
    pthread_mutex_init(&extraction->lock, NULL);
    int status = read_typed(extraction);
    const int code = status ? mr_command_failed(status) : plan(extraction);
    if (code)
        return code;
    status = find_classify(extraction);
    if (!status)
        status = mr_extraction_find_source(extraction->plan, extraction->classify, &extraction->source);
    if (!status)
        status = name_stages(extraction);
    if (!status) {
        find_choice(extraction);
        extraction->tensor = text_of(extraction->classify, "tensor");
    }
    if (status)
        return mr_command_failed(status);
    return extraction->spread ? mr_extraction_find_nodes(extraction) : 0;
}

/* Plans the pipeline with the tap, which records the vectors' lineage. */
static int plan_tapped(mr_extraction *extraction, mr_diagnostics *wrong) {
    const mr_plan_view *view = NULL;
    mr_settings with;
    mr_pipeline_params params = {.path = extraction->path, .text = extraction->text, .offline = true};
    mr_overrides_apply(extraction->overrides, &params);
    int status = mr_settings_init(&with, extraction->overrides, 1);
    if (!status && extraction->plan->plugins)
        status = mr_settings_set(&with, "[]", "plugins", "", "");
    if (!status)
        status = mr_extraction_wrap(extraction, true);
    params.types = extraction->list;
    params.override_count = with.count;
    params.overrides = with.item;
    if (!status)
        status = mr_plan_view_open(&view, &params, wrong);
    mr_plan_view_close(&view);
    mr_extraction_unwrap(extraction);
    mr_settings_fini(&with);
    return status;
}

int mr_extraction_trace(mr_extraction *extraction) {
    mr_diagnostics wrong = {0};
    int status = plan_tapped(extraction, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    return status ? mr_status_exit_code(status) : 0;
}

void mr_extraction_fini(mr_extraction *extraction) {
    mr_plan_view_close(&extraction->nodes);
    mr_plan_view_close(&extraction->plan);
    free(extraction->lineage);
    free(extraction->forced);
    free(extraction->typed);
    pthread_mutex_destroy(&extraction->lock);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int give_text(yajl_gen json, const char *what, char *text, size_t room) {
    const unsigned char *made;
    size_t bytes;
    yajl_gen_get_buf(json, &made, &bytes);
    int status = bytes < room ? MR_OK : mr_fail(MR_ERROR_DATA, "%s: the path is too long", what);
    if (!status)
        snprintf(text, room, "%s", (const char *)made);
    yajl_gen_free(json);
    return status;
}

/* Writes a source that replaces the pipeline's. The picture choices for a video apply to each video. */
static int print_source(const mr_extraction *extraction, const char *list, char *text, size_t room) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "uri", list);
        if (extraction->has_videos) {
            mr_json_integer(json, "every", extraction->choice.every);
            mr_json_integer(json, "stream", extraction->choice.stream);
            mr_json_exact(json, "fps", extraction->choice.fps);
        }
    }
    return give_text(json, list, text, room);
}

static int quote_into(const char *path, char *text, size_t room) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_json_text(json, NULL, path);
    return give_text(json, path, text, room);
}

/* The data are pictures of objects, as a stage of the pipeline cuts them out. */
static bool takes_objects(const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        if (plan->stages[v].role == MR_VIEW_STAGE && plan->stages[v].type->cascade == MR_CASCADE_SPLIT)
            return true;
    return false;
}

/* Asks for all classes with any score, per frame, and adds a callback after classify. The head fits the pipeline as it
 * is written, which has been planned; without the stage that cuts objects out it would not. */
static int set_classes(mr_settings *to, const mr_extraction *extraction) {
    const char *id = extraction->classify->id;
    char text[256];
    snprintf(text, sizeof text, "{type: callback, input: \"%s\"}", id);
    int status = mr_settings_set(to, "1000", "stages.", id, ".top_k");
    if (!status)
        status = mr_settings_set(to, "-1e30", "stages.", id, ".threshold");
    if (!status)
        status = mr_settings_set(to, "1", "stages.", id, ".window");
    if (!status && takes_objects(extraction) && (extraction->head || mr_extraction_own_head(extraction)))
        status = mr_settings_set(to, "true", "stages.", id, ".force");
    return status ? status : mr_settings_set(to, text, "stages.", callback_id, "");
}

/* "ID", or "ID.PORT" if it has several outputs. */
static const char *print_output(const mr_view_stage *stage, int port, char *text, size_t room) {
    const bool one = stage->output_count < 2;
    snprintf(text, room, "%s%s%s", stage->id, one ? "" : ".", one ? "" : stage->type->outputs[port].name);
    return text;
}

/* Adds a callback after the stage before the one whose frames are taken. */
static int set_given(mr_settings *to, const mr_extraction *extraction) {
    char text[320], output[256];
    int port = 0;
    const mr_view_stage *before = mr_extraction_before(extraction, extraction->given_to, &port);
    if (!before)
        return mr_fail(MR_ERROR_CONFIG, "%s has several inputs", extraction->given_to->id);
    snprintf(text, sizeof text, "{type: callback, input: \"%s\"}", print_output(before, port, output, sizeof output));
    return mr_settings_set(to, text, "stages.", given_id, "");
}

/* With several inputs, only the stage's head is replaced. */
static int set_only_head(mr_settings *to, const mr_extraction *extraction) {
    char path[2 * MR_TEMP_FOLDER_PATH];
    int status = quote_into(extraction->head, path, sizeof path);
    return status ? status : mr_settings_set(to, path, "stages.", extraction->classify->id, ".head");
}

/* Replaces the written classify, which may have labels, weights or an activation: a head provides them. */
static int set_head(mr_settings *to, const mr_extraction *extraction) {
    char text[4 * MR_TEMP_FOLDER_PATH], output[256];
    int port = 0;
    const mr_view_stage *classify = extraction->classify, *before = mr_extraction_before(extraction, classify, &port);
    if (!before)
        return set_only_head(to, extraction);
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "type", classify->type->name);
        mr_json_text(json, "input", print_output(before, port, output, sizeof output));
        mr_json_text(json, "head", extraction->head);
        if (extraction->tensor)
            mr_json_text(json, "tensor", extraction->tensor);
    }
    int status = give_text(json, extraction->head, text, sizeof text);
    return status ? status : mr_settings_set(to, text, "stages.", classify->id, "");
}

/* Omits all sources except the one that reads the data; several may be written as one. */
static int set_left_out(mr_settings *to, const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    char list[MR_TEMP_FOLDER_PATH + 32], quoted[2 * MR_TEMP_FOLDER_PATH], source[2 * MR_TEMP_FOLDER_PATH + 16];
    mr_extraction_left_out(extraction, list, sizeof list);
    int status = quote_into(list, quoted, sizeof quoted);
    snprintf(source, sizeof source, "{uri: %s}", quoted);
    const char *last = extraction->source->offer.written;
    for (size_t s = 0; s < plan->source_count && !status; s++) {
        const char *written = plan->stages[s].offer.written;
        if (strcmp(written, extraction->source->offer.written) == 0 || strcmp(written, last) == 0)
            continue;
        status = mr_settings_set(to, source, "sources.", written, "");
        last = written;
    }
    return status;
}

/* ---- cascades ---- */

/* The written stage, or the source, before the first input; NULL: there is none. *port: its output port. */
static const mr_view_stage *stage_at(const mr_plan_view *plan, const mr_view_stage *to, int *port) {
    const mr_view_link *link = plan->links, *end = link + plan->link_count;
    while (link < end && (link->to != (int)(to - plan->stages) || link->to_port != 0))
        link++;
    if (link == end)
        return NULL;
    const mr_view_stage *from = &plan->stages[link->from];
    *port = link->from_port;
    return from->role == MR_VIEW_STAGE || from->role == MR_VIEW_SOURCE ? from : stage_at(plan, from, port);
}

/* The stage that gives pictures as they are decoded, before anything looks for objects in them. */
static const mr_view_stage *find_pictures(const mr_plan_view *plan, const mr_view_stage *split, int *port) {
    const mr_view_stage *found = stage_at(plan, split, port), *before;
    for (int at = 0; found && (before = stage_at(plan, found, &at)); found = before, *port = at)
        if (before->outputs[at].set.payload != MR_PAYLOAD_PICTURE)
            break;
    return found;
}

/* The pictures are objects already: what crops them passes them on, and what gathers passes on its frames. */
static int set_cascades(mr_settings *to, const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    int status = MR_OK;
    for (size_t v = plan->source_count; v < plan->stage_count && !status; v++) {
        const mr_view_stage *stage = &plan->stages[v];
        if (stage->role != MR_VIEW_STAGE || stage->type->cascade == MR_CASCADE_NONE)
            continue;
        char text[320], output[256] = "";
        int port = 0;
        const mr_view_stage *before = stage->type->cascade == MR_CASCADE_SPLIT ? find_pictures(plan, stage, &port)
                                                                               : stage_at(plan, stage, &port);
        if (before)
            print_output(before, port, output, sizeof output);
        snprintf(text, sizeof text, "{type: \"null\", input: \"%s\"}", output);
        status = mr_settings_set(to, text, "stages.", stage->id, "");
    }
    return status;
}

/* Whether this run computes vectors on nodes. */
static bool is_spread(const mr_extraction *extraction) {
    return extraction->nodes && extraction->take_vector;
}

int mr_extraction_settings(mr_settings *to, const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->plan;
    char list[MR_TEMP_FOLDER_PATH + 32], source[2 * MR_TEMP_FOLDER_PATH + 128];
    const size_t most = 2 * plan->stage_count + mr_extraction_most_settings(extraction) + 11;
    int status = mr_settings_init(to, extraction->overrides, most);
    mr_extraction_list(extraction, list, sizeof list);
    if (!status)
        status = print_source(extraction, list, source, sizeof source);
    if (!status)
        status = mr_settings_set(to, source, "sources.", extraction->source->offer.written, "");
    if (!status && plan->source_count > 1)
        status = set_left_out(to, extraction);
    if (!status && plan->plugins)
        status = mr_settings_set(to, "[]", "plugins", "", "");
    for (size_t v = 0; v < plan->stage_count && !status; v++)
        if (plan->stages[v].role == MR_VIEW_STAGE && strcmp(plan->stages[v].when_full, "block") != 0)
            status = mr_settings_set(to, "block", "stages.", plan->stages[v].id, ".queue.when_full");
    if (!status)
        status = set_cascades(to, extraction);
    if (!status && is_spread(extraction))
        status = mr_extraction_set_nodes(to, extraction);
    if (!status && extraction->head && extraction->take_classes)
        status = set_head(to, extraction);
    if (!status && extraction->take_given)
        status = set_given(to, extraction);
    if (!status && extraction->take_classes)
        return set_classes(to, extraction);
    /* A tap must read host memory. */
    if (!status && strcmp(extraction->classify->devices.first, "cpu") != 0)
        status = mr_settings_set(to, "cpu", "stages.", extraction->classify->id, ".device");
    return status;
}

int mr_extraction_open(mr_extraction *extraction, bool *told) {
    mr_settings with;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = extraction->path, .text = extraction->text};
    mr_overrides_apply(extraction->overrides, &params);
    int status = mr_extraction_settings(&with, extraction);
    if (is_spread(extraction)) {
        mr_run_choose_node(&extraction->spread->run, &params);
        params.resume = extraction->spread->run.resume;
        params.grace_ns = extraction->spread->run.grace_ns;
    }
    params.types = extraction->list;
    params.override_count = with.count;
    params.overrides = with.item;
    params.input_count = 0;
    params.quiet_sources = true; /* damaged files are listed; any other failure ends the run */
    params.profile = extraction->folder; /* stages that are no sinks write there */
    if (!status) {
        status = mr_pipeline_open(&extraction->pipeline, &params, &wrong);
        *told = status != MR_OK;
        if (status)
            mr_complaints_tell(&wrong, status, false);
    }
    mr_diagnostics_fini(&wrong);
    mr_settings_fini(&with);
    return status;
}

static int await_end(mr_extraction *extraction) {
    const bool shown = extraction->show && mr_progress_suits_terminal();
    mr_progress progress;
    int status;
    if (shown)
        mr_progress_begin(&progress);
    while ((status = mr_pipeline_wait(extraction->pipeline, LOOK_NS)) == MR_ERROR_AGAIN) {
        mr_summary *summary = NULL;
        if (mr_stop_asked())
            mr_pipeline_stop(extraction->pipeline, true);
        else if (shown && !mr_pipeline_summarize(extraction->pipeline, &summary))
            mr_progress_show(&progress, summary);
        mr_summary_destroy(&summary);
    }
    if (shown)
        mr_progress_end(&progress);
    return status;
}

/* Why a head was taken that does not fit; NULL: it fits the pipeline as it is written. */
static const char *forced_reason(const mr_extraction *extraction, const mr_forced_summary *forced) {
    const mr_view_stage *classify = extraction->classify;
    if (strcmp(forced->stage, classify->id) != 0 || !takes_objects(extraction))
        return forced->why;
    return classify->remarks.forced ? classify->remarks.anywhere : NULL;
}

static int note_forced(mr_extraction *extraction, const mr_summary *summary) {
    for (size_t i = 0; i < summary->forced_count; i++) {
        static const char word[] = "forced: "; /* the report mentions it */
        const char *before = extraction->forced ? extraction->forced : "";
        const char *why = forced_reason(extraction, &summary->forced[i]);
        if (!why)
            continue;
        why += strncmp(why, word, sizeof word - 1) == 0 ? sizeof word - 1 : 0;
        char *more = mr_print_new("%s%s%s: %s", before, *before ? "; " : "", summary->forced[i].stage, why);
        if (!more)
            return mr_fail(MR_ERROR_MEMORY, "no memory for the summary");
        free(extraction->forced);
        extraction->forced = more;
    }
    return MR_OK;
}

/* *nothing: the pipeline gave no frame. */
static int look_back(mr_extraction *extraction, bool *nothing) {
    mr_summary *summary = NULL;
    free(extraction->forced);
    extraction->forced = NULL;
    int status = mr_pipeline_summarize(extraction->pipeline, &summary);
    if (!status)
        status = note_forced(extraction, summary);
    *nothing = summary && summary->delivered + summary->absorbed == 0;
    mr_summary_destroy(&summary);
    return status;
}

int mr_extraction_await(mr_extraction *extraction) {
    int status = MR_OK;
    bool nothing = false;
    if (extraction->take_classes)
        status = mr_pipeline_subscribe(extraction->pipeline, callback_id, take_classes, extraction);
    if (!status && extraction->take_given)
        status = mr_pipeline_subscribe(extraction->pipeline, given_id, take_given, extraction);
    if (!status)
        status = mr_pipeline_start(extraction->pipeline);
    if (!status)
        status = await_end(extraction);
    if (extraction->status)
        return mr_fail(extraction->status, "%s", extraction->message);
    if (mr_stop_asked())
        return mr_fail(MR_ERROR_CANCELLED, "interrupted");
    if (status && status != MR_ERROR_DATA)
        return status;
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    int seen = look_back(extraction, &nothing);
    if (seen || !status)
        return seen;
    if (!nothing)
        return mr_fail(status, "%s", message);
    /* If all files are damaged, nothing comes; the caller counts them. */
    mr_log(MR_LOG_WARNING, "%s", message);
    return MR_OK;
}

static int run_aside(mr_extraction *extraction, const mr_extraction_job *job, bool *told) {
    int status = mr_extraction_write_list(extraction, job);
    if (!status)
        status = mr_extraction_wrap(extraction, job->take_vector != NULL);
    if (!status)
        status = mr_extraction_open(extraction, told);
    if (!status)
        status = mr_extraction_await(extraction);
    mr_pipeline_destroy(&extraction->pipeline);
    mr_extraction_unwrap(extraction);
    return status;
}

int mr_extraction_run(mr_extraction *extraction, const mr_extraction_job *job, bool *told) {
    mr_file_index index = {.index = {0}};
    *told = false;
    extraction->index = &index;
    extraction->take_vector = job->take_vector;
    extraction->take_classes = job->take_classes;
    extraction->take_given = job->take_given;
    extraction->given_to = job->given_to;
    extraction->user = job->user;
    extraction->status = MR_OK;
    extraction->has_videos = false;
    for (size_t i = 0; i < job->count; i++)
        extraction->has_videos = extraction->has_videos || job->files[i]->video;
    int status = MR_OK;
    if (is_spread(extraction)) {
        status = mr_extraction_run_nodes(extraction, job, told);
    } else if (!(status = mr_temp_folder_make(&extraction->temp, NULL))) {
        snprintf(extraction->folder, sizeof extraction->folder, "%s", extraction->temp.folder);
        status = run_aside(extraction, job, told);
    }
    /* Keeps the message while the folder is removed. */
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    mr_temp_folder_remove(&extraction->temp);
    mr_arena_fini(&index.arena);
    extraction->index = NULL;
    return status ? mr_fail(status, "%s", message) : MR_OK;
}
