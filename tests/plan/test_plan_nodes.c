/* Plans with several nodes: who runs what, and the links between nodes. */
#include <stdlib.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

static const char text[] = "version: 1\npipeline: p\n"
                           "sources:\n"
                           "  lobby: {type: pattern, format: RGB24 64x48}\n"
                           "  hall: {type: pattern, format: RGB24 64x48}\n"
                           "stages:\n"
                           "  small: {type: shrink, input: sources.*, size: 32x16}\n"
                           "  learn: {input: small, batch: 24, cut: {mode: live, compress: lz4, checksum: payload}}\n"
                           "  more: {type: learn, input: small, cut: {mode: live, compress: lz4, checksum: payload}}\n"
                           "  out: {type: write, input: learn}\n"
                           "  sink: {type: trash, input: more}\n"
                           "nodes:\n"
                           "  camera: {stages: [small], listen: 'tcp://127.0.0.1:7001', key: keys/camera.key}\n"
                           "  worker: {stages: [learn, more], key: keys/worker.key}\n"
                           "  center: {stages: [out, sink], key: keys/center.key, public_key: center.txt}\n";

static mr_plan *load(const char *yaml, const mr_plan_params *how) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    const mr_spec_params spec = {
        .types = fake_types, .path = "dir/p.yaml", .text = yaml, .default_source_type = "camera"};
    mr_plan_params params = *how;
    params.inserted = &mr_pipeline_types;
    params.workers = 2;
    params.cuts = true;
    params.runtime = "/run/test";
    int status = mr_plan_load(&plan, &spec, &params, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    assert_int_equal(status, MR_OK);
    mr_diagnostics_fini(&diagnostics);
    return plan;
}

TEST(links_between_nodes_become_cuts) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, &(mr_plan_params){0});
    assert_int_equal(plan->node, -1);
    assert_int_equal(plan->node_count, 3);
    /* If two stages on one node read the same output, one cut carries it. */
    assert_int_equal(plan->cut_count, 3);
    const mr_plan_cut *first = &plan->cuts[0];
    assert_string_equal(first->cut->name, "small->worker");
    assert_string_equal(plan->vertices[first->out].id, "small->worker");
    assert_string_equal(plan->vertices[first->in].id, "small->worker:in");
    assert_int_equal(plan->vertices[first->out].node, 0);
    assert_int_equal(plan->vertices[first->in].node, 1);
    assert_string_equal(plan->cuts[1].cut->name, "learn->center");
    assert_string_equal(plan->cuts[2].cut->name, "more->center");
    assert_int_equal(vertex(plan, "lobby")->node, 0);
    assert_int_equal(vertex(plan, "learn")->node, 1);
}

TEST(a_cut_says_all_that_its_ends_need) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, &(mr_plan_params){.node = "camera"});
    const mr_cut *cut = plan->cuts[0].cut;
    assert_int_equal(plan->node, 0);
    assert_string_equal(cut->from_node, "camera");
    assert_string_equal(cut->to_node, "worker");
    assert_string_equal(cut->node, "camera");
    assert_string_equal(cut->pipeline, "p");
    assert_int_equal(cut->mode, MR_CUT_LIVE);
    assert_int_equal(plan->vertices[plan->cuts[0].out].handling.policy, MR_POLICY_DROP_OLDEST);
    assert_int_equal(cut->compression, MR_CUT_LZ4);
    assert_true(cut->checksum_payload && cut->shared_memory);
    assert_string_equal(cut->listen, "tcp://127.0.0.1:7001");
    assert_int_equal(cut->connect_count, 1);
    assert_string_equal(cut->connect[0], "tcp://127.0.0.1:7001");
    assert_string_equal(cut->key, "dir/keys/camera.key");
    assert_int_equal(cut->allow_count, 1);
    assert_string_equal(cut->allow[0], "dir/keys/worker.pub");
    assert_int_equal(cut->source_count, 2);
    assert_string_equal(cut->source_ids[1], "hall");
    /* f32 3x16x32. */
    assert_int_equal(cut->frame_bytes, 3 * 16 * 32 * 4);
    assert_int_equal(cut->window, 256);
    assert_int_equal(cut->window_bytes, 256 * cut->frame_bytes);
}

TEST(nodes_that_do_not_say_listen_in_the_runtime_folder) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, &(mr_plan_params){.node = "center"});
    assert_string_equal(plan->cuts[1].cut->listen, "ipc:///run/test/worker.1");
    assert_string_equal(plan->cuts[2].cut->connect[0], "ipc:///run/test/worker.2");
    assert_string_equal(plan->cuts[2].cut->key, "dir/keys/center.key");
    assert_string_equal(plan->cuts[2].cut->allow[0], "dir/keys/worker.pub");
    assert_string_equal(plan->nodes[2].public_key, "dir/center.txt");
    /* Nothing reads from it. */
    assert_null(plan->nodes[2].listen);
}

/* These are not dropped on the way, and one process takes them. */
TEST(many_results_go_over_a_cut_at_once) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, &(mr_plan_params){.node = "center"});
    const mr_plan_cut *cut = &plan->cuts[1];
    assert_string_equal(cut->cut->name, "learn->center");
    assert_int_equal(cut->cut->window, 512);
    assert_int_equal(plan->vertices[cut->in].handling.queue, 512);
    assert_int_equal(plan->vertices[cut->out].handling.queue, 128);
}

TEST(without_cuts_one_process_runs_all) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan;
    assert_int_equal(fake_load(&plan, text, &diagnostics), MR_OK);
    assert_int_equal(plan->node_count, 0);
    assert_int_equal(plan->cut_count, 0);
    assert_int_equal(plan->node, 0);
    for (size_t v = 0; v < plan->vertex_count; v++)
        assert_true(mr_plan_is_here(plan, &plan->vertices[v]));
}

TEST(a_window_has_room_for_the_batches_behind_it) {
    static const char large[] = "version: 1\npipeline: p\n"
                                "sources:\n  lobby: {type: pattern, format: RGB24 640x480}\n"
                                "stages:\n"
                                "  small: {type: shrink, input: lobby, size: 320x240}\n"
                                "  again: {type: same, input: small, cut: {memory: 30MiB}}\n"
                                "  learn: {input: again, batch: 24}\n"
                                "  out: {type: write, input: learn}\n"
                                "nodes:\n"
                                "  a: {stages: small}\n  b: {stages: again}\n  c: {stages: [learn, out]}\n";
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(large, &(mr_plan_params){.node = "c"});
    const uint64_t frame = 3 * 240 * 320 * 4;
    assert_int_equal(plan->cuts[0].cut->frame_bytes, frame);
    assert_int_equal(plan->cuts[0].cut->window, (30 << 20) / frame);
    assert_int_equal(plan->cuts[1].cut->window, 24);
    /* Everything that arrived over a cut and is not settled is in the incoming cut's buffers. */
    const mr_plan_vertex *in = &plan->vertices[plan->cuts[1].in];
    assert_int_equal(in->pools[0].count, 24);
    assert_int_equal(in->pools[0].bytes, frame);
    assert_int_equal(in->handling.queue, 24);
    assert_int_equal(plan->vertices[plan->cuts[1].out].calls.in_flight, 24);
    /* This process counts what it takes and what it makes from that; others count theirs. */
    assert_int_equal(plan->host.bytes, plan->nodes[2].host.bytes);
    assert_true(plan->nodes[1].host.bytes >= 34 * frame);
}

/* Also through a stage that passes on the same buffers, unless they go to another machine or the author writes
 * inline. */
TEST(pools_before_a_cut_lie_in_shared_memory) {
    static const struct {
        const char *address, *cut, *again;
        mr_memory memory;
    } cases[] = {
        {"tcp://127.0.0.1:7100", "{}", "same", MR_MEMORY_SHARED},
        {"tcp://10.0.0.1:7100", "{}", "same", MR_MEMORY_HOST},
        {"tcp://127.0.0.1:7100", "{inline: true}", "same", MR_MEMORY_HOST},
        {"tcp://127.0.0.1:7100", "{}", "look", MR_MEMORY_SHARED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char yaml[1024];
        snprintf(yaml, sizeof yaml,
                 "version: 1\npipeline: p\nsources:\n  lobby: {type: pattern, format: RGB24 640x480}\n"
                 "stages:\n  small: {type: shrink, input: lobby, size: 320x240}\n"
                 "  again: {type: %s, input: small}\n"
                 "  more: {type: same, input: again, cut: %s}\n  out: {type: write, input: more}\n"
                 "nodes:\n  a: {stages: [small, again], listen: '%s', key: a.key}\n"
                 "  b: {stages: [more, out], key: b.key}\n",
                 cases[i].again, cases[i].cut, cases[i].address);
        ENDED_BY(mr_plan_destroy) mr_plan *plan = load(yaml, &(mr_plan_params){.node = "a"});
        assert_int_equal(vertex(plan, "small")->pools[0].memory, cases[i].memory);
        assert_int_equal(plan->vertices[plan->cuts[0].in].pools[0].memory, MR_MEMORY_HOST);
        assert_int_equal(vertex(plan, "more")->pools[0].memory, MR_MEMORY_HOST);
        assert_int_equal(plan->shared.bytes > 0, cases[i].memory == MR_MEMORY_SHARED);
        /* What "look" finds may have masks and texts, which are in host memory. */
        const bool looks = strcmp(cases[i].again, "look") == 0;
        assert_int_equal(plan->host.bytes > 0, looks || cases[i].memory == MR_MEMORY_HOST);
        /* Apart from one kilobyte per message, ZeroMQ holds payload only if it is not in shared memory, and masks and
         * texts of objects. */
        const mr_cut *cut = plan->cuts[0].cut;
        uint64_t payload = cases[i].memory == MR_MEMORY_SHARED ? 0 : cut->window_bytes;
        const uint64_t found = looks ? MR_CUT_MOST_ENVELOPE : 0;
        assert_int_equal(plan->queues.likely, payload + 1024 * (uint64_t)cut->window);
        assert_int_equal(plan->queues.bytes, plan->queues.likely + found * (uint64_t)cut->window);
        assert_int_equal(plan->devices[0].memory.bytes, plan->host.bytes + plan->shared.bytes + plan->queues.bytes);
    }
}

/* The copies inserted before and after them. */
TEST(cuts_know_their_ends) {
    static const char copied[] = "version: 1\npipeline: p\n"
                                 "sources:\n  lobby: {type: pattern, format: RGB24 64x48}\n"
                                 "stages:\n"
                                 "  small: {type: shrink, input: lobby, size: 32x24, device: 'sim:0'}\n"
                                 "  learn: {input: small, device: 'sim:1'}\n"
                                 "  out: {type: write, input: learn}\n"
                                 "nodes:\n  a: {stages: small}\n  b: {stages: learn}\n  c: {stages: [out]}\n";
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(copied, &(mr_plan_params){0});
    assert_int_equal(plan->cut_count, 2);
    assert_int_equal(plan->vertex_count, 1 + 3 + 2 * 2 + 3); /* with copies to both devices, and from one */
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_plan_cut *cut = &plan->cuts[i];
        assert_ptr_equal(plan->vertices[cut->out].type, mr_pipeline_types.cut_out);
        assert_ptr_equal(plan->vertices[cut->in].type, mr_pipeline_types.cut_in);
        assert_ptr_equal(plan->vertices[cut->out].options, cut->cut);
        assert_ptr_equal(plan->vertices[cut->in].options, cut->cut);
    }
}

TEST(processes_of_one_node_listen_side_by_side) {
    static const char shared[] = "version: 1\npipeline: p\n"
                                 "sources:\n  lobby: {type: pattern, format: RGB24 64x48}\n"
                                 "stages:\n"
                                 "  small: {type: shrink, input: lobby, size: 32x24}\n"
                                 "  again: {type: same, input: small}\n"
                                 "  out: {type: write, input: again}\n"
                                 "nodes:\n"
                                 "  a: {stages: small}\n"
                                 "  b: {stages: again, replicas: 3, listen: 'tcp://127.0.0.1:7100'}\n"
                                 "  c: {stages: [out]}\n";
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(shared, &(mr_plan_params){.node = "b", .replica = 2});
    const mr_cut *cut = plan->cuts[1].cut;
    assert_string_equal(cut->node, "b.2");
    assert_string_equal(cut->listen, "tcp://127.0.0.1:7102");
    assert_int_equal(cut->connect_count, 3);
    assert_string_equal(cut->connect[0], "tcp://127.0.0.1:7100");
    assert_string_equal(cut->connect[1], "tcp://127.0.0.1:7101");
    assert_true(plan->cuts[0].cut->max_peers >= 3);
    assert_int_equal(plan->vertices[plan->cuts[1].in].handling.queue, 3 * cut->window);
}

TEST(a_node_polls_as_it_says_or_as_the_pipeline_does) {
    static const char polls[] = "version: 1\npipeline: p\nbusy_poll: 20ms\n"
                                "sources:\n  lobby: {type: pattern, format: RGB24 64x48}\n"
                                "stages:\n"
                                "  small: {type: shrink, input: lobby, size: 32x24}\n"
                                "  out: {type: write, input: small}\n"
                                "nodes:\n"
                                "  a: {stages: small}\n"
                                "  b: {stages: out, busy_poll: 0}\n";
    static const struct {
        const char *node;
        int64_t poll_ns;
    } cases[] = {{"a", 20000000}, {"b", 0}, {NULL, 20000000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ENDED_BY(mr_plan_destroy) mr_plan *plan = load(polls, &(mr_plan_params){.node = cases[i].node});
        assert_int_equal(plan->busy_poll_ns, cases[i].poll_ns);
        assert_int_equal(plan->nodes[0].busy_poll_ns, 20000000);
        assert_int_equal(plan->nodes[1].busy_poll_ns, 0);
    }
}

RUN_TESTS(NULL, NULL)
