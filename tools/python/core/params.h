/* The parameters of a pipeline, from a dict. Texts are bytes, which the dict keeps.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"

typedef struct mr_py_params {
    mr_pipeline_params params;
    mr_override *overrides;
    const char **inputs, **assume;
} mr_py_params;

/* Reads the dict, whose keys are those of mr_pipeline_params. */
int mr_py_params_read(mr_py_params *to, PyObject *dict);
void mr_py_params_fini(mr_py_params *params);
/* Overrides from a list of pairs of bytes; *count is their number. NULL with an exception if it is malformed. The
 * caller frees the array with PyMem_Free. */
mr_override *mr_py_overrides(PyObject *list, size_t *count);
