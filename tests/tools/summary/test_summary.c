/* The summary as JSON, by the table of fields, and read back. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "tests/support/suite.h"
#include "tools/millrace/summary/summary.h"

static char *text_of(const mr_summary *summary) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    assert_int_equal(mr_summary_print_json(summary, false, MR_OK, NULL, stream), MR_OK);
    fclose(stream);
    return text;
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("%s is not in %s", part, text);
}

/* A value in each kind of field. */
typedef struct filled {
    mr_ledger_line lines[2], object_lines[2];
    mr_truth_count truths[1];
    mr_source_summary sources[2];
    mr_share_summary shares[1];
    mr_stage_summary stages[1];
    mr_cut_summary cuts[1];
    mr_summary summary;
} filled;

static void fill(filled *to) {
    *to = (filled){
        .lines = {{MR_OUTCOME_DROPPED, "out", "slow", 3}, {MR_OUTCOME_ABSORBED, "every", "asked", 4}},
        .object_lines = {{MR_OUTCOME_DROPPED, "crop", "small", 6}, {MR_OUTCOME_ABSORBED, "crop", "most", 7}},
        .truths = {{.index = 7, .label = "cat", .frames = 5, .right = 2, .listed = 4}},
        .shares = {{.device = "sim:0", .state = MR_DEVICE_RESERVED, .frames = 9, .busy_ns = 2500000,
                    .cost_ns = 125000}},
        .cuts = {{.id = "a->b", .frames = 11, .again = 1, .set_aside = 2, .sessions = 3, .peers = 8,
                  .absent = true, .stale = 4, .malformed = 5, .rejected = 6, .refused = 7}}};
    to->sources[0] = (mr_source_summary){
        .id = "cam", .in = 12, .delivered = 5, .in_flight = 1, .unaccounted = 1, .seams = 2, .message = "",
        .classified = 5, .class_count = 1, .classes = {{3, NULL, 5, 0.25}}, .labelled = 8, .right = 2, .listed = 4,
        .longest = 5, .truth_count = 1, .truths = to->truths, .line_count = 2, .lines = to->lines,
        .unsettled_count = 1, .unsettled = {{.epoch = 1, .seq = 70000000000, .sub = 2}},
        .report = {.phase = MR_LINK_AWAY, .since_ns = INT64_C(1700000000250000000), .tries = 4, .bytes = 1u << 20,
                   .jitter_ns = 1.5e6, .why = "no \"route\""},
        .stay = {.changes = true, .first_epoch = 1, .last_epoch = 3, .leaving = true}};
    to->sources[1] = (mr_source_summary){.id = "file", .ended = true, .expected = 20, .unread = 8,
                                         .status = MR_ERROR_DATA, .message = "cut off", .note = "reads one",
                                         .objects = {.in = 13, .line_count = 2, .lines = to->object_lines}};
    to->stages[0] = (mr_stage_summary){.id = "decode", .type = "decode", .device = "sim:0", .instances = 2, .in = 6,
                                       .out = 5, .busy_ns = 1500000000, .p50_ns = 2000000, .share_count = 1,
                                       .shares = to->shares, .latency = {.count = 2, .sum_ns = 3000000,
                                                                         .bucket = {[6] = 1, [21] = 1}}};
    to->summary = (mr_summary){.pipeline = "p", .digest = "d", .wall_s = 1.25, .in = 12, .delivered = 5,
                               .balanced = true, .source_count = 2, .sources = to->sources, .stage_count = 1,
                               .stages = to->stages, .cut_count = 1, .cuts = to->cuts, .peak_bytes = 4096};
}

TEST(test_values) {
    filled made;
    fill(&made);
    FREED char *text = text_of(&made.summary);
    assert_has(text, "\"ledger\":{\"in\":12,\"delivered\":5,\"dropped\":[],\"absorbed\":[],\"in_flight\":0,"
                     "\"balanced\":true}");
    assert_has(text, "\"dropped\":[{\"stage\":\"out\",\"reason\":\"slow\",\"frames\":3}],"
                     "\"absorbed\":[{\"stage\":\"every\",\"reason\":\"asked\",\"frames\":4}]");
    assert_has(text, "\"balanced\":false,\"unsettled\":[{\"epoch\":1,\"seq\":70000000000,\"sub\":2}],"
                     "\"expected\":null");
    assert_has(text, "\"connection\":{\"state\":\"away\",\"since\":\"2023-11-14T22:13:20.250000Z\","
                     "\"why\":\"no \\\"route\\\"\",\"next_try\":null,\"tries\":4,");
    assert_has(text, "\"jitter_ms\":1.5}");
    assert_has(text, "\"accuracy\":{\"frames\":8,\"top_1\":0.25,\"top_k\":0.5,\"k\":5,\"right\":2,\"listed\":4,"
                     "\"classes\":[{\"index\":7,\"label\":\"cat\",\"frames\":5,\"right\":2,\"listed\":4}]}");
    assert_has(text, "\"first_epoch\":1,\"last_epoch\":3,\"leaving\":true,\"removed\":false}");
    assert_has(text, "\"absorbed\":[{\"stage\":\"crop\",\"reason\":\"most\",\"objects\":7}],"
                     "\"in_flight\":0,\"balanced\":true},"
                     "\"expected\":20,\"unread\":8,\"seams\":0,\"note\":\"reads one\",\"last_frame\":null,"
                     "\"ended\":true,\"exit_code\":65,"
                     "\"error\":\"cut off\",\"classified\":0,\"classes\":[],\"accuracy\":null}");
    assert_has(text, "\"busy_s\":1.5,\"p50_ms\":2,\"p99_ms\":0,\"latency\":{\"count\":2,\"sum_s\":0.003,"
                     "\"buckets\":[0,0,0,0,0,0,1,0,");
    assert_has(text, "\"devices\":[{\"name\":\"sim:0\",\"state\":\"in reserve\",\"frames\":9,\"busy_s\":0.0025,"
                     "\"cost_ms\":0.125}]");
    assert_null(strstr(text, "forced"));
}

TEST(test_reading_gives_the_same) {
    filled made;
    mr_summary read;
    fill(&made);
    char *text = text_of(&made.summary);
    yajl_val tree = mr_json_parse(text, NULL, 0);
    assert_non_null(tree);
    assert_int_equal(mr_summary_read(tree, &read), MR_OK);
    assert_int_equal(read.sources[0].line_count, 2);
    assert_int_equal(read.sources[0].lines[1].outcome, MR_OUTCOME_ABSORBED);
    assert_int_equal(read.sources[0].report.since_ns, INT64_C(1700000000250000000));
    assert_int_equal(read.sources[0].report.phase, MR_LINK_AWAY);
    assert_int_equal(read.stages[0].busy_ns, 1500000000);
    assert_int_equal(read.stages[0].shares[0].state, MR_DEVICE_RESERVED);
    assert_true(read.sources[0].stay.changes);
    assert_false(read.sources[1].stay.changes);
    assert_int_equal(read.sources[0].dropped, 3);
    assert_int_equal(read.sources[0].absorbed, 4);
    assert_int_equal(read.sources[1].objects.dropped, 6);
    assert_int_equal(read.sources[1].objects.absorbed, 7);
    read.sources[1].status = MR_ERROR_DATA;
    char *again = text_of(&read);
    assert_string_equal(text, again);
    free(text);
    free(again);
    mr_summary_read_fini(&read);
    yajl_tree_free(tree);
}

/* A process from another build may send fewer fields, more fields, or other types. */
TEST(test_other_reports) {
    static const char *const texts[] = {
        "{}", "[1]", "{\"sources\":[{\"connection\":{\"state\":\"new\"},\"classes\":[1,2,3,4,5,6,7]}]}",
        "{\"sources\":7,\"stages\":[1,null,{}],\"wall_s\":\"long\",\"ledger\":[]}",
        "{\"sources\":[{\"classes\":[{},{},{},{},{},{},{}],\"unsettled\":7,\"unknown\":1}],\"digest\":5}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mr_summary read;
        yajl_val tree = mr_json_parse(texts[i], NULL, 0);
        assert_non_null(tree);
        assert_int_equal(mr_summary_read(tree, &read), MR_OK);
        assert_null(read.digest);
        assert_true(read.source_count == 0 || read.sources[0].class_count == 5);
        mr_summary_read_fini(&read);
        yajl_tree_free(tree);
    }
}

RUN_TESTS(NULL, NULL)
