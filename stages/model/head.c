#include "stages/model/head.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/signature.h"
#include "millrace/status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_head *heads;

static bool same(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void destroy(mr_head *head) {
    if (!head->classifier) {
        mr_npy_free(&head->weights);
        mr_labels_free(&head->labels);
    }
    mr_classifier_destroy(&head->classifier);
    mr_free(head->folder_path);
    mr_free(head->key_path);
    mr_free(head->weights_path);
    mr_free(head->labels_path);
    mr_free(head);
}

/* The weights and labels are the classifier's. */
static int read_folder(mr_head *head) {
    int status = mr_classifier_open_signed(&head->classifier, head->folder_path, head->key_path);
    if (status)
        return status;
    const mr_classifier_card *card = &head->classifier->card;
    const mr_trained *trained = &head->classifier->trained;
    head->weights = mr_trained_is_linear(trained)
                        ? trained->layer[0]
                        : (mr_matrix_f32){.rows = trained->classes, .columns = trained->width + 1};
    head->labels = (mr_labels){.count = card->class_count, .item = (const char **)(uintptr_t)card->class_names};
    return MR_OK;
}

static bool copy(char **to, const char *path) {
    *to = path ? mr_strdup(path) : NULL;
    return !path || *to;
}

static int read_head(mr_head **head, const mr_head_files *files) {
    mr_head *made = mr_calloc(1, sizeof *made);
    int status = MR_OK;
    if (!made || !copy(&made->folder_path, files->folder) || !copy(&made->key_path, files->key) ||
        !copy(&made->weights_path, files->weights) || !copy(&made->labels_path, files->labels))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a classifier");
    if (!status && files->folder)
        status = read_folder(made);
    if (!status && files->weights)
        status = mr_npy_read(files->weights, &made->weights);
    if (!status && files->labels)
        status = mr_labels_read(files->labels, &made->labels);
    if (status && made)
        destroy(made);
    if (!status)
        *head = made;
    return status;
}

int mr_head_open(mr_head **head, const mr_head_files *files) {
    MR_LOCKED(&lock);
    mr_head *found = heads;
    while (found && !(same(found->folder_path, files->folder) && same(found->key_path, files->key) &&
                      same(found->weights_path, files->weights) && same(found->labels_path, files->labels)))
        found = found->next;
    int status = found ? MR_OK : read_head(&found, files);
    if (!status) {
        if (found->references++ == 0) {
            found->next = heads;
            heads = found;
        }
        *head = found;
    }
    return status;
}

void mr_head_close(mr_head **head) {
    mr_head *gone = *head;
    *head = NULL;
    if (!gone)
        return;
    MR_LOCKED(&lock);
    if (--gone->references == 0) {
        mr_head **at = &heads;
        while (*at != gone)
            at = &(*at)->next;
        *at = gone->next;
        destroy(gone);
    }
}
