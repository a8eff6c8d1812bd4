/* Classifiers: fitting, resuming, errors and warnings. test_head.c tests saved classifiers. tests/reference/train.py
 * compares figures with scikit-learn. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "millrace/classifier.h"
#include "millrace/status.h"
#include "stages/train/train_loss.h"
#include "tests/support/blobs.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

static int first_of(const float *row) {
    int best = 0;
    for (int j = 1; j < BLOB_CLASSES; j++)
        best = row[j] > row[best] ? j : best;
    return best;
}

static double share_right(const mr_classifier *classifier, int part) {
    static float scores[BLOB_ROWS * BLOB_CLASSES];
    int right = 0, all = 0;
    blob_scores(classifier, scores);
    for (size_t row = 0; row < BLOB_ROWS; row++)
        if (blob_parts[row] == part) {
            all++;
            right += first_of(scores + row * BLOB_CLASSES) == blob_classes[row];
        }
    return (double)right / all;
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */

TEST_WITH(each_kind_tells_the_classes_apart, blob_setup, NULL) {
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        mr_fit_params params = blob_params((mr_classifier_kind)kind);
        params.scaling = MR_SCALING_STANDARD;
        mr_classifier *made = blob_fit(&blob_rows, &params);
        const mr_classifier_card *card = mr_classifier_card_of(made);
        double share = share_right(made, MR_ROW_TEST);
        if (share < 0.88)
            fail_msg("%s: %g", mr_classifier_kind_name(card->kind), share);
        assert_int_equal(card->width, BLOB_WIDTH);
        assert_int_equal(card->train_rows + card->validation_rows + card->test_rows, BLOB_ROWS);
        assert_int_equal(card->constant_features, 1);
        assert_string_equal(card->class_names[2], "cat");
        mr_classifier_destroy(&made);
        assert_null(made);
    }
}

TEST_WITH(scores_add_up, blob_setup, NULL) {
    static float scores[BLOB_ROWS * BLOB_CLASSES], logits[BLOB_ROWS * BLOB_CLASSES];
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(kind);
        blob_scores(made, scores);
        assert_int_equal(mr_classifier_logits(made, blob_features, BLOB_ROWS, BLOB_WIDTH, logits), MR_OK);
        for (size_t row = 0; row < BLOB_ROWS; row++) {
            double sum = 0.0;
            for (size_t j = 0; j < BLOB_CLASSES; j++) {
                sum += (double)scores[row * BLOB_CLASSES + j];
                if (kind == MR_CLASSIFIER_LOGISTIC) {
                    double wanted = 1.0 / (1.0 + exp(-(double)logits[row * BLOB_CLASSES + j]));
                    assert_true(fabs(wanted - (double)scores[row * BLOB_CLASSES + j]) < 1e-6);
                }
            }
            if (kind != MR_CLASSIFIER_LOGISTIC)
                assert_true(fabs(sum - 1.0) < 1e-5);
        }
    }
}

static bool has_products(mr_classifier_kind kind) {
    return kind != MR_CLASSIFIER_PROTOTYPES && kind != MR_CLASSIFIER_NEIGHBORS;
}

TEST_WITH(threads_change_no_bit, blob_setup, NULL) {
    static float one[BLOB_ROWS * BLOB_CLASSES], more[BLOB_ROWS * BLOB_CLASSES];
    for (int kind = 0; kind < BLOB_KINDS; kind++)
        for (int doubles = 0; doubles < UNDER_TSAN(1, 2); doubles++) {
            mr_fit_params params = blob_params((mr_classifier_kind)kind);
            params.doubles = doubles && has_products(params.kind);
            params.class_weights = MR_CLASS_WEIGHTS_BALANCED;
            for (int threads = 1; threads <= 16; threads = threads < 3 ? threads + 1 : threads * 4 + 4) {
                params.threads = threads;
                ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
                blob_scores(made, threads == 1 ? one : more);
                if (threads > 1)
                    assert_memory_equal(one, more, sizeof one);
            }
        }
}

TEST_WITH(a_constant_feature_counts_for_nothing, blob_setup, NULL) {
    static float before[BLOB_ROWS * BLOB_CLASSES], after[BLOB_ROWS * BLOB_CLASSES];
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(MR_CLASSIFIER_SOFTMAX);
    blob_scores(made, before);
    expect_words(blob_heard, "1 of 12 features is the same in all training rows, and counts for nothing (it "
                                       "is feature 11)");
    for (size_t row = 0; row < BLOB_ROWS; row++)
        blob_features[row * BLOB_WIDTH + BLOB_WIDTH - 1] = 1e6f;
    blob_scores(made, after);
    assert_memory_equal(before, after, sizeof before);
}

/* The scaler must ignore validation and test rows: test features may even be NaN, and no bit may change. */
TEST_WITH(the_test_part_is_not_looked_at, blob_setup, NULL) {
    static float kept[BLOB_ROWS * BLOB_WIDTH];
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        const mr_fit_params params = blob_params((mr_classifier_kind)kind);
        memcpy(kept, blob_features, sizeof kept);
        ENDED_BY(mr_classifier_destroy) mr_classifier *one = blob_fit(&blob_rows, &params);
        for (size_t i = 0; i < BLOB_ROWS * BLOB_WIDTH; i++)
            if (blob_parts[i / BLOB_WIDTH] == MR_ROW_TEST)
                blob_features[i] = NAN;
        ENDED_BY(mr_classifier_destroy) mr_classifier *other = blob_fit(&blob_rows, &params);
        memcpy(blob_features, kept, sizeof kept);
        blob_expect_same(one, other);
    }
}

TEST_WITH(balanced_weights_help_the_rare_class, blob_setup, NULL) {
    double recall[2];
    static float scores[BLOB_ROWS * BLOB_CLASSES];
    for (size_t row = 0; row < BLOB_ROWS; row++)
        if (blob_classes[row] == 0 && row % 12 && blob_parts[row] == MR_ROW_TRAIN)
            blob_parts[row] = MR_ROW_NONE;
    for (int balanced = 0; balanced < 2; balanced++) {
        mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
        const double strong = 0.002;
        params.penalties = &strong;
        params.penalty_count = 1;
        params.class_weights = balanced ? MR_CLASS_WEIGHTS_BALANCED : MR_CLASS_WEIGHTS_NONE;
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
        int right = 0, all = 0;
        blob_scores(made, scores);
        for (size_t row = 0; row < BLOB_ROWS; row++)
            if (blob_parts[row] == MR_ROW_TEST && blob_classes[row] == 0) {
                all++;
                right += first_of(scores + row * BLOB_CLASSES) == 0;
            }
        recall[balanced] = (double)right / all;
        assert_int_equal(mr_classifier_card_of(made)->balanced, balanced);
    }
    assert_true(recall[1] > recall[0] + 0.2);
}

TEST_WITH(of_equal_penalties_the_strongest_is_taken, blob_setup, NULL) {
    const double path[] = {1.0, 0.01, 0.1, 0.01};
    mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
    params.penalties = path;
    params.penalty_count = 4;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    assert_int_equal(card->tried_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(i == 0 || card->tried[i].c >= card->tried[i - 1].c);
        assert_true(card->tried[card->chosen].validation <= card->tried[i].validation);
        assert_true(i >= card->chosen || card->tried[i].validation > card->tried[card->chosen].validation);
    }
    mr_classifier_destroy(&made);
    /* Rows under penalties so strong that all log losses are equal. */
    const double equal[] = {1e-300, 1e-301};
    params.penalties = equal;
    params.penalty_count = 2;
    made = blob_fit(&blob_rows, &params);
    card = mr_classifier_card_of(made);
    assert_true(card->tried[0].validation == card->tried[1].validation);
    assert_int_equal(card->chosen, 0);
    assert_true(card->tried[0].c == 1e-301);
}

/* A NaN loss must be worse than any number, even if it came first. */
TEST_WITH(a_loss_that_is_no_number_is_replaced, blob_setup, NULL) {
    const double losses[] = {(double)NAN, 0.5, (double)NAN, 0.25, 0.75};
    const bool expected[] = {true, true, false, true, false};
    mr_fit_tried list[5];
    mr_classifier made = {.card.tried = list};
    mr_fitting t = {.made = &made};
    for (size_t i = 0; i < 5; i++) {
        bool better;
        mr_train_tried(&t, (mr_fit_tried){.validation = losses[i]}, &better);
        assert_int_equal(better, expected[i]);
    }
    assert_int_equal(made.card.chosen, 3);
}

TEST_WITH(a_perceptron_stops_early, blob_setup, NULL) {
    mr_fit_params params = blob_params(MR_CLASSIFIER_PERCEPTRON);
    params.steps = 500;
    params.patience = 3;
    params.rate = 0.02;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    assert_string_equal(card->tried[0].end, "patience");
    assert_true(card->tried[0].steps < 400);
    assert_int_equal(card->layer_count, 3);
    assert_int_equal(card->units[0], 128);
    assert_int_equal(card->units[1], 64);
    assert_int_equal(card->units[2], BLOB_CLASSES);
}

/* Two minibatches; the second has fewer chunks, but more blocks. */
TEST_WITH(the_last_minibatch_may_be_smaller, blob_setup, NULL) {
    enum { ROWS = 129 * 256, WIDTH = 2 };
    FREED float *features = malloc(ROWS * WIDTH * sizeof *features);
    FREED int32_t *classes = malloc(ROWS * sizeof *classes);
    assert_non_null(features);
    assert_non_null(classes);
    for (int row = 0; row < ROWS; row++) {
        classes[row] = row % 2;
        features[row * WIDTH] = (float)(row % 2) + 0.25f * (float)(row % 3);
        features[row * WIDTH + 1] = (float)(row % 7);
    }
    const mr_labelled_rows rows = {.features = features, .rows = ROWS, .width = WIDTH, .classes = classes,
                                   .class_count = 2, .class_names = blob_names};
    const size_t hidden = 3;
    mr_fit_params params = blob_params(MR_CLASSIFIER_PERCEPTRON);
    params.hidden = &hidden;
    params.hidden_count = 1;
    params.minibatch = 65 * 256;
    params.rate = 0.05;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&rows, &params);
    float scores[2 * WIDTH];
    assert_int_equal(mr_classifier_scores(made, features, 2, WIDTH, scores), MR_OK);
    assert_true(scores[0] > 0.5f && scores[3] > 0.5f);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* Sets two penalties and the path of the state. A perceptron has no penalty. */
static mr_fit_params params_at(mr_classifier_kind kind, const char *path) {
    static const double two[] = {0.01, 1.0};
    mr_fit_params params = blob_params(kind);
    params.penalties = two;
    params.penalty_count = kind == MR_CLASSIFIER_PERCEPTRON ? 0 : 2;
    params.state = path;
    params.resume = path != NULL;
    return params;
}

/* Makes the fit cancel after some steps. */
static void cancel_at(mr_fit_params *params, blob_stopping *s) {
    mr_classifier *made;
    params->progress = blob_stop;
    params->user = s;
    params->warning = NULL;
    assert_int_equal(mr_classifier_fit(&made, &blob_rows, params), MR_ERROR_CANCELLED);
}

/* Cancels after `steps` steps and resumes, until the fit is complete. */
static mr_classifier *fit_in_pieces(const mr_labelled_rows *rows, const mr_fit_params *given, const char *path,
                                    int steps) {
    mr_classifier *made = NULL;
    int status = MR_ERROR_CANCELLED;
    for (int turn = 0; status == MR_ERROR_CANCELLED; turn++) {
        blob_stopping s = {.after = steps};
        mr_fit_params params = *given;
        params.state = path;
        params.resume = true;
        params.progress = blob_stop;
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

TEST_WITH(a_fit_that_goes_on_makes_the_same_bits, blob_setup, NULL) {
    char path[256];
    blob_folder("state", path);
    static const mr_classifier_kind kinds[] = {MR_CLASSIFIER_SOFTMAX, MR_CLASSIFIER_LOGISTIC,
                                               MR_CLASSIFIER_SQUARED_HINGE, MR_CLASSIFIER_PERCEPTRON};
    for (size_t i = 0; i < 4; i++)
        for (int steps = UNDER_TSAN(10, 1); steps < 20; steps += 9) {
            const mr_fit_params params = params_at(kinds[i], NULL);
            ENDED_BY(mr_classifier_destroy) mr_classifier *one = blob_fit(&blob_rows, &params);
            ENDED_BY(mr_classifier_destroy) mr_classifier *other = fit_in_pieces(&blob_rows, &params, path, steps);
            blob_expect_same(one, other);
            const mr_classifier_card *card = mr_classifier_card_of(one), *same = mr_classifier_card_of(other);
            assert_int_equal(card->chosen, same->chosen);
            assert_int_equal(card->tried_count, same->tried_count);
            for (size_t k = 0; k < card->tried_count; k++) {
                assert_true(card->tried[k].objective == same->tried[k].objective);
                assert_int_equal(card->tried[k].steps, same->tried[k].steps);
            }
        }
}

TEST_WITH(a_fit_that_goes_on_has_the_same_warnings, blob_setup, NULL) {
    char path[256];
    blob_folder("warned", path);
    mr_fit_params params = params_at(MR_CLASSIFIER_SOFTMAX, NULL);
    params.steps = 3;
    mr_classifier *one = blob_fit(&blob_rows, &params), *other = fit_in_pieces(&blob_rows, &params, path, 4);
    const mr_classifier_card *card = mr_classifier_card_of(one), *same = mr_classifier_card_of(other);
    assert_int_equal(card->warning_count, 3); /* both penalties, and a constant feature */
    assert_int_equal(same->warning_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(card->warnings[i], same->warnings[i]);
    mr_classifier_destroy(&one);
    mr_classifier_destroy(&other);
}

/* The state stays until the caller removes it. A fit from there takes no step and makes the same classifier. */
TEST_WITH(a_whole_fit_can_be_kept, blob_setup, NULL) {
    static const mr_classifier_kind kinds[] = {MR_CLASSIFIER_SOFTMAX, MR_CLASSIFIER_SQUARED_HINGE,
                                               MR_CLASSIFIER_PERCEPTRON};
    char path[256];
    blob_folder("kept", path);
    for (size_t i = 0; i < 3; i++) {
        blob_stopping s = {.after = 0};
        mr_fit_params params = params_at(kinds[i], path);
        params.keep_state = true;
        ENDED_BY(mr_classifier_destroy) mr_classifier *one = blob_fit(&blob_rows, &params);
        assert_int_equal(access(path, F_OK), 0);
        params.progress = blob_stop; /* would cancel at the first step */
        params.user = &s;
        params.warning = NULL;
        ENDED_BY(mr_classifier_destroy) mr_classifier *other = blob_fit(&blob_rows, &params);
        assert_int_equal(access(path, F_OK), 0);
        blob_expect_same(one, other);
        assert_int_equal(mr_classifier_card_of(one)->chosen, mr_classifier_card_of(other)->chosen);
        assert_int_equal(mr_classifier_card_of(one)->tried_count, mr_classifier_card_of(other)->tried_count);
        params.keep_state = false;
        mr_classifier_destroy(&other);
        other = blob_fit(&blob_rows, &params);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static int die(void *user, const mr_fit_progress *progress) {
    return progress->penalty == 1 ? kill(getpid(), SIGKILL) : 0;
}

/* A killed fit leaves an earlier state. Later steps are repeated, with the same bits. */
TEST_WITH(a_fit_that_was_killed_makes_the_same_bits, blob_setup, NULL) {
    char path[256];
    blob_folder("killed", path);
    mr_fit_params params = params_at(MR_CLASSIFIER_SOFTMAX, NULL);
    blob_stopping s = {.after = 4};
    ENDED_BY(mr_classifier_destroy) mr_classifier *one = blob_fit(&blob_rows, &params), *other;
    params = params_at(MR_CLASSIFIER_SOFTMAX, path);
    cancel_at(&params, &s);
    params.progress = die;
    int how = 0;
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (!child) {
        mr_classifier_fit(&other, &blob_rows, &params);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    params.progress = NULL;
    other = blob_fit(&blob_rows, &params);
    blob_expect_same(one, other);
}

static void refuse_state(const char *path, const mr_labelled_rows *rows, const mr_fit_params *params, const char *why) {
    mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, rows, params), MR_ERROR_DATA);
    assert_null(made);
    if (!strstr(mr_message(), why) || !strstr(mr_message(), path))
        fail_msg("%s", mr_message());
}

TEST_WITH(the_state_of_another_fit_is_refused, blob_setup, NULL) {
    char path[256];
    blob_folder("other", path);
    blob_stopping s = {.after = 3};
    mr_labelled_rows rows = blob_rows;
    mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
    params.state = path;
    params.resume = true;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made;
    cancel_at(&params, &s);
    expect_words(mr_message(), path);
    blob_features[50] += 0.5f;
    refuse_state(path, &rows, &params, "other rows");
    blob_features[50] -= 0.5f;
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
    params.resume = false; /* starts over */
    s = (blob_stopping){.after = 100000};
    assert_int_equal(mr_classifier_fit(&made, &rows, &params), MR_OK);
    assert_int_equal(access(path, F_OK), -1);
}

/* The checksum is valid, but numbers used as indices are not. */
TEST_WITH(a_state_with_wrong_counters_is_refused, blob_setup, NULL) {
    enum { BYTES = 1 << 20, LENGTH = BLOB_CLASSES * (BLOB_WIDTH + 1) };
    static char bytes[BYTES];
    char path[256];
    blob_folder("counters", path);
    blob_stopping s = {.after = 3};
    mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
    params.state = path;
    params.resume = true;
    cancel_at(&params, &s);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    const size_t found = fread(bytes, 1, BYTES, file);
    /* After the vectors comes the checksum; before them: value, end, step, evaluations, pairs, ... */
    char *end = bytes + found - 8 - 22 * LENGTH * sizeof(double) - 10 * 8 - 6 * 4;
    int32_t at;
    memcpy(&at, end + 4, sizeof at);
    assert_in_range(at, 1, 10);
    at = -1000000000;
    memcpy(end + 4, &at, sizeof at);
    const uint64_t sum = XXH3_64bits(bytes, found - 8);
    memcpy(bytes + found - 8, &sum, sizeof sum);
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, found, file), found);
    fclose(file);
    s = (blob_stopping){.after = 100000};
    refuse_state(path, &blob_rows, &params, "damaged");
    unlink(path);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(const mr_labelled_rows *rows, const mr_fit_params *params, int status, const char *why) {
    mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, rows, params), status);
    assert_null(made);
    expect_words(mr_message(), why);
}

TEST_WITH(rows_that_cannot_be_fitted_to_are_refused, blob_setup, NULL) {
    mr_labelled_rows rows = blob_rows;
    const mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
    rows.class_count = 1;
    refuse(&rows, &params, MR_ERROR_DATA, "there is one class only");
    static const char *const five[] = {"ant", "bee", "cat", "dog", "eel"}, *const twice[] = {"ant", "bee", "bee",
                                                                                             "dog"};
    static const char *const broken[] = {"ant", "b\nee", "cat", "dog"}, *const wrong[] = {"ant", "\xff", "cat", "dog"};
    rows = blob_rows;
    rows.class_count = 5;
    rows.class_names = five;
    refuse(&rows, &params, MR_ERROR_DATA, "there are no training rows of \"eel\"");
    rows = blob_rows;
    rows.class_names = twice;
    refuse(&rows, &params, MR_ERROR_DATA, "two classes are called \"bee\"");
    rows.class_names = broken;
    refuse(&rows, &params, MR_ERROR_DATA, "the name of class 1 is not one line");
    rows.class_names = wrong;
    refuse(&rows, &params, MR_ERROR_DATA, "the name of class 1 is not UTF-8");
    rows = blob_rows;
    blob_classes[5] = 4;
    refuse(&rows, &params, MR_ERROR_DATA, "row 5 is of class 4, and there are 4");
    blob_classes[5] = 0;
    blob_parts[6] = MR_ROW_TRAIN;
    blob_features[6 * BLOB_WIDTH + 3] = NAN;
    refuse(&rows, &params, MR_ERROR_DATA, "feature 3 of row 6 is nan, not a finite number");
    blob_features[6 * BLOB_WIDTH + 3] = -INFINITY;
    blob_parts[6] = MR_ROW_VALIDATION;
    refuse(&rows, &params, MR_ERROR_DATA, "feature 3 of row 6 is -inf, not a finite number");
    for (size_t i = 0; i < BLOB_ROWS * BLOB_WIDTH; i++)
        blob_features[i] = 2.0f;
    refuse(&rows, &params, MR_ERROR_DATA, "all 12 features are the same");
    rows.rows = 0;
    refuse(&rows, &params, MR_ERROR_DATA, "there are no rows");
}

/* Sums of such features exceed floats unless the features are standardised. */
TEST_WITH(features_that_are_too_large_are_refused, blob_setup, NULL) {
    mr_fit_params params = blob_params(MR_CLASSIFIER_SOFTMAX);
    for (size_t i = 0; i < BLOB_ROWS * BLOB_WIDTH; i++)
        blob_features[i] *= 2e36f;
    params.scaling = MR_SCALING_NONE;
    refuse(&blob_rows, &params, MR_ERROR_DATA, "so large that sums");
    params.scaling = MR_SCALING_STANDARD;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
}

/* The squares overflow floats, so all distances would be equal. Standardised features can be distinguished. */
TEST_WITH(distances_that_are_too_large_are_refused, blob_setup, NULL) {
    mr_fit_params params = blob_params(MR_CLASSIFIER_NEIGHBORS);
    params.scaling = MR_SCALING_NONE;
    for (int part = MR_ROW_TRAIN; part <= MR_ROW_TEST; part++) {
        size_t row = 0;
        while (blob_parts[row] != part)
            row++;
        const float kept = blob_features[row * BLOB_WIDTH];
        char why[128];
        snprintf(why, sizeof why, "the features of row %zu are so large that its distances", row);
        blob_features[row * BLOB_WIDTH] = 1e37f;
        refuse(&blob_rows, &params, MR_ERROR_DATA, why);
        blob_features[row * BLOB_WIDTH] = kept;
    }
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(&blob_rows, &params);
    const double share = share_right(made, MR_ROW_TEST);
    mr_classifier_destroy(&made);
    for (int large = 0; large < 2; large++) {
        for (size_t i = 0; i < BLOB_ROWS * BLOB_WIDTH; i++)
            blob_features[i] *= large ? 1e18f : 1e17f;
        if (large)
            refuse(&blob_rows, &params, MR_ERROR_DATA, "divide all features by one number");
        else {
            made = blob_fit(&blob_rows, &params);
            assert_true(share_right(made, MR_ROW_TEST) == share);
            mr_classifier_destroy(&made);
        }
    }
    params.scaling = MR_SCALING_STANDARD;
    made = blob_fit(&blob_rows, &params);
    assert_true(share_right(made, MR_ROW_TEST) >= 0.88);
}

TEST_WITH(parameters_that_cannot_be_are_refused, blob_setup, NULL) {
    static const double none = 0.0, two[] = {1.0, 2.0};
    static const size_t hidden[] = {0};
    static const struct {
        mr_fit_params params;
        const char *why;
    } cases[] = {
        {{.kind = MR_CLASSIFIER_SOFTMAX, .penalties = &none, .penalty_count = 1}, "a penalty C of 0 cannot be"},
        {{.kind = MR_CLASSIFIER_PERCEPTRON, .hidden = hidden, .hidden_count = 1}, "hidden layer 1 has 0 units"},
        {{.kind = MR_CLASSIFIER_PERCEPTRON, .minibatch = 100}, "minibatches of 100 rows"},
        {{.kind = MR_CLASSIFIER_NEIGHBORS, .k = 1000}, "fewer than k = 1000"},
        {{.kind = (mr_classifier_kind)17}, "no classifier of kind 17"},
        {{.kind = MR_CLASSIFIER_NEIGHBORS, .doubles = true}, "kind neighbors has no products"},
        {{.kind = MR_CLASSIFIER_SOFTMAX, .threads = 65}, "65 threads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(&blob_rows, &cases[i].params, MR_ERROR_USAGE, cases[i].why);
    mr_labelled_rows rows = blob_rows;
    rows.parts = NULL;
    refuse(&rows, &(mr_fit_params){.kind = MR_CLASSIFIER_SOFTMAX, .penalties = two, .penalty_count = 2}, MR_ERROR_USAGE,
           "of 2 penalties one is chosen by the validation rows, and there are none");
}

static void expect_warning(const mr_labelled_rows *rows, const char *text) {
    const mr_fit_params params = blob_params(MR_CLASSIFIER_PROTOTYPES);
    blob_heard[0] = 0;
    ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit(rows, &params);
    const mr_classifier_card *card = mr_classifier_card_of(made);
    bool found = false;
    for (size_t i = 0; i < card->warning_count; i++)
        found = found || strstr(card->warnings[i], text);
    if (!found || !strstr(blob_heard, text))
        fail_msg("\"%s\" is not in: %s", text, blob_heard);
}

#define A_DOZEN                                                                                                        \
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"

TEST_WITH(what_is_doubtful_is_warned_of, blob_setup, NULL) {
    static const char *const alike[] = {"ant", "Bee", "bee", "dog"};
    mr_labelled_rows rows = blob_rows;
    rows.class_names = alike;
    expect_warning(&rows, "the classes \"Bee\" and \"bee\" differ by case only");
    static const char *const beyond[] = {"\xc3\x84pfel", "Bee", "\xc3\xa4pfel", "dog"};
    rows.class_names = beyond;
    expect_warning(&rows, "the classes \"\xc3\x84pfel\" and \"\xc3\xa4pfel\" differ by case only");
    rows = blob_rows;
    for (size_t row = 0; row < BLOB_ROWS; row++)
        if (blob_classes[row] == 3 && blob_parts[row] == MR_ROW_VALIDATION)
            blob_parts[row] = MR_ROW_NONE;
    expect_warning(&rows, "there are no validation rows of \"dog\"");
    /* A long name is truncated between characters. */
    static const char *const wide[] = {"ant", "bee", "cat", "x" A_DOZEN A_DOZEN A_DOZEN};
    rows.class_names = wide;
    expect_warning(&rows, "there are no validation rows of \"x" A_DOZEN A_DOZEN
                          "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\",");
    rows = blob_rows;
    for (size_t row = 0; row < BLOB_ROWS; row++)
        blob_groups[row] = blob_classes[row] == 1 && blob_parts[row] == MR_ROW_TRAIN ? 77777 : row;
    for (size_t row = 0; row < BLOB_ROWS; row++)
        if (blob_classes[row] == 1 && blob_parts[row] != MR_ROW_TRAIN)
            blob_parts[row] = MR_ROW_NONE;
    expect_warning(&rows, "all rows of \"bee\" are of one group");
    blob_draw();
    for (size_t row = 0; row < BLOB_ROWS; row++)
        blob_groups[row] = row / 20;
    expect_warning(&rows, "35 groups have rows in several of the parts");
}

/* ---- label noise ------------------------------------------------------------------------------------------------- */

TEST_WITH(rows_with_wrong_labels_are_found, blob_setup, NULL) {
    enum { WRONG = 12 };
    mr_noisy_row noisy[100];
    size_t found = 0, named = 0;
    for (size_t i = 0; i < WRONG; i++) {
        blob_parts[i * 50] = MR_ROW_TRAIN;
        blob_classes[i * 50] = (blob_classes[i * 50] + 1) % BLOB_CLASSES;
    }
    for (int threads = 1; threads <= 4; threads += 3) {
        const mr_noise_params params = {.k = 10, .share = 0.8, .threads = threads};
        assert_int_equal(mr_label_noise(&blob_rows, &params, noisy, 100, &found), MR_OK);
        assert_in_range(found, WRONG / 2, 3 * WRONG);
        named = 0;
        for (size_t i = 0; i < found; i++) {
            bool wrong = noisy[i].row % 50 == 0 && noisy[i].row / 50 < WRONG;
            named += wrong;
            assert_int_equal(noisy[i].class_given, blob_classes[noisy[i].row]);
            assert_true(noisy[i].share >= 0.8 && noisy[i].class_near != noisy[i].class_given);
            assert_true(i == 0 || noisy[i].share <= noisy[i - 1].share);
            if (wrong)
                assert_int_equal((noisy[i].class_near + 1) % BLOB_CLASSES, noisy[i].class_given);
        }
        assert_in_range(named, WRONG / 2, WRONG);
    }
}

/* Counts the calls, on any thread, and stops at the third. */
static bool stop_at_third(void *user) {
    return atomic_fetch_add((_Atomic int *)user, 1) >= 2;
}

TEST_WITH(a_search_for_wrong_labels_ends_if_it_is_asked_to, blob_setup, NULL) {
    mr_noisy_row noisy[10];
    for (int threads = 1; threads <= 16; threads *= 4) {
        _Atomic int asked = 0;
        size_t found = 99;
        const mr_noise_params params = {.threads = threads, .stopped = stop_at_third, .user = &asked};
        assert_int_equal(mr_label_noise(&blob_rows, &params, noisy, 10, &found), MR_ERROR_CANCELLED);
        assert_int_equal(found, 0);
        /* Each thread may ask once more at most. */
        assert_in_range(asked, 3, 2 + threads);
    }
}

/* These rows cannot have agreement: all their neighbours, in other groups, belong to other classes. */
TEST_WITH(rows_of_a_class_with_one_group_are_not_judged, blob_setup, NULL) {
    mr_noisy_row noisy[BLOB_ROWS];
    size_t found = 0;
    for (size_t row = 0; row < BLOB_ROWS; row++)
        blob_groups[row] = (uint64_t)blob_classes[row];
    const mr_noise_params params = {.k = 10, .share = 0.3, .threads = 2};
    assert_int_equal(mr_label_noise(&blob_rows, &params, noisy, BLOB_ROWS, &found), MR_OK);
    assert_int_equal(found, 0);
}

RUN_TESTS(NULL, NULL)
