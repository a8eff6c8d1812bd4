#include "stages/train/training.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/base/utf8.h"
#include "kernels/fit/fit_rows.h"
#include "millrace/status.h"
#include "stages/model/labels.h"

enum { MOST_CLASSES = 1 << 20, NAMED = 5, LIST_BYTES = 400, NAME_SHOWN = 60 };

/* ---- warnings and progress --------------------------------------------------------------------------------------- */

int mr_training_warn(mr_fitting *t, const char *format, ...) {
    char text[1024];
    mr_classifier_card *card = &t->made->card;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (card->warning_count == t->warning_room) {
        size_t room = 2 * t->warning_room + 8;
        const char **more = mr_arena_array(&t->made->arena, room, sizeof *more);
        if (!more)
            return MR_ERROR_MEMORY;
        if (card->warning_count)
            memcpy(more, card->warnings, card->warning_count * sizeof *more);
        card->warnings = more;
        t->warning_room = room;
    }
    char *kept = mr_arena_text(&t->made->arena, text, strlen(text));
    if (!kept)
        return MR_ERROR_MEMORY;
    ((const char **)(uintptr_t)card->warnings)[card->warning_count++] = kept;
    if (t->params.warning)
        t->params.warning(t->params.user, kept);
    return MR_OK;
}

int mr_training_report(const mr_fitting *t, const mr_fit_progress *progress) {
    if (t->params.progress && t->params.progress(t->params.user, progress))
        return mr_fail(MR_ERROR_CANCELLED, "the fit was cancelled at step %d%s%s", progress->step,
                       t->params.state ? "; its state is in " : "", t->params.state ? t->params.state : "");
    return MR_OK;
}

/* Lists class names: "a", "b" and 3 more. */
typedef struct naming {
    char text[LIST_BYTES];
    size_t count, used;
} naming;

/* How many bytes of a name to show. A long name is cut between characters. */
static int shown(const char *name) {
    return (int)mr_utf8_fit(name, NAME_SHOWN);
}

static void name_class(naming *names, const mr_fitting *t, size_t class) {
    size_t room = sizeof names->text - names->used;
    if (names->count++ < NAMED && room > 1) {
        const char *name = t->given.class_names[class];
        int more = snprintf(names->text + names->used, room, "%s\"%.*s\"", names->used ? ", " : "", shown(name), name);
        names->used += (size_t)more < room ? (size_t)more : room - 1;
    }
}

static const char *list_names(naming *names) {
    if (names->count > NAMED)
        snprintf(names->text + names->used, sizeof names->text - names->used, " and %zu more", names->count - NAMED);
    return names->text;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static int check_penalties(const mr_fit_params *p) {
    for (size_t i = 0; i < p->penalty_count; i++)
        if (!(p->penalties[i] > 0.0) || !isfinite(p->penalties[i]))
            return mr_fail(MR_ERROR_USAGE, "a penalty C of %g cannot be: it must be above 0", p->penalties[i]);
    if (p->penalty_count > 64)
        return mr_fail(MR_ERROR_USAGE, "%zu penalties are too many: at most 64 are tried", p->penalty_count);
    return MR_OK;
}

static int check_layers(const mr_fit_params *p) {
    if (p->hidden_count > MR_TRAINED_LAYERS - 1)
        return mr_fail(MR_ERROR_USAGE, "%zu hidden layers are too many: at most %d can be", p->hidden_count,
                       MR_TRAINED_LAYERS - 1);
    for (size_t i = 0; i < p->hidden_count; i++)
        if (!p->hidden[i] || p->hidden[i] > 65536)
            return mr_fail(MR_ERROR_USAGE, "hidden layer %zu has %zu units, and 1 to 65536 can be", i + 1,
                           p->hidden[i]);
    if (p->minibatch % MR_FIT_CHUNK)
        return mr_fail(MR_ERROR_USAGE, "minibatches of %zu rows cannot be: take a multiple of %d", p->minibatch,
                       MR_FIT_CHUNK);
    return MR_OK;
}

static bool has_products(const mr_fit_params *p) {
    return p->kind != MR_CLASSIFIER_PROTOTYPES && p->kind != MR_CLASSIFIER_NEIGHBORS;
}

static int check_params(const mr_fit_params *p) {
    if (!mr_classifier_kind_name(p->kind))
        return mr_fail(MR_ERROR_USAGE, "there is no classifier of kind %d", (int)p->kind);
    if (p->threads < 0 || p->threads > MR_TRAIN_THREADS)
        return mr_fail(MR_ERROR_USAGE, "%d threads cannot be: 1 to %d, or 0 for one a core", p->threads,
                       MR_TRAIN_THREADS);
    if (!(p->gradient >= 0.0) || p->steps < 0 || !(p->rate >= 0.0) || p->patience < 0 || p->k > INT32_MAX)
        return mr_fail(MR_ERROR_USAGE, "gradient, steps, rate, patience and k of a fit must not be negative");
    if (p->doubles && !has_products(p))
        return mr_fail(MR_ERROR_USAGE, "a classifier of kind %s has no products that could be in double precision",
                       mr_classifier_kind_name(p->kind));
    const int status = check_penalties(p);
    return status ? status : check_layers(p);
}

/* Replaces zeros by defaults. */
static void fill_params(mr_fit_params *p) {
    const bool perceptron = p->kind == MR_CLASSIFIER_PERCEPTRON;
    const bool nearest = p->kind == MR_CLASSIFIER_PROTOTYPES || p->kind == MR_CLASSIFIER_NEIGHBORS;
    static const size_t hidden[] = {128, 64};
    if (p->gradient == 0.0)
        p->gradient = p->doubles ? 1e-8 : 1e-6;
    if (!p->steps)
        p->steps = perceptron ? 200 : 1000;
    if (!p->hidden_count) {
        p->hidden = hidden;
        p->hidden_count = 2;
    }
    p->minibatch = p->minibatch ? p->minibatch : MR_FIT_CHUNK;
    p->rate = p->rate > 0.0 ? p->rate : 0.001;
    p->patience = p->patience ? p->patience : 10;
    p->k = p->k ? p->k : 5;
    p->threads = p->threads ? p->threads : mr_usable_cores();
    if (p->threads > MR_TRAIN_THREADS)
        p->threads = MR_TRAIN_THREADS;
    if (p->scaling == MR_SCALING_USUAL)
        p->scaling = nearest ? MR_SCALING_NONE : MR_SCALING_STANDARD;
    p->hidden_count = perceptron ? p->hidden_count : 0;
}

/* Default penalties. */
static void fill_penalties(mr_fitting *t) {
    static const double path[] = {0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0}, one = 1.0, weak = 10000.0;
    mr_fit_params *p = &t->params;
    if (p->penalty_count)
        return;
    const bool perceptron = p->kind == MR_CLASSIFIER_PERCEPTRON, many = !perceptron && t->validation_count;
    p->penalties = perceptron ? &weak : many ? path : &one;
    p->penalty_count = many ? sizeof path / sizeof *path : 1;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static mr_row_part part_of(const mr_fitting *t, size_t row) {
    return t->given.parts ? (mr_row_part)t->given.parts[row] : MR_ROW_TRAIN;
}

static int check_name(const char *name, size_t class) {
    const size_t length = name ? strlen(name) : 0;
    if (!length)
        return mr_fail(MR_ERROR_DATA, "class %zu has no name", class);
    if (length > MR_LABEL_MAX_BYTES || strpbrk(name, "\r\n"))
        return mr_fail(MR_ERROR_DATA, "the name of class %zu is not one line of at most %d bytes: \"%.40s...\"", class,
                       MR_LABEL_MAX_BYTES, name);
    for (size_t at = 0, step; at < length; at += step)
        if (!(step = mr_utf8_bytes(name + at, length - at)))
            return mr_fail(MR_ERROR_DATA, "the name of class %zu is not UTF-8", class);
    return MR_OK;
}

static int by_name(const void *a, const void *b) {
    const char *const *one = a, *const *other = b;
    int order = mr_utf8_compare_case(*one, *other);
    return order ? order : strcmp(*one, *other);
}

/* Finds classes with equal names, and names that differ only in case. */
static int compare_names(mr_fitting *t) {
    const size_t count = t->given.class_count;
    const char **sorted = mr_alloc(count * sizeof *sorted);
    int status = sorted ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", count);
    if (sorted)
        memcpy(sorted, t->given.class_names, count * sizeof *sorted);
    if (sorted)
        qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count && !status; i++) {
        const char *one = sorted[i - 1], *other = sorted[i];
        if (strcmp(one, other) == 0)
            status = mr_fail(MR_ERROR_DATA, "two classes are called \"%.*s\"", shown(one), one);
        else if (mr_utf8_compare_case(one, other) == 0)
            status = mr_training_warn(t, "the classes \"%.*s\" and \"%.*s\" differ by case only: are they the same?",
                                      shown(one), one, shown(other), other);
    }
    mr_free(sorted);
    return status;
}

static int take_names(mr_fitting *t) {
    const size_t count = t->given.class_count;
    int status = MR_OK;
    if (count < 2)
        return mr_fail(MR_ERROR_DATA, "there is %s: a classifier tells at least two apart",
                       count ? "one class only" : "no class");
    if (count > MOST_CLASSES)
        return mr_fail(MR_ERROR_DATA, "%zu classes are more than the %d that there may be", count, MOST_CLASSES);
    if (!t->given.class_names)
        return mr_fail(MR_ERROR_USAGE, "the classes have no names");
    const char **kept = mr_arena_array(&t->made->arena, count, sizeof *kept);
    if (!kept)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        status = check_name(t->given.class_names[i], i);
        if (!status && !(kept[i] = mr_arena_text(&t->made->arena, t->given.class_names[i],
                                                 strlen(t->given.class_names[i]))))
            status = MR_ERROR_MEMORY;
    }
    t->made->card.class_names = kept;
    t->made->card.class_count = count;
    return status ? status : compare_names(t);
}

static int check_row(const mr_fitting *t, size_t row) {
    const mr_labelled_rows *rows = &t->given;
    const float *x = rows->features + row * rows->stride;
    if (rows->classes[row] < 0 || (size_t)rows->classes[row] >= rows->class_count)
        return mr_fail(MR_ERROR_DATA, "row %zu is of class %d, and there are %zu", row, (int)rows->classes[row],
                       rows->class_count);
    for (size_t k = 0; k < rows->width; k++)
        if (!isfinite(x[k]))
            return mr_fail(MR_ERROR_DATA, "feature %zu of row %zu is %g, not a finite number", k, row, (double)x[k]);
    return MR_OK;
}

/* Lists and checks training and validation rows; only counts test rows. */
static int list_rows(mr_fitting *t) {
    int status = MR_OK;
    for (size_t row = 0; row < t->given.rows && !status; row++) {
        const mr_row_part part = part_of(t, row);
        if (part > MR_ROW_NONE)
            return mr_fail(MR_ERROR_USAGE, "row %zu is of part %d, and there are 0 to 3", row, (int)part);
        t->made->card.test_rows += part == MR_ROW_TEST;
        if (part != MR_ROW_TRAIN && part != MR_ROW_VALIDATION)
            continue;
        status = check_row(t, row);
        if (part == MR_ROW_TRAIN)
            t->train[t->train_count++] = (uint32_t)row;
        else
            t->validation[t->validation_count++] = (uint32_t)row;
    }
    t->made->card.train_rows = t->train_count;
    t->made->card.validation_rows = t->validation_count;
    return status;
}

static int take_rows(mr_fitting *t) {
    const mr_labelled_rows *rows = &t->given;
    if (!rows->rows || !rows->width || !rows->features || !rows->classes)
        return mr_fail(MR_ERROR_DATA, "there are no rows to fit to");
    if (rows->rows > UINT32_MAX || rows->width > INT32_MAX - 2)
        return mr_fail(MR_ERROR_DATA, "%zu rows of %zu features are too many", rows->rows, rows->width);
    if (rows->stride < rows->width)
        return mr_fail(MR_ERROR_USAGE, "rows of %zu features cannot be %zu numbers apart", rows->width, rows->stride);
    t->train = mr_alloc(rows->rows * sizeof *t->train);
    t->validation = mr_alloc(rows->rows * sizeof *t->validation);
    if (!t->train || !t->validation)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu rows", rows->rows);
    t->made->card.width = rows->width;
    return list_rows(t);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* Counts training and validation rows per class. */
static int count_classes(mr_fitting *t, size_t *train, size_t *validation) {
    naming empty = {0}, missing = {0};
    for (size_t i = 0; i < t->train_count; i++)
        train[t->given.classes[t->train[i]]]++;
    for (size_t i = 0; i < t->validation_count; i++)
        validation[t->given.classes[t->validation[i]]]++;
    for (size_t j = 0; j < t->given.class_count; j++) {
        if (!train[j])
            name_class(&empty, t, j);
        else if (t->validation_count && !validation[j])
            name_class(&missing, t, j);
    }
    if (empty.count)
        return mr_fail(MR_ERROR_DATA, "there are no training rows of %s: add some, or leave %s out", list_names(&empty),
                       empty.count > 1 ? "these classes" : "the class");
    if (missing.count)
        return mr_training_warn(t, "there are no validation rows of %s, so the choice of the penalty does not see %s",
                                list_names(&missing), missing.count > 1 ? "them" : "it");
    return MR_OK;
}

static int weigh(mr_fitting *t, const size_t *train) {
    const bool balanced = t->params.class_weights == MR_CLASS_WEIGHTS_BALANCED;
    t->total = (double)t->train_count;
    if (!balanced || t->params.kind == MR_CLASSIFIER_PROTOTYPES || t->params.kind == MR_CLASSIFIER_NEIGHBORS)
        return MR_OK;
    t->weights = mr_calloc(t->given.rows, sizeof *t->weights);
    if (!t->weights)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the weights of %zu rows", t->given.rows);
    for (size_t i = 0; i < t->train_count; i++) {
        const uint32_t row = t->train[i];
        t->weights[row] = (double)t->train_count /
                          ((double)t->given.class_count * (double)train[t->given.classes[row]]);
    }
    t->made->card.balanced = true;
    return MR_OK;
}

/* A row in an examined part. */
typedef struct member {
    uint64_t group;
    int32_t class;
    uint8_t part;
} member;

static int by_class(const void *a, const void *b) {
    const member *one = a, *other = b;
    if (one->class != other->class)
        return one->class < other->class ? -1 : 1;
    return (one->group > other->group) - (one->group < other->group);
}

static int by_group(const void *a, const void *b) {
    const member *one = a, *other = b;
    if (one->group != other->group)
        return one->group < other->group ? -1 : 1;
    return (int)one->part - (int)other->part;
}

static int find_lone_classes(mr_fitting *t, member *all, size_t count) {
    naming lone = {0};
    qsort(all, count, sizeof *all, by_class);
    for (size_t first = 0, end; first < count; first = end) {
        bool one = true;
        for (end = first + 1; end < count && all[end].class == all[first].class; end++)
            one = one && all[end].group == all[first].group;
        if (one)
            name_class(&lone, t, (size_t)all[first].class);
    }
    if (!lone.count)
        return MR_OK;
    return mr_training_warn(t, "all rows of %s are of one group, so how well %s told elsewhere cannot be known",
                            list_names(&lone), lone.count > 1 ? "they are" : "it is");
}

static int find_split_groups(mr_fitting *t, member *all, size_t count) {
    size_t split = 0;
    qsort(all, count, sizeof *all, by_group);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && all[end].group == all[first].group; end++)
            ;
        split += all[first].part != all[end - 1].part;
    }
    if (!split)
        return MR_OK;
    return mr_training_warn(t, "%zu group%s rows in several of the parts train, validation and test, so figures are "
                               "better than the truth", split, split > 1 ? "s have" : " has");
}

static int check_groups(mr_fitting *t) {
    size_t count = 0;
    member *all = mr_alloc(t->given.rows * sizeof *all);
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the groups of %zu rows", t->given.rows);
    for (size_t row = 0; row < t->given.rows; row++) {
        const mr_row_part part = part_of(t, row);
        const int32_t class = t->given.classes[row];
        if (part == MR_ROW_NONE || class < 0 || (size_t)class >= t->given.class_count)
            continue;
        all[count++] = (member){.group = t->given.groups ? t->given.groups[row] : row, .class = class,
                                .part = (uint8_t)part};
    }
    int status = find_lone_classes(t, all, count);
    if (!status && t->given.parts)
        status = find_split_groups(t, all, count);
    mr_free(all);
    return status;
}

static int look_at_classes(mr_fitting *t) {
    size_t *counts = mr_calloc(2 * t->given.class_count, sizeof *counts);
    if (!counts)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", t->given.class_count);
    int status = count_classes(t, counts, counts + t->given.class_count);
    if (!status)
        status = weigh(t, counts);
    mr_free(counts);
    return status ? status : check_groups(t);
}

/* ---- the scaler -------------------------------------------------------------------------------------------------- */

mr_fit_rows mr_training_rows(const mr_fitting *t, bool validation) {
    return (mr_fit_rows){.features = t->given.features, .stride = t->given.stride, .width = t->given.width,
                         .count = validation ? t->validation_count : t->train_count,
                         .order = validation ? t->validation : t->train, .classes = t->given.classes,
                         .weights = validation ? NULL : t->weights, .mean = t->mean, .factor = t->factor};
}

static int name_constants(mr_fitting *t) {
    size_t count = 0, first = 0;
    for (size_t k = t->given.width; k-- > 0;)
        if (!(t->factor[k] > 0.0)) {
            count++;
            first = k;
        }
    t->made->card.constant_features = count;
    if (count == t->given.width)
        return mr_fail(MR_ERROR_DATA,
                       "all %zu features are the same in all training rows: there is nothing to tell them "
                       "apart by",
                       count);
    if (!count)
        return MR_OK;
    return mr_training_warn(t,
                            "%zu of %zu features %s the same in all training rows, and %s for nothing (%s feature %zu)",
                            count, t->given.width, count > 1 ? "are" : "is", count > 1 ? "count" : "counts",
                            count > 1 ? "the first is" : "it is", first);
}

static int measure(mr_fitting *t) {
    double *scaler = mr_calloc(2 * t->given.width, sizeof *scaler);
    mr_fit_workers *workers = NULL;
    mr_fit_rows rows = mr_training_rows(t, false);
    rows.weights = NULL;
    const mr_fit_task task = mr_fit_scaler_task(&rows);
    double *nodes = mr_calloc(mr_fit_block_count(task.chunks) * task.length, sizeof *nodes);
    int status = scaler && nodes ? mr_fit_workers_create(&workers, &task, t->params.threads)
                                 : mr_fail(MR_ERROR_MEMORY, "no memory for %zu features", t->given.width);
    if (!status)
        status = mr_fit_scaler(&rows, workers, nodes, scaler, scaler + t->given.width);
    mr_fit_workers_destroy(&workers);
    mr_free(nodes);
    t->mean = scaler;
    t->factor = scaler ? scaler + t->given.width : NULL;
    return status ? status : name_constants(t);
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void describe(mr_fitting *t) {
    mr_classifier_card *card = &t->made->card;
    mr_trained *trained = &t->made->trained;
    trained->kind = card->kind = t->params.kind;
    trained->width = t->given.width;
    trained->classes = t->given.class_count;
    trained->layers = 1;
    trained->activation = card->kind == MR_CLASSIFIER_LOGISTIC   ? MR_ACTIVATION_SIGMOID
                          : card->kind == MR_CLASSIFIER_NEIGHBORS ? MR_ACTIVATION_NONE
                                                                  : MR_ACTIVATION_SOFTMAX;
    card->doubles = t->params.doubles;
    card->standardised = t->params.scaling == MR_SCALING_STANDARD;
    card->seed = t->params.seed;
    card->version = card->pipeline = card->stages = card->digest = card->tensor = card->split = card->figures = "";
}

int mr_training_begin(mr_fitting *t, const mr_labelled_rows *rows, const mr_fit_params *params) {
    *t = (mr_fitting){.given = *rows, .params = *params};
    t->given.stride = rows->stride ? rows->stride : rows->width;
    int status = check_params(params);
    t->made = status ? NULL : mr_calloc(1, sizeof *t->made);
    if (!status && !t->made)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a classifier");
    if (status)
        return status;
    fill_params(&t->params);
    describe(t);
    status = take_names(t);
    if (!status)
        status = take_rows(t);
    if (!status)
        status = look_at_classes(t);
    fill_penalties(t);
    if (!status && t->params.penalty_count > 1 && !t->validation_count)
        status = mr_fail(MR_ERROR_USAGE,
                         "of %zu penalties one is chosen by the validation rows, and there are none: give "
                         "one penalty, or more rows",
                         t->params.penalty_count);
    return !status && t->params.scaling == MR_SCALING_STANDARD ? measure(t) : status;
}

void mr_training_end(mr_fitting *t) {
    mr_classifier_destroy(&t->made);
    mr_free(t->train);
    mr_free(t->validation);
    mr_free(t->weights);
    mr_free(t->mean);
    *t = (mr_fitting){0};
}
