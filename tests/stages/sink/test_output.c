#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "stages/sink/output.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

TEST_WITH(one_file_takes_one_writer, make_temporary, remove_temporary) {
    const char *path = temporary_path;
    write_bytes(path, "old", 3);
    mr_output first = {0}, second = {0};
    assert_int_equal(mr_output_open(&first, path), MR_OK);
    assert_int_equal(mr_output_write(&first, NULL, "new text", 8), MR_OK);
    assert_int_equal(mr_output_open(&second, path), MR_ERROR_IO);
    expect_words(mr_message(), "another stage");
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 8);
    mr_output_close(&first, NULL);
    assert_int_equal(mr_output_open(&second, path), MR_OK);
    mr_output_close(&second, NULL);
}

TEST(standard_output_takes_one_writer) {
    mr_output first = {0}, second = {0};
    assert_int_equal(mr_output_open(&first, "-"), MR_OK);
    assert_true(mr_output_takes_stdout());
    assert_int_equal(mr_output_open(&second, "-"), MR_ERROR_IO);
    mr_output_close(&second, NULL);
    assert_int_equal(mr_output_open(&second, "-"), MR_ERROR_IO);
    mr_output_close(&first, NULL);
    assert_int_equal(mr_output_open(&second, "-"), MR_OK);
    mr_output_close(&second, NULL);
    assert_true(fcntl(STDOUT_FILENO, F_GETFD) >= 0);
}

TEST(outputs_that_cannot_be_opened_are_reported) {
    mr_output output;
    assert_int_equal(mr_output_open(&output, "/nonexistent/x.jsonl"), MR_ERROR_IO);
    expect_words(mr_message(), "/nonexistent/x.jsonl: there is no folder /nonexistent");
    char path[64];
    snprintf(path, sizeof path, "%s/fifo", temporary_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(mr_output_blocks(path));
    /* Without a reader, the first write opens it. */
    assert_int_equal(mr_output_open(&output, path), MR_OK);
    assert_true(output.awaits_reader && output.fd == 0);
    mr_output_close(&output, NULL);
}

RUN_TESTS(make_temporary_folder, remove_temporary_folder)
