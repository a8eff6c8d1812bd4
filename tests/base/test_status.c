#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "millrace/status.h"

static void message_is_kept_and_may_quote_the_last(void **state) {
    (void)state;
    assert_int_equal(mr_fail(MR_ERROR_DATA, "packet %d", 7), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "packet 7");
    mr_fail(MR_ERROR_IO, "decode: %s", mr_message());
    assert_string_equal(mr_message(), "decode: packet 7");
}

static void exit_codes_follow_sysexits(void **state) {
    (void)state;
    assert_int_equal(mr_status_exit_code(MR_OK), 0);
    assert_int_equal(mr_status_exit_code(MR_ERROR_CONFIG), 78);
    assert_int_equal(mr_status_exit_code(MR_ERROR_NO_INPUT), 66);
    assert_int_equal(mr_status_exit_code(-1000), 70);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_is_kept_and_may_quote_the_last),
        cmocka_unit_test(exit_codes_follow_sysexits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
