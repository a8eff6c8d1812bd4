/* Small networks with reference results (tests/reference/models.py), and running a pipeline on tensors. */
#pragma once

#include "millrace/millrace.h"

enum { MODELS_FRAMES = 7 };

/* Makes them in a folder of their own, under the working directory, or takes those that are in MILLRACE_TEST_MODELS, a
 * folder that tests/reference/models.py has made. False, with the reason, if the environment variable MILLRACE_PYTHON
 * does not name a Python with onnx and onnxruntime: tests are then skipped. Unless MILLRACE_ONNXRUNTIME is set, it will
 * be that Python's library. */
bool models_make(const char *folder);

/* Path of a file in that folder. */
void models_path(const char *name, char *path, size_t bytes);
/* How many workers models_run has; 0, which it is at first: as many as there are processors. */
extern int models_workers;

/* Reads FOLDER/NAME.raw; the test fails if it does not hold `count` floats. */
void models_read(const char *name, float *values, size_t count);

/* The tensors of the frames that arrived, one after the other. */
typedef struct arrived {
    size_t frames;
    void (*look)(struct arrived *seen, const mr_frame *frame);
    bool gaps; /* some may be missing */
    float values[4096]; /* of payloads, or of whatever `look` puts there */
    size_t count;
    size_t class_count[MODELS_FRAMES];
    mr_class classes[MODELS_FRAMES][16];
} arrived;
/* Looks: append the payload; the newest result of kind tensor; the classes. */
void look_at_payload(arrived *seen, const mr_frame *frame);
void look_at_tensor(arrived *seen, const mr_frame *frame);
void look_at_classes(arrived *seen, const mr_frame *frame);

/* Runs `stages` (YAML, indented by two, @ standing for the folder) on MODELS_FRAMES tensors of `format` (YAML, such
 * as "f32 3x8x6") from a push source called `in`, ending in a stage `sink` of type callback. Returns the first
 * failure. */
int models_run(const char *format, const float *frames, const char *stages, arrived *seen);
/* The status of opening such a pipeline; all messages, with hints, into `message`. */
int models_refused(const char *format, const char *stages, char *message, size_t bytes);
