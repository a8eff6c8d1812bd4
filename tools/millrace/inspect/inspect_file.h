/* Describes a file that stages read: a model (ONNX), or classify's weights (.npy). */
#pragma once

#include <stdbool.h>

#include "engine/base/json.h"
#include "millrace/model.h"
#include "millrace/signature.h"

/* True if a word names a file, not a stage type: it contains a slash, or ends in .onnx or .npy. */
bool mr_inspect_is_file(const char *word);
/* Prints text on standard output, or writes an object into `json`. Errors of mr_model_view_open and mr_npy_shape. */
int mr_inspect_file(const char *path, yajl_gen json);

/* inspect_head.c: the same for a trained classifier's card, in the folder that classify's option `head` names; errors
 * of mr_classifier_open. As text, a signature is printed with the signed object (" signature good, ..."); in JSON it is
 * one word. */
int mr_inspect_head(const char *path, yajl_gen json);
void mr_inspect_print_signature(const mr_signature *signature, const char *of);
extern const char *const mr_inspect_signatures[];

/* ---- inspect_use.c: uses of a model ---------------------------------------------------------------------------- */

enum { MR_INSPECT_USES = 4, MR_INSPECT_WHY = 320 };

typedef struct mr_inspect_use {
    const char *stage;
    bool can;
    char how[MR_INSPECT_WHY]; /* the output, or why the stage cannot use the model */
} mr_inspect_use;

/* Prints how infer, features and classify can use the model. */
void mr_inspect_uses(const mr_model_view *model, mr_inspect_use uses[MR_INSPECT_USES]);
/* Writes a complete pipeline with the model as YAML, and checks that it can be planned. The caller must free it. NULL:
 * there is none; `why` has the reason. */
char *mr_inspect_pipeline(const mr_model_view *model, const char *path, char why[MR_INSPECT_WHY]);
/* "[batch, 3, 224, 224]", with free sizes as names or "?"; or "not declared". Returns `text`. */
const char *mr_inspect_shape(const mr_model_value *value, char *text, size_t bytes);
