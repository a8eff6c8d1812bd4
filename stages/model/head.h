/* Weights and labels of a classifier, read once however many instances a stage has.
 *
 * Reference-counted and shared in the process by the paths it was read from, as long as one instance has it open. Any
 * thread. Errors are those of npy.h and labels.h. */
#ifndef MILLRACE_STAGES_MODEL_HEAD_H
#define MILLRACE_STAGES_MODEL_HEAD_H

#include "stages/model/labels.h"
#include "stages/model/npy.h"

typedef struct mr_head {
    mr_matrix_f32 weights; /* classes x (features + 1), the bias last; empty if there is none */
    mr_labels labels;      /* empty if there are none */
    /* private */
    char *weights_path, *labels_path;
    int references;
    struct mr_head *next;
} mr_head;

/* Either path may be NULL. */
int mr_head_open(mr_head **head, const char *weights_path, const char *labels_path);
/* Drops *head and sets it to NULL; NULL is allowed. */
void mr_head_close(mr_head **head);

#endif
