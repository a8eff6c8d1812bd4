/* Does the work for `millrace export` and `train --export onnx`: writes a classifier as one ONNX file (millrace/onnx.h)
 * and compares it with `classify` before giving it the final name.
 *
 * Directly after a `features` or `infer` stage, the file begins with that stage's network; otherwise with the vector.
 * Main thread. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/classifier.h"
#include "tools/millrace/train/extract.h"

/* Enough pictures to see whether both computations agree. */
enum { MR_EXPORT_ROWS = 64 };
/* Scores in a row may differ by this much: both sum in f32, in different order. */
#define MR_EXPORT_BOUND 1e-4

typedef struct mr_exporting {
    /* set by the caller */
    const char *output;
    const char *sign_key; /* a private key; NULL: unsigned, and an older signature next to it is removed */
    const mr_classifier *classifier;
    mr_extraction *extraction; /* prepared, with the classifier as head; NULL: only the classifier */
    size_t file_count;         /* at most MR_EXPORT_ROWS of these run, evenly spread */
    const mr_listed_file *const *files;
    /* set by mr_export */
    const char *begins; /* id of the stage whose network comes first; NULL: it begins with the vector */
    size_t rows;        /* that were compared */
    size_t apart;       /* rows with a score that differs by more than the bound */
    double largest;     /* largest difference between two scores */
} mr_exporting;

/* Writes the file. If it disagrees with classify, no file remains: MR_ERROR_DATA with the rows and the difference. With
 * neighbors, one row in a hundred may differ, since rounding decides which of two equally near vectors votes. Errors:
 * as mr_classifier_write_onnx, mr_onnx_scorer_open and mr_extraction_run. *told: the error has been printed. */
int mr_export(mr_exporting *exporting, bool *told);
/* Prints "birds.onnx, from the input of features to scores; the largest difference ...", or writes it as an object. */
void mr_exporting_tell(const mr_exporting *exporting, FILE *stream);
void mr_exporting_put(const mr_exporting *exporting, const char *key, yajl_gen json);
