/* Labelled rows for suites of classifiers: four classes that overlap a little, of features of very different size, the
 * last of which is the same in all rows. The same in every run; a suite may change them, and blob_setup, which is the
 * set-up of each test, draws them anew. */
#pragma once

#include <stdint.h>

#include "millrace/classifier.h"

enum { BLOB_ROWS = 700, BLOB_WIDTH = 12, BLOB_CLASSES = 4, BLOB_KINDS = 6 /* of classifiers */, BLOB_HEARD = 4096 };

extern const char *const blob_names[BLOB_CLASSES];
extern float blob_features[BLOB_ROWS * BLOB_WIDTH];
extern int32_t blob_classes[BLOB_ROWS];
extern uint64_t blob_groups[BLOB_ROWS];
extern uint8_t blob_parts[BLOB_ROWS];
extern char blob_heard[BLOB_HEARD]; /* warnings of fits, a line each */

void blob_draw(void);
int blob_setup(void **state);

mr_labelled_rows blob_rows(void);
mr_fit_params blob_params(mr_classifier_kind kind);
/* Fails the test if it cannot be fitted. */
mr_classifier *blob_fit(const mr_labelled_rows *rows, const mr_fit_params *params);
/* Of all rows. */
void blob_scores(const mr_classifier *classifier, float *scores);

/* The `progress` of a fit, with such a `user`: cancels it after so many steps. */
typedef struct blob_stopping {
    int after, calls;
} blob_stopping;
int blob_stop(void *user, const mr_fit_progress *progress);

/* A path where the test may write, and removing what is there. */
void blob_folder(const char *name, char path[256]);
void blob_remove(const char *folder);
