/* Does the work for `millrace evaluate` with objects: runs the pipeline over the pictures of a COCO file, and compares
 * the objects that a stage gives with those in the file. The pipeline's outputs are not written. Main thread. */
#pragma once

#include <stdbool.h>

#include "tools/millrace/cli/overrides.h"

typedef struct mr_object_evaluation_params {
    const char *pipeline, *data;
    const char *pictures; /* the folder in which the annotations' paths begin; NULL: that of `data` */
    const char *stage; /* whose objects; NULL: the only stage of type detect */
    const mr_overrides *overrides;
    bool json;
    bool (*stopped)(void);
} mr_object_evaluation_params;

/* Prints the figures. MR_ERROR_CANCELLED if `stopped`. *told: the error has been printed. */
int mr_evaluate_objects(const mr_object_evaluation_params *params, bool *told);
