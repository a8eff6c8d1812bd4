/* The page of `millrace top`, from two summaries. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tools/millrace/ctl/top_page.h"

static char *page_of(const mr_top_run *run, size_t most_sources) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_int_equal(mr_top_print(run, most_sources, 100, stream), MR_OK);
    fclose(stream);
    return text;
}

/* The line that begins with that word, with one blank between words; fails if there is none. */
static void assert_line(const char *page, const char *line) {
    char found[400] = "";
    const size_t word = strcspn(line, " ");
    for (const char *at = page; *at; at += strcspn(at, "\n") + 1) {
        size_t length = 0;
        for (const char *c = at + strspn(at, " "); *c && *c != '\n' && length + 1 < sizeof found; c++)
            if (*c != ' ' || (c[1] != ' ' && c[1] != '\n'))
                found[length++] = *c;
        found[length] = '\0';
        if (strncmp(found, line, word) == 0 && (found[word] == ' ' || !found[word]))
            break;
        if (!at[strcspn(at, "\n")])
            break;
    }
    assert_string_equal(found, line);
}

static mr_stage_summary stage_with(uint64_t in, int64_t busy_ns, uint64_t quick, uint64_t slow) {
    return (mr_stage_summary){.id = "detect", .type = "detect", .device = "cpu", .instances = 2, .in = in,
                              .out = in / 2, .busy_ns = busy_ns, .queue_peak = 3,
                              .latency = {.count = quick + slow, .sum_ns = quick * 1000000 + slow * 100000000,
                                          .bucket = {[6] = quick, [13] = slow}}};
}

TEST(test_rates_are_those_between_two_looks) {
    mr_source_summary before_source = {.id = "door", .in = 1000, .message = ""},
                      now_source = {.id = "door", .in = 1050, .delivered = 1040, .dropped = 6, .in_flight = 4,
                                    .message = ""};
    mr_stage_summary before_stage = stage_with(1000, 5000000000, 100, 0),
                     now_stage = stage_with(1100, 8000000000, 190, 10);
    const mr_summary before = {.pipeline = "p", .wall_s = 100, .cpu_s = 10, .delivered = 990, .source_count = 1,
                               .sources = &before_source, .stage_count = 1, .stages = &before_stage},
                     now = {.pipeline = "p", .wall_s = 102, .cpu_s = 13, .in = 1050, .delivered = 1040, .dropped = 6,
                            .in_flight = 4, .balanced = true, .peak_bytes = 1 << 20, .source_count = 1,
                            .sources = &now_source, .stage_count = 1, .stages = &now_stage};
    const mr_top_run run = {.pid = 7, .command = "run p.yaml", .before = &before, .now = &now};
    FREED char *page = page_of(&run, 10);
    assert_line(page, "p pid 7 run p.yaml");
    assert_line(page, "up 0:01:42, 25.0 frames/s, CPU 150%, memory at most 1.0 MiB");
    assert_line(page, "1050 in = 1040 delivered + 6 dropped + 0 absorbed + 4 in flight");
    assert_line(page, "door runs 25.0 1050 1040 6 4");
    /* 3 s of 2 s x 2 instances; 90 frames with 1 ms and 10 with 100 ms. */
    assert_line(page, "detect detect cpu 50.0 25.0 75% 10.9 ms < 134 ms 3");
}

TEST(test_without_an_earlier_look_rates_are_since_the_start) {
    mr_stage_summary stage = stage_with(100, 1000000000, 100, 1);
    mr_source_summary source = {.id = "a", .in = 100, .message = ""};
    const mr_summary now = {.pipeline = "p", .wall_s = 10, .delivered = 50, .balanced = true, .source_count = 1,
                            .sources = &source, .stage_count = 1, .stages = &stage};
    const mr_top_run run = {.pid = 7, .command = "", .now = &now};
    FREED char *page = page_of(&run, 10);
    assert_non_null(strstr(page, "5.0 frames/s"));
    assert_line(page, "a runs 10.0 100 0 0 0");
    /* 1 of 101 frames is above the 99th percentile: less than 1%. */
    assert_line(page, "detect detect cpu 10.0 5.0 5% 1.98 ms < 1.05 ms 3");
}

TEST(test_sources_in_trouble_come_first) {
    mr_source_summary sources[4] = {
        {.id = "ended", .ended = true, .message = ""},
        {.id = "live", .message = "", .report = {.phase = MR_LINK_LIVE}},
        {.id = "away", .message = "", .report = {.phase = MR_LINK_AWAY, .why = "no route"}},
        {.id = "broken", .ended = true, .status = MR_ERROR_DATA, .message = "cut\033[2J off"}};
    const mr_summary now = {.pipeline = "p", .wall_s = 1, .source_count = 4, .sources = sources};
    const mr_top_run run = {.pid = 7, .command = "", .now = &now};
    FREED char *page = page_of(&run, 2);
    assert_line(page, "broken failed 0.0 0 0 0 0 cut\\x1b[2J off");
    assert_line(page, "away away 0.0 0 0 0 0 no route");
    assert_true(strstr(page, "\n  broken") < strstr(page, "\n  away"));
    assert_non_null(strstr(page, "and 2 more sources"));
    assert_null(strstr(page, "live  "));
    assert_non_null(strstr(page, "NOT BALANCED"));
}

TEST(test_a_run_that_does_not_answer) {
    const mr_top_run run = {.pid = 7, .command = "run p.yaml", .why = "the run does not answer"};
    FREED char *page = page_of(&run, 2);
    assert_string_equal(page, "pid 7  run p.yaml\n  the run does not answer\n");
}

RUN_TESTS(NULL, NULL)
