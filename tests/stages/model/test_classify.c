/* classify, compared with NumPy's linear layer and scores in double precision; also the vote over a window. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/model/vote.h"
#include "tests/support/models.h"
#include "tests/support/suite.h"

enum { CLASSES = 6 };

static float pairs[MODELS_FRAMES * 5], logits[MODELS_FRAMES * CLASSES];

/* Returns the class with this rank in a row, among scores of at least `threshold`. -1 if there are fewer. */
static int ranked(const float *scores, int rank, float threshold) {
    for (int i = 0; i < CLASSES; i++) {
        int better = 0;
        for (int j = 0; j < CLASSES; j++)
            better += scores[j] > scores[i];
        if (better == rank)
            return scores[i] >= threshold ? i : -1;
    }
    return -1;
}

static void expect(const char *format, const float *frames, const char *options, const char *reference, int most,
                   float threshold) {
    static arrived got;
    static float scores[MODELS_FRAMES * CLASSES];
    char stages[1024];
    got = (arrived){.look = look_at_classes};
    snprintf(stages, sizeof stages, "  classify: {input: in, %s}\n  sink: {type: callback, input: classify}\n",
             options);
    models_expect_run(format, frames, stages, &got);
    models_read(reference, scores, MODELS_FRAMES * CLASSES);
    for (size_t frame = 0; frame < MODELS_FRAMES; frame++) {
        const float *row = scores + frame * CLASSES;
        int found = 0;
        for (; found < most && ranked(row, found, threshold) >= 0; found++) {
            const mr_class *class = &got.classes[frame][found];
            assert_int_equal(class->index, ranked(row, found, threshold));
            assert_true(fabsf(class->score - row[class->index]) <= 1e-6f * (1 + fabsf(row[class->index])));
        }
        assert_int_equal(got.class_count[frame], found);
    }
}

MODEL_TEST(scores_are_those_of_the_reference) {
    static const char *const activations[] = {"none", "softmax", "sigmoid"};
    static const char *const heads[] = {"head.npy", "head-f8.npy"};
    for (size_t i = 0; i < 3; i++) {
        char options[256], reference[64];
        snprintf(reference, sizeof reference, "scores-%s", activations[i]);
        for (size_t head = 0; head < 2; head++) {
            snprintf(options, sizeof options, "weights: @/%s, activation: %s, top_k: 4", heads[head], activations[i]);
            expect("f32 5", pairs, options, reference, 4, -INFINITY);
        }
        snprintf(options, sizeof options, "activation: %s, top_k: 10", activations[i]);
        expect("f32 6", logits, options, reference, CLASSES, -INFINITY);
        snprintf(options, sizeof options, "activation: %s, threshold: 0.3", activations[i]);
        expect("f32 6x1x1", logits, options, reference, 5, 0.3f);
    }
}

MODEL_TEST(batches_and_accelerators_change_nothing) {
    expect("f32 5", pairs, "weights: @/head.npy, batch: {size: 4, timeout: 1ms}", "scores-softmax", 5, 0);
    expect("f32 5", pairs, "weights: @/head.npy, device: 'sim:0'", "scores-softmax", 5, 0);
    expect("f32 6", logits, "device: 'sim:0', batch: {size: 3, timeout: 1ms}", "scores-softmax", 5, 0);
}

/* NumPy, PyTorch and ONNX Runtime give no softmax score for logits that are not finite. Such a frame must have no
 * classes, and other frames must keep theirs. */
TEST(logits_that_are_not_finite_have_no_classes) {
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static const char *const options[] = {"", ", batch: {size: 4, timeout: 1ms}", ", device: 'sim:0'",
                                          ", activation: none", ", window: 3"};
    static float frames[MODELS_FRAMES * CLASSES];
    static arrived got;
    for (size_t kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            char stages[256];
            for (size_t k = 0; k < MODELS_FRAMES * CLASSES; k++)
                frames[k] = (float)(k % CLASSES);
            for (int c = 0; c < CLASSES; c++)
                frames[2 * CLASSES + c] = kind == 2 || c == 3 ? odd[kind] : frames[2 * CLASSES + c];
            snprintf(stages, sizeof stages,
                     "  classify: {input: in%s}\n  sink: {type: callback, input: classify}\n", options[i]);
            got = (arrived){.look = look_at_classes};
            models_expect_run("f32 6", frames, stages, &got);
            for (size_t frame = 0; frame < MODELS_FRAMES; frame++)
                if (i < 4)
                    assert_int_equal(got.class_count[frame], frame == 2 ? 0 : 5);
        }
}

static void look_at_labels(arrived *seen, const mr_frame *frame) {
    look_at_classes(seen, frame);
    for (size_t i = 0; i < seen->class_count[seen->frames]; i++) {
        const mr_class *class = &seen->classes[seen->frames][i];
        char label[32];
        snprintf(label, sizeof label, "class %d", class->index);
        assert_string_equal(class->label, label);
    }
}

MODEL_TEST(classes_have_labels_and_tensors_of_infer_are_classified) {
    static arrived got;
    static const char *const choices[] = {"", ", tensor: sum"};
    for (size_t i = 0; i < 2; i++) {
        char stages[1024];
        got = (arrived){.look = look_at_labels};
        snprintf(stages, sizeof stages,
                 "  wide: {type: 'null', input: in}\n  other: {type: 'null', input: in}\n"
                 "  network: {type: infer, join: {a: wide, b: other}, model: @/two-inputs.onnx}\n"
                 "  classify: {input: network, weights: @/head.npy, labels: @/labels.txt%s}\n"
                 "  sink: {type: callback, input: classify}\n",
                 choices[i]);
        models_expect_run("f32 5", pairs, stages, &got);
        assert_int_equal(got.class_count[0], 5);
    }
}

/* ---- the window ------------------------------------------------------------------------------------------------ */

TEST(the_window_votes) {
    static const struct {
        int32_t best;
        int32_t first, second;
        float share;
    } steps[] = {{7, 7, -1, 1},         {3, 3, 7, 0.5f},       {3, 3, 7, 2 / 3.0f},
                 {9, 3, 9, 2 / 3.0f},   {-1, 3, 9, 1 / 3.0f},  {9, 9, -1, 2 / 3.0f},
                 {-1, 9, -1, 1 / 3.0f}, {-1, 9, -1, 1 / 3.0f}, {-1, -1, -1, 0}};
    mr_vote *vote = NULL;
    assert_int_equal(mr_vote_create(&vote, 3), MR_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int32_t index[2] = {-1, -1}, found = -1;
        float score[2] = {0, 0};
        mr_vote_add(vote, steps[i].best, index, score, 2, &found);
        assert_int_equal(found, (steps[i].first >= 0) + (steps[i].second >= 0));
        assert_int_equal(index[0], steps[i].first);
        assert_int_equal(index[1], steps[i].second);
        assert_true(fabsf(score[0] - steps[i].share) < 1e-6f);
    }
    mr_vote_destroy(&vote);
    assert_null(vote);
}

MODEL_TEST(a_window_counts_the_frames_of_a_source) {
    static arrived got;
    got = (arrived){.look = look_at_classes};
    models_expect_run("f32 6", logits,
                      "  classify: {input: in, window: 3}\n  sink: {type: callback, input: classify}\n", &got);
    for (size_t frame = 0; frame < MODELS_FRAMES; frame++) {
        size_t begin = frame < 2 ? 0 : frame - 2;
        int votes = 0;
        for (size_t i = begin; i <= frame; i++)
            votes += ranked(logits + i * CLASSES, 0, -INFINITY) == got.classes[frame][0].index;
        assert_true(votes > 0);
        assert_true(fabsf(got.classes[frame][0].score - (float)votes / (float)(frame + 1 - begin)) < 1e-6f);
    }
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

MODEL_TEST(weights_that_do_not_fit_are_refused) {
    REFUSED(MR_ERROR_CONFIG, "f32 5", "type: classify, weights: @/head.npy, labels: @/few.txt", "few.txt", " 2 labels",
            " 6 classes");
    REFUSED(MR_ERROR_CONFIG, "f32 6", "type: classify, labels: @/few.txt", "few.txt", " 2 labels", " 6 classes");
    REFUSED(MR_ERROR_CONFIG, "f32 7", "type: classify, weights: @/head.npy", "head.npy", "6x6", "5 numbers", "7");
    REFUSED(MR_ERROR_CONFIG, "u8 5", "type: classify, weights: @/head.npy", "u8");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: classify, weights: @/head-fortran.npy", "Fortran");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: classify, weights: @/head-big.npy", "big-endian");
    REFUSED(MR_ERROR_DATA, "f32 5", "type: classify, weights: @/labels.txt", "labels.txt");
    REFUSED(MR_ERROR_NO_INPUT, "f32 5", "type: classify, weights: @/none.npy", "none.npy");
    REFUSED(MR_ERROR_NO_INPUT, "f32 6", "type: classify, labels: @/none.txt", "none.txt");
    REFUSED(MR_ERROR_CONFIG, "f32 6", "type: classify, window: 4, batch: {size: 2}", "window");
}

MODEL_TEST(inputs_without_a_vector_are_refused) {
    char message[4096];
    REFUSED(MR_ERROR_CONFIG, "f32 2x3", "type: classify, top_k: 2", "no vector", "in gives a tensor f32 2x3;");
    assert_int_equal(models_refused("f32 5",
                                    "  wide: {type: 'null', input: in}\n  other: {type: 'null', input: in}\n"
                                    "  network: {type: infer, join: {a: wide, b: other}, model: @/two-inputs.onnx}\n"
                                    "  classify: {input: network, tensor: product}\n"
                                    "  few: {type: classify, input: network, tensor: sum, labels: @/few.txt}\n"
                                    "  head: {type: classify, input: network, tensor: sum, weights: @/head.npy}\n"
                                    "  sink: {type: callback, input: [classify, few, head]}\n",
                                    message, sizeof message),
                     MR_ERROR_CONFIG);
    expect_words(message,
                 "stages.classify: no vector called \"product\" is among the results that come from "
                                    "network; it gives \"sum\", a tensor f32 5; \"difference\", a tensor f32 5");
    expect_words(message, "10:");
    expect_words(message, "has 2 labels, but there are 5 classes");
    assert_null(strstr(message, "stages.head"));
}

static int make(void **state) {
    if (models_make("classify-test-files")) {
        models_read("pairs", pairs, MODELS_FRAMES * 5);
        models_read("logits", logits, MODELS_FRAMES * CLASSES);
    }
    return 0;
}

RUN_TESTS(make, NULL)
