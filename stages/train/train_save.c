/* Writes a classifier's folder (stages/model/classifier.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "millrace/version.h"
#include "stages/model/classifier.h"
#include "stages/model/signature.h"

enum { MOST_FILES = MR_TRAINED_LAYERS + 3, NAME = 16, OLD = 32 };

/* A folder that is being written. */
typedef struct saving {
    const mr_classifier *classifier;
    const mr_head_notes *notes;
    char folder[MR_HEAD_PATH]; /* the temporary one */
    char path[MR_HEAD_PATH + NAME];
    size_t count;
    char file[MOST_FILES][NAME], digest[MOST_FILES][MR_SHA256_TEXT];
} saving;

/* ---- the card ---------------------------------------------------------------------------------------------------- */

static void write_tried(yajl_gen json, const mr_classifier_card *card) {
    MR_JSON_ARRAY(json, "tried")
        for (size_t i = 0; i < card->tried_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_exact(json, "c", card->tried[i].c);
                mr_json_exact(json, "objective", card->tried[i].objective);
                mr_json_exact(json, "validation", card->tried[i].validation);
                mr_json_integer(json, "steps", card->tried[i].steps);
                mr_json_text(json, "end", card->tried[i].end);
            }
    mr_json_integer(json, "chosen", (int64_t)card->chosen);
}

static void write_shape(yajl_gen json, const mr_classifier *classifier) {
    const mr_classifier_card *card = &classifier->card;
    char seed[24];
    mr_json_text(json, "kind", mr_classifier_kind_name(card->kind));
    mr_json_text(json, "activation", mr_classifier_activation(&classifier->trained));
    mr_json_integer(json, "width", (int64_t)card->width);
    mr_json_integer(json, "classes", (int64_t)card->class_count);
    if (card->layer_count)
        MR_JSON_ARRAY(json, "units")
            for (size_t l = 0; l < card->layer_count; l++)
                mr_json_integer(json, NULL, (int64_t)card->units[l]);
    if (card->k) {
        mr_json_integer(json, "k", (int64_t)card->k);
        mr_json_integer(json, "vectors", (int64_t)card->vectors);
    }
    mr_json_bool(json, "doubles", card->doubles);
    mr_json_bool(json, "balanced", card->balanced);
    mr_json_bool(json, "standardised", card->standardised);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)card->seed);
    mr_json_text(json, "seed", seed); /* JSON's numbers hold 53 bits */
    MR_JSON_MAP(json, "rows") {
        mr_json_integer(json, "train", (int64_t)card->train_rows);
        mr_json_integer(json, "validation", (int64_t)card->validation_rows);
        mr_json_integer(json, "test", (int64_t)card->test_rows);
    }
    mr_json_integer(json, "constant_features", (int64_t)card->constant_features);
}

static void write_notes(yajl_gen json, const mr_head_notes *notes) {
    const char *const names[] = {"pipeline", "stages", "digest", "tensor", "split"};
    const char *const texts[] = {notes->pipeline, notes->stages, notes->digest, notes->tensor, notes->split};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (texts[i] && *texts[i])
            mr_json_text(json, names[i], texts[i]);
    mr_json_key(json, "figures");
    if (notes->figures && *notes->figures) /* a complete JSON value, written unchanged */
        yajl_gen_number(json, notes->figures, strlen(notes->figures));
    else
        yajl_gen_null(json);
}

static void write_members(yajl_gen json, const saving *s) {
    const mr_classifier_card *card = &s->classifier->card;
    mr_json_integer(json, "format", MR_HEAD_FORMAT);
    mr_json_text(json, "version", MILLRACE_VERSION);
    write_shape(json, s->classifier);
    write_tried(json, card);
    MR_JSON_ARRAY(json, "warnings")
        for (size_t i = 0; i < card->warning_count; i++)
            mr_json_text(json, NULL, card->warnings[i]);
    write_notes(json, s->notes);
    MR_JSON_MAP(json, "files")
        for (size_t i = 0; i < s->count; i++)
            mr_json_text(json, s->file[i], s->digest[i]);
}

static void set_path(saving *s, const char *file) {
    snprintf(s->path, sizeof s->path, "%s/%s", s->folder, file);
}

static int write_card(saving *s) {
    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL)
        write_members(json, s);
    yajl_gen_get_buf(json, &text, &bytes);
    set_path(s, "head.json");
    int status = mr_file_replace(s->path, text, bytes);
    if (!status && s->notes->sign_key)
        status = mr_signature_write(s->folder, text, bytes, s->notes->sign_key);
    yajl_gen_free(json);
    return status;
}

/* ---- the other files --------------------------------------------------------------------------------------------- */

static int add_file(saving *s, const char *name) {
    snprintf(s->file[s->count], NAME, "%s", name);
    return mr_sha256_file(s->path, s->digest[s->count++]);
}

static int write_labels(saving *s) {
    const mr_classifier_card *card = &s->classifier->card;
    size_t bytes = 0;
    for (size_t i = 0; i < card->class_count; i++)
        bytes += strlen(card->class_names[i]) + 1;
    char *text = mr_alloc(bytes + 1), *at = text;
    if (!text)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu labels", card->class_count);
    for (size_t i = 0; i < card->class_count; i++)
        at += sprintf(at, "%s\n", card->class_names[i]);
    set_path(s, "labels.txt");
    int status = mr_file_replace(s->path, text, bytes);
    mr_free(text);
    return status ? status : add_file(s, "labels.txt");
}

static int write_vector_classes(const mr_trained *trained, const char *path) {
    const size_t count = trained->layer[0].rows;
    float *classes = mr_alloc(count * sizeof *classes);
    if (!classes)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", count);
    for (size_t i = 0; i < count; i++)
        classes[i] = (float)trained->vector_classes[i];
    int status = mr_npy_write(path, &(mr_matrix_f32){count, 1, classes});
    mr_free(classes);
    return status;
}

static int write_arrays(saving *s) {
    const mr_trained *trained = &s->classifier->trained;
    char text[NAME];
    const char *name;
    int status = MR_OK;
    for (size_t i = 0; !status && (name = mr_classifier_file(trained, i, text)); i++) {
        set_path(s, name);
        status = i < trained->layers ? mr_npy_write(s->path, &trained->layer[i])
                                     : write_vector_classes(trained, s->path);
        if (!status)
            status = add_file(s, name);
    }
    return status;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static bool is_own(const char *name) {
    static const char *const names[] = {"head.json", "labels.txt", "weights.npy", "vectors.npy", "classes.npy",
                                        "head.sig", "head.pub", "model.onnx", "model.onnx.sig", "model.onnx.pub",
                                        "model.onnx.unchecked"};
    int layer = 0, end = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return sscanf(name, "layer-%2d.npy%n", &layer, &end) == 1 && end > 0 && !name[end];
}

/* Removes a folder with a classifier's files; other files stay, and then the folder too. */
static void remove_folder(const char *folder) {
    char path[MR_HEAD_PATH + NAME_MAX + 2];
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (is_own(entry->d_name))
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* Finds an entry that no classifier has; its name is "" if there is none. */
static int find_other(const char *folder, bool *card, bool *empty, char other[NAME_MAX + 1]) {
    char path[MR_HEAD_PATH + NAME_MAX + 2];
    struct stat facts;
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    *card = false;
    *empty = true;
    *other = '\0';
    if (!dir)
        return mr_file_fail("look into", folder);
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        *empty = false;
        *card |= strcmp(entry->d_name, "head.json") == 0;
        if (!*other && (!is_own(entry->d_name) || lstat(path, &facts) || S_ISDIR(facts.st_mode)))
            snprintf(other, NAME_MAX + 1, "%s", entry->d_name);
    }
    closedir(dir);
    return MR_OK;
}

/* Only a classifier's folder, or an empty one, may be replaced. */
static int check_target(const char *target, bool *there) {
    char other[NAME_MAX + 1];
    struct stat facts;
    bool card, empty;
    *there = !lstat(target, &facts);
    if (!*there)
        return errno == ENOENT ? MR_OK : mr_file_fail("look at", target);
    if (!S_ISDIR(facts.st_mode))
        return mr_fail(MR_ERROR_IO, "%s is there and is not a folder: remove it or take another name", target);
    int status = find_other(target, &card, &empty, other);
    if (status)
        return status;
    if (!card && !empty)
        return mr_fail(MR_ERROR_IO,
                       "%s is there, and is neither empty nor the folder of a classifier (it has no head.json): "
                       "take another name",
                       target);
    return *other ? mr_fail(MR_ERROR_IO,
                            "%s holds \"%s\", which is not of a classifier and would be lost when it is replaced: move "
                            "it elsewhere, or take another name",
                            target, other)
                  : MR_OK;
}

int mr_classifier_check_folder(const char *folder) {
    bool there;
    return check_target(folder, &there);
}

/* For file systems that cannot exchange names: moves an existing folder aside first, and back if that fails. */
static int put_aside(const saving *s, const char *target) {
    char aside[MR_HEAD_PATH + OLD];
    snprintf(aside, sizeof aside, "%s.old", s->folder);
    if (rename(target, aside))
        return mr_file_fail("replace", target);
    if (rename(s->folder, target)) {
        int status = mr_file_fail("make", target);
        rename(aside, target);
        return status;
    }
    remove_folder(aside);
    return MR_OK;
}

/* Moves the folder to the final name. An existing folder is exchanged, so that the name always has a classifier. */
static int put(const saving *s, const char *target) {
    bool there;
    int status = check_target(target, &there);
    if (status)
        return status;
    if (!there) {
        status = rename(s->folder, target) ? mr_file_fail("make", target) : MR_OK;
    } else if (!renameat2(AT_FDCWD, s->folder, AT_FDCWD, target, RENAME_EXCHANGE)) {
        remove_folder(s->folder);
    } else {
        status = errno == EINVAL || errno == ENOSYS ? put_aside(s, target) : mr_file_fail("replace", target);
    }
    return status ? status : mr_file_sync_folder(target);
}

static int check_figures(const char *figures) {
    char wrong[128] = "";
    yajl_val value = figures && *figures ? mr_json_parse(figures, wrong, sizeof wrong) : NULL;
    if (!value && figures && *figures)
        return mr_fail(MR_ERROR_USAGE, "the figures of a classifier are not JSON: %s", wrong);
    yajl_tree_free(value);
    return MR_OK;
}

static int name_temporary(saving *s, const char *target) {
    size_t length = strlen(target);
    while (length > 1 && target[length - 1] == '/')
        length--;
    if (!length || length + OLD >= sizeof s->folder)
        return mr_fail(MR_ERROR_USAGE, "a classifier cannot be saved as \"%.60s\"", target);
    snprintf(s->folder, sizeof s->folder, "%.*s.part.XXXXXX", (int)length, target);
    return MR_OK;
}

static int fill(saving *s) {
    if (!mkdtemp(s->folder))
        return mr_file_fail("make", s->folder);
    int status = chmod(s->folder, 0755) ? mr_file_fail("make", s->folder) : write_labels(s);
    if (!status)
        status = write_arrays(s);
    if (!status)
        status = write_card(s);
    return status ? status : mr_file_sync_folder(s->path);
}

static int save(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes) {
    saving s = {.classifier = classifier, .notes = notes};
    char target[MR_HEAD_PATH];
    bool there;
    int status = check_figures(notes->figures);
    if (!status)
        status = name_temporary(&s, folder);
    if (status)
        return status;
    snprintf(target, sizeof target, "%.*s", (int)(strlen(s.folder) - strlen(".part.XXXXXX")), s.folder);
    status = check_target(target, &there);
    if (status)
        return status;
    status = fill(&s);
    if (!status)
        status = put(&s, target);
    if (status) {
        int error = errno;
        remove_folder(s.folder);
        errno = error;
    }
    return status;
}

int mr_classifier_save_sized(const mr_classifier *classifier, const char *folder, const mr_head_notes *notes,
                             size_t notes_bytes) {
    MR_PLAIN_NUMBERS;
    mr_head_notes own = {0};
    int status = MR_OK;
    if (notes)
        status = mr_sized_copy(&own, sizeof own, notes, notes_bytes, MR_SIZE_THROUGH(mr_head_notes, figures),
                               "mr_head_notes");
    return status ? status : save(classifier, folder, &own);
}
