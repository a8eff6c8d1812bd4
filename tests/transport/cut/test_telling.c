/* What cut ends write to the audit log: not everything if too much happens at once; everything about peers, whatever
 * strangers do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe/audit_log.h"
#include "engine/transport/cut/cut_end.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { AT_ONCE = 20, MANY = 100 };
static const int64_t S = 1000000000;
static mr_instance instance;

TEST(test_so_many_at_once) {
    mr_audit_allowance allowance = mr_audit_allowance_at(0);
    int count = 0;
    for (int i = 0; i < MANY; i++)
        count += mr_audit_may(&allowance, 0);
    assert_int_equal(count, AT_ONCE);
    assert_false(mr_audit_may(&allowance, S - S / 10));
    assert_true(mr_audit_may(&allowance, S + S / 10));
    assert_false(mr_audit_may(&allowance, S + S / 10));
    assert_int_equal(mr_audit_left_out(&allowance), MANY - AT_ONCE + 2);
    assert_int_equal(mr_audit_left_out(&allowance), 0);
    for (int i = count = 0; i < MANY; i++)
        count += mr_audit_may(&allowance, 1000 * S);
    assert_int_equal(count, AT_ONCE);
}

TEST_WITH(test_strangers_keep_nothing_from_being_told, make_temporary, remove_temporary) {
    const mr_cut cut = {.name = "a->b", .node = "a", .from_node = "a", .to_node = "b"};
    mr_action refused = {.kind = MR_ACTION_PEER}, gone = {.kind = MR_ACTION_PEER};
    assert_int_equal(mr_audit_open(temporary_path), MR_OK);
    mr_log_set_level(MR_LOG_ERROR);
    mr_cut_reporter reporter = mr_cut_report_begin(&instance, &cut);
    int64_t now_ns = reporter.strangers.counted_ns;
    refused.of.change = MR_PEER_REJECTED;
    refused.of.name = "stranger";
    gone.of.change = MR_PEER_SILENT;
    gone.of.name = "b";
    for (int i = 0; i < MANY; i++) {
        mr_fail(MR_ERROR_PROTOCOL, "nonsense");
        mr_cut_report_refused(&reporter, 1, now_ns);
        mr_cut_report_peer(&reporter, &refused, now_ns);
    }
    mr_cut_report_peer(&reporter, &gone, now_ns);
    mr_cut_report_end(&reporter);
    mr_cut_report_end(&reporter);
    mr_audit_close();
    /* Each is logged or counted. */
    assert_int_equal(count_lines(temporary_path, "\"left out\",\"cut\":\"a->b\"", "\"left_out\":180}"), 1);
    assert_int_equal(count_lines(temporary_path, "\"left out\"", ""), 1);
    assert_int_equal(count_lines(temporary_path, "cut message refused", "\"left_out\":0}"), AT_ONCE / 2);
    assert_int_equal(count_lines(temporary_path, "cut message refused", "nonsense"), AT_ONCE / 2);
    assert_int_equal(count_lines(temporary_path, "cut peer", "stranger"), AT_ONCE / 2);
    assert_int_equal(count_lines(temporary_path, "cut peer", "silent"), 1);
}

static void keep_line(void *context, mr_log_level level, const char *line) {
    snprintf(context, 1024, "%s", line);
}

/* Whether the report about a peer that never came says that this node will soon fail. */
static bool says_it_fails(mr_cut_reporter *reporter) {
    char line[1024] = "";
    mr_log_to(keep_line, line);
    mr_log_set_level(MR_LOG_WARNING);
    mr_cut_report_absence(reporter, true, "tcp://10.0.0.1:5", 10 * S);
    mr_cut_report_absence(reporter, true, "tcp://10.0.0.1:5", 20 * S);
    mr_log_to(NULL, NULL);
    mr_log_set_level(MR_LOG_ERROR);
    assert_non_null(strstr(line, "a and b do not work together (why)"));
    return strstr(line, "this node fails in 25 s");
}

/* Waiting cannot help with a producer that has another version; it can help with a full one. */
TEST(a_refusal_that_lasts_is_hopeless) {
    const mr_cut cut = {.name = "a->b", .node = "b", .from_node = "a", .to_node = "b"};
    mr_action refused = {.kind = MR_ACTION_PEER}, joined = {.kind = MR_ACTION_PEER};
    refused.of.change = MR_PEER_REJECTED;
    joined.of.change = MR_PEER_JOINED;
    mr_log_set_level(MR_LOG_ERROR);
    for (mr_reject_reason reason = MR_REJECT_UNKNOWN; reason <= MR_REJECT_FULL; reason++) {
        const bool lasts = reason == MR_REJECT_VERSION || reason == MR_REJECT_DIGEST || reason == MR_REJECT_CUT ||
                           reason == MR_REJECT_FORMATS;
        ENDED_BY(mr_cut_report_end) mr_cut_reporter reporter = mr_cut_report_begin(&instance, &cut);
        int64_t wake_ns = INT64_MAX;
        refused.of.reason = reason;
        refused.of.text = "why";
        mr_cut_report_peer(&reporter, &refused, 10 * S);
        mr_cut_report_peer(&reporter, &refused, 20 * S);
        assert_int_equal(says_it_fails(&reporter), lasts);
        assert_false(mr_cut_report_is_hopeless(&reporter, true, 40 * S - 1, &wake_ns));
        assert_true(wake_ns == (lasts ? 40 * S : INT64_MAX));
        assert_int_equal(mr_cut_report_is_hopeless(&reporter, true, 40 * S, &wake_ns), lasts);
        assert_false(mr_cut_report_is_hopeless(&reporter, false, 40 * S, &wake_ns));
        mr_cut_report_peer(&reporter, &joined, 40 * S);
        assert_false(mr_cut_report_is_hopeless(&reporter, true, 90 * S, &wake_ns));
    }
}

RUN_TESTS(NULL, NULL)
