#include "tools/millrace/train/evaluation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "millrace/describe.h"
#include "tools/millrace/run/progress.h"
#include "tools/millrace/train/evaluation_page.h"
#include "tools/millrace/train/stop.h"

enum { MOST_CLASSES = 1000 }; /* top_k's limit */

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static double number_in(yajl_val object, const char *key) {
    yajl_val value = mr_json_member(object, key, yajl_t_number);
    return YAJL_IS_NUMBER(value) ? strtod(YAJL_GET_NUMBER(value), NULL) : NAN;
}

/* Reads all bits: a double has only 53. */
static bool read_seed(yajl_val object, uint64_t *seed) {
    yajl_val value = mr_json_member(object, "seed", yajl_t_number);
    const char *digits = YAJL_IS_NUMBER(value) ? YAJL_GET_NUMBER(value) : "";
    errno = 0;
    *seed = strtoull(digits, NULL, 10);
    return *digits && strspn(digits, "0123456789") == strlen(digits) && !errno;
}

/* Reads how the head's training rows were split. */
static int read_split(const char *text, mr_set_params *to) {
    yajl_val object = mr_json_parse(text, NULL, 0);
    const bool has_seed = read_seed(object, &to->seed);
    to->shares = (mr_split_shares){.validation = object ? number_in(object, "validation") : NAN,
                                   .test = object ? number_in(object, "test") : NAN};
    yajl_tree_free(object);
    if (!has_seed || !(to->shares.validation >= 0) || !(to->shares.test >= 0))
        return mr_fail(MR_ERROR_DATA, "the head does not say how its data were split: --part all takes all pictures");
    return MR_OK;
}

static int find_split(const mr_evaluation *e, mr_set_params *to) {
    const mr_view_stage *classify = e->extraction.classify;
    const char *head = mr_extraction_own_head(&e->extraction);
    mr_classifier *classifier;
    if (!head)
        return mr_fail(MR_ERROR_USAGE, "--part %s: %s has no head, which would say how its data were split",
                       e->params->part, classify->id);
    int status = mr_classifier_open(&classifier, head);
    if (!status)
        status = read_split(mr_classifier_card_of(classifier)->split, to);
    mr_classifier_destroy(&classifier);
    return status;
}

/* Whether judged pictures may include some that the head was trained on. */
static bool has_trained(const mr_evaluation *e) {
    return e->has_split && strcmp(e->params->part, "all") == 0;
}

static bool is_in_part(const mr_evaluation *e, size_t row) {
    return strcmp(e->params->part, "all") == 0 || e->set.row[row].part == mr_split_parse(e->params->part);
}

static bool is_for_validation(const mr_evaluation *e, size_t row) {
    return e->set.row[row].part == MR_SPLIT_VALIDATION;
}

static int select_rows(mr_evaluation *e) {
    e->wanted = calloc(e->set.count + 1, sizeof *e->wanted);
    if (!e->wanted)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    for (size_t i = 0; i < e->set.count; i++) {
        if (e->set.row[i].fate != MR_FATE_TAKEN || !(is_in_part(e, i) || is_for_validation(e, i)))
            continue;
        e->wanted[e->wanted_count++] = i;
        e->part_count += is_in_part(e, i);
    }
    return e->part_count
               ? MR_OK
               : mr_fail(MR_ERROR_NO_INPUT, "%s: no picture is in the part \"%s\"", e->params->data, e->params->part);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static bool is_class(const mr_class *one, size_t count) {
    return one->index >= 0 && (size_t)one->index < count;
}

/* Later answers have other classes than the first. */
static int refuse_many(const mr_evaluation *e) {
    return mr_fail(MR_ERROR_DATA, "%s has more than %d classes; so many are evaluated", e->extraction.classify->id,
                   MOST_CLASSES);
}

/* Remembers a picture without classes: the logits are not finite. */
static int note_none(mr_evaluation *e, const mr_taken *from) {
    if (!e->none++)
        mr_set_print_picture(&e->set, e->wanted[from->file], from->at_ns, e->first_none, sizeof e->first_none);
    return MR_OK;
}

/* Figures without these pictures would be too good. */
static int refuse_none(const mr_evaluation *e) {
    if (!e->none)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s gives no classes for %zu of %zu pictures, since the logits are not finite; the "
                                  "first is %s", e->extraction.classify->id, e->none, e->none + e->count,
                   e->first_none);
}

/* The pipeline's first answer lists all its classes. */
static int begin_scores(mr_evaluation *e, const mr_class *classes, size_t count) {
    e->names = calloc(count + 1, sizeof *e->names);
    if (!e->names)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    e->class_count = count;
    for (size_t i = 0; i < count; i++) {
        const mr_class *one = &classes[i];
        if (!is_class(one, count) || e->names[one->index])
            return refuse_many(e);
        e->names[one->index] = one->label ? strdup(one->label) : mr_print_new("%d", one->index);
        if (!e->names[one->index])
            return mr_fail(MR_ERROR_MEMORY, "no memory for the classes");
    }
    return MR_OK;
}

/* Makes room for one more picture. */
static int grow(mr_evaluation *e) {
    if (e->count < e->room)
        return MR_OK;
    const size_t room = e->room ? 2 * e->room : e->wanted_count;
    size_t *row = realloc(e->row, room * sizeof *row);
    e->row = row ? row : e->row;
    int64_t *at_ns = realloc(e->at_ns, room * sizeof *at_ns);
    e->at_ns = at_ns ? at_ns : e->at_ns;
    double *scores = realloc(e->scores, room * e->class_count * sizeof *scores);
    e->scores = scores ? scores : e->scores;
    if (!row || !at_ns || !scores)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    e->room = room;
    return MR_OK;
}

static bool is_behind(const mr_evaluation *e, size_t at, size_t row, int64_t at_ns) {
    return e->row[at] > row || (e->row[at] == row && e->at_ns[at] > at_ns);
}

/* Makes room where a picture belongs in the order. Pictures come almost in order; later ones move up. */
static size_t make_place(mr_evaluation *e, size_t row, int64_t at_ns) {
    const size_t classes = e->class_count;
    size_t at = e->count;
    while (at > 0 && is_behind(e, at - 1, row, at_ns))
        at--;
    memmove(e->row + at + 1, e->row + at, (e->count - at) * sizeof *e->row);
    memmove(e->at_ns + at + 1, e->at_ns + at, (e->count - at) * sizeof *e->at_ns);
    memmove(e->scores + (at + 1) * classes, e->scores + at * classes, (e->count - at) * classes * sizeof *e->scores);
    return at;
}

static int take(void *user, const mr_taken *from, const mr_class *classes, size_t count) {
    mr_evaluation *e = user;
    int status = MR_OK;
    if (!count)
        return note_none(e, from);
    if (!e->class_count)
        status = begin_scores(e, classes, count);
    if (!status && count != e->class_count)
        status = mr_fail(MR_ERROR_DATA, "%s gives %zu classes of one picture, and %zu of another",
                         e->extraction.classify->id, count, e->class_count);
    for (size_t i = 0; i < count && !status; i++)
        status = is_class(&classes[i], count) ? MR_OK : refuse_many(e);
    if (!status)
        status = grow(e);
    if (status)
        return status;
    size_t at = make_place(e, e->wanted[from->file], from->at_ns);
    double *to = e->scores + at * count;
    memset(to, 0, count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[classes[i].index] = (double)classes[i].score;
    e->row[at] = e->wanted[from->file];
    e->at_ns[at] = from->at_ns;
    e->count++;
    return MR_OK;
}

static int run(mr_evaluation *e) {
    const mr_listed_file **file = calloc(e->wanted_count + 1, sizeof *file);
    int status = file ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the files");
    for (size_t i = 0; i < e->wanted_count && !status; i++)
        file[i] = &e->set.list->files[e->wanted[i]];
    const mr_extraction_job job = {.count = e->wanted_count, .files = file, .take_classes = take, .user = e};
    if (!status)
        status = mr_extraction_run(&e->extraction, &job, &e->told);
    free(file);
    return status ? status : refuse_none(e);
}

/* ---- cached vectors -------------------------------------------------------------------------------------------- */

static int check_head(const mr_evaluation *e, const mr_classifier_card *card) {
    if (card->width != e->vectors->width)
        return mr_fail(MR_ERROR_DATA, "%s: its vectors have %zu numbers, and the head takes %zu", e->params->vectors,
                       e->vectors->width, card->width);
    if (strcmp(card->digest, e->extraction.digest) != 0)
        return mr_fail(MR_ERROR_DATA, "the head was trained after other stages than those of %s: %s",
                       e->extraction.plan->file, card->stages);
    return MR_OK;
}

/* Scores the head through the same function as the pipeline's answers. */
static int score_vectors(mr_evaluation *e, const mr_classifier *classifier) {
    const mr_classifier_card *card = mr_classifier_card_of(classifier);
    const size_t width = card->width;
    float *scores = calloc(card->class_count, sizeof *scores);
    mr_class *classes = calloc(card->class_count, sizeof *classes);
    int status = scores && classes ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    for (size_t i = 0; i < e->wanted_count && !status; i++) {
        status = mr_stop_asked() ? mr_fail(MR_ERROR_CANCELLED, "interrupted")
                                 : mr_classifier_scores(classifier, e->vectors->data + e->wanted[i] * width, 1, width,
                                                        scores);
        for (size_t j = 0; j < card->class_count && !status; j++)
            classes[j] = (mr_class){.index = (int32_t)j, .label = card->class_names[j], .score = scores[j]};
        if (!status)
            status = take(e, &(mr_taken){.file = i}, classes, isnan(scores[0]) ? 0 : card->class_count);
    }
    free(scores);
    free(classes);
    return status ? status : refuse_none(e);
}

static int ask_head(mr_evaluation *e) {
    const char *head = mr_extraction_own_head(&e->extraction);
    mr_classifier *classifier = NULL;
    if (!head)
        return mr_fail(MR_ERROR_USAGE, "--vectors: %s has no head, which would take them", e->extraction.classify->id);
    e->told = mr_extraction_trace(&e->extraction) != 0;
    int status = e->told ? MR_ERROR_CONFIG : mr_classifier_open(&classifier, head);
    if (!status)
        status = check_head(e, mr_classifier_card_of(classifier));
    if (!status)
        status = score_vectors(e, classifier);
    mr_classifier_destroy(&classifier);
    return status;
}

/* Rows without an answer are excluded. */
static int mark_damaged(mr_evaluation *e) {
    bool *came = calloc(e->set.count + 1, sizeof *came);
    if (!came)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    for (size_t i = 0; i < e->count; i++)
        came[e->row[i]] = true;
    for (size_t i = 0; i < e->wanted_count; i++)
        if (!came[e->wanted[i]])
            e->set.row[e->wanted[i]].fate = MR_FATE_DAMAGED;
    free(came);
    return MR_OK;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Finds the pipeline's number for each class in the data; -1: it has no class with that name. */
static int match_labels(const mr_evaluation *e, int32_t *number) {
    const mr_file_list *list = e->set.list;
    for (size_t i = 0; i < list->label_count; i++) {
        number[i] = -1;
        for (size_t j = 0; j < e->class_count && number[i] < 0; j++)
            if (strcmp(list->labels[i], e->names[j]) == 0)
                number[i] = (int32_t)j;
        if (number[i] < 0)
            return mr_fail(MR_ERROR_DATA, "%s: the pipeline knows no class \"%s\"; it knows \"%s\", \"%s\"%s",
                           e->params->data, list->labels[i], e->names[0], e->names[e->class_count > 1],
                           e->class_count > 2 ? ", ..." : "");
    }
    return MR_OK;
}

static int number_classes(mr_evaluation *e) {
    int32_t *number = calloc(e->set.list->label_count + 1, sizeof *number);
    e->truth = calloc(e->count + 1, sizeof *e->truth);
    int status =
        number && e->truth ? match_labels(e, number) : mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    for (size_t i = 0; i < e->count && !status; i++)
        e->truth[i] = number[e->set.list->files[e->row[i]].label];
    free(number);
    return status;
}

static int copy_validation(mr_evaluation *e) {
    const size_t classes = e->class_count;
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++)
        count += is_for_validation(e, e->row[i]);
    e->validation_scores = calloc(count * classes + 1, sizeof *e->validation_scores);
    e->validation_truth = calloc(count + 1, sizeof *e->validation_truth);
    if (!e->validation_scores || !e->validation_truth)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the validation part");
    for (size_t i = 0; i < e->count; i++) {
        if (!is_for_validation(e, e->row[i]))
            continue;
        memcpy(e->validation_scores + e->validation_count * classes, e->scores + i * classes, classes * sizeof(double));
        e->validation_truth[e->validation_count++] = e->truth[i];
    }
    return MR_OK;
}

/* Removes rows outside the part; the others move up. */
static void keep_part(mr_evaluation *e) {
    const size_t classes = e->class_count;
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (!is_in_part(e, e->row[i]))
            continue;
        e->row[kept] = e->row[i];
        e->at_ns[kept] = e->at_ns[i];
        e->truth[kept] = e->truth[i];
        memmove(e->scores + kept * classes, e->scores + i * classes, classes * sizeof(double));
        kept++;
    }
    e->count = kept;
}

static int judge_part(mr_evaluation *e) {
    e->judged.scored = (mr_scored){.rows = e->count, .classes = e->class_count, .scores = e->scores, .truth = e->truth};
    e->judged.group = e->group;
    e->judged.names = (const char *const *)e->names;
    e->judged.seed = e->params->seed;
    e->judged.stopped = mr_stop_asked;
    const mr_scored validation = {.rows = e->validation_count,
                                  .classes = e->class_count,
                                  .scores = e->validation_scores,
                                  .truth = e->validation_truth};
    int status = mr_judge(&e->judgement, &e->judged);
    return status ? status : mr_temper(&e->tempered, &validation, &e->judged.scored);
}

static int judge(mr_evaluation *e) {
    int status = mark_damaged(e);
    if (!status && e->count)
        status = number_classes(e);
    if (!status && e->count)
        status = copy_validation(e);
    if (!status)
        keep_part(e);
    if (!status && !e->count)
        status =
            mr_fail(MR_ERROR_NO_INPUT, "%s: the pipeline gave no classes for any of the pictures", e->params->data);
    if (!status)
        status = mr_set_number_groups(&e->set, e->row, e->count, &e->group, &e->judged.groups);
    return status ? status : judge_part(e);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static void tell(const mr_evaluation *e, FILE *stream) {
    mr_print(stream, "  data       %s: %zu pictures", e->params->data, e->count);
    if (strcmp(e->params->part, "all") != 0)
        mr_print(stream, ", the part for %s", strcmp(e->params->part, "train") == 0 ? "training" : e->params->part);
    mr_print(stream, "\n");
    mr_set_tell_left_out(&e->set, stream);
    if (e->extraction.forced)
        mr_print(stream, "  forced     %s\n", e->extraction.forced);
    mr_print(stream, "  figures    ");
    mr_judgement_tell(&e->judgement, stream);
    if (e->tempered.temperature > 0)
        mr_print(stream,
                 "  as sure    as right at temperature %.3f, fitted to %zu validation pictures: log loss %.4f, "
                 "calibration error %.4f\n",
                 e->tempered.temperature, e->tempered.rows, e->tempered.log_loss, e->tempered.calibration_error);
    if (has_trained(e))
        mr_print(stream, "  note       pictures that it was trained on say little: --part test leaves them out\n");
    if (e->extraction.plan->written_nodes && !e->vectors)
        mr_print(stream,
                 "  note       all stages ran in this process, and not on the pipeline's nodes: the figures are the "
                 "same\n");
    if (e->params->page)
        mr_print(stream, "  written    %s\n", e->params->page);
}

static void put_wrong(const mr_evaluation *e, const mr_thumbnail *pictures, yajl_gen json) {
    enum { MOST = 100 };
    MR_JSON_ARRAY(json, "surely_wrong")
        for (size_t i = 0; i < e->judgement.wrong_count && i < MOST; i++) {
            const mr_wrong_row *wrong = &e->judgement.wrong[i];
            MR_JSON_MAP(json, NULL) {
                mr_set_put_picture(&e->set, e->row[wrong->row], e->at_ns[wrong->row], "file", "at", json);
                mr_json_text(json, "label", e->names[e->truth[wrong->row]]);
                mr_json_text(json, "taken_for", e->names[wrong->first]);
                mr_json_exact(json, "score", wrong->score);
                if (pictures && i < MR_PAGE_PICTURES)
                    mr_json_text(json, "picture", mr_evaluation_page_picture(&pictures[i]));
            }
        }
}

/* Figures that only the page needs. */
static void put_for_page(const mr_evaluation *e, yajl_gen json) {
    mr_json_text(json, "version", mr_version());
    mr_json_bool(json, "has_trained", has_trained(e));
    mr_judgement_put_curves(&e->judgement, json);
}

int mr_evaluation_put(const mr_evaluation *e, const mr_thumbnail *pictures, FILE *stream) {
    yajl_gen json = mr_json_create(!pictures);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "pipeline", e->extraction.plan->name);
        mr_json_text(json, "data", e->params->data);
        mr_json_text(json, "part", e->params->part);
        mr_json_integer(json, "files", (int64_t)e->set.count);
        mr_set_put_left_out(&e->set, json);
        if (e->extraction.forced)
            mr_json_text(json, "forced", e->extraction.forced);
        mr_judgement_put(&e->judgement, true, json);
        mr_tempered_put(&e->tempered, json);
        put_wrong(e, pictures, json);
        if (pictures)
            put_for_page(e, json);
        mr_json_text(json, "page", e->params->page);
    }
    return mr_json_finish(json, stream);
}

static int write_rows(const mr_evaluation *e, FILE *stream) {
    int status = MR_OK;
    for (size_t i = 0; i < e->count && !status; i++) {
        yajl_gen json = mr_json_create(false);
        if (!json) {
            status = MR_ERROR_MEMORY;
            break;
        }
        MR_JSON_MAP(json, NULL) {
            mr_set_put_picture(&e->set, e->row[i], e->at_ns[i], "file", "at", json);
            mr_json_integer(json, "truth", e->truth[i]);
            MR_JSON_ARRAY(json, "scores")
                for (size_t j = 0; j < e->class_count; j++)
                    mr_json_exact(json, NULL, e->scores[i * e->class_count + j]);
        }
        status = mr_json_finish(json, stream);
    }
    return status;
}

/* Writes the scores as JSON, one row per line, for other tools. A file is complete or absent; a device or pipe is
 * written directly. */
static int write_scores(const mr_evaluation *e) {
    const char *path = e->params->scores;
    char *part = mr_print_new("%s.part", path);
    struct stat found;
    const bool aside = stat(path, &found) || S_ISREG(found.st_mode);
    FILE *stream = part ? fopen(aside ? part : path, "we") : NULL;
    if (!part)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    int status = stream ? write_rows(e, stream) : mr_file_fail("write", path);
    if (stream && status == MR_ERROR_IO)
        status = mr_file_fail("write", path);
    if (stream && fclose(stream) && !status)
        status = mr_file_fail("write", path);
    if (!status && aside && rename(part, path))
        status = mr_file_fail("write", path);
    if (status && stream && aside)
        unlink(part);
    free(part);
    return status;
}

/* ---- the whole verb ---------------------------------------------------------------------------------------------- */

static int work(mr_evaluation *e) {
    mr_set_params params = {.path = e->params->data, .lonely = true, .stopped = mr_stop_asked};
    int status = e->params->page ? mr_file_can_replace(e->params->page) : MR_OK;
    if (status)
        return status;
    status = find_split(e, &params);
    e->has_split = !status;
    /* If all pictures are scored, the split only decides which are for validation. */
    if (status && strcmp(e->params->part, "all") == 0) {
        params.shares = (mr_split_shares){0};
        status = MR_OK;
    }
    if (!status && e->params->vectors)
        status = mr_set_open_vectors(&e->vectors, e->params->vectors);
    params.vectors = e->vectors;
    if (!status)
        status = mr_set_open(&e->set, &params);
    if (!status)
        status = select_rows(e);
    if (!status)
        status = e->vectors ? ask_head(e) : run(e);
    if (!status)
        status = judge(e);
    if (!status && e->params->scores)
        status = write_scores(e);
    if (!status && e->params->page)
        status = mr_evaluation_page_write(e, e->params->page);
    return status;
}

static void fini(mr_evaluation *e) {
    mr_judgement_fini(&e->judgement);
    mr_extraction_fini(&e->extraction);
    mr_set_close(&e->set);
    mr_set_close_vectors(&e->vectors);
    for (size_t i = 0; i < e->class_count && e->names; i++)
        free(e->names[i]);
    void *const memory[] = {e->wanted, e->row, e->at_ns, e->names, e->scores,
                            e->truth,  e->group, e->validation_scores, e->validation_truth};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

/* Returns an exit code. */
static int finish(mr_evaluation *e, int status) {
    if (status == MR_ERROR_CANCELLED && mr_stop_asked())
        return mr_stop_tell("nothing was written");
    if (!status && e->params->json)
        status = mr_evaluation_put(e, NULL, stdout);
    else if (!status)
        tell(e, stdout);
    return !status ? 0 : e->told ? mr_status_exit_code(status) : mr_command_failed(status);
}

int mr_evaluate(const mr_evaluation_params *params) {
    mr_evaluation e = {.params = params};
    e.extraction = (mr_extraction){.path = params->pipeline,
                                   .overrides = params->overrides,
                                   .stage = params->stage,
                                   .show = mr_progress_suits_terminal()};
    int code = mr_extraction_prepare(&e.extraction);
    if (!code)
        code = finish(&e, work(&e));
    fini(&e);
    return code;
}
