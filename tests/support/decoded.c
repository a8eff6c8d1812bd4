#include "tests/support/decoded.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>

#include "tests/support/opened.h"

static void digest(const mr_frame *frame, char text[CLIP_MD5]) {
    struct AVMD5 *md5 = av_md5_alloc();
    uint8_t sum[16];
    av_md5_init(md5);
    for (mr_row row = {0}; mr_next_row(&frame->format, &row);) {
        const mr_plane *from = &frame->plane[row.plane];
        assert_true((size_t)row.y * (size_t)from->stride + row.bytes <= from->bytes);
        av_md5_update(md5, mr_row_at(frame->plane, &row), row.bytes);
    }
    av_md5_final(md5, sum);
    av_free(md5);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

static void take(void *context, const char *source, const mr_frame *frame) {
    clip_outcome *result = context;
    assert_in_range(result->count, 0, CLIP_FRAMES - 1);
    result->format[result->count] = frame->format;
    result->identity[result->count] = frame->identity;
    result->pts_ns[result->count] = frame->pts_ns;
    result->born_ns[result->count] = frame->born_ns;
    result->marked[result->count] = frame->flags & MR_FRAME_CORRUPT;
    digest(frame, result->md5[result->count]);
    result->count++;
}

static void add_up(mr_pipeline *pipeline, clip_outcome *result) {
    ENDED_BY(mr_summary_destroy) mr_summary *summary = summed(pipeline);
    result->in = summary->in;
    result->delivered = summary->delivered;
    result->dropped = summary->dropped;
    result->absorbed = summary->absorbed;
    for (size_t i = 0; i < summary->line_count; i++)
        if (strcmp(summary->lines[i].reason, "corrupt") == 0 && strcmp(summary->lines[i].stage, "decode") == 0)
            result->corrupt += summary->lines[i].frames;
    snprintf(result->message, sizeof result->message, "%s", summary->sources[0].message);
}

static void run(clip_outcome *result, const char *path, const char *source, const char *decode, uint64_t seed,
                const mr_stage_type *const *types) {
    char text[2048], absolute[4096];
    if (strncmp(path, "lavfi:", 6) == 0)
        snprintf(absolute, sizeof absolute, "%s", path);
    else
        assert_non_null(realpath(path, absolute));
    snprintf(text, sizeof text,
             "version: 1\npipeline: clip\nsources:\n  clip: {uri: \"%.900s\"%s}\n"
             "stages:\n  decode: {input: clip%s}\n  out: {type: callback, input: decode}\n",
             absolute, source, decode);
    mr_pipeline_params params = {
        .types = types, .path = "clip.yaml", .text = text, .workers = 2, .seed = seed};
    *result = (clip_outcome){0};
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", take, result), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    result->status = mr_pipeline_wait(pipeline, patience_ns());
    add_up(pipeline, result);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(result->delivered, result->count);
}

void clip_run_seeded(clip_outcome *result, const char *path, const char *source, const char *decode, uint64_t seed) {
    run(result, path, source, decode, seed, mr_stage_types());
}

void clip_run_types(clip_outcome *result, const char *path, const char *source, const char *decode,
                    const mr_stage_type *const *types) {
    run(result, path, source, decode, 0, types);
}

void clip_run(clip_outcome *result, const char *path, const char *source, const char *decode) {
    clip_run_seeded(result, path, source, decode, 0);
}

void clip_expect(const clip_outcome *result, const clip_frames *expected, size_t first, size_t every) {
    const size_t count = (expected->count - first + every - 1) / every;
    assert_int_equal(result->status, MR_OK);
    assert_int_equal(result->count, count);
    assert_int_equal(result->dropped, 0);
    assert_int_equal(result->absorbed, result->in - count);
    for (size_t k = 0; k < count; k++) {
        const size_t n = first + k * every;
        assert_string_equal(result->md5[k], expected->md5[n]);
        if (!isnan(expected->seconds[n]))
            assert_true(llabs(result->pts_ns[k] - (int64_t)(expected->seconds[n] * 1e9)) < 3000);
        assert_int_equal(result->identity[k].seq - result->identity[0].seq, k * every);
    }
}

void clip_find_right(const clip_outcome *result, const clip_frames *expected, int64_t step_ns, bool *right,
                     size_t count) {
    memset(right, 0, count * sizeof *right);
    for (size_t i = 0; i < result->count; i++) {
        const size_t number = (size_t)((result->pts_ns[i] + step_ns / 2) / step_ns);
        assert_in_range(number, 0, count - 1);
        if (result->marked[i])
            continue;
        if (expected && strcmp(result->md5[i], expected->md5[number]) != 0)
            fail_msg("picture %zu is wrong", number);
        right[number] = true;
    }
}
