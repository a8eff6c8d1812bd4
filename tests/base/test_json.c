/* Texts of JSON that others wrote. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "tests/support/suite.h"

/* `levels` arrays or objects in each other. */
static char *nest(int levels, const char *open, const char *close) {
    char *text = calloc((size_t)levels, strlen(open) + strlen(close) + 1);
    assert_non_null(text);
    char *at = text;
    for (int i = 0; i < levels; i++)
        at = stpcpy(at, open);
    for (int i = 0; i < levels; i++)
        at = stpcpy(at, close);
    return text;
}

static void check(int levels, const char *open, const char *close, bool taken) {
    char wrong[256] = "", *text = nest(levels, open, close);
    yajl_val tree = mr_json_parse(text, wrong, sizeof wrong);
    assert_true(taken == (tree != NULL));
    if (!taken)
        assert_string_equal(wrong, "its values are nested more than 64 deep");
    yajl_tree_free(tree);
    assert_true(taken == ((tree = mr_json_parse(text, NULL, 0)) != NULL));
    yajl_tree_free(tree);
    free(text);
}

TEST(texts_are_nested_to_a_limit) {
    static const struct {
        const char *open, *close;
    } forms[] = {{"[", "]"}, {"{\"a\":", "}"}, {"/* \" */[", "]"}, {"[\"]\",", "]"}, {"[{\"]\":[],\"b\":", "}]"}};
    check(MR_JSON_DEPTH, "[", "]", true);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check(2 * MR_JSON_DEPTH, forms[i].open, forms[i].close, false);
        check(1000000, forms[i].open, forms[i].close, false);
    }
    check(1, "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"", "", true);
}

TEST(other_errors_are_yajls) {
    char wrong[256] = "";
    assert_null(mr_json_parse("{\"a\": [1, 2", wrong, sizeof wrong));
    assert_string_equal(wrong, "parse error: premature EOF"); /* one line */
    yajl_val tree = mr_json_parse("{\"a\": [1, 2]} ", wrong, sizeof wrong);
    assert_true(YAJL_IS_OBJECT(tree));
    assert_int_equal(tree->u.object.values[0]->u.array.len, 2);
    yajl_tree_free(tree);
}

/* RFC 8259: JSON is UTF-8 (RFC 3629), without overlong forms, surrogates and numbers above U+10FFFF. */
TEST(names_that_are_not_utf8_are_written_as_ascii) {
    static const char *const cases[][2] = {
        {"a\xc3\xa4", "\"a\xc3\xa4\""}, {"a\xff" "b", "\"a?b\""}, {"\xc3\xa4\xff", "\"\xc3\xa4?\""},
        {"\xc0\xaf", "\"??\""}, {"a\xed\xa0\x80", "\"a???\""}, {"\xf4\x90\x80\x80", "\"????\""},
        {"\xe2\x82", "\"??\""}, {"\xf0\x9f\x90\x88", "\"\xf0\x9f\x90\x88\""}, {"", "\"\""}, {NULL, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *text = NULL;
        size_t bytes = 0;
        yajl_gen json = mr_json_create(false);
        assert_non_null(json);
        mr_json_text(json, NULL, cases[i][0]);
        yajl_gen_get_buf(json, &text, &bytes);
        assert_string_equal((const char *)text, cases[i][1]);
        yajl_gen_free(json);
    }
}

RUN_TESTS(NULL, NULL)
