/* Reads a classifier's folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "stages/model/classifier.h"
#include "stages/model/labels.h"
#include "stages/model/signature.h"

enum { MOST_CARD_BYTES = 16 << 20, MOST_CLASSES = 1 << 20 };

/* A folder that is being opened. */
typedef struct opening {
    const char *folder;
    const char *key; /* public key file that must match its signature; NULL: none needed */
    char path[MR_HEAD_PATH]; /* the file being read */
    yajl_val card;
    mr_classifier *made;
} opening;

static int refuse_card(const opening *o, const char *why) {
    return mr_fail(MR_ERROR_DATA, "%s/head.json is not the card of a classifier: %s", o->folder, why);
}

static int set_path(opening *o, const char *file) {
    if ((size_t)snprintf(o->path, sizeof o->path, "%s/%s", o->folder, file) < sizeof o->path)
        return MR_OK;
    return mr_fail(MR_ERROR_NO_INPUT, "the path of %s is too long", file);
}

/* ---- members --------------------------------------------------------------------------------------------------- */

/* An integer from 0 to `most`; `most` + 1 if missing or invalid. */
static size_t count_of(yajl_val of, const char *name, size_t most) {
    yajl_val value = mr_json_member(of, name, yajl_t_number);
    bool fits = value && YAJL_IS_INTEGER(value) && YAJL_GET_INTEGER(value) >= 0 &&
                (uint64_t)YAJL_GET_INTEGER(value) <= most;
    return fits ? (size_t)YAJL_GET_INTEGER(value) : most + 1;
}

/* A number that is only displayed; 0 if missing. */
static uint64_t shown_of(yajl_val of, const char *name) {
    yajl_val value = mr_json_member(of, name, yajl_t_number);
    return value && YAJL_IS_INTEGER(value) && YAJL_GET_INTEGER(value) > 0 ? (uint64_t)YAJL_GET_INTEGER(value) : 0;
}

static double number_of(yajl_val of, const char *name) {
    yajl_val value = mr_json_member(of, name, yajl_t_number);
    return value && YAJL_IS_DOUBLE(value) ? YAJL_GET_DOUBLE(value)
           : value && YAJL_IS_INTEGER(value) ? (double)YAJL_GET_INTEGER(value) : (double)NAN;
}

static const char *text_of(opening *o, yajl_val of, const char *name) {
    yajl_val value = mr_json_member(of, name, yajl_t_string);
    const char *text = YAJL_GET_STRING(value);
    return mr_arena_text(&o->made->arena, text ? text : "", text ? strlen(text) : 0);
}

static bool flag_of(yajl_val of, const char *name) {
    return mr_json_member(of, name, yajl_t_true) != NULL;
}

/* Converts a value back to text for the program to parse. */
static void write_value(yajl_gen json, yajl_val value) {
    if (YAJL_IS_OBJECT(value)) {
        MR_JSON_MAP(json, NULL)
            for (size_t i = 0; i < value->u.object.len; i++) {
                yajl_gen_string(json, (const unsigned char *)value->u.object.keys[i], strlen(value->u.object.keys[i]));
                write_value(json, value->u.object.values[i]);
            }
    } else if (YAJL_IS_ARRAY(value)) {
        MR_JSON_ARRAY(json, NULL)
            for (size_t i = 0; i < value->u.array.len; i++)
                write_value(json, value->u.array.values[i]);
    } else if (YAJL_IS_NUMBER(value))
        yajl_gen_number(json, value->u.number.r, strlen(value->u.number.r));
    else if (YAJL_IS_STRING(value))
        yajl_gen_string(json, (const unsigned char *)value->u.string, strlen(value->u.string));
    else if (YAJL_IS_NULL(value))
        yajl_gen_null(json);
    else
        yajl_gen_bool(json, YAJL_IS_TRUE(value));
}

static const char *json_of(opening *o, const char *name) {
    yajl_val value = mr_json_member(o->card, name, yajl_t_any);
    yajl_gen json = value && !YAJL_IS_NULL(value) ? yajl_gen_alloc(NULL) : NULL;
    const unsigned char *text = (const unsigned char *)"";
    size_t bytes = 0;
    if (json) {
        write_value(json, value);
        yajl_gen_get_buf(json, &text, &bytes);
    }
    const char *kept = mr_arena_text(&o->made->arena, (const char *)text, bytes);
    if (json)
        yajl_gen_free(json);
    return kept;
}

/* ---- the card -------------------------------------------------------------------------------------------------- */

static int read_tried(opening *o) {
    mr_classifier_card *card = &o->made->card;
    yajl_val all = mr_json_member(o->card, "tried", yajl_t_array);
    size_t count = all ? all->u.array.len : 0;
    mr_fit_tried *tried = mr_arena_array(&o->made->arena, count + 1, sizeof *tried);
    for (size_t i = 0; tried && i < count; i++) {
        yajl_val one = all->u.array.values[i];
        uint64_t steps = shown_of(one, "steps");
        tried[i] = (mr_fit_tried){.c = number_of(one, "c"), .objective = number_of(one, "objective"),
                                  .validation = number_of(one, "validation"),
                                  .steps = steps < INT32_MAX ? (int)steps : INT32_MAX,
                                  .end = text_of(o, one, "end")};
        if (!tried[i].end)
            return MR_ERROR_MEMORY;
    }
    card->tried = tried;
    card->tried_count = count;
    card->chosen = count_of(o->card, "chosen", count);
    return tried ? MR_OK : MR_ERROR_MEMORY;
}

static int read_warnings(opening *o) {
    mr_classifier_card *card = &o->made->card;
    yajl_val all = mr_json_member(o->card, "warnings", yajl_t_array);
    size_t count = all ? all->u.array.len : 0;
    const char **warnings = mr_arena_array(&o->made->arena, count + 1, sizeof *warnings);
    for (size_t i = 0; warnings && i < count; i++) {
        const char *text = YAJL_GET_STRING(all->u.array.values[i]);
        if (!(warnings[i] = mr_arena_text(&o->made->arena, text ? text : "", text ? strlen(text) : 0)))
            return MR_ERROR_MEMORY;
    }
    card->warnings = warnings;
    card->warning_count = count;
    return warnings ? MR_OK : MR_ERROR_MEMORY;
}

static int read_notes(opening *o) {
    mr_classifier_card *card = &o->made->card;
    yajl_val rows = mr_json_member(o->card, "rows", yajl_t_object);
    card->doubles = flag_of(o->card, "doubles");
    card->balanced = flag_of(o->card, "balanced");
    card->standardised = flag_of(o->card, "standardised");
    const char *seed = YAJL_GET_STRING(mr_json_member(o->card, "seed", yajl_t_string));
    unsigned long long number = 0;
    if (seed && sscanf(seed, "%llu", &number) == 1)
        card->seed = number;
    card->train_rows = shown_of(rows, "train");
    card->validation_rows = shown_of(rows, "validation");
    card->test_rows = shown_of(rows, "test");
    card->constant_features = shown_of(o->card, "constant_features");
    const char **const texts[] = {&card->version, &card->pipeline, &card->stages, &card->digest, &card->tensor,
                                  &card->split};
    static const char *const names[] = {"version", "pipeline", "stages", "digest", "tensor", "split"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*texts[i] = text_of(o, o->card, names[i])))
            return MR_ERROR_MEMORY;
    return (card->figures = json_of(o, "figures")) ? MR_OK : MR_ERROR_MEMORY;
}

/* Reads the members that must match the files. */
static int read_shape(opening *o) {
    static const mr_activation activations[] = {MR_ACTIVATION_SOFTMAX, MR_ACTIVATION_SIGMOID, MR_ACTIVATION_SOFTMAX,
                                                MR_ACTIVATION_SOFTMAX, MR_ACTIVATION_NONE, MR_ACTIVATION_SOFTMAX};
    mr_trained *t = &o->made->trained;
    mr_classifier_card *card = &o->made->card;
    yajl_val units = mr_json_member(o->card, "units", yajl_t_array);
    const char *kind = YAJL_GET_STRING(mr_json_member(o->card, "kind", yajl_t_string));
    if (!kind || mr_classifier_kind_find(kind, &t->kind))
        return refuse_card(o, kind ? mr_message() : "it names no kind");
    t->activation = activations[t->kind];
    t->width = count_of(o->card, "width", INT32_MAX - 2);
    t->classes = count_of(o->card, "classes", MOST_CLASSES);
    t->k = t->kind == MR_CLASSIFIER_NEIGHBORS ? count_of(o->card, "k", INT32_MAX - 1) : 0;
    t->layers = t->kind == MR_CLASSIFIER_PERCEPTRON ? (units ? units->u.array.len : 0) : 1;
    if (!t->width || t->width > INT32_MAX - 2 || t->classes < 2 || t->classes > MOST_CLASSES)
        return refuse_card(o, "\"width\" and \"classes\" must be numbers of features and classes");
    if (!t->layers || t->layers > MR_TRAINED_LAYERS ||
        (t->kind == MR_CLASSIFIER_NEIGHBORS && (!t->k || t->k > INT32_MAX - 1)))
        return refuse_card(o,
                           "\"units\" of a perceptron must list 1 to 8 layers, and \"k\" of neighbors be at least 1");
    card->kind = t->kind;
    card->width = t->width;
    card->class_count = t->classes;
    card->k = t->k;
    return MR_OK;
}

static int parse_card(opening *o, const char *text) {
    char wrong[256] = "";
    o->card = mr_json_parse(text, wrong, sizeof wrong);
    if (!o->card)
        return refuse_card(o, *wrong ? wrong : "it is empty");
    size_t format = count_of(o->card, "format", 1 << 20);
    if (format > 1 << 20)
        return refuse_card(o, "it has no \"format\"");
    if (format != MR_HEAD_FORMAT)
        return mr_fail(MR_ERROR_DATA, "%s/head.json is of format %zu, and this millrace reads %d: use the version that "
                                      "wrote it, or train anew", o->folder, format, MR_HEAD_FORMAT);
    int status = read_shape(o);
    if (!status)
        status = read_tried(o);
    if (!status)
        status = read_warnings(o);
    return status ? status : read_notes(o);
}

static int read_card(opening *o) {
    mr_file_bytes file;
    int status = set_path(o, "head.json");
    if (!status)
        status = mr_file_read("the card of a classifier", o->path, MOST_CARD_BYTES, 0, &file);
    if (status)
        return status;
    if (o->key)
        status = mr_signature_check(o->folder, file.data, file.bytes, o->key);
    if (!status)
        status = parse_card(o, (const char *)file.data);
    mr_free(file.data);
    return status;
}

/* ---- the other files -------------------------------------------------------------------------------------------- */

/* Compares the file at o->path, whose digest is `found`, with the card. */
static int compare_digest(const opening *o, const char *name, const char *found) {
    yajl_val files = mr_json_member(o->card, "files", yajl_t_object);
    const char *said = YAJL_GET_STRING(mr_json_member(files, name, yajl_t_string));
    if (!said)
        return mr_fail(MR_ERROR_DATA, "%s/head.json has no digest of %s", o->folder, name);
    if (strcmp(found, said) != 0)
        return mr_fail(MR_ERROR_DATA,
                       "%s is not the file that head.json was written with: its SHA-256 is %.16s..., and "
                       "%.16s... is expected",
                       o->path, found, said);
    return MR_OK;
}

/* Call after reading a file once, so that the used data has the digest `found`. For a damaged file, reports that it is
 * not the card's file; if it is, reports what is wrong with it. */
static int check_read(const opening *o, const char *name, int status, const char *found) {
    char damage[512], whole[MR_SHA256_TEXT];
    if (status != MR_ERROR_DATA)
        return status ? status : compare_digest(o, name, found);
    snprintf(damage, sizeof damage, "%s", mr_message());
    status = mr_sha256_file(o->path, whole);
    if (!status)
        status = compare_digest(o, name, whole);
    return status == MR_ERROR_DATA ? status : mr_fail(MR_ERROR_DATA, "%s", damage);
}

/* Sets o->path. */
static int read_array(opening *o, const char *name, mr_matrix_f32 *matrix) {
    char found[MR_SHA256_TEXT];
    int status = set_path(o, name);
    return status ? status : check_read(o, name, mr_npy_read_digest(o->path, matrix, found), found);
}

static int read_labels(opening *o) {
    mr_labels labels = {0};
    mr_classifier_card *card = &o->made->card;
    char found[MR_SHA256_TEXT];
    int status = set_path(o, "labels.txt");
    if (!status)
        status = check_read(o, "labels.txt", mr_labels_read_digest(o->path, &labels, found), found);
    if (!status && labels.count != card->class_count)
        status = mr_fail(MR_ERROR_DATA, "%s has %zu labels, and head.json says %zu classes", o->path, labels.count,
                         card->class_count);
    const char **names = status ? NULL : mr_arena_array(&o->made->arena, labels.count, sizeof *names);
    for (size_t i = 0; names && i < labels.count; i++)
        if (!(names[i] = mr_arena_text(&o->made->arena, labels.item[i], strlen(labels.item[i]))))
            names = NULL;
    card->class_names = names;
    mr_labels_free(&labels);
    return status ? status : names ? MR_OK : MR_ERROR_MEMORY;
}

static int check_shape(const opening *o, const mr_matrix_f32 *matrix, size_t rows, size_t columns) {
    if ((!rows || matrix->rows == rows) && matrix->columns == columns)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s is %zux%zu, and head.json says %zux%zu", o->path, matrix->rows, matrix->columns,
                   rows ? rows : matrix->rows, columns);
}

static int read_layers(opening *o) {
    mr_trained *t = &o->made->trained;
    yajl_val list = mr_json_member(o->card, "units", yajl_t_array);
    char name[16];
    size_t *units = mr_arena_array(&o->made->arena, t->layers, sizeof *units), inputs = t->width;
    int status = units ? MR_OK : MR_ERROR_MEMORY;
    for (size_t l = 0; l < t->layers && !status; l++) {
        yajl_val said = t->kind == MR_CLASSIFIER_PERCEPTRON ? list->u.array.values[l] : NULL;
        bool last = l + 1 == t->layers;
        units[l] = last ? t->classes
                        : YAJL_IS_INTEGER(said) && YAJL_GET_INTEGER(said) > 0 ? (size_t)YAJL_GET_INTEGER(said) : 0;
        if (!units[l])
            return refuse_card(o, "\"units\" must be numbers of units");
        status = read_array(o, mr_classifier_file(t, l, name), &t->layer[l]);
        if (!status)
            status = check_shape(o, &t->layer[l], t->kind == MR_CLASSIFIER_NEIGHBORS ? 0 : units[l], inputs + 1);
        inputs = units[l];
    }
    o->made->card.layer_count = t->kind == MR_CLASSIFIER_PERCEPTRON ? t->layers : 0;
    o->made->card.units = units;
    return status;
}

static int read_vector_classes(opening *o) {
    mr_trained *t = &o->made->trained;
    mr_matrix_f32 classes = {0};
    const size_t vectors = t->layer[0].rows;
    int status = read_array(o, "classes.npy", &classes);
    if (!status)
        status = check_shape(o, &classes, vectors, 1);
    if (!status && t->k > vectors)
        status = refuse_card(o, "\"k\" is more than there are vectors");
    if (!status && !(t->vector_classes = mr_calloc(vectors, sizeof *t->vector_classes)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", vectors);
    for (size_t i = 0; i < vectors && !status; i++) {
        float value = classes.data[i];
        if (value >= 0.0f && value < (float)t->classes && value == floorf(value))
            t->vector_classes[i] = (int32_t)value;
        else
            status = mr_fail(MR_ERROR_DATA, "%s: row %zu is %g, which is not the number of a class", o->path, i,
                             (double)value);
    }
    mr_npy_free(&classes);
    o->made->card.vectors = vectors;
    return status;
}

int mr_classifier_open(mr_classifier **classifier, const char *folder) {
    return mr_classifier_open_signed(classifier, folder, NULL);
}

int mr_classifier_open_signed(mr_classifier **classifier, const char *folder, const char *public_key) {
    MR_PLAIN_NUMBERS;
    opening o = {.folder = folder, .key = public_key, .made = mr_calloc(1, sizeof *o.made)};
    *classifier = NULL;
    if (!o.made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a classifier");
    int status = read_card(&o);
    if (!status)
        status = read_labels(&o);
    if (!status)
        status = read_layers(&o);
    if (!status && o.made->trained.kind == MR_CLASSIFIER_NEIGHBORS)
        status = read_vector_classes(&o);
    yajl_tree_free(o.card);
    if (status)
        mr_classifier_destroy(&o.made);
    *classifier = o.made;
    return status;
}
