/* Small networks with reference results (tests/reference/models.py), and a way to run pipelines on tensors. */
#pragma once

#include "millrace/millrace.h"

enum { MODELS_FRAMES = 7 };

/* Makes the networks in a new folder under the working directory, or uses MILLRACE_TEST_MODELS, a folder that
 * tests/reference/models.py has filled. False, with the reason, if the environment variable MILLRACE_PYTHON does not
 * name a Python with onnx and onnxruntime: tests should then be skipped. Without MILLRACE_ONNXRUNTIME, that Python's
 * library is used. */
bool models_make(const char *folder);
/* Skips the test unless models_make has returned true. */
void need_models(void);
#define MODEL_TEST(name) TEST_THAT(name, need_models)

/* A file's path in that folder. */
void models_path(const char *name, char *path, size_t bytes);
/* How many workers models_run uses; 0, the default: one per processor. */
extern int models_workers;

/* Reads FOLDER/NAME.raw, which must hold exactly `count` floats. */
void models_read(const char *name, float *values, size_t count);

/* Tensors from the frames that arrived, one after another. */
typedef struct arrived {
    size_t frames;
    void (*look)(struct arrived *seen, const mr_frame *frame);
    bool gaps; /* some may be missing */
    float values[4096]; /* from payloads, or whatever `look` writes */
    size_t count;
    size_t class_count[MODELS_FRAMES];
    mr_class classes[MODELS_FRAMES][16];
} arrived;
/* Values for `look`: append the payload; the newest tensor result; the classes. */
void look_at_payload(arrived *seen, const mr_frame *frame);
void look_at_tensor(arrived *seen, const mr_frame *frame);
void look_at_classes(arrived *seen, const mr_frame *frame);

/* Runs `stages` (YAML, indented by two; @ stands for the folder) on MODELS_FRAMES tensors with `format` (YAML, such as
 * "f32 3x8x6"). They come from a push source called `in` and end in a callback stage `sink`. Returns the first
 * failure. */
int models_run(const char *format, const float *frames, const char *stages, arrived *seen);
/* The same; every frame must arrive. */
void models_expect_run(const char *format, const float *frames, const char *stages, arrived *seen);
/* Returns the status from opening such a pipeline, and writes all messages, with hints, to `message`. */
int models_refused(const char *format, const char *stages, char *message, size_t bytes);
/* Opens a pipeline whose one stage reads `in` and has these options; it must be refused with this status (MR_OK:
 * any), and the message must have the words, up to NULL. */
void models_expect_refused(int status, const char *format, const char *options, const char *const *words);
#define REFUSED(status, format, options, ...)                                                                          \
    models_expect_refused(status, format, options, (const char *const[]){__VA_ARGS__, NULL})
