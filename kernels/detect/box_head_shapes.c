/* Which head the shapes of the outputs fit. */
#include <stdio.h>
#include <string.h>

#include "kernels/detect/box_numbers.h"
#include "millrace/status.h"

/* The outputs that a head is made from. */
typedef struct outputs {
    const mr_box_head_output *item;
    size_t count;
    int32_t width, height;
    int32_t points, point_numbers; /* key points that an object would have */
} outputs;

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static bool is_float(const mr_box_head_output *one) {
    return one->format.dtype == MR_DTYPE_F32;
}

/* Whether it has this rank once leading dimensions of 1 are left out. *dims: the remaining ones. */
static bool has_rank(const mr_box_head_output *one, int32_t rank, const int64_t **dims) {
    int32_t first = 0;
    while (one->format.rank - first > rank && one->format.dims[first] == 1)
        first++;
    *dims = one->format.dims + first;
    return one->format.rank - first == rank;
}

/* The usual ones; those of networks for larger, for smaller, and for larger and smaller objects; of small networks. */
static const mr_box_strides known_strides[] = {{8, 32}, {8, 64}, {4, 32}, {4, 64}, {16, 32}};
enum { KNOWN_STRIDES = sizeof known_strides / sizeof *known_strides };

static int64_t cells_of(const outputs *all, const mr_box_strides *strides) {
    int64_t cells = 0;
    for (int32_t stride = strides->first; stride <= strides->last; stride *= 2)
        cells += (int64_t)(all->width / stride) * (all->height / stride);
    return cells;
}

enum { ANCHORS = 3 }; /* YOLOV5's boxes of a cell */

/* Whether there are so many boxes, `each` for a cell. */
static bool has_cells(mr_box_head *head, const outputs *all, int64_t boxes, int64_t each) {
    for (size_t i = 0; i < KNOWN_STRIDES; i++) {
        head->strides = known_strides[i];
        if (boxes && boxes == each * cells_of(all, &head->strides))
            return true;
    }
    return false;
}

/* The only output, as a matrix. */
static const int64_t *only_matrix(const outputs *all) {
    const int64_t *dims = NULL;
    return all->count == 1 && is_float(all->item) && has_rank(all->item, 2, &dims) && dims[0] && dims[1] ? dims : NULL;
}

/* The output with `last` numbers in a row and any number of rows; -1: none or several. `rows` 0: any number. */
static int find_matrix(const outputs *all, int64_t rows, int64_t last, int except) {
    int found = -1;
    for (size_t i = 0; i < all->count; i++) {
        const int64_t *dims;
        if ((int)i == except || !is_float(&all->item[i]) || !has_rank(&all->item[i], 2, &dims) ||
            (rows && dims[0] != rows) || (last && dims[1] != last))
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

static mr_box_head_view view_of(int output, int64_t first, int64_t row, int64_t column) {
    return (mr_box_head_view){output, first, row, column};
}

static const mr_box_head_view NOWHERE = {.output = -1};

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* Rows of a box, the objectness, and classes. */
static bool make_rows(mr_box_head *head, const outputs *all, int64_t each) {
    const int64_t *dims = only_matrix(all);
    if (!dims || dims[1] < 6 || !has_cells(head, all, dims[0], each))
        return false;
    head->rows = dims[0];
    head->classes = (int32_t)(dims[1] - 5);
    head->boxes = view_of(0, 0, dims[1], 1);
    head->objectness = view_of(0, 4, dims[1], 0);
    head->scores = view_of(0, 5, dims[1], 1);
    head->order = MR_BOX_CXCYWH;
    head->suppress = true;
    return true;
}

static bool make_yolox(mr_box_head *head, const outputs *all) {
    head->grid = true;
    return make_rows(head, all, 1);
}

static bool make_yolov5(mr_box_head *head, const outputs *all) {
    return make_rows(head, all, ANCHORS);
}

/* Columns of a box and classes, and then `more` numbers. */
static bool make_columns(mr_box_head *head, const outputs *all, int output, int64_t more) {
    const int64_t *dims;
    if (output < 0 || !is_float(&all->item[output]) || !has_rank(&all->item[output], 2, &dims) ||
        dims[0] < 5 + more || !has_cells(head, all, dims[1], 1))
        return false;
    head->rows = dims[1];
    head->classes = (int32_t)(dims[0] - 4 - more);
    head->boxes = view_of(output, 0, 1, dims[1]);
    head->scores = view_of(output, 4 * dims[1], 1, dims[1]);
    head->order = MR_BOX_CXCYWH;
    head->suppress = true;
    return true;
}

static bool make_yolov8(mr_box_head *head, const outputs *all) {
    return all->count == 1 && make_columns(head, all, 0, 0);
}

/* Boxes also have key points, an angle, or coefficients of masks: these begin at `first`. */
static bool add_points(mr_box_head *head, const outputs *all, mr_box_head_view first) {
    head->kind = MR_BOX_POINTS;
    head->points = all->points;
    head->point_numbers = all->point_numbers;
    head->numbers = 3 * all->points;
    head->point = first;
    return true;
}

static bool add_angle(mr_box_head *head, mr_box_head_view first) {
    head->kind = MR_BOX_CORNERS;
    head->numbers = MR_BOX_CORNER_NUMBERS;
    head->angle = first;
    return true;
}

static bool add_masks(mr_box_head *head, const int64_t *prototypes, mr_box_head_view first) {
    head->kind = MR_BOX_MASK;
    head->prototypes = !first.output;
    head->coefficients = (int32_t)prototypes[0];
    head->mask_height = (int32_t)prototypes[1];
    head->mask_width = (int32_t)prototypes[2];
    head->numbers = mr_box_mask_numbers(head);
    head->coefficient = first;
    return true;
}

/* Sizes of the prototypes, of two outputs. NULL: that output is no such. */
static const int64_t *prototypes_in(const outputs *all, int output) {
    const int64_t *dims = NULL;
    bool good = all->count == 2 && is_float(&all->item[output]) && has_rank(&all->item[output], 3, &dims);
    for (int i = 0; i < 3 && good; i++)
        good = dims[i] > 0 && dims[i] <= MR_BOX_HEAD_MOST_CELLS;
    return good ? dims : NULL;
}

/* The place after the classes of columns. */
static mr_box_head_view after_columns(const mr_box_head *head) {
    return view_of(head->boxes.output, (4 + head->classes) * head->rows, 1, head->rows);
}

static bool make_yolov8_pose(mr_box_head *head, const outputs *all) {
    return all->count == 1 && all->points && make_columns(head, all, 0, (int64_t)all->points * all->point_numbers) &&
           add_points(head, all, after_columns(head));
}

static bool make_yolov8_obb(mr_box_head *head, const outputs *all) {
    return all->count == 1 && make_columns(head, all, 0, 1) && add_angle(head, after_columns(head));
}

static bool make_yolov8_seg(mr_box_head *head, const outputs *all) {
    for (int boxes = 0; boxes < 2; boxes++) {
        const int64_t *prototypes = prototypes_in(all, !boxes);
        if (prototypes && make_columns(head, all, boxes, prototypes[0]))
            return add_masks(head, prototypes, after_columns(head));
    }
    return false;
}

static bool is_named(const mr_box_head_output *one, const char *const names[]) {
    while (*names && strcmp(one->name, *names) != 0)
        names++;
    return *names;
}

/* Of two outputs. If four scores are as long as a box, names decide. */
static int find_boxes(const outputs *all) {
    static const char *const names[] = {"boxes", "pred_boxes", "dets", NULL};
    const int other = find_matrix(all, 0, 4, 0), both = find_matrix(all, 0, 4, 1);
    if (other < 0 || both < 0)
        return find_matrix(all, 0, 4, -1);
    return is_named(&all->item[0], names) ? 0 : is_named(&all->item[1], names) ? 1 : -1;
}

/* Two outputs with a row for each box: boxes and scores. */
static bool make_pair(mr_box_head *head, const outputs *all, int64_t background) {
    const int boxes = all->count == 2 ? find_boxes(all) : -1;
    const int64_t *dims = NULL;
    if (boxes < 0)
        return false;
    has_rank(&all->item[boxes], 2, &dims);
    if (!dims[0])
        return false;
    const int scores = find_matrix(all, dims[0], 0, boxes);
    if (scores < 0)
        return false;
    head->rows = dims[0];
    has_rank(&all->item[scores], 2, &dims);
    if (dims[1] <= background)
        return false;
    head->classes = (int32_t)(dims[1] - background);
    head->boxes = view_of(boxes, 0, 4, 1);
    head->scores = view_of(scores, background, dims[1], 1);
    head->normalized = true;
    return true;
}

static bool make_ssd(mr_box_head *head, const outputs *all) {
    head->order = MR_BOX_LTRB;
    head->suppress = true;
    return make_pair(head, all, 1);
}

static bool make_rtdetr(mr_box_head *head, const outputs *all) {
    const int64_t *dims = only_matrix(all);
    head->order = MR_BOX_CXCYWH;
    head->logits = !dims;
    if (!dims)
        return make_pair(head, all, 0);
    if (dims[1] < 5)
        return false;
    head->rows = dims[0];
    head->classes = (int32_t)(dims[1] - 4);
    head->boxes = view_of(0, 0, dims[1], 1);
    head->scores = view_of(0, 4, dims[1], 1);
    head->normalized = true;
    return true;
}

enum { BOX_SCORE_CLASS = 6 }; /* END2END's numbers in a row */

/* Rows of `numbers`: from `box` on a box, and a score and a class at these places. */
static bool view_rows(mr_box_head *head, const outputs *all, int output, int64_t numbers, int box, int score,
                      int class) {
    const int64_t *dims;
    if (!is_float(&all->item[output]) || !has_rank(&all->item[output], 2, &dims) || !dims[0] || dims[1] != numbers)
        return false;
    head->rows = dims[0];
    head->boxes = view_of(output, box, numbers, 1);
    head->scores = view_of(output, score, numbers, 0);
    head->class_numbers = view_of(output, class, numbers, 0);
    head->class_dtype = MR_DTYPE_F32;
    head->order = MR_BOX_LTRB;
    return true;
}

/* Rows as END2END has them, and then `more` numbers. */
static bool make_found(mr_box_head *head, const outputs *all, int output, int64_t more) {
    return view_rows(head, all, output, BOX_SCORE_CLASS + more, 0, 4, 5);
}

static mr_box_head_view after_found(const mr_box_head *head) {
    return view_of(head->boxes.output, head->boxes.first + BOX_SCORE_CLASS, head->boxes.row, 1);
}

static bool make_end2end(mr_box_head *head, const outputs *all) {
    for (int boxes = 0; boxes < 2 && all->count == 2; boxes++) {
        const int64_t *prototypes = prototypes_in(all, !boxes);
        if (prototypes && make_found(head, all, boxes, prototypes[0]))
            return add_masks(head, prototypes, after_found(head));
    }
    if (all->count != 1)
        return false;
    if (make_found(head, all, 0, 0))
        return true;
    if (make_found(head, all, 0, 1)) {
        head->order = MR_BOX_CXCYWH;
        return add_angle(head, after_found(head));
    }
    return all->points && make_found(head, all, 0, (int64_t)all->points * all->point_numbers) &&
           add_points(head, all, after_found(head));
}

static bool make_yolov7_end2end(mr_box_head *head, const outputs *all) {
    return all->count == 1 && view_rows(head, all, 0, 7, 1, 6, 5);
}

static bool make_centerface(mr_box_head *head, const outputs *all) {
    static const int64_t planes[] = {1, 2, 2, 2 * MR_CENTERFACE_POINTS};
    const int64_t rows = all->height / MR_CENTERFACE_CELL, columns = all->width / MR_CENTERFACE_CELL;
    if (all->count != sizeof planes / sizeof *planes || !rows || !columns)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        const mr_format *format = &all->item[i].format;
        if (!is_float(&all->item[i]) || format->rank != 3 || format->dims[0] != planes[i] || format->dims[1] != rows ||
            format->dims[2] != columns)
            return false;
        head->maps[i] = (int32_t)i;
    }
    head->rows = rows * columns;
    head->classes = 1;
    head->kind = MR_BOX_POINTS;
    head->points = MR_CENTERFACE_POINTS;
    head->numbers = 3 * MR_CENTERFACE_POINTS;
    head->suppress = true;
    return true;
}

/* A map with a value for each pixel. */
static bool make_db(mr_box_head *head, const outputs *all) {
    const int64_t *dims = only_matrix(all);
    if (!dims || dims[0] != all->height || dims[1] != all->width)
        return false;
    head->rows = dims[0] * dims[1];
    head->classes = 1;
    head->kind = MR_BOX_CORNERS;
    head->numbers = MR_BOX_CORNER_NUMBERS;
    return true;
}

static const struct {
    bool (*make)(mr_box_head *head, const outputs *all);
    const char *expected; /* %lld: the cells of the usual strides */
} families[MR_BOX_HEAD_FAMILIES] = {
    [MR_BOX_HEAD_YOLOX] = {make_yolox, "one output of %lld x (5 + classes)"},
    [MR_BOX_HEAD_YOLOV5] = {make_yolov5, "one output of 3 * %lld x (5 + classes)"},
    [MR_BOX_HEAD_YOLOV8] = {make_yolov8, "one output of (4 + classes) x %lld"},
    [MR_BOX_HEAD_YOLOV8_POSE] = {make_yolov8_pose, "one output of (4 + classes + key points) x %lld"},
    [MR_BOX_HEAD_YOLOV8_SEG] = {make_yolov8_seg, "two outputs, (4 + classes + C) x %lld and prototypes C x H x W"},
    [MR_BOX_HEAD_YOLOV8_OBB] = {make_yolov8_obb, "one output of (4 + classes + 1) x %lld"},
    [MR_BOX_HEAD_SSD] = {make_ssd, "two outputs, boxes N x 4 and scores N x (1 + classes)"},
    [MR_BOX_HEAD_RTDETR] = {make_rtdetr, "boxes N x 4 and logits N x classes, or one output of N x (4 + classes)"},
    [MR_BOX_HEAD_END2END] = {make_end2end,
                             "one output of N x 6, N x 7 or N x (6 + key points), or N x (6 + C) and C x H x W"},
    [MR_BOX_HEAD_YOLOV7_END2END] = {make_yolov7_end2end, "one output of N x 7"},
    [MR_BOX_HEAD_CENTERFACE] = {make_centerface, "four outputs of 1, 2, 2 and 10 planes with a cell for 4x4 pixels"},
    [MR_BOX_HEAD_DB] = {make_db, "one output with a value for each pixel"},
};

/* ---- custom ------------------------------------------------------------------------------------------------------ */

static int find_output(const outputs *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->item[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* A matrix with a row for each box; turned: a column. */
static mr_box_head_view view_matrix(int output, const int64_t *dims, bool turned) {
    return turned ? view_of(output, 0, 1, dims[1]) : view_of(output, 0, dims[1], 1);
}

static const char *print_outputs(const outputs *all, char *text, size_t bytes) {
    char one[MR_FORMAT_TEXT];
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < all->count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s\"%s\" %s", i ? ", " : "", all->item[i].name,
                                 mr_format_print(&all->item[i].format, one, sizeof one));
    return text;
}

/* `output`: the one of that name; -1: none. */
static int refuse_output(const outputs *all, const char *role, const char *name, int output, const char *expected) {
    char found[256];
    if (output < 0)
        return mr_fail(MR_ERROR_CONFIG, "%s: the network has no output \"%s\"; it gives %s", role, name,
                       print_outputs(all, found, sizeof found));
    return mr_fail(MR_ERROR_CONFIG, "%s: output \"%s\" is not %s, but %s", role, name, expected,
                   mr_format_print(&all->item[output].format, found, sizeof found));
}

static int take_boxes(mr_box_head *head, const mr_box_head_params *params, const outputs *all) {
    const mr_box_head_custom *custom = params->custom;
    const int output = find_output(all, custom->boxes);
    const int64_t *dims, numbers = custom->scores ? 4 : 5;
    bool fits = output >= 0 && is_float(&all->item[output]) && has_rank(&all->item[output], 2, &dims);
    if (fits) {
        head->boxes_turned = params->like ? params->like->boxes_turned : dims[1] != numbers;
        head->rows = dims[head->boxes_turned];
        head->boxes = view_matrix(output, dims, head->boxes_turned);
        fits = dims[!head->boxes_turned] == numbers;
    }
    return fits ? MR_OK
                : refuse_output(all, "boxes", custom->boxes, output,
                                custom->scores ? "an f32 output of N x 4 or 4 x N"
                                               : "an f32 output of N x 5 or 5 x N, where the fifth number is a score");
}

/* *values: scores of a box. */
static bool view_scores(mr_box_head *head, const mr_box_head *like, const outputs *all, int output, int64_t *values) {
    const int64_t *dims;
    *values = 1;
    if (has_rank(&all->item[output], 1, &dims) && dims[0] == head->rows) {
        head->scores = view_of(output, 0, 1, 0);
        return true;
    }
    if (!has_rank(&all->item[output], 2, &dims))
        return false;
    head->scores_turned = like ? like->scores_turned : dims[0] != head->rows;
    head->scores = view_matrix(output, dims, head->scores_turned);
    *values = dims[!head->scores_turned];
    return dims[head->scores_turned] == head->rows;
}

/* Each box has one score, and no class of its own unless another output has it. */
static void take_fifth(mr_box_head *head, const mr_box_head_custom *custom) {
    head->scores = head->boxes;
    head->scores.first += 4 * head->boxes.column;
    head->scores.column = 0;
    head->classes = !custom->classes;
}

static int take_scores(mr_box_head *head, const mr_box_head_params *params, const outputs *all) {
    const mr_box_head_custom *custom = params->custom;
    const int output = find_output(all, custom->scores);
    int64_t values;
    if (output < 0 || !is_float(&all->item[output]))
        return refuse_output(all, "scores", custom->scores, output, "an f32 output");
    if (!view_scores(head, params->like, all, output, &values))
        return refuse_output(all, "scores", custom->scores, output,
                             "one with a score, or a score for each class, for each box");
    head->scores.first += custom->background ? head->scores.column : 0;
    head->classes = custom->classes ? 0 : (int32_t)values - custom->background;
    return head->classes > 0 || custom->classes
               ? MR_OK
               : refuse_output(all, "scores", custom->scores, output, "one with a class besides the background");
}

static int take_classes(mr_box_head *head, const mr_box_head_custom *custom, const outputs *all) {
    const int64_t *dims;
    const int output = custom->classes ? find_output(all, custom->classes) : -1;
    if (!custom->classes)
        return MR_OK;
    if (output < 0 || !has_rank(&all->item[output], 1, &dims) || dims[0] != head->rows ||
        (!is_float(&all->item[output]) && all->item[output].format.dtype != MR_DTYPE_I32 &&
         all->item[output].format.dtype != MR_DTYPE_I64))
        return refuse_output(all, "classes", custom->classes, output, "one with a number for each box");
    head->class_numbers = view_of(output, 0, 1, 0);
    head->class_dtype = all->item[output].format.dtype;
    return MR_OK;
}

static int make_custom(mr_box_head *head, const mr_box_head_params *params, const outputs *all) {
    const mr_box_head_custom *custom = params->custom;
    head->order = custom->order;
    head->normalized = custom->normalized;
    head->logits = custom->logits;
    head->suppress = custom->suppress;
    int status = take_boxes(head, params, all);
    if (!status && !custom->scores)
        take_fifth(head, custom);
    else if (!status)
        status = take_scores(head, params, all);
    return status ? status : take_classes(head, custom, all);
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static mr_box_head begin(mr_box_head_family family, const outputs *all) {
    return (mr_box_head){.family = family, .width = all->width, .height = all->height, .boxes = NOWHERE,
                     .objectness = NOWHERE, .scores = NOWHERE, .class_numbers = NOWHERE, .angle = NOWHERE,
                     .strides = known_strides[0]};
}

/* How many key points: as the exporter noted, or as `params` says. */
static outputs outputs_of(const mr_box_head_params *params, const mr_box_head_output *items, size_t count) {
    outputs all = {items, count, params->width, params->height, params->points, 3};
    int points, numbers;
    if (params->key_points && sscanf(params->key_points, " [%5d , %5d ]", &points, &numbers) == 2 && points > 0 &&
        points <= MR_BOX_HEAD_MOST_POINTS && (numbers == 2 || numbers == 3)) {
        all.points = points;
        all.point_numbers = numbers;
    }
    return all;
}

int mr_box_head_make(mr_box_head *head, const mr_box_head_params *params, const mr_box_head_output *items,
                     size_t count) {
    const outputs all = outputs_of(params, items, count);
    const mr_box_head_family family = params->family;
    char expected[128], found[256];
    *head = begin(family, &all);
    if (family == MR_BOX_HEAD_CUSTOM)
        return make_custom(head, params, &all);
    if (families[family].make(head, &all))
        return MR_OK;
    snprintf(expected, sizeof expected, families[family].expected, (long long)cells_of(&all, known_strides));
    return mr_fail(MR_ERROR_CONFIG, "%s %s head has %s for an input of %dx%d; the network gives %s",
                   family == MR_BOX_HEAD_END2END ? "an" : "a", mr_box_head_names[family], expected, all.width,
                   all.height, print_outputs(&all, found, sizeof found));
}

/* The kind of objects that a network finds for that task; MR_BOX_KINDS: not known. */
static mr_box_kind kind_for(const char *task) {
    static const char *const tasks[MR_BOX_KINDS] = {"detect", "obb", "pose", "segment"};
    int kind = 0;
    while (kind < MR_BOX_KINDS && (!task || strcmp(task, tasks[kind]) != 0))
        kind++;
    return (mr_box_kind)kind;
}

/* Whether that family can be told from others by its shapes. With one output, RT-DETR's fit nearly any matrix; rows of
 * 7 may be END2END's with an angle, or YOLOV7_END2END's. */
static bool is_tellable(mr_box_head_family family, const outputs *all, mr_box_kind kind) {
    static const char *const detr[] = {"dets", "pred_boxes", "logits", "pred_logits", NULL};
    const int64_t *dims = only_matrix(all);
    bool named = false;
    for (size_t i = 0; i < all->count; i++)
        named |= is_named(&all->item[i], detr);
    if (family == MR_BOX_HEAD_SSD)
        return !named;
    if (family == MR_BOX_HEAD_RTDETR)
        return all->count == 2;
    if (family == MR_BOX_HEAD_YOLOV7_END2END)
        return false;
    if (family == MR_BOX_HEAD_END2END && dims && dims[1] > BOX_SCORE_CLASS)
        return kind < MR_BOX_KINDS;
    return kind < MR_BOX_KINDS || (family != MR_BOX_HEAD_YOLOV8_POSE && family != MR_BOX_HEAD_YOLOV8_OBB);
}

/* Adds a family's name to a list. */
static void add_name(char *names, size_t bytes, mr_box_head_family family) {
    const size_t used = strlen(names);
    snprintf(names + used, bytes - used, "%s%s", used ? ", " : "", mr_box_head_names[family]);
}

int mr_box_head_find(mr_box_head_family *family, const mr_box_head_params *params, const mr_box_head_output *items,
                     size_t count) {
    const outputs all = outputs_of(params, items, count);
    const mr_box_kind kind = kind_for(params->task);
    char names[128] = "", possible[128] = "", found[256];
    int fitting = 0;
    for (mr_box_head_family one = 0; one < MR_BOX_HEAD_CUSTOM; one++) {
        mr_box_head head = begin(one, &all);
        if (!families[one].make(&head, &all) || (kind < MR_BOX_KINDS && head.kind != kind))
            continue;
        if (!is_tellable(one, &all, kind)) {
            add_name(possible, sizeof possible, one);
            continue;
        }
        add_name(names, sizeof names, one);
        *family = one;
        fitting++;
    }
    if (fitting == 1)
        return MR_OK;
    print_outputs(&all, found, sizeof found);
    if (fitting)
        return mr_fail(MR_ERROR_CONFIG, "its outputs, %s, fit several heads (%s): write head", found, names);
    return mr_fail(MR_ERROR_CONFIG, "its outputs, %s, fit no head by their shapes, for an input of %dx%d: write head: "
                   "%s%scustom, and in custom what each of them is", found, all.width, all.height, possible,
                   *possible ? ", or " : "");
}
