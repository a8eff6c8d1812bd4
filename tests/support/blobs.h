/* Labelled rows for classifier suites: four classes that overlap a little, with features on very different scales; the
 * last feature is constant. Every run draws the same rows. A suite may change them; blob_setup, each test's set-up,
 * draws them again. */
#pragma once

#include <stdint.h>

#include "millrace/classifier.h"
#include "tests/support/models.h"

enum { BLOB_ROWS = 700, BLOB_WIDTH = 12, BLOB_CLASSES = 4, BLOB_KINDS = 6 /* classifier kinds */, BLOB_HEARD = 4096 };

extern const char *const blob_names[BLOB_CLASSES];
extern float blob_features[BLOB_ROWS * BLOB_WIDTH];
extern int32_t blob_classes[BLOB_ROWS];
extern uint64_t blob_groups[BLOB_ROWS];
extern uint8_t blob_parts[BLOB_ROWS];
extern char blob_heard[BLOB_HEARD]; /* warnings from fits, one per line */

void blob_draw(void);
int blob_setup(void **state);

extern const mr_labelled_rows blob_rows; /* all of them */
mr_fit_params blob_params(mr_classifier_kind kind);
/* Fits a classifier, to all rows with those parameters or as given; fails the test if it cannot. */
mr_classifier *blob_fit_kind(int kind);
mr_classifier *blob_fit(const mr_labelled_rows *rows, const mr_fit_params *params);
/* Scores all rows. */
void blob_scores(const mr_classifier *classifier, float *scores);

/* Fails unless both give the same scores, bit for bit. */
void blob_expect_same(const mr_classifier *one, const mr_classifier *other);
/* Runs `classify` with the classifier in a folder, and further options after a comma, on the first rows; it must give
 * all classes of each. */
void blob_classify(arrived *got, const char *folder, const char *options);

/* A fit's `progress` with this `user`: cancels the fit after a number of steps. */
typedef struct blob_stopping {
    int after, calls;
} blob_stopping;
int blob_stop(void *user, const mr_fit_progress *progress);

/* Returns a path where the test may write, and removes what is there. */
void blob_folder(const char *name, char path[256]);
void blob_remove(const char *folder);
