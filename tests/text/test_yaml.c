#include <stdlib.h>
#include <string.h>

#include "engine/text/yaml.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

typedef struct reading {
    mr_arena arena;
    mr_diagnostics diagnostics;
    mr_yaml *root;
    int status;
} reading;

static reading read_bytes(const char *text, size_t bytes) {
    reading r = {0};
    r.status = mr_yaml_parse(&r.root, &r.arena, "f.yaml", text, bytes, false, &r.diagnostics);
    return r;
}

static reading read_text(const char *text) {
    return read_bytes(text, strlen(text));
}

static void done(reading *r) {
    mr_arena_fini(&r->arena);
    mr_diagnostics_fini(&r->diagnostics);
}

static void expect(const char *text, size_t bytes, const char *expected) {
    reading r = read_bytes(text, bytes);
    expect_printed(&r.diagnostics, expected);
    assert_int_equal(r.status, MR_ERROR_CONFIG);
    done(&r);
}

static void expect_text(const char *text, const char *expected) {
    expect(text, strlen(text), expected);
}

TEST(a_byte_order_mark_is_passed_over) {
    reading r = read_text("\xEF\xBB\xBF" "a: 1\nb: 2\n");
    assert_int_equal(r.status, MR_OK);
    assert_int_equal(r.root->count, 2);
    assert_string_equal(r.root->first->key, "a");
    assert_int_equal(r.root->first->key_place.column, 1);
    done(&r);
}

TEST(tree_keeps_order_and_places) {
    reading r = read_text("# a comment\na: 1\nb:\n  - x\n  - 'two words'\nc: {d: null, \u00fc: \"\\u00e4\"}\n");
    assert_int_equal(r.status, MR_OK);
    assert_int_equal(r.root->kind, MR_YAML_MAP);
    assert_int_equal(r.root->count, 3);
    const mr_yaml *a = r.root->first, *b = a->next, *c = b->next;
    assert_string_equal(a->key, "a");
    assert_int_equal(a->key_place.line, 2);
    assert_int_equal(a->key_place.column, 1);
    assert_int_equal(a->place.column, 4);
    assert_string_equal(a->place.file, "f.yaml");
    assert_int_equal(b->kind, MR_YAML_LIST);
    assert_string_equal(b->first->text, "x");
    assert_false(b->first->quoted);
    assert_string_equal(b->last->text, "two words");
    assert_true(b->last->quoted);
    assert_int_equal(b->last->place.line, 5);
    assert_int_equal(b->last->place.column, 5);
    assert_true(mr_yaml_is_null(mr_yaml_get(c, "d")));
    assert_string_equal(mr_yaml_get(c, "\u00fc")->text, "\u00e4");
    /* Columns count characters, not bytes. */
    assert_int_equal(mr_yaml_get(c, "\u00fc")->place.column, 17);
    assert_null(mr_yaml_get(c, "e"));
    assert_ptr_equal(mr_yaml_nearest(r.root, "c.d"), mr_yaml_get(c, "d"));
    assert_ptr_equal(mr_yaml_nearest(r.root, "c.x.y"), c);
    done(&r);
}

TEST(nothing_is_written_as_nothing) {
    reading r = read_text("# nothing\n");
    assert_int_equal(r.status, MR_OK);
    assert_null(r.root);
    done(&r);
}

TEST(duplicates_are_refused_with_both_places) {
    expect_text("a: 1\nb: {c: 2, c: 3}\na: 4\n",
                "f.yaml:2:11: error: duplicate key \"c\"; it is already at line 2, column 5\n"
                "    hint: remove one of them\n"
                "f.yaml:3:1: error: duplicate key \"a\"; it is already at line 1, column 1\n"
                "    hint: remove one of them\n");
}

TEST(what_configuration_does_not_need_is_refused) {
    expect_text("a: &x 1\nb: *x\nc: !!str 2\n",
                "f.yaml:1:4: error: anchors (&x) are not accepted\n"
                "    hint: write the value out wherever it is needed\n"
                "f.yaml:2:4: error: aliases (*x) are not accepted\n"
                "    hint: write the value out, or put it in quotes if the * belongs to it\n"
                "f.yaml:3:4: error: tags (tag:yaml.org,2002:str) are not accepted\n"
                "    hint: remove the tag\n");
    expect_text("a: 1\n---\nb: 2\n", "f.yaml:2:1: error: there is a second document\n"
                                     "    hint: remove the \"---\" and everything after it\n");
    expect_text("{[a]: 1}", "f.yaml:1:2: error: a key cannot be a list or a map\n"
                            "    hint: write the key as plain text\n");
}

TEST(syntax_errors_have_a_place_and_a_hint) {
    expect_text("a: b: c\n",
                "f.yaml:1:5: error: this is not YAML: mapping values are not allowed in this context\n"
                "    hint: put a value that holds \": \" in quotes, write a space after each colon, and check the "
                "indentation\n");
    expect_text("a: {source}-{seq}.jpg\n",
                "f.yaml:1:12: error: this is not YAML: did not find expected key while parsing a block mapping\n"
                "    hint: put a text with braces in quotes, such as \"{source}-{seq}.jpg\"\n");
    expect_text("{a: 1, b: {time}.csv}\n",
                "f.yaml:1:17: error: this is not YAML: did not find expected ',' or '}' while parsing a flow mapping\n"
                "    hint: put a text with braces in quotes, such as \"{source}-{seq}.jpg\"\n");
    expect_text("a: 'b\n",
                "f.yaml:1:4: error: this is not YAML: found unexpected end of stream while scanning a quoted "
                "scalar (line 2, column 1)\n    hint: the quote that opens here is not closed\n");
}

/* libyaml stops far after what is left open; the message names the place where it opens. */
TEST(what_is_left_open_is_told_where_it_opens) {
    expect_text("a: \"b\nc: 1\nd: \"e\"\n",
                "f.yaml:1:4: error: this is not YAML: did not find expected key while parsing a block mapping "
                "(line 3, column 5)\n    hint: the quote that opens here is not closed on its line\n");
    expect_text("a: {b: 1\nc: 2\n",
                "f.yaml:1:4: error: this is not YAML: did not find expected ',' or '}' while parsing a flow mapping "
                "(line 2, column 2)\n    hint: the bracket or brace is not closed, or a comma is missing in it\n");
    expect_text("a:\n  b: [1,\n",
                "f.yaml:2:6: error: this is not YAML: did not find expected node content while parsing a flow node "
                "(line 3, column 1)\n    hint: the bracket or brace is not closed, or a value is missing in it\n");
    /* An error within one line is reported there, and a closed text with several lines is not blamed. */
    expect_text("a: {b: 1 c: 2}\n",
                "f.yaml:1:11: error: this is not YAML: did not find expected ',' or '}' while parsing a flow mapping\n"
                "    hint: the bracket or brace is not closed, or a comma is missing in it\n");
    expect_text("a: \"b\n  c\"\nd: 'e\n",
                "f.yaml:3:4: error: this is not YAML: found unexpected end of stream while scanning a quoted scalar "
                "(line 4, column 1)\n    hint: the quote that opens here is not closed\n");
}

TEST(bytes_that_are_not_text_are_refused) {
    expect("a: \xff\n", 5, "f.yaml:1:4: error: byte 0xff is not UTF-8\n    hint: save the file as UTF-8\n");
    expect("a: 1\nb: \0\n", 10,
           "f.yaml:2:4: error: the text holds a zero byte (0x00)\n    hint: save the file as UTF-8\n");
    /* Overlong forms, surrogates, beyond U+10FFFF, and a sequence that is cut (RFC 3629). */
    const char *const wrong[] = {"\xc0\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        reading r = read_text(wrong[i]);
        assert_int_equal(r.status, MR_ERROR_CONFIG);
        done(&r);
    }
    reading r = read_text("\"\\0\"");
    assert_int_equal(r.status, MR_ERROR_CONFIG);
    done(&r);
}

/* 20,000 nested brackets take libyaml seconds where it is left to itself. */
TEST(depth_and_length_are_limited) {
    enum { DEEP = 20000 };
    static const char *const opening[] = {"[", "{a: ", "- ", "[\n"};
    char *text = malloc(DEEP * 4 + 1);
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(opening[i]);
        for (size_t k = 0; k < DEEP; k++)
            memcpy(text + k * length, opening[i], length);
        reading r = read_bytes(text, DEEP * length);
        assert_int_equal(r.status, MR_ERROR_CONFIG);
        assert_string_equal(r.diagnostics.item[0].message, "lists and maps are nested more than 32 deep");
        done(&r);
    }
    free(text);
    text = malloc(MR_YAML_MAX_BYTES + 1);
    memset(text, 'x', MR_YAML_MAX_BYTES + 1);
    reading r = read_bytes(text, MR_YAML_MAX_BYTES);
    assert_int_equal(r.status, MR_OK);
    done(&r);
    expect(text, MR_YAML_MAX_BYTES + 1, "f.yaml:1:1: error: the text is longer than 1048576 bytes\n");
    free(text);
}

/* "[x,x,...]": only the list and the items count. */
TEST(keys_and_values_are_limited) {
    enum { ITEMS = MR_YAML_MAX_NODES };
    static char text[2 * ITEMS + 2];
    for (size_t i = 0; i < ITEMS; i++)
        memcpy(text + 1 + 2 * i, "x,", 2);
    text[0] = '[';
    text[2 * ITEMS] = ']';
    expect(text, sizeof text - 1, "f.yaml:1:400000: error: there are more than 200000 keys and values\n");
    text[2 * ITEMS - 2] = ']';
    reading r = read_bytes(text, 2 * ITEMS - 1);
    assert_non_null(r.root);
    assert_int_equal(r.root->count, ITEMS - 1);
    done(&r);
}

TEST(the_deepest_nesting_is_accepted) {
    char text[2 * MR_YAML_MAX_DEPTH + 3];
    for (int depth = MR_YAML_MAX_DEPTH; depth <= MR_YAML_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        reading r = read_bytes(text, (size_t)depth * 2);
        assert_int_equal(r.status, depth == MR_YAML_MAX_DEPTH ? MR_OK : MR_ERROR_CONFIG);
        done(&r);
    }
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

static void expands_to(const char *text, const char *expected) {
    reading r = read_text(text);
    assert_int_equal(r.status, MR_OK);
    assert_int_equal(mr_yaml_expand(r.root, &r.arena, &r.diagnostics), MR_OK);
    assert_string_equal(r.root->text, expected);
    done(&r);
}

static void refuses(const char *text, const char *expected) {
    reading r = read_text(text);
    assert_int_equal(mr_yaml_expand(r.root, &r.arena, &r.diagnostics), MR_ERROR_CONFIG);
    expect_printed(&r.diagnostics, expected);
    assert_true(r.root->broken || r.root->first->broken);
    done(&r);
}

TEST(variables_are_replaced) {
    setenv("MR_TEST_A", "alpha", 1);
    setenv("MR_TEST_EMPTY", "", 1);
    setenv("MR_TEST_RAW", "${MR_TEST_A}: $$ [x]", 1);
    unsetenv("MR_TEST_NONE");
    expands_to("${MR_TEST_A}", "alpha");
    expands_to("'<${MR_TEST_A}>'", "<alpha>");
    expands_to("x${MR_TEST_A}y${MR_TEST_A}z", "xalphayalphaz");
    expands_to("${MR_TEST_EMPTY}", "");
    expands_to("${MR_TEST_NONE:-b c}", "b c");
    expands_to("${MR_TEST_EMPTY:-b}", "b");
    expands_to("${MR_TEST_A:-b}", "alpha");
    expands_to("${MR_TEST_NONE:-}", "");
    expands_to("${MR_TEST_A:?is needed}", "alpha");
    /* Pairs of braces in a default are text. */
    expands_to("'${MR_TEST_NONE:-rows-{time}.jsonl}'", "rows-{time}.jsonl");
    expands_to("'${MR_TEST_A:-rows-{time}.jsonl}!'", "alpha!");
    expands_to("'<${MR_TEST_NONE:-{{a}${MR_TEST_NONE:-{b}}}{c}}>'", "<{{a}{b}}{c}>");
    expands_to("'${MR_TEST_NONE:-$${B}}'", "${B}");
    expands_to("'${MR_TEST_A:?such as {time}.csv}!'", "alpha!");
    expands_to("${MR_TEST_NONE:-<${MR_TEST_A}>}!", "<alpha>!");
    expands_to("${MR_TEST_A:-${MR_TEST_NONE}}", "alpha");
    expands_to("$$5, $5, $, $${MR_TEST_A}", "$5, $5, $, ${MR_TEST_A}");
    /* What a variable holds is text: neither expanded nor read as YAML. */
    expands_to("${MR_TEST_RAW}", "${MR_TEST_A}: $$ [x]");
}

TEST(missing_variables_are_errors_with_a_place) {
    unsetenv("MR_TEST_NONE");
    refuses("a: ${MR_TEST_NONE}", "f.yaml:1:4: error: the variable MR_TEST_NONE is not set\n"
                                  "    hint: set it in the environment: MR_TEST_NONE=...\n");
}

TEST(wrong_variables_are_errors) {
    unsetenv("MR_TEST_NONE");
    refuses("${MR_TEST_NONE:?name a file}", "f.yaml:1:1: error: the variable MR_TEST_NONE is not set: name a file\n"
                                            "    hint: set it in the environment: MR_TEST_NONE=...\n");
    refuses("'${MR_TEST_NONE:-rows-{time.jsonl}'", "f.yaml:1:1: error: \"${MR_TEST_NONE\" is not closed by a brace\n"
                                                   "    hint: write ${NAME}, or $$ for a dollar\n");
    refuses("x${MR_TEST_A", "f.yaml:1:1: error: \"${MR_TEST_A\" is not closed by a brace\n"
                            "    hint: write ${NAME}, or $$ for a dollar\n");
    refuses("${}", "f.yaml:1:1: error: a name is missing after \"${\"\n"
                   "    hint: write ${NAME}, or $$ for a dollar\n");
    refuses("${A-b}", "f.yaml:1:1: error: \"${A\" is followed by an unexpected character\n"
                      "    hint: write ${NAME}, ${NAME:-default} or ${NAME:?message}\n");
}

/* A text with many variables cannot grow without bound. */
TEST(what_variables_make_is_limited) {
    enum { LONG = 100000, TIMES = 20 };
    char *value = malloc(LONG + 1), text[TIMES * 16 + 1] = "";
    memset(value, 'x', LONG);
    value[LONG] = 0;
    setenv("MR_TEST_LONG", value, 1);
    for (int i = 0; i < TIMES; i++)
        strcat(text, "${MR_TEST_LONG}");
    refuses(text, "f.yaml:1:1: error: with its variables expanded this text is longer than 1048576 bytes\n");
    unsetenv("MR_TEST_LONG");
    free(value);
}

/* User and password stand in the node, and the text has neither. The last one has a "://" in its query. */
TEST(passwords_are_taken_out_of_urls) {
    static const struct {
        const char *url, *text, *user, *password;
    } cases[] = {
        {"rtsp://u:p%20q@h/x", "rtsp://h/x", "u", "p q"},
        {"srt://h:1?passphrase=s", "srt://h:1", NULL, "s"},
        {"srt://u@h:1?passphrase=s&mode=caller", "srt://h:1?mode=caller", "u", "s"},
        {"srt://u:p@h:1?mode=caller&passphrase=s", "srt://h:1?mode=caller", "u", "s"},
        {"srt://h@st:90?mode=c://h@s&passphrase=s", "srt://st:90?mode=c://h@s", "h", "s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ENDED_BY(mr_arena_fini) mr_arena arena = {0};
        ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
        mr_yaml node = {.kind = MR_YAML_SCALAR, .text = cases[i].url, .quoted = true};
        assert_int_equal(mr_yaml_take_credentials(&node, &arena, &wrong), MR_OK);
        assert_string_equal(node.text, cases[i].text);
        assert_int_equal(!node.user, !cases[i].user);
        if (node.user)
            assert_string_equal(node.user, cases[i].user);
        assert_string_equal(node.password, cases[i].password);
    }
}

RUN_TESTS(NULL, NULL)
