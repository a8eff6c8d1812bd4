#include "tools/millrace/objects/coco.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

static const size_t MOST_BYTES = (size_t)4 << 30;

/* A picture or a class while its place is not known. */
typedef struct named {
    int64_t id;
    const char *name;
} named;

typedef struct reading {
    mr_coco *to;
    const char *path;
    named *pictures, *classes; /* by id */
} reading;

static int wrong(const reading *r, const char *list, size_t index, const char *what) {
    return mr_fail(MR_ERROR_DATA, "%s: %s[%zu] %s", r->path, list, index, what);
}

static yajl_val member(yajl_val object, const char *key, yajl_type type) {
    const char *path[] = {key, NULL};
    return YAJL_IS_OBJECT(object) ? yajl_tree_get(object, path, type) : NULL;
}

static bool read_id(yajl_val object, const char *key, int64_t *id) {
    yajl_val value = member(object, key, yajl_t_number);
    if (!value || !YAJL_IS_INTEGER(value))
        return false;
    *id = YAJL_GET_INTEGER(value);
    return true;
}

static int find_list(const reading *r, yajl_val root, const char *name, yajl_val *list) {
    *list = member(root, name, yajl_t_array);
    return *list ? MR_OK : mr_fail(MR_ERROR_DATA, "%s: it has no list \"%s\"; COCO's JSON has images, categories and "
                                   "annotations", r->path, name);
}

/* ---- pictures and classes ---------------------------------------------------------------------------------------- */

static int compare_ids(const void *one, const void *other) {
    const named *a = one, *b = other;
    return a->id < b->id ? -1 : a->id > b->id;
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
    for (size_t i = 0; i < *count; i++) {
        yajl_val one = YAJL_GET_ARRAY(list)->values[i], text = member(one, key, yajl_t_string);
        if (!text || !read_id(one, "id", &(*to)[i].id))
            return mr_fail(MR_ERROR_DATA, "%s: %s[%zu] needs a whole number \"id\" and a text \"%s\"", r->path, name, i,
                           key);
        (*to)[i].name = mr_arena_print(&r->to->arena, "%s", text->u.string);
        if (!(*to)[i].name)
            return MR_ERROR_MEMORY;
    }
    qsort(*to, *count, sizeof **to, compare_ids);
    for (size_t i = 1; i < *count; i++)
        if ((*to)[i].id == (*to)[i - 1].id)
            return mr_fail(MR_ERROR_DATA, "%s: two of %s have the id %lld", r->path, name, (long long)(*to)[i].id);
    return MR_OK;
}

/* Relative paths begin in the file's folder. */
static int name_all(const reading *r) {
    const char *slash = strrchr(r->path, '/');
    const int folder = slash ? (int)(slash - r->path) + 1 : 0;
    mr_coco *to = r->to;
    to->pictures = mr_arena_array(&to->arena, to->picture_count + 1, sizeof *to->pictures);
    to->classes = mr_arena_array(&to->arena, to->class_count + 1, sizeof *to->classes);
    if (!to->pictures || !to->classes)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < to->picture_count; i++) {
        const char *name = r->pictures[i].name;
        to->pictures[i] = mr_arena_print(&to->arena, "%.*s%s", *name == '/' ? 0 : folder, r->path, name);
        if (!to->pictures[i])
            return MR_ERROR_MEMORY;
    }
    for (size_t i = 0; i < to->class_count; i++)
        to->classes[i] = r->classes[i].name;
    return MR_OK;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static bool read_number(yajl_val value, double *number) {
    *number = YAJL_IS_NUMBER(value) ? strtod(YAJL_GET_NUMBER(value), NULL) : (double)NAN;
    return isfinite(*number);
}

static bool read_box(yajl_val object, mr_boxed *to) {
    yajl_val list = member(object, "bbox", yajl_t_array);
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
    *index = found ? (size_t)(found - among) : 0;
    return found;
}

static int read_object(const reading *r, yajl_val object, size_t index, mr_boxed *to) {
    size_t label;
    yajl_val area = member(object, "area", yajl_t_number);
    int64_t crowd = 0;
    if (!find_id(object, "image_id", r->pictures, r->to->picture_count, &to->image))
        return wrong(r, "annotations", index, "has an image_id that no image has");
    if (!find_id(object, "category_id", r->classes, r->to->class_count, &label))
        return wrong(r, "annotations", index, "has a category_id that no category has");
    if (!read_box(object, to))
        return wrong(r, "annotations", index, "needs a \"bbox\" of four numbers: left, top, width, height");
    if (!read_number(area, &to->area))
        to->area = to->width * to->height;
    to->label = (int32_t)label;
    to->crowd = read_id(object, "iscrowd", &crowd) && crowd;
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

int mr_coco_read(mr_coco *coco, const char *path) {
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
    if (!status)
        status = name_all(&r);
    if (!status)
        status = read_objects(&r, root);
    yajl_tree_free(root);
    if (!status && (!coco->picture_count || !coco->class_count))
        return mr_fail(MR_ERROR_DATA, "%s: it lists no images, or no categories", path);
    return status;
}

void mr_coco_fini(mr_coco *coco) {
    mr_arena_fini(&coco->arena);
    *coco = (mr_coco){0};
}
