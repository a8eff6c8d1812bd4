/* Other programs' words: every hint in the table must be right. The option tables read what a hint says to write,
 * and whole types are planned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "engine/text/options.h"
#include "engine/text/synonyms.h"
#include "millrace/status.h"
#include "stages/synonyms.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

enum { TEXT = 512 };

/* Calls `check` for each word in each row with this kind. */
static int each_word(mr_synonym_kind kind, void (*check)(const mr_synonym *row, const char *word)) {
    int count = 0;
    for (const mr_synonym *row = mr_synonyms_of(mr_stage_types()); row->words; row++) {
        char words[1024];
        snprintf(words, sizeof words, "%s", row->words);
        for (char *rest = words, *word; row->kind == kind && (word = strtok_r(rest, " ", &rest)); count++)
            check(row, word);
    }
    return count;
}

static const mr_stage_type *type_named(const char *name, bool is_source) {
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        if (((*type)->inputs == NULL) == is_source && strcmp((*type)->name, name) == 0)
            return *type;
    return NULL;
}

/* The messages about a pipeline with this text; the caller must free them. */
static char *said_of(const char *text, size_t *errors) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "f.yaml", .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true, .cuts = true};
    mr_plan_load(&plan, &spec, &params, &diagnostics);
    char *said = printed(&diagnostics);
    *errors = diagnostics.errors;
    mr_plan_destroy(&plan);
    mr_diagnostics_fini(&diagnostics);
    return said;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

/* To be freed. */
static char *pipeline_with(bool is_source, const char *vertex) {
    char *text = NULL;
    assert_true(asprintf(&text,
             "version: 1\npipeline: p\nsources:\n  lobby: {uri: lobby.mp4}\n%s%s%sstages:\n  decode: {input: lobby}\n"
             "  preprocess: {input: decode, size: 224x224}\n  infer: {input: preprocess, model: m.onnx}\n"
             "  classify: {input: infer}\n  detect: {input: preprocess, model: m.onnx}\n  track: {input: detect}\n"
             "  joined: {type: join, join: {pictures: decode, objects: detect}}\n%s%s%s",
             is_source ? "  x: " : "", is_source ? vertex : "", is_source ? "\n" : "", is_source ? "" : "  x: ",
             is_source ? "" : vertex, is_source ? "" : "\n") > 0);
    return text;
}

static void check_type(const mr_synonym *row, const char *word) {
    bool is_source = row->kind == MR_SYNONYM_SOURCE;
    char vertex[TEXT], hint[TEXT];
    size_t errors;
    assert_null(type_named(word, is_source));
    assert_non_null(mr_synonym_type(mr_stage_types(), is_source, word, hint, sizeof hint));
    snprintf(vertex, sizeof vertex, "{type: \"%s\"%s}", word, is_source ? "" : ", input: decode");
    char *text = pipeline_with(is_source, vertex), *said = said_of(text, &errors);
    free(text);
    assert_int_equal(errors, 1);
    assert_non_null(strstr(said, word));
    /* A name that is one letter away is offered before. */
    if (!strstr(said, "did you mean") && !strstr(said, hint))
        fprintf(stderr, "%s: %s\n%s", word, hint, said);
    if (!strstr(said, "did you mean"))
        assert_non_null(strstr(said, hint));
    free(said);
    if (!row->instead)
        return;
    assert_non_null(type_named(row->instead, is_source));
    assert_non_null(strstr(hint, row->write));
    text = pipeline_with(is_source, row->write);
    said = said_of(text, &errors);
    free(text);
    if (errors)
        fprintf(stderr, "%s: %s\n%s", word, row->write, said);
    assert_int_equal(errors, 0);
    free(said);
}

TEST(types_of_others_become_types_that_are_planned) {
    assert_true(each_word(MR_SYNONYM_SOURCE, check_type) >= 40);
    assert_true(each_word(MR_SYNONYM_STAGE, check_type) >= 120);
}

/* ---- keys ----------------------------------------------------------------------------------------------------- */

/* Reads "key: value" with one table entry; returns whether it is accepted. */
static bool takes(const mr_option *option, const char *text, const char *key) {
    mr_arena arena = {0};
    mr_diagnostics diagnostics = {0};
    mr_yaml *map = NULL;
    static max_align_t room[64];
    mr_option one[2] = {*option, {0}};
    one[0].offset = 0;
    one[0].required = false;
    const mr_option_reader reader = {.arena = &arena, .diagnostics = &diagnostics, .directory = "", .where = "x"};
    if (mr_yaml_parse(&map, &arena, "f", text, strlen(text), false, &diagnostics))
        fail_msg("%s is not YAML", text);
    assert_int_equal(map->kind, MR_YAML_MAP);
    assert_string_equal(map->first->key, key);
    /* Nested fields have offsets from the map that holds them. */
    bool good = mr_options_read(&reader, one, NULL, map, room) == MR_OK;
    if (!good) {
        FREED char *said = printed(&diagnostics);
        fprintf(stderr, "%s", said);
    }
    mr_diagnostics_fini(&diagnostics);
    mr_arena_fini(&arena);
    return good;
}

/* The table accepts the hint for the key `word` in one table's map. */
static int check_in(const mr_option *table, const mr_synonym *row, const char *word) {
    const mr_option *option = mr_option_find(table, row->instead);
    char hint[TEXT], text[TEXT];
    if (!option || mr_option_find(table, word))
        return 0;
    mr_yaml value = {.kind = MR_YAML_SCALAR, .key = word, .text = row->value ? row->value : "?"};
    mr_yaml map = {.kind = MR_YAML_MAP, .first = &value, .last = &value, .count = 1};
    if (!mr_synonym_key(mr_synonym_table, table, NULL, &map, &value, hint, sizeof hint))
        return 0; /* The key has another kind there. */
    if (strncmp(hint, "write ", 6) != 0)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(hint + 6, ";"), hint + 6);
    if (option->elsewhere || strncmp(text, row->instead, strlen(row->instead)) != 0)
        return 1;
    assert_true(takes(option, text, row->instead));
    return 1;
}

static void check_key(const mr_synonym *row, const char *word) {
    if (!row->instead) {
        assert_non_null(row->note);
        return;
    }
    int places = 0;
    for (int level = MR_SPEC_PIPELINE; level <= MR_SPEC_NODE; level++)
        places += check_in(mr_spec_keys((mr_spec_level)level), row, word);
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        places += check_in((*type)->options, row, word);
    if (!places)
        fprintf(stderr, "%s: nothing has the key %s\n", word, row->instead);
    assert_true(places > 0);
}

TEST(keys_of_others_become_keys_that_are_read) {
    assert_true(each_word(MR_SYNONYM_KEY, check_key) >= 200);
}

/* What stands there is kept where the key that is meant takes it, and an example is given where it does not. */
TEST(values_are_carried_over_where_they_fit) {
    static const struct {
        const char *stage, *hint;
    } cases[] = {
        {"preprocess: {input: decode, color: BGR}", "write order: bgr"},
        {"preprocess: {input: decode, color: mauve}", "write order: bgr"},
        {"preprocess: {input: decode, scale: 1/255}", "write std: 255; a value becomes (value - mean) / std"},
        {"preprocess: {input: decode, swapRB: false}", "write order: bgr"},
        {"preprocess: {input: decode, swapRB: true}", "write order: rgb; which is the default"},
        {"preprocess: {input: decode, size: 9x9, width: 4}", "remove it: `size` exists already"},
        {"infer: {input: decode, model-path: a/b.onnx}", "write model: a/b.onnx"},
        {"infer: {input: decode, model_path: '{x}'}", "write model: models/lite0.onnx"},
        {"infer: {input: decode, model: m, batch-size: 16}", "write batch: 16"},
        {"infer: {input: decode, model: m, batch-size: many}", "write batch: 8"},
        {"infer: {input: decode, model: m, gpu-id: 1}", "write device: cuda:0"},
        {"infer: {input: decode, model: m, name: primary}", "remove it: the key before the colon is its name"},
        {"jsonl: {input: decode, location: out.jsonl}", "write path: out.jsonl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2 * TEXT], expected[TEXT];
        size_t errors;
        snprintf(text, sizeof text,
                 "version: 1\npipeline: p\nsources:\n  lobby: {uri: lobby.mp4}\nstages:\n  decode: {input: lobby}\n"
                 "  %s\n", cases[i].stage);
        snprintf(expected, sizeof expected, "    hint: %s\n", cases[i].hint);
        FREED char *said = said_of(text, &errors);
        if (!strstr(said, expected))
            fprintf(stderr, "%s: expected%sfound\n%s", cases[i].stage, expected, said);
        assert_non_null(strstr(said, expected));
    }
}

/* A key that stands for one that is required is one mistake, not two. */
TEST(nothing_is_missing_that_has_another_name) {
    size_t errors;
    FREED char *said = said_of(
        "version: 1\nname: p\nsources:\n  lobby: {location: lobby.mp4}\nstages:\n"
        "  decode: {input: lobby}\n  preprocess: {input: decode}\n  infer: {input: preprocess, model-path: m.onnx}\n",
        &errors);
    assert_string_equal(said, "f.yaml:2:1: error: the pipeline: unknown key \"name\"\n    hint: write pipeline: p\n"
                              "f.yaml:4:11: error: sources.lobby: unknown key \"location\"\n"
                              "    hint: write uri: lobby.mp4\n"
                              "f.yaml:8:30: error: stages.infer: unknown key \"model-path\"\n"
                              "    hint: write model: m.onnx\n");
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static void check_choice(const mr_synonym *row, const char *word) {
    char hint[TEXT];
    int places = 0;
    assert_non_null(mr_synonym_choice(mr_synonym_table, row->instead, NULL, word, hint, sizeof hint));
    if (strcmp(row->instead, "device") == 0) {
        assert_int_equal(mr_device_check_name(strchr(row->write, ' ') + 1), MR_OK);
        return;
    }
    const mr_option *common = mr_option_find(mr_spec_keys(MR_SPEC_STAGE), row->instead);
    const mr_option *queue = mr_option_find(mr_spec_keys(MR_SPEC_STAGE), "queue");
    common = common ? common : mr_option_find(queue->fields, row->instead);
    if (common)
        places += takes(common, row->write, row->instead);
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++) {
        const mr_option *option = mr_option_find((*type)->options, row->instead);
        if (!option || !option->choices ||
            !mr_synonym_choice(mr_synonym_table, row->instead, option->choices, word, hint, sizeof hint))
            continue;
        assert_true(takes(option, hint + strlen("write "), row->instead));
        places++;
    }
    assert_true(places > 0);
}

TEST(values_of_others_become_values_that_are_read) {
    assert_true(each_word(MR_SYNONYM_CHOICE, check_choice) >= 80);
}

static void check_uri(const mr_synonym *row, const char *word) {
    char hint[TEXT], value[TEXT], expected[TEXT];
    snprintf(value, sizeof value, "%sx", word);
    assert_non_null(mr_synonym_uri(mr_synonym_table, value, hint, sizeof hint));
    snprintf(expected, sizeof expected, row->write ? "write \"%sx\"" : "%s", row->write ? row->write : row->note);
    assert_string_equal(hint, expected);
}

TEST(paths_of_others_are_told) {
    char hint[TEXT];
    assert_true(each_word(MR_SYNONYM_URI, check_uri) >= 13);
    assert_null(mr_synonym_uri(mr_synonym_table, "lobby.mp4", hint, sizeof hint));
    assert_null(mr_synonym_uri(mr_synonym_table, "lavfi:testsrc", hint, sizeof hint));
}

/* ---- whole files ---------------------------------------------------------------------------------------------- */

static void check_file(const mr_synonym *row, const char *word) {
    char text[TEXT], expected[TEXT];
    size_t errors;
    bool key = !strchr("[#%", *word);
    snprintf(text, sizeof text, "%s%s x\n", word, key ? ":" : "");
    snprintf(expected, sizeof expected,
             "f.yaml:1:1: error: this is not a millrace pipeline: it looks like a file for %s\n"
             "    hint: begin with version: 1, then pipeline, sources and stages\n", row->instead);
    FREED char *said = said_of(text, &errors);
    assert_string_equal(said, expected);
}

TEST(files_of_others_are_told_as_such) {
    size_t errors;
    assert_true(each_word(MR_SYNONYM_FILE, check_file) >= 20);
    char *said = said_of("gst-launch-1.0 filesrc location=a.mp4 ! decodebin ! fakesink\n", &errors);
    assert_non_null(strstr(said, "GStreamer"));
    free(said);
    /* One that has sources is a pipeline, whatever else it has. */
    said = said_of("version: 1\nsource0: x\nsources: {a: {uri: a}}\nstages: {decode: {input: a}}\n", &errors);
    assert_non_null(strstr(said, "unknown key \"source0\""));
    free(said);
}

RUN_TESTS(NULL, NULL)
