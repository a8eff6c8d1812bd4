/* Stage types whose work is a function of the program: `process` takes the GIL, and calls it with a list of frames.
 *
 * A type is made once and lives as long as the process, as plans may refer to it. Its stage has a thread, since Python
 * runs one thread at a time.
 *
 * Threads: making types needs the GIL; the engine calls them from its threads. */
#pragma once

#include "core.h"

/* The most types of one process. */
enum { MR_PY_MOST_STAGES = 256 };

/* A type as its decorator describes it. */
typedef struct mr_py_stage {
    mr_stage_type type; /* must stay first: an instance has a pointer to it */
    PyObject *function;
    PyObject *options; /* a list of names */
    mr_port inputs[2], outputs[2];
    mr_format_set *accepts; /* ended by an empty one */
    bool same, makes;       /* the output is like the input; or it is `output`. Else frames pass with new results */
    mr_format output;
    size_t tensor_count;
    char **tensor_names;
    mr_format *tensors;
    bool classes, objects; /* results of these kinds; the labels are those of both */
    size_t label_count;
    char **labels;
} mr_py_stage;

/* Adds the library's types and these to a list, for a session. MR_ERROR_MEMORY. */
int mr_py_stage_types(mr_type_list *list);
/* These alone, ended by NULL, for the command. */
const mr_stage_type *const *mr_py_own_types(void);
int mr_py_stage_add_functions(PyObject *module);
