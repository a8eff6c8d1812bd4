/* Neural networks behind one small table: open a model, ask for its inputs and outputs, bind it to shapes, run it.
 *
 * Most often a run is work on the host, whatever device asks for it. A runtime that computes on a device itself (its
 * provider) is opened for that device, and a run is then enqueued: inputs and outputs lie in the device's memory, and
 * no thread waits. Such a model has a stream of its own, which the runtime holds for as long as the model is open;
 * calls of several streams take turns on it.
 *
 * A model is one network loaded by one runtime; a binding fixes the shapes of its inputs and which outputs are wanted.
 * Tensors are named by position in the model's lists of inputs and outputs.
 *
 * Ownership: a binding belongs to its model and is destroyed before it. Names and shapes live as long as the model.
 * Threads: a model is opened, bound and closed by one thread at a time; unless it is brief, mr_model_enqueue may be
 * called on one binding by several threads at once. Nothing here starts a thread. Errors: MR_ERROR_NO_INPUT (no such
 * file), MR_ERROR_DATA (the runtime cannot load the file as a network, or a run failed), MR_ERROR_UNAVAILABLE (no
 * runtime or provider on this machine), MR_ERROR_CONFIG (no such tensor, shapes that do not fit, a provider for another
 * kind of device), MR_ERROR_DEVICE (the device failed). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include "millrace/format.h"
#include "millrace/stage.h"

enum { MR_MODEL_MAX_RANK = MR_MAX_RANK + 1, MR_MODEL_MAX_TENSORS = 32 };

/* Rank and sizes, the batch included. A dimension of -1 is free: the caller chooses it, or the run determines it. */
typedef struct mr_shape {
    int rank;
    int64_t dims[MR_MODEL_MAX_RANK];
} mr_shape;

typedef struct mr_model_tensor {
    const char *name;
    mr_dtype dtype;   /* as which frames hold it, which may be another type than the model's; ANY if no frame can */
    const char *type; /* of the elements in the model, in words, such as "f32"; "a sequence" of what is no tensor */
    mr_shape shape;
    bool unshaped;    /* inputs: no shape is declared */
    const char *symbol; /* the model's own name of a free first dimension; "" if it has none */
    const char *operation; /* outputs: the operator that its numbers come from (mr_onnx_finish); "" or NULL: not
                              known */
    const char *sized_by;  /* outputs: the operator whose values decide how many rows it has (mr_onnx_sized_by); "" or
                              NULL: none */
} mr_model_tensor;

/* The part of a runtime that computes. AUTO: CUDA on CUDA devices, else the processors. */
typedef enum mr_provider { MR_PROVIDER_AUTO, MR_PROVIDER_CPU, MR_PROVIDER_CUDA, MR_PROVIDER_TENSORRT } mr_provider;

typedef struct mr_model_params {
    const char *path;    /* of an ONNX file */
    const char *external; /* of the file that its weights lie in; NULL: it has them itself */
    const char *runtime; /* path of the runtime's library; NULL: looked for */
    bool brief;          /* open it for its description only: faster, and in less memory. If the file alone describes
                            inputs and outputs, no runtime is needed, nor asked whether it can load the file */
    const char *tensor;  /* one more output, by its name inside the network; NULL: those that the model declares */
    mr_device *device;   /* to work on; NULL, and if `brief`: the processors */
    mr_provider provider;
    uint64_t memory_bytes; /* limit of the provider's memory of the device, beside inputs and outputs; 0: none */
    bool cuda_graph;       /* runs of one shape are recorded once and then launched as one */
    const char *engine_cache; /* folder for the provider's engines; see mr_engine_cache_open */
    int64_t max_rows;      /* of an output that is sized by values; 0: such outputs are refused */
    const char *shapes;    /* inputs as the author and the links describe them, in words; NULL: not described */
} mr_model_params;

typedef struct mr_binding mr_binding;
typedef struct mr_model_runtime mr_model_runtime;
struct mr_onnx_work;

typedef struct mr_model {
    const mr_model_runtime *runtime;
    char *path;
    const char *file; /* the last part of path, for messages */
    int64_t max_rows; /* as asked for */
    char *prepared;   /* how the input was made of pictures, as the file notes it (onnx_report.h); NULL: it
                         does not */
    bool brief, cuda_graph; /* as asked for; with cuda_graph all shapes must be known */
    mr_stream *stream; /* runs are enqueued on it; NULL: they are work on the host */
    pthread_mutex_t lock; /* of stream */
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
    int rows_axis[MR_MODEL_MAX_TENSORS];      /* outputs sized by values: the dimension of their rows, of which there is
                                                 room for as many as output_shape has; -1: of known size */
    bool per_frame[MR_MODEL_MAX_TENSORS];     /* with a batch: the first dimension is that of its items */
    mr_shape next_shape[MR_MODEL_MAX_TENSORS]; /* outputs as a batch of one item more gives them; rank -1: not tried */
};

/* A run writes such an output in two parts: the number of rows that there were (int64_t), and from MR_ROWS_BYTES on as
 * many of them as there is room for. On the host only. */
enum { MR_ROWS_BYTES = 64 };

/* One runtime. `open` fills the lists of inputs and outputs in, and calls mr_model_take_device if it computes on
 * params->device itself. `run` reads the inputs and writes the outputs in the caller's memory; if `measure` is set it
 * ignores `outputs` and stores the outputs' shapes in it. `enqueue` does the same on model->stream, in the memory of
 * its device, and is called by one thread at a time. */
struct mr_model_runtime {
    const char *name;
    int (*open)(mr_model **model, const mr_model_params *params);
    void (*close)(mr_model *model);
    int (*run)(const mr_binding *binding, void *const *inputs, void *const *outputs, mr_shape *measure);
    int (*enqueue)(const mr_binding *binding, void *const *inputs, void *const *outputs); /* NULL: on no device */
    int (*count)(const mr_binding *binding, struct mr_onnx_work *work); /* see mr_model_count; NULL: not known */
    int (*check)(const mr_model_params *params, const char *device); /* see mr_model_check */
    int (*mixing)(const mr_binding *binding, char *text); /* see mr_model_mixing; NULL: not known */
};
extern const mr_model_runtime mr_onnxruntime;
/* Another one opens models from now on; NULL: ONNX Runtime again. For tests. */
void mr_model_use_runtime(const mr_model_runtime *runtime);

/* Whether models can be run with that provider on the device of that name ("cuda:0"), as far as it can be known before
 * one is opened: MR_OK, or a message with the missing library, the folders that were searched, and a remedy. */
int mr_model_check(const mr_model_params *params, const char *device);

int mr_model_open(mr_model **model, const mr_model_params *params);
/* Closes *model and sets it to NULL; NULL is allowed. */
void mr_model_close(mr_model **model);

/* Fixes all input shapes (one for each input, no dimension free) and chooses outputs by position. Output shapes that
 * the model leaves open beyond a batch of `batch` items (0: it has no batch) are found by running it once on zeros. If
 * the file does not tell which outputs have an item for each frame of a larger batch, a `brief` model is also run with
 * one item more: the first dimension of such an output grows with it. */
int mr_model_bind(mr_model *model, mr_binding *binding, const mr_shape *inputs, int64_t batch, const size_t *outputs,
                  size_t output_count);
/* Makes the model's stream, on `device`. For runtimes. */
int mr_model_take_device(mr_model *model, mr_device *device);
/* Adds a run to the work of `stream`, which is one of the device that the model was opened for. inputs: one dense array
 * for each input; outputs: one for each chosen output; none may overlap, all lie in the device's memory and must stay
 * until the work is done. */
int mr_model_enqueue(const mr_binding *binding, mr_stream *stream, void *const *inputs, void *const *outputs);

/* The work of one run of a binding (onnx_work.h). False if it is not known: the runtime does not count, or the file
 * could not be read. */
bool mr_model_count(const mr_binding *binding, struct mr_onnx_work *work);

/* Writes the operator that computes across the frames of a batch (onnx_traits.h), so that a frame's outputs depend on
 * the others, as "ReduceMean at node "pool""; "" if there is none, or it is not known. Returns `text`. */
enum { MR_MODEL_MIXING = 192 };
const char *mr_model_mixing(const mr_binding *binding, char text[MR_MODEL_MIXING]);

/* Position of the input or output of that name; -1 if there is none. */
int mr_model_find(const mr_model_tensor *tensors, size_t count, const char *name);
/* Elements and bytes; 0 if a dimension is free or the product does not fit. */
size_t mr_shape_count(const mr_shape *shape);
/* "1x3x224x224", a free dimension as "?"; returns `text`. */
const char *mr_shape_print(const mr_shape *shape, char *text, size_t bytes);
/* "a, b, c", cut if there is not enough room; returns `text`. */
const char *mr_model_list(const mr_model_tensor *tensors, size_t count, char *text, size_t bytes);
enum { MR_SHAPE_TEXT = 128, MR_LIST_TEXT = 256 };
