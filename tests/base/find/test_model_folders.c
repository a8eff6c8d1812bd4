/* Models that are found by name: the folders, their order, and which names there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/find/model_folders.h"
#include "tests/support/suite.h"

static char root[] = "named-XXXXXX", base[PATH_MAX];

static const char *in_root(const char *path) {
    static char whole[4][PATH_MAX + 128];
    static int next;
    char *text = whole[next++ % 4];
    snprintf(text, sizeof whole[0], "%s/%s", base, path);
    return text;
}

static void put(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", in_root(path));
    for (char *slash = folder + strlen(base) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(folder, 0700);
    }
    FILE *file = fopen(folder, "w");
    assert_non_null(file);
    fclose(file);
}

/* No folder of this machine counts, but that beside the program. */
static int alone(void **state) {
    char here[PATH_MAX - 64];
    if (!*base) {
        assert_non_null(mkdtemp(root));
        assert_non_null(getcwd(here, sizeof here));
        snprintf(base, sizeof base, "%s/%s", here, root);
    }
    unsetenv("MODELS");
    unsetenv("MILLRACE_MODELS");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    setenv("XDG_DATA_DIRS", in_root("none"), 1);
    return 0;
}

static void assert_found(const char *name, const char *ending, const char *wanted) {
    char path[PATH_MAX];
    assert_int_equal(mr_named_model_find(name, ending, path), wanted != NULL);
    if (wanted)
        assert_string_equal(path, in_root(wanted));
}

TEST_WITH(test_order, alone, NULL) {
    char list[PATH_MAX * 2];
    put("home/.local/share/millrace/models/zz-a.onnx");
    assert_found("zz-a", ".onnx", NULL);
    setenv("HOME", in_root("home"), 1);
    assert_found("zz-a", ".onnx", "home/.local/share/millrace/models/zz-a.onnx");
    put("data/millrace/models/zz-a.onnx");
    setenv("XDG_DATA_HOME", in_root("data"), 1);
    assert_found("zz-a", ".onnx", "data/millrace/models/zz-a.onnx");
    put("models/zz-a.onnx");
    setenv("MODELS", in_root("models"), 1);
    assert_found("zz-a", ".onnx", "models/zz-a.onnx");
    put("second/zz-a.onnx");
    snprintf(list, sizeof list, "relative::%s:%s", in_root("none"), in_root("second"));
    setenv("MILLRACE_MODELS", list, 1);
    assert_found("zz-a", ".onnx", "second/zz-a.onnx");
    assert_found("zz-a", ".txt", NULL);
    put("shared/millrace/models/zz-a.txt");
    setenv("XDG_DATA_DIRS", in_root("shared"), 1);
    assert_found("zz-a", ".txt", "shared/millrace/models/zz-a.txt");
}

/* A folder with a model's name is none. */
TEST_WITH(test_folders_are_no_models, alone, NULL) {
    setenv("MODELS", in_root("odd"), 1);
    put("odd/zz-b.onnx/file");
    assert_found("zz-b", ".onnx", NULL);
}

TEST_WITH(test_folder_for_new_ones, alone, NULL) {
    char path[PATH_MAX];
    assert_false(mr_model_folders_own(path));
    setenv("HOME", "/home/anna", 1);
    assert_true(mr_model_folders_own(path));
    assert_string_equal(path, "/home/anna/.local/share/millrace/models");
    setenv("MODELS", "/models", 1);
    assert_true(mr_model_folders_own(path));
    assert_string_equal(path, "/models");
    setenv("MILLRACE_MODELS", "/first:/second", 1);
    assert_true(mr_model_folders_own(path));
    assert_string_equal(path, "/first");
}

/* Relative folders begin at the current one, but those of XDG, which count for nothing. */
TEST_WITH(test_relative, alone, NULL) {
    char path[PATH_MAX], list[PATH_MAX];
    put("near/zz-c.onnx");
    snprintf(list, sizeof list, "%s/near", root);
    setenv("MODELS", list, 1);
    assert_found("zz-c", ".onnx", "near/zz-c.onnx");
    assert_true(mr_model_folders_own(path));
    assert_string_equal(path, in_root("near"));
    unsetenv("MODELS");
    setenv("XDG_DATA_HOME", root, 1);
    setenv("XDG_DATA_DIRS", root, 1);
    put("millrace/models/zz-c.onnx");
    assert_found("zz-c", ".onnx", NULL);
    snprintf(list, sizeof list, "/none::%s/near", root);
    setenv("MILLRACE_MODELS", list, 1);
    assert_found("zz-c", ".onnx", "near/zz-c.onnx");
}

TEST_WITH(test_names, alone, NULL) {
    static const char *const good[] = {"lite0", "lite0-features", "a_b", "9"};
    static const char *const bad[] = {"", "-", "-a", "a.onnx", "a/b", "../a", "a b", "caf\xc3\xa9", "."};
    char longest[MR_MODEL_NAME + 1];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(mr_is_model_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mr_is_model_name(bad[i]));
    memset(longest, 'a', sizeof longest);
    longest[MR_MODEL_NAME] = 0;
    assert_false(mr_is_model_name(longest));
    longest[MR_MODEL_NAME - 1] = 0;
    assert_true(mr_is_model_name(longest));
}

TEST_WITH(test_list, alone, NULL) {
    char list[256], two[PATH_MAX * 2];
    put("l1/beta.zz");
    put("l1/alpha.zz");
    put("l1/.hidden.zz");
    put("l1/al.zz");
    put("l2/alpha.zz");
    put("l2/gamma.zz");
    put("l2/not a name.zz");
    snprintf(two, sizeof two, "%s:%s", in_root("l1"), in_root("l2"));
    setenv("MILLRACE_MODELS", two, 1);
    mr_named_model_list(".zz", list, sizeof list);
    assert_string_equal(list, "al, alpha, beta, gamma");
    mr_named_model_list(".zz", list, 12);
    assert_string_equal(list, "al, alpha");
    mr_named_model_list(".none", list, sizeof list);
    assert_string_equal(list, "");
}

RUN_TESTS(NULL, NULL)
