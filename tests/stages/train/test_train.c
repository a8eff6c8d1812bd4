/* Classifiers: fitted, resumed, kept in a folder, opened again, used by `classify`; and what is refused or warned of.
 * The figures beside scikit-learn's are in tests/reference/train.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/draw.h"
#include "millrace/classifier.h"
#include "millrace/status.h"
#include "tests/support/models.h"

enum { ROWS = 700, WIDTH = 12, CLASSES = 4, KINDS = 6, HEARD = 4096 };

static const char *const names[] = {"ant", "bee", "cat", "dog"};
static float features[ROWS * WIDTH];
static int32_t classes[ROWS];
static uint64_t groups[ROWS];
static uint8_t parts[ROWS];
static char heard[HEARD]; /* warnings, one behind the other */

/* Four blobs that overlap a little, with features of very different size, the last of which is constant. */
static void draw_rows(void) {
    uint64_t seed = 11;
    double centre[CLASSES][WIDTH];
    for (size_t i = 0; i < CLASSES * WIDTH; i++)
        centre[i / WIDTH][i % WIDTH] = 1.2 * mr_draw_normal(&seed);
    for (size_t row = 0; row < ROWS; row++) {
        classes[row] = (int32_t)mr_draw_below(&seed, CLASSES);
        groups[row] = row / 2;
        parts[row] = row / 2 % 5 == 0 ? MR_ROW_VALIDATION : row / 2 % 5 == 1 ? MR_ROW_TEST : MR_ROW_TRAIN;
        for (size_t k = 0; k < WIDTH; k++)
            features[row * WIDTH + k] = (float)((centre[classes[row]][k] + mr_draw_normal(&seed)) *
                                                    pow(10.0, (double)k / 3.0 - 2.0) + 5.0);
        features[row * WIDTH + WIDTH - 1] = 7.0f;
    }
}

static int hear(void **state) {
    (void)state;
    draw_rows();
    heard[0] = 0;
    return 0;
}

static void warn(void *user, const char *text) {
    (void)user;
    size_t used = strlen(heard);
    snprintf(heard + used, HEARD - used, "%s\n", text);
}

static mr_labelled_rows usual_rows(void) {
    return (mr_labelled_rows){.features = features, .rows = ROWS, .width = WIDTH, .classes = classes, .groups = groups,
                              .parts = parts, .class_count = CLASSES, .class_names = names};
}

static mr_fit_params usual_params(mr_classifier_kind kind) {
    return (mr_fit_params){.kind = kind, .seed = 3, .threads = 2, .steps = kind == MR_CLASSIFIER_PERCEPTRON ? 30 : 0,
                           .warning = warn};
}

static mr_classifier *fit(const mr_labelled_rows *rows, const mr_fit_params *params) {
    mr_classifier *made;
    if (mr_classifier_fit(&made, rows, params))
        fail_msg("%s", mr_message());
    return made;
}

static void take_scores(const mr_classifier *classifier, float *scores) {
    assert_int_equal(mr_classifier_scores(classifier, features, ROWS, 0, scores), MR_OK);
}

static int first_of(const float *row) {
    int best = 0;
    for (int j = 1; j < CLASSES; j++)
        best = row[j] > row[best] ? j : best;
    return best;
}

static double share_right(const mr_classifier *classifier, int part) {
    static float scores[ROWS * CLASSES];
    int right = 0, all = 0;
    take_scores(classifier, scores);
    for (size_t row = 0; row < ROWS; row++)
        if (parts[row] == part) {
            all++;
            right += first_of(scores + row * CLASSES) == classes[row];
        }
    return (double)right / all;
}

/* The test runs where it may write. */
static void in_folder(const char *name, char path[256]) {
    snprintf(path, 256, "%s/train-test-%s-%ld", P_tmpdir, name, (long)getpid());
}

static void remove_files(const char *folder) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */

static void each_kind_tells_the_classes_apart(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_labelled_rows rows = usual_rows();
        mr_fit_params params = usual_params((mr_classifier_kind)kind);
        params.scaling = MR_SCALING_STANDARD;
        mr_classifier *made = fit(&rows, &params);
        const mr_classifier_card *card = mr_classifier_card_of(made);
        double share = share_right(made, MR_ROW_TEST);
        if (share < 0.88)
            fail_msg("%s: %g", mr_classifier_kind_name(card->kind), share);
        assert_int_equal(card->width, WIDTH);
        assert_int_equal(card->train_rows + card->validation_rows + card->test_rows, ROWS);
        assert_int_equal(card->constant_features, 1);
        assert_string_equal(card->class_names[2], "cat");
        mr_classifier_destroy(&made);
        assert_null(made);
    }
}

static void scores_add_up(void **state) {
    (void)state;
    static float scores[ROWS * CLASSES], logits[ROWS * CLASSES];
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_labelled_rows rows = usual_rows();
        const mr_fit_params params = usual_params((mr_classifier_kind)kind);
        mr_classifier *made = fit(&rows, &params);
        take_scores(made, scores);
        assert_int_equal(mr_classifier_logits(made, features, ROWS, WIDTH, logits), MR_OK);
        for (size_t row = 0; row < ROWS; row++) {
            double sum = 0.0;
            for (size_t j = 0; j < CLASSES; j++) {
                sum += (double)scores[row * CLASSES + j];
                if (kind == MR_CLASSIFIER_LOGISTIC) {
                    double wanted = 1.0 / (1.0 + exp(-(double)logits[row * CLASSES + j]));
                    assert_true(fabs(wanted - (double)scores[row * CLASSES + j]) < 1e-6);
                }
            }
            if (kind != MR_CLASSIFIER_LOGISTIC)
                assert_true(fabs(sum - 1.0) < 1e-5);
        }
        mr_classifier_destroy(&made);
    }
}

static void threads_change_no_bit(void **state) {
    (void)state;
    static float one[ROWS * CLASSES], more[ROWS * CLASSES];
    for (int kind = 0; kind < KINDS; kind++)
        for (int doubles = 0; doubles < 2; doubles++) {
            const mr_labelled_rows rows = usual_rows();
            mr_fit_params params = usual_params((mr_classifier_kind)kind);
            params.doubles = doubles;
            params.class_weights = MR_CLASS_WEIGHTS_BALANCED;
            for (int threads = 1; threads <= 16; threads = threads < 3 ? threads + 1 : threads * 4 + 4) {
                params.threads = threads;
                mr_classifier *made = fit(&rows, &params);
                take_scores(made, threads == 1 ? one : more);
                if (threads > 1)
                    assert_memory_equal(one, more, sizeof one);
                mr_classifier_destroy(&made);
            }
        }
}

static void a_constant_feature_counts_for_nothing(void **state) {
    (void)state;
    static float before[ROWS * CLASSES], after[ROWS * CLASSES];
    const mr_labelled_rows rows = usual_rows();
    const mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    mr_classifier *made = fit(&rows, &params);
    take_scores(made, before);
    assert_non_null(strstr(heard, "1 of 12 features is the same in all training rows, and counts for nothing (it is "
                                  "feature 11)"));
    for (size_t row = 0; row < ROWS; row++)
        features[row * WIDTH + WIDTH - 1] = 1e6f;
    take_scores(made, after);
    assert_memory_equal(before, after, sizeof before);
    mr_classifier_destroy(&made);
}

/* Training features of validation and test rows are not looked at by the scaler: changing those of the test part, even
 * to something that is not a number, changes no bit. */
static void the_test_part_is_not_looked_at(void **state) {
    (void)state;
    static float before[ROWS * CLASSES], after[ROWS * CLASSES], kept[ROWS * WIDTH];
    const mr_labelled_rows rows = usual_rows();
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_fit_params params = usual_params((mr_classifier_kind)kind);
        memcpy(kept, features, sizeof kept);
        mr_classifier *one = fit(&rows, &params);
        for (size_t i = 0; i < ROWS * WIDTH; i++)
            if (parts[i / WIDTH] == MR_ROW_TEST)
                features[i] = NAN;
        mr_classifier *other = fit(&rows, &params);
        memcpy(features, kept, sizeof kept);
        take_scores(one, before);
        take_scores(other, after);
        assert_memory_equal(before, after, sizeof before);
        mr_classifier_destroy(&one);
        mr_classifier_destroy(&other);
    }
}

static void balanced_weights_help_the_rare_class(void **state) {
    (void)state;
    double recall[2];
    static float scores[ROWS * CLASSES];
    for (size_t row = 0; row < ROWS; row++)
        if (classes[row] == 0 && row % 12 && parts[row] == MR_ROW_TRAIN)
            parts[row] = MR_ROW_NONE;
    for (int balanced = 0; balanced < 2; balanced++) {
        const mr_labelled_rows rows = usual_rows();
        mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
        const double strong = 0.002;
        params.penalties = &strong;
        params.penalty_count = 1;
        params.class_weights = balanced ? MR_CLASS_WEIGHTS_BALANCED : MR_CLASS_WEIGHTS_NONE;
        mr_classifier *made = fit(&rows, &params);
        int right = 0, all = 0;
        take_scores(made, scores);
        for (size_t row = 0; row < ROWS; row++)
            if (parts[row] == MR_ROW_TEST && classes[row] == 0) {
                all++;
                right += first_of(scores + row * CLASSES) == 0;
            }
        recall[balanced] = (double)right / all;
        assert_int_equal(mr_classifier_card_of(made)->balanced, balanced);
        mr_classifier_destroy(&made);
    }
    assert_true(recall[1] > recall[0] + 0.2);
}

static void of_equal_penalties_the_strongest_is_taken(void **state) {
    (void)state;
    const double path[] = {1.0, 0.01, 0.1, 0.01};
    const mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    params.penalties = path;
    params.penalty_count = 4;
    mr_classifier *made = fit(&rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    assert_int_equal(card->tried_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(i == 0 || card->tried[i].c >= card->tried[i - 1].c);
        assert_true(card->tried[card->chosen].validation <= card->tried[i].validation);
        assert_true(i >= card->chosen || card->tried[i].validation > card->tried[card->chosen].validation);
    }
    mr_classifier_destroy(&made);
    /* Rows that penalties so strong leave alone: all log losses are the same. */
    const double equal[] = {1e-300, 1e-301};
    params.penalties = equal;
    params.penalty_count = 2;
    made = fit(&rows, &params);
    card = mr_classifier_card_of(made);
    assert_true(card->tried[0].validation == card->tried[1].validation);
    assert_int_equal(card->chosen, 0);
    assert_true(card->tried[0].c == 1e-301);
    mr_classifier_destroy(&made);
}

static void a_perceptron_stops_early(void **state) {
    (void)state;
    const mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_PERCEPTRON);
    params.steps = 500;
    params.patience = 3;
    params.rate = 0.02;
    mr_classifier *made = fit(&rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    assert_string_equal(card->tried[0].end, "patience");
    assert_true(card->tried[0].steps < 400);
    assert_int_equal(card->layer_count, 3);
    assert_int_equal(card->units[0], 128);
    assert_int_equal(card->units[1], 64);
    assert_int_equal(card->units[2], CLASSES);
    mr_classifier_destroy(&made);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

typedef struct stopping {
    int after, calls;
} stopping;

static int stop(void *user, const mr_fit_progress *progress) {
    stopping *s = user;
    assert_true(progress->c > 0.0 && isfinite(progress->objective) && progress->penalty < progress->penalties);
    return ++s->calls > s->after;
}

/* Cancels after each so many steps and goes on, until it is done. */
static mr_classifier *fit_in_pieces(const mr_labelled_rows *rows, const mr_fit_params *given, const char *path,
                                    int steps) {
    mr_classifier *made = NULL;
    int status = MR_ERROR_CANCELLED;
    for (int turn = 0; status == MR_ERROR_CANCELLED; turn++) {
        stopping s = {.after = steps};
        mr_fit_params params = *given;
        params.state = path;
        params.resume = true;
        params.progress = stop;
        params.user = &s;
        params.threads = 1 + turn % 3;
        params.warning = NULL;
        status = mr_classifier_fit(&made, rows, &params);
        assert_int_equal(access(path, F_OK), status ? 0 : -1);
        assert_true(turn < 10000);
    }
    if (status)
        fail_msg("%s", mr_message());
    return made;
}

static void a_fit_that_goes_on_makes_the_same_bits(void **state) {
    (void)state;
    static float whole[ROWS * CLASSES], pieces[ROWS * CLASSES];
    char path[256];
    in_folder("state", path);
    static const mr_classifier_kind kinds[] = {MR_CLASSIFIER_SOFTMAX, MR_CLASSIFIER_LOGISTIC,
                                               MR_CLASSIFIER_SQUARED_HINGE, MR_CLASSIFIER_PERCEPTRON};
    for (size_t i = 0; i < 4; i++)
        for (int steps = 1; steps < 20; steps += 9) {
            const mr_labelled_rows rows = usual_rows();
            mr_fit_params params = usual_params(kinds[i]);
            const double path_of_two[] = {0.01, 1.0};
            params.penalties = path_of_two;
            params.penalty_count = kinds[i] == MR_CLASSIFIER_PERCEPTRON ? 0 : 2;
            mr_classifier *one = fit(&rows, &params), *other = fit_in_pieces(&rows, &params, path, steps);
            take_scores(one, whole);
            take_scores(other, pieces);
            assert_memory_equal(whole, pieces, sizeof whole);
            const mr_classifier_card *card = mr_classifier_card_of(one), *same = mr_classifier_card_of(other);
            assert_int_equal(card->chosen, same->chosen);
            assert_int_equal(card->tried_count, same->tried_count);
            for (size_t k = 0; k < card->tried_count; k++) {
                assert_true(card->tried[k].objective == same->tried[k].objective);
                assert_int_equal(card->tried[k].steps, same->tried[k].steps);
            }
            mr_classifier_destroy(&one);
            mr_classifier_destroy(&other);
        }
}

static int die(void *user, const mr_fit_progress *progress) {
    (void)user;
    return progress->penalty == 1 ? kill(getpid(), SIGKILL) : 0;
}

/* The state is that of an earlier moment then, and what was done since is done again. */
static void a_fit_that_was_killed_makes_the_same_bits(void **state) {
    (void)state;
    static float whole[ROWS * CLASSES], again[ROWS * CLASSES];
    char path[256];
    in_folder("killed", path);
    const double two[] = {0.01, 1.0};
    const mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    stopping s = {.after = 4};
    params.penalties = two;
    params.penalty_count = 2;
    params.warning = NULL;
    mr_classifier *one = fit(&rows, &params), *other;
    params.state = path;
    params.resume = true;
    params.user = &s;
    params.progress = stop;
    assert_int_equal(mr_classifier_fit(&other, &rows, &params), MR_ERROR_CANCELLED);
    params.progress = die;
    int how = 0;
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (!child) {
        mr_classifier_fit(&other, &rows, &params);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    params.progress = NULL;
    other = fit(&rows, &params);
    take_scores(one, whole);
    take_scores(other, again);
    assert_memory_equal(whole, again, sizeof whole);
    mr_classifier_destroy(&one);
    mr_classifier_destroy(&other);
}

static void refuse_state(const char *path, const mr_labelled_rows *rows, const mr_fit_params *params, const char *why) {
    mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, rows, params), MR_ERROR_DATA);
    assert_null(made);
    if (!strstr(mr_message(), why) || !strstr(mr_message(), path))
        fail_msg("%s", mr_message());
}

static void the_state_of_another_fit_is_refused(void **state) {
    (void)state;
    char path[256];
    in_folder("other", path);
    stopping s = {.after = 3};
    mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    params.state = path;
    params.resume = true;
    params.progress = stop;
    params.user = &s;
    params.warning = NULL;
    mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, &rows, &params), MR_ERROR_CANCELLED);
    assert_non_null(strstr(mr_message(), path));
    features[50] += 0.5f;
    refuse_state(path, &rows, &params, "other rows");
    features[50] -= 0.5f;
    params.doubles = true;
    refuse_state(path, &rows, &params, "other parameters");
    params.doubles = false;
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 200, SEEK_SET), 0);
    fputc(fgetc(file) ^ 1, file);
    fclose(file);
    refuse_state(path, &rows, &params, "damaged");
    assert_int_equal(truncate(path, 30), 0);
    refuse_state(path, &rows, &params, "not the state of a fit");
    params.resume = false; /* begins anew */
    s = (stopping){.after = 100000};
    assert_int_equal(mr_classifier_fit(&made, &rows, &params), MR_OK);
    assert_int_equal(access(path, F_OK), -1);
    mr_classifier_destroy(&made);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(const mr_labelled_rows *rows, const mr_fit_params *params, int status, const char *why) {
    mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, rows, params), status);
    assert_null(made);
    if (!strstr(mr_message(), why))
        fail_msg("\"%s\" is not in: %s", why, mr_message());
}

static void rows_that_cannot_be_fitted_to_are_refused(void **state) {
    (void)state;
    mr_labelled_rows rows = usual_rows();
    const mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    rows.class_count = 1;
    refuse(&rows, &params, MR_ERROR_DATA, "there is one class only");
    static const char *const five[] = {"ant", "bee", "cat", "dog", "eel"}, *const twice[] = {"ant", "bee", "bee",
                                                                                             "dog"};
    static const char *const broken[] = {"ant", "b\nee", "cat", "dog"}, *const wrong[] = {"ant", "\xff", "cat", "dog"};
    rows = usual_rows();
    rows.class_count = 5;
    rows.class_names = five;
    refuse(&rows, &params, MR_ERROR_DATA, "there are no training rows of \"eel\"");
    rows = usual_rows();
    rows.class_names = twice;
    refuse(&rows, &params, MR_ERROR_DATA, "two classes are called \"bee\"");
    rows.class_names = broken;
    refuse(&rows, &params, MR_ERROR_DATA, "the name of class 1 is not one line");
    rows.class_names = wrong;
    refuse(&rows, &params, MR_ERROR_DATA, "the name of class 1 is not UTF-8");
    rows = usual_rows();
    classes[5] = 4;
    refuse(&rows, &params, MR_ERROR_DATA, "row 5 is of class 4, and there are 4");
    classes[5] = 0;
    parts[6] = MR_ROW_TRAIN;
    features[6 * WIDTH + 3] = NAN;
    refuse(&rows, &params, MR_ERROR_DATA, "feature 3 of row 6 is nan, not a finite number");
    features[6 * WIDTH + 3] = -INFINITY;
    parts[6] = MR_ROW_VALIDATION;
    refuse(&rows, &params, MR_ERROR_DATA, "feature 3 of row 6 is -inf, not a finite number");
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        features[i] = 2.0f;
    refuse(&rows, &params, MR_ERROR_DATA, "all 12 features are the same");
    rows.rows = 0;
    refuse(&rows, &params, MR_ERROR_DATA, "there are no rows");
}

static void parameters_that_cannot_be_are_refused(void **state) {
    (void)state;
    const double none = 0.0, two[] = {1.0, 2.0};
    const size_t hidden[] = {0};
    mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    params.penalties = &none;
    params.penalty_count = 1;
    refuse(&rows, &params, MR_ERROR_USAGE, "a penalty C of 0 cannot be");
    params = usual_params(MR_CLASSIFIER_SOFTMAX);
    params.penalties = two;
    params.penalty_count = 2;
    rows.parts = NULL;
    refuse(&rows, &params, MR_ERROR_USAGE, "of 2 penalties one is chosen by the validation rows, and there are none");
    rows = usual_rows();
    params = usual_params(MR_CLASSIFIER_PERCEPTRON);
    params.hidden = hidden;
    params.hidden_count = 1;
    refuse(&rows, &params, MR_ERROR_USAGE, "hidden layer 1 has 0 units");
    params = usual_params(MR_CLASSIFIER_PERCEPTRON);
    params.minibatch = 100;
    refuse(&rows, &params, MR_ERROR_USAGE, "minibatches of 100 rows");
    params = usual_params(MR_CLASSIFIER_NEIGHBORS);
    params.k = 1000;
    refuse(&rows, &params, MR_ERROR_USAGE, "fewer than k = 1000");
    params = usual_params((mr_classifier_kind)17);
    refuse(&rows, &params, MR_ERROR_USAGE, "no classifier of kind 17");
    params = usual_params(MR_CLASSIFIER_SOFTMAX);
    params.threads = 65;
    refuse(&rows, &params, MR_ERROR_USAGE, "65 threads");
}

static void expect_warning(const mr_labelled_rows *rows, const char *text) {
    const mr_fit_params params = usual_params(MR_CLASSIFIER_PROTOTYPES);
    heard[0] = 0;
    mr_classifier *made = fit(rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    bool found = false;
    for (size_t i = 0; i < card->warning_count; i++)
        found = found || strstr(card->warnings[i], text);
    if (!found || !strstr(heard, text))
        fail_msg("\"%s\" is not in: %s", text, heard);
    mr_classifier_destroy(&made);
}

static void what_is_doubtful_is_warned_of(void **state) {
    (void)state;
    static const char *const alike[] = {"ant", "Bee", "bee", "dog"};
    mr_labelled_rows rows = usual_rows();
    rows.class_names = alike;
    expect_warning(&rows, "the classes \"Bee\" and \"bee\" differ by case only");
    rows = usual_rows();
    for (size_t row = 0; row < ROWS; row++)
        if (classes[row] == 3 && parts[row] == MR_ROW_VALIDATION)
            parts[row] = MR_ROW_NONE;
    expect_warning(&rows, "there are no validation rows of \"dog\"");
    for (size_t row = 0; row < ROWS; row++)
        groups[row] = classes[row] == 1 && parts[row] == MR_ROW_TRAIN ? 77777 : row;
    for (size_t row = 0; row < ROWS; row++)
        if (classes[row] == 1 && parts[row] != MR_ROW_TRAIN)
            parts[row] = MR_ROW_NONE;
    expect_warning(&rows, "all rows of \"bee\" are of one group");
    draw_rows();
    for (size_t row = 0; row < ROWS; row++)
        groups[row] = row / 20;
    expect_warning(&rows, "35 groups have rows in several of the parts");
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static void what_is_opened_is_what_was_saved(void **state) {
    (void)state;
    static float before[ROWS * CLASSES], after[ROWS * CLASSES];
    char folder[256];
    in_folder("head", folder);
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_labelled_rows rows = usual_rows();
        const mr_fit_params params = usual_params((mr_classifier_kind)kind);
        const mr_head_notes notes = {.pipeline = "zoo", .stages = "decode <- source.out at in\nhog.bins = 9\n",
                                     .digest = "abc", .split = "by \"group\"", .figures = "{\"accuracy\": 0.125}"};
        mr_classifier *made = fit(&rows, &params), *opened;
        if (mr_classifier_save(made, folder, &notes) || mr_classifier_open(&opened, folder))
            fail_msg("%s", mr_message());
        take_scores(made, before);
        take_scores(opened, after);
        assert_memory_equal(before, after, sizeof before);
        const mr_classifier_card *card = mr_classifier_card_of(made), *read = mr_classifier_card_of(opened);
        assert_int_equal(read->kind, kind);
        assert_string_equal(read->pipeline, "zoo");
        assert_string_equal(read->stages, notes.stages);
        assert_string_equal(read->split, notes.split);
        assert_string_equal(read->figures, "{\"accuracy\":0.125}");
        assert_string_equal(read->class_names[3], "dog");
        assert_int_equal(read->seed, 3);
        assert_int_equal(read->train_rows, card->train_rows);
        assert_int_equal(read->warning_count, card->warning_count);
        if (card->warning_count)
            assert_string_equal(read->warnings[0], card->warnings[0]);
        assert_int_equal(read->tried_count, card->tried_count);
        assert_int_equal(read->chosen, card->chosen);
        for (size_t i = 0; i < card->tried_count; i++)
            assert_true(read->tried[i].objective == card->tried[i].objective && read->tried[i].c == card->tried[i].c);
        mr_classifier_destroy(&made);
        mr_classifier_destroy(&opened);
    }
    remove_files(folder);
}

static int count_entries(const char *folder) {
    char command[600];
    int count = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_int_equal(fscanf(out, "%d", &count), 1);
    pclose(out);
    return count;
}

static void only_a_classifier_is_written_over(void **state) {
    (void)state;
    char home[256], path[600], file[700];
    in_folder("home", home);
    snprintf(path, sizeof path, "%s/head/", home);
    const mr_labelled_rows rows = usual_rows();
    const mr_fit_params params = usual_params(MR_CLASSIFIER_PROTOTYPES);
    mr_classifier *made = fit(&rows, &params);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO); /* no folder to put it into */
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    assert_int_equal(count_entries(home), 1);
    assert_int_equal(count_entries(path), 3);
    const mr_head_notes wrong = {.figures = "{\"accuracy\": "};
    assert_int_equal(mr_classifier_save(made, path, &wrong), MR_ERROR_USAGE);
    snprintf(file, sizeof file, "%s/head.json", path);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "neither empty nor the folder of a classifier"));
    snprintf(path, sizeof path, "%s/file", home);
    FILE *plain = fopen(path, "w");
    assert_non_null(plain);
    fclose(plain);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "is not a folder"));
    assert_int_equal(count_entries(home), 2);
    mr_classifier_destroy(&made);
    remove_files(home);
}

/* Files may have so many bytes from here on, as on a disk that fills. */
static void allow(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_leaves_nothing_half_written(void **state) {
    (void)state;
    static float before[ROWS * CLASSES], after[ROWS * CLASSES];
    char home[256], path[600], file[600];
    in_folder("full", home);
    snprintf(path, sizeof path, "%s/head", home);
    snprintf(file, sizeof file, "%s/state", home);
    assert_int_equal(mkdir(home, 0700), 0);
    const mr_labelled_rows rows = usual_rows();
    mr_fit_params params = usual_params(MR_CLASSIFIER_PERCEPTRON);
    mr_classifier *made = fit(&rows, &params), *opened, *none;
    allow(2000);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    allow(RLIM_INFINITY);
    assert_non_null(strstr(mr_message(), "layer-1.npy"));
    assert_int_equal(count_entries(home), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    take_scores(made, before);
    allow(2000);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO); /* the one that is there stays */
    stopping s = {.after = 2};
    params.state = file;
    params.progress = stop;
    params.user = &s;
    params.warning = NULL;
    assert_int_equal(mr_classifier_fit(&none, &rows, &params), MR_ERROR_IO);
    allow(RLIM_INFINITY);
    assert_int_equal(count_entries(home), 1);
    assert_int_equal(mr_classifier_open(&opened, path), MR_OK);
    take_scores(opened, after);
    assert_memory_equal(before, after, sizeof before);
    mr_classifier_destroy(&opened);
    mr_classifier_destroy(&made);
    remove_files(home);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void refuse_folder(const char *folder, int status, const char *why) {
    mr_classifier *opened;
    assert_int_equal(mr_classifier_open(&opened, folder), status);
    assert_null(opened);
    if (!strstr(mr_message(), why))
        fail_msg("\"%s\" is not in: %s", why, mr_message());
}

static void damaged_folders_are_refused(void **state) {
    (void)state;
    char folder[256], path[600];
    in_folder("damaged", folder);
    refuse_folder(folder, MR_ERROR_NO_INPUT, "head.json");
    const mr_labelled_rows rows = usual_rows();
    const mr_fit_params params = usual_params(MR_CLASSIFIER_NEIGHBORS);
    mr_classifier *made = fit(&rows, &params);
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    write_text(folder, "labels.txt", "ant\nbee\ndog\ncat\n");
    refuse_folder(folder, MR_ERROR_DATA, "labels.txt is not the file that head.json was written with");
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    snprintf(path, sizeof path, "%s/vectors.npy", folder);
    assert_int_equal(truncate(path, 4000), 0);
    refuse_folder(folder, MR_ERROR_DATA, "vectors.npy is not the file");
    assert_int_equal(unlink(path), 0);
    refuse_folder(folder, MR_ERROR_NO_INPUT, "vectors.npy");
    write_text(folder, "head.json", "{\"format\": 2}");
    refuse_folder(folder, MR_ERROR_DATA, "is of format 2, and this millrace reads 1");
    write_text(folder, "head.json", "{\"format\": 1, \"kind\": \"oracle\"}");
    refuse_folder(folder, MR_ERROR_DATA, "there is no classifier \"oracle\"");
    write_text(folder, "head.json", "{\"format\": 1, \"kind\": \"softmax\", \"width\": 12, \"classes\": 99999999}");
    refuse_folder(folder, MR_ERROR_DATA, "\"width\" and \"classes\"");
    write_text(folder, "head.json", "{\"format\": 1, \"kind\": \"softmax\", \"width\": 12, \"classes\": 4}");
    refuse_folder(folder, MR_ERROR_DATA, "has no digest of labels.txt");
    write_text(folder, "head.json", "[1, 2");
    refuse_folder(folder, MR_ERROR_DATA, "is not the card of a classifier");
    mr_classifier_destroy(&made);
    remove_files(folder);
}

/* ---- classify ---------------------------------------------------------------------------------------------------- */

static void compare_classes(const arrived *got, const float *scores) {
    assert_int_equal(got->frames, MODELS_FRAMES);
    for (size_t frame = 0; frame < MODELS_FRAMES; frame++) {
        assert_int_equal(got->class_count[frame], CLASSES);
        for (size_t i = 0; i < CLASSES; i++) {
            const mr_class *class = &got->classes[frame][i];
            assert_true(class->score == scores[frame * CLASSES + (size_t)class->index]);
            assert_true(i == 0 || class->score <= got->classes[frame][i - 1].score);
        }
    }
}

static void classify_gives_the_same_bits(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "sim:0"};
    static float scores[ROWS * CLASSES];
    char folder[256], stages[600];
    in_folder("served", folder);
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_labelled_rows rows = usual_rows();
        const mr_fit_params params = usual_params((mr_classifier_kind)kind);
        mr_classifier *made = fit(&rows, &params);
        take_scores(made, scores);
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
        for (size_t device = 0; device < 2; device++)
            for (models_workers = 1; models_workers <= 16; models_workers *= 4) {
                arrived got = {.look = look_at_classes};
                snprintf(stages, sizeof stages, "  classify: {input: in, head: \"%s\", top_k: 10, device: \"%s\"}\n"
                                                "  sink: {type: callback, input: classify}\n", folder, devices[device]);
                if (models_run("f32 12", features, stages, &got))
                    fail_msg("%s: %s", mr_classifier_kind_name((mr_classifier_kind)kind), mr_message());
                compare_classes(&got, scores);
            }
        mr_classifier_destroy(&made);
    }
    models_workers = 0;
    remove_files(folder);
}

/* A batch's product may round in another order; the other kinds have none. */
static void batches_are_within_rounding(void **state) {
    (void)state;
    static float scores[ROWS * CLASSES];
    char folder[256], stages[600];
    in_folder("batches", folder);
    for (int kind = 0; kind < KINDS; kind++) {
        const mr_labelled_rows rows = usual_rows();
        const mr_fit_params params = usual_params((mr_classifier_kind)kind);
        const bool exact = kind == MR_CLASSIFIER_NEIGHBORS || kind == MR_CLASSIFIER_PERCEPTRON;
        mr_classifier *made = fit(&rows, &params);
        take_scores(made, scores);
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
        arrived got = {.look = look_at_classes};
        snprintf(stages, sizeof stages, "  classify: {input: in, head: \"%s\", top_k: 10, batch: 4}\n"
                                        "  sink: {type: callback, input: classify}\n", folder);
        if (models_run("f32 12", features, stages, &got))
            fail_msg("%s", mr_message());
        for (size_t frame = 0; frame < MODELS_FRAMES; frame++)
            for (size_t i = 0; i < CLASSES; i++) {
                const mr_class *class = &got.classes[frame][i];
                float wanted = scores[frame * CLASSES + (size_t)class->index];
                assert_true(exact ? class->score == wanted : fabsf(class->score - wanted) < 2e-4f);
            }
        mr_classifier_destroy(&made);
    }
    remove_files(folder);
}

static void refuse_head(const char *folder, const char *format, const char *options, const char *why) {
    char stages[700], message[2000];
    snprintf(stages, sizeof stages,
             "  classify: {input: in, head: \"%s\"%s}\n  sink: {type: callback, input: classify}\n", folder, options);
    assert_int_not_equal(models_refused(format, stages, message, sizeof message), MR_OK);
    if (!strstr(message, why))
        fail_msg("\"%s\" is not in: %s", why, message);
}

static void classify_refuses_what_differs(void **state) {
    (void)state;
    char folder[256], stages[700];
    in_folder("refused", folder);
    const mr_labelled_rows rows = usual_rows();
    const mr_fit_params params = usual_params(MR_CLASSIFIER_SOFTMAX);
    mr_classifier *made = fit(&rows, &params);
    const mr_head_notes notes = {.digest = "0123",
                                 .stages = "hog <- source.out at in\nhog.bins = 12\nvector <- hog.out at in\n"};
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    refuse_head(folder, "f32 13", "", "takes vectors of 12 numbers, but in gives 13");
    refuse_head(folder, "f32 12", ", activation: none", "a head brings its own activation");
    refuse_head(folder, "f32 12", ", weights: x.npy", "x.npy");
    assert_int_equal(mr_classifier_save(made, folder, &notes), MR_OK);
    refuse_head(folder, "f32 12", "",
                "trained on vectors of another pipeline: only the pipeline here has \"vector <- "
                "source.out at in\"; only the pipeline of the classifier has \"hog <- source.out");
    refuse_head(folder, "f32 12", ", tensor: hidden", "no vector called \"hidden\"");
    snprintf(stages, sizeof stages, "  classify: {input: in, head: \"%s\", top_k: 10, force: true}\n"
                                    "  sink: {type: callback, input: classify}\n", folder);
    arrived got = {.look = look_at_classes};
    if (models_run("f32 12", features, stages, &got))
        fail_msg("%s", mr_message());
    assert_int_equal(got.frames, MODELS_FRAMES);
    write_text(folder, "labels.txt", "ant\nbee\ndog\ncat\n");
    refuse_head(folder, "f32 12", ", force: true", "labels.txt is not the file that head.json was written with");
    mr_classifier_destroy(&made);
    remove_files(folder);
    refuse_head(folder, "f32 12", "", "refused");
}

/* ---- label noise ------------------------------------------------------------------------------------------------- */

static void rows_with_wrong_labels_are_found(void **state) {
    (void)state;
    enum { WRONG = 12 };
    mr_noisy_row noisy[100];
    size_t found = 0, named = 0;
    for (size_t i = 0; i < WRONG; i++) {
        parts[i * 50] = MR_ROW_TRAIN;
        classes[i * 50] = (classes[i * 50] + 1) % CLASSES;
    }
    const mr_labelled_rows rows = usual_rows();
    for (int threads = 1; threads <= 4; threads += 3) {
        const mr_noise_params params = {.k = 10, .share = 0.8, .threads = threads};
        assert_int_equal(mr_label_noise(&rows, &params, noisy, 100, &found), MR_OK);
        assert_in_range(found, WRONG / 2, 3 * WRONG);
        named = 0;
        for (size_t i = 0; i < found; i++) {
            bool wrong = noisy[i].row % 50 == 0 && noisy[i].row / 50 < WRONG;
            named += wrong;
            assert_int_equal(noisy[i].class_given, classes[noisy[i].row]);
            assert_true(noisy[i].share >= 0.8 && noisy[i].class_near != noisy[i].class_given);
            assert_true(i == 0 || noisy[i].share <= noisy[i - 1].share);
            if (wrong)
                assert_int_equal((noisy[i].class_near + 1) % CLASSES, noisy[i].class_given);
        }
        assert_in_range(named, WRONG / 2, WRONG);
    }
}

/* Nothing could agree with them: all rows near them, in other groups, are of other classes. */
static void rows_of_a_class_with_one_group_are_not_judged(void **state) {
    (void)state;
    mr_noisy_row noisy[ROWS];
    size_t found = 0;
    for (size_t row = 0; row < ROWS; row++)
        groups[row] = (uint64_t)classes[row];
    const mr_labelled_rows rows = usual_rows();
    const mr_noise_params params = {.k = 10, .share = 0.3, .threads = 2};
    assert_int_equal(mr_label_noise(&rows, &params, noisy, ROWS, &found), MR_OK);
    assert_int_equal(found, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, hear)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_kind_tells_the_classes_apart),
        TEST(scores_add_up),
        TEST(threads_change_no_bit),
        TEST(a_constant_feature_counts_for_nothing),
        TEST(the_test_part_is_not_looked_at),
        TEST(balanced_weights_help_the_rare_class),
        TEST(of_equal_penalties_the_strongest_is_taken),
        TEST(a_perceptron_stops_early),
        TEST(a_fit_that_goes_on_makes_the_same_bits),
        TEST(a_fit_that_was_killed_makes_the_same_bits),
        TEST(the_state_of_another_fit_is_refused),
        TEST(rows_that_cannot_be_fitted_to_are_refused),
        TEST(parameters_that_cannot_be_are_refused),
        TEST(what_is_doubtful_is_warned_of),
        TEST(what_is_opened_is_what_was_saved),
        TEST(only_a_classifier_is_written_over),
        TEST(a_full_disk_leaves_nothing_half_written),
        TEST(damaged_folders_are_refused),
        TEST(classify_gives_the_same_bits),
        TEST(batches_are_within_rounding),
        TEST(classify_refuses_what_differs),
        TEST(rows_with_wrong_labels_are_found),
        TEST(rows_of_a_class_with_one_group_are_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
