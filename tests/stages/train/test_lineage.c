/* The lineage of a vector: the options that change it, those that must not, and classify's report if two differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/sha256.h"
#include "millrace/classifier.h"
#include "millrace/millrace.h"
#include "stages/model/lineage.h"
#include "tests/support/suite.h"

enum { ROWS = 60, WIDTH = 324, BYTES = 4096 };

/* ---- a stage that stores its input's lineage --------------------------------------------------------------------- */

static char stages[BYTES], digest[80];

static int negotiate(mr_negotiation *negotiation) {
    mr_lineage lineage;
    int status = mr_planned_lineage(negotiation, 0, &lineage);
    if (status)
        return mr_refuse_status(negotiation, status, NULL, "%s", mr_message());
    snprintf(stages, sizeof stages, "%s", lineage.stages);
    snprintf(digest, sizeof digest, "%s", lineage.digest);
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    return MR_OK;
}

static const mr_port inputs[] = {{.name = "in", .help = "anything"}, {0}};
static const mr_stage_type tap = {.name = "tap", .summary = "remembers", .help = "", .inputs = inputs,
                                  .entry = MR_ENTRY_SHARED, .negotiate = negotiate, .process = process};
static const mr_stage_type *const own[] = {&tap, NULL};

/* Opens a pipeline with these stages and returns the status. Messages go into `message`. */
static int open_forced(const char *sources, const char *yaml, bool force, char *message) {
    char text[BYTES];
    mr_type_list types = {0};
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text, "version: 1\npipeline: test\nsources:\n%sstages:\n%s", sources, yaml);
    assert_int_equal(mr_type_list_add(&types, mr_stage_types(), false), MR_OK);
    assert_int_equal(mr_type_list_add(&types, own, true), MR_OK);
    const mr_pipeline_params params = {.types = types.item, .path = "lineage.yaml", .text = text, .force = force};
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    message[0] = 0;
    for (size_t i = 0; i < wrong.count; i++)
        snprintf(message + strlen(message), BYTES - strlen(message), "%s\n", wrong.item[i].message);
    mr_diagnostics_fini(&wrong);
    mr_pipeline_destroy(&pipeline);
    mr_type_list_fini(&types);
    return status;
}

static int open_with(const char *sources, const char *yaml, char *message) {
    return open_forced(sources, yaml, false, message);
}

#define ONE "  in: {type: push, format: GRAY8 40x40}\n"
#define TWO "  left: {type: push, format: GRAY8 40x40}\n  right: {type: push, format: GRAY8 40x40}\n"

static void look(const char *sources, const char *yaml) {
    char message[BYTES];
    if (open_with(sources, yaml, message))
        fail_msg("%s", message);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

TEST(it_names_stages_and_options) {
    char wanted[MR_SHA256_TEXT];
    look(ONE, "  hog: {input: in, size: 32x32}\n  tap: {input: hog}\n");
    expect_words(stages, "hog <- source.out at in\n");
    expect_words(stages, "hog.size = 32x32\n");
    expect_words(stages, "hog.bins = 9\n");
    expect_words(stages, "hog.clip = 0.2\n");
    expect_words(stages, "hog.gamma = true\n");
    expect_words(stages, "vector <- hog.out at in\n");
    assert_int_equal(mr_sha256_bytes(stages, strlen(stages), wanted), MR_OK);
    assert_string_equal(digest, wanted);
}

TEST(only_what_numbers_depend_on_counts) {
    char first[80];
    look(ONE, "  hog: {input: in, size: 32x32}\n  tap: {input: hog}\n");
    snprintf(first, sizeof first, "%s", digest);
    look(TWO, "  anything: {type: hog, input: sources.*, size: 32, batch: {size: 4, timeout: 10ms}, queue: 9}\n"
              "  aside: {type: \"null\", input: anything}\n  tap: {input: anything, device: cpu}\n");
    assert_string_equal(digest, first);
    look(ONE, "  hog: {input: in, size: 32x32, device: \"sim:0\"}\n  tap: {input: hog}\n");
    assert_string_equal(digest, first);
    static const char *const others[] = {
        "  hog: {input: in, size: 32x32, bins: 12}\n  tap: {input: hog}\n",
        "  hog: {input: in, size: 32x32, gamma: false}\n  tap: {input: hog}\n",
        "  histogram: {input: in}\n  tap: {input: histogram}\n",
        "  phash: {input: in, form: bits}\n  tap: {input: phash}\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        look(ONE, others[i]);
        assert_string_not_equal(digest, first);
    }
}

TEST(joins_are_told_apart) {
    char first[80];
    const char *yaml = "  a: {type: hog, input: in, size: 32x32}\n  b: {type: hog, input: in, size: 32x32, bins: 12}\n"
                       "  join: {join: {one: %s, other: %s}}\n  tap: {input: join}\n";
    char text[BYTES];
    snprintf(text, sizeof text, yaml, "a", "b");
    look(ONE, text);
    expect_words(stages, "hog#2 <- source.out at in\n");
    expect_words(stages, "hog#2.bins = 12\n");
    expect_words(stages, "join <- hog.out at one, hog#2.out at other\n");
    snprintf(first, sizeof first, "%s", digest);
    snprintf(text, sizeof text, yaml, "b", "a");
    look(ONE, text);
    assert_string_not_equal(digest, first);
}

TEST(differences_are_named) {
    char text[MR_LINEAGE_TEXT];
    const char *then = "hog <- source.out at in\nhog.bins = 9\nhog.size = 32x32\n";
    assert_string_equal(mr_lineage_difference(then, then, text), "");
    assert_string_equal(mr_lineage_difference(then, "hog <- source.out at in\nhog.bins = 12\nhog.size = 32x32\n", text),
                        "hog.bins is 12, and was 9");
    assert_string_equal(mr_lineage_difference(then, "hog <- source.out at in\nhog.bins = 12\nhog.size = 64x64\n", text),
                        "hog.bins is 12, and was 9; hog.size is 64x64, and was 32x32");
    assert_string_equal(
        mr_lineage_difference(then, "hog <- decode.out at in\nhog.bins = 9\nhog.size = 32x32\n", text),
        "only the pipeline here has \"hog <- decode.out at in\"; only the pipeline of the classifier has "
        "\"hog <- source.out at in\"");
    assert_string_equal(mr_lineage_difference("a = 1\nb = 2\n", "b = 2\na = 1\n", text), "the order of the stages");
    assert_string_equal(
        mr_lineage_difference("a = 1\nb = 1\nc = 1\nd = 1\ne = 1\n", "a = 2\nb = 2\nc = 2\nd = 2\ne = 2\n", text),
        "a is 2, and was 1; b is 2, and was 1; c is 2, and was 1; and 2 more");
}

static void save_head(const char *folder) {
    static float features[ROWS * WIDTH];
    static int32_t classes[ROWS];
    static const char *const names[] = {"even", "odd"};
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        features[i] = (float)((i * 7919) % 101) / 101.0f;
    for (size_t row = 0; row < ROWS; row++)
        classes[row] = row % 2;
    const mr_labelled_rows rows = {.features = features, .rows = ROWS, .width = WIDTH, .classes = classes,
                                   .class_count = 2, .class_names = names};
    const mr_fit_params params = {.kind = MR_CLASSIFIER_PROTOTYPES};
    const mr_head_notes notes = {.stages = stages, .digest = digest};
    ENDED_BY(mr_classifier_destroy) mr_classifier *made;
    assert_int_equal(mr_classifier_fit(&made, &rows, &params), MR_OK);
    assert_int_equal(mr_classifier_save(made, folder, &notes), MR_OK);
}

TEST(classify_takes_its_own_lineage_alone) {
    char folder[256], yaml[BYTES], message[BYTES], command[300];
    snprintf(folder, sizeof folder, "%s/lineage-test-%ld", P_tmpdir, (long)getpid());
    look(ONE, "  hog: {input: in, size: 32x32}\n  tap: {input: hog}\n");
    save_head(folder);
    const char *form = "  hog: {input: %s, size: 32x32, clip: %s}\n  classify: {input: hog, head: \"%s\"%s}\n"
                       "  results: {type: \"null\", input: classify}\n";
    snprintf(yaml, sizeof yaml, form, "in", "0.2", folder, "");
    if (open_with(ONE, yaml, message))
        fail_msg("%s", message);
    assert_string_equal(message, "");
    snprintf(yaml, sizeof yaml, form, "sources.*", "0.2", folder, "");
    assert_int_equal(open_with(TWO, yaml, message), MR_OK);
    snprintf(yaml, sizeof yaml, form, "in", "0.25", folder, "");
    assert_int_equal(open_with(ONE, yaml, message), MR_ERROR_CONFIG);
    if (!strstr(message,
                "was trained on vectors of another pipeline: hog.clip is 0.25, and was 0.2; train it with this one, "
                "or overrule it by force: true"))
        fail_msg("%s", message);
    snprintf(yaml, sizeof yaml, form, "in", "0.25", folder, ", force: true");
    assert_int_equal(open_with(ONE, yaml, message), MR_OK);
    snprintf(yaml, sizeof yaml, form, "in", "0.25", folder, "");
    assert_int_equal(open_forced(ONE, yaml, true, message), MR_OK);
    expect_words(message, "classify: forced: ");
    expect_words(message, "hog.clip is 0.25, and was 0.2");
    snprintf(yaml, sizeof yaml, form, "in", "0.2", folder, "");
    assert_int_equal(open_forced(ONE, yaml, true, message), MR_OK);
    assert_string_equal(message, "");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

RUN_TESTS(NULL, NULL)
