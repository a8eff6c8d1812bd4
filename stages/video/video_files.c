#include "stages/video/video_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "stages/sink/output.h"

enum { KEPT_BEHIND_PLAYLIST = 3 };
/* A camera whose size keeps changing may start one file a second, up to a number in a row. */
static const int64_t CHANGE_NS = 1000000000, CHANGES_NS = 16000000000;
/* Default for HLS files. */
static const int64_t HLS_NS = 6000000000;

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

int mr_video_files_open(mr_video_files *files, mr_stage *self) {
    const mr_video_options *given = self->options;
    const char *option;
    *files = (mr_video_files){.given = given, .full = mr_full_make(self, given->on_full)};
    int status = mr_video_container(given, &files->container, &option);
    if (status)
        return status;
    bool hls = mr_video_is_hls(given);
    /* For HLS, the pattern names the playlist; its files are numbered. */
    int stem = (int)(strlen(given->name) - strlen(mr_file_name_ending(given->name)));
    if (hls)
        snprintf(files->pattern, sizeof files->pattern, "%.*s-{number}.ts", stem, given->name);
    else
        snprintf(files->pattern, sizeof files->pattern, "%s", given->name);
    files->keep = (mr_keep){.names = {given->path, files->pattern, self->source_id},
                                  .for_ns = given->keep_for, .bytes = given->keep_bytes};
    if (hls && given->playlist && !given->keep_for && !given->keep_bytes)
        files->keep.files = (size_t)given->playlist + KEPT_BEHIND_PLAYLIST;
    files->hls.most = (size_t)given->playlist;
    return MR_OK;
}

int mr_video_files_check(const mr_video_options *given, const char *source) {
    char name[MR_OUTPUT_NAME], path[MR_OUTPUT_PATH];
    struct stat about;
    if (mr_video_is_hls(given) || given->overwrite || mr_file_name_differs(given->name) ||
        mr_file_name_print(name, given->name, source, 0, 0, 0))
        return MR_OK;
    snprintf(path, sizeof path, "%s/%s", given->path, name);
    if (lstat(path, &about))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "%s exists already: remove it, set overwrite: true, or put {time} or {number} into "
                   "name", path);
}

/* Numbered names continue after the existing files. A single file must not exist unless it may be replaced; in a
 * continued run it is ours and stays. MR_ERROR_AGAIN while that is unknown. */
static int begin(mr_video_files *files, const mr_stage *self) {
    mr_run_state run = mr_stage_run_state(self);
    if (files->begun)
        return MR_OK;
    if (run == MR_RUN_UNKNOWN)
        return MR_ERROR_AGAIN;
    bool single = !mr_file_name_differs(files->pattern);
    files->number = mr_keep_next(&files->keep, self);
    files->hls.sequence = files->number;
    files->broken = files->number > 0;
    files->replaces = single && files->given->overwrite && run == MR_RUN_BEGINS;
    int status = run == MR_RUN_BEGINS ? mr_video_files_check(files->given, self->source_id) : MR_OK;
    files->begun = !status;
    return status;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static int open_file(mr_video_files *files, const mr_stage *self, const mr_frame *key) {
    bool fresh = !files->muxer;
    int status = MR_OK;
    files->entry = (mr_hls_entry){.begun_ns = mr_clock_date_ns(), .discontinuity = files->broken};
    if (fresh)
        status = mr_muxer_open(&files->muxer, files->container, key);
    else
        mr_muxer_repeat_headers(files->muxer);
    if (status)
        return status;
    status = mr_video_file_make(&files->file, &files->keep.names, files->number, files->entry.begun_ns,
                                files->replaces, &files->full, self);
    if (status && fresh)
        mr_muxer_close(&files->muxer);
    if (status)
        return status;
    files->replaces = false;
    mr_media_unref(&files->media);
    files->media = mr_media_ref(key->media);
    files->epoch = key->identity.epoch;
    files->first_ns = files->latest_ns = files->end_ns = MR_NO_TIME;
    files->pictures = 0;
    files->number++;
    files->broken = false;
    return MR_OK;
}

/* Where the last picture ends. If its duration is unknown, the average counts. */
static int64_t find_end(const mr_video_files *files) {
    const int64_t span_ns = files->latest_ns - files->first_ns;
    if (files->end_ns > files->latest_ns || files->pictures < 2)
        return files->end_ns;
    return files->latest_ns + span_ns / (files->pictures - 1);
}

/* Takes the file's last bytes from the muxer. In HLS, the stream may continue in another file: `next` is then its first
 * packet and marks where this file ends; else NULL. */
static int end_file(mr_video_files *files, const mr_frame *next) {
    const bool goes_on = next;
    if (files->first_ns != MR_NO_TIME)
        files->end_ns = next && next->pts_ns > files->first_ns ? next->pts_ns : find_end(files);
    bool stays = goes_on && files->container == MR_CONTAINER_TS;
    files->file.ending = true;
    files->broken = !stays;
    return stays ? mr_muxer_cut(files->muxer) : mr_muxer_end(files->muxer);
}

/* MR_ERROR_AGAIN: the disk is full, call again. Other failures are reported. */
static int list_file(mr_video_files *files, const mr_stage *self, bool ended) {
    char name[MR_OUTPUT_NAME], path[MR_OUTPUT_PATH];
    int status = mr_file_name_print(name, files->given->name, self->source_id, 0, 0, 0);
    snprintf(path, sizeof path, "%s/%s", files->given->path, name);
    errno = 0;
    if (!status)
        status = mr_hls_write(&files->hls, path, ended);
    int full = status ? mr_full_meet(&files->full, self, errno, path) : MR_OK;
    files->unlisted = full == MR_ERROR_AGAIN;
    if (full)
        return full;
    if (status)
        mr_stage_warn(self, "%s: the playlist cannot be written: %s", self->source_id, mr_message());
    else
        mr_full_pass(&files->full, self, path);
    return MR_OK;
}

/* Call after the last byte was written. Old files are removed even if there is no room for the playlist: that may make
 * room. */
static int finish_file(mr_video_files *files, const mr_stage *self) {
    if (files->broken)
        mr_muxer_close(&files->muxer);
    int status = mr_video_file_close(&files->file);
    if (!status && mr_video_is_hls(files->given)) {
        snprintf(files->entry.name, sizeof files->entry.name, "%s", files->file.name);
        files->entry.duration_ns = files->first_ns != MR_NO_TIME ? files->end_ns - files->first_ns : 0;
        status = mr_hls_add(&files->hls, &files->entry);
        if (!status)
            status = list_file(files, self, false);
    }
    mr_keep_apply(&files->keep, self, files->file.name);
    return status;
}

/* Writes the muxer's bytes. MR_ERROR_AGAIN: the disk is full. */
static int put(mr_video_files *files, const mr_stage *self) {
    int status = files->unlisted ? list_file(files, self, false) : MR_OK;
    if (status || !files->file.fd || !files->muxer)
        return status;
    status = mr_video_file_write(&files->file, files->muxer, &files->full, self);
    return !status && files->file.ending ? finish_file(files, self) : status;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static bool is_key(const mr_frame *frame) {
    return frame->flags & MR_FRAME_KEY;
}

/* The stream continues unchanged. */
static bool suits(const mr_video_files *files, const mr_frame *frame) {
    return frame->media->codec == files->media->codec && frame->identity.epoch == files->epoch;
}

static bool is_over(const mr_video_files *files, const mr_frame *frame) {
    bool timed = frame->pts_ns != MR_NO_TIME && files->first_ns != MR_NO_TIME;
    int64_t segment_ns = files->given->segment || !mr_video_is_hls(files->given) ? files->given->segment : HLS_NS;
    return segment_ns && is_key(frame) && timed && frame->pts_ns - files->first_ns >= segment_ns;
}

static void note_times(mr_video_files *files, const mr_frame *frame) {
    const int64_t pts_ns = frame->pts_ns, end_ns = pts_ns + frame->duration_ns;
    if (pts_ns == MR_NO_TIME)
        return;
    const bool first = files->first_ns == MR_NO_TIME;
    files->first_ns = first ? pts_ns : files->first_ns;
    files->latest_ns = first || pts_ns > files->latest_ns ? pts_ns : files->latest_ns;
    files->end_ns = first || end_ns > files->end_ns ? end_ns : files->end_ns;
    files->pictures++;
}

static int write_packet(mr_video_files *files, const mr_frame *frame) {
    int status = mr_muxer_write(files->muxer, frame);
    if (status)
        return status;
    files->taken = true;
    note_times(files, frame);
    return mr_muxer_is_due(files->muxer) ? mr_muxer_cut(files->muxer) : MR_OK;
}

/* Whether a changed stream may begin another file. */
static bool may_follow(mr_video_files *files, const mr_stage *self, const mr_frame *key) {
    const int64_t now_ns = mr_now_ns();
    if (!files->changed || !key->media->live)
        return true;
    if (files->spread_ns > now_ns + CHANGES_NS) {
        mr_stage_warn(self, "%s: its size or codec changes several times a second: pictures are dropped, so that there "
                      "is no file for each", self->source_id);
        return false;
    }
    files->spread_ns = (files->spread_ns > now_ns ? files->spread_ns : now_ns) + CHANGE_NS;
    files->changed = false;
    return true;
}

/* A packet that cannot be written is dropped; if no file can hold the stream, the source fails. */
static int refuse(mr_video_files *files, mr_io *io, const mr_frame *frame, int status) {
    if (status != MR_ERROR_DATA)
        return mr_output_failed(io, frame, status);
    if (!files->refused)
        mr_io_fail_source(io, frame->identity.source, status);
    files->refused = true;
    mr_io_drop(io, frame, "cannot be written");
    return MR_DONE;
}

int mr_video_files_take(mr_video_files *files, mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    int status = begin(files, self);
    if (status)
        return mr_output_await_begin(io, status);
    while (!(status = put(files, self)) && !files->taken) {
        bool open = files->file.fd > 0;
        if (open && (!suits(files, frame) || is_over(files, frame))) {
            files->changed = !suits(files, frame);
            status = end_file(files, files->changed ? NULL : frame);
        } else if (!open && !is_key(frame)) {
            mr_io_drop(io, frame, "no key frame");
            return MR_DONE;
        } else if (!open && !may_follow(files, self, frame)) {
            mr_io_drop(io, frame, "changes too often");
            return MR_DONE;
        } else {
            status = open ? MR_OK : open_file(files, self, frame);
            if (!status)
                status = write_packet(files, frame);
        }
        if (status)
            return refuse(files, io, frame, status);
    }
    if (status)
        return mr_output_failed(io, frame, status);
    files->taken = false;
    return MR_DONE;
}

int mr_video_files_flush(mr_video_files *files, mr_stage *self, mr_io *io) {
    int status = files->file.fd && !files->file.ending ? end_file(files, NULL) : MR_OK;
    if (!status)
        status = put(files, self);
    if (!status && mr_video_is_hls(files->given) && files->hls.count)
        status = list_file(files, self, true);
    return status == MR_ERROR_AGAIN ? mr_full_wait(io) : status;
}

/* If the run is stopped at once, the file ends where it is. */
void mr_video_files_close(mr_video_files *files, mr_stage *self) {
    mr_full_end(&files->full);
    if (files->file.fd && files->muxer) {
        int status = files->file.ending ? MR_OK : end_file(files, NULL);
        if (status || put(files, self))
            mr_stage_warn(self, "%s", mr_message());
    }
    mr_muxer_close(&files->muxer);
    if (files->file.fd)
        mr_video_file_close(&files->file);
    mr_media_unref(&files->media);
    mr_hls_fini(&files->hls);
}
