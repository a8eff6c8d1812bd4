#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

static const char text[] = "version: 1\n"
                           "pipeline: try\n"
                           "workers: 3\n"
                           "sources:\n"
                           "  lobby: {uri: \"${MR_TEST_INPUT:?name a video}\", rate: 30fps}\n"
                           "stages:\n"
                           "  open: {input: lobby, queue: 7}\n"
                           "  shrink: {input: open, size: 64x32, region: {width: 5}, device: sim:0, in_flight: 3}\n"
                           "  learn: {input: shrink, batch: {size: 8, timeout: 20ms}, on_error: fail}\n"
                           "  results: {type: write, input: [learn], path: out.jsonl}\n";

/* Parses `text` with command line options; the diagnostics must print as `expected`. */
static mr_spec *parse(const char *yaml, const mr_spec_params *wishes, const char *expected) {
    mr_diagnostics diagnostics = {0};
    mr_spec_params params = *wishes;
    mr_spec *spec;
    params.types = fake_types;
    params.default_source_type = "camera";
    params.path = params.path ? params.path : "dir/p.yaml";
    params.text = yaml;
    int status = mr_spec_parse(&spec, &params, &diagnostics);
    expect_printed(&diagnostics, expected);
    assert_int_equal(status, *expected ? MR_ERROR_CONFIG : MR_OK);
    return spec;
}

static const mr_spec_params no_wishes;

static int set_input(void **state) {
    return setenv("MR_TEST_INPUT", "in.mp4", 1);
}

TEST_WITH(a_pipeline_is_read, set_input, NULL) {
    mr_spec *spec = parse(text, &no_wishes, "");
    assert_string_equal(spec->name, "try");
    assert_int_equal(spec->workers, 3);
    assert_int_equal(spec->source_count, 1);
    assert_int_equal(spec->stage_count, 4);
    const mr_spec_vertex *lobby = &spec->sources[0], *open = &spec->stages[0], *shrink = &spec->stages[1],
                         *learn = &spec->stages[2], *results = &spec->stages[3];
    const fake_camera *camera = lobby->options;
    assert_string_equal(lobby->type->name, "camera");
    assert_string_equal(camera->uri, "dir/in.mp4");
    assert_true(camera->rate == 30);
    assert_int_equal(camera->wait_ns, 20000000);
    assert_true(open->common.queue.given);
    assert_int_equal(open->common.queue.size, 7);
    assert_int_equal(open->common.queue.when_full, MR_POLICY_BLOCK);
    assert_int_equal(open->common.device.count, 0);
    const fake_shrink *small = shrink->options;
    assert_int_equal(small->size.width, 64);
    assert_int_equal(small->size.height, 32);
    assert_true(small->region.given);
    assert_int_equal(small->region.width, 5);
    assert_int_equal(small->mean.count, 3);
    assert_int_equal(shrink->common.device.count, 1);
    assert_string_equal(shrink->common.device.item[0], "sim:0");
    assert_int_equal(shrink->common.in_flight, 3);
    assert_int_equal(learn->common.batch.size, 8);
    assert_int_equal(learn->common.batch.timeout_ns, 20000000);
    assert_int_equal(learn->common.on_error, MR_ON_ERROR_FAIL);
    assert_string_equal(((const fake_write *)results->options)->path, "dir/out.jsonl");
    assert_string_equal(results->inputs[0].from, "learn");
    assert_int_equal(results->inputs[0].place.line, 10);
    assert_int_equal(results->inputs[0].place.column, 34);
    assert_string_equal(results->place_text, "dir/p.yaml:10:3");
    mr_spec_destroy(&spec);
    assert_null(spec);
}

TEST(joins_are_read_in_order) {
    ENDED_BY(mr_spec_destroy) mr_spec *spec = parse("version: 1\npipeline: p\nsources: {a: {uri: x}, b: {uri: y}}\n"
            "stages: {both: {type: gather, join: {left: b, right: a.packets}}}\n", &no_wishes, "");
    const mr_spec_vertex *both = &spec->stages[0];
    assert_true(both->joins);
    assert_int_equal(both->input_count, 2);
    assert_string_equal(both->inputs[0].port, "left");
    assert_string_equal(both->inputs[0].from, "b");
    assert_string_equal(both->inputs[1].from, "a.packets");
}

/* The number is Python's: hashlib.sha256 over the tree in bencode. */
TEST_WITH(a_digest_tells_pipelines_apart, set_input, NULL) {
    char twin[2 * sizeof text];
    const mr_override other = {"stages.learn.batch.size", "9"};
    mr_spec *spec = parse(text, &no_wishes, "");
    assert_string_equal(spec->digest, "4f5b53d9b6f8d1c17198fadeacdc411ac0d20a2b18e02bf0b32386867efd1006");
    snprintf(twin, sizeof twin, "# The same.\n%s\n", text);
    mr_spec *same = parse(twin, &(mr_spec_params){.path = "other/q.yaml"}, "");
    assert_string_equal(same->digest, spec->digest);
    mr_spec *different = parse(text, &(mr_spec_params){.override_count = 1, .overrides = &other}, "");
    assert_string_not_equal(different->digest, spec->digest);
    mr_spec_destroy(&spec);
    mr_spec_destroy(&same);
    mr_spec_destroy(&different);
}

TEST_WITH(overrides_are_read_as_yaml, set_input, NULL) {
    const mr_override overrides[] = {{"stages.learn.batch.size", "16"},
                                     {"stages.open.queue.when_full", "drop-oldest"},
                                     {"stages.shrink", "{input: open, size: 10}"},
                                     {"pipeline", "other"},
                                     {"stages.results.path", "here.jsonl"},
                                     {"stages.extra", "{type: trash, input: learn}"},
                                     {"stages.shrink.mean", "[1, 2]"}};
    mr_spec *spec = parse(text, &(mr_spec_params){.override_count = 7, .overrides = overrides}, "");
    assert_string_equal(spec->name, "other");
    assert_int_equal(spec->stage_count, 5);
    const mr_spec_vertex *open = &spec->stages[0], *shrink = &spec->stages[1], *learn = &spec->stages[2];
    assert_int_equal(open->common.queue.when_full, MR_POLICY_DROP_OLDEST);
    assert_string_equal(shrink->id, "shrink");
    assert_int_equal(((const fake_shrink *)shrink->options)->size.width, 10);
    assert_int_equal(((const fake_shrink *)shrink->options)->mean.count, 2);
    assert_int_equal(learn->common.batch.size, 16);
    assert_int_equal(learn->common.batch.timeout_ns, 20000000);
    /* From the command line: relative to the working directory. */
    assert_string_equal(((const fake_write *)spec->stages[3].options)->path, "here.jsonl");
    assert_string_equal(spec->stages[4].id, "extra");
    mr_spec_destroy(&spec);
}

TEST_WITH(errors_name_the_override, set_input, NULL) {
    const mr_override overrides[] = {{"stages.lern.batch.size", "16"},
                                     {"stages.learn.batch.size", "many"},
                                     {"stages.shrink.siz", "5"},
                                     {"sources..x", "5"},
                                     {"stages.open.queue", "[1"}};
    ENDED_BY(mr_spec_destroy) mr_spec *spec = parse(
        text, &(mr_spec_params){.override_count = 5, .overrides = overrides},
        "--set stages.lern.batch.size (dir/p.yaml:7:3): error: there is no \"lern\" in stages\n"
        "    hint: did you mean \"learn\"?\n"
        "--set sources..x (dir/p.yaml:5:3): error: the key must be names separated by dots\n"
        "    hint: write --set stages.decode.threads=2\n"
        "--set stages.open.queue (dir/p.yaml:7:31): error: this is not YAML: did not find expected ',' or ']' while "
        "parsing a flow sequence\n"
        "    hint: the bracket or brace is not closed, or a comma is missing in it\n"
        "--set stages.shrink.siz (dir/p.yaml:8:11): error: stages.shrink: unknown key \"siz\"\n"
        "    hint: did you mean \"size\"?\n"
        "--set stages.learn.batch.size (dir/p.yaml:9:40): error: stages.learn.batch.size: expected a whole number such "
        "as 8, found \"many\"\n");
    assert_true(spec->broken);
}

/* Signals without end for the calling thread, as from a program's timer whose handler was installed without SA_RESTART:
 * system calls that wait fail with EINTR. */
typedef struct interrupted {
    pthread_t thread, target;
    atomic_bool over;
} interrupted;

static atomic_long signals_taken;

static void take_signal(int number) {
    atomic_fetch_add(&signals_taken, 1);
}

static void *send_signals(void *context) {
    interrupted *of = context;
    while (!atomic_load(&of->over)) {
        pthread_kill(of->target, SIGUSR2);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return NULL;
}

/* Returns once that number has come. */
static void await_signals(long count) {
    const long wanted = atomic_load(&signals_taken) + count;
    while (atomic_load(&signals_taken) < wanted)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void begin_signals(interrupted *of) {
    const struct sigaction wanted = {.sa_handler = take_signal};
    of->target = pthread_self();
    atomic_init(&of->over, false);
    assert_int_equal(sigaction(SIGUSR2, &wanted, NULL), 0);
    assert_int_equal(pthread_create(&of->thread, NULL, send_signals, of), 0);
    await_signals(1);
}

static void end_signals(interrupted *of) {
    atomic_store(&of->over, true);
    pthread_join(of->thread, NULL);
    signal(SIGUSR2, SIG_IGN); /* also the last one, which may not have been handled yet */
}

/* Writes a pipeline in two parts, with signals for the reader between them. */
static void *write_slowly(void *context) {
    const int fd = *(const int *)context;
    const size_t half = strlen(text) / 2;
    bool written = write(fd, text, half) == (ssize_t)half;
    await_signals(100);
    written &= write(fd, text + half, strlen(text) - half) == (ssize_t)(strlen(text) - half);
    close(fd);
    return written ? context : NULL;
}

TEST(signals_do_not_end_the_reading_of_standard_input) {
    mr_spec_params params = {.types = fake_types, .default_source_type = "camera", .path = "-"};
    mr_diagnostics diagnostics = {0};
    interrupted signals;
    pthread_t writer;
    mr_spec *spec;
    void *written;
    int ends[2], before = dup(STDIN_FILENO);
    assert_int_equal(set_input(NULL), 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    begin_signals(&signals);
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, &ends[1]), 0);
    int status = mr_spec_parse(&spec, &params, &diagnostics);
    assert_int_equal(pthread_join(writer, &written), 0);
    end_signals(&signals);
    dup2(before, STDIN_FILENO);
    close(before);
    close(ends[0]);
    expect_printed(&diagnostics, "");
    assert_int_equal(status, MR_OK);
    assert_non_null(written);
    mr_spec_destroy(&spec);
}

TEST(one_input_replaces_the_uri) {
    /* The replaced variable need not be set; a dollar in a name has no meaning. */
    unsetenv("MR_TEST_INPUT");
    const char *const inputs[] = {"videos/$$b.mp4"};
    mr_spec *spec = parse(text, &(mr_spec_params){.input_count = 1, .inputs = inputs, .output = "there.jsonl"}, "");
    assert_int_equal(spec->source_count, 1);
    assert_string_equal(spec->sources[0].id, "lobby");
    assert_string_equal(((const fake_camera *)spec->sources[0].options)->uri, "videos/$$b.mp4");
    assert_true(((const fake_camera *)spec->sources[0].options)->rate == 30);
    assert_null(spec->all_sources);
    assert_string_equal(((const fake_write *)spec->stages[3].options)->path, "there.jsonl");
    mr_spec_destroy(&spec);
}

TEST(several_inputs_make_sources_with_names_of_their_own) {
    const char *const inputs[] = {"a/cam one.mp4", "b/cam one.mp4", "open.avi", "x-2.y.mkv", "http://h/x-2.y.mkv",
                                  "../folder/", ".hidden", "cam_one-2"};
    const char *const ids[] = {"cam_one", "cam_one-2", "open-2",  "x-2_y",
                               "x-2_y-2", "folder",    "_hidden", "cam_one-2-2"};
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan;
    const mr_spec_params params = {.types = fake_types, .default_source_type = "camera", .text = text,
                                   .input_count = 8, .inputs = inputs};
    assert_int_equal(mr_plan_load(&plan, &params, &(mr_plan_params){.inserted = &mr_pipeline_types}, &diagnostics),
                     MR_OK);
    assert_int_equal(plan->source_count, 8);
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(plan->vertices[i].id, ids[i]);
    /* The replaced source's id means all of them. */
    assert_string_equal(plan->vertices[8].id, "open");
    assert_int_equal(plan->vertices[8].source_count, 8);
}

TEST_WITH(each_input_has_options_of_its_own, set_input, NULL) {
    setenv("MR_TEST_RATE", "7", 1);
    const char *const inputs[] = {"a.mp4", "b.mp4"};
    const mr_override overrides[] = {{"sources.b.rate", "${MR_TEST_RATE}"}, {"sources.lobby.rate", "20"},
                                     {"sources.a.uri", "other.mp4"}, {"sources.c.rate", "5"}};
    mr_spec_params wishes = {.input_count = 2, .inputs = inputs, .override_count = 3, .overrides = overrides};
    ENDED_BY(mr_spec_destroy) mr_spec *spec = parse(text, &wishes, "");
    assert_int_equal(spec->source_count, 2);
    assert_true(((const fake_camera *)spec->sources[0].options)->rate == 20);
    assert_string_equal(((const fake_camera *)spec->sources[0].options)->uri, "other.mp4");
    assert_true(((const fake_camera *)spec->sources[1].options)->rate == 7);
    mr_spec_destroy(&spec);
    wishes.override_count = 4;
    spec = parse(text, &wishes,
                 "--set sources.c.rate (dir/p.yaml:5:3): error: there is no \"c\" in sources\n"
                 "    hint: it has a, b\n");
}

TEST(inputs_need_an_only_source) {
    const char *const inputs[] = {"a.mp4"};
    const mr_spec_params wishes = {.input_count = 1, .inputs = inputs, .output = "x"};
    ENDED_BY(mr_spec_destroy) mr_spec *spec =
        parse("version: 1\npipeline: p\nsources: {a: {uri: x}, b: {uri: y}}\n"
              "stages: {out: {type: trash, input: a}}\n",
              &wishes,
              "--input: error: an input replaces the only source, but the pipeline has 2\n"
              "    hint: use --set sources.ID.uri=... for each\n"
              "--output: error: an output replaces the path of the only stage that writes a file, but the "
              "pipeline has 0\n");
    mr_spec_destroy(&spec);
    /* A stage whose type is unknown may be the one that writes. */
    spec = parse("version: 1\npipeline: p\nsources: {a: {uri: x}}\nstages: {out: {type: tarsh, input: a}}\n",
                 &(mr_spec_params){.output = "x"},
                 "dir/p.yaml:4:22: error: stages.out: unknown type \"tarsh\"\n    hint: did you mean \"trash\"?\n");
    mr_spec_destroy(&spec);
    const mr_spec_params input_only = {.input_count = 1, .inputs = inputs};
    spec = parse("version: 1\npipeline: p\nsources: {a: {type: pattern}}\nstages: {out: {type: trash, input: a}}\n",
                 &input_only, "--input: error: the source \"a\" is of type pattern, which reads no uri\n");
}

TEST(wrong_variables_are_told_once) {
    unsetenv("MR_TEST_INPUT");
    mr_spec *spec = parse("version: 1\npipeline: p\nsources: {a: {uri: x, rate: \"${MR_TEST_INPUT}\"}}\n"
                          "stages: {shrink: {input: a, size: \"${MR_TEST_INPUT}\"}}\n", &no_wishes,
                          "dir/p.yaml:3:29: error: the variable MR_TEST_INPUT is not set\n"
                          "    hint: set it in the environment: MR_TEST_INPUT=...\n"
                          "dir/p.yaml:4:35: error: the variable MR_TEST_INPUT is not set\n"
                          "    hint: set it in the environment: MR_TEST_INPUT=...\n");
    assert_true(spec->sources[0].broken);
    assert_true(spec->stages[0].broken);
    mr_spec_destroy(&spec);
}

TEST(variables_may_be_numbers) {
    setenv("MR_TEST_SIZE", "8", 1);
    ENDED_BY(mr_spec_destroy) mr_spec *spec = parse("version: 1\npipeline: p\nsources: {a: {uri: x}}\n"
            "stages: {learn: {input: a, batch: \"${MR_TEST_SIZE}\"}}\n", &no_wishes, "");
    assert_int_equal(spec->stages[0].common.batch.size, 8);
}

/* A program that does not allow plugins runs no code that a pipeline names, and no message mentions the missing
 * type. */
TEST(plugins_are_loaded_only_if_allowed) {
    mr_spec *spec = parse("version: 1\npipeline: p\nplugins: libmine.so\nsources: {lobby: {uri: a.mp4}}\n"
                          "stages:\n  mine: {input: lobby}\n", &no_wishes,
                          "dir/p.yaml:3:1: error: plugins: this command does not load plugins that a pipeline names\n"
                          "    hint: plugins run their own code: `--plugins` loads them; a program sets "
                          "mr_pipeline_params.plugins\n");
    assert_true(spec->broken && spec->stages[0].broken);
    mr_spec_destroy(&spec);
    spec = parse("version: 1\npipeline: p\nplugins: []\nsources: {lobby: {uri: a.mp4}}\n"
                 "stages:\n  write: {input: lobby, path: a}\n", &no_wishes, "");
    mr_spec_destroy(&spec);
}

RUN_TESTS(NULL, NULL)
