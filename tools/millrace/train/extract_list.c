/* The file lists that an extraction's sources read, and the index that finds a frame's file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/train/extract_parts.h"
#include "tools/millrace/train/set.h"

mr_cache_record mr_extraction_record(const mr_content_key *key, bool video, const mr_taken *from) {
    return (mr_cache_record){.key = *key, .at_ns = from->at_ns, .seq = video ? from->frame.seq : 0,
                             .sub = video ? from->frame.sub : 0};
}

/* Rows for the same video share its path. */
void mr_extraction_key(const char *path, int64_t start_ns, int64_t end_ns, char key[MR_EXTRACTION_KEY]) {
    snprintf(key, MR_EXTRACTION_KEY, "%" PRId64 " %" PRId64 " %s", start_ns, end_ns, path);
}

int mr_extraction_note(mr_extraction *extraction, const char *path, int64_t start_ns, int64_t end_ns, size_t number) {
    mr_file_index *index = extraction->index;
    char key[MR_EXTRACTION_KEY];
    mr_extraction_key(path, start_ns, end_ns, key);
    const char *kept = mr_arena_print(&index->arena, "%s", key);
    return kept ? mr_index_put(&index->index, &index->arena, kept, (void *)(uintptr_t)(number + 1)) : MR_ERROR_MEMORY;
}

/* A list is text and cannot hold other names. The set has no such file name, but the folder's name may be one. */
static int print_path(const char *file, const char *before, char path[MR_TEMP_FOLDER_PATH]) {
    char here[MR_TEMP_FOLDER_PATH] = "";
    if (*file != '/' && !getcwd(here, sizeof here))
        return mr_fail(MR_ERROR_IO, "the working directory: %s", strerror(errno));
    if (!mr_printable(file) || !mr_printable(here))
        return mr_fail(MR_ERROR_DATA, "%s: the name is not UTF-8, or has a line break or the like: rename it",
                       mr_printable(file) ? here : file);
    const size_t most = MR_TEMP_FOLDER_PATH;
    if (mr_print_into(path, most, "%s%s%s%s", before, here, *here ? "/" : "", file) >= most)
        return mr_fail(MR_ERROR_DATA, "%s: the path is too long", file);
    return MR_OK;
}

/* The process that takes vectors on a node finds their key in the column `group`. */
static int write_row(const mr_listed_file *row, const char *path, const mr_content_key *key, FILE *list) {
    char text[40];
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "path", path);
        mr_set_put_range(row, json);
        if (key) {
            snprintf(text, sizeof text, "%016" PRIx64 "-%016" PRIx64, key->high, key->low);
            mr_json_text(json, "group", text);
        }
    }
    return mr_json_finish(json, list);
}

static int write_file(mr_extraction *extraction, const mr_extraction_job *job, size_t number, FILE *list) {
    const mr_listed_file *row = job->files[number];
    char path[MR_TEMP_FOLDER_PATH];
    int status = print_path(row->path, "", path);
    if (!status)
        status = mr_extraction_note(extraction, path, row->start_ns, row->end_ns, number);
    return status ? status : write_row(row, path, job->keys ? &job->keys[number] : NULL, list);
}

void mr_extraction_list(const mr_extraction *extraction, char *path, size_t room) {
    snprintf(path, room, "%s/data.jsonl", extraction->folder);
}

void mr_extraction_left_out(const mr_extraction *extraction, char *path, size_t room) {
    snprintf(path, room, "%s/left-out.jsonl", extraction->folder);
}

/* Omitted sources read one file from the data, under another name, so that formats are the same: their frames belong to
 * none of the files. */
static int write_left_out(const mr_extraction *extraction, const mr_extraction_job *job) {
    char path[MR_TEMP_FOLDER_PATH + 32], file[MR_TEMP_FOLDER_PATH];
    if (extraction->plan->source_count < 2 || !job->count)
        return MR_OK;
    mr_extraction_left_out(extraction, path, sizeof path);
    FILE *list = fopen(path, "we");
    int status = list ? print_path(job->files[0]->path, "/.", file) : mr_file_fail("write", path);
    mr_listed_file row = *job->files[0];
    if (!status && row.video)
        row.end_ns = row.start_ns + 1000000000;
    if (!status)
        status = write_row(&row, file, NULL, list);
    if (list && fclose(list) && !status)
        status = mr_file_fail("write", path);
    return status;
}

/* Must be written atomically: a waiting node reads it at once. */
int mr_extraction_write_list(mr_extraction *extraction, const mr_extraction_job *job) {
    char path[MR_TEMP_FOLDER_PATH + 32], part[MR_TEMP_FOLDER_PATH + 64];
    mr_extraction_list(extraction, path, sizeof path);
    snprintf(part, sizeof part, "%s.part", path);
    int status = write_left_out(extraction, job);
    FILE *list = status ? NULL : fopen(part, "we");
    if (!status && !list)
        status = mr_file_fail("write", part);
    for (size_t i = 0; i < job->count && !status; i++)
        status = write_file(extraction, job, i, list);
    if (status == MR_ERROR_IO && list)
        status = mr_file_fail("write", part);
    if (list && fclose(list) && !status)
        status = mr_file_fail("write", part);
    if (!status && rename(part, path))
        status = mr_file_fail("write", path);
    return status;
}
