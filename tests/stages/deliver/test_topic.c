/* Topics from templates, and names for Home Assistant. */
#include <string.h>

#include "stages/deliver/home_assistant.h"
#include "stages/deliver/topic.h"
#include "tests/support/suite.h"

static const char *topic_of(const char *template, const char *class) {
    static char topic[256];
    const mr_topic_values values = {.pipeline = "alarms", .stage = "mqtt", .source = "lobby", .class = class};
    const size_t length = mr_topic_make(topic, sizeof topic, template, &values);
    assert_int_equal(length, strlen(topic));
    return topic;
}

TEST(words_are_replaced) {
    assert_string_equal(topic_of("site/{pipeline}/{stage}/{source}/{class}", "owl"), "site/alarms/mqtt/lobby/owl");
    assert_string_equal(topic_of("{source}", "owl"), "lobby");
    assert_string_equal(topic_of("a/{class}", NULL), "a/none");
    assert_string_equal(topic_of("a/{}/{", NULL), "a/{}/{");
}

TEST(values_stay_in_their_level) {
    assert_string_equal(topic_of("a/{class}", "x/y"), "a/x%2Fy");
    assert_string_equal(topic_of("a/{class}", "+#%$"), "a/%2B%23%25$");
    assert_string_equal(topic_of("{class}", "$SYS"), "%24SYS");
    assert_string_equal(topic_of("{class}", "it\ts \x7f"), "it%09s %7F");
    assert_string_equal(topic_of("{class}", "Gr\xc3\xb6\xc3\x9f" "e"), "Gr\xc3\xb6\xc3\x9f" "e");
    assert_string_equal(topic_of("{class}", "\xff" "a\xc3"), "%FFa%C3");
    assert_string_equal(topic_of("{class}", "\xc2\x85\xef\xbf\xbf"), "%C2%85%EF%BF%BF");
    assert_string_equal(topic_of("{class}", "{source}"), "{source}");
}

TEST(a_topic_that_is_too_long_is_cut) {
    char topic[8];
    const mr_topic_values values = {.pipeline = "p", .stage = "s", .source = "source"};
    assert_int_equal(mr_topic_make(topic, sizeof topic, "a/{source}/b", &values), 10);
    assert_string_equal(topic, "a/sourc");
}

TEST(names_for_home_assistant_stay_different) {
    static const char *const names[] = {"lobby.1", "lobby_1",   "lobby 1",  "lobby/1",
                                        "lobby-1", "lobby_2E1", "lobby_5F1"};
    char made[sizeof names / sizeof *names][32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_in_range(mr_home_name(made[i], sizeof made[i], names[i]), 7, 31);
        assert_int_equal(strspn(made[i], "abcdefghijklmnopqrstuvwxyzABCDEF0123456789_-"), strlen(made[i]));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(made[i], made[j]);
    }
    assert_string_equal(made[0], "lobby_2E1");
    assert_string_equal(made[3], "lobby-1");
    assert_int_equal(mr_home_name(made[0], 4, "lobby"), 5);
    assert_string_equal(made[0], "lob");
}

RUN_TESTS(NULL, NULL)
