/* A plan's view, as a program that embeds the library reads it: public headers only. */
#include <stdio.h>
#include <string.h>
/* cmocka wants these before it. */
#include "millrace/millrace.h"
#include "millrace/plan.h"
#include "tests/support/suite.h"

static const char text[] =
    "version: 1\n"
    "pipeline: seen\n"
    "sources:\n"
    "  camera: {type: push, format: RGB24 64x48}\n"
    "stages:\n"
    "  small:   {type: preprocess, input: camera, size: 16x12, normalize: unit, layout: nhwc, device: \"sim:0\"}\n"
    "  answers: {type: callback, input: small, queue: 3}\n"
    "  files:   {type: jsonl, input: small, path: out.jsonl}\n";

static mr_pipeline_params params_of(const char *of) {
    return (mr_pipeline_params){
        .types = mr_stage_types(), .path = "seen.yaml", .text = of, .workers = 2, .offline = true};
}

static const mr_plan_view *open_view(const char *of) {
    const mr_plan_view *view = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(of);
    int status = mr_plan_view_open(&view, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    assert_int_equal(status, MR_OK);
    return view;
}

static int find(const mr_plan_view *view, const char *id) {
    for (size_t i = 0; i < view->stage_count; i++)
        if (strcmp(view->stages[i].id, id) == 0)
            return (int)i;
    fail_msg("there is no stage %s", id);
    return -1;
}

static bool has_link(const mr_plan_view *view, const char *from, const char *to) {
    for (size_t i = 0; i < view->link_count; i++)
        if (view->links[i].from == find(view, from) && view->links[i].to == find(view, to))
            return true;
    return false;
}

TEST(stages_and_copies_are_seen) {
    const mr_plan_view *view = open_view(text);
    assert_string_equal(view->name, "seen");
    assert_string_equal(view->file, "seen.yaml");
    assert_int_equal(strlen(view->digest), 64);
    assert_int_equal(view->workers, 2);
    assert_int_equal(view->source_count, 1);
    assert_int_equal(view->stage_count, 6); /* a copy to the device, and one from it */
    const mr_view_stage *camera = &view->stages[0], *small = &view->stages[find(view, "small")];
    assert_string_equal(camera->id, "camera");
    assert_string_equal(camera->offer.written, "camera");
    assert_int_equal(camera->role, MR_VIEW_SOURCE);
    assert_int_equal(camera->output_bytes[0], mr_format_set_most_bytes(&camera->outputs[0].set));
    assert_string_equal(small->type->name, "preprocess");
    assert_string_equal(small->devices.first, "sim:0");
    assert_string_equal(view->devices[small->devices.at[0]].name, "sim:0");
    assert_string_equal(small->place, "seen.yaml:6:3");
    assert_true(small->devices.any);
    assert_int_equal(small->output_bytes[0], 16 * 12 * 3 * 4);
    assert_int_equal(view->stages[find(view, "camera->sim:0")].role, MR_VIEW_UPLOAD);
    assert_int_equal(view->stages[find(view, "small->host")].role, MR_VIEW_DOWNLOAD);
    assert_int_equal(view->stages[find(view, "answers")].queue, 3);
    assert_string_equal(view->stages[find(view, "answers")].when_full, "block");
    mr_plan_view_close(&view);
    assert_null(view);
}

TEST(links_are_seen) {
    ENDED_BY(mr_plan_view_close) const mr_plan_view *view = open_view(text);
    assert_int_equal(view->link_count, 5);
    assert_true(has_link(view, "camera", "camera->sim:0"));
    assert_true(has_link(view, "camera->sim:0", "small"));
    assert_true(has_link(view, "small", "small->host"));
    assert_true(has_link(view, "small->host", "answers"));
    assert_true(has_link(view, "small->host", "files"));
}

/* The rows for a kind add up to the plan's total. */
TEST(memory_adds_up) {
    ENDED_BY(mr_plan_view_close) const mr_plan_view *view = open_view(text);
    uint64_t sums[MR_VIEW_LIBRARIES + 1] = {0};
    for (size_t i = 0; i < view->row_count; i++)
        sums[view->rows[i].kind] += view->rows[i].most.bytes;
    assert_int_equal(sums[MR_VIEW_HOST], view->host.bytes);
    assert_int_equal(sums[MR_VIEW_PINNED], view->pinned.bytes);
    assert_int_equal(sums[MR_VIEW_DEVICE], view->devices[1].memory.bytes);
    assert_true(view->devices[1].memory.bytes > 0);
    const mr_view_pool *pool = &view->stages[find(view, "small")].pools[0];
    assert_int_equal(pool->memory, MR_MEMORY_DEVICE);
    assert_int_equal(pool->most, (uint64_t)pool->count * pool->bytes);
}

TEST(threads_and_files_are_seen) {
    ENDED_BY(mr_plan_view_close) const mr_plan_view *view = open_view(text);
    int workers = 0, devices = 0;
    for (size_t i = 0; i < view->thread_count; i++) {
        workers += strcmp(view->threads[i].what, "worker") == 0 ? view->threads[i].count : 0;
        devices += strcmp(view->threads[i].what, "device") == 0 ? view->threads[i].count : 0;
    }
    assert_int_equal(workers, 2);
    assert_int_equal(devices, 1);
    assert_int_equal(view->file_count, 1);
    assert_string_equal(view->files[0].path + strlen(view->files[0].path) - strlen("out.jsonl"), "out.jsonl");
    assert_int_equal(view->files[0].option->file, MR_FILE_WRITTEN);
    assert_int_equal(view->files[0].stage, find(view, "files"));
}

TEST(nodes_and_cuts_are_seen) {
    static const char nodes[] = "version: 1\n"
                                "pipeline: seen\n"
                                "sources: {camera: {type: push, format: RGB24 64x48}}\n"
                                "stages:\n"
                                "  small: {type: preprocess, input: camera, size: 16x12, normalize: unit}\n"
                                "  out: {type: callback, input: small}\n"
                                "nodes:\n"
                                "  near: {stages: [small]}\n"
                                "  far: {stages: [out]}\n";
    ENDED_BY(mr_plan_view_close) const mr_plan_view *view = NULL;
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(nodes);
    params.cuts = true;
    assert_int_equal(mr_plan_view_open(&view, &params, &wrong), MR_OK);
    assert_int_equal(view->node, -1);
    assert_int_equal(view->node_count, 2);
    assert_string_equal(view->nodes[0].id, "near");
    assert_int_equal(view->cut_count, 1);
    const mr_view_cut *cut = &view->cuts[0];
    assert_string_equal(cut->name, "small->far");
    assert_int_equal(cut->from, 0);
    assert_int_equal(cut->to, 1);
    assert_string_equal(cut->mode, "reliable");
    assert_int_equal(view->stages[cut->out].role, MR_VIEW_CUT_OUT);
    assert_int_equal(view->stages[cut->in].role, MR_VIEW_CUT_IN);
    assert_string_equal(view->stages[cut->out].cut->name, cut->name);
    assert_int_equal(view->stages[cut->in].node, 1);
}

TEST(a_pipeline_shows_its_plan) {
    const mr_plan_view *alone = open_view(text), *of_pipeline = NULL;
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of(text);
    assert_int_equal(mr_pipeline_open(&pipeline, &params, &wrong), MR_OK);
    assert_int_equal(mr_pipeline_view(pipeline, &of_pipeline), MR_OK);
    assert_string_equal(of_pipeline->digest, alone->digest);
    assert_int_equal(of_pipeline->stage_count, alone->stage_count);
    assert_int_equal(of_pipeline->host.bytes, alone->host.bytes);
    mr_plan_view_close(&of_pipeline);
    mr_pipeline_destroy(&pipeline);
    mr_plan_view_close(&alone);
    mr_plan_view_close(&alone);
}

TEST(what_is_wrong_is_said) {
    const mr_plan_view *view = (const mr_plan_view *)state;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = params_of("version: 1\npipeline: bad\n"
                                          "stages: {out: {type: callback, input: nothing}}\n");
    assert_int_equal(mr_plan_view_open(&view, &params, &wrong), MR_ERROR_CONFIG);
    assert_null(view);
    assert_true(wrong.errors > 0);
    mr_diagnostics_fini(&wrong);
    assert_int_equal(mr_plan_view_open_sized(&view, &params, 1, &wrong), MR_ERROR_USAGE);
    assert_null(view);
    assert_int_equal(wrong.count, 1);
    mr_diagnostics_fini(&wrong);
}

RUN_TESTS(NULL, NULL)
