/* Reading .npy files and labels. The bytes follow numpy.lib.format. test_classify.c reads files written by NumPy. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/model.h"
#include "millrace/status.h"
#include "stages/model/labels.h"
#include "stages/model/npy.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static char path[] = "npy-test-file";

/* Writes a file with this version and header text, and `bytes` data bytes. */
static void write_npy(int version, const char *header, const void *data, size_t bytes) {
    uint8_t file[1024] = "\x93NUMPY";
    size_t length = strlen(header), at = 8;
    file[6] = (uint8_t)version;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        file[at++] = (uint8_t)(length >> 8 * i);
    memcpy(file + at, header, length);
    memcpy(file + at + length, data, bytes);
    write_bytes(path, file, at + length + bytes);
}

/* Both a full read and a look at the header refuse the file. */
static void refused(const char *word) {
    for (int look = 0; look < 2; look++) {
        mr_matrix_f32 matrix = {0};
        assert_int_equal(look ? mr_npy_look(path, &matrix) : mr_npy_read(path, &matrix), MR_ERROR_DATA);
        assert_null(matrix.data);
        expect_words(mr_message(), path);
        expect_words(mr_message(), word);
    }
}

static const float six[] = {1, 2, 3, -4, 5.5f, 6};
#define HEADER(type, order, shape) "{'descr': '" type "', 'fortran_order': " order ", 'shape': " shape ", }   \n"

TEST(both_versions_are_read) {
    for (int version = 1; version <= 2; version++) {
        mr_matrix_f32 matrix = {0};
        write_npy(version, HEADER("<f4", "False", "(2, 3)"), six, sizeof six);
        assert_int_equal(mr_npy_read(path, &matrix), MR_OK);
        assert_int_equal(matrix.rows, 2);
        assert_int_equal(matrix.columns, 3);
        assert_memory_equal(matrix.data, six, sizeof six);
        assert_int_equal((uintptr_t)matrix.data % 64, 0);
        mr_npy_free(&matrix);
        assert_int_equal(mr_npy_look(path, &matrix), MR_OK);
        assert_int_equal(matrix.rows, 2);
        assert_int_equal(matrix.columns, 3);
        assert_null(matrix.data);
        size_t rows = 0, columns = 0;
        assert_int_equal(mr_npy_shape(path, &rows, &columns), MR_OK);
        assert_true(rows == 2 && columns == 3);
    }
}

TEST(doubles_are_rounded) {
    const double wide[] = {0.1, -3.4e38, 3, 1e-60};
    const float narrow[] = {0.1f, -3.4e38f, 3, 0};
    ENDED_BY(mr_npy_free) mr_matrix_f32 matrix = {0};
    write_npy(1, HEADER("<f8", "False", "(4, 1)"), wide, sizeof wide);
    assert_int_equal(mr_npy_read(path, &matrix), MR_OK);
    assert_memory_equal(matrix.data, narrow, sizeof narrow);
}

typedef struct bad_file {
    int version;
    const char *header;
    size_t bytes; /* of `six` to write */
    const char *word;
} bad_file;

static void refuse_all(const bad_file *files) {
    for (; files->word; files++) {
        write_npy(files->version, files->header, six, files->bytes);
        refused(files->word);
    }
}

TEST(other_arrays_are_refused) {
    refuse_all((const bad_file[]){
        {1, HEADER(">f4", "False", "(2, 3)"), sizeof six, "big-endian"},
        {1, HEADER("<f4", "True", "(2, 3)"), sizeof six, "Fortran"},
        {1, HEADER("<i4", "False", "(2, 3)"), sizeof six,
         "its numbers are of the type i4; save array.astype('<f4')"},
        {1, HEADER("<f2", "False", "(2, 3)"), sizeof six, "f2"},
        {1, HEADER("<f4", "False", "(6,)"), sizeof six, "has 1 dimension;"},
        {1, HEADER("<f4", "False", "(1, 2, 3)"), sizeof six, "has 3 dimensions;"},
        {1, HEADER("<f4", "False", "(0, 3)"), 0, "is a matrix of 0x3: it is empty"},
        {3, HEADER("<f4", "False", "(2, 3)"), sizeof six, "version 3"},
        {0},
    });
}

TEST(numbers_that_are_not_finite_are_refused) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        float numbers[6] = {1, 2, 3, 4, 5, 6};
        numbers[5] = bad[i];
        write_npy(1, HEADER("<f4", "False", "(2, 3)"), numbers, sizeof numbers);
        refused("row 1, column 2");
        refused(isnan(bad[i]) ? "nan" : "inf");
    }
    double wide[6] = {0, 0, 0, NAN, 0, 0};
    write_npy(1, HEADER("<f8", "False", "(3, 2)"), wide, sizeof wide);
    refused("row 1, column 1 is nan, which is not a finite number");
    wide[3] = -1e39;
    write_npy(1, HEADER("<f8", "False", "(3, 2)"), wide, sizeof wide);
    refused("row 1, column 1 is -1e+39, which is beyond the range of f4");
}

/* The check continues after the first piece. */
TEST(large_files_are_checked_whole) {
    enum { ROWS = 5000, COLUMNS = 3 };
    static uint8_t file[1024 + ROWS * COLUMNS * sizeof(float)];
    const char *header = HEADER("<f4", "False", "(5000, 3)");
    size_t length = strlen(header), start = 10 + length;
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (uint8_t)length;
    memcpy(file + 10, header, length);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        memcpy(file + start + i * sizeof(float), &(float){(float)i}, sizeof(float));
    write_bytes(path, file, start + ROWS * COLUMNS * sizeof(float));
    mr_matrix_f32 matrix = {0};
    assert_int_equal(mr_npy_read(path, &matrix), MR_OK);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        assert_true(matrix.data[i] == (float)i);
    mr_npy_free(&matrix);
    memcpy(file + start + (4321 * COLUMNS + 1) * sizeof(float), &(float){INFINITY}, sizeof(float));
    write_bytes(path, file, start + ROWS * COLUMNS * sizeof(float));
    refused("row 4321, column 1");
}

TEST(damaged_files_are_refused) {
    refuse_all((const bad_file[]){
        {1, HEADER("<f4", "False", "(2, 3)"), sizeof six - 1, "cut off"},
        {1, HEADER("<f4", "False", "(2, 2)"), sizeof six, "longer than its header"},
        {1, HEADER("<f4", "False", "(400000, 400000)"), sizeof six, "larger than"},
        {1, HEADER("<f4", "False", "(99999999999999999999999, 2)"), sizeof six, "header"},
        {1, HEADER("<f4", "False", "(2, x)"), sizeof six, "header"},
        {1, "{'descr': '<f4'}", 0, "header"},
        {1, "", 0, "header"},
        /* Each header ends before an expected token. */
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr': '", 0, "header"},
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr': '<", 0, "header"},
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr': '<f", 0, "header"},
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr': '<f4", 0, "header"},
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr': ", 0, "header"},
        {1, "{'shape': (1, 1), 'fortran_order': False, 'descr'", 0, "header"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (", 0, "header"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1", 0, "header"},
        {0},
    });
    write_bytes(path, "\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12);
    refused("too long");
    write_bytes(path, "\x93NUMPY\x01", 7);
    refused("cut off");
    write_bytes(path, "labels\nand more\n", 16);
    refused("not a .npy");
}

TEST(missing_files_and_folders_are_refused) {
    mr_matrix_f32 matrix = {0};
    mr_labels labels = {0};
    unlink(path);
    assert_int_equal(mr_npy_read(path, &matrix), MR_ERROR_NO_INPUT);
    assert_int_equal(mr_labels_read(path, &labels), MR_ERROR_NO_INPUT);
    assert_int_equal(mr_npy_read(".", &matrix), MR_ERROR_DATA);
    assert_int_equal(mr_labels_read(".", &labels), MR_ERROR_DATA);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mr_npy_read(path, &matrix), MR_ERROR_DATA);
    assert_int_equal(mr_labels_read(path, &labels), MR_ERROR_DATA);
    unlink(path);
}

/* ---- labels ---------------------------------------------------------------------------------------------------- */

static void read_labels(const char *text, mr_labels *labels) {
    write_bytes(path, text, strlen(text));
    assert_int_equal(mr_labels_read(path, labels), MR_OK);
}

TEST(labels_stand_one_a_line) {
    mr_labels labels = {0};
    read_labels("hen\r\n\ntr\xc3\xa4ge Ente\nlast", &labels);
    assert_int_equal(labels.count, 4);
    assert_string_equal(labels.item[0], "hen");
    assert_string_equal(labels.item[1], "");
    assert_string_equal(labels.item[2], "tr\xc3\xa4ge Ente");
    assert_string_equal(labels.item[3], "last");
    mr_labels_free(&labels);
    read_labels("\xef\xbb\xbfhen\r\ngull\r\n", &labels);
    assert_int_equal(labels.count, 2);
    assert_string_equal(labels.item[0], "hen");
    assert_string_equal(labels.item[1], "gull");
    mr_labels_free(&labels);
    read_labels("a\nb\n", &labels);
    assert_int_equal(labels.count, 2);
    mr_labels_free(&labels);
}

TEST(labels_are_text) {
    static const struct {
        const char *text;
        size_t bytes;
        const char *word;
    } wrong[] = {{"a\0b\n", 4, "text"},           {"a\nb\xff\n", 5, "line 2"}, {"\xc0\xaf\n", 3, "line 1"},
                 {"\xed\xa0\x80\n", 4, "line 1"}, {"ab\xe2\x82", 4, "line 1"}, {"", 0, "empty"},
                 {"\xef\xbb\xbf", 3, "empty"}, {"\xef\xbb\xbfok\nb\xff\n", 8, "line 2"},
                 {"\xff\xfeh\0", 4, "UTF-16"}, {"\xfe\xff\0h", 4, "UTF-16"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mr_labels labels = {0};
        write_bytes(path, wrong[i].text, wrong[i].bytes);
        assert_int_equal(mr_labels_read(path, &labels), MR_ERROR_DATA);
        expect_words(mr_message(), wrong[i].word);
        assert_null(labels.item);
    }
}

TEST(empty_lines_at_the_end_are_no_labels) {
    static const struct {
        const char *text;
        size_t count;
    } cases[] = {{"a\nb\n\n\n", 2}, {"a\r\n\r\nb\r\n\r\n", 3}, {"a\n \n", 2}, {"\xef\xbb\xbf" "a\n\n", 1}};
    mr_labels labels = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(path, cases[i].text, strlen(cases[i].text));
        assert_int_equal(mr_labels_read(path, &labels), MR_OK);
        assert_int_equal(labels.count, cases[i].count);
        mr_labels_free(&labels);
    }
    write_bytes(path, "\n\r\n", 3);
    assert_int_equal(mr_labels_read(path, &labels), MR_ERROR_DATA);
}

TEST(a_label_has_an_end) {
    static char text[MR_LABEL_MAX_BYTES + 2];
    memset(text, 'x', MR_LABEL_MAX_BYTES + 1);
    ENDED_BY(mr_labels_free) mr_labels labels = {0};
    write_bytes(path, text, sizeof text - 1);
    assert_int_equal(mr_labels_read(path, &labels), MR_ERROR_DATA);
    write_bytes(path, text, MR_LABEL_MAX_BYTES);
    assert_int_equal(mr_labels_read(path, &labels), MR_OK);
    assert_int_equal(strlen(labels.item[0]), MR_LABEL_MAX_BYTES);
}

/* ---- labels in a model's metadata ------------------------------------------------------------------------------- */

static void note_has(const char *note, const char *all) {
    ENDED_BY(mr_labels_free) mr_labels labels = {0};
    char text[256] = "";
    assert_int_equal(mr_labels_read_note(note, &labels), MR_OK);
    for (size_t i = 0; i < labels.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s|", labels.item[i]);
    assert_string_equal(text, all);
}

TEST(notes_have_labels) {
    note_has(NULL, "");
    note_has("", "");
    note_has("[]", "");
    note_has("{}", "");
    note_has("None", "");
    note_has("null", "");
    note_has("[\"hen\", \"a \\\"b\\\"\"]", "hen|a \"b\"|");
    note_has(" {0: 'person', 1: \"driver's seat\", 2: 'it\\'s'} ", "person|driver's seat|it's|");
    note_has("{\"0\": \"tr\xc3\xa4ge Ente\",\n \"1\": \"\"}\n", "tr\xc3\xa4ge Ente||");
    note_has("['a', 'b',]", "a|b|");
    note_has("{2: 'c', 0: 'a', 1: 'b'}", "a|b|c|");
    note_has("{\"1\": \"\\u4eba \\ud83d\\ude00\", \"0\": \"\\u0041\\/\"}",
             "A/|\xe4\xba\xba \xf0\x9f\x98\x80|");
    note_has("['caf\\xe9', '\\U0001F600']", "caf\xc3\xa9|\xf0\x9f\x98\x80|");
}

TEST(notes_must_be_whole) {
    static const char *const wrong[] = {
        "person", "none", "None ",
        "[", "{", "['a'", "['a", "['a\\", "[a]", "['a' 'b']", "['a'] x", "{1: 'a'}", "{0: 'a', 2: 'b'}",
        "{0 'a'}", "{'0: 'a'}", "{-0: 'a'}", "['a\nb']", "['\xff']", "['\xc3']", "['\\u004']", "['\\n']",
        "['\\x0a']", "['\\ud83d']",
        "['\\udc00']", "['\\U00110000']", "['\\", "{0: 'a', 0: 'b'}", "{0: 'a', 1000: 'b'}", "{0: ['a']}",
        "{18446744073709551616: 'a'}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mr_labels labels = {0};
        assert_int_equal(mr_labels_read_note(wrong[i], &labels), MR_ERROR_DATA);
        assert_null(labels.item);
    }
}

TEST(long_notes_are_refused) {
    static char note[MR_LABELS_MAX_BYTES + 2];
    ENDED_BY(mr_labels_free) mr_labels labels = {0};
    memset(note, ' ', MR_LABELS_MAX_BYTES + 1);
    memcpy(note, "['a']", 5);
    assert_int_equal(mr_labels_read_note(note, &labels), MR_ERROR_DATA);
    expect_words(mr_message(), "16777217 bytes");
    note[MR_LABELS_MAX_BYTES] = 0;
    note_has(note, "a|");
    memset(note, 'x', MR_LABEL_MAX_BYTES + 8); /* one label is too long */
    memcpy(note, "['", 2);
    memcpy(note + 2 + MR_LABEL_MAX_BYTES, "']", 3);
    assert_int_equal(mr_labels_read_note(note, &labels), MR_ERROR_DATA);
    memcpy(note + 1 + MR_LABEL_MAX_BYTES, "']", 3);
    assert_int_equal(mr_labels_read_note(note, &labels), MR_OK);
}

static int clean(void **state) {
    unlink(path);
    return 0;
}

RUN_TESTS(NULL, clean)
