#include "tools/millrace/train/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/print.h"
#include "millrace/log.h"
#include "millrace/signature.h"
#include "tools/millrace/objects/cutouts.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/stop.h"

enum { NOISY_LISTED = 100, STATE_ROOM = 4096 };

/* ---- before ------------------------------------------------------------------------------------------------------ */

/* Names a file next to the head, even if the head's name ends in slashes. */
static void name_beside(const char *head, const char *end, char path[STATE_ROOM]) {
    size_t length = strlen(head);
    while (length > 1 && head[length - 1] == '/')
        length--;
    snprintf(path, STATE_ROOM, "%.*s%s", (int)length, head, end);
}

/* If each folder is a class, the head would become a class the next time. */
static int check_apart(const char *data, const char *head) {
    char bare[STATE_ROOM];
    struct stat found;
    if (stat(data, &found) || !S_ISDIR(found.st_mode))
        return MR_OK;
    name_beside(head, "", bare);
    char *slash = strrchr(bare, '/');
    if (slash)
        slash[slash == bare] = 0;
    char *folder = realpath(slash ? bare : ".", NULL), *all = realpath(data, NULL);
    const bool inside = folder && all && strcmp(folder, all) == 0;
    free(folder);
    free(all);
    if (!inside)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "%s is in %s, where each folder is a class: name another folder", head, data);
}

/* Refuses at the start a head that could not be written at the end. */
static int check_head(const char *head) {
    char card[STATE_ROOM], bare[STATE_ROOM];
    struct stat found;
    name_beside(head, "", bare);
    snprintf(card, sizeof card, "%s/head.json", head);
    if (stat(head, &found))
        return errno == ENOENT ? mr_file_can_make(bare) : mr_file_fail("look at", head);
    if (!S_ISDIR(found.st_mode) || access(card, F_OK))
        return mr_fail(MR_ERROR_USAGE, "%s is there, and is not a head that could be replaced: name another folder",
                       head);
    return mr_classifier_check_folder(bare);
}

/* Locks the head and the fit's state file: only one training at a time may use them. */
static int lock_head(mr_training *t) {
    char bare[STATE_ROOM];
    name_beside(t->params->head, "", bare);
    return mr_file_lock(bare, &t->lock);
}

static void unlock_head(mr_training *t) {
    char bare[STATE_ROOM];
    name_beside(t->params->head, "", bare);
    mr_file_unlock(bare, t->lock);
    t->lock = -1;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const uint8_t part_of[MR_SPLITS] = {MR_ROW_NONE, MR_ROW_TRAIN, MR_ROW_VALIDATION, MR_ROW_TEST};

static bool is_finite(const float *x, size_t width) {
    for (size_t k = 0; k < width; k++)
        if (!isfinite(x[k]))
            return false;
    return true;
}

/* Excludes rows whose vector has a NaN or an infinity: nothing can be fitted to those. */
static int leave_out_infinite(mr_training *t) {
    const mr_features *features = &t->features;
    for (size_t i = 0; i < features->count; i++)
        if (!is_finite(features->data + i * features->width, features->width))
            t->set.row[features->row[i]].fate = MR_FATE_NOT_FINITE;
    if (features->count && !mr_set_count(&t->set, MR_FATE_TAKEN))
        return mr_fail(MR_ERROR_DATA, "%s: each vector has a NaN or an infinity in it: nothing can be trained on them",
                       t->params->data);
    return MR_OK;
}

static int make_rows(mr_training *t) {
    const mr_features *features = &t->features;
    t->classes = calloc(features->count + 1, sizeof *t->classes);
    t->groups = calloc(features->count + 1, sizeof *t->groups);
    t->parts = calloc(features->count + 1, sizeof *t->parts);
    if (!t->classes || !t->groups || !t->parts)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    int status = leave_out_infinite(t);
    for (size_t i = 0; i < features->count && !status; i++) {
        const mr_set_row *row = &t->set.row[features->row[i]];
        t->classes[i] = t->set.list->files[features->row[i]].label;
        t->groups[i] = row->group;
        t->parts[i] = row->fate == MR_FATE_TAKEN ? part_of[row->part] : MR_ROW_NONE;
    }
    t->rows = (mr_labelled_rows){.features = features->data,
                                 .rows = features->count,
                                 .width = features->width,
                                 .classes = t->classes,
                                 .groups = t->groups,
                                 .parts = t->parts,
                                 .class_count = t->set.list->label_count,
                                 .class_names = t->set.list->labels};
    return status;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

static int on_progress(void *user, const mr_fit_progress *progress) {
    const mr_training *t = user;
    if (t->shown && progress->penalties > 1)
        mr_print(stderr, "\r\033[Kfitting C %g (%zu of %zu), step %d, objective %.6g", progress->c,
                 progress->penalty + 1, progress->penalties, progress->step, progress->objective);
    else if (t->shown)
        mr_print(stderr, "\r\033[Kfitting, step %d, objective %.6g", progress->step, progress->objective);
    return mr_stop_asked();
}

static void on_warning(void *user, const char *text) {
    mr_log(MR_LOG_WARNING, "%s", text);
}

static int fit(mr_training *t) {
    char state[STATE_ROOM];
    mr_fit_params params = t->params->fit;
    const int64_t since_ns = mr_now_ns();
    name_beside(t->params->head, ".state", state);
    params.seed = t->params->seed;
    params.state = state;
    params.keep_state = true;
    params.progress = on_progress;
    params.warning = on_warning;
    params.user = t;
    int status = mr_classifier_fit(&t->classifier, &t->rows, &params);
    if (t->shown)
        fputs("\r\033[K", stderr);
    t->fit_seconds = (double)(mr_now_ns() - since_ns) / 1e9;
    return status;
}

static bool is_stopped(void *user) {
    return mr_stop_asked();
}

static int find_noise(mr_training *t) {
    const mr_noise_params params = {
        .seed = t->params->seed, .threads = t->params->fit.threads, .stopped = is_stopped};
    t->noisy = calloc(NOISY_LISTED, sizeof *t->noisy);
    if (!t->noisy)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    int status = mr_label_noise(&t->rows, &params, t->noisy, NOISY_LISTED, &t->noisy_count);
    t->noisy_listed = t->noisy_count < NOISY_LISTED ? t->noisy_count : NOISY_LISTED;
    return status;
}

/* ---- the test part ----------------------------------------------------------------------------------------------- */

/* Computes a part's scores, or logits, in double precision. */
static int score(const mr_training *t, const size_t *row, size_t count, bool logits, double *scores) {
    const size_t classes = t->rows.class_count, width = t->rows.width;
    float *one = calloc(classes + 1, sizeof *one);
    int status = one ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    for (size_t i = 0; i < count && !status; i++) {
        const float *features = t->rows.features + row[i] * width;
        status = logits ? mr_classifier_logits(t->classifier, features, 1, width, one)
                        : mr_classifier_scores(t->classifier, features, 1, width, one);
        for (size_t j = 0; j < classes && !status; j++)
            scores[i * classes + j] = (double)one[j];
    }
    free(one);
    return status;
}

/* Lists a part's rows. */
static size_t select_part(const mr_training *t, mr_row_part part, size_t *row, int32_t *truth) {
    size_t count = 0;
    for (size_t i = 0; i < t->rows.rows; i++)
        if (t->parts[i] == part) {
            truth[count] = t->classes[i];
            row[count++] = i;
        }
    return count;
}

static int judge_test(mr_training *t) {
    const size_t classes = t->rows.class_count;
    t->test_row = calloc(t->rows.rows + 1, sizeof *t->test_row);
    t->truth = calloc(t->rows.rows + 1, sizeof *t->truth);
    if (!t->test_row || !t->truth)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the test part");
    size_t count = select_part(t, MR_ROW_TEST, t->test_row, t->truth);
    if (!count)
        return MR_OK;
    t->scores = calloc(count * classes, sizeof *t->scores);
    int status = t->scores ? score(t, t->test_row, count, false, t->scores)
                           : mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    size_t *row = calloc(count + 1, sizeof *row);
    for (size_t i = 0; row && i < count; i++)
        row[i] = t->features.row[t->test_row[i]];
    if (!status)
        status = row ? mr_set_number_groups(&t->set, row, count, &t->test_group, &t->judged.groups)
                     : mr_fail(MR_ERROR_MEMORY, "no memory for the groups");
    free(row);
    t->judged.scored = (mr_scored){.rows = count, .classes = classes, .scores = t->scores, .truth = t->truth};
    t->judged.group = t->test_group;
    t->judged.names = t->rows.class_names;
    t->judged.seed = t->params->seed;
    t->judged.stopped = mr_stop_asked;
    if (!status)
        status = mr_judge(&t->judgement, &t->judged);
    t->has_test = !status;
    return status;
}

/* Fits the divisor for logits that makes scores as confident as they are right. */
static int fit_temperature(mr_training *t) {
    const mr_classifier_kind kind = t->params->fit.kind;
    if (kind != MR_CLASSIFIER_SOFTMAX && kind != MR_CLASSIFIER_PERCEPTRON)
        return MR_OK;
    size_t *row = calloc(t->rows.rows + 1, sizeof *row);
    int32_t *truth = calloc(t->rows.rows + 1, sizeof *truth);
    size_t count = row && truth ? select_part(t, MR_ROW_VALIDATION, row, truth) : 0;
    double *logits = calloc(count * t->rows.class_count + 1, sizeof *logits);
    int status = row && truth && logits ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the validation part");
    if (!status && count)
        status = score(t, row, count, true, logits);
    const mr_scored scored = {.rows = count, .classes = t->rows.class_count, .scores = logits, .truth = truth};
    if (!status && count)
        t->temperature = mr_temperature(&scored);
    free(row);
    free(truth);
    free(logits);
    return status;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static int save_head(const mr_training *t) {
    char *figures = t->has_test ? mr_training_figures(t) : NULL, *split = mr_training_split(t);
    const mr_head_notes notes = {.pipeline = t->extraction.plan->name,
                                 .stages = t->extraction.lineage,
                                 .digest = t->extraction.digest,
                                 .tensor = t->extraction.tensor,
                                 .split = split,
                                 .figures = figures,
                                 .sign_key = t->params->sign_key};
    int status = split && (figures || !t->has_test) ? mr_classifier_save(t->classifier, t->params->head, &notes)
                                                    : mr_fail(MR_ERROR_MEMORY, "no memory for the card");
    free(figures);
    free(split);
    return status;
}

/* The fit's state file stays until the head has the final name. */
static int save(const mr_training *t) {
    char state[STATE_ROOM], why[1024];
    int status = save_head(t);
    name_beside(t->params->head, ".state", state);
    if (!status) {
        unlink(state);
        return MR_OK;
    }
    snprintf(why, sizeof why, "%s", mr_message());
    return access(state, F_OK) ? status
                               : mr_fail(status, "%s; the fit is kept in %s: the same command with --resume saves it",
                                         why, state);
}

/* ---- the head for others ----------------------------------------------------------------------------------------- */

/* Lists files to compare with: the test part's, or all if there is none. */
static int list_files(const mr_training *t, const mr_listed_file ***files, size_t *count) {
    *count = 0;
    *files = calloc(t->rows.rows + 1, sizeof **files);
    if (!*files)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the files");
    for (size_t i = 0; i < t->rows.rows; i++)
        if ((!t->has_test || t->parts[i] == MR_ROW_TEST) && (!i || t->features.row[i] != t->features.row[i - 1]))
            (*files)[(*count)++] = &t->set.list->files[t->features.row[i]];
    return MR_OK;
}

/* Exports the saved head, which has its card. */
static int export_head(mr_training *t, const char *head) {
    const mr_listed_file **files = NULL;
    mr_classifier *saved;
    size_t count = 0;
    int status = mr_classifier_open(&saved, head);
    if (!status && !t->vectors)
        status = list_files(t, &files, &count);
    if (!status) {
        snprintf(t->model, sizeof t->model, "%s/model.onnx", t->params->head);
        t->extraction.head = head;
        t->exporting = (mr_exporting){.output = t->model, .sign_key = t->params->sign_key, .classifier = saved,
                                      .extraction = t->vectors ? NULL : &t->extraction,
                                      .file_count = count, .files = files};
        status = mr_export(&t->exporting, &t->told);
        t->extraction.head = NULL;
        t->exporting.files = NULL;
        t->exporting.classifier = NULL;
    }
    free(files);
    mr_classifier_destroy(&saved);
    return status;
}

static int export(mr_training *t) {
    char *head = realpath(t->params->head, NULL), why[512];
    int status = head ? export_head(t, head) : mr_file_fail("look at", t->params->head);
    free(head);
    snprintf(why, sizeof why, "%s", mr_message());
    return status ? mr_fail(status, "the head is in %s, but not model.onnx: %s", t->params->head, why) : MR_OK;
}

/* ---- the whole verb ---------------------------------------------------------------------------------------------- */

/* Vectors from a file are assumed to be the pipeline's, but must not contradict its known properties. */
static int open_vectors(mr_training *t) {
    const mr_extraction *extraction = &t->extraction;
    int status = mr_set_open_vectors(&t->vectors, t->params->vectors);
    if (!status && extraction->length && extraction->length != t->vectors->width)
        status = mr_fail(MR_ERROR_DATA, "%s: its vectors have %zu numbers, and those of %s in %s have %zu",
                         t->params->vectors, t->vectors->width, extraction->stages, extraction->plan->file,
                         extraction->length);
    return status;
}

/* Only one training at a time may use the pictures: each cuts them anew. */
static int lock_objects(mr_training *t) {
    static const struct timespec pause = {.tv_nsec = 50000000};
    int status;
    for (bool told = false; (status = mr_file_lock(t->cut_out, &t->cut_out_lock)) && errno == EWOULDBLOCK;
         told = true) {
        if (!told)
            mr_log(MR_LOG_WARNING, "%s: another training uses the pictures of the same objects: waiting until it ends",
                   t->cut_out);
        if (mr_stop_asked())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        nanosleep(&pause, NULL);
    }
    return status;
}

/* Labelled objects become pictures beside the vectors, in a folder for each data set. */
static int cut_objects(mr_training *t) {
    char *real = realpath(t->params->data, NULL);
    if (!real)
        return mr_fail(mr_file_status(errno), "cannot read %s: %s", t->params->data, strerror(errno));
    const char *pictures = t->params->pictures ? t->params->pictures : "";
    const mr_content_key none = {0}, file = mr_content_key_join(&none, real, strlen(real)),
                         key = *pictures ? mr_content_key_join(&file, pictures, strlen(pictures)) : file;
    free(real);
    if ((size_t)snprintf(t->cut_out, sizeof t->cut_out, "%s/objects-%016" PRIx64, t->folder, key.low) >=
        sizeof t->cut_out)
        return mr_fail(MR_ERROR_IO, "the name of the folder in %s is too long", t->folder);
    const mr_cutouts_params params = {.data = t->params->data, .pictures = t->params->pictures,
                                      .folder = t->cut_out, .stopped = mr_stop_asked};
    int status = lock_objects(t);
    if (!status)
        status = mr_file_make_folder(t->cut_out);
    return status ? status : mr_cutouts_make(&params, t->objects, sizeof t->objects, &t->told);
}

static int open_set(mr_training *t) {
    const bool objects = !t->params->vectors && mr_has_labelled_objects(t->params->data);
    int status = t->params->vectors ? open_vectors(t) : objects ? cut_objects(t) : MR_OK;
    if (status)
        return status;
    const mr_set_params params = {
        .path = objects ? t->objects : t->params->data, .vectors = t->vectors, .seed = t->params->seed,
        .shares = t->params->shares, .stopped = mr_stop_asked};
    return mr_set_open(&t->set, &params);
}

static int work(mr_training *t) {
    const mr_training_params *params = t->params;
    int status = check_head(params->head);
    if (!status)
        status = check_apart(params->data, params->head);
    if (!status)
        status = lock_head(t);
    if (!status && params->sign_key)
        status = mr_signing_key_check(params->sign_key);
    if (!status)
        status = open_set(t);
    if (!status)
        status = t->vectors ? mr_features_take(&t->features, &t->set, t->folder)
                            : mr_features_make(&t->features, &t->set, &t->extraction, t->folder, &t->told);
    mr_extraction_release(&t->extraction, status);
    if (!status && !params->skip_near && !t->vectors)
        status = mr_near_find(&t->near, &t->set, &t->features, &t->extraction, t->folder, params->fit.threads,
                              &t->told);
    if (!status)
        status = make_rows(t);
    if (!status)
        status = fit(t);
    if (!status)
        status = find_noise(t);
    if (!status)
        status = fit_temperature(t);
    if (!status)
        status = judge_test(t);
    if (!status && mr_stop_asked())
        status = mr_fail(MR_ERROR_CANCELLED, "interrupted");
    if (!status)
        status = save(t);
    return status || !params->onnx ? status : export(t);
}

static void fini(mr_training *t) {
    unlock_head(t);
    mr_file_unlock(t->cut_out, t->cut_out_lock);
    mr_judgement_fini(&t->judgement);
    mr_classifier_destroy(&t->classifier);
    mr_near_fini(&t->near);
    mr_features_fini(&t->features);
    mr_extraction_fini(&t->extraction);
    mr_set_close(&t->set);
    mr_set_close_vectors(&t->vectors);
    void *const memory[] = {t->classes, t->groups, t->parts, t->noisy, t->scores, t->truth, t->test_group, t->test_row};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

/* Returns an exit code. */
static int finish(mr_training *t, int status) {
    if (status == MR_ERROR_CANCELLED && mr_stop_asked())
        return mr_stop_tell("nothing was written; the same command with --resume continues");
    if (status) {
        const int code = t->told ? mr_status_exit_code(status) : mr_command_failed(status);
        if (status == MR_ERROR_DATA && t->set.row) /* a class may lack pictures for that reason */
            mr_set_tell_left_out(&t->set, stderr);
        if (status == MR_ERROR_DATA && t->parts)
            mr_training_tell_untrained(t, stderr);
        return code;
    }
    if (!t->params->json) {
        mr_training_tell(t, stdout);
        return 0;
    }
    status = mr_training_put(t, stdout);
    return status ? mr_command_failed(status) : 0;
}

/* A node runs like `run`, which handles signals on a separate thread. */
static int train(mr_training *t) {
    if (t->extraction.role == MR_EXTRACTION_NODE)
        return mr_extraction_serve(&t->extraction);
    mr_stop_begin();
    int code = mr_extraction_trace(&t->extraction);
    return code ? code : finish(t, work(t));
}

int mr_train(const mr_training_params *params) {
    mr_training t = {.params = params, .lock = -1, .cut_out_lock = -1, .shown = mr_progress_suits_terminal()};
    t.extraction = (mr_extraction){.path = params->pipeline,
                                   .overrides = params->overrides,
                                   .stage = params->stage,
                                   .show = t.shown,
                                   .spread = params->spread};
    int status = mr_launch_find(&params->spread->run.launch);
    if (!status)
        status = mr_file_cache_folder("features", params->cache, 0777, t.folder, sizeof t.folder - 128);
    params->spread->cache = t.folder;
    int code = status ? mr_command_failed(status) : mr_extraction_prepare(&t.extraction);
    if (!code)
        code = train(&t);
    mr_launch_fini(&params->spread->run.launch);
    fini(&t);
    return code;
}
