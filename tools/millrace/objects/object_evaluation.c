#include "tools/millrace/objects/object_evaluation.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "engine/base/temp_folder.h"
#include "engine/base/thread.h"
#include "millrace/objects.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/settings.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/objects/mot.h"
#include "tools/millrace/run/progress.h"

static const int64_t LOOK_NS = 100000000;
static const char callback_id[] = "evaluate-objects";
/* Precision counts all objects, however unsure. */
static const char least_score[] = "0.001";

typedef struct evaluation {
    const mr_object_evaluation_params *params;
    mr_coco coco;
    const mr_plan_view *plan;
    const mr_view_stage *stage;
    bool tracks;     /* are judged */
    size_t sequence; /* that runs */
    mr_temp_folder temp;
    char list[MR_TEMP_FOLDER_PATH + 32];
    mr_arena arena;
    mr_index index;       /* paths of pictures; the value is a mark in `seen` */
    bool *seen;           /* pictures that came */
    pthread_mutex_t lock; /* callbacks come from pipeline threads: */
    mr_boxed *found;
    size_t count, room, unknown, seen_count;
    size_t more; /* frames after the last one with a true object */
    int status;
    bool *told;
} evaluation;

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const mr_planned_result *objects_of(const mr_view_stage *stage) {
    const mr_planned_result *one = stage->output_count ? stage->outputs[0].results : NULL;
    while (one && one->kind != mr_kind_objects())
        one = one->next;
    return one;
}

/* Sets e->stage to the last that is wanted; returns how many are. */
static size_t find_stages(evaluation *e, const char *id, const char *type) {
    size_t found = 0;
    for (size_t v = 0; v < e->plan->stage_count; v++) {
        const mr_view_stage *stage = &e->plan->stages[v];
        if (strcmp(id ? stage->id : stage->type->name, id ? id : type) != 0)
            continue;
        e->stage = stage;
        found++;
    }
    return found;
}

static int find_tracks(evaluation *e) {
    const mr_planned_result *objects = e->stage ? objects_of(e->stage) : NULL;
    e->tracks = e->coco.tracks && objects && objects->tracked;
    if (e->tracks || e->coco.pictures)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "%s: its objects have tracks, and those of %s have none: name a stage after track "
                   "with --stage ID", e->params->data, e->stage->id);
}

static int find_stage(evaluation *e) {
    const char *wanted = e->params->stage;
    const bool tracks = e->coco.tracks && !wanted && find_stages(e, NULL, "track") == 1;
    const size_t found = tracks ? 1 : find_stages(e, wanted, "detect");
    if (found == 1 && objects_of(e->stage))
        return find_tracks(e);
    if (found == 1)
        return mr_fail(MR_ERROR_CONFIG, "%s: %s gives no objects", e->plan->file, e->stage->id);
    if (wanted)
        return mr_fail(MR_ERROR_CONFIG, "%s: no stage has the id \"%s\"", e->plan->file, wanted);
    return mr_fail(MR_ERROR_CONFIG, found ? "%s: several stages are of type detect: choose one with --stage ID"
                                          : "%s: no stage is of type detect: name the stage that gives objects with "
                                            "--stage ID", e->plan->file);
}

static int plan(evaluation *e) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = e->params->pipeline, .offline = true};
    mr_overrides_apply(e->params->overrides, &params);
    int status = mr_plan_view_open(&e->plan, &params, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, false);
    *e->told = status;
    mr_diagnostics_fini(&wrong);
    if (!status)
        status = find_stage(e);
    if (!status && e->plan->source_count != 1)
        return mr_fail(MR_ERROR_CONFIG, "%s: it must have one source", e->plan->file);
    if (!status && e->coco.pictures && strcmp(e->plan->stages[0].type->name, "media") != 0)
        return mr_fail(MR_ERROR_CONFIG, "%s: the pictures replace its source, so it must be of type media",
                       e->plan->file);
    if (!status && !e->coco.pictures && e->plan->stages[0].offer.endless)
        return mr_fail(MR_ERROR_CONFIG, "%s: its source has no end, and the truth has one: read a file once (no loop)",
                       e->plan->file);
    return status;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static int set_json(mr_settings *to, yajl_gen json, const char *key, const char *id) {
    const unsigned char *text;
    size_t bytes;
    yajl_gen_get_buf(json, &text, &bytes);
    int status = mr_settings_set(to, (const char *)text, key, id, "");
    yajl_gen_free(json);
    return status;
}

static int set_source(const evaluation *e, mr_settings *to) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "uri", e->list);
        if (e->tracks && e->coco.rate[e->sequence] > 0)
            mr_json_exact(json, "rate", e->coco.rate[e->sequence]);
    }
    return set_json(to, json, "sources.", e->plan->stages[0].offer.written);
}

/* "ID", or "ID.PORT" if it has several outputs. */
static void put_output(const mr_view_stage *stage, int port, const char *key, yajl_gen json) {
    char text[256];
    const bool one = stage->output_count < 2;
    snprintf(text, sizeof text, "%s%s%s", stage->id, one ? "" : ".", one ? "" : stage->type->outputs[port].name);
    mr_json_text(json, key, text);
}

static int set_callback(const evaluation *e, mr_settings *to) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "type", "callback");
        put_output(e->stage, 0, "input", json);
    }
    return set_json(to, json, "stages.", callback_id);
}

/* What would write output takes its frames, and does nothing. */
static int silence(const evaluation *e, size_t v, mr_settings *to) {
    const mr_plan_view *plan = e->plan;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "type", "null");
        MR_JSON_ARRAY(json, "input")
            for (size_t l = 0; l < plan->link_count; l++)
                if (plan->links[l].to == (int)v)
                    put_output(&plan->stages[plan->links[l].from], plan->links[l].from_port, NULL, json);
    }
    return set_json(to, json, "stages.", plan->stages[v].id);
}

static int set_stage(const evaluation *e, size_t v, mr_settings *to) {
    const mr_view_stage *stage = &e->plan->stages[v];
    int status = MR_OK;
    if (stage->role != MR_VIEW_STAGE)
        return MR_OK;
    if (!stage->type->outputs)
        return silence(e, v, to);
    if (strcmp(stage->when_full, "block") != 0)
        status = mr_settings_set(to, "block", "stages.", stage->id, ".queue.when_full");
    if (!status && !e->tracks && strcmp(stage->type->name, "detect") == 0 && !mr_settings_has(to, stage->id, "score"))
        status = mr_settings_set(to, least_score, "stages.", stage->id, ".score");
    return status;
}

static int make_settings(const evaluation *e, mr_settings *to) {
    int status = mr_settings_init(to, e->params->overrides, 2 * e->plan->stage_count + 2);
    if (!status && e->coco.pictures)
        status = set_source(e, to);
    for (size_t v = 0; v < e->plan->stage_count && !status; v++)
        status = set_stage(e, v, to);
    return status ? status : set_callback(e, to);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Whether the picture belongs to this run. Tracks end with a sequence, so each has a run. */
static bool is_due(const evaluation *e, size_t picture) {
    return !e->tracks || e->coco.sequence[picture] == e->sequence;
}

static int write_list(evaluation *e) {
    snprintf(e->list, sizeof e->list, "%s/pictures.jsonl", e->temp.folder);
    FILE *stream = fopen(e->list, "we");
    int status = stream ? MR_OK : mr_file_fail("write", e->list);
    for (size_t i = 0; i < e->coco.picture_count && !status; i++) {
        if (!is_due(e, i))
            continue;
        const char *kept = NULL;
        status = mr_coco_locate(&e->coco, i, &kept);
        if (!status && mr_index_get(&e->index, kept))
            status = mr_fail(MR_ERROR_DATA, "%s: two images have the file %s", e->params->data, kept);
        if (!status)
            status = mr_index_put(&e->index, &e->arena, kept, &e->seen[i]);
        yajl_gen json = status ? NULL : mr_json_create(false);
        if (json) {
            MR_JSON_MAP(json, NULL)
                mr_json_text(json, "path", kept);
            status = mr_json_finish(json, stream);
        }
    }
    if (stream && fclose(stream) && !status)
        status = mr_file_fail("write", e->list);
    return status;
}

/* The class with the object's label; without labels, the one at its number's place. MOTChallenge has people only. */
static int32_t class_of(const evaluation *e, const mr_object *object) {
    const mr_coco *coco = &e->coco;
    if (!coco->pictures)
        return !object->label || strcmp(object->label, "person") == 0 || strcmp(object->label, "pedestrian") == 0 ? 0
                                                                                                                : -1;
    if (!object->label)
        return object->index >= 0 && (size_t)object->index < coco->class_count ? object->index : -1;
    for (size_t k = 0; k < coco->class_count; k++)
        if (strcmp(coco->classes[k], object->label) == 0)
            return (int32_t)k;
    return -1;
}

static int add_object(evaluation *e, size_t image, const mr_object *object) {
    const int32_t label = class_of(e, object);
    e->unknown += label < 0;
    if (label < 0)
        return MR_OK;
    if (!mr_grow((void **)&e->found, e->count, &e->room, sizeof *e->found))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the objects");
    e->found[e->count++] = (mr_boxed){
        .image = image, .label = label, .left = (double)object->left, .top = (double)object->top,
        .width = (double)object->right - (double)object->left, .height = (double)object->bottom - (double)object->top,
        .score = (double)object->score, .track = object->track};
    return MR_OK;
}

/* The number of a frame's picture; SIZE_MAX: it is none, or came before. */
static size_t picture_of(evaluation *e, const mr_frame *frame) {
    if (!e->coco.pictures)
        return frame->identity.epoch ? SIZE_MAX : (size_t)frame->identity.seq;
    const char *file = mr_frame_file(frame);
    bool *seen = file ? mr_index_get(&e->index, file) : NULL;
    if (!seen || *seen)
        return SIZE_MAX;
    *seen = true;
    return (size_t)(seen - e->seen);
}

static void take(void *context, const char *source, const mr_frame *frame) {
    evaluation *e = context;
    const mr_result *result = mr_frame_result(frame, mr_kind_objects(), NULL);
    double size[2];
    MR_LOCKED(&e->lock);
    const size_t picture = result ? picture_of(e, frame) : SIZE_MAX;
    if (picture == SIZE_MAX)
        return;
    e->seen_count += picture < e->coco.picture_count;
    mr_geometry_display_size(&frame->geometry, size);
    if (e->coco.pictures && size[0] > 0)
        mr_coco_check_size(&e->coco, picture, (int64_t)size[0], (int64_t)size[1]);
    e->more += picture >= e->coco.picture_count;
    for (size_t i = 0; i < result->count && !e->status; i++)
        e->status = add_object(e, picture, (const mr_object *)result->data + i);
}

static int await_end(evaluation *e, mr_pipeline *pipeline) {
    const bool shown = mr_progress_suits_terminal();
    mr_progress progress;
    int status;
    if (shown)
        mr_progress_begin(&progress);
    while ((status = mr_pipeline_wait(pipeline, LOOK_NS)) == MR_ERROR_AGAIN) {
        mr_summary *summary = NULL;
        if (e->params->stopped())
            mr_pipeline_stop(pipeline, true);
        else if (shown && !mr_pipeline_summarize(pipeline, &summary))
            mr_progress_show(&progress, summary);
        mr_summary_destroy(&summary);
    }
    if (shown)
        mr_progress_end(&progress);
    if (e->params->stopped())
        return mr_fail(MR_ERROR_CANCELLED, "interrupted");
    /* Damaged pictures are counted. */
    return e->status ? mr_fail(e->status, "no memory for the objects")
                     : status == MR_ERROR_DATA && e->seen_count ? MR_OK : status;
}

static int run(evaluation *e) {
    mr_settings with;
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    mr_pipeline_params params = {.path = e->params->pipeline};
    mr_overrides_apply(e->params->overrides, &params);
    int status = make_settings(e, &with);
    params.override_count = with.count;
    params.overrides = with.item;
    params.input_count = e->coco.pictures ? 0 : params.input_count;
    if (!status) {
        status = mr_pipeline_open(&pipeline, &params, &wrong);
        if (status)
            mr_complaints_tell(&wrong, status, false);
        *e->told = status;
    }
    if (!status)
        status = mr_pipeline_subscribe(pipeline, callback_id, take, e);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = await_end(e, pipeline);
    mr_pipeline_destroy(&pipeline);
    mr_diagnostics_fini(&wrong);
    mr_settings_fini(&with);
    return status;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef struct counts {
    size_t *truth, *found; /* of each class */
    double *precision;
} counts;

static void put_classes(const evaluation *e, const counts *of, yajl_gen json) {
    MR_JSON_ARRAY(json, "classes")
        for (size_t k = 0; k < e->coco.class_count; k++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "name", e->coco.classes[k]);
                mr_json_integer(json, "objects", (int64_t)of->truth[k]);
                mr_json_integer(json, "found", (int64_t)of->found[k]);
                mr_json_exact(json, "precision", of->precision[k]);
            }
}

static void put_data(const evaluation *e, yajl_gen json) {
    mr_json_text(json, "pipeline", e->plan->name);
    mr_json_text(json, "stage", e->stage->id);
    mr_json_text(json, "data", e->params->data);
    mr_json_integer(json, "pictures", (int64_t)(e->coco.picture_count + e->more));
    mr_json_integer(json, "missing_pictures", (int64_t)(e->coco.picture_count - e->seen_count));
    mr_json_integer(json, "found_of_other_classes", (int64_t)e->unknown);
}

static int put(const evaluation *e, const counts *of, const mr_object_figures *all) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        put_data(e, json);
        mr_json_integer(json, "objects", (int64_t)e->coco.object_count);
        mr_json_integer(json, "found", (int64_t)e->count);
        mr_json_exact(json, "precision", all->precision);
        mr_json_exact(json, "precision_50", all->precision_50);
        mr_json_exact(json, "precision_75", all->precision_75);
        mr_json_exact(json, "precision_small", all->precision_small);
        mr_json_exact(json, "precision_medium", all->precision_medium);
        mr_json_exact(json, "precision_large", all->precision_large);
        mr_json_exact(json, "recall_1", all->recall_1);
        mr_json_exact(json, "recall_10", all->recall_10);
        mr_json_exact(json, "recall_100", all->recall_100);
        mr_json_exact(json, "recall_small", all->recall_small);
        mr_json_exact(json, "recall_medium", all->recall_medium);
        mr_json_exact(json, "recall_large", all->recall_large);
        put_classes(e, of, json);
    }
    return mr_json_finish(json, stdout);
}

/* "0.413", or "-" if there are no such objects. */
static const char *figure(char text[16], double value) {
    snprintf(text, 16, isnan(value) ? "-" : "%.3f", value);
    return text;
}

static int tell_classes(const evaluation *e, const counts *of) {
    static const mr_column columns[] = {{"class", .cut = MR_CUT_MIDDLE}, {"objects", .right = true},
                                        {"found", .right = true}, {"mAP", .right = true}, {0}};
    mr_table table = {.columns = columns};
    char text[16];
    for (size_t k = 0; k < e->coco.class_count; k++)
        if (of->truth[k] || of->found[k])
            mr_table_add(&table, "%s\t%zu\t%zu\t%s", e->coco.classes[k], of->truth[k], of->found[k],
                         figure(text, of->precision[k]));
    mr_print(stdout, "\n");
    return mr_table_print(&table, mr_terminal_width(stdout), stdout);
}

/* Ends the line of objects found. */
static void tell_others(const evaluation *e) {
    const size_t missing = e->coco.picture_count - e->seen_count;
    mr_print(stdout, e->unknown ? ", and %zu of classes that the data do not have\n" : "\n", e->unknown);
    if (missing)
        mr_print(stdout, "  missing    %zu picture%s gave no result, and count%s as without objects\n", missing,
                 missing == 1 ? "" : "s", missing == 1 ? "s" : "");
}

static int tell(const evaluation *e, const counts *of, const mr_object_figures *all) {
    char a[16], b[16], c[16];
    mr_print(stdout, "%s: objects of %s\n\n", e->plan->name, e->stage->id);
    mr_print(stdout, "  data       %s: %zu picture%s, %zu objects of %zu class%s\n", e->params->data,
             e->coco.picture_count, e->coco.picture_count == 1 ? "" : "s", e->coco.object_count, e->coco.class_count,
             e->coco.class_count == 1 ? "" : "es");
    mr_print(stdout, "  found      %zu objects", e->count);
    tell_others(e);
    mr_print(stdout, "  mAP        %s; at an overlap of 0.5 %s, of 0.75 %s\n", figure(a, all->precision),
             figure(b, all->precision_50), figure(c, all->precision_75));
    mr_print(stdout, "             small %s, medium %s, large %s\n", figure(a, all->precision_small),
             figure(b, all->precision_medium), figure(c, all->precision_large));
    mr_print(stdout, "  recall     with 1 object in a picture %s, 10 %s, 100 %s\n", figure(a, all->recall_1),
             figure(b, all->recall_10), figure(c, all->recall_100));
    mr_print(stdout, "             small %s, medium %s, large %s\n", figure(a, all->recall_small),
             figure(b, all->recall_medium), figure(c, all->recall_large));
    return tell_classes(e, of);
}

static int put_tracks(const evaluation *e, const mr_track_figures *all) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        put_data(e, json);
        mr_json_integer(json, "sequences", (int64_t)e->coco.sequence_count);
        mr_json_integer(json, "objects", (int64_t)all->objects);
        mr_json_integer(json, "tracks", (int64_t)all->tracks);
        mr_json_integer(json, "found", (int64_t)all->found);
        mr_json_integer(json, "found_tracks", (int64_t)all->found_tracks);
        mr_json_integer(json, "matched", (int64_t)all->matched);
        mr_json_integer(json, "switches", (int64_t)all->switches);
        mr_json_integer(json, "mostly_tracked", (int64_t)all->mostly_tracked);
        mr_json_integer(json, "mostly_lost", (int64_t)all->mostly_lost);
        mr_json_exact(json, "mota", all->mota);
        mr_json_exact(json, "motp", all->motp);
        mr_json_exact(json, "idf1", all->idf1);
        mr_json_exact(json, "id_precision", all->id_precision);
        mr_json_exact(json, "id_recall", all->id_recall);
        mr_json_exact(json, "hota", all->hota);
        mr_json_exact(json, "detection", all->detection);
        mr_json_exact(json, "association", all->association);
    }
    return mr_json_finish(json, stdout);
}

static int tell_tracks(const evaluation *e, const mr_track_figures *all) {
    mr_print(stdout, "%s: tracks of %s\n\n", e->plan->name, e->stage->id);
    mr_print(stdout, "  data       %s: %zu pictures, %" PRIu64 " objects of %" PRIu64 " tracks\n", e->params->data,
             e->coco.picture_count + e->more, all->objects, all->tracks);
    mr_print(stdout, "  found      %" PRIu64 " objects of %" PRIu64 " tracks", all->found, all->found_tracks);
    tell_others(e);
    mr_print(stdout, "  MOTA       %.3f; %" PRIu64 " missed, %" PRIu64 " wrong, %" PRIu64 " switches; MOTP %.3f\n",
             all->mota, all->objects - all->matched, all->found - all->matched, all->switches, all->motp);
    mr_print(stdout, "  IDF1       %.3f; precision %.3f, recall %.3f\n", all->idf1, all->id_precision, all->id_recall);
    mr_print(stdout, "  HOTA       %.3f; detection %.3f, association %.3f\n", all->hota, all->detection,
             all->association);
    mr_print(stdout, "  tracks     %" PRIu64 " mostly tracked, %" PRIu64 " mostly lost\n", all->mostly_tracked,
             all->mostly_lost);
    return MR_OK;
}

static int judge_tracks(const evaluation *e) {
    const mr_coco *coco = &e->coco;
    mr_track_figures all;
    int status = mr_track_figures_make(coco->objects, coco->object_count, e->found, e->count, coco->class_count,
                                       coco->sequence, coco->sequence_count, &all);
    if (status)
        return status;
    return e->params->json ? put_tracks(e, &all) : tell_tracks(e, &all);
}

static int judge(evaluation *e) {
    const size_t classes = e->coco.class_count;
    counts of = {mr_arena_array(&e->arena, classes + 1, sizeof *of.truth),
                 mr_arena_array(&e->arena, classes + 1, sizeof *of.found),
                 mr_arena_array(&e->arena, classes + 1, sizeof *of.precision)};
    mr_object_figures all;
    if (!of.truth || !of.found || !of.precision)
        return MR_ERROR_MEMORY;
    if (e->unknown && !e->count)
        return mr_fail(MR_ERROR_DATA, "%s: none of the objects that %s gives has a class of the data, such as \"%s\": "
                       "give it labels with these names. Classes of classify are measured on pictures of the objects, "
                       "a folder for each class", e->params->data, e->stage->id, e->coco.classes[0]);
    if (e->tracks)
        return judge_tracks(e);
    int status = mr_object_figures_make(e->coco.objects, e->coco.object_count, e->found, e->count, classes, &all,
                                        of.precision);
    for (size_t i = 0; i < e->coco.object_count; i++)
        of.truth[e->coco.objects[i].label]++;
    for (size_t i = 0; i < e->count; i++)
        of.found[e->found[i].label]++;
    if (status)
        return status;
    return e->params->json ? put(e, &of, &all) : tell(e, &of, &all);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int work(evaluation *e) {
    const char *dot = strrchr(e->params->data, '.');
    int status = dot && strcmp(dot, ".txt") == 0 ? mr_mot_read(&e->coco, e->params->data)
                                                 : mr_coco_read(&e->coco, e->params->data, e->params->pictures);
    if (!status)
        status = plan(e);
    if (!status && e->coco.pictures)
        status = mr_temp_folder_make(&e->temp, NULL);
    if (!status && e->coco.pictures && !(e->seen = mr_arena_array(&e->arena, e->coco.picture_count, sizeof *e->seen)))
        status = MR_ERROR_MEMORY;
    for (; e->sequence < (e->tracks ? e->coco.sequence_count : 1) && !status; e->sequence++) {
        if (e->coco.pictures)
            status = write_list(e);
        if (!status)
            status = run(e);
    mr_coco_report_sizes(&e->coco);
    }
    return status ? status : judge(e);
}

int mr_evaluate_objects(const mr_object_evaluation_params *params, bool *told) {
    evaluation e = {.params = params, .told = told};
    char message[512];
    *told = false;
    mr_lock_init(&e.lock);
    int status = work(&e);
    snprintf(message, sizeof message, "%s", mr_message()); /* kept while the folder is removed */
    mr_temp_folder_remove(&e.temp);
    mr_plan_view_close(&e.plan);
    mr_coco_fini(&e.coco);
    mr_arena_fini(&e.arena);
    mr_free(e.found);
    pthread_mutex_destroy(&e.lock);
    return status ? mr_fail(status, "%s", message) : MR_OK;
}
