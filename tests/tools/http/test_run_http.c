/* The numbers for Prometheus, and a run's health. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tools/millrace/http/health.h"
#include "tools/millrace/http/metrics.h"
#include "tools/millrace/http/metrics_out.h"

static const int64_t SECOND = 1000000000;

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void expect_text(mr_metrics_out *text, const char *wanted) {
    size_t bytes;
    FREED char *got = mr_metrics_finish(text, &bytes);
    assert_non_null(got);
    assert_int_equal(bytes, strlen(wanted));
    assert_memory_equal(got, wanted, bytes);
}

TEST(labels_are_escaped) {
    mr_metrics_out text = {0};
    mr_metrics_family(&text, "up", "gauge", "help");
    mr_metrics_label(&text, "source", "a\"b\\c\nd\xff" "\xc3\xa9");
    mr_metrics_label(&text, "none", "");
    mr_metrics_count(&text, 1);
    expect_text(&text, "# HELP millrace_up help\n# TYPE millrace_up gauge\n"
                       "millrace_up{source=\"a\\\"b\\\\c\\nd?\xc3\xa9\"} 1\n");
}

TEST(a_long_label_is_cut_and_closed) {
    mr_metrics_out text = {0};
    FREED char *value = calloc(1, 3 * MR_METRICS_LABELS);
    assert_non_null(value);
    memset(value, '"', 3 * MR_METRICS_LABELS - 1);
    mr_metrics_family(&text, "up", "gauge", "help");
    mr_metrics_label(&text, "a", value);
    mr_metrics_label(&text, "b", "c");
    mr_metrics_count(&text, 1);
    size_t bytes;
    FREED char *got = mr_metrics_finish(&text, &bytes);
    assert_non_null(got);
    assert_true(bytes > MR_METRICS_LABELS - 100 && bytes < 2 * MR_METRICS_LABELS);
    assert_memory_equal(got + bytes - 7, "\\\"\"} 1\n", 7);
}

TEST(numbers_are_exact) {
    mr_metrics_out text = {.open = true};
    mr_metrics_family(&text, "seconds", "counter", "help");
    mr_metrics_count(&text, UINT64_MAX);
    mr_metrics_number(&text, 0.25);
    mr_metrics_number(&text, -1);
    mr_metrics_number(&text, 1795988625.0396);
    expect_text(&text, "# HELP millrace_seconds help\n# TYPE millrace_seconds counter\n"
                       "millrace_seconds_total 18446744073709551615\nmillrace_seconds_total 0.25\n"
                       "millrace_seconds_total -1\nmillrace_seconds_total 1795988625.0396\n# EOF\n");
}

TEST(histograms_are_cumulative) {
    mr_metrics_out text = {0};
    const mr_durations durations = {.count = 6, .sum_ns = 1500000000, .bucket = {1, 2, [21] = 3}};
    size_t bytes;
    mr_metrics_family(&text, "x_seconds", "histogram", "help");
    mr_metrics_durations(&text, &durations);
    FREED char *got = mr_metrics_finish(&text, &bytes);
    assert_non_null(got);
    got = realloc(got, bytes + 1);
    got[bytes] = '\0';
    assert_non_null(strstr(got, "_bucket{le=\"1.6384e-05\"} 1\n"));
    assert_non_null(strstr(got, "_bucket{le=\"3.2768e-05\"} 3\n"));
    assert_non_null(strstr(got, "_bucket{le=\"17.179869184\"} 3\n"));
    assert_non_null(strstr(got, "_bucket{le=\"+Inf\"} 6\nmillrace_x_seconds_sum 1.5\nmillrace_x_seconds_count 6\n"));
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

enum { SOURCES = 4 };

typedef struct run {
    mr_ledger_line lines[2];
    mr_source_summary sources[SOURCES];
    mr_share_summary shares[2];
    mr_stage_summary stages[2];
    mr_cut_summary cuts[1];
    mr_summary summary;
    mr_observed_process process[2];
    mr_observed now;
} run;

static void fill(run *to) {
    *to = (run){.lines = {{MR_OUTCOME_DROPPED, "out", "slow", 3}, {MR_OUTCOME_ABSORBED, "every", "asked", 4}},
                .shares = {{.device = "sim:0", .state = MR_DEVICE_FAILED, .busy_ns = SECOND},
                           {.device = "sim:1", .state = MR_DEVICE_WORKS}},
                .cuts = {{.id = "a->b", .frames = 9, .sessions = 1, .peers = 1}}};
    to->sources[0] = (mr_source_summary){.id = "cam", .in = 12, .delivered = 5, .dropped = 3, .absorbed = 4,
                                         .line_count = 2, .lines = to->lines, .message = ""};
    to->sources[1] = (mr_source_summary){.id = "gone", .in = 7, .delivered = 7, .message = "",
                                         .stay = {.changes = true, .removed = true}};
    to->sources[2] = (mr_source_summary){.id = "far", .in = 12, .delivered = 12, .elsewhere = true, .message = ""};
    to->sources[3] = (mr_source_summary){.id = "file", .in = 2, .delivered = 2, .ended = true, .message = ""};
    to->stages[0] = (mr_stage_summary){.id = "cam", .is_source = true};
    to->stages[1] = (mr_stage_summary){.id = "small", .in = 5, .share_count = 2, .shares = to->shares};
    to->summary = (mr_summary){.source_count = SOURCES, .sources = to->sources, .stage_count = 2, .stages = to->stages,
                               .cut_count = 1, .cuts = to->cuts};
    to->process[0] = (mr_observed_process){.name = "near", .node = "near", .pid = 1, .ready = true, .restarts = 2,
                                           .summary = &to->summary};
    to->process[1] = (mr_observed_process){.name = "far", .node = "far"};
    to->now = (mr_observed){.count = 2, .process = to->process};
}

static char *written(const run *of, bool open) {
    size_t bytes;
    char *text = mr_metrics_write(&(mr_metrics){.now = &of->now, .pipeline = "p", .digest = "d", .open = open}, &bytes);
    assert_non_null(text);
    text = realloc(text, bytes + 1);
    assert_non_null(text);
    text[bytes] = '\0';
    return text;
}

static void expect_lines(const run *of, const char *const *wanted, const char *const *unwanted) {
    FREED char *text = written(of, false);
    for (; *wanted; wanted++)
        if (!strstr(text, *wanted))
            fail_msg("%s is not in %s", *wanted, text);
    for (; *unwanted; unwanted++)
        if (strstr(text, *unwanted))
            fail_msg("%s is in %s", *unwanted, text);
}

TEST(frames_have_a_source_and_a_fate) {
    run one;
    fill(&one);
    static const char *const wanted[] = {
        "\nmillrace_frames_total{node=\"near\",source=\"cam\",fate=\"delivered\"} 5\n",
        "\nmillrace_frames_total{node=\"near\",source=\"cam\",fate=\"dropped\",stage=\"out\",reason=\"slow\"} 3\n",
        "\nmillrace_frames_total{node=\"near\",source=\"cam\",fate=\"absorbed\",stage=\"every\",reason=\"asked\"} 4\n",
        "\nmillrace_source_frames_total{node=\"near\",source=\"cam\"} 12\n",
        "\nmillrace_removed_sources_frames_total{fate=\"delivered\"} 7\n",
        "\nmillrace_frames_total{node=\"near\",source=\"file\",fate=\"delivered\"} 2\n",
        "\nmillrace_source_up{node=\"near\",source=\"cam\"} 1\n",
        "\nmillrace_source_up{node=\"near\",source=\"file\"} 0\n",
        "\nmillrace_stage_in_frames_total{node=\"near\",stage=\"small\"} 5\n",
        "\nmillrace_cut_frames_total{node=\"near\",cut=\"a->b\"} 9\n",
        "\nmillrace_node_restarts_total{node=\"near\"} 2\n", "\nmillrace_node_up{node=\"far\"} 0\n",
        "\nmillrace_device_state{node=\"near\",device=\"sim:0\",state=\"failed\"} 1\n",
        "\nmillrace_device_state{node=\"near\",device=\"sim:1\",state=\"works\"} 1\n",
        "\nmillrace_device_busy_seconds_total{node=\"near\",device=\"sim:0\"} 1\n", NULL};
    /* Removed sources, those of other nodes, and sources as stages. */
    static const char *const unwanted[] = {"\"gone\"", "source=\"far\"", "stage=\"cam\"", "# EOF", NULL};
    expect_lines(&one, wanted, unwanted);
}

TEST(sources_of_a_process_that_does_not_run_are_not_up) {
    run one;
    fill(&one);
    static const char *const down[] = {"\nmillrace_source_up{node=\"near\",source=\"cam\"} 0\n", NULL};
    static const char *const none[] = {NULL};
    one.process[0].ready = false;
    expect_lines(&one, down, none);
    one.process[0].ready = true;
    one.process[0].pid = 0;
    expect_lines(&one, down, none);
}

/* Every family has one head, and all its samples follow it. */
TEST(families_are_in_one_piece) {
    run one;
    fill(&one);
    char *text = written(&one, true), *at = NULL, *seen = calloc(1, strlen(text) + 2);
    assert_non_null(seen);
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        char name[160];
        if (sscanf(line, "# TYPE %150s", name) != 1)
            continue;
        strcat(name, " ");
        assert_null(strstr(seen, name));
        strcat(seen, name);
    }
    assert_non_null(strstr(seen, "millrace_frames "));
    assert_non_null(strstr(seen, "millrace_stage_seconds "));
    free(seen);
    free(text);
}

/* ---- health ----------------------------------------------------------------------------------------------------- */

static void expect_health(const run *of, const mr_movement *movement, int64_t now_ns, mr_health_kind kind,
                          const char *why) {
    char got[MR_HEALTH_WHY];
    const mr_health health = {.now = &of->now, .movement = movement, .shown_ns = 100 * SECOND,
                              .stall_ns = 60 * SECOND};
    assert_int_equal(mr_health_is(&health, kind, now_ns, got), !why);
    if (why && !strstr(got, why))
        fail_msg("%s, where %s was expected", got, why);
}

TEST(a_run_is_alive_while_frames_move) {
    run one;
    mr_movement movement = {0};
    mr_observed_ledger sum = {.in = 5, .in_flight = 1};
    fill(&one);
    mr_movement_look(&movement, &sum, false, 40 * SECOND);
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_ALIVE, NULL);
    expect_health(&one, &movement, 101 * SECOND, MR_HEALTH_ALIVE, "none has moved for 61 s");
    mr_movement_look(&movement, &sum, false, 101 * SECOND);
    assert_true(mr_movement_stalls(&movement, 101 * SECOND, 60 * SECOND));
    sum.dropped = 1;
    mr_movement_look(&movement, &sum, false, 101 * SECOND);
    expect_health(&one, &movement, 101 * SECOND, MR_HEALTH_ALIVE, NULL);
    /* None is due. */
    sum.in_flight = 0;
    mr_movement_look(&movement, &sum, false, 500 * SECOND);
    assert_false(mr_movement_stalls(&movement, 501 * SECOND, 60 * SECOND));
    /* It does not look at itself. */
    expect_health(&one, &movement, 111 * SECOND, MR_HEALTH_ALIVE, "not looked at itself");
    one.now.final = true;
    expect_health(&one, &movement, 900 * SECOND, MR_HEALTH_ALIVE, NULL);
}

/* A service manager that restarts the run would lose frames, and the service would still be away. */
TEST(a_run_is_alive_while_a_service_or_node_is_away) {
    run one;
    mr_movement movement = {0};
    const mr_observed_ledger sum = {.in = 5, .in_flight = 1};
    fill(&one);
    const mr_summary *summary = one.process[0].summary;
    assert_false(mr_observed_is_held_up(summary));
    one.stages[1].service.phase = MR_LINK_AWAY;
    assert_true(mr_observed_is_held_up(summary));
    one.stages[1].service.phase = MR_LINK_FAILED; /* it was given up */
    assert_false(mr_observed_is_held_up(summary));
    one.cuts[0].absent = true;
    assert_true(mr_observed_is_held_up(summary));
    mr_movement_look(&movement, &sum, true, 40 * SECOND);
    mr_movement_look(&movement, &sum, true, 400 * SECOND);
    assert_false(mr_movement_stalls(&movement, 401 * SECOND, 60 * SECOND));
    mr_movement_look(&movement, &sum, false, 500 * SECOND);
    assert_true(mr_movement_stalls(&movement, 500 * SECOND, 60 * SECOND));
}

TEST(a_run_is_ready_once_all_nodes_are_connected) {
    run one;
    const mr_movement movement = {0};
    fill(&one);
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, "node far is not ready");
    one.process[1].done = true;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, NULL);
    one.cuts[0].absent = true;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, "a->b");
    one.cuts[0] = (mr_cut_summary){.id = "a->b"}; /* it has ended, or was given up before it ever connected */
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, NULL);
    one.now.ending = true;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, "ending");
    one.now = (mr_observed){0};
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_READY, "being opened");
}

TEST(a_run_is_well_without_failures) {
    run one;
    const mr_movement movement = {0};
    fill(&one);
    one.process[1].done = true;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, "device sim:0 of small has failed");
    one.shares[0].state = MR_DEVICE_DISABLED;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, NULL);
    one.stages[1].service.phase = MR_LINK_AWAY;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, "service of small is away");
    one.stages[1].service.phase = MR_LINK_LIVE;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, NULL);
    one.sources[0].report.phase = MR_LINK_AWAY;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, "source cam is away");
    one.sources[0].status = MR_ERROR_DATA;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, "source cam has failed");
    one.sources[0].stay.removed = true;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, NULL);
    one.process[1].exit_code = 70;
    expect_health(&one, &movement, 100 * SECOND, MR_HEALTH_WELL, "exit code 70");
}

RUN_TESTS(NULL, NULL)
