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

enum { MOST_RECORD = 16 << 20, MOST_NAME = 40, PATIENCE_MS = 60000, NOTICE_MS = 1000, PAUSE_MS = 20, MOST_TRIES = 100 };
static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

static int store_path(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    int status = mr_file_state_folder("submitted", folder, sizeof folder);
    if (!status && (size_t)snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        status = mr_fail(MR_ERROR_IO, "the folder's name is too long: %s", folder);
    return status;
}

/* Waits for others that hold it. The caller may look at errno: EWOULDBLOCK. */
static int lock(const char *path, int *fd, int patience_ms) {
    int status;
    for (int waited = 0; (status = mr_file_lock(path, fd)) && errno == EWOULDBLOCK && waited < patience_ms;
         waited += PAUSE_MS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    return status;
}

/* It is held while sites are called. */
int mr_store_lock(int *fd) {
    char path[PATH_MAX];
    int status = store_path("all", path);
    if (status)
        return status;
    status = lock(path, fd, NOTICE_MS);
    if (!status || errno != EWOULDBLOCK)
        return status;
    mr_print(stderr, "millrace: waits for another `millrace submit` of yours\n");
    status = lock(path, fd, 10 * PATIENCE_MS);
    if (status && errno == EWOULDBLOCK)
        status = mr_fail(MR_ERROR_AGAIN, "another `millrace submit` of yours has not ended within 10 minutes: look for "
                                         "it with `ps`, and try again");
    return status;
}

void mr_store_unlock(int fd) {
    char path[PATH_MAX];
    if (!store_path("all", path))
        mr_file_unlock(path, fd);
}

void mr_store_hold_signals(sigset_t *before) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, before);
}

void mr_store_let_signals(const sigset_t *before) {
    sigprocmask(SIG_SETMASK, before, NULL);
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
    int status = text ? lock(path, &fd, PATIENCE_MS) : mr_fail(MR_ERROR_MEMORY, "no memory for a record");
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

static int read_record(mr_submission *one, const char *id) {
    char path[PATH_MAX + 16];
    mr_file_bytes text = {0};
    *one = (mr_submission){0};
    int status = store_path(id, one->folder);
    if (status)
        return status;
    snprintf(one->id, sizeof one->id, "%s", id);
    snprintf(path, sizeof path, "%s/record.json", one->folder);
    status = mr_file_read("the record", path, MOST_RECORD, 0, &text);
    if (!status)
        status = mr_submission_parse(one, (const char *)text.data);
    mr_free(text.data);
    return status;
}

bool mr_store_is_cancelled(const mr_submission *one) {
    mr_submission now;
    if (read_record(&now, one->id))
        return false;
    const bool cancelled = now.cancelled;
    mr_submission_fini(&now);
    return cancelled;
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
