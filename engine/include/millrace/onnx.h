/* Classifiers as ONNX files (https://onnx.ai), for programs that have nothing of millrace, and such files run, to be
 * compared. It is what `millrace export` writes.
 *
 *     const mr_onnx_params params = {.network = "lite0-features.onnx", .tensor = "features"};
 *     if (mr_classifier_write_onnx(classifier, "birds.onnx", &params)) { fprintf(stderr, "%s\n", mr_message()); ... }
 *
 * The graph has one input: that of the network, or, without one, `vector`, f32 of batch x width. Its outputs are
 * `scores`, f32 of batch x classes, as mr_classifier_scores gives them but for rounding, and `class`, i64 of batch, the
 * first class of each row. All operators are ONNX's own, of operator set 11 and later. Metadata (metadata_props) tell
 * what the scores are of: "millrace.labels", a JSON array of the classes' names; "millrace.kind", ".version",
 * ".pipeline", ".stages", ".digest", ".split" and ".figures" as the card has them.
 *
 * Any thread; a scorer is used by one at a time. Errors are stated with each function; MR_ERROR_MEMORY may come from
 * all of them.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
#ifndef MILLRACE_ONNX_H
#define MILLRACE_ONNX_H

#include <stdbool.h>
#include <stddef.h>

#include "millrace/classifier.h"
#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text of the file's metadata: UTF-8. */
typedef struct mr_onnx_note {
    const char *key, *value;
} mr_onnx_note;

/* Grows at its end (version.h): fields are set by name, and those that are not set are zero. */
typedef struct mr_onnx_params {
    const char *network; /* path of the ONNX model that makes the vectors; both become one graph. NULL: the vectors are
                            the input */
    const char *tensor;  /* of the network, that is the vector, an output or an inner one; NULL: its first output */
    bool average;        /* of a tensor of channels x height x width the mean over all positions is the vector */
    bool normalize;      /* vectors are scaled to length 1 */
    size_t note_count;   /* metadata beside those of the card */
    const mr_onnx_note *notes;
} mr_onnx_params;

/* mr_classifier_write_onnx for callers that give the size of the parameters themselves. */
MR_API int mr_classifier_write_onnx_sized(const mr_classifier *classifier, const char *path,
                                          const mr_onnx_params *params, size_t params_bytes);
/* Writes the file, whole or not at all; one that is there is replaced. Operators and weights of the network on which
 * the vector does not depend are left out. `params` may be NULL. MR_ERROR_NO_INPUT: no such network. MR_ERROR_DATA: it
 * is not an ONNX model, is of an operator set before 11, has no such tensor, or the file would be larger than the 2 GiB
 * that the format can hold. MR_ERROR_PERMISSION, MR_ERROR_IO. */
static inline int mr_classifier_write_onnx(const mr_classifier *classifier, const char *path,
                                           const mr_onnx_params *params) {
    return mr_classifier_write_onnx_sized(classifier, path, params, sizeof *params);
}

/* Such a file, opened with ONNX Runtime. */
typedef struct mr_onnx_scorer mr_onnx_scorer;
/* On failure *scorer is NULL. MR_ERROR_NO_INPUT; MR_ERROR_DATA: ONNX Runtime cannot load it, or it does not give scores
 * of so many classes; MR_ERROR_UNAVAILABLE: there is no ONNX Runtime. */
MR_API int mr_onnx_scorer_open(mr_onnx_scorer **scorer, const char *path, size_t class_count);
/* Bytes of the input of one row. */
MR_API size_t mr_onnx_scorer_bytes(const mr_onnx_scorer *scorer);
/* Runs it on one row, whose bytes are copied; writes class_count scores. MR_ERROR_DATA: the run failed. */
MR_API int mr_onnx_scorer_run(mr_onnx_scorer *scorer, const void *input, float *scores);
/* Also of NULL; sets *scorer to NULL. */
MR_API void mr_onnx_scorer_close(mr_onnx_scorer **scorer);

#ifdef __cplusplus
}
#endif
#endif
