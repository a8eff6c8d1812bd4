#include "stages/video/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"

int mr_recording_open(mr_recording *recording) {
    recording->triggers = mr_calloc(MR_TRIGGERS_LISTED, sizeof *recording->triggers);
    recording->number = mr_keep_next(&recording->keep, recording->self);
    return recording->triggers ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a list of triggers");
}

/* RESTS: a later trigger can make it grow again. */
typedef enum growth { GROWS, RESTS, COMPLETE } growth;

/* ---- the JSON file ----------------------------------------------------------------------------------------------- */

static void write_time(yajl_gen json, const char *key, int64_t time_ns) {
    if (time_ns != MR_NO_TIME)
        mr_json_integer(json, key, time_ns);
}

static void describe_trigger(yajl_gen json, const mr_trigger *trigger) {
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "epoch", trigger->frame.epoch);
        mr_json_integer(json, "seq", (int64_t)trigger->frame.seq);
        if (trigger->frame.sub)
            mr_json_integer(json, "sub", trigger->frame.sub);
        write_time(json, "pts_ns", trigger->pts_ns);
        mr_json_text(json, "stage", trigger->stage);
        if (trigger->event) {
            mr_json_text(json, "event", trigger->event);
            mr_json_text(json, "zone", trigger->zone);
        }
        if (trigger->label)
            mr_json_text(json, "label", trigger->label);
        if (trigger->label && !trigger->event)
            mr_json_number(json, "score", trigger->score);
    }
}

static void describe(const mr_recording *recording, yajl_gen json, growth extent) {
    size_t listed = recording->trigger_count < MR_TRIGGERS_LISTED ? recording->trigger_count : MR_TRIGGERS_LISTED;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "source", recording->self->source_id);
        mr_json_text(json, "file", recording->file.name);
        mr_json_bool(json, "complete", extent == COMPLETE);
        mr_json_integer(json, "begun_unix_ns", recording->begun_ns);
        MR_JSON_MAP(json, "packets") {
            mr_json_integer(json, "epoch", recording->first.epoch);
            mr_json_integer(json, "first_seq", (int64_t)recording->first.seq);
            write_time(json, "first_pts_ns", recording->first_ns);
            /* While the file grows, the process may be killed before this is rewritten: better no count than an old
             * one. */
            if (extent != GROWS) {
                mr_json_integer(json, "count", (int64_t)recording->packets);
                mr_json_integer(json, "last_seq", (int64_t)recording->last.seq);
                write_time(json, "last_pts_ns", recording->last_ns);
            }
        }
        mr_json_integer(json, "trigger_count", (int64_t)recording->trigger_count);
        MR_JSON_ARRAY(json, "triggers")
            for (size_t i = 0; i < listed; i++)
                describe_trigger(json, &recording->triggers[i]);
    }
}

/* The recording remains valid without it. MR_ERROR_AGAIN: the disk is full. */
static int note(mr_recording *recording, growth extent) {
    char path[MR_OUTPUT_PATH + 8], *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    yajl_gen json = stream ? mr_json_create(true) : NULL;
    int stem = (int)(strlen(recording->file.path) - strlen(mr_file_name_ending(recording->file.path)));
    snprintf(path, sizeof path, "%.*s.json", stem, recording->file.path);
    int status = json ? MR_OK : MR_ERROR_MEMORY;
    if (json) {
        describe(recording, json, extent);
        status = mr_json_finish(json, stream);
    }
    if (stream)
        fclose(stream);
    errno = 0;
    if (!status)
        status = mr_file_replace(path, text, bytes);
    int full = status ? mr_full_meet(&recording->full, recording->self, errno, path) : MR_OK;
    free(text);
    recording->noted = !status;
    if (full)
        return full;
    if (status)
        mr_stage_warn(recording->self, "%s cannot be written: %s", path, mr_message());
    else
        mr_full_pass(&recording->full, recording->self, path);
    return MR_OK;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static int open_file(mr_recording *recording, const mr_cached *start) {
    int status = mr_muxer_open(&recording->muxer, recording->container, &start->frame);
    if (status)
        return status;
    recording->begun_ns = mr_clock_date_ns() - (recording->cache.last->time_ns - start->time_ns);
    status = mr_video_file_make(&recording->file, &recording->keep.names, recording->number, recording->begun_ns, false,
                                &recording->full, recording->self);
    if (status) {
        mr_muxer_close(&recording->muxer);
        return status;
    }
    recording->broken = false;
    recording->number++;
    recording->files++;
    recording->packets = recording->trigger_count = 0;
    recording->first = start->frame.identity;
    recording->first_ns = recording->last_ns = start->frame.pts_ns;
    recording->start_ns = start->time_ns;
    mr_stage_info(recording->self, "%s: records %s", recording->self->source_id, recording->file.path);
    return MR_OK;
}

static int end_file(mr_recording *recording) {
    if (!recording->muxer || recording->file.ending)
        return MR_OK;
    recording->file.ending = true;
    recording->writes = false;
    return mr_muxer_end(recording->muxer);
}

int mr_recording_put(mr_recording *recording) {
    if (!recording->muxer)
        return MR_OK;
    int status = mr_video_file_write(&recording->file, recording->muxer, &recording->full, recording->self);
    if (status || !recording->file.ending)
        return status;
    status = note(recording, COMPLETE);
    if (status)
        return status;
    mr_muxer_close(&recording->muxer);
    status = mr_video_file_close(&recording->file);
    mr_keep_apply(&recording->keep, recording->self, recording->file.name);
    return status;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static void list(mr_recording *recording, const mr_trigger *trigger) {
    if (recording->trigger_count < MR_TRIGGERS_LISTED)
        recording->triggers[recording->trigger_count] = *trigger;
    recording->trigger_count++;
    recording->noted = false;
}

/* Everything written can then be read, even if the process dies. */
static int bring_out(mr_recording *recording, growth extent) {
    if (extent == RESTS || !recording->noted)
        note(recording, extent);
    return mr_muxer_cut(recording->muxer);
}

static int write_one(mr_recording *recording, mr_cached *packet) {
    int status = mr_muxer_write(recording->muxer, &packet->frame);
    if (status)
        return status;
    packet->written = true;
    recording->packets++;
    recording->last = packet->frame.identity;
    if (packet->frame.pts_ns > recording->last_ns)
        recording->last_ns = packet->frame.pts_ns;
    return mr_muxer_is_due(recording->muxer) ? bring_out(recording, GROWS) : MR_OK;
}

/* The file has reached its maximum length: the next one begins with this key frame. */
static bool is_over(const mr_recording *recording, const mr_cached *packet) {
    return packet->frame.flags & MR_FRAME_KEY && packet->time_ns - recording->start_ns >= recording->longest_ns;
}

/* The first packet not written yet. */
static mr_cached *unwritten(const mr_recording *recording) {
    mr_cached *packet = recording->cache.first;
    for (mr_cached *one = packet; one; one = one->next)
        if (one->written)
            packet = one->next;
    return packet;
}

/* Begins another file after the ended one. The newest trigger moves there if it belongs to it. */
static int go_on(mr_recording *recording, const mr_cached *key) {
    size_t listed = recording->trigger_count < MR_TRIGGERS_LISTED ? recording->trigger_count : MR_TRIGGERS_LISTED;
    const mr_trigger last = recording->triggers[listed ? listed - 1 : 0];
    int status = open_file(recording, key);
    recording->broken = status == MR_ERROR_AGAIN;
    if (status)
        return status;
    if (listed && last.pts_ns >= key->frame.pts_ns)
        list(recording, &last);
    note(recording, GROWS);
    return MR_OK;
}

static int begin_next(mr_recording *recording, const mr_cached *key) {
    int status = end_file(recording);
    if (!status)
        status = mr_recording_put(recording);
    recording->broken = status == MR_ERROR_AGAIN;
    return status ? status : go_on(recording, key);
}

/* A picture is wanted if it is decoded before the end, or shown before one that was written. */
static bool is_wanted(const mr_recording *recording, const mr_cached *packet) {
    const int64_t pts_ns = packet->frame.pts_ns;
    return packet->time_ns <= recording->end_ns || (pts_ns != MR_NO_TIME && pts_ns < recording->last_ns);
}

/* Writes what is wanted and unwritten, starting at that packet. */
static int write_from(mr_recording *recording, mr_cached *packet) {
    bool wrote = recording->writes;
    for (; packet && is_wanted(recording, packet); packet = packet->next) {
        wrote |= !packet->written;
        int status = !packet->written && is_over(recording, packet) ? begin_next(recording, packet) : MR_OK;
        if (!status && !packet->written)
            status = write_one(recording, packet);
        if (status)
            return status;
    }
    recording->writes = !packet;
    if (!packet || !wrote)
        return MR_OK;
    /* The next packet may be far off. */
    int status = mr_muxer_expect(recording->muxer, &packet->frame);
    return status ? status : bring_out(recording, RESTS);
}

/* No later trigger can reach back to the end of the file, unless it is later than packets are kept for. */
static bool is_out_of_reach(const mr_recording *recording, const mr_cached *packet) {
    return packet->time_ns > recording->end_ns + recording->cache.keep_ns;
}

/* The disk was full when the next file should have begun: begins it now, if there is anything to write. */
static int resume(mr_recording *recording) {
    mr_cached *start = unwritten(recording);
    recording->broken = start && is_wanted(recording, start);
    int status = recording->broken ? go_on(recording, start) : MR_OK;
    return status || !recording->muxer ? status : write_from(recording, start);
}

int mr_recording_add(mr_recording *recording, const mr_frame *frame) {
    int status = recording->held ? MR_OK : mr_record_cache_add(&recording->cache, frame, &recording->held);
    const mr_cached *packet = recording->held;
    if (!status && packet && !recording->muxer && recording->broken)
        status = resume(recording);
    else if (!status && packet && recording->muxer && recording->writes)
        status = write_from(recording, recording->held);
    else if (!status && packet && recording->muxer && is_out_of_reach(recording, packet))
        status = end_file(recording);
    if (status != MR_ERROR_AGAIN)
        recording->held = NULL;
    return status;
}

/* ---- triggers ---------------------------------------------------------------------------------------------------- */

static int join(mr_recording *recording, const mr_trigger *trigger) {
    int64_t end_ns = trigger->pts_ns + recording->after_ns;
    list(recording, trigger);
    if (end_ns <= recording->end_ns)
        return MR_OK;
    recording->end_ns = end_ns;
    return recording->writes ? MR_OK : write_from(recording, unwritten(recording));
}

static int begin_file(mr_recording *recording, const mr_trigger *trigger) {
    int64_t from_ns = trigger->pts_ns - recording->before_ns;
    mr_cached *start = recording->broken ? unwritten(recording) : mr_record_cache_start(&recording->cache, from_ns);
    if (!start || start->time_ns > trigger->pts_ns + recording->after_ns) {
        mr_stage_warn(recording->self, "%s: the packets around %.3f s are not in memory any more, or were written",
                      recording->self->source_id, (double)trigger->pts_ns / 1e9);
        return MR_OK;
    }
    int status = open_file(recording, start);
    if (status)
        return status;
    recording->end_ns = trigger->pts_ns + recording->after_ns;
    list(recording, trigger);
    note(recording, GROWS);
    return write_from(recording, start);
}

int mr_recording_trigger(mr_recording *recording, const mr_trigger *trigger) {
    bool open = recording->muxer && !recording->file.ending;
    if (open && trigger->pts_ns - recording->before_ns <= recording->end_ns)
        return join(recording, trigger);
    int status = end_file(recording);
    if (!status)
        status = mr_recording_put(recording);
    return status ? status : begin_file(recording, trigger);
}

int mr_recording_end(mr_recording *recording) {
    mr_record_cache_clear(&recording->cache);
    return end_file(recording);
}

void mr_recording_close(mr_recording *recording) {
    mr_full_end(&recording->full);
    if (recording->self && recording->muxer && (end_file(recording) || mr_recording_put(recording)))
        mr_stage_warn(recording->self, "%s", mr_message());
    mr_muxer_close(&recording->muxer);
    if (recording->file.fd)
        mr_video_file_close(&recording->file);
    mr_record_cache_clear(&recording->cache);
    mr_free(recording->triggers);
    recording->triggers = NULL;
}
