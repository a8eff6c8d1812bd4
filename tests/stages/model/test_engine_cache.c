/* Cached engines. Complete folders must be found again and others built anew. Processes must not disturb each other. */
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
#include "tests/support/temporary.h"

static char engines[64];

static void open_of(mr_engine_cache *cache, const char *network) {
    const mr_engine_part parts[] = {{network, strlen(network)}, {"1.31", 4}};
    mr_engine_cache_open(cache, engines, parts, 2);
}

static void write_file(const char *folder, const char *name, const char *content) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, content, strlen(content));
}

/* Writes files as a runtime would. */
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
    mr_engine_cache_keep(&cache); /* with an empty folder */
    assert_false(cache.kept);
    mr_engine_cache_close(&cache);
    assert_int_equal(entries(), before);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *content; /* NULL: the file is removed */
    const char *link;           /* replaces the file */
    mode_t mode;                /* 0: unchanged */
} damages[] = {
    {.name = "one.engine", .content = "an enginf"},
    {.name = "one.engine", .content = "an eng"},
    {.name = "two.engine", .content = ""},
    {.name = "three.engine", .content = "foreign"},
    {.name = "two.engine"},
    {.name = "engines.list", .content = "who knows\n"},
    {.name = "engines.list"},
    {.name = "two.engine", .link = "/dev/zero"},
    {.name = ".", .mode = 0770},
    {.name = "two.engine", .mode = 0666},
};

static void damage(const char *folder, size_t i) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, damages[i].name);
    if (damages[i].mode)
        assert_int_equal(chmod(path, damages[i].mode), 0);
    else if (damages[i].content)
        write_file(folder, damages[i].name, damages[i].content);
    else
        assert_int_equal(unlink(path), 0);
    if (damages[i].link)
        assert_int_equal(symlink(damages[i].link, path), 0);
}

TEST(damaged_and_foreign_engines_are_built_anew) {
    mr_engine_cache cache, again;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        make_kept(&cache, "damaged");
        damage(cache.folder, i);
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
    ENDED_BY(mr_engine_cache_close) mr_engine_cache first, second, third;
    open_of(&first, "both");
    open_of(&second, "both");
    assert_string_not_equal(first.folder, second.folder);
    build(&first);
    build(&second);
    mr_engine_cache_keep(&first);
    mr_engine_cache_keep(&second);
    assert_true(first.kept);
    assert_false(second.kept);
    assert_int_equal(access(second.folder, F_OK), 0); /* the runtime may still use it */
    open_of(&third, "both");
    assert_true(third.kept);
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
            _exit(0); /* as if killed */
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

/* ---- the cache's location ---------------------------------------------------------------------------------------- */

TEST(the_folder_is_the_users_cache) {
    mr_engine_cache cache;
    char there[PATH_MAX], own[PATH_MAX + 128];
    const mr_engine_part part = {"x", 1};
    FREED char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    assert_non_null(realpath(temporary_folder, there));
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
}

TEST(none_is_never_a_failure) {
    static const char *const bases[] = {"-", "/proc/none/such", "/dev/null/engines"};
    const mr_engine_part part = {"x", 1};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        ENDED_BY(mr_engine_cache_close) mr_engine_cache cache;
        mr_engine_cache_open(&cache, bases[i], &part, 1);
        assert_string_equal(cache.folder, "");
        mr_engine_cache_keep(&cache);
        mr_engine_cache_discard(&cache);
    }
    mr_engine_cache_close(&(mr_engine_cache){0});
}

static int prepare(void **state) {
    const int status = make_temporary_folder(state);
    snprintf(engines, sizeof engines, "%s/of/engines", temporary_folder);
    return status ? status : be_quiet(state);
}

RUN_TESTS(prepare, remove_temporary_folder)
