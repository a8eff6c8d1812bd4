/* Classifiers saved in a folder: opened again, damaged, saved to a full disk, and used by `classify`. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/classifier.h"
#include "millrace/status.h"
#include "tests/support/blobs.h"
#include "tests/support/clips.h"
#include "tests/support/models.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

/* ---- the folder -------------------------------------------------------------------------------------------------- */

TEST_WITH(what_is_opened_is_what_was_saved, blob_setup, NULL) {
    char folder[256];
    blob_folder("head", folder);
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        const mr_head_notes notes = {.pipeline = "zoo", .stages = "decode <- source.out at in\nhog.bins = 9\n",
                                     .digest = "abc", .split = "by \"group\"", .figures = "{\"accuracy\": 0.125}"};
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(kind), *opened;
        if (mr_classifier_save(made, folder, &notes) || mr_classifier_open(&opened, folder))
            fail_msg("%s", mr_message());
        blob_expect_same(made, opened);
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
    }
    blob_remove(folder);
}

static int count_entries(const char *folder) {
    int count = -1;
    FILE *out = clip_ask("ls -A '%s' | wc -l", folder);
    assert_int_equal(fscanf(out, "%d", &count), 1);
    pclose(out);
    return count;
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, text, strlen(text));
}

TEST_WITH(only_a_classifier_is_written_over, blob_setup, NULL) {
    char home[256], path[600], file[700];
    blob_folder("home", home);
    snprintf(path, sizeof path, "%s/head/", home);
    mr_classifier *made = blob_fit_kind(MR_CLASSIFIER_PROTOTYPES);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO); /* the parent folder is missing */
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    assert_int_equal(count_entries(home), 1);
    assert_int_equal(count_entries(path), 3);
    write_text(path, "notes.txt", "mine");
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    expect_words(mr_message(), "\"notes.txt\"");
    assert_int_equal(count_entries(path), 4);
    assert_int_equal(count_entries(home), 1);
    snprintf(file, sizeof file, "%s/notes.txt", path);
    assert_int_equal(unlink(file), 0);
    snprintf(file, sizeof file, "%s/layer-1.npy", path);
    assert_int_equal(mkdir(file, 0700), 0); /* a folder with a file's name */
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    expect_words(mr_message(), "\"layer-1.npy\"");
    assert_int_equal(rmdir(file), 0);
    write_text(path, "model.onnx", "of the classifier before");
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    assert_int_equal(count_entries(path), 3);
    assert_int_equal(count_entries(home), 1);
    const mr_head_notes wrong = {.figures = "{\"accuracy\": "};
    assert_int_equal(mr_classifier_save(made, path, &wrong), MR_ERROR_USAGE);
    snprintf(file, sizeof file, "%s/head.json", path);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    expect_words(mr_message(), "neither empty nor the folder of a classifier");
    snprintf(path, sizeof path, "%s/file", home);
    write_bytes(path, "", 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    expect_words(mr_message(), "is not a folder");
    assert_int_equal(count_entries(home), 2);
    mr_classifier_destroy(&made);
    blob_remove(home);
}

/* The bytes compared with the digest must be the bytes used. If the file were read twice, it could change in
 * between. */
TEST_WITH(each_file_is_read_once, blob_setup, NULL) {
    char folder[256];
    _Alignas(struct inotify_event) char events[8192];
    blob_folder("once", folder);
    static const mr_classifier_kind kinds[] = {MR_CLASSIFIER_SOFTMAX, MR_CLASSIFIER_NEIGHBORS,
                                               MR_CLASSIFIER_PERCEPTRON};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(kinds[i]), *opened;
        size_t reads = 0;
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
        int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        /* The kernel merges two successive events if they are equal. */
        assert_true(watch >= 0 && inotify_add_watch(watch, folder, IN_OPEN | IN_CLOSE_NOWRITE) >= 0);
        assert_int_equal(mr_classifier_open(&opened, folder), MR_OK);
        const ssize_t got = read(watch, events, sizeof events);
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(events + at);
            reads += event->mask & IN_OPEN ? 1 : 0;
            at += (ssize_t)(sizeof *event + event->len);
        }
        assert_int_equal(reads, count_entries(folder));
        close(watch);
    }
    blob_remove(folder);
}

/* Another process that polls for the card must always find it. */
TEST_WITH(a_name_is_never_without_a_classifier, blob_setup, NULL) {
    enum { TIMES = 200 };
    char folder[256], card[300];
    blob_folder("replaced", folder);
    snprintf(card, sizeof card, "%s/head.json", folder);
    mr_classifier *made = blob_fit_kind(MR_CLASSIFIER_PROTOTYPES);
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    const pid_t child = fork();
    assert_int_not_equal(child, -1);
    while (!child)
        if (access(card, F_OK))
            _exit(1);
    for (int i = 0; i < TIMES; i++)
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    int how = 0;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    mr_classifier_destroy(&made);
    blob_remove(folder);
}

/* Limits the size of files from here on, as if the disk were nearly full. */
static void allow(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_WITH(a_full_disk_leaves_nothing_half_written, blob_setup, NULL) {
    char home[256], path[600], file[600];
    blob_folder("full", home);
    snprintf(path, sizeof path, "%s/head", home);
    snprintf(file, sizeof file, "%s/state", home);
    assert_int_equal(mkdir(home, 0700), 0);
    mr_fit_params params = blob_params(MR_CLASSIFIER_PERCEPTRON);
    mr_classifier *made = blob_fit(&blob_rows, &params), *opened, *none;
    allow(2000);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO);
    allow(RLIM_INFINITY);
    expect_words(mr_message(), "layer-1.npy");
    assert_int_equal(count_entries(home), 0);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_OK);
    allow(2000);
    assert_int_equal(mr_classifier_save(made, path, NULL), MR_ERROR_IO); /* the existing classifier stays */
    blob_stopping s = {.after = 2};
    params.state = file;
    params.progress = blob_stop;
    params.user = &s;
    params.warning = NULL;
    assert_int_equal(mr_classifier_fit(&none, &blob_rows, &params), MR_ERROR_IO);
    allow(RLIM_INFINITY);
    assert_int_equal(count_entries(home), 1);
    assert_int_equal(mr_classifier_open(&opened, path), MR_OK);
    blob_expect_same(made, opened);
    mr_classifier_destroy(&opened);
    mr_classifier_destroy(&made);
    blob_remove(home);
}

static void refuse_folder(const char *folder, int status, const char *why) {
    mr_classifier *opened;
    assert_int_equal(mr_classifier_open(&opened, folder), status);
    assert_null(opened);
    expect_words(mr_message(), why);
}

TEST_WITH(damaged_folders_are_refused, blob_setup, NULL) {
    char folder[256], path[600];
    blob_folder("damaged", folder);
    refuse_folder(folder, MR_ERROR_NO_INPUT, "head.json");
    mr_classifier *made = blob_fit_kind(MR_CLASSIFIER_NEIGHBORS);
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    write_text(folder, "labels.txt", "ant\nbee\ndog\ncat\n");
    refuse_folder(folder, MR_ERROR_DATA, "labels.txt is not the file that head.json was written with");
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    snprintf(path, sizeof path, "%s/vectors.npy", folder);
    assert_int_equal(truncate(path, 4000), 0);
    refuse_folder(folder, MR_ERROR_DATA, "vectors.npy is not the file");
    assert_int_equal(unlink(path), 0);
    refuse_folder(folder, MR_ERROR_NO_INPUT, "vectors.npy");
    static const char *const cards[][2] = {
        {"{\"format\": 2}", "is of format 2, and this millrace reads 1"},
        {"{\"format\": 1, \"kind\": \"oracle\"}", "there is no classifier \"oracle\""},
        {"{\"format\": 1, \"kind\": \"softmax\", \"width\": 12, \"classes\": 99999999}",
         "\"width\" and \"classes\""},
        {"{\"format\": 1, \"kind\": \"softmax\", \"width\": 12, \"classes\": 4}",
         "has no digest of labels.txt"},
        {"[1, 2", "is not the card of a classifier"},
    };
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        write_text(folder, "head.json", cards[i][0]);
        refuse_folder(folder, MR_ERROR_DATA, cards[i][1]);
    }
    mr_classifier_destroy(&made);
    blob_remove(folder);
}

/* ---- classify ---------------------------------------------------------------------------------------------------- */

static void compare_classes(const arrived *got, const float *scores) {
    for (size_t frame = 0; frame < MODELS_FRAMES; frame++)
        for (size_t i = 0; i < BLOB_CLASSES; i++) {
            const mr_class *class = &got->classes[frame][i];
            assert_true(class->score == scores[frame * BLOB_CLASSES + (size_t)class->index]);
            assert_true(i == 0 || class->score <= got->classes[frame][i - 1].score);
        }
}

TEST_WITH(classify_gives_the_same_bits, blob_setup, NULL) {
    static const char *const devices[] = {", device: cpu", ", device: 'sim:0'"};
    static float scores[BLOB_ROWS * BLOB_CLASSES];
    char folder[256];
    blob_folder("served", folder);
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(kind);
        blob_scores(made, scores);
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
        for (size_t device = 0; device < 2; device++)
            for (models_workers = 1; models_workers <= 16; models_workers *= 4) {
                arrived got = {0};
                blob_classify(&got, folder, devices[device]);
                compare_classes(&got, scores);
            }
    }
    models_workers = 0;
    blob_remove(folder);
}

/* A batch's product may round in another order. The other kinds have no product. */
TEST_WITH(batches_are_within_rounding, blob_setup, NULL) {
    static float scores[BLOB_ROWS * BLOB_CLASSES];
    char folder[256];
    blob_folder("batches", folder);
    for (int kind = 0; kind < BLOB_KINDS; kind++) {
        const bool exact = kind == MR_CLASSIFIER_NEIGHBORS || kind == MR_CLASSIFIER_PERCEPTRON;
        ENDED_BY(mr_classifier_destroy) mr_classifier *made = blob_fit_kind(kind);
        blob_scores(made, scores);
        assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
        arrived got = {0};
        blob_classify(&got, folder, ", batch: 4");
        for (size_t frame = 0; frame < MODELS_FRAMES; frame++)
            for (size_t i = 0; i < BLOB_CLASSES; i++) {
                const mr_class *class = &got.classes[frame][i];
                float wanted = scores[frame * BLOB_CLASSES + (size_t)class->index];
                assert_true(exact ? class->score == wanted : fabsf(class->score - wanted) < 2e-4f);
            }
    }
    blob_remove(folder);
}

static void refuse_head(const char *folder, const char *format, const char *options, const char *why) {
    char all[700], message[2000];
    snprintf(all, sizeof all, "  classify: {input: in, head: \"%s\"%s}\n  sink: {type: callback, input: classify}\n",
             folder, options);
    assert_int_not_equal(models_refused(format, all, message, sizeof message), MR_OK);
    expect_words(message, why);
}

TEST_WITH(classify_refuses_what_differs, blob_setup, NULL) {
    char folder[256];
    blob_folder("refused", folder);
    mr_classifier *made = blob_fit_kind(MR_CLASSIFIER_SOFTMAX);
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
    arrived got = {0};
    blob_classify(&got, folder, ", force: true");
    write_text(folder, "labels.txt", "ant\nbee\ndog\ncat\n");
    refuse_head(folder, "f32 12", ", force: true", "labels.txt is not the file that head.json was written with");
    mr_classifier_destroy(&made);
    blob_remove(folder);
    refuse_head(folder, "f32 12", "", "refused");
}

RUN_TESTS(NULL, NULL)
