#include "tools/millrace/objects/cutouts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/millrace.h"
#include "millrace/objects.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/objects/coco.h"
#include "tools/millrace/objects/yolo.h"

static const int64_t LOOK_NS = 100000000;

typedef struct cutting {
    const mr_cutouts_params *params;
    mr_coco coco;
    bool relative;        /* boxes are in 0..1 */
    mr_arena arena;
    mr_index index;       /* by path: the picture's number, in `numbers` */
    size_t *numbers;
    size_t *first;        /* of each picture: its first object, in `objects`; one more at the end */
    const mr_boxed **objects;
    const char *pictures; /* the list of pictures */
    pthread_mutex_t lock; /* for the fields below */
    FILE *list;
    size_t count;
    int status;
} cutting;

/* For the stage type: a pipeline knows it by name only. */
static cutting *present;

bool mr_has_labelled_objects(const char *data) {
    char path[4096];
    if (mr_coco_is_at(data))
        return true;
    snprintf(path, sizeof path, "%s/labels", data);
    if (access(path, F_OK) != 0)
        return false;
    snprintf(path, sizeof path, "%s/images", data);
    return access(path, F_OK) == 0;
}

/* ---- objects by picture ------------------------------------------------------------------------------------------ */

static int sort_objects(cutting *c) {
    const mr_coco *coco = &c->coco;
    c->first = mr_arena_array(&c->arena, coco->picture_count + 2, sizeof *c->first);
    c->objects = mr_arena_array(&c->arena, coco->object_count + 1, sizeof *c->objects);
    if (!c->first || !c->objects)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < coco->object_count; i++)
        c->first[coco->objects[i].image + 2]++;
    for (size_t i = 2; i <= coco->picture_count + 1; i++)
        c->first[i] += c->first[i - 1];
    for (size_t i = 0; i < coco->object_count; i++)
        c->objects[c->first[coco->objects[i].image + 1]++] = &coco->objects[i];
    return MR_OK;
}

static int put_row(FILE *to, const char *path, const char *label, const char *group) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "path", path);
        if (label)
            mr_json_text(json, "label", label);
        if (group)
            mr_json_text(json, "group", group);
    }
    return mr_json_finish(json, to);
}

/* Lists the pictures that have objects. */
static int list_pictures(cutting *c) {
    c->pictures = mr_arena_print(&c->arena, "%s/pictures.jsonl", c->params->folder);
    c->numbers = mr_arena_array(&c->arena, c->coco.picture_count + 1, sizeof *c->numbers);
    FILE *to = c->pictures && c->numbers ? fopen(c->pictures, "we") : NULL;
    int status = to ? MR_OK : c->pictures && c->numbers ? mr_file_fail("write", c->pictures) : MR_ERROR_MEMORY;
    for (size_t i = 0; i < c->coco.picture_count && !status; i++) {
        if (c->first[i] == c->first[i + 1])
            continue;
        const char *path = NULL;
        status = mr_coco_locate(&c->coco, i, &path);
        c->numbers[i] = i;
        if (!status && mr_index_get(&c->index, path))
            status = mr_fail(MR_ERROR_DATA, "%s: two images have the file %s", c->params->data, path);
        if (!status)
            status = mr_index_put(&c->index, &c->arena, path, &c->numbers[i]);
        if (!status)
            status = put_row(to, path, NULL, NULL);
    }
    if (to && fclose(to) && !status)
        status = mr_file_fail("write", c->pictures);
    return status;
}

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

static void size_of(const mr_frame *frame, double *width, double *height) {
    const bool turned = frame->format.rotation % 180;
    *width = turned ? frame->format.height : frame->format.width;
    *height = turned ? frame->format.width : frame->format.height;
}

static void add_objects(const cutting *c, size_t picture, const mr_frame *frame, mr_result *result) {
    double width = 1, height = 1;
    if (c->relative)
        size_of(frame, &width, &height);
    for (size_t i = c->first[picture]; i < c->first[picture + 1]; i++) {
        const mr_boxed *box = c->objects[i];
        if (box->crowd)
            continue;
        ((mr_object *)result->data)[result->count] = (mr_object){
            .left = (float)(box->left * width), .top = (float)(box->top * height),
            .right = (float)((box->left + box->width) * width), .bottom = (float)((box->top + box->height) * height),
            .score = 1, .index = box->label, .label = c->coco.classes[box->label],
            .number = (int64_t)result->count + 1};
        result->count++;
    }
}

static int label_process(mr_stage *self, mr_io *io) {
    const cutting *c = present;
    const mr_frame *input = mr_io_input(io);
    const char *file = mr_frame_file(input);
    const size_t *picture = file ? mr_index_get(&c->index, file) : NULL;
    mr_frame *frame = NULL;
    mr_result *result;
    int status = mr_io_share(io, input, &frame);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_objects(),
                                  picture ? c->first[*picture + 1] - c->first[*picture] : 0, &result);
    if (!status && picture) {
        double width, height;
        size_of(input, &width, &height);
        mr_coco_check_size(&present->coco, *picture, (int64_t)width, (int64_t)height);
        add_objects(c, *picture, input, result);
    }
    return mr_io_finish(io, 0, frame, status);
}

static int label_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
}

static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out"}, {0}};
static const mr_stage_type labelled = {.name = "labelled-objects", .summary = "adds the labelled objects", .inputs = in,
                                       .outputs = out, .entry = MR_ENTRY_STATELESS, .negotiate = label_negotiate,
                                       .process = label_process};

static void put_stage(yajl_gen json, const char *id, const char *type, const char *input) {
    MR_JSON_MAP(json, id) {
        mr_json_text(json, "type", type);
        mr_json_text(json, "input", input);
        if (strcmp(id, "crop") == 0)
            mr_json_integer(json, "max", 10000);
        if (strcmp(id, "images") == 0) {
            mr_json_text(json, "path", present->params->folder);
            mr_json_text(json, "name", "{seq}-{sub}.png");
            mr_json_bool(json, "overwrite", true);
        }
    }
}

/* JSON is YAML. */
static int print_pipeline(const cutting *c, char **text) {
    size_t bytes;
    FILE *to = open_memstream(text, &bytes);
    yajl_gen json = to ? mr_json_create(false) : NULL;
    int status = json ? MR_OK : MR_ERROR_MEMORY;
    if (json) {
        MR_JSON_MAP(json, NULL) {
            mr_json_integer(json, "version", 1);
            mr_json_text(json, "pipeline", "cutouts");
            MR_JSON_MAP(json, "sources")
                MR_JSON_MAP(json, "pictures")
                    mr_json_text(json, "uri", c->pictures);
            MR_JSON_MAP(json, "stages") {
                put_stage(json, "decode", "decode", "pictures");
                put_stage(json, "labelled", labelled.name, "decode");
                put_stage(json, "crop", "crop", "labelled");
                put_stage(json, "images", "images", "crop");
                put_stage(json, "rows", "callback", "crop");
            }
        }
        status = mr_json_finish(json, to);
    }
    if (to && fclose(to) && !status)
        status = MR_ERROR_MEMORY;
    return status;
}

/* A picture of an object: the name is as `images` gives it. */
static void take(void *context, const char *source, const mr_frame *frame) {
    cutting *c = context;
    const mr_result *result = mr_frame_result(frame, mr_kind_objects(), NULL);
    const char *group = mr_frame_file(frame);
    char path[4096];
    MR_LOCKED(&c->lock);
    if (!result || !result->count || c->status)
        return;
    snprintf(path, sizeof path, "%06llu-%u.png", (unsigned long long)frame->identity.seq,
             (unsigned)frame->identity.sub);
    c->status = put_row(c->list, path, ((const mr_object *)result->data)->label, group);
    c->count++;
}

static int await_end(cutting *c, mr_pipeline *pipeline) {
    int status;
    while ((status = mr_pipeline_wait(pipeline, LOOK_NS)) == MR_ERROR_AGAIN)
        if (c->params->stopped())
            mr_pipeline_stop(pipeline, true);
    if (c->params->stopped())
        return mr_fail(MR_ERROR_CANCELLED, "interrupted");
    /* Damaged pictures are left out, as in training. */
    return c->status ? c->status : status == MR_ERROR_DATA && c->count ? MR_OK : status;
}

static const mr_stage_type **types_with(void) {
    const mr_stage_type *const *types = mr_stage_types();
    size_t count = 0;
    while (types[count])
        count++;
    const mr_stage_type **all = calloc(count + 2, sizeof(mr_stage_type *));
    if (all) {
        memcpy(all, types, count * sizeof *all);
        all[count] = &labelled;
    }
    return all;
}

static int run(cutting *c, bool *told) {
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    char *text = NULL;
    const mr_stage_type **types = types_with();
    int status = types ? print_pipeline(c, &text) : MR_ERROR_MEMORY;
    const mr_pipeline_params params = {.types = types, .path = "cutouts", .text = text, .quiet_sources = true};
    if (!status && (status = mr_pipeline_open(&pipeline, &params, &wrong))) {
        mr_complaints_tell(&wrong, status, false);
        *told = true;
    }
    if (!status)
        status = mr_pipeline_subscribe(pipeline, "rows", take, c);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = await_end(c, pipeline);
    mr_coco_report_sizes(&c->coco);
    mr_pipeline_destroy(&pipeline);
    mr_diagnostics_fini(&wrong);
    free(text);
    free(types);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int read_data(cutting *c) {
    c->relative = !mr_coco_is_at(c->params->data);
    int status = c->relative ? mr_yolo_read(&c->coco, c->params->data)
                             : mr_coco_read(&c->coco, c->params->data, c->params->pictures);
    if (!status)
        status = sort_objects(c);
    return status ? status : list_pictures(c);
}

/* The list gets its name only when it is whole. */
static int cut(cutting *c, char *list, size_t room, bool *told) {
    const char *part = mr_arena_print(&c->arena, "%s/objects.part", c->params->folder);
    const int length = snprintf(list, room, "%s/objects.jsonl", c->params->folder);
    if (!part || (size_t)length >= room)
        return MR_ERROR_MEMORY;
    c->list = fopen(part, "we");
    int status = c->list ? run(c, told) : mr_file_fail("write", part);
    if (c->list && fclose(c->list) && !status)
        status = mr_file_fail("write", part);
    if (!status && !c->count)
        return mr_fail(MR_ERROR_DATA, "%s: no object has pixels in its picture", c->params->data);
    return !status && rename(part, list) ? mr_file_fail("write", list) : status;
}

int mr_cutouts_make(const mr_cutouts_params *params, char *list, size_t room, bool *told) {
    cutting c = {.params = params};
    pthread_mutex_init(&c.lock, NULL);
    present = &c;
    int status = read_data(&c);
    if (!status)
        status = cut(&c, list, room, told);
    present = NULL;
    mr_coco_fini(&c.coco);
    mr_arena_fini(&c.arena);
    pthread_mutex_destroy(&c.lock);
    return status == MR_ERROR_MEMORY ? mr_fail(status, "no memory for the objects of %s", params->data) : status;
}
