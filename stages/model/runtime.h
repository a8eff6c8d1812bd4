/* Neural networks behind one small table: open a model, ask what goes in and comes out, bind it to shapes, run it.
 *
 * A model is one network loaded by one runtime; a binding fixes the shapes of its inputs and which outputs are
 * wanted. Tensors are named by position in the model's lists of inputs and outputs.
 *
 * Ownership: a binding belongs to its model and is destroyed before it. Names and shapes live as long as the model.
 * Threads: a model is opened, bound and closed by one thread at a time; unless it is brief, mr_model_run may be called on
 * one binding by several threads at once. Nothing here starts a thread.
 * Errors: MR_ERROR_NO_INPUT (no such file), MR_ERROR_DATA (the file is no network that the runtime can load, or a run
 * failed), MR_ERROR_UNAVAILABLE (no runtime on this machine), MR_ERROR_CONFIG (no such tensor, shapes that do not
 * fit). */
#ifndef MILLRACE_STAGES_MODEL_RUNTIME_H
#define MILLRACE_STAGES_MODEL_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/format.h"

enum { MR_MODEL_MAX_RANK = MR_MAX_RANK + 1, MR_MODEL_MAX_TENSORS = 32 };

/* Rank and sizes, the batch included. A dimension of -1 is free: the caller chooses it, or the run tells. */
typedef struct mr_shape {
    int rank;
    int64_t dims[MR_MODEL_MAX_RANK];
} mr_shape;

typedef struct mr_model_tensor {
    const char *name;
    mr_dtype dtype;   /* ANY where no frame can hold it */
    const char *type; /* of the elements, in words, such as "f32" */
    mr_shape shape;
    const char *symbol; /* the model's own name of a free first dimension; "" where it has none */
} mr_model_tensor;

typedef struct mr_model_params {
    const char *path;    /* of an ONNX file */
    const char *runtime; /* path of the runtime's library; NULL: looked for */
    bool brief;          /* opened to look at, not to work with: faster, and in less memory. Where the file alone tells
                            what goes in and comes out, no runtime is needed, nor asked whether it can load the file */
    const char *tensor;  /* one more output, by its name inside the network; NULL: those that the model declares */
} mr_model_params;

typedef struct mr_binding mr_binding;
typedef struct mr_model_runtime mr_model_runtime;

typedef struct mr_model {
    const mr_model_runtime *runtime;
    char *path;
    const char *file; /* the last part of path, for messages */
    size_t input_count, output_count;
    mr_model_tensor inputs[MR_MODEL_MAX_TENSORS];
    mr_model_tensor outputs[MR_MODEL_MAX_TENSORS];
} mr_model;

/* Which outputs of a binding are wanted, and all shapes, without free dimensions. */
struct mr_binding {
    mr_model *model;
    size_t output_count;
    size_t output[MR_MODEL_MAX_TENSORS]; /* positions in model->outputs */
    mr_shape input_shape[MR_MODEL_MAX_TENSORS];
    mr_shape output_shape[MR_MODEL_MAX_TENSORS];
};

/* One runtime. `open` fills the lists of inputs and outputs in. `run` reads the inputs and writes the outputs where
 * the caller has them; with `measure` set it leaves `outputs` alone and stores in it what shapes come out. */
struct mr_model_runtime {
    const char *name;
    int (*open)(mr_model **model, const mr_model_params *params);
    void (*close)(mr_model *model);
    int (*run)(const mr_binding *binding, void *const *inputs, void *const *outputs, mr_shape *measure);
};
extern const mr_model_runtime mr_onnxruntime;

int mr_model_open(mr_model **model, const mr_model_params *params);
/* Closes *model and sets it to NULL; NULL is allowed. */
void mr_model_close(mr_model **model);

/* Fixes all input shapes (one for each input, no dimension free) and chooses outputs by position. Output shapes that
 * the model leaves open beyond a batch of `batch` items (0: it has no batch) are found by running it once on zeros.
 */
int mr_model_bind(mr_model *model, mr_binding *binding, const mr_shape *inputs, int64_t batch, const size_t *outputs,
                  size_t output_count);
/* inputs: one dense array for each input; outputs: one for each chosen output. None may overlap. */
int mr_model_run(const mr_binding *binding, void *const *inputs, void *const *outputs);

/* Position of the input or output of that name; -1 where there is none. */
int mr_model_find(const mr_model_tensor *tensors, size_t count, const char *name);
/* Elements and bytes; 0 where a dimension is free or the product does not fit. */
size_t mr_shape_count(const mr_shape *shape);
/* "1x3x224x224", a free dimension as "?"; returns `text`. */
const char *mr_shape_print(const mr_shape *shape, char *text, size_t bytes);
/* "a, b, c", cut where there is no room; returns `text`. */
const char *mr_model_list(const mr_model_tensor *tensors, size_t count, char *text, size_t bytes);
enum { MR_SHAPE_TEXT = 128, MR_LIST_TEXT = 256 };

#endif
