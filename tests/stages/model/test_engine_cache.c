/* Engines that are kept: complete folders are found again, others are built anew, and processes do not disturb each
 * other. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stages/model/engine_cache.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

static char base[] = "test-engines.XXXXXX", engines[64];

static void open_of(mr_engine_cache *cache, const char *network) {
    const mr_engine_part parts[] = {{network, strlen(network)}, {"1.31", 4}};
    mr_engine_cache_open(cache, engines, parts, 2);
}

static void write_file(const char *folder, const char *name, const char *content) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

/* As a runtime does. */
static void build(const mr_engine_cache *cache) {
    write_file(cache->folder, "one.engine", "an engine");
    write_file(cache->folder, "two.engine", "another engine");
}

static void make_kept(mr_engine_cache *cache, const char *network) {
    open_of(cache, network);
    assert_false(cache->kept);
    build(cache);
    mr_engine_cache_keep(cache);
    assert_true(cache->kept);
}

static int entries(void) {
    DIR *folder = opendir(engines);
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

TEST(engines_are_found_again) {
    mr_engine_cache cache, again;
    struct stat about;
    make_kept(&cache, "network");
    assert_int_equal(stat(engines, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(stat(cache.folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    open_of(&again, "network");
    assert_true(again.kept);
    assert_string_equal(again.folder, cache.folder);
    mr_engine_cache_close(&again);
    mr_engine_cache_close(&cache);
    open_of(&cache, "network");
    assert_true(cache.kept);
    mr_engine_cache_close(&cache);
    assert_int_equal(entries(), 1);
}

TEST(other_networks_and_versions_have_others) {
    mr_engine_cache caches[4];
    const mr_engine_part of[4][2] = {
        {{"ab", 2}, {"c", 1}}, {{"a", 1}, {"bc", 2}}, {{"ab", 2}, {"d", 1}}, {{"abc", 3}, {"", 0}}};
    for (int i = 0; i < 4; i++) {
        mr_engine_cache_open(&caches[i], engines, of[i], 2);
        assert_false(caches[i].kept);
        for (int before = 0; before < i; before++)
            assert_string_not_equal(caches[i].key, caches[before].key);
    }
    for (int i = 0; i < 4; i++)
        mr_engine_cache_close(&caches[i]);
}

TEST(incomplete_engines_are_not_kept) {
    mr_engine_cache cache;
    int before = entries();
    open_of(&cache, "unfinished");
    build(&cache);
    mr_engine_cache_close(&cache);
    open_of(&cache, "unfinished");
    assert_false(cache.kept);
    mr_engine_cache_keep(&cache); /* nothing is in it */
    assert_false(cache.kept);
    mr_engine_cache_close(&cache);
    assert_int_equal(entries(), before);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void flip(const char *folder) {
    write_file(folder, "one.engine", "an enginf");
}
static void cut(const char *folder) {
    write_file(folder, "one.engine", "an eng");
}
static void empty(const char *folder) {
    write_file(folder, "two.engine", "");
}
static void add(const char *folder) {
    write_file(folder, "three.engine", "foreign");
}
static void lose(const char *folder) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/two.engine", folder);
    assert_int_equal(unlink(path), 0);
}
static void garble(const char *folder) {
    write_file(folder, "engines.list", "who knows\n");
}
static void unlist(const char *folder) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/engines.list", folder);
    assert_int_equal(unlink(path), 0);
}
static void follow(const char *folder) {
    char path[PATH_MAX + 64];
    lose(folder);
    snprintf(path, sizeof path, "%s/two.engine", folder);
    assert_int_equal(symlink("/dev/zero", path), 0);
}
static void share(const char *folder) {
    assert_int_equal(chmod(folder, 0770), 0);
}
static void share_file(const char *folder) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/two.engine", folder);
    assert_int_equal(chmod(path, 0666), 0);
}

TEST(damaged_and_foreign_engines_are_built_anew) {
    static void (*const damages[])(const char *) =
        {flip, cut, empty, add, lose, garble, unlist, follow, share, share_file};
    mr_engine_cache cache, again;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        make_kept(&cache, "damaged");
        damages[i](cache.folder);
        open_of(&again, "damaged");
        assert_false(again.kept);
        assert_string_not_equal(again.folder, cache.folder);
        build(&again);
        mr_engine_cache_keep(&again);
        assert_true(again.kept);
        mr_engine_cache_discard(&again);
        assert_false(again.kept);
        assert_int_equal(access(cache.folder, F_OK), -1);
        mr_engine_cache_close(&again);
        mr_engine_cache_close(&cache);
    }
}

TEST(a_file_or_link_in_its_place_is_taken_away) {
    mr_engine_cache cache;
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        make_kept(&cache, "place");
        snprintf(path, sizeof path, "%s", cache.folder);
        mr_engine_cache_discard(&cache);
        mr_engine_cache_close(&cache);
        if (i)
            assert_int_equal(symlink("/tmp", path), 0);
        else
            write_file(engines, strrchr(path, '/') + 1, "a file");
        make_kept(&cache, "place");
        assert_string_equal(cache.folder, path);
        mr_engine_cache_discard(&cache);
        mr_engine_cache_close(&cache);
    }
}

/* ---- several processes ------------------------------------------------------------------------------------------- */

TEST(two_may_build_at_once) {
    mr_engine_cache first, second, third;
    open_of(&first, "both");
    open_of(&second, "both");
    assert_string_not_equal(first.folder, second.folder);
    build(&first);
    build(&second);
    mr_engine_cache_keep(&first);
    mr_engine_cache_keep(&second);
    assert_true(first.kept);
    assert_false(second.kept);
    assert_int_equal(access(second.folder, F_OK), 0); /* its runtime may still look there */
    open_of(&third, "both");
    assert_true(third.kept);
    mr_engine_cache_close(&second);
    mr_engine_cache_close(&first);
    mr_engine_cache_close(&third);
}

static void use_for_a_while(unsigned seed) {
    for (int i = 0; i < 60; i++) {
        mr_engine_cache cache;
        open_of(&cache, "crowd");
        if (cache.kept && rand_r(&seed) % 4 == 0)
            mr_engine_cache_discard(&cache);
        if (!cache.kept && cache.folder[0]) {
            build(&cache);
            mr_engine_cache_keep(&cache);
        }
        if (rand_r(&seed) % 8 == 0)
            _exit(0); /* as if it was killed */
        mr_engine_cache_close(&cache);
    }
    _exit(0);
}

TEST(processes_do_not_disturb_each_other) {
    enum { PROCESSES = 6 };
    mr_engine_cache cache;
    int before = entries(), outcome;
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            use_for_a_while(i + 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(wait(&outcome) > 0);
        assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    }
    open_of(&cache, "crowd");
    if (!cache.kept) {
        build(&cache);
        mr_engine_cache_keep(&cache);
    }
    assert_true(cache.kept);
    mr_engine_cache_close(&cache);
    assert_int_equal(entries(), before + 1);
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

TEST(the_folder_is_the_users_cache) {
    mr_engine_cache cache;
    char there[PATH_MAX], own[PATH_MAX + 128];
    const mr_engine_part part = {"x", 1};
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    assert_non_null(realpath(base, there));
    setenv("XDG_CACHE_HOME", there, 1);
    mr_engine_cache_open(&cache, NULL, &part, 1);
    snprintf(own, sizeof own, "%s/millrace/engines/%s.", there, cache.key);
    assert_memory_equal(cache.folder, own, strlen(own));
    mr_engine_cache_close(&cache);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", there, 1);
    mr_engine_cache_open(&cache, NULL, &part, 1);
    snprintf(own, sizeof own, "%s/.cache/millrace/engines/%s.", there, cache.key);
    assert_memory_equal(cache.folder, own, strlen(own));
    mr_engine_cache_close(&cache);
    unsetenv("HOME");
    mr_engine_cache_open(&cache, NULL, &part, 1);
    assert_string_equal(cache.folder, "");
    mr_engine_cache_close(&cache);
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

TEST(none_is_never_a_failure) {
    static const char *const bases[] = {"-", "/proc/none/such", "/dev/null/engines"};
    const mr_engine_part part = {"x", 1};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        mr_engine_cache cache;
        mr_engine_cache_open(&cache, bases[i], &part, 1);
        assert_string_equal(cache.folder, "");
        mr_engine_cache_keep(&cache);
        mr_engine_cache_discard(&cache);
        mr_engine_cache_close(&cache);
    }
    mr_engine_cache_close(&(mr_engine_cache){0});
}

static int prepare(void **state) {
    char *made = mkdtemp(base);
    snprintf(engines, sizeof engines, "%s/of/engines", base);
    return made ? be_quiet(state) : -1;
}

static int finish(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

RUN_TESTS(prepare, finish)
