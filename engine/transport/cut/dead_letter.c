#include "engine/transport/cut/dead_letter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 256 };

static const char *name_file(const mr_cut *cut, const mr_identity *identity, const char *suffix,
                             char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%s-%" PRIu32 "-%" PRIu64 "-%" PRIu32 ".%s", cut->source_ids[identity->source],
             identity->epoch, identity->seq, identity->sub, suffix);
    return name;
}

static int open_file(const mr_cut *cut, const mr_identity *identity, const char *suffix, char path[PATH_BYTES],
                     FILE **file) {
    char name[NAME_BYTES];
    snprintf(path, PATH_BYTES, "%s/%s", cut->dead_letters, name_file(cut, identity, suffix, name));
    *file = fopen(path, "we");
    return *file ? MR_OK : mr_file_fail("write to", path);
}

static int finish(FILE *file, const char *path) {
    bool failed = ferror(file) != 0;
    return fclose(file) || failed ? mr_file_fail("write to", path) : MR_OK;
}

static void write_time(yajl_gen json, const char *key, int64_t time_ns) {
    if (time_ns == MR_NO_TIME)
        mr_json_text(json, key, NULL);
    else
        mr_json_integer(json, key, time_ns);
}

static bool has_payload(const mr_frame *frame) {
    return frame->format.payload != MR_PAYLOAD_RESULTS;
}

static int describe(const mr_cut *cut, const mr_cut_item *item, const mr_settled *settled) {
    char path[PATH_BYTES], payload[NAME_BYTES], format[MR_FORMAT_TEXT];
    FILE *file;
    int status = open_file(cut, &item->identity, "json", path, &file);
    if (status)
        return status;
    yajl_gen json = mr_json_create(true);
    if (!json) {
        fclose(file);
        return MR_ERROR_MEMORY;
    }
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "pipeline", cut->pipeline);
        mr_json_text(json, "digest", cut->digest);
        mr_json_text(json, "cut", cut->name);
        mr_json_text(json, "source", cut->source_ids[item->identity.source]);
        mr_json_integer(json, "epoch", item->identity.epoch);
        mr_json_integer(json, "seq", (int64_t)item->identity.seq);
        mr_json_integer(json, "sub", item->identity.sub);
        write_time(json, "pts_ns", item->frame->pts_ns);
        mr_json_text(json, "format", mr_format_print(&item->frame->format, format, sizeof format));
        mr_json_text(json, "stage", settled->stage);
        mr_json_text(json, "reason", settled->reason);
        mr_json_text(json, "payload",
                     has_payload(item->frame) ? name_file(cut, &item->identity, "payload", payload) : NULL);
    }
    status = mr_json_finish(json, file);
    int closed = finish(file, path);
    return status ? status : closed;
}

static int write_payload(const mr_cut *cut, const mr_cut_item *item) {
    char path[PATH_BYTES];
    FILE *file;
    const mr_frame *frame = item->frame;
    if (!has_payload(frame))
        return MR_OK;
    int status = open_file(cut, &item->identity, "payload", path, &file);
    if (status)
        return status;
    if (frame->format.payload == MR_PAYLOAD_PICTURE)
        for (mr_row row = {0}; mr_next_row(&frame->format, &row);)
            fwrite(mr_row_at(frame->plane, &row), 1, row.bytes, file);
    else
        fwrite(frame->plane[0].data, 1, frame->plane[0].bytes, file);
    return finish(file, path);
}

int mr_dead_letter_prepare(const mr_cut *cut) {
    const char *folder = cut->dead_letters;
    struct stat found;
    if (!folder)
        return MR_OK;
    if (mkdir(folder, 0700) && errno != EEXIST)
        return mr_file_fail("make the folder", folder);
    if (!stat(folder, &found) && !S_ISDIR(found.st_mode))
        errno = ENOTDIR;
    else if (!access(folder, W_OK | X_OK))
        return MR_OK;
    return mr_file_fail("write dead letters to", folder);
}

int mr_dead_letter_write(const mr_cut *cut, const mr_cut_item *item, const mr_settled *settled) {
    int status = mr_dead_letter_prepare(cut);
    if (!status)
        status = describe(cut, item, settled);
    if (!status)
        status = write_payload(cut, item);
    if (status)
        mr_log_repeating(MR_LOG_ERROR, cut->name, "%s: a dead letter could not be written and is lost: %s", cut->name,
                         mr_message());
    return status;
}
