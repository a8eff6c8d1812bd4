#include "tools/millrace/train/thumbnails.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/temp_folder.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "millrace/millrace.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/train/stop.h"

/* Two pictures in a video must be further apart than this. */
static const int64_t NEAR_NS = 400000, LOOK_NS = 20000000;
static const char stage_id[] = "taken";

/* One worker: frames come one at a time. */
static const char pipeline_text[] = "version: 1\n"
                                    "pipeline: thumbnails\n"
                                    "sources: {files: {uri: files.jsonl, stream: %lld}}\n"
                                    "stages:\n"
                                    "  decode: {input: files}\n"
                                    "  small: {type: preprocess, input: decode, size: %dx%d, fit: letterbox,\n"
                                    "          pad: 255, order: bgr, dtype: u8, layout: nhwc}\n"
                                    "  %s: {type: callback, input: small}\n";

typedef struct wanted {
    mr_thumbnail *thumbnail;
    char **whole; /* absolute paths; NULL: left out */
    size_t count;
    mr_pipeline *pipeline;
} wanted;

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static bool is_of(const wanted *w, size_t at, const mr_frame *frame) {
    const mr_thumbnail *one = &w->thumbnail[at];
    if (!w->whole[at] || one->pixels || strcmp(w->whole[at], frame->media->path) != 0)
        return false;
    return frame->media->still || llabs(frame->pts_ns - one->at_ns) <= NEAR_NS;
}

static void take(void *context, const char *source, const mr_frame *frame) {
    const wanted *w = context;
    if (!frame->media || !frame->media->path || mr_tensor_bytes(&frame->format) != MR_THUMBNAIL_BYTES)
        return;
    for (size_t i = 0; i < w->count; i++)
        if (is_of(w, i, frame) && (w->thumbnail[i].pixels = malloc(MR_THUMBNAIL_BYTES)))
            memcpy(w->thumbnail[i].pixels, frame->plane[0].data, MR_THUMBNAIL_BYTES);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Writes the path as the list has it; for a video, with a range that contains no other picture. */
static int write_row(const wanted *w, size_t at, FILE *list) {
    const mr_thumbnail *one = &w->thumbnail[at];
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "path", w->whole[at]);
        if (one->video && one->at_ns > NEAR_NS)
            mr_json_exact(json, "start", (double)(one->at_ns - NEAR_NS) / 1e9);
        if (one->video)
            mr_json_exact(json, "end", (double)(one->at_ns + NEAR_NS) / 1e9);
    }
    return mr_json_finish(json, list);
}

/* A list is text and cannot hold other names. Missing files are omitted. */
static int write_list(const wanted *w, const char *path, size_t *rows) {
    FILE *list = fopen(path, "we");
    int status = list ? MR_OK : mr_file_fail("write", path);
    *rows = 0;
    for (size_t i = 0; i < w->count && !status; i++) {
        if (w->thumbnail[i].path && mr_printable(w->thumbnail[i].path))
            w->whole[i] = realpath(w->thumbnail[i].path, NULL);
        if (!w->whole[i] || !mr_printable(w->whole[i]))
            continue;
        status = write_row(w, i, list);
        ++*rows;
    }
    if (list && fclose(list) && !status)
        status = mr_file_fail("write", path);
    return status;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static int await_end(mr_pipeline *pipeline) {
    int status;
    while ((status = mr_pipeline_wait(pipeline, LOOK_NS)) == MR_ERROR_AGAIN)
        if (mr_stop_asked())
            mr_pipeline_stop(pipeline, true);
    if (mr_stop_asked())
        return mr_fail(MR_ERROR_CANCELLED, "interrupted");
    return status == MR_ERROR_DATA ? MR_OK : status; /* damaged pictures give no frame */
}

static int run(wanted *w, const char *list, int64_t stream) {
    mr_diagnostics wrong = {0};
    char text[sizeof pipeline_text + 64];
    snprintf(text, sizeof text, pipeline_text, (long long)stream, MR_THUMBNAIL_SIDE, MR_THUMBNAIL_SIDE, stage_id);
    const mr_pipeline_params params = {.types = mr_types(), .path = "thumbnails", .text = text, .workers = 1,
                                       .input_count = 1, .inputs = &list};
    int status = mr_pipeline_open(&w->pipeline, &params, &wrong);
    mr_diagnostics_fini(&wrong);
    if (!status)
        status = mr_pipeline_subscribe(w->pipeline, stage_id, take, w);
    if (!status)
        status = mr_pipeline_start(w->pipeline);
    if (!status)
        status = await_end(w->pipeline);
    mr_pipeline_destroy(&w->pipeline);
    return status;
}

static int make(wanted *w, int64_t stream) {
    mr_temp_folder temp;
    char list[MR_TEMP_FOLDER_PATH + 16], message[512];
    size_t rows = 0;
    int status = mr_temp_folder_make(&temp, NULL);
    if (status)
        return status;
    snprintf(list, sizeof list, "%s/files.jsonl", temp.folder);
    status = write_list(w, list, &rows);
    if (!status && rows)
        status = run(w, list, stream);
    snprintf(message, sizeof message, "%s", mr_message());
    mr_temp_folder_remove(&temp);
    return status ? mr_fail(status, "%s", message) : MR_OK;
}

int mr_thumbnails_make(mr_thumbnail *thumbnail, size_t count, int64_t stream) {
    wanted w = {.thumbnail = thumbnail, .whole = calloc(count + 1, sizeof *w.whole), .count = count};
    if (!w.whole)
        return mr_fail(MR_ERROR_MEMORY, "no memory for thumbnails");
    int status = count ? make(&w, stream) : MR_OK;
    for (size_t i = 0; i < count; i++)
        free(w.whole[i]);
    free(w.whole);
    return status;
}
