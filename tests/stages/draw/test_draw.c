/* draw in a pipeline: pictures are drawn on, except those that only show that their source is away, and those without
 * objects; on the processors and on a simulated accelerator. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "millrace/objects.h"
#include "millrace/status.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

/* Pictures with an object; of three, the second is away, and the third has none. */
static int find(mr_stage *self, mr_io *io) {
    const uint64_t seq = mr_io_input(io)->identity.seq;
    mr_result *result = NULL;
    mr_frame *frame;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    if (status)
        return status;
    frame->flags |= seq % 3 == 1 ? MR_FRAME_AWAY : 0;
    status = mr_io_add_result(io, frame, mr_kind_objects(), 1, &result);
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    *(mr_object *)result->data = (mr_object){.left = 4, .top = 4, .right = 20, .bottom = 16, .score = 1};
    result->count = seq % 3 < 2;
    return mr_io_emit(io, 0, frame);
}

static int find_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
}

/* Pixels that are not zero: of frames that are away, without objects, and drawn on. */
static atomic_int away, empty, drawn;

static int look(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    atomic_int *counts[] = {&drawn, &away, &empty};
    int count = 0;
    for (mr_row row = {0}; mr_next_row(&frame->format, &row);)
        for (size_t i = 0; i < row.bytes; i++)
            count += mr_row_at(frame->plane, &row)[i] != 0;
    *counts[frame->identity.seq % 3] += count;
    return MR_DONE;
}

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port in[] = {{.name = "in", .accepts = pictures}, {0}}, out[] = {{.name = "out"}, {0}};
static const mr_stage_type finds = {.name = "finds", .summary = "for tests", .inputs = in, .outputs = out,
                                    .negotiate = find_negotiate, .process = find};
static const mr_stage_type looks = {.name = "looks", .summary = "for tests", .inputs = in, .process = look};
static const mr_stage_type *const types[] = {&finds, &looks, NULL};

TEST(only_pictures_with_objects_change) {
    for (int i = 0; i < 4; i++) {
        char text[512];
        drawn = away = empty = 0;
        snprintf(text, sizeof text,
                 "version: 1\npipeline: p\nsources: {a: {type: \"null\", frames: 30, format: I420 34x22}}\nstages:\n"
                 "  finds: {input: a}\n  draw: {input: finds, label: \"\", thickness: 1%s}\n  looks: {input: draw}\n",
                 i / 2 ? ", device: \"sim:0\"" : "");
        mr_pipeline *pipeline = flow_open_with(types, text, (uint64_t)(i % 2), 2);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(summary->delivered, 30);
        assert_int_equal(away, 0);
        assert_int_equal(empty, 0);
        /* Lines of a pixel around 16 x 12, and the chroma samples at its edge, of both planes. */
        assert_int_equal(drawn, 10 * (2 * 16 + 2 * 10 + 2 * (2 * 8 + 2 * 4)));
        flow_close(&pipeline, &summary);
    }
}

RUN_TESTS(be_quiet, NULL)
