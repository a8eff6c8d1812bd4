/* Labelled file lists: contents and parts (millrace/dataset.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/dataset.h"
#include "millrace/log.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static const char *write_file(const char *name, const char *text, size_t bytes) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", temporary_folder, name);
    write_bytes(path, text, bytes);
    return path;
}

static mr_file_list *read_list(const char *name, const char *text, size_t bytes, size_t count) {
    mr_file_list *list;
    assert_int_equal(mr_file_list_open(&list, write_file(name, text, bytes)), MR_OK);
    assert_int_equal(list->count, count);
    return list;
}

static void refuses(const char *name, const char *text, size_t bytes, const char *message) {
    mr_file_list *list;
    const char *path = write_file(name, text, bytes);
    assert_int_equal(mr_file_list_open(&list, path), MR_ERROR_DATA);
    assert_null(list);
    assert_int_equal(strncmp(mr_message(), temporary_folder, strlen(temporary_folder)), 0);
    const char *rest = mr_message() + strlen(temporary_folder) + 1 + strlen(name);
    if (strncmp(rest, message, strlen(message)) != 0)
        fail_msg("\"%s\" in place of \"%s\"", rest, message);
}

TEST(reads_csv) {
    static const char text[] = "\xef\xbb\xbfLabel,path,note,group,split\r\n"
                               "\"b, \"\"x\"\"\",one.png,\"two\nlines\",g1,test\r\n"
                               "\n"
                               "a,/two.png,,,\n"
                               ",three.png,,g1,validation";
    char path[256];
    mr_file_list *list = read_list("good.csv", text, sizeof text - 1, 3);
    assert_int_equal(list->label_count, 2);
    assert_string_equal(list->labels[0], "a");
    assert_string_equal(list->labels[1], "b, \"x\"");
    snprintf(path, sizeof path, "%s/one.png", temporary_folder);
    assert_string_equal(list->files[0].path, path);
    assert_string_equal(list->files[0].group, "g1");
    assert_int_equal(list->files[0].label, 1);
    assert_int_equal(list->files[0].split, MR_SPLIT_TEST);
    assert_int_equal(list->files[0].line, 2);
    assert_string_equal(list->files[1].path, "/two.png");
    assert_null(list->files[1].group);
    assert_int_equal(list->files[1].label, 0);
    assert_int_equal(list->files[1].split, MR_SPLIT_NONE);
    assert_int_equal(list->files[1].line, 5);
    assert_int_equal(list->files[2].label, -1);
    assert_int_equal(list->files[2].split, MR_SPLIT_VALIDATION);
    mr_file_list_close(&list);
    assert_null(list);
}

/* Lists written by hand. Columns are those of RFC 4180 and of Python's csv with skipinitialspace. */
TEST(blanks_around_fields_are_left_out) {
    static const char text[] = " path ,\tlabel, group\r\n"
                               "  one.png, black cat , \" g 1 \" \n"
                               "\" two.png\",black cat,\n"
                               "   \n";
    ENDED_BY(mr_file_list_close) mr_file_list *list = read_list("blanks.csv", text, sizeof text - 1, 2);
    assert_int_equal(list->label_count, 1);
    assert_string_equal(list->labels[0], "black cat");
    assert_string_equal(list->files[0].path + strlen(temporary_folder) + 1, "one.png");
    assert_string_equal(list->files[0].group, " g 1 ");
    assert_string_equal(list->files[1].path + strlen(temporary_folder) + 1, " two.png");
    assert_null(list->files[1].group);
}

static char heard[512];

static void hear(void *context, mr_log_level level, const char *line) {
    snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s\n", line);
}

/* If a misspelt group column were ignored, pictures of one person could be in several parts. */
TEST(a_column_that_is_not_used_is_named) {
    static const struct {
        const char *name, *text, *column;
    } lists[] = {{"a.csv", "path,label,groups,note\na.png,a,g,n\n", "groups"},
                 {"b.csv", ",path,label\n0,a.png,a\n", NULL},
                 {"c.jsonl", "{\"path\": \"a\", \"label\": {\"x\": 1}}\n", NULL},
                 {"d.jsonl", "{\"path\": \"a\"}\n{\"Group\": 1, \"class\": \"b\", \"path\": \"b\"}\n", "class"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char words[64];
        ENDED_BY(mr_file_list_close) mr_file_list *list;
        *heard = 0;
        mr_log_to(hear, NULL);
        mr_file_list_open(&list, write_file(lists[i].name, lists[i].text, strlen(lists[i].text)));
        mr_log_to(NULL, NULL);
        snprintf(words, sizeof words, "the column \"%s\" is not used", lists[i].column ? lists[i].column : "");
        assert_int_equal(strstr(heard, words) != NULL, lists[i].column != NULL);
        assert_int_equal(*heard != 0, lists[i].column != NULL);
    }
}

TEST(reads_jsonl) {
    static const char text[] = "{\"path\": \"one.png\", \"label\": 10, \"more\": {\"path\": [1, {\"label\": 2}]}}\n"
                               " \n"
                               "{\"label\": \"9\", \"path\": \"tw\\u00f6.png\", \"group\": null, \"split\": \"train\"}";
    ENDED_BY(mr_file_list_close) mr_file_list *list = read_list("good.jsonl", text, sizeof text - 1, 2);
    assert_string_equal(list->labels[0], "10");
    assert_string_equal(list->labels[1], "9");
    assert_int_equal(list->files[0].label, 0);
    assert_int_equal(list->files[1].label, 1);
    assert_int_equal(list->files[1].split, MR_SPLIT_TRAIN);
    assert_int_equal(list->files[1].line, 3);
    assert_string_equal(list->files[1].path + strlen(temporary_folder) + 1, "tw\xc3\xb6.png");
}

TEST(reads_ranges) {
    static const char text[] = "path,start,end\na.mp4,1.5,2\na.mp4,,0.25\na,3,\na,,\nb.png,,\nc.MKV,,\n";
    static const char lines[] = "{\"path\": \"a.mp4\", \"start\": 1.5, \"end\": \"2e0\"}\n";
    static const struct {
        bool video;
        int64_t start_ns, end_ns;
    } rows[] = {{true, 1500000000, 2000000000}, {true, 0, 250000000}, {true, 3000000000, 0},
                {false, 0, 0},                  {false, 0, 0},        {true, 0, 0}};
    mr_file_list *list = read_list("ranges.csv", text, sizeof text - 1, 6);
    for (size_t i = 0; i < list->count; i++) {
        assert_int_equal(list->files[i].video, rows[i].video);
        assert_int_equal(list->files[i].start_ns, rows[i].start_ns);
        assert_int_equal(list->files[i].end_ns, rows[i].end_ns);
    }
    mr_file_list_close(&list);
    list = read_list("ranges.jsonl", lines, sizeof lines - 1, 1);
    assert_int_equal(list->files[0].start_ns, 1500000000);
    assert_int_equal(list->files[0].end_ns, 2000000000);
    mr_file_list_close(&list);
}

#define REFUSES(name, text, message) refuses(name, text, sizeof text - 1, message)
TEST(refuses_bad_rows) {
    REFUSES("bad.csv", "file,label\na.png,a\n", ":1: no column is called path");
    REFUSES("bad.csv", "path;label\na.png;a\n", ":1: the columns are separated by \";\": a list has commas");
    REFUSES("bad.csv", "path\tlabel\na.png\ta\n", ":1: the columns are separated by tabs: a list has commas");
    REFUSES("bad.csv", "path,path\na.png,a\n", ":1: two columns are called path");
    REFUSES("bad.csv", "path,label\na.png,a\nb.png\n", ":3: the row has 1 field, and the first row names 2");
    REFUSES("bad.csv", "path,label\n,a\n", ":2: the row has no path");
    REFUSES("bad.csv", "path,label\n\"a.png,a\n", ":2: a quote is not closed");
    REFUSES("bad.csv", "path,label\n\"a\"b,a\n", ":2: text after a closing quote");
    REFUSES("bad.csv", "path,label\na\"b,a\n", ":2: a quote inside a field");
    REFUSES("bad.csv", "path,split\na.png,tset\n", ":2: split is train, validation or test, or empty, not \"tset\"");
    REFUSES("bad.csv", "path,start\na.mp4,soon\n", ":2: start is a time in seconds, such as 12.5, not \"soon\"");
    REFUSES("bad.csv", "path,start\na.mp4,-1\n", ":2: start is a time in seconds");
    REFUSES("bad.csv", "path,start\na.mp4,nan\n", ":2: start is a time in seconds");
    REFUSES("bad.csv", "path,end\na.mp4,1e9\n", ":2: end is a time in seconds");
    REFUSES("bad.csv", "path,start,end\na.mp4,2,2\n", ":2: the range ends at 2 s, not after its start");
    REFUSES("bad.csv", "path,end\na.mp4,0\n", ":2: the range ends at 0 s, not after its start");
    REFUSES("bad.csv", "path,start\na.png,2\n", ":2: start and end are a range of a video, and a.png is a picture");
    REFUSES("bad.csv", "path,label\na.png,\xff\n", ":2: the label is not UTF-8");
    REFUSES("bad.csv", "path,label\n\"a\nb.png\",c\n", ":2: the path has a control character in it");
    REFUSES("bad.csv", "path,label\n", ": the list has no rows");
    REFUSES("bad.csv", "path\0label\n", ": is not a text: it has a zero byte in it");
    REFUSES("bad.csv", "\xff\xfep\0a\0t\0h\0", ": is UTF-16; save it as UTF-8");
    REFUSES("bad.csv", "\xfe\xff\0p\0a\0t\0h", ": is UTF-16; save it as UTF-8");
    REFUSES("bad.jsonl", "{\"path\": \"a\"}\n{\"path\": \"b\"\n", ":2: not a JSON object");
    REFUSES("bad.jsonl", "[{\"path\": \"a\"}]\n", ":1: not a JSON object");
    REFUSES("bad.jsonl", "{\"path\": \"a\"} {}\n", ":1: not a JSON object");
    REFUSES("bad.jsonl", "{\"path\": 3}\n", ":1: path is not a text");
    REFUSES("bad.jsonl", "{\"path\": \"a\", \"label\": [1]}\n", ":1: label is not a text");
    REFUSES("bad.jsonl", "{\"path\": \"a\", \"path\": \"b\"}\n", ":1: two values are called path");
    REFUSES("bad.jsonl", "{\"path\": \"a\\u0000b\"}\n", ":1: the path has a control character in it");
    REFUSES("bad.jsonl", "{\"path\": \"a\", \"end\": true}\n", ":1: end is not a text");
    REFUSES("bad.jsonl", "{\"path\": \"a\", \"start\": 3, \"end\": 2.5}\n", ":1: the range ends at 2.5 s");
    REFUSES("bad.jsonl", "{\"label\": \"a\"}\n", ":1: the row has no path");
}

TEST(knows_content_again) {
    mr_content_key one, two, other;
    assert_int_equal(mr_content_key_of(write_file("one", "content", 7), &one), MR_OK);
    assert_int_equal(mr_content_key_of(write_file("two", "content", 7), &two), MR_OK);
    assert_int_equal(mr_content_key_of(write_file("other", "contenu", 7), &other), MR_OK);
    assert_memory_equal(&one, &two, sizeof one);
    assert_memory_not_equal(&one, &other, sizeof one);
    assert_int_equal(mr_content_key_of("/dev/null", &one), MR_ERROR_DATA);
    assert_int_equal(mr_content_key_of("/nothing", &one), MR_ERROR_NO_INPUT);
}

TEST(splits_by_group) {
    const mr_split_shares shares = {.validation = 0.1, .test = 0.25};
    int count[MR_SPLITS] = {0};
    char group[32];
    for (int i = 0; i < 20000; i++) {
        int bytes = snprintf(group, sizeof group, "group %d", i);
        count[mr_split_of(1, group, (size_t)bytes, shares)]++;
    }
    assert_int_equal(count[MR_SPLIT_NONE], 0);
    assert_in_range(count[MR_SPLIT_VALIDATION], 1830, 2170); /* four standard deviations */
    assert_in_range(count[MR_SPLIT_TEST], 4755, 5245);
    assert_int_equal(mr_split_of(1, "camera 7", 8, (mr_split_shares){.test = 0.0}), MR_SPLIT_TRAIN);
    assert_int_equal(mr_split_of(1, "camera 7", 8, (mr_split_shares){.test = 1.0}), MR_SPLIT_TEST);
    assert_int_equal(mr_split_of(1, "camera 7", 8, (mr_split_shares){.validation = 1.0}), MR_SPLIT_VALIDATION);
    for (int i = MR_SPLIT_TRAIN; i < MR_SPLITS; i++)
        assert_int_equal(mr_split_parse(mr_split_name((mr_split)i)), i);
    assert_int_equal(mr_split_parse(""), MR_SPLIT_NONE);
}

RUN_TESTS(make_temporary_folder, remove_temporary_folder)
