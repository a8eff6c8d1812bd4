/* What a stage type promises about outputs while planning, and what it then does: the engine must refuse memory that is
 * not planned, with a message for the author. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "tests/support/fakes.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

static const mr_format picture = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 34, .height = 22};

/* ---- stage types ------------------------------------------------------------------------------------------------- */

static int copy_process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    mr_frame *output;
    int status = mr_io_acquire(io, 0, &input->format, input, &output);
    if (status)
        return status;
    mr_copy_rows(&input->format, output->plane, input->plane);
    output->plane[0].buffer->contents = 7;
    return mr_io_emit(io, 0, output);
}

static int copy_map(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output) {
    mr_copy_rows(&input->format, output->plane, input->plane);
    return MR_OK;
}

static int share_process(mr_stage *self, mr_io *io) {
    mr_frame *output;
    int status = mr_io_share(io, mr_io_input(io), &output);
    return status ? status : mr_io_emit(io, 0, output);
}

/* How many pictures were changed where they lay, and how many as copies; how many claim to have their old contents. */
static atomic_int changed, copied, claiming;

/* Counts up the first pixel. A change must not be repeated if the call is. */
static int change_process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    const uint8_t *lay = input->plane[0].data;
    mr_frame *output;
    int status = mr_io_change(io, 0, input, &output);
    if (status)
        return status;
    changed += output->plane[0].data == lay;
    copied += output->plane[0].data != lay;
    claiming += output->plane[0].buffer->contents != 0;
    output->plane[0].data[0]++;
    return mr_io_emit(io, 0, output);
}

/* Changes nothing. */
static int pass_process(mr_stage *self, mr_io *io) {
    return mr_io_pass_unchanged(io);
}

static int forward_process(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

/* Takes a buffer that it does not need, and passes the input on. */
typedef int take_buffer(mr_io *io, mr_buffer **buffer);
static int take_and_forward(mr_io *io, take_buffer *take) {
    mr_buffer *buffer = NULL;
    int status = take(io, &buffer);
    mr_buffer_unref(&buffer);
    return status ? status : mr_io_forward(io, 0);
}

static int take_output(mr_io *io, mr_buffer **buffer) {
    return mr_io_buffer(io, 0, 64, buffer);
}
static int take_no_output(mr_io *io, mr_buffer **buffer) {
    return mr_io_buffer(io, 1, 64, buffer);
}
static int take_results(mr_io *io, mr_buffer **buffer) {
    return mr_io_results(io, 64, buffer);
}
static int take_pinned(mr_io *io, mr_buffer **buffer) {
    return mr_io_pinned(io, 64, buffer);
}
static int take_scratch(mr_io *io, mr_buffer **buffer) {
    return mr_io_scratch(io, 64, buffer);
}

#define TAKES(what)                                                                                                    \
    static int what##_process(mr_stage *self, mr_io *io) {                                                             \
        return take_and_forward(io, take_##what);                                                                      \
    }
TAKES(output)
TAKES(no_output)
TAKES(results)
TAKES(pinned)
TAKES(scratch)

/* Pictures with another size; nobody knows where the pixels come from. */
static int halve_process(mr_stage *self, mr_io *io) {
    mr_frame *output;
    mr_format half = mr_io_input(io)->format;
    half.width /= 2;
    int status = mr_io_acquire(io, 0, &half, mr_io_input(io), &output);
    return status ? status : mr_io_emit(io, 0, output);
}

static int nothing_negotiate(mr_negotiation *n) {
    return MR_OK;
}

static int follow_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = 0;
    return MR_OK;
}

static int far_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = 0;
    n->outputs[0].shares = 1;
    return MR_OK;
}

static int share_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return MR_OK;
}

static int change_negotiate(mr_negotiation *n) {
    mr_promise_changes(n, 0, 0);
    return MR_OK;
}

/* Pictures of any size. */
static int vague_negotiate(mr_negotiation *n) {
    static const mr_format_set any = {.payload = MR_PAYLOAD_PICTURE};
    n->outputs[0].set = any;
    n->outputs[0].shares = 0;
    return MR_OK;
}

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port in[] = {{.name = "in", .accepts = pictures}, {0}};
static const mr_port out[] = {{.name = "out"}, {0}};
#define TYPE(called, ...)                                                                                              \
    static const mr_stage_type called = {                                                                              \
        .name = #called, .summary = "for tests", .inputs = in, .outputs = out, __VA_ARGS__}
TYPE(copies, .negotiate = follow_negotiate, .process = copy_process);
TYPE(changes, .negotiate = change_negotiate, .process = change_process);
TYPE(leaves, .negotiate = change_negotiate, .process = pass_process);
TYPE(vague, .negotiate = vague_negotiate, .process = forward_process);
TYPE(maps, .map = copy_map);
TYPE(halves, .negotiate = follow_negotiate, .process = halve_process);
TYPE(shares, .negotiate = share_negotiate, .process = share_process);
TYPE(shares_another, .negotiate = far_negotiate, .process = share_process);
TYPE(says_nothing, .process = forward_process);
TYPE(copies_unsaid, .process = copy_process);
TYPE(copies_shared, .negotiate = share_negotiate, .process = copy_process);
TYPE(shares_unsaid, .negotiate = follow_negotiate, .process = share_process);
TYPE(forwards_unsaid, .negotiate = nothing_negotiate, .process = forward_process);
TYPE(takes_output, .negotiate = share_negotiate, .process = output_process);
TYPE(takes_no_output, .process = no_output_process);
TYPE(takes_scratch, .process = scratch_process);
TYPE(takes_results, .process = results_process);
TYPE(takes_pinned, .process = pinned_process);

/* Frames that came with a map to a source's picture, and without. */
static atomic_int mapped, unmapped;

static int swallow(mr_stage *self, mr_io *io) {
    const mr_geometry wanted = mr_geometry_of(&picture), *got = &mr_io_input(io)->geometry;
    mapped += memcmp(got->x, wanted.x, sizeof got->x) == 0 && memcmp(got->y, wanted.y, sizeof got->y) == 0 &&
              got->width == 34 && got->height == 22 && got->source_width == 34 && got->source_height == 22;
    unmapped += got->width == 0;
    return MR_DONE;
}
/* The first pixel of all pictures, added. */
static atomic_int sum;

static int add_up(mr_stage *self, mr_io *io) {
    sum += mr_io_input(io)->plane[0].data[0];
    return MR_DONE;
}
static const mr_stage_type adds = {.name = "adds", .summary = "for tests", .inputs = in, .process = add_up};
static const mr_stage_type sink = {.name = "sink", .summary = "for tests", .inputs = in, .process = swallow};

static const mr_stage_type *const types[] = {
    &copies, &maps, &halves, &shares, &shares_another, &says_nothing, &copies_unsaid, &copies_shared, &shares_unsaid,
    &forwards_unsaid, &takes_output, &takes_no_output, &takes_scratch, &takes_results, &takes_pinned, &changes, &leaves,
    &vague, &adds, &sink, NULL};

#define PICTURES FLOW "sources: {a: {type: \"null\", frames: 20, format: I420 34x22}}\nstages:\n"

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* A stage that fills buffers in the input's format must have planned memory. One that shares the input's buffers has
 * none, and the stage before it must have buffers for everyone who holds the frames. */
TEST(promises_decide_who_has_buffers) {
    mr_pipeline *pipeline = flow_open_with(types, PICTURES "  one: {type: copies, input: a}\n"
                                                           "  two: {type: shares, input: one}\n"
                                                           "  three: {type: says_nothing, input: two}\n"
                                                           "  four: {type: maps, input: three}\n"
                                                           "  five: {type: sink, input: four}\n", 0, 2);
    const mr_plan_vertex *one = vertex(pipeline->plan, "one"), *four = vertex(pipeline->plan, "four");
    assert_int_equal(one->pools[0].bytes, mr_format_bytes(&picture));
    assert_int_equal(four->pools[0].bytes, mr_format_bytes(&picture));
    assert_int_equal(vertex(pipeline->plan, "two")->pools[0].count, 0);
    assert_int_equal(vertex(pipeline->plan, "three")->pools[0].count, 0);
    /* Queues and calls of two, three and four hold `one`'s buffers; only the sink holds `four`'s. */
    int held = 0;
    for (const char *const *id = (const char *const[]){"two", "three", "four", NULL}; *id; id++)
        held += vertex(pipeline->plan, *id)->handling.queue + vertex(pipeline->plan, *id)->calls.in_flight;
    assert_int_equal(one->pools[0].count, one->calls.in_flight + held);
    assert_int_equal(four->pools[0].count, four->calls.in_flight + vertex(pipeline->plan, "five")->handling.queue +
                                               vertex(pipeline->plan, "five")->calls.in_flight);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, 20);
    flow_close(&pipeline, &summary);
}

/* A source's pictures map to themselves, through every stage that passes them on; pictures with another size map
 * nowhere. */
TEST(pictures_lead_to_the_source_or_nowhere) {
    static const char *const stages[] = {"{type: maps, input: a}", "{type: halves, input: a}"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        mapped = unmapped = 0;
        snprintf(text, sizeof text,
                 PICTURES "  one: %s\n  two: {type: shares, input: one}\n  three: {type: sink, input: two}\n",
                 stages[i]);
        mr_pipeline *pipeline = flow_open_with(types, text, 0, 2);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(mapped, i == 0 ? 20 : 0);
        assert_int_equal(unmapped, i == 0 ? 0 : 20);
        flow_close(&pipeline, &summary);
    }
}

/* A picture that no one else holds is changed where it lies; others never see the change. */
TEST(pictures_are_copied_before_a_change_if_others_hold_them) {
    static const struct {
        const char *stages;
        int sum, least_copies, most_copies;
    } cases[] = {
        {"  one: {type: copies, input: a}\n  two: {type: changes, input: one}\n"
         "  three: {type: changes, input: two}\n"
         "  four: {type: adds, input: three}\n", 40, 0, 20},
        /* The source's frames share their pixels. */
        {"  one: {type: changes, input: a}\n  two: {type: adds, input: one}\n", 20, 20, 20},
        {"  one: {type: copies, input: a}\n  two: {type: changes, input: one}\n  three: {type: adds, input: two}\n"
         "  four: {type: adds, input: one}\n  five: {type: shares, input: one}\n  six: {type: adds, input: five}\n",
         20, 0, 20},
    };
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        char text[512];
        changed = copied = sum = 0;
        snprintf(text, sizeof text, PICTURES "%s", cases[i / 2].stages);
        mr_pipeline *pipeline = flow_open_with(types, text, i % 2, 2);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(sum, cases[i / 2].sum);
        assert_in_range(copied, cases[i / 2].least_copies, cases[i / 2].most_copies);
        /* Simulated, no worker holds a frame longer than its call; another thread may. */
        if (i == 1)
            assert_int_equal(copied, 0);
        assert_int_equal(claiming, 0);
        flow_close(&pipeline, &summary);
    }
}

/* If the plan does not know how large pictures are, none may leave in its own buffer, even if nothing is changed. */
TEST(pictures_of_any_size_pass_unchanged) {
    sum = 0;
    mr_pipeline *pipeline = flow_open_with(types, PICTURES "  one: {type: changes, input: a}\n"
                                           "  two: {type: vague, input: one}\n  three: {type: leaves, input: two}\n"
                                           "  four: {type: leaves, input: three}\n  five: {type: adds, input: four}\n",
                                           0, 2);
    assert_int_equal(vertex(pipeline->plan, "three")->outputs[0].shares, -1);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, 20);
    assert_int_equal(sum, 20);
    flow_close(&pipeline, &summary);
}

static void refuses(const char *type, const char *wanted) {
    char text[256], message[512];
    snprintf(text, sizeof text, PICTURES "  it: {type: %s, input: a}\n  sink: {input: it}\n", type);
    for (uint64_t seed = 0; seed < 2; seed++) {
        mr_pipeline *pipeline = flow_open_with(types, text, seed, 2);
        mr_summary *summary;
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        assert_int_equal(ended(pipeline), MR_ERROR_INTERNAL);
        snprintf(message, sizeof message, "the stage type \"%s\" %s", type, wanted);
        assert_string_equal(mr_message(), message);
        assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
        assert_int_equal(summary->delivered, 0);
        assert_true(summary->balanced);
        flow_close(&pipeline, &summary);
    }
}

TEST(unplanned_memory_is_refused) {
    static const char shared[] =
        "takes a buffer for its output \"out\", for which it plans to share those of its input; its author must leave "
        "`shares` of that output at -1 in negotiate, or set `buffer_bytes`";
    refuses("copies_unsaid", shared);
    refuses("copies_shared", shared);
    refuses("takes_output", shared);
    refuses("takes_no_output", "takes a buffer for an output that it does not have; its author must name one of its "
                               "outputs");
    refuses("takes_scratch", "takes working memory that the plan does not have; its author must set `scratch_bytes` in "
                             "negotiate");
    refuses("takes_results", "takes memory for results that the plan does not have; its author must set `result_bytes` "
                             "in negotiate");
    refuses("takes_pinned", "takes pinned memory that the plan does not have; its author must set `pinned_bytes` in "
                            "negotiate");
}

TEST(unplanned_sharing_is_refused) {
    static const char wanted[] = "passes on the buffers of its input, which the plan does not know; its author must "
                                 "set `shares` of the output in negotiate";
    refuses("shares_unsaid", wanted);
    refuses("forwards_unsaid", wanted);
}

TEST(promises_name_inputs_that_exist) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    mr_pipeline *pipeline = NULL;
    static const mr_stage_type *const few[] = {&shares_another, &sink, NULL};
    mr_type_list all = {0};
    assert_int_equal(mr_type_list_add(&all, few, false) || mr_type_list_add(&all, mr_stage_types(), false), 0);
    assert_int_equal(mr_pipeline_open(&pipeline,
                                      &(mr_pipeline_params){.types = all.item, .path = "p.yaml",
                                                            .text = PICTURES "  it: {type: shares_another, input: a}\n"
                                                                             "  sink: {input: it}\n"},
                                      &diagnostics), MR_ERROR_INTERNAL);
    mr_type_list_fini(&all);
    assert_string_equal(diagnostics.item[0].message,
                        "it: the stage type shares_another answers that its output \"out\" follows input 0 and shares "
                        "input 1, and it has 1");
}

RUN_TESTS(be_quiet, NULL)
