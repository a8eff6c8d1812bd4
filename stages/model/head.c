#include "stages/model/head.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
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
    mr_free(head->weights_path);
    mr_free(head->labels_path);
    mr_free(head);
}

/* The weights and labels are the classifier's. */
static int read_folder(mr_head *head) {
    int status = mr_classifier_open(&head->classifier, head->folder_path);
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

static int read_head(mr_head **head, const char *folder, const char *weights_path, const char *labels_path) {
    mr_head *made = mr_calloc(1, sizeof *made);
    int status = MR_OK;
    if (!made || (folder && !(made->folder_path = mr_strdup(folder))) ||
        (weights_path && !(made->weights_path = mr_strdup(weights_path))) ||
        (labels_path && !(made->labels_path = mr_strdup(labels_path))))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a classifier");
    if (!status && folder)
        status = read_folder(made);
    if (!status && weights_path)
        status = mr_npy_read(weights_path, &made->weights);
    if (!status && labels_path)
        status = mr_labels_read(labels_path, &made->labels);
    if (status && made)
        destroy(made);
    if (!status)
        *head = made;
    return status;
}

int mr_head_open(mr_head **head, const char *folder, const char *weights_path, const char *labels_path) {
    pthread_mutex_lock(&lock);
    mr_head *found = heads;
    while (found && !(same(found->folder_path, folder) && same(found->weights_path, weights_path) &&
                      same(found->labels_path, labels_path)))
        found = found->next;
    int status = found ? MR_OK : read_head(&found, folder, weights_path, labels_path);
    if (!status) {
        if (found->references++ == 0) {
            found->next = heads;
            heads = found;
        }
        *head = found;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void mr_head_close(mr_head **head) {
    mr_head *gone = *head;
    *head = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&lock);
    if (--gone->references == 0) {
        mr_head **at = &heads;
        while (*at != gone)
            at = &(*at)->next;
        *at = gone->next;
        destroy(gone);
    }
    pthread_mutex_unlock(&lock);
}
