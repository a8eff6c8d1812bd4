/* Writes classifiers as ONNX files (https://onnx.ai), for programs without millrace, and runs such files for
 * comparison. `millrace export` writes them.
 *
 *     const mr_onnx_params params = {.network = "lite0-features.onnx", .tensor = "features"};
 *     if (mr_classifier_write_onnx(classifier, "birds.onnx", &params)) { fprintf(stderr, "%s\n", mr_message()); ... }
 *
 * The graph has one input: the network's input, or, without a network, `vector`, f32 of batch x width. Its outputs are
 * `scores` and `class`. `scores` is f32 of batch x classes and equals mr_classifier_scores except for rounding. `class`
 * is i64 of batch: the first class of each row. All operators are standard ONNX, from operator set 11. Metadata
 * (metadata_props) describe the scores. "millrace.labels" is a JSON array of class names. "millrace.kind", ".version",
 * ".pipeline", ".stages", ".digest", ".split" and ".figures" are from the card.
 *
 * Any thread, but only one at a time may use a scorer. Each function states its errors; all of them may also return
 * MR_ERROR_MEMORY.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_ONNX_H
#define MILLRACE_ONNX_H

#include <stdbool.h>
#include <stddef.h>

#include "millrace/classifier.h"
#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text in the file's metadata: UTF-8. */
typedef struct mr_onnx_note {
    const char *key, *value;
} mr_onnx_note;

/* Grows at its end (version.h): set fields by name and leave the others zero. */
typedef struct mr_onnx_params {
    const char *network; /* Optional. Path of the ONNX model that makes the vectors; both become one graph. NULL: the
                            vectors are the input. */
    const char *tensor;  /* the network's tensor that is the vector, an output or an inner one; NULL: the first
                            output */
    bool average;        /* the vector is the tensor's mean over all positions (channels x height x width) */
    bool normalize;      /* vectors are scaled to length 1 */
    size_t note_count;   /* metadata in addition to the card's */
    const mr_onnx_note *notes;
} mr_onnx_params;

/* mr_classifier_write_onnx for callers that pass the size of the parameters themselves. */
MR_API int mr_classifier_write_onnx_sized(const mr_classifier *classifier, const char *path,
                                          const mr_onnx_params *params, size_t params_bytes);
/* Writes the file whole or not at all; replaces an existing file. Leaves out operators and weights of the network that
 * do not affect the vector. `params` is optional. MR_ERROR_NO_INPUT: no such network. MR_ERROR_DATA: the network is not
 * an ONNX model, has an operator set before 11 or lacks the tensor; or the file would exceed the format's 2 GiB.
 * MR_ERROR_PERMISSION, MR_ERROR_IO. */
static inline int mr_classifier_write_onnx(const mr_classifier *classifier, const char *path,
                                           const mr_onnx_params *params) {
    return mr_classifier_write_onnx_sized(classifier, path, params, sizeof *params);
}

/* An exported file, open in ONNX Runtime. */
typedef struct mr_onnx_scorer mr_onnx_scorer;
/* Opens a file. On failure *scorer is NULL. MR_ERROR_NO_INPUT. MR_ERROR_DATA: ONNX Runtime cannot load it, or the
 * scores do not have `class_count` classes. MR_ERROR_UNAVAILABLE: there is no ONNX Runtime. */
MR_API int mr_onnx_scorer_open(mr_onnx_scorer **scorer, const char *path, size_t class_count);
/* Bytes of one row's input. */
MR_API size_t mr_onnx_scorer_bytes(const mr_onnx_scorer *scorer);
/* Runs one row. Copies the row's bytes and writes class_count scores. MR_ERROR_DATA: the run failed. */
MR_API int mr_onnx_scorer_run(mr_onnx_scorer *scorer, const void *input, float *scores);
/* Closes a scorer and sets *scorer to NULL; NULL is allowed. */
MR_API void mr_onnx_scorer_close(mr_onnx_scorer **scorer);

#ifdef __cplusplus
}
#endif
#endif
