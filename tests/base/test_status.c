#include "millrace/status.h"
#include "tests/support/suite.h"

TEST(message_is_kept_and_may_quote_the_last) {
    assert_int_equal(mr_fail(MR_ERROR_DATA, "packet %d", 7), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "packet 7");
    mr_fail(MR_ERROR_IO, "decode: %s", mr_message());
    assert_string_equal(mr_message(), "decode: packet 7");
}

TEST(exit_codes_follow_sysexits) {
    assert_int_equal(mr_status_exit_code(MR_OK), 0);
    assert_int_equal(mr_status_exit_code(MR_ERROR_CONFIG), 78);
    assert_int_equal(mr_status_exit_code(MR_ERROR_NO_INPUT), 66);
    assert_int_equal(mr_status_exit_code(-1000), 70);
}

RUN_TESTS(NULL, NULL)
