/* Neural networks through one small table: open a model, read the inputs and outputs, bind it to shapes, run it.
 *
 * Usually a run is host work, whatever device asks for it. A runtime whose provider computes on a device must be opened
 * for that device. A run is then enqueued: inputs and outputs are in device memory, and no thread waits. Such a model
 * has a separate stream while it is open, and calls from several streams take turns.
 *
 * A model is one network loaded by one runtime. A binding fixes the input shapes and chooses outputs. Tensors are
 * identified by position in the model's input and output lists.
 *
 * Ownership: a binding belongs to its model and must be destroyed first. Names and shapes live as long as the model.
 * Threads: one thread at a time may open, bind and close a model. Unless the model is brief, several threads may call
 * mr_model_enqueue on one binding at once. Nothing here starts a thread. Errors: MR_ERROR_NO_INPUT (no such file),
 * MR_ERROR_DATA (the runtime cannot load the network, or a run failed), MR_ERROR_UNAVAILABLE (no runtime or provider on
 * this machine), MR_ERROR_CONFIG (no such tensor, shapes that do not fit, a provider for another kind of device),
 * MR_ERROR_DEVICE (the device failed). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include "millrace/format.h"
#include "millrace/stage.h"

enum { MR_MODEL_MAX_RANK = MR_MAX_RANK + 1, MR_MODEL_MAX_TENSORS = 32 };

/* Rank and sizes, including the batch. -1 is an open dimension: the caller chooses it, or the run determines it. */
typedef struct mr_shape {
    int rank;
    int64_t dims[MR_MODEL_MAX_RANK];
} mr_shape;

typedef struct mr_model_tensor {
    const char *name;
    mr_dtype dtype;   /* the frames' type, which may differ from the model's; ANY if no frame can hold it */
    const char *type; /* element type in words, such as "f32"; "a sequence" if it is no tensor */
    mr_shape shape;
    bool unshaped;    /* inputs: no shape is declared */
    const char *symbol; /* the model's name for an open first dimension; "" if it has none */
    const char *operation; /* outputs: operator that computes it (mr_onnx_finish); "" or NULL: not known */
    const char *sized_by;  /* outputs: operator whose values determine the row count (mr_onnx_sized_by); "" or NULL:
                              none */
} mr_model_tensor;

/* What computes. AUTO: CUDA on CUDA devices, else the processors. */
typedef enum mr_provider { MR_PROVIDER_AUTO, MR_PROVIDER_CPU, MR_PROVIDER_CUDA, MR_PROVIDER_TENSORRT } mr_provider;

typedef struct mr_model_params {
    const char *path;    /* an ONNX file */
    const char *external; /* file with the weights; NULL: the model contains them */
    const char *runtime; /* path to the runtime library; NULL: it is searched for */
    bool brief;          /* open only to describe it: faster, with less memory. If the file alone describes inputs and
                            outputs, the runtime is not needed, and nothing checks that it can load the file */
    const char *tensor;  /* one more output, by its name inside the network; NULL: only declared outputs */
    mr_device *device;   /* where to run; NULL, and if `brief`: the processors */
    mr_provider provider;
    uint64_t memory_bytes; /* provider's device memory limit, not counting inputs and outputs; 0: none */
    bool cuda_graph;       /* runs with one shape are recorded once and then launched together */
    const char *engine_cache; /* folder for the provider's engines; see mr_engine_cache_open */
    int64_t max_rows;      /* limit for outputs whose size depends on values; 0: such outputs are refused */
    const char *shapes;    /* inputs described for messages; NULL: not described */
} mr_model_params;

/* Notes that a file's metadata may have (onnx_report.h). */
typedef enum mr_model_note {
    MR_MODEL_PREPARED,   /* how the input was made from pictures */
    MR_MODEL_LABELS,     /* classes: labels.h reads this one and the next */
    MR_MODEL_NAMES,
    MR_MODEL_TASK,
    MR_MODEL_POINTS,
    MR_MODEL_CHARACTERS, /* a text recogniser's dictionary */
    MR_MODEL_NOTES
} mr_model_note;

typedef struct mr_binding mr_binding;
typedef struct mr_model_runtime mr_model_runtime;
struct mr_onnx_work;

typedef struct mr_model {
    const mr_model_runtime *runtime;
    char *path;
    const char *file; /* last path component, for messages */
    int64_t max_rows; /* as asked for */
    char *note[MR_MODEL_NOTES]; /* NULL: the file has none */
    bool brief, cuda_graph; /* as requested; cuda_graph needs all shapes */
    mr_stream *stream; /* where runs are enqueued; NULL: they are host work */
    pthread_mutex_t lock; /* guards stream */
    size_t input_count, output_count;
    mr_model_tensor inputs[MR_MODEL_MAX_TENSORS];
    mr_model_tensor outputs[MR_MODEL_MAX_TENSORS];
} mr_model;

/* A binding's chosen outputs, and all shapes, without open dimensions. */
struct mr_binding {
    mr_model *model;
    size_t output_count;
    size_t output[MR_MODEL_MAX_TENSORS]; /* positions in model->outputs */
    mr_shape input_shape[MR_MODEL_MAX_TENSORS];
    mr_shape output_shape[MR_MODEL_MAX_TENSORS];
    int rows_axis[MR_MODEL_MAX_TENSORS];      /* for outputs whose size depends on values: the row dimension;
                                                 output_shape says how many rows there is room for; -1: known size */
    bool per_frame[MR_MODEL_MAX_TENSORS];     /* with a batch: the first dimension counts items */
    bool varies;          /* runs have inputs of different shapes (mr_model_enqueue_shape); one is input_shape */
    size_t room_bytes[MR_MODEL_MAX_TENSORS]; /* then: the most that an output takes; set by the caller */
    mr_shape next_shape[MR_MODEL_MAX_TENSORS]; /* output shapes with one more item in the batch; rank -1: not tried */
};

/* A run writes such an output in two parts: how many rows there were (int64_t), and from MR_ROWS_BYTES as many rows as
 * fit. Only on the host. */
enum { MR_ROWS_BYTES = 64 };

/* If `varies` is set, a run writes each output in two parts: the shape (mr_shape), and from MR_VARIED_BYTES the
 * numbers. Only on the host. */
enum { MR_VARIED_BYTES = 128 };

/* One runtime. `open` fills the input and output lists, and must call mr_model_take_device if it computes on
 * params->device. `run` reads inputs and writes outputs in the caller's memory; if `measure` is set, it ignores
 * `outputs` and returns the output shapes in it. `enqueue` does the same on model->stream, in device memory; only one
 * thread at a time may call it. */
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
/* Replaces the runtime that opens models; NULL: ONNX Runtime again. For tests. */
void mr_model_use_runtime(const mr_model_runtime *runtime);

/* Whether models can run with that provider on this device ("cuda:0"), as far as can be known before opening one.
 * MR_OK, or a message with the missing library, the searched folders and a remedy. */
int mr_model_check(const mr_model_params *params, const char *device);

int mr_model_open(mr_model **model, const mr_model_params *params);
/* Closes *model and sets it to NULL; NULL is allowed. */
void mr_model_close(mr_model **model);

/* Fixes all input shapes (one per input, no open dimensions) and chooses outputs by position. If the model leaves
 * output shapes open beyond a batch of `batch` items (0: no batch), a trial run on zeros finds them. If the file does
 * not show which outputs have an item per frame, a `brief` model is also run with one more item: such an output's first
 * dimension grows. */
int mr_model_bind(mr_model *model, mr_binding *binding, const mr_shape *inputs, int64_t batch, const size_t *outputs,
                  size_t output_count);
/* Runtimes must call this to create the model's stream on `device`. */
int mr_model_take_device(mr_model *model, mr_device *device);
/* Adds a run to `stream`, which must belong to the device that the model was opened for. inputs: one dense array per
 * input; outputs: one per chosen output. None may overlap; all must be in device memory and stay valid until the work
 * is done. */
int mr_model_enqueue(const mr_binding *binding, mr_stream *stream, void *const *inputs, void *const *outputs);

/* The same for a binding that varies and has one input, whose shape is `input` in this run. Only on the host. */
int mr_model_enqueue_shape(const mr_binding *binding, mr_stream *stream, const mr_shape *input, void *const *inputs,
                           void *const *outputs);

/* One run's work for a binding (onnx_work.h). False if it is unknown: the runtime cannot count, or the file could not
 * be read. */
bool mr_model_count(const mr_binding *binding, struct mr_onnx_work *work);

/* Writes which operator computes across a batch's frames (onnx_traits.h), so that a frame's outputs depend on other
 * frames: "ReduceMean at node "pool"". "" if there is none, or it is not known. Returns `text`. */
enum { MR_MODEL_MIXING = 192 };
const char *mr_model_mixing(const mr_binding *binding, char text[MR_MODEL_MIXING]);

/* Position of the input or output with that name; -1 if there is none. */
int mr_model_find(const mr_model_tensor *tensors, size_t count, const char *name);
/* Elements and bytes; 0 if a dimension is open or the product overflows. */
size_t mr_shape_count(const mr_shape *shape);
/* Prints "1x3x224x224", with "?" for an open dimension; returns `text`. */
const char *mr_shape_print(const mr_shape *shape, char *text, size_t bytes);
/* Prints "a, b, c", truncated if there is too little room; returns `text`. */
const char *mr_model_list(const mr_model_tensor *tensors, size_t count, char *text, size_t bytes);
enum { MR_SHAPE_TEXT = 128, MR_LIST_TEXT = 256 };
