/* The runs that a hub knows: reports, silence, room; and messages that are no reports. */
#include <string.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tools/millrace/hub/registry.h"

static const int64_t SECOND = 1000000000;

static mr_hub_registry registry;

static int begin(void **state) {
    registry = (mr_hub_registry){.most = 3, .lost_ns = 10 * SECOND, .keep_ns = 100 * SECOND};
    return 0;
}

static int end(void **state) {
    mr_hub_registry_fini(&registry);
    return 0;
}
#define HUB_TEST(name) TEST_WITH(name, begin, end)

/* A report that is right. */
static mr_hub_report report_of(uint64_t id, int64_t elapsed_ns) {
    mr_hub_report report = MILLRACE__HUB__REPORT__INIT;
    report.version = 1;
    report.id = id;
    report.host = (char *)"box";
    report.pipeline = (char *)"lobby";
    report.page = (char *)"http://box:9100/";
    report.elapsed_ns = (uint64_t)elapsed_ns;
    return report;
}

static mr_hub_fate give(const mr_hub_report *report, int64_t now_ns) {
    unsigned char data[MR_HUB_MESSAGE];
    const size_t bytes = mr_hub_report_write(report, data);
    assert_true(bytes > 0);
    return mr_hub_registry_take(&registry, data, bytes, now_ns);
}

static mr_hub_fate hear(uint64_t id, int64_t elapsed_ns, int64_t now_ns) {
    const mr_hub_report report = report_of(id, elapsed_ns);
    return give(&report, now_ns);
}

static mr_hub_state state_of(uint64_t id) {
    const mr_hub_run *run = mr_hub_registry_find(&registry, id);
    assert_non_null(run);
    return run->state;
}

/* A snapshot of its machine was restored: its clock is behind what it has reported. */
HUB_TEST(a_lost_run_comes_back_with_an_earlier_clock) {
    assert_int_equal(hear(7, 100 * SECOND, SECOND), MR_HUB_TAKEN);
    assert_int_equal(hear(7, 50 * SECOND, 2 * SECOND), MR_HUB_STALE);
    mr_hub_registry_look(&registry, 20 * SECOND);
    assert_int_equal(state_of(7), MR_HUB_LOST);
    mr_hub_report report = report_of(7, 50 * SECOND);
    report.delivered = 1000;
    assert_int_equal(give(&report, 21 * SECOND), MR_HUB_TAKEN);
    assert_int_equal(state_of(7), MR_HUB_RUNS);
    assert_true(mr_hub_registry_find(&registry, 7)->delivered == 0 && registry.delivered == 0);
    report.elapsed_ns += (uint64_t)(2 * SECOND);
    report.delivered += 20;
    assert_int_equal(give(&report, 23 * SECOND), MR_HUB_TAKEN);
    assert_true(mr_hub_registry_find(&registry, 7)->delivered == 10 && registry.delivered == 20);
}

HUB_TEST(rates_are_between_two_reports_by_the_runs_clock) {
    Millrace__Hub__Device device = MILLRACE__HUB__DEVICE__INIT, *devices[] = {&device};
    mr_hub_report report = report_of(7, SECOND);
    device.name = (char *)"sim:0";
    report.devices = devices;
    report.n_devices = 1;
    report.delivered = 10;
    assert_int_equal(give(&report, 50 * SECOND), MR_HUB_TAKEN);
    report.elapsed_ns += 2 * 1000000000ull;
    report.delivered = 60;
    report.dropped = 4;
    report.cpu_ns = 3000000000;
    device.busy_ns = 500000000;
    /* The message came late: the hub's clock does not matter. */
    assert_int_equal(give(&report, 57 * SECOND), MR_HUB_TAKEN);
    const mr_hub_run *run = mr_hub_registry_find(&registry, 7);
    assert_true(run->delivered == 25 && run->dropped == 2 && run->cores == 1.5 && run->busy[0] == 0.25);
    assert_int_equal(run->heard_ns, 57 * SECOND);
    assert_int_equal(registry.delivered, 50);
    assert_int_equal(registry.dropped, 4);
    const mr_hub_sums all = mr_hub_registry_sum(&registry);
    assert_true(all.states[MR_HUB_RUNS] == 1 && all.unwell == 1 && all.delivered == 25);
}

HUB_TEST(a_silent_run_is_lost_comes_back_and_is_forgotten) {
    assert_int_equal(hear(1, SECOND, 0), MR_HUB_TAKEN);
    mr_hub_registry_look(&registry, 10 * SECOND);
    assert_int_equal(state_of(1), MR_HUB_RUNS);
    mr_hub_registry_look(&registry, 10 * SECOND + 1);
    assert_int_equal(state_of(1), MR_HUB_LOST);
    assert_int_equal(hear(1, 20 * SECOND, 19 * SECOND), MR_HUB_TAKEN);
    assert_int_equal(state_of(1), MR_HUB_RUNS);
    mr_hub_registry_look(&registry, 119 * SECOND);
    assert_int_equal(state_of(1), MR_HUB_LOST);
    mr_hub_registry_look(&registry, 119 * SECOND + 1);
    assert_null(mr_hub_registry_find(&registry, 1));
}

HUB_TEST(an_ended_run_stays_ended) {
    mr_hub_report report = report_of(1, 5 * SECOND);
    assert_int_equal(hear(1, SECOND, 0), MR_HUB_TAKEN);
    report.state = MILLRACE__HUB__STATE__DRAINS;
    assert_int_equal(give(&report, SECOND), MR_HUB_TAKEN);
    assert_int_equal(state_of(1), MR_HUB_DRAINS);
    report.state = MILLRACE__HUB__STATE__ENDED;
    report.exit_code = 70;
    assert_int_equal(give(&report, SECOND), MR_HUB_TAKEN);
    assert_int_equal(hear(1, 6 * SECOND, 2 * SECOND), MR_HUB_STALE);
    mr_hub_registry_look(&registry, 50 * SECOND);
    assert_int_equal(state_of(1), MR_HUB_ENDED);
    assert_int_equal(mr_hub_registry_find(&registry, 1)->report->exit_code, 70);
    assert_int_equal(mr_hub_registry_sum(&registry).failed, 1);
}

HUB_TEST(an_older_report_is_ignored) {
    assert_int_equal(hear(1, 9 * SECOND, 0), MR_HUB_TAKEN);
    assert_int_equal(hear(1, 8 * SECOND, SECOND), MR_HUB_STALE);
    assert_int_equal(mr_hub_registry_find(&registry, 1)->report->elapsed_ns, 9 * SECOND);
    assert_int_equal(registry.messages[MR_HUB_STALE], 1);
}

HUB_TEST(room_comes_from_the_run_that_was_over_first) {
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(hear(id, SECOND, (int64_t)id), MR_HUB_TAKEN);
    assert_int_equal(hear(4, SECOND, 4), MR_HUB_FULL); /* two runs of one name are two runs, and all live */
    assert_int_equal(registry.count, 3);
    assert_int_equal(hear(1, 20 * SECOND, 20 * SECOND), MR_HUB_TAKEN);
    mr_hub_registry_look(&registry, 20 * SECOND); /* 2 and 3 are lost */
    assert_int_equal(hear(4, SECOND, 20 * SECOND), MR_HUB_TAKEN);
    assert_null(mr_hub_registry_find(&registry, 2));
    assert_int_equal(state_of(3), MR_HUB_LOST);
    assert_int_equal(state_of(4), MR_HUB_RUNS);
}

HUB_TEST(many_runs_are_found_again) {
    registry.most = 5000;
    for (uint64_t i = 1; i <= 5000; i++)
        assert_int_equal(hear(i * 0x9e3779b97f4a7c15u, SECOND, 0), MR_HUB_TAKEN);
    for (uint64_t i = 1; i <= 5000; i++)
        assert_non_null(mr_hub_registry_find(&registry, i * 0x9e3779b97f4a7c15u));
    for (size_t i = 1; i < registry.count; i++)
        assert_true(registry.runs[i - 1]->report->id < registry.runs[i]->report->id);
    assert_null(mr_hub_registry_find(&registry, 1));
}

/* ---- messages that are no reports -------------------------------------------------------------------------------- */

static void expect_malformed(const mr_hub_report *report, const char *why) {
    assert_int_equal(give(report, 0), MR_HUB_MALFORMED);
    assert_non_null(strstr(mr_message(), why));
    assert_int_equal(registry.count, 0);
}

HUB_TEST(wrong_heads_are_refused) {
    mr_hub_report report = report_of(0, 0);
    expect_malformed(&report, "no id");
    report = report_of(1, 0);
    report.version = 2;
    expect_malformed(&report, "version 2");
    report = report_of(1, 0);
    report.state = (Millrace__Hub__State)3;
    expect_malformed(&report, "unknown state");
    report = report_of(1, 0);
    report.page = (char *)"javascript:alert(1)";
    expect_malformed(&report, "http");
    report = report_of(1, 0);
    report.in = UINT64_MAX;
    expect_malformed(&report, "18446744073709551615");
}

HUB_TEST(wrong_texts_and_lists_are_refused) {
    static char long_name[MR_HUB_NAME + 1];
    Millrace__Hub__Process process = MILLRACE__HUB__PROCESS__INIT, *processes[MR_HUB_LIST + 1];
    mr_hub_report report = report_of(1, 0);
    memset(long_name, 'x', MR_HUB_NAME);
    report.host = long_name;
    expect_malformed(&report, "host");
    report.host = (char *)"a\x1b[2J";
    expect_malformed(&report, "host");
    report.host = (char *)"\xff";
    expect_malformed(&report, "host");
    report = report_of(1, 0);
    process.state = (char *)"a\nb";
    for (size_t i = 0; i <= MR_HUB_LIST; i++)
        processes[i] = &process;
    report.processes = processes;
    report.n_processes = 1;
    expect_malformed(&report, "a process's state");
    process.state = (char *)"runs";
    report.n_processes = MR_HUB_LIST + 1;
    expect_malformed(&report, "64 entries");
    report.n_processes = MR_HUB_LIST;
    assert_int_equal(give(&report, 0), MR_HUB_TAKEN);
}

HUB_TEST(other_bytes_are_refused) {
    static const unsigned char bytes[MR_HUB_MESSAGE + 1];
    assert_int_equal(mr_hub_registry_take(&registry, "\x0a\xff\xff", 3, 0), MR_HUB_MALFORMED);
    assert_int_equal(mr_hub_registry_take(&registry, "", 0, 0), MR_HUB_MALFORMED);
    assert_int_equal(mr_hub_registry_take(&registry, bytes, sizeof bytes, 0), MR_HUB_MALFORMED);
    assert_non_null(strstr(mr_message(), "32769"));
    assert_int_equal(registry.messages[MR_HUB_MALFORMED], 3);
}

/* A few fields of later versions are accepted; thousands would take much more memory than the message. */
HUB_TEST(unknown_fields_are_bounded) {
    unsigned char data[MR_HUB_MESSAGE];
    mr_hub_report report = report_of(7, SECOND);
    size_t bytes = mr_hub_report_write(&report, data);
    for (int i = 0; i < 256; i++, bytes += 3)
        memcpy(data + bytes, "\xa0\x06\x01", 3); /* number 100: 1 */
    assert_int_equal(mr_hub_registry_take(&registry, data, bytes, 0), MR_HUB_TAKEN);
    memcpy(data + bytes, "\xa0\x06\x01", 3);
    assert_int_equal(mr_hub_registry_take(&registry, data, bytes + 3, 0), MR_HUB_MALFORMED);
    assert_non_null(strstr(mr_message(), "257 unknown fields"));
}

RUN_TESTS(NULL, NULL)
