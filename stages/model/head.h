/* A classifier's weights and labels, or its folder, read once however many instances a stage has.
 *
 * Reference-counted, and shared within the process by file paths while any instance has it open. Any thread. Errors: as
 * npy.h, labels.h and mr_classifier_open. */
#pragma once

#include "stages/model/classifier.h"
#include "stages/model/labels.h"
#include "stages/model/npy.h"

typedef struct mr_head {
    mr_matrix_f32 weights; /* classes x (features + 1), bias last; empty if there is none. For a classifier with more
                              than a product: only sizes, no numbers */
    mr_labels labels;      /* empty if there are none */
    mr_classifier *classifier; /* from a folder; else NULL */
    /* private */
    char *folder_path, *key_path, *weights_path, *labels_path;
    int references;
    struct mr_head *next;
} mr_head;

/* The files that a stage names; NULL: not given. A folder excludes weights and labels. */
typedef struct mr_head_files {
    const char *folder;
    const char *key; /* public key that the folder's signature must match */
    const char *weights, *labels;
} mr_head_files;
int mr_head_open(mr_head **head, const mr_head_files *files);
/* Releases *head and sets it to NULL; NULL is allowed. */
void mr_head_close(mr_head **head);
