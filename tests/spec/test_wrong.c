/* Wrong pipelines: each tests/wrong/TOPIC/NAME.yaml has the exact messages in NAME.expected. The last line there is
 * the exit code, which is 0 if there are only warnings. After a change to a message, `MR_TEST_WRITE=1 test_wrong`
 * writes the files again; review the difference like any other change. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static int is_yaml(const struct dirent *entry) {
    const char *ending = strrchr(entry->d_name, '.');
    return ending && strcmp(ending, ".yaml") == 0;
}

/* The messages from loading it; the caller must free them. */
static char *complaints(const char *path) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {.types = mr_stage_types(), .plugins = true, .path = path};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true, .cuts = true};
    int status = mr_plan_load(&plan, &spec, &params, &diagnostics);
    char *said = printed(&diagnostics), *text = NULL;
    if (!diagnostics.count)
        fprintf(stderr, "%s is neither refused nor warned of\n", path);
    assert_true(diagnostics.count > 0);
    assert_int_equal(!plan, status != MR_OK);
    assert_int_equal(status, mr_diagnostics_status(&diagnostics));
    mr_plan_destroy(&plan);
    assert_true(asprintf(&text, "%sexit: %d\n", said, mr_status_exit_code(status)) > 0);
    free(said);
    mr_diagnostics_fini(&diagnostics);
    return text;
}

static void write_whole(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static bool check(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%.*s.expected", (int)(strlen(name) - strlen(".yaml")), name);
    char *said = complaints(name);
    if (getenv("MR_TEST_WRITE"))
        write_whole(path, said);
    char *expected = whole_file(path);
    bool equal = strcmp(said, expected) == 0;
    if (!equal)
        fprintf(stderr, "%s: expected\n%sfound\n%s", name, expected, said);
    free(expected);
    free(said);
    return equal;
}

static int is_topic(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* Adds the number of pipelines in the folder TOPIC to *count; returns how many have other messages. */
static int check_topic(const char *topic, int *count) {
    struct dirent **entry;
    char folder[512];
    int different = 0;
    snprintf(folder, sizeof folder, "%s/tests/wrong/%s", SOURCE_DIR, topic);
    assert_int_equal(chdir(folder), 0);
    int found = scandir(".", &entry, is_yaml, alphasort);
    assert_true(found > 0);
    for (int i = 0; i < found; i++) {
        different += !check(entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    *count += found;
    return different;
}

TEST(every_wrong_pipeline_is_refused_in_the_right_words) {
    struct dirent **topic;
    int different = 0, count = 0;
    unsetenv("MR_TEST_NONE");
    int topics = scandir(SOURCE_DIR "/tests/wrong", &topic, is_topic, alphasort);
    assert_true(topics > 0);
    for (int i = 0; i < topics; i++) {
        different += check_topic(topic[i]->d_name, &count);
        free(topic[i]);
    }
    free(topic);
    assert_true(count >= 250);
    assert_int_equal(different, 0);
}

/* The messages are the same if output is discarded. */
TEST(it_is_no_matter_where_standard_output_leads) {
    assert_int_equal(chdir(SOURCE_DIR "/tests/wrong/file"), 0);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(kept >= 0 && null >= 0);
    dup2(null, STDOUT_FILENO);
    bool equal = check("file-stdout.yaml");
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(null);
    assert_true(equal);
}

static int status_of(const char *path) {
    mr_diagnostics diagnostics = {0};
    mr_spec *spec;
    const mr_spec_params params = {.types = mr_stage_types(), .path = path};
    int status = mr_spec_parse(&spec, &params, &diagnostics);
    assert_null(spec);
    assert_int_equal(diagnostics.errors, 1);
    mr_diagnostics_fini(&diagnostics);
    return mr_status_exit_code(status);
}

TEST(files_that_are_none_are_refused) {
    assert_int_equal(status_of("no such file.yaml"), 66);
    assert_int_equal(status_of("/tmp"), 66);
    assert_int_equal(status_of("/dev/zero"), 66);
}

RUN_TESTS(NULL, NULL)
