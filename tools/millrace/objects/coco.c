#include "tools/millrace/objects/coco.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/status.h"

static const size_t MOST_BYTES = (size_t)4 << 30;

/* A picture, a class or a video while its place is not known. */
typedef struct named {
    int64_t id;
    const char *name;
    int64_t video, frame, width, height; /* of pictures */
    double rate;          /* of videos */
    size_t place;
} named;

typedef struct reading {
    mr_coco *to;
    const char *path;
    named *pictures, *classes, *videos; /* by id */
    size_t video_count;
} reading;

static int wrong(const reading *r, const char *list, size_t index, const char *what) {
    return mr_fail(MR_ERROR_DATA, "%s: %s[%zu] %s", r->path, list, index, what);
}

static bool read_id(yajl_val object, const char *key, int64_t *id) {
    yajl_val value = mr_json_member(object, key, yajl_t_number);
    if (!value || !YAJL_IS_INTEGER(value))
        return false;
    *id = YAJL_GET_INTEGER(value);
    return true;
}

static int find_list(const reading *r, yajl_val root, const char *name, yajl_val *list) {
    *list = mr_json_member(root, name, yajl_t_array);
    return *list ? MR_OK : mr_fail(MR_ERROR_DATA, "%s: it has no list \"%s\"; COCO's JSON has images, categories and "
                                   "annotations", r->path, name);
}

/* The first of these members that is a whole number; otherwise 0. */
static int64_t read_first(yajl_val object, const char *const *keys) {
    int64_t value = 0;
    while (*keys && !read_id(object, *keys, &value))
        keys++;
    return value;
}

static bool read_number(yajl_val value, double *number) {
    *number = YAJL_IS_NUMBER(value) ? strtod(YAJL_GET_NUMBER(value), NULL) : (double)NAN;
    return isfinite(*number);
}

bool mr_coco_is_at(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".json") == 0;
}

const char *mr_coco_refuse_folder(const char *path, const char *folder) {
    if (!folder)
        return NULL;
    if (!mr_coco_is_at(path))
        return "--pictures is for COCO's annotations (--data FILE.json)";
    return *folder ? NULL : "--pictures is empty: name the folder in which the annotations' paths begin";
}

/* ---- pictures and classes ---------------------------------------------------------------------------------------- */

static int compare_ids(const void *one, const void *other) {
    const named *a = one, *b = other;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int read_item(const reading *r, const char *list, size_t index, yajl_val one, const char *key, named *to) {
    static const char *const frames[] = {"frame_id", "frame_index", NULL}, *const videos[] = {"video_id", NULL};
    static const char *const widths[] = {"width", NULL}, *const heights[] = {"height", NULL};
    yajl_val text = key ? mr_json_member(one, key, yajl_t_string) : NULL;
    *to = (named){.video = read_first(one, videos), .frame = read_first(one, frames),
                  .width = read_first(one, widths), .height = read_first(one, heights)};
    if (!read_number(mr_json_member(one, "fps", yajl_t_number), &to->rate))
        to->rate = 0;
    if ((key && !text) || !read_id(one, "id", &to->id))
        return mr_fail(MR_ERROR_DATA, "%s: %s[%zu] needs a whole number \"id\"%s%s%s", r->path, list, index,
                       key ? " and a text \"" : "", key ? key : "", key ? "\"" : "");
    return !text || (to->name = mr_arena_print(&r->to->arena, "%s", text->u.string)) ? MR_OK : MR_ERROR_MEMORY;
}

/* Reads a list of names and sorts it by id. */
static int read_named(const reading *r, yajl_val root, const char *name, const char *key, named **to, size_t *count) {
    yajl_val list;
    int status = find_list(r, root, name, &list);
    if (status)
        return status;
    *count = YAJL_GET_ARRAY(list)->len;
    *to = mr_arena_array(&r->to->arena, *count + 1, sizeof **to);
    if (!*to)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < *count && !status; i++)
        status = read_item(r, name, i, YAJL_GET_ARRAY(list)->values[i], key, &(*to)[i]);
    if (status)
        return status;
    qsort(*to, *count, sizeof **to, compare_ids);
    for (size_t i = 1; i < *count; i++)
        if ((*to)[i].id == (*to)[i - 1].id)
            return mr_fail(MR_ERROR_DATA, "%s: two of %s have the id %lld", r->path, name, (long long)(*to)[i].id);
    return MR_OK;
}

static int compare_names(const void *one, const void *other) {
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Objects that are found have a label, which must say which class they are of. */
static int check_names(const reading *r) {
    const size_t count = r->to->class_count;
    const char **names = mr_arena_array(&r->to->arena, count + 1, sizeof *names);
    if (!names)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = r->classes[i].name;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return mr_fail(MR_ERROR_DATA, "%s: two of categories have the name \"%s\": rename one, or make them one",
                           r->path, names[i]);
    return MR_OK;
}

/* The folder of pictures, by default the file's. */
static const char *folder_of(const reading *r, const char *given) {
    const char *slash = strrchr(r->path, '/');
    mr_arena *arena = &r->to->arena;
    return given  ? mr_arena_text(arena, given, strlen(given))
           : slash ? mr_arena_text(arena, r->path, slash > r->path ? (size_t)(slash - r->path) : 1)
                   : mr_arena_text(arena, ".", 1);
}

/* Relative paths begin in the folder. */
static int name_all(const reading *r) {
    mr_coco *to = r->to;
    to->pictures = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *to->pictures);
    to->classes = mr_arena_array(&to->arena, to->class_count + 1, sizeof *to->classes);
    to->sizes = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *to->sizes);
    if (!to->pictures || !to->classes || !to->sizes)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < to->picture_count; i++) {
        const char *name = r->pictures[i].name;
        const char *path = *name == '/' ? name : mr_arena_print(&to->arena, "%s/%s", to->folder, name);
        if (!path)
            return MR_ERROR_MEMORY;
        to->pictures[r->pictures[i].place] = path;
        memcpy(to->sizes[r->pictures[i].place], (int64_t[2]){r->pictures[i].width, r->pictures[i].height},
               sizeof *to->sizes);
    }
    for (size_t i = 0; i < to->class_count; i++) {
        to->classes[i] = r->classes[i].name;
        r->classes[i].place = i;
    }
    return MR_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static int compare_times(const void *one, const void *other) {
    const named *a = *(const named *const *)one, *b = *(const named *const *)other;
    if (a->video != b->video)
        return a->video < b->video ? -1 : 1;
    return a->frame != b->frame ? a->frame < b->frame ? -1 : 1 : compare_ids(a, b);
}

static double rate_of(const reading *r, int64_t video) {
    const named wanted = {.id = video};
    const named *found = r->video_count ? bsearch(&wanted, r->videos, r->video_count, sizeof *found, compare_ids)
                                        : NULL;
    return found && found->rate > 0 ? found->rate : 0;
}

/* Gives each picture its place. */
static int order_pictures(const reading *r) {
    mr_coco *to = r->to;
    named **order = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *order);
    to->sequence = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *to->sequence);
    to->rate = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *to->rate);
    if (!order || !to->sequence || !to->rate)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < to->picture_count; i++)
        order[i] = &r->pictures[i];
    qsort(order, to->picture_count, sizeof *order, compare_times);
    for (size_t i = 0; i < to->picture_count; i++) {
        const bool begins = !i || order[i]->video != order[i - 1]->video;
        to->sequence_count += begins;
        to->sequence[i] = to->sequence_count - 1;
        if (begins)
            to->rate[to->sequence_count - 1] = rate_of(r, order[i]->video);
        order[i]->place = i;
    }
    return MR_OK;
}

static int compare_tracks(const void *one, const void *other) {
    const mr_boxed *a = *(const mr_boxed *const *)one, *b = *(const mr_boxed *const *)other;
    if (a->image != b->image)
        return a->image < b->image ? -1 : 1;
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return a->track < b->track ? -1 : a->track > b->track;
}

static int fail_twice(const mr_coco *coco, const char *path, size_t image) {
    char frame[48];
    snprintf(frame, sizeof frame, "frame %zu", image + 1);
    return mr_fail(MR_ERROR_DATA, "%s: %s has two objects with one track and class: a track has one box in a picture",
                   path, coco->pictures ? coco->pictures[image] : frame);
}

int mr_coco_check_tracks(const mr_coco *coco, const char *path) {
    const mr_boxed **order = mr_alloc((coco->object_count + 1) * sizeof *order);
    int status = order ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for its objects", path);
    for (size_t i = 0; i < coco->object_count && !status; i++)
        order[i] = &coco->objects[i];
    if (!status)
        qsort(order, coco->object_count, sizeof *order, compare_tracks);
    for (size_t i = 1; i < coco->object_count && !status; i++)
        if (order[i]->track && order[i]->label >= 0 && compare_tracks(&order[i], &order[i - 1]) == 0)
            status = fail_twice(coco, path, order[i]->image);
    mr_free(order);
    return status;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static bool read_box(yajl_val object, mr_boxed *to) {
    yajl_val list = mr_json_member(object, "bbox", yajl_t_array);
    double *const sides[] = {&to->left, &to->top, &to->width, &to->height};
    bool whole = list && YAJL_GET_ARRAY(list)->len == 4;
    for (size_t i = 0; whole && i < 4; i++)
        whole = read_number(YAJL_GET_ARRAY(list)->values[i], sides[i]);
    return whole && to->width >= 0 && to->height >= 0;
}

static bool find_id(yajl_val object, const char *key, const named *among, size_t count, size_t *index) {
    named wanted = {0};
    if (!read_id(object, key, &wanted.id))
        return false;
    const named *found = bsearch(&wanted, among, count, sizeof *among, compare_ids);
    *index = found ? found->place : 0;
    return found;
}

static int read_object(const reading *r, yajl_val object, size_t index, mr_boxed *to) {
    size_t label;
    yajl_val area = mr_json_member(object, "area", yajl_t_number);
    int64_t crowd = 0, track = 0;
    if (!find_id(object, "image_id", r->pictures, r->to->picture_count, &to->image))
        return wrong(r, "annotations", index, "has an image_id that no image has, or that is no whole number");
    if (!find_id(object, "category_id", r->classes, r->to->class_count, &label))
        return wrong(r, "annotations", index, "has a category_id that no category has, or that is no whole number");
    if (!read_box(object, to))
        return wrong(r, "annotations", index, "needs a \"bbox\" of four numbers: left, top, width, height");
    if (!read_number(area, &to->area))
        to->area = to->width * to->height;
    to->label = (int32_t)label;
    to->crowd = read_id(object, "iscrowd", &crowd) && crowd;
    if (!read_id(object, "track_id", &track) && !read_id(object, "instance_id", &track))
        return MR_OK;
    if (track < 0 || track == INT64_MAX)
        return wrong(r, "annotations", index, "has a track below 0, or one that is too large");
    to->track = track + 1;
    r->to->tracks = true;
    return MR_OK;
}

/* One object without a track would be the same one in all pictures. */
static int check_all_have_tracks(const reading *r) {
    for (size_t i = 0; i < r->to->object_count; i++)
        if (!r->to->objects[i].track && !r->to->objects[i].crowd)
            return wrong(r, "annotations", i, "has no track_id, and others have one");
    return MR_OK;
}

static int read_objects(const reading *r, yajl_val root) {
    yajl_val list;
    int status = find_list(r, root, "annotations", &list);
    if (status)
        return status;
    mr_coco *to = r->to;
    const size_t count = YAJL_GET_ARRAY(list)->len;
    to->objects = mr_arena_array(&to->arena, count + 1, sizeof *to->objects);
    if (!to->objects)
        return MR_ERROR_MEMORY;
    for (; to->object_count < count && !status; to->object_count++)
        status = read_object(r, YAJL_GET_ARRAY(list)->values[to->object_count], to->object_count,
                             &to->objects[to->object_count]);
    return status;
}

int mr_coco_read(mr_coco *coco, const char *path, const char *folder) {
    reading r = {.to = coco, .path = path};
    mr_file_bytes text;
    char why[160];
    *coco = (mr_coco){0};
    int status = mr_file_read("annotations", path, MOST_BYTES, 0, &text);
    if (status)
        return status;
    yajl_val root = mr_json_parse((const char *)text.data, why, sizeof why);
    mr_free(text.data);
    if (!root)
        return mr_fail(MR_ERROR_DATA, "%s: it is not JSON: %s", path, why);
    status = read_named(&r, root, "images", "file_name", &r.pictures, &coco->picture_count);
    if (!status)
        status = read_named(&r, root, "categories", "name", &r.classes, &coco->class_count);
    if (!status && mr_json_member(root, "videos", yajl_t_array))
        status = read_named(&r, root, "videos", NULL, &r.videos, &r.video_count);
    if (!status)
        status = check_names(&r);
    if (!status)
        status = order_pictures(&r);
    if (!status && !(coco->folder = folder_of(&r, folder)))
        status = MR_ERROR_MEMORY;
    if (!status)
        status = name_all(&r);
    if (!status)
        status = read_objects(&r, root);
    yajl_tree_free(root);
    if (!status && (!coco->picture_count || !coco->class_count))
        return mr_fail(MR_ERROR_DATA, "%s: it lists no images, or no categories", path);
    if (!status && coco->tracks)
        status = check_all_have_tracks(&r);
    return status || !coco->tracks ? status : mr_coco_check_tracks(coco, path);
}

void mr_coco_check_size(mr_coco *coco, size_t picture, int64_t width, int64_t height) {
    const int64_t *size = coco->sizes ? coco->sizes[picture] : NULL;
    if (!size || size[0] < 1 || size[1] < 1 || (size[0] == width && size[1] == height) ||
        atomic_fetch_add(&coco->other_sizes, 1))
        return;
    mr_log(MR_LOG_WARNING, "%s has %lldx%lld pixels, and the annotations say %lldx%lld: its boxes are wrong if they "
           "were drawn in a picture of that size, or in one that was not turned", coco->pictures[picture],
           (long long)width, (long long)height, (long long)size[0], (long long)size[1]);
}

void mr_coco_report_sizes(const mr_coco *coco) {
    const size_t count = atomic_load(&coco->other_sizes);
    if (count > 1)
        mr_log(MR_LOG_WARNING, "%zu of %zu pictures do not have the size that the annotations say", count,
               coco->picture_count);
}

void mr_coco_fini(mr_coco *coco) {
    mr_arena_fini(&coco->arena);
    *coco = (mr_coco){0};
}

int mr_coco_locate(mr_coco *coco, size_t picture, const char **path) {
    const char *name = coco->pictures[picture];
    char *real = realpath(name, NULL);
    if (!real && coco->folder)
        return mr_fail(mr_file_status(errno), "cannot read %s: %s; the annotations' paths begin in %s, unless "
                       "--pictures names another folder", name, strerror(errno), coco->folder);
    if (!real)
        return mr_fail(mr_file_status(errno), "cannot read %s: %s", name, strerror(errno));
    *path = mr_arena_text(&coco->arena, real, strlen(real));
    free(real);
    return *path ? MR_OK : MR_ERROR_MEMORY;
}
