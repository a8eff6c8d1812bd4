#include "tests/support/feeds.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/opened.h"

feed feeds[2];
size_t feed_count;

static uint32_t random_state = 20261121;

static uint32_t draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

mr_picture feed_picture(const feed *f, size_t frame) {
    mr_picture picture = {{NULL}, {0}};
    mr_plane plane[MR_MAX_PLANES] = {0};
    mr_lay_out(&f->format, 1, f->block[frame], plane);
    for (int p = 0; p < MR_MAX_PLANES; p++) {
        picture.data[p] = plane[p].data;
        picture.stride[p] = plane[p].stride;
    }
    return picture;
}

void feed_fill(feed *f, mr_pixel pixel, size_t count) {
    const mr_pixel_info *info = mr_pixel_describe(pixel);
    *f = (feed){.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = FEED_WIDTH, .height = FEED_HEIGHT},
                .count = count};
    const size_t bytes = mr_packed_bytes(&f->format);
    for (size_t i = 0; i < count; i++) {
        f->block[i] = malloc(bytes);
        f->pts_ns[i] = (int64_t)i * 40000000;
        for (size_t k = 0; k < bytes; k++)
            f->block[i][k] = info->depth > 8 && k % 2 ? (uint8_t)(draw() % 4) : (uint8_t)(draw() % 64 + k % 191);
    }
}

void feeds_free(void) {
    for (size_t i = 0; i < feed_count; i++)
        for (size_t k = 0; k < feeds[i].count; k++)
            free(feeds[i].block[k]);
    feed_count = 0;
}

static void arrive(void *context, const char *source, const mr_frame *frame) {
    feed *f = &feeds[source[0] == 'b'];
    const mr_result *result = mr_frame_result(frame, mr_kind_tensor(), NULL);
    bool payload = frame->format.payload == MR_PAYLOAD_TENSOR;
    const mr_format *format = payload ? &frame->format : &result->format;
    size_t at = f->arrived++;
    assert_true(at < FEED_FRAMES && mr_tensor_bytes(format) <= FEED_MOST_BYTES);
    f->seq[at] = frame->identity.seq;
    f->bytes[at] = mr_tensor_bytes(format);
    memcpy(f->data[at], payload ? frame->plane[0].data : result->data, f->bytes[at]);
    /* Stages that only add to a frame must keep the picture. */
    if (!payload)
        assert_int_equal(frame->format.width, FEED_WIDTH);
}

mr_pipeline *feeds_open(const mr_stage_type *const *types, const char *stages) {
    char text[4096], format[MR_FORMAT_TEXT];
    int used = snprintf(text, sizeof text, "version: 1\npipeline: test\nsources:\n");
    for (size_t i = 0; i < feed_count; i++) {
        const mr_format *f = &feeds[i].format;
        snprintf(format, sizeof format, "%s %dx%d", mr_pixel_describe(f->pixel)->name, f->width, f->height);
        used += snprintf(text + used, sizeof text - (size_t)used, "  %c: {type: push, format: %s}\n",
                         (char)('a' + (int)i), format);
    }
    snprintf(text + used, sizeof text - (size_t)used, "stages:\n%s  sink: {type: callback, input: it}\n", stages);
    return opened(&(mr_pipeline_params){.types = types, .path = "feeds.yaml", .text = text, .workers = 2});
}

static int push_one(mr_pipeline *pipeline, const feed *f, const char *source, size_t frame) {
    const mr_picture picture = feed_picture(f, frame);
    mr_push push = {.format = f->format, .pts_ns = f->pts_ns[frame]};
    memcpy(push.data, picture.data, sizeof push.data);
    memcpy(push.stride, picture.stride, sizeof push.stride);
    return mr_pipeline_push(pipeline, source, &push, -1);
}

/* A run must not need more memory than planned, and all of it must be known. */
static void check_bounds(const mr_plan *plan, const mr_summary *summary) {
    assert_false(plan->host.unknown || plan->pinned.unknown);
    assert_in_range(summary->host_bytes, 0, plan->host.bytes);
    assert_in_range(summary->pinned_bytes, 0, plan->pinned.bytes);
    for (size_t i = 0; i < summary->device_count; i++)
        for (size_t d = 0; d < plan->device_count; d++)
            if (strcmp(plan->devices[d].name, summary->devices[i].name) == 0)
                assert_in_range(summary->devices[i].bytes, 1, plan->devices[d].memory.bytes);
}

feeds_ledger feeds_account(mr_pipeline *pipeline) {
    mr_summary *summary = summed(pipeline);
    check_bounds(pipeline->plan, summary);
    assert_int_equal(mr_sim_misuses(), 0);
    for (size_t i = 0; i < summary->line_count; i++)
        if (summary->lines[i].outcome == MR_OUTCOME_ABSORBED) {
            assert_string_equal(summary->lines[i].stage, "it");
            assert_string_equal(summary->lines[i].reason, "still");
        }
    const feeds_ledger told = {summary->delivered, summary->dropped, summary->absorbed};
    mr_summary_destroy(&summary);
    return told;
}

void feeds_push(mr_pipeline *pipeline) {
    static const char *const names[] = {"a", "b"};
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (size_t frame = 0; frame < FEED_FRAMES; frame++)
        for (size_t i = 0; i < feed_count; i++)
            if (frame < feeds[i].count)
                assert_int_equal(push_one(pipeline, &feeds[i], names[i], frame), MR_OK);
    for (size_t i = 0; i < feed_count; i++)
        assert_int_equal(mr_pipeline_end(pipeline, names[i]), MR_OK);
    mr_pipeline_wait(pipeline, -1);
}

feeds_ledger feeds_run(const char *stages) {
    for (size_t i = 0; i < feed_count; i++)
        feeds[i].arrived = 0;
    mr_pipeline *pipeline = feeds_open(mr_stage_types(), stages);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", arrive, NULL), MR_OK);
    feeds_push(pipeline);
    const feeds_ledger told = feeds_account(pipeline);
    mr_pipeline_destroy(&pipeline);
    return told;
}

