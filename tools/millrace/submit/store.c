#include "tools/millrace/submit/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "engine/base/print.h"

enum { MOST_RECORD = 16 << 20, MOST_NAME = 40, PATIENCE_MS = 60000, PAUSE_MS = 20, MOST_TRIES = 100 };
static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

static int store_path(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    int status = mr_file_state_folder("submitted", folder, sizeof folder);
    if (!status && (size_t)snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        status = mr_fail(MR_ERROR_IO, "the folder's name is too long: %s", folder);
    return status;
}

/* Waits for others that hold it. */
static int lock(const char *path, int *fd) {
    int status;
    for (int waited = 0; (status = mr_file_lock(path, fd)) && errno == EWOULDBLOCK && waited < PATIENCE_MS;
         waited += PAUSE_MS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    return status;
}

int mr_store_lock(int *fd) {
    char path[PATH_MAX];
    int status = store_path("all", path);
    return status ? status : lock(path, fd);
}

void mr_store_unlock(int fd) {
    char path[PATH_MAX];
    if (!store_path("all", path))
        mr_file_unlock(path, fd);
}

/* ---- one ------------------------------------------------------------------------------------------------------- */

int mr_store_choose(mr_submission *one, const char *name) {
    unsigned short chance;
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the id: %s", strerror(errno));
    snprintf(one->id, sizeof one->id, "%.*s-%04x", MOST_NAME, name, chance);
    return store_path(one->id, one->folder);
}

int mr_store_make(mr_submission *one, const char *name) {
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        int status = mr_store_choose(one, name);
        if (status)
            return status;
        if (mkdir(one->folder, 0700) == 0)
            return MR_OK;
        if (errno != EEXIST)
            return mr_file_fail("make the folder", one->folder);
    }
    return mr_fail(MR_ERROR_INTERNAL, "no free id for %s", name);
}

int mr_store_write(const mr_submission *one) {
    char path[PATH_MAX + 16];
    int fd;
    size_t bytes;
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_submission_put(json, one);
    char *text = mr_json_finish_text(json, &bytes);
    snprintf(path, sizeof path, "%s/record.json", one->folder);
    int status = text ? lock(path, &fd) : mr_fail(MR_ERROR_MEMORY, "no memory for a record");
    if (!status) {
        status = mr_file_replace(path, text, bytes);
        mr_file_unlock(path, fd);
    }
    free(text);
    return status;
}

void mr_store_remove(const mr_submission *one) {
    if (*one->folder)
        mr_file_remove_folder(one->folder);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static const char *text_of(yajl_val of, const char *key) {
    const char *text = YAJL_GET_STRING(mr_json_member(of, key, yajl_t_string));
    return text ? text : "";
}

static int64_t integer_of(yajl_val of, const char *key, int64_t otherwise) {
    yajl_val value = mr_json_member(of, key, yajl_t_number);
    return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : otherwise;
}

static int word_of(yajl_val of, const char *key, const char *const *words, int otherwise) {
    const char *text = text_of(of, key);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return otherwise;
}

static mr_job_state state_of(yajl_val of) {
    const char *words[MR_JOB_UNKNOWN + 2];
    for (int i = 0; i <= MR_JOB_UNKNOWN + 1; i++)
        words[i] = mr_job_word(i);
    return (mr_job_state)word_of(of, "state", words, MR_JOB_UNKNOWN);
}

static int read_words(yajl_val of, const char *key, mr_words *words) {
    yajl_val list = mr_json_member(of, key, yajl_t_array);
    int status = MR_OK;
    for (size_t i = 0; list && i < list->u.array.len && !status; i++)
        if (YAJL_IS_STRING(list->u.array.values[i]))
            status = mr_words_add(words, YAJL_GET_STRING(list->u.array.values[i]));
    return status;
}

static int read_processes(yajl_val of, mr_job *job) {
    yajl_val list = mr_json_member(of, "processes", yajl_t_array);
    job->process = calloc((list ? list->u.array.len : 0) + 1, sizeof *job->process);
    if (!job->process)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a record");
    for (size_t i = 0; list && i < list->u.array.len; i++) {
        yajl_val from = list->u.array.values[i];
        mr_job_process *to = &job->process[job->count++];
        *to = (mr_job_process){.node = text_of(from, "node"), .replica = (int)integer_of(from, "replica", 0),
                               .state = state_of(from), .code = (int)integer_of(from, "exit_code", -1),
                               .restarts = (int)integer_of(from, "restarts", 0)};
        snprintf(to->host, sizeof to->host, "%s", text_of(from, "host"));
        snprintf(to->why, sizeof to->why, "%s", text_of(from, "reason"));
    }
    return MR_OK;
}

static int read_fields(mr_submission *one, const char *id) {
    static const char *const targets[] = {"slurm", "kubernetes", "systemd", NULL};
    yajl_val tree = one->tree;
    one->target = (mr_deploy_target)word_of(tree, "target", targets, MR_DEPLOY_TARGETS);
    one->name = text_of(tree, "name");
    one->pipeline = text_of(tree, "pipeline");
    one->run = text_of(tree, "run");
    one->host = text_of(tree, "submitted_on");
    one->submitted_ns = integer_of(tree, "submitted_ns", 0);
    one->cancelled = YAJL_IS_TRUE(mr_json_member(tree, "cancelled", yajl_t_any));
    one->job.state = state_of(tree);
    one->job.code = (int)integer_of(tree, "exit_code", -1);
    snprintf(one->id, sizeof one->id, "%s", id);
    snprintf(one->site_id, sizeof one->site_id, "%s", text_of(tree, "site_id"));
    snprintf(one->job.hosts, sizeof one->job.hosts, "%s", text_of(tree, "hosts"));
    snprintf(one->job.why, sizeof one->job.why, "%s", text_of(tree, "reason"));
    if (one->target == MR_DEPLOY_TARGETS || !*one->name || !*one->run)
        return mr_fail(MR_ERROR_DATA, "%s/record.json is not a record of a submission", one->folder);
    int status = read_words(tree, "files", &one->files);
    if (!status)
        status = read_words(tree, "options", &one->options);
    return status ? status : read_processes(tree, &one->job);
}

static int read_record(mr_submission *one, const char *id) {
    char path[PATH_MAX + 16], wrong[128];
    mr_file_bytes text = {0};
    *one = (mr_submission){.job.code = -1};
    int status = store_path(id, one->folder);
    if (!status) {
        snprintf(path, sizeof path, "%s/record.json", one->folder);
        status = mr_file_read("the record", path, MOST_RECORD, 0, &text);
    }
    if (!status && !(one->tree = mr_json_parse((const char *)text.data, wrong, sizeof wrong)))
        status = mr_fail(MR_ERROR_DATA, "%s: %s", path, wrong);
    mr_free(text.data);
    if (!status)
        status = read_fields(one, id);
    if (status)
        mr_submission_fini(one);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static int add(mr_submissions *all, const char *id) {
    if (!mr_grow((void **)&all->item, all->count, &all->room, sizeof *all->item))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of submissions");
    int status = read_record(&all->item[all->count], id);
    if (!status)
        all->count++;
    /* One that is being made, or has just been removed, has no record. */
    else if (status != MR_ERROR_MEMORY && status != MR_ERROR_NO_INPUT)
        mr_print(stderr, "millrace: warning: %s\n", mr_message());
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

static int compare(const void *a, const void *b) {
    const mr_submission *left = a, *right = b;
    return left->submitted_ns == right->submitted_ns ? strcmp(left->id, right->id)
                                                     : left->submitted_ns > right->submitted_ns ? 1 : -1;
}

int mr_store_list(mr_submissions *all) {
    char folder[PATH_MAX];
    int status = store_path("", folder);
    DIR *list = status ? NULL : opendir(folder);
    if (!status && !list)
        status = mr_file_fail("read", folder);
    for (const struct dirent *entry; !status && (entry = readdir(list));)
        if (strlen(entry->d_name) < MR_SUBMISSION_ID && strspn(entry->d_name, letters) == strlen(entry->d_name))
            status = add(all, entry->d_name);
    if (list)
        closedir(list);
    if (all->count)
        qsort(all->item, all->count, sizeof *all->item, compare);
    return status;
}

void mr_submissions_fini(mr_submissions *all) {
    while (all->count)
        mr_submission_fini(&all->item[--all->count]);
    mr_free(all->item);
    *all = (mr_submissions){0};
}

int mr_store_find(const mr_submissions *all, const char *id, mr_submission **one) {
    *one = NULL;
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->item[i].site_id, id) == 0 || strcmp(all->item[i].id, id) == 0)
            *one = &all->item[i];
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->item[i].id, id) == 0)
            *one = &all->item[i];
    return *one ? MR_OK : mr_fail(MR_ERROR_NO_INPUT, "nothing of yours was submitted as \"%s\": `millrace status` "
                                                     "lists all", id);
}
